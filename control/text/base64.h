#pragma once
// Base64 (RFC 4648, 4), with padding.

#include <optional>
#include <string>
#include <string_view>

namespace tally::text {

[[nodiscard]] std::string base64(std::string_view bytes);
// Empty: it is none, or not the one that base64() makes of these bytes.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace tally::text

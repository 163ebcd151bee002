#pragma once
// Characters of a UTF-8 text, one by one, and how a terminal may see them.

#include <cstddef>
#include <string>
#include <string_view>

namespace tally {

// Bytes of the valid UTF-8 character (RFC 3629: no surrogates, no overlong forms) at `at`; 0 if there is
// none.
[[nodiscard]] std::size_t utf8_length(std::string_view text, std::size_t at) noexcept;

// The same, but a broken byte counts as a character of length 1. at < text.size().
[[nodiscard]] std::size_t character_length(std::string_view text, std::size_t at) noexcept;

// One character as a terminal may show it: a tab as \t, other control characters and broken bytes as \xNN.
[[nodiscard]] std::string printable(std::string_view character);

}  // namespace tally

#pragma once
// Sizes on the command line.

#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally {

// 4096, 4K, 1M or 2G: bytes; powers of 1024, also written KiB, MiB, GiB.
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace tally

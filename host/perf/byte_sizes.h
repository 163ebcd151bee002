#pragma once
// Sizes and counts on the command line and in tables.

#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally {

// 4096, 4K, 1M or 2G: bytes; powers of 1024, also written KiB, MiB, GiB.
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text);

// 25,557,032
[[nodiscard]] std::string with_commas(std::uint64_t n);
// 102 MB: in the unit that leaves 3 digits, powers of 1000.
[[nodiscard]] std::string short_bytes(std::uint64_t bytes);
// With `digits` behind the point.
[[nodiscard]] std::string fixed(double value, int digits);

}  // namespace tally

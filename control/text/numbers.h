#pragma once
// Numbers for people.

#include <cstdint>
#include <string>

namespace tally {

// 25,557,032
[[nodiscard]] std::string with_commas(std::uint64_t n);
// 102 MB: in the unit that leaves 3 digits, powers of 1000.
[[nodiscard]] std::string short_bytes(std::uint64_t bytes);
// With `digits` behind the point.
[[nodiscard]] std::string fixed(double value, int digits);
// part / whole with one digit behind the point, such as "12.5 %"; "-" if whole is 0.
[[nodiscard]] std::string share_text(std::uint64_t part, std::uint64_t whole);

}  // namespace tally

#pragma once
// Whether all workers mean the same, found out by a sum through the box of what each says. Pure.

#include <cstdint>
#include <span>
#include <vector>

namespace tally::kv {

// What a worker says so that all know whether all say the same: a name of 60 bits in five pieces, and their squares.
inline constexpr std::size_t kQuestionWords = 10;
[[nodiscard]] std::vector<std::int32_t> question_of(std::uint64_t name);
// sums: modulo 2^32. Up to 256 workers it is certain; beyond, names that differ may pass for one in rare cases.
[[nodiscard]] bool all_equal(std::span<const std::int32_t> sums, int workers);

}  // namespace tally::kv

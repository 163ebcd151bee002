#pragma once
// Whether all workers mean the same, found out by a sum through the box of what each says. Pure.

#include <cstdint>
#include <span>
#include <vector>

namespace tally::kv {

// What a worker says so that all know whether all say the same: a name of 60 bits in five pieces, and their squares.
// Over any number of workers below 2^7, sum and sum of squares tell whether the pieces were equal.
inline constexpr std::size_t kQuestionWords = 10;
[[nodiscard]] std::vector<std::int32_t> question_of(std::uint64_t name);
[[nodiscard]] bool all_equal(std::span<const std::int32_t> sums, int workers);

}  // namespace tally::kv

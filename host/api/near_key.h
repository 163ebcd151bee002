#pragma once
// What somebody who mistyped a setting may have meant.

#include <span>
#include <string_view>

namespace tally {

// The candidate fewest typing errors away from `word` (one letter wrong, missing, too many, or two swapped);
// empty if none is within a third of its length.
[[nodiscard]] std::string_view near_key(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tally

#pragma once
// How far a word is from the one that was meant; each caller decides how far is near.

#include <cstddef>
#include <string_view>

namespace tally {

// Optimal string alignment distance: letters wrong, missing, too many, or two neighbours swapped.
[[nodiscard]] std::size_t typing_errors(std::string_view a, std::string_view b);

}  // namespace tally

#pragma once
// Did you mean ...?

#include <string>
#include <string_view>
#include <vector>

namespace tally {

// The candidate fewest typing errors away from `word` (one letter wrong, missing, too many, or two swapped;
// case, '-' and '_' do not count; its beginning is near too); empty if none is near.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tally

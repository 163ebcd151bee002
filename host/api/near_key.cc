#include "near_key.h"

#include <algorithm>
#include <cstddef>

#include "typing_errors.h"

namespace tally {
std::string_view near_key(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kLongestWord = 64;
  word = word.substr(0, kLongestWord);
  std::string_view best;
  std::size_t fewest = 0;
  for (const std::string_view candidate : candidates) {
    const std::size_t errors = typing_errors(word, candidate);
    if (errors > std::max<std::size_t>(1, candidate.size() / 3) || errors >= word.size()) continue;
    if (best.empty() || errors < fewest) {
      best = candidate;
      fewest = errors;
    }
  }
  return best;
}

}  // namespace tally

#include "nearest.h"

#include <algorithm>
#include <cctype>

#include "typing_errors.h"

namespace tally {
namespace {

std::string folded(std::string_view word) {
  std::string out(word.substr(0, 64));
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string wanted = folded(word);
  std::string best;
  std::size_t fewest = 0;
  for (const auto& candidate : candidates) {
    const std::string folded_candidate = folded(candidate);
    const std::size_t allowed =
        std::max<std::size_t>(1, std::min(wanted.size(), folded_candidate.size()) / 3);
    const bool part = wanted.size() > 2 &&
                      (folded_candidate.starts_with(wanted) || wanted.starts_with(folded_candidate + "_"));
    const std::size_t errors = part ? 1 : typing_errors(wanted, folded_candidate);
    if (errors > allowed || errors >= wanted.size()) continue;
    if (best.empty() || errors < fewest) {
      best = candidate;
      fewest = errors;
    }
  }
  return best;
}

}  // namespace tally

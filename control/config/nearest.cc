#include "nearest.h"

#include <algorithm>
#include <cctype>

namespace tally {
namespace {

std::string folded(std::string_view word) {
  std::string out(word.substr(0, 64));
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Optimal string alignment distance.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
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
    const std::size_t errors = part ? 1 : distance(wanted, folded_candidate);
    if (errors > allowed || errors >= wanted.size()) continue;
    if (best.empty() || errors < fewest) {
      best = candidate;
      fewest = errors;
    }
  }
  return best;
}

}  // namespace tally

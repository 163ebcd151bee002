#pragma once
// Which of the things that a transport says of its path are worth a line: a new kind, at most once a minute.

#include <algorithm>
#include <optional>
#include <string>

#include "tally/time.h"

namespace tally {

// One thread.
class TroubleNews {
 public:
  // trouble: as Transport's, or empty. What came too early is news later, if it is still said then.
  [[nodiscard]] bool is_news(const std::string& trouble, TimeNs now) {
    if (trouble.empty() || (said_at_ && now < *said_at_ + kPause)) return false;
    std::string kind = trouble;  // without its counts and the plurals that they make
    kind.erase(
        std::remove_if(kind.begin(), kind.end(), [](char c) { return (c >= '0' && c <= '9') || c == 's'; }),
        kind.end());
    if (kind == said_) return false;
    said_ = std::move(kind);
    said_at_ = now;
    return true;
  }

 private:
  static constexpr TimeNs kPause = 60 * kSecond;
  std::string said_;
  std::optional<TimeNs> said_at_;
};

}  // namespace tally

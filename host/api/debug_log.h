#pragma once
// TALLY_DEBUG: lines on stderr. INFO: whom a joining worker waits for, one for every generation joined, one
// when the path makes trouble of a new kind (at most every minute), when the Worker closes, one at its end.
// TRACE: also epochs, rejects, and whatever was refused or repeated since the last line.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/transport.h"
#include "tally/engine_statistics.h"
#include "tally/error.h"
#include "tally/time.h"
#include "tally/worker.h"

namespace tally {

// Which of the things that a transport says of its path are worth a line: a new kind, at most once a minute.

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

// Owner: the progress thread. Silent unless options.debug says otherwise.
class DebugLog {
 public:
  explicit DebugLog(const WorkerOptions& options);

  // The job's packets are smaller than the program wished for, or than the path allows.
  void lowered(std::uint16_t wished, std::uint16_t carried) const;
  void attached(const Transport& transport) const;
  void joined(const engine::Membership& membership, const EngineStatistics& statistics,
              const Transport& transport);
  void changed(const EngineStatistics& statistics);
  // While joining; ranks: bitmap, 0: the box has not said; its bit 0 is first_rank. Says each new answer once.
  void waiting(std::uint64_t ranks, std::uint32_t first_rank);
  // What the transport says of the path; empty: nothing. Said as TroubleNews decides, and again at the end.
  void troubled(const std::string& trouble, TimeNs now);
  void closed(const Error& error) const;
  void summary(const EngineStatistics& statistics, std::uint64_t datagrams) const;

 private:
  void line(std::string_view text) const;

  bool info_ = false;
  bool trace_ = false;
  std::string prefix_;
  std::string path_;  // box and transport
  std::uint64_t generation_ = 0;
  std::uint64_t waiting_for_ = 0;
  std::string trouble_;
  TroubleNews news_;
  EngineStatistics last_{};
};

}  // namespace tally

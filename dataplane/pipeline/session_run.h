#pragma once
// How far the clients of a session (dialect switchml) are. Their packets name the running operation by 8
// bits, which begin at 0 again whenever they are started; counted on here, no operation of the past looks
// like one of now. Metadata of the match stage, like occupancy: a chip would keep it in a register and
// recirculate.

#include <cstdint>

#include "tally/ids.h"
#include "tally/time.h"

namespace tally {

// An entry that nobody came to for so long was left behind; and clients of whom nothing was heard for so long
// are done with all they had begun. Those who wait for a result ask for it again far more often.
inline constexpr TimeNs kSessionPatience = kSecond;

class SessionRun {
 public:
  // The operation of a packet with this job_number: of those that it can mean the nearest one, from kBehind
  // before the newest that completed a chunk to kAhead after it. But after a silence the newest and those
  // before it are over: such a number is that of clients that were started again, of an operation further
  // ahead than any number reaches.
  [[nodiscard]] std::uint32_t operation(Epoch epoch, std::uint8_t job_number, TimeNs now) noexcept {
    if (epoch_ != epoch) begin(epoch, kNumbers + job_number, now);
    const auto ahead = static_cast<std::uint8_t>(job_number - newest_);
    const bool behind = ahead > kAhead;
    std::uint32_t operation = newest_ + ahead - (behind ? kNumbers : 0);
    if ((behind || ahead == 0) && silent(now)) {
      newest_ = operation += 2 * kNumbers;
      vouched_ = false;
    }
    return operation;
  }
  // The number of the clients' life, for packets that have none of an operation: another one after a silence.
  [[nodiscard]] std::uint32_t life(Epoch epoch, TimeNs now) noexcept {
    if (epoch_ != epoch) begin(epoch, 1, now);
    if (silent(now)) ++newest_;
    return newest_;
  }
  // A packet was for a chunk that is, or was, worked on; `completed`: everybody vouches for the operation,
  // also if a single old packet was heard first and made the count begin too far ahead. What was dropped as
  // stale or foreign is no sign of life: clients that were started again too early are heard when they have
  // tried for long enough.
  void heard(std::uint32_t operation, bool completed, TimeNs now) noexcept {
    heard_ = now;
    if (!completed || (vouched_ && static_cast<std::int32_t>(operation - newest_) <= 0)) return;
    newest_ = operation;
    vouched_ = true;
  }
  // Nobody listened for so long: that is no silence of the clients.
  void unheard(TimeNs time) noexcept {
    if (epoch_ != Epoch{}) heard_ += time;
  }

  // Threads of a client run operations side by side, but not many; and every number that may be ahead is one
  // less that is known to be old.
  static constexpr std::uint32_t kAhead = 7;
  static constexpr std::uint32_t kNumbers = 256;  // what job_number can tell apart
  static constexpr std::uint32_t kBehind = kNumbers - 1 - kAhead;

 private:
  void begin(Epoch epoch, std::uint32_t newest, TimeNs now) noexcept {
    epoch_ = epoch;
    newest_ = newest;
    vouched_ = false;
    heard_ = now;
  }
  [[nodiscard]] bool silent(TimeNs now) const noexcept { return now - heard_ > kSessionPatience; }

  Epoch epoch_{};  // 0: nothing was heard yet
  std::uint32_t newest_ = 0;
  bool vouched_ = false;  // newest_ is of a complete chunk
  TimeNs heard_ = 0;
};

}  // namespace tally

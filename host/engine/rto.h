#pragma once
// Retransmission timeout after RFC 6298 with Karn's rule (the caller samples only chunks sent once). One
// estimate and one back-off for all chunks in flight: the back-off doubles once per round of time-outs, not
// once per lost packet, and a sample ends it. So does any other result while samples come: with many ranks
// hardly a chunk gets through without a loss somewhere. When none of the last kWithoutSample results was one,
// the timeout is probably shorter than the round trip: everything is sent twice, nothing is sampled, and it
// must grow.
//
// Results that a server made take another way than the box's own, and longer. They have an estimate of their
// own, so that a chunk is not taken for lost that is only on that way (as RACK's reordering window, RFC
// 8985).

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tally/time.h"

namespace tally::engine {

inline constexpr TimeNs kFirstRto = 100 * kMillisecond;
inline constexpr TimeNs kRtoCeiling = kSecond;
inline constexpr TimeNs kLeastEarly = 500 * kMicrosecond;
inline constexpr std::uint32_t kWithoutSample = 32;
inline constexpr std::uint32_t kLeastBurst = 16;

// A smoothed time and how much it varies.
class RoundTrip {
 public:
  void sample(TimeNs rtt) noexcept;
  [[nodiscard]] bool sampled() const noexcept { return sampled_; }
  [[nodiscard]] TimeNs smoothed() const noexcept { return smoothed_; }
  [[nodiscard]] TimeNs varies() const noexcept { return varies_; }
  [[nodiscard]] TimeNs most() const noexcept { return smoothed_ + 4 * varies_; }
  // Of the last 64 to 128 samples; 0: there was none. What waits behind a loss, at whatever rank, makes all
  // the others longer.
  [[nodiscard]] TimeNs least() const noexcept {
    const TimeNs least = std::min(least_, least_before_);
    return least == kNever ? 0 : least;
  }

 private:
  static constexpr std::uint32_t kLeastOf = 64;
  TimeNs least_ = kNever;
  TimeNs least_before_ = kNever;
  std::uint32_t count_ = 0;
  TimeNs smoothed_ = 0;
  TimeNs varies_ = 0;
  bool sampled_ = false;
};

class Rto {
 public:
  explicit Rto(TimeNs floor) noexcept : floor_(floor), base_(std::max(floor, kFirstRto)) {}

  void sample(TimeNs rtt) noexcept;
  // A result of a chunk that was sent more than once.
  void result_without_sample() noexcept;
  // There is the result of a chunk that was asked for early. lost: a packet of it had been.
  void asked_for(bool lost) noexcept { in_vain_ = lost ? 0 : std::min(in_vain_ + 1, kLongInVain); }
  // After either. served: a server made it; rtt: as sample()'s, if it was one; waited: the same of a chunk that
  // was asked for, and came without that. While questions find nothing lost it counts, for a server: where the
  // queue in front of one has grown all is asked for, which makes it longer, and nothing else would tell how long
  // it is. Else it may have taken so long because of another rank's repair.
  void made_by(bool served, std::optional<TimeNs> rtt, std::optional<TimeNs> waited) noexcept;

  // A packet sent at `sent_at` ran out at `now`. Doubles unless it was sent before the last doubling: then it
  // belongs to the round that caused it.
  void expired(TimeNs sent_at, TimeNs now) noexcept;

  // When the next one that ran out may be sent. While there is a back-off, at most `window` >> doublings (at
  // least kLeastBurst) leave in the time of one timeout, those that waited longest first: a queue that is too
  // short for all would lose the same ones every time, and these may be other ones at each rank.
  [[nodiscard]] TimeNs pause_end(std::uint32_t window) const noexcept {
    if (level_ == 0 || burst_ < std::max(kLeastBurst, window >> level_)) return 0;
    return burst_at_ + timeout();
  }

  // What the back-off was for is over.
  void forget_back_off() noexcept { level_ = 0; }

  // When a packet sent at `sent_at` runs out. Does not decrease with `sent_at`, so a list in order of sending
  // is a list in order of running out.
  [[nodiscard]] TimeNs due(TimeNs sent_at) const noexcept {
    return sent_at + (level_ != 0 && sent_at < doubled_at_ ? timeout(level_ - 1) : timeout(level_));
  }
  [[nodiscard]] TimeNs timeout() const noexcept { return timeout(level_); }
  // When to ask for what was overtaken. Everybody has sent it, for everybody has sent what overtook it, and
  // that took newest_. What another rank lost is told and sent again within a round trip more; half of that
  // is waited for. All of it would spare most questions in vain, which are headers, but a result that was
  // lost would come when the window has run out. The path is known to work: no back-off, no floor.
  [[nodiscard]] TimeNs ask_due(TimeNs sent_at, std::uint32_t window) const noexcept {
    const TimeNs repaired = newest_ + path_.least() / 2;
    return sent_at + std::min(std::max(repaired, served_time(window)), kRtoCeiling);
  }
  // When to ask for what is known to lack somebody's contribution since then, where nothing that is sent
  // later shows that its repair was lost, too.
  [[nodiscard]] TimeNs repair_due(TimeNs since) const noexcept {
    return since + std::clamp(newest_ + 2 * path_.least(), kLeastEarly, kRtoCeiling);
  }
  // When to ask for the first time for what nothing overtook; `since` is when anything last moved. After more
  // than the least, for most results take longer and are only late, but before the timer.
  [[nodiscard]] TimeNs first_due(TimeNs since, std::uint32_t window) const noexcept {
    if (!path_.sampled()) return kNever;  // what is late?
    const TimeNs late = path_.least() + std::min(path_.least(), floor_ / 2);
    return since + std::min(std::max({late, kLeastEarly, served_time(window)}), kRtoCeiling);
  }
  // When to ask for what was asked for `asked` times, last at `since`. A peer's turn and the server's follow
  // one another at once where it may be either; then the interval grows, so that who waits for another rank
  // does not ask for ever. told: what is sent later shows that the answer is lost, if anything is. Also before
  // the first sample: what was asked for has no timer.
  [[nodiscard]] TimeNs question_due(TimeNs since, std::uint32_t asked, bool told,
                                    std::uint32_t window) const noexcept {
    if (asks_at_once(asked, window)) return since;
    const std::uint32_t doublings = std::min(asked < 4 ? 0 : asked / 2 - 1, kMostDoublings);
    const TimeNs answered = told ? newest_ + 2 * path_.least() : path_.least();
    const TimeNs round = std::clamp(answered, kLeastEarly, kRtoCeiling) << doublings;
    return since + std::min(std::max(round, served_time(window)), kRtoCeiling);
  }
  // The question after `asked` others follows the one before it without a pause.
  [[nodiscard]] bool asks_at_once(std::uint32_t asked, std::uint32_t window) const noexcept {
    return asks_server(asked) && served_time(window) != 0;
  }
  // Of the questions for a chunk every second one goes on to its server. The 3rd and every 4th after it name
  // a peer: by hash, or after a restart, the box does not know that others have the result.
  [[nodiscard]] static constexpr bool asks_server(std::uint32_t asked) noexcept { return asked % 2 == 1; }
  [[nodiscard]] static constexpr bool asks_peer(std::uint32_t asked) noexcept { return asked % 4 == 2; }
  [[nodiscard]] TimeNs srtt() const noexcept { return path_.smoothed(); }

 private:
  static constexpr std::uint32_t kMostDoublings = 20;
  static constexpr std::uint32_t kFewInVain = 8;
  static constexpr std::uint32_t kInVain = 16;
  static constexpr std::uint32_t kLongInVain = 64;
  static constexpr std::uint64_t kLongAgo = std::uint64_t{1} << 62;

  // How long a result may take that a server makes; 0 if none of the last 4 windows of results was such a
  // one. While questions find nothing lost, who asks so early only keeps the server busy: the longer that is
  // so, the later.
  [[nodiscard]] TimeNs served_time(std::uint32_t window) const noexcept {
    if (since_served_ >= 4 * std::uint64_t{window}) return 0;
    if (in_vain_ >= kLongInVain) return newest_served_ + 4 * served_.least();
    if (in_vain_ >= kInVain) return newest_served_ + 2 * served_.least();
    return std::min(served_.most(), newest_served_ + served_.least());
  }
  [[nodiscard]] TimeNs timeout(std::uint32_t level) const noexcept {
    return std::min(base_ << level, kRtoCeiling);
  }

  TimeNs floor_;
  TimeNs base_;        // without back-off
  RoundTrip path_;     // of all results
  RoundTrip served_;   // of those that a server made
  TimeNs newest_ = 0;  // newest sample of each
  TimeNs newest_served_ = 0;
  TimeNs doubled_at_ = 0;
  TimeNs burst_at_ = 0;
  std::uint32_t burst_ = 0;    // ran out and were sent since then
  std::uint32_t in_vain_ = 0;  // chunks asked for since the last of which something was lost
  std::uint32_t level_ = 0;
  std::uint32_t without_sample_ = kWithoutSample;  // results since the last one
  std::uint64_t since_served_ = kLongAgo;          // results since the last that a server made
};

}  // namespace tally::engine

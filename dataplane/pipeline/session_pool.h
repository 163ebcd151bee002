#pragma once
// The rules of a session (dialect switchml; docs/switchml.md says why): where the entry of a slot's set lies,
// which operation a packet is of, and `decide`, one for each TsiRule.

#include <cstddef>
#include <cstdint>

#include "jobs/job_table.h"
#include "pipeline/decision.h"
#include "pipeline/registers.h"
#include "tally/ids.h"
#include "tally/switchml.h"
#include "tally/time.h"

namespace tally::pipeline {

// How far the clients of a session (dialect switchml) are. Their packets name the running operation by 8
// bits, which begin at 0 again whenever they are started; counted on here, no operation of the past looks
// like one of now. Metadata of the match stage, like occupancy: a chip would keep it in a register and
// recirculate.

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

// A packet of a session as the program sees it, beside its Contribution (whose chunk is tsi, and whose
// `exponent` is the first one).
struct SessionPacket {
  std::uint32_t head = 0;       // line of the head that decides
  std::uint32_t set = 0;        // 0 or 1
  std::uint32_t operation = 0;  // of SessionRun; tsi: opaque: the life
  std::uint32_t now = 0;        // stamp()
  std::uint8_t job_number = 0;
  std::int8_t exponent1 = 0;  // (out)
  ReturnPath path;
};

constexpr std::uint32_t session_line(const jobs::SessionJob& job, std::uint32_t slot,
                                     std::uint32_t set) noexcept {
  return job.slots.first + (2 * slot + set) * jobs::session_entry_lines(job.world, job.payload);
}

// Where the reply to a member goes. line: of the entry; slot memory may have 2^30 lines.
constexpr std::size_t path_of(std::uint32_t line, std::uint32_t rank) noexcept {
  return (std::size_t{line} + 1) * jobs::kPathsPerLine + rank;
}

// tsi: packet. A chunk is (operation, tsi); an entry only ever goes on to newer chunks, but for one that was
// left behind unfinished.
struct PacketSession {
  static Decision decide(Head& head, Owner& owner, std::uint32_t& operation, const Contribution& p,
                         const SessionPacket& s, const jobs::SessionJob& job) noexcept {
    const std::uint32_t session = raw(job.epoch) << 8U;  // its lower 24 bits; never 0
    const bool ours = (head.tag & ~std::uint32_t{0xFF}) == session;
    const bool filling = head.tag != 0 && head.contributors != job.members;
    const bool left_behind = filling && s.now - owner.touched > jobs::stamp(kSessionPatience);
    if (ours && !left_behind) {
      const auto newer = static_cast<std::int32_t>(s.operation - operation);
      if (newer == 0 && raw(p.chunk) == head.chunk) return join(head, owner, filling, p, s, job);
      if ((newer < 0 && newer > -kOldest) || (newer == 0 && raw(p.chunk) < head.chunk))
        return {.drop = Drop::kStale};
      if (filling) return {.drop = Drop::kForeign};
    }
    head = {session | s.job_number, raw(p.chunk), p.bit};
    owner.touched = s.now;
    operation = s.operation;
    const int fills = job.members == p.bit ? 0 : 1;
    return {.op = Op::kWrite, .occupancy = static_cast<std::int8_t>(fills - (filling ? 1 : 0))};
  }

 private:
  // No packet is of an operation so far behind an entry's: one that looks so is 2^31 operations ahead of it.
  static constexpr std::int32_t kOldest = 2 * SessionRun::kNumbers;

  // Also who asks again shows that the entry is waited for.
  static Decision join(Head& head, Owner& owner, bool filling, const Contribution& p, const SessionPacket& s,
                       const jobs::SessionJob& job) noexcept {
    if (!filling) return {.op = Op::kRead, .entry_is_ours = true};
    owner.touched = s.now;
    if ((head.contributors & p.bit) != 0) return {.drop = Drop::kDuplicate, .entry_is_ours = true};
    head.contributors |= p.bit;
    if (head.contributors != job.members) return {.op = Op::kAdd, .entry_is_ours = true};
    return {.op = Op::kAddEmit, .entry_is_ours = true, .occupancy = -1};
  }
};

// tsi: opaque. The head of set 0 is both sets': 32 bits of contributors each, and in `chunk` a bit for each
// set that is complete, below the life that all of it is of. Its tag stays 0, and occupancy is not counted.
struct OpaqueSession {
  static Decision decide(Head& head, const Contribution& p, const SessionPacket& s,
                         const jobs::SessionJob& job) noexcept {
    const std::uint32_t life = s.operation << 2U;
    if ((head.chunk & ~kFlags) != life) head = {.chunk = life};
    const std::uint64_t bit = p.bit << (32 * s.set);
    const std::uint64_t ours = kSet << (32 * s.set);
    const std::uint32_t flag = 1U << s.set;
    const bool complete = (head.chunk & flag) != 0;
    if ((head.contributors & bit) != 0) {
      if (complete) return {.op = Op::kRead, .entry_is_ours = true};
      return {.drop = Drop::kDuplicate, .entry_is_ours = true};
    }
    const bool empty = (head.contributors & ours) == 0;
    // Complete, and its others have not released it yet: whoever comes again is ahead of them by a round.
    if (complete && !empty) return {.drop = Drop::kForeign};
    head.contributors |= bit;
    release_other(head, bit, s);
    const bool all = (head.contributors & ours) == job.members << (32 * s.set);
    head.chunk = all ? head.chunk | flag : head.chunk & ~flag;
    if (empty) return {.op = Op::kWrite};
    return {.op = all ? Op::kAddEmit : Op::kAdd, .entry_is_ours = true};
  }

 private:
  static constexpr std::uint64_t kSet = 0xFFFF'FFFF;
  static constexpr std::uint32_t kFlags = 3;

  // A contribution to one set says that its sender has the other's result. If that is not there, the sum
  // cannot be right any more: everybody begins it again.
  static void release_other(Head& head, std::uint64_t bit, const SessionPacket& s) noexcept {
    const std::uint32_t other = 1 - s.set;
    const std::uint64_t in_other = s.set == 0 ? bit << 32 : bit >> 32;
    if ((head.contributors & in_other) == 0) return;
    const bool complete = (head.chunk >> other & 1) != 0;
    head.contributors &= complete ? ~in_other : ~(kSet << (32 * other));
  }
};

}  // namespace tally::pipeline

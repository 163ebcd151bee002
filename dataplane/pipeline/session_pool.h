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

// Which operation the clients of a session are in. Their packets name it by 8 bits, which begin at 0 whenever
// clients are started; counted on here, no operation of the past looks like one of now. A member does one
// operation after the other (the published client's threads wait for each other between two), and a result
// takes all members. So once a chunk of operation o is complete, each of them has all it needs of those
// before o, and none can be further than in o + 1. No time is in these rules: silence proves nothing.
// Metadata of the match stage, like occupancy: a chip would keep it in a register and recirculate.
class SessionRun {
 public:
  // The operation of a packet with this job_number. Before the first chunk is complete nothing is known: then
  // it is the nearest to the first that was heard.
  [[nodiscard]] std::uint32_t operation(Epoch epoch, std::uint8_t job_number) noexcept {
    if (epoch_ != epoch) {
      epoch_ = epoch;
      newest_ = kNumbers + job_number;
      vouched_ = false;
    }
    const auto ahead = static_cast<std::uint8_t>(job_number - newest_);
    const bool behind = ahead > (vouched_ ? kAhead : kNumbers / 2);
    return newest_ + ahead - (behind ? kNumbers : 0);
  }
  // No member waits for anything of it any more.
  [[nodiscard]] bool is_over(std::uint32_t operation) const noexcept {
    return vouched_ && static_cast<std::int32_t>(operation - newest_) < 0;
  }
  // A member may be in it. Of what an entry holds: it is neither over nor from when the count was a guess.
  [[nodiscard]] bool is_current(std::uint32_t operation) const noexcept {
    return !vouched_ || operation - newest_ <= kAhead;
  }
  // A chunk of it is: all members vouch for it.
  void complete(std::uint32_t operation) noexcept {
    if (!vouched_ || static_cast<std::int32_t>(operation - newest_) > 0) newest_ = operation;
    vouched_ = true;
  }

  static constexpr std::uint32_t kAhead = 1;
  static constexpr std::uint32_t kNumbers = 256;  // what job_number can tell apart

 private:
  Epoch epoch_{};  // 0: nothing was heard yet
  std::uint32_t newest_ = 0;
  bool vouched_ = false;  // newest_ has a complete chunk
};

// Whether members ask and nothing comes of it. Only control hears of that: no rule looks at it.
class SessionStall {
 public:
  void moved() noexcept { since_ = 0; }
  // A packet that changed nothing. True: it has been so for a while, and control was not told of late.
  [[nodiscard]] bool asked(TimeNs now) noexcept {
    if (since_ == 0) since_ = now;
    if (now - since_ < kPatience || (told_ != 0 && now - told_ < kQuiet)) return false;
    told_ = now;
    return true;
  }
  [[nodiscard]] TimeNs since() const noexcept { return since_; }

 private:
  static constexpr TimeNs kPatience = 5 * kSecond;
  static constexpr TimeNs kQuiet = 60 * kSecond;

  TimeNs since_ = 0;  // 0: nobody has asked since something moved
  TimeNs told_ = 0;
};

// A packet of a session as the program sees it, beside its Contribution (whose chunk is tsi, and whose
// `exponent` is the first one).
struct SessionPacket {
  std::uint32_t head = 0;       // line of the head that decides
  std::uint32_t set = 0;        // 0 or 1
  std::uint32_t operation = 0;  // of SessionRun; tsi: opaque: none
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

// tsi: packet. A chunk is (operation, tsi). An entry goes on to another chunk when it is complete or its
// operation is over, never because of its age.
struct PacketSession {
  static Decision decide(Head& head, std::uint32_t& operation, const Contribution& p, const SessionPacket& s,
                         const SessionRun& run, const jobs::SessionJob& job) noexcept {
    if (run.is_over(s.operation)) return {.drop = Drop::kStale};
    const std::uint32_t session = raw(job.epoch) << 8U;  // its lower 24 bits; never 0
    const bool ours = (head.tag & ~std::uint32_t{0xFF}) == session;
    const bool filling = head.tag != 0 && head.contributors != job.members;
    if (ours) {
      if (s.operation == operation && raw(p.chunk) == head.chunk) return join(head, filling, p, job);
      if (run.is_current(operation)) {
        const auto newer = static_cast<std::int32_t>(s.operation - operation);
        if (newer < 0 || (newer == 0 && raw(p.chunk) < head.chunk)) return {.drop = Drop::kStale};
        if (filling) return keep(head, p);
        // Uses of an entry within an operation are two windows apart, an even number of packets. Clients as
        // published number the timers of a first window one too high.
        if (newer == 0 && (raw(p.chunk) - head.chunk) % 2 != 0) return {.drop = Drop::kForeign};
      }
    }
    head = {session | s.job_number, raw(p.chunk), p.bit};
    operation = s.operation;
    const int fills = job.members == p.bit ? 0 : 1;
    return {.op = Op::kWrite, .occupancy = static_cast<std::int8_t>(fills - (filling ? 1 : 0))};
  }

 private:
  static Decision join(Head& head, bool filling, const Contribution& p,
                       const jobs::SessionJob& job) noexcept {
    if (!filling) return {.op = Op::kRead, .entry_is_ours = true};
    if ((head.contributors & p.bit) != 0) return {.drop = Drop::kDuplicate, .entry_is_ours = true};
    head.contributors |= p.bit;
    if (head.contributors != job.members) return {.op = Op::kAdd, .entry_is_ours = true};
    return {.op = Op::kAddEmit, .entry_is_ours = true, .occupancy = -1};
  }
  // Whoever is in the entry waits for it, whatever its timer says; who is not has to wait until it is free.
  static Decision keep(const Head& head, const Contribution& p) noexcept {
    if ((head.contributors & p.bit) == 0) return {.drop = Drop::kForeign};
    return {.drop = Drop::kDuplicate, .entry_is_ours = true};
  }
};

// tsi: opaque. The head of set 0 is both sets': 32 bits of contributors each, and in `chunk` a bit for each
// set that is complete, below the epoch's lower 30 bits. Its tag stays 0, and occupancy is not counted.
struct OpaqueSession {
  static Decision decide(Head& head, const Contribution& p, const SessionPacket& s,
                         const jobs::SessionJob& job) noexcept {
    const std::uint32_t epoch = raw(job.epoch) << 2U;  // never 0
    if ((head.chunk & ~kFlags) != epoch) head = {.chunk = epoch};
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

#pragma once
// The rules of a session (dialect switchml; docs/switchml.md says why): where the entry of a slot's set lies,
// which operation a packet is of, and `decide`, one for each TsiRule.

#include <cstddef>
#include <cstdint>

#include "decision.h"
#include "job_table.h"
#include "registers.h"
#include "session_run.h"
#include "tally/switchml.h"

namespace tally {

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

constexpr std::uint32_t session_line(const Job& job, std::uint32_t slot, std::uint32_t set) noexcept {
  return job.slots.first + (2 * slot + set) * session_entry_lines(job.world, job.session->payload);
}

// Where the reply to a member goes. line: of the entry; slot memory may have 2^30 lines.
constexpr std::size_t path_of(std::uint32_t line, std::uint32_t rank) noexcept {
  return (std::size_t{line} + 1) * kPathsPerLine + rank;
}

// tsi: packet. A chunk is (operation, tsi); an entry only ever goes on to newer chunks, but for one that was
// left behind unfinished.
struct PacketSession {
  static Decision decide(Head& head, Owner& owner, std::uint32_t& operation, const Contribution& p,
                         const SessionPacket& s, const Job& job) noexcept {
    const std::uint32_t session = raw(job.epoch) << 8U;  // its lower 24 bits; never 0
    const bool ours = (head.tag & ~std::uint32_t{0xFF}) == session;
    const bool filling = head.tag != 0 && head.contributors != job.members;
    const bool left_behind = filling && s.now - owner.touched > stamp(kSessionPatience);
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
                       const Job& job) noexcept {
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
  static Decision decide(Head& head, const Contribution& p, const SessionPacket& s, const Job& job) noexcept {
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

}  // namespace tally

#pragma once
// The pool discipline of jobs that opted in to INCOMPLETE results. Registers and rules are the pool's; beside
// them an entry knows since when it fills, and whom its result lacks if it could not wait for everybody.

#include <bit>
#include <cstdint>

#include "pool.h"
#include "registers.h"

namespace tally {

struct StragglerPool : Pool {
  std::uint32_t now = 0;      // stamp()
  std::uint64_t missing = 0;  // (out) ranks that the entry's result lacks; 0 while it fills

  // No older than the chunk whose entry it would have been: with a window that was made smaller the span
  // reaches further back than two windows, and an entry that a bad sum freed no longer says what it held. A
  // chunk that has a result must not be begun again, for now it may get another one. Whom this refuses asks
  // peers; if none had the result, nobody would be 2W ahead in this epoch.
  static Decision order(High& high, const Contribution& p, const Job& job) noexcept {
    const auto back = -static_cast<std::int32_t>(2 * job.window);
    if (high.epoch == raw(p.epoch) && serial_difference(p.chunk, Chunk{high.chunk}) <= back)
      return {.drop = Drop::kStale};
    return Pool::order(high, p, job);
  }

  // Between head and shape.
  template <class Exec>
  void at_entry(Exec& x, Op op, const Contribution& p) noexcept {
    x.template rmw<ClaimedReg>(p.line, [&](std::uint32_t& claimed) {
      if (op == Op::kWrite) claimed = now;
      return claimed;
    });
    missing = x.template rmw<MissingReg>(p.line, [&](std::uint64_t& ranks) {
      if (op == Op::kWrite) ranks = 0;
      return ranks;
    });
  }

  // Control's judgement of a filling entry: has it waited long enough, and is it the job's to give away? A
  // barrier (total 0) is not: it says that everybody came.
  static bool is_due(const Head& head, std::uint32_t claimed, const Job& job, std::uint32_t now) noexcept {
    return head.tag == raw(job.epoch) && head.contributors != job.members &&
           now - claimed >= job.stragglers.timeout &&
           std::popcount(head.contributors) >= job.stragglers.least &&
           serial_difference(Chunk{head.chunk}, job.stragglers.fence) >= 0;
  }
};

}  // namespace tally

#pragma once
// The aggregation program, written once. `Exec` supplies the registers: fused.h is the product, staged.h
// asserts a chip's rules. Each register is touched once per pass; going back (undo) is a recirculation on a
// chip and is counted there.

#include <algorithm>
#include <cstdint>

#include "jobs/job_table.h"
#include "kernels/kernels.h"
#include "pipeline/decision.h"
#include "pipeline/job_state.h"
#include "tally/counters.h"
#include "tally/mix64.h"

namespace tally::pipeline {

struct Ruling {
  Verdict verdict = Verdict::kDrop;
  Drop drop{};
};

// What the entry held when a contribution of another size or type came.
struct Mismatch {
  std::uint64_t contributors = 0;
  jobs::Shape shape;
};

template <class T, class Merge>
constexpr T obey(Op op, T& reg, T in, Merge merge) noexcept {
  if (op == Op::kWrite) return reg = in;
  if (op == Op::kRead) return reg;
  return reg = merge(reg, in);
}

template <class Exec>
bool payload_matches(const Exec& x, const Contribution& p) noexcept {
  const kernels::Sums s = x.payload_sums(p);
  return s.sum1 + keyed(p.key, p.chunk) == p.sum.sum1 && s.sum2 == p.sum.sum2;
}

constexpr bool matches(kernels::Sums finished, std::uint32_t keys, const Contribution& p) noexcept {
  return finished.sum1 + keyed(keys, p.chunk) == p.sum.sum1 && finished.sum2 == p.sum.sum2;
}

// A contribution counts as lost when so many of its rank's later ones have come (docs/protocol.md, 8). Less
// would take two packets in the wrong order for a loss.
inline constexpr std::uint32_t kLead = 3;

// One read-modify-write of the rank's register. p.missing: what is lost as far as this contribution tells,
// each once. What is older than the register remembers passes: to it the rules of the entry apply.
inline Decision arrive(Came& came, Contribution& p) noexcept {
  constexpr std::uint32_t kBits = 64;
  if (came.epoch != raw(p.epoch)) came = {raw(p.epoch), 0, 0};
  if (p.sequence == came.newest + 1) [[likely]] {
    came.newest = p.sequence;
    came.missing <<= 1;
    p.missing = came.missing & 1ULL << kLead;
    return {.op = Op::kWrite};
  }
  if (p.sequence == 0) return {.drop = Drop::kSequence};
  const auto ahead = static_cast<std::int32_t>(p.sequence - came.newest);
  if (ahead > 0) {
    const auto by = static_cast<std::uint32_t>(ahead);
    const std::uint64_t passed = by < kBits ? (1ULL << by) - 1 : ~0ULL;
    came.newest = p.sequence;
    came.missing = (by < kBits ? came.missing << by : 0) | (passed & ~1ULL);
    p.missing = came.missing & (by + kLead < kBits ? passed : ~0ULL) << kLead;
    return {.op = Op::kWrite};
  }
  const auto back = static_cast<std::uint32_t>(-static_cast<std::int64_t>(ahead));
  if (back >= kBits) return {.op = Op::kRead};
  if ((came.missing >> back & 1) == 0) return {.drop = Drop::kReplay};
  came.missing &= ~(1ULL << back);
  return {.op = Op::kWrite};
}

[[gnu::noinline]] inline std::uint32_t finish_out_of_order(Finished& finished, Epoch epoch, Chunk chunk,
                                                           std::int32_t apart) noexcept {
  constexpr std::int32_t kBits = 32;
  const std::int32_t ahead = serial_difference(chunk, Chunk{finished.chunk});
  const std::int32_t by = ahead / apart;
  // Where a window ends that is no multiple of the shards, one before its end says nothing, and the first
  // behind it begins anew.
  if (finished.epoch == raw(epoch) && ahead < 0 && by * apart != ahead) return 0;
  if (finished.epoch != raw(epoch) || by * apart != ahead) finished = {raw(epoch), raw(chunk), 0};
  if (finished.chunk == raw(chunk)) return finished.before;
  if (by > 0) {
    finished.before = by < kBits ? finished.before << by : 0;
    if (by <= kBits) finished.before |= 1U << (by - 1);
    finished.chunk = raw(chunk);
    return finished.before;
  }
  if (by < -kBits) return 0;
  finished.before |= 1U << (-by - 1);
  return -by < kBits ? finished.before >> -by : 0;
}

// `chunk` is finished. What its RESULT says of the 32 before it (docs/protocol.md, 8). A sum that turns out
// wrong afterwards stays in: who asks for it is told that nobody is in it.
template <class Exec>
std::uint32_t finish(Exec& x, const jobs::NativeJob& job, Chunk chunk) noexcept {
  return x.template rmw<FinishedReg>(raw(job.id), [&](Finished& finished) {
    if (finished.epoch != raw(job.epoch) || raw(chunk) != finished.chunk + job.shards) [[unlikely]]
      return finish_out_of_order(finished, job.epoch, chunk, job.shards);
    finished.chunk = raw(chunk);
    return finished.before = finished.before << 1 | 1;
  });
}

// The registers of an entry's sum, one after the other: f(register, the packet's) is what the packet gets.
template <class Exec, class F>
void with_sum(Exec& x, std::uint32_t line, jobs::Sum& sum, F f) noexcept {
  sum.shape = x.template rmw<ShapeReg>(line, [&](auto& r) { return f(r, sum.shape); });
  sum.exponent = x.template rmw<ExponentReg>(line, [&](auto& r) { return f(r, sum.exponent); });
  sum.marks = x.template rmw<MarksReg>(line, [&](auto& r) { return f(r, sum.marks); });
  sum.sum1 = x.template rmw<Sum1Reg>(line, [&](auto& r) { return f(r, sum.sum1); });
  sum.sum2 = x.template rmw<Sum2Reg>(line, [&](auto& r) { return f(r, sum.sum2); });
}
template <class Exec>
void read_sum(Exec& x, std::uint32_t line, jobs::Sum& sum) noexcept {
  with_sum(x, line, sum, [](auto& r, auto) { return r; });
}

// The packet's numbers and the entry's, as `op` says; their shapes agree. After kAdd the packet keeps its
// own. Inlined by order: two programs use it, and a call costs every packet of both.
template <class Exec>
[[gnu::always_inline]] inline void merge_numbers(Exec& x, Op op, Contribution& p) noexcept {
  const auto merge_max = [](std::int8_t a, std::int8_t b) noexcept { return std::max(a, b); };
  const auto merge_or = [](std::uint8_t a, std::uint8_t b) noexcept {
    return static_cast<std::uint8_t>(a | b);
  };
  const auto merge_add = [](std::uint32_t a, std::uint32_t b) noexcept { return a + b; };
  jobs::Sum sum = p.sum;  // copies: a register may be a char, whose store could change anything else
  const std::uint32_t line = p.line;
  sum.exponent =
      x.template rmw<ExponentReg>(line, [&](std::int8_t& r) { return obey(op, r, sum.exponent, merge_max); });
  sum.marks =
      x.template rmw<MarksReg>(line, [&](std::uint8_t& r) { return obey(op, r, sum.marks, merge_or); });
  sum.sum1 =
      x.template rmw<Sum1Reg>(line, [&](std::uint32_t& r) { return obey(op, r, sum.sum1, merge_add); });
  sum.sum2 =
      x.template rmw<Sum2Reg>(line, [&](std::uint32_t& r) { return obey(op, r, sum.sum2, merge_add); });
  if (op != Op::kAdd) p.sum = sum;
}

// Answers a QUERY: reads the entry of p's (epoch, chunk) if it is complete, else tells who is in it.
struct Found {
  bool complete = false;
  bool at_server = false;          // its values are in the packet already
  std::uint64_t contributors = 0;  // 0: no such entry
  std::uint64_t elsewhere = 0;     // not complete: ranks that are waited for at other boxes, if at all
  std::uint64_t missing = 0;       // complete: ranks that its result lacks
  bool local = false;              // of a racked job: everybody here is in it, and the result has not come
  bool gone = false;               // everybody's was seen, and neither entry nor server has it: a peer may
};
template <class Exec>
Found look_up(Exec& x, const jobs::NativeJob& job, Contribution& p) noexcept {
  const Head head = x.template rmw<HeadReg>(p.line, [](Head& h) { return h; });
  if (head.tag != raw(p.epoch) || head.chunk != raw(p.chunk)) return {};
  if (head.contributors != job.members) return {.contributors = head.contributors};
  std::uint64_t missing = 0;
  if (job.stragglers.timeout != 0 || job.racked != 0)
    missing = x.template rmw<MissingReg>(p.line, [](std::uint64_t& m) { return m; });
  if (job.racked != 0 && missing != 0) return {.contributors = head.contributors, .local = true};
  read_sum(x, p.line, p.sum);
  return {.complete = true, .contributors = head.contributors, .missing = missing};
}

// What a discipline's own registers at the entry make of a decision.
template <class Discipline, class Exec>
[[gnu::always_inline]] inline Decision at_entry([[maybe_unused]] Exec& x, [[maybe_unused]] Discipline* own,
                                                Decision d, [[maybe_unused]] const Contribution& p) noexcept {
  if constexpr (requires { own->at_entry(x, d, p); }) return own->at_entry(x, d, p);
  return d;
}

// A contribution whose sequence is new. check_later: its payload is not checked yet, and is_plain_add() was so;
// came_before: its rank's register before it.
template <class Discipline, class Exec>
[[gnu::always_inline]] inline Ruling enter(Exec& x, const jobs::NativeJob& job, JobState& state,
                                           Contribution& p, Mismatch& why, [[maybe_unused]] Discipline* own,
                                           bool check_later, const Came& came_before) noexcept {
  const auto corrupted = [&]() noexcept {
    x.template undo<SequenceReg>(p.number, came_before);
    p.missing = 0;
    return Ruling{.drop = Drop::kSum};
  };
  const auto refuse = [&](Drop d) noexcept {
    return check_later && !payload_matches(x, p) ? corrupted() : Ruling{.drop = d};
  };
  const Decision order =
      x.template rmw<HighReg>(raw(job.id), [&](High& high) { return Discipline::order(high, p, job); });
  if (order.op == Op::kNone) return refuse(order.drop);
  if (Discipline::kWhole && job.world == 1) {  // fan-in 1: the packet is the sum, no entry
    if (!p.verify && !payload_matches(x, p)) return {.drop = Drop::kBadSum};
    p.before = 0;
    return {.verdict = Verdict::kComplete};
  }
  if (p.direct) return refuse(Drop::kDirect);

  Head head_before;
  const Decision decided = x.template rmw<HeadReg>(p.line, [&](Head& head) {
    head_before = head;
    return Discipline::decide(head, p, job);
  });
  if (decided.op == Op::kNone && !decided.entry_is_ours) return refuse(decided.drop);
  const auto undo_head = [&](Head to) noexcept { x.template undo<HeadReg>(p.line, to); };
  const Decision d = at_entry(x, own, decided, p);

  const jobs::Shape stored = x.template rmw<ShapeReg>(p.line, [&](jobs::Shape& shape) {
    if (d.op == Op::kWrite) shape = p.sum.shape;
    return shape;
  });
  if (stored != p.sum.shape) {
    why = {head_before.contributors, stored};
    if (d.op == Op::kAdd || d.op == Op::kAddEmit) undo_head(head_before);
    return refuse(Drop::kMismatch);
  }
  if (d.op == Op::kNone) return refuse(d.drop);

  if (check_later) {
    const kernels::Added added = x.values(Op::kAdd, p, /*with_sums=*/true);
    if (added.sums.sum1 + keyed(p.key, p.chunk) != p.sum.sum1 || added.sums.sum2 != p.sum.sum2) {
      x.values(Op::kSubtract, p, false);
      undo_head(head_before);  // `high` had no part in it: the entry's chunk was absorbed before
      return corrupted();
    }
    state.overflows += added.overflow ? 1 : 0;
  }
  // The commonest by itself: then nothing asks again and again what to do.
  if (d.op == Op::kAdd) [[likely]] {
    merge_numbers(x, Op::kAdd, p);
    if (!check_later && x.values(Op::kAdd, p, false).overflow != 0) state.overflows += 1;
    return {.verdict = Verdict::kAbsorb};
  }
  merge_numbers(x, d.op, p);
  if (Discipline::kWhole && d.op == Op::kAddEmit) p.before = finish(x, job, p.chunk);
  if (d.occupancy != 0) state.occupancy += static_cast<std::uint32_t>(std::int32_t{d.occupancy});
  const kernels::Added out = x.values(d.op, p, false);
  if (out.overflow != 0) state.overflows += 1;
  if (d.op == Op::kRead) return {.verdict = Verdict::kRepeat};
  if (d.op != Op::kAddEmit) return {.verdict = Verdict::kAbsorb};

  if (!matches(out.sums, job.key_sum, p)) {
    undo_head(Head{});  // the workers' timers send the chunk again
    state.finished_badly();
    return {.drop = Drop::kBadSum};
  }
  state.finished_well();
  return {.verdict = Verdict::kComplete};
}

// Discipline: pool.h. Everything that needs no register (check, epoch, cookie, binding, bit, slot) was
// checked before. `why`: filled with kMismatch only. own: of a discipline with registers of its own at the
// entry (stragglers.h).
template <class Discipline, class Exec>
[[gnu::always_inline]] inline Ruling aggregate(Exec& x, const jobs::NativeJob& job, JobState& state,
                                               Contribution& p, Mismatch& why,
                                               [[maybe_unused]] Discipline* own = nullptr) noexcept {
  // A corrupted contribution must change nothing. A plain add can fold that check in and take itself back;
  // whatever would overwrite the entry or the packet is checked before the first register.
  const bool check_later = p.verify && x.template is_plain_add<Discipline>(p, job);
  if (p.verify && !check_later && !payload_matches(x, p)) return {.drop = Drop::kSum};
  Came came_before;
  const Decision arrival = x.template rmw<SequenceReg>(p.number, [&](Came& came) {
    came_before = came;
    return arrive(came, p);
  });
  if (arrival.op != Op::kNone) [[likely]]
    return enter<Discipline>(x, job, state, p, why, own, check_later, came_before);
  if (!check_later || payload_matches(x, p)) return {.drop = arrival.drop};
  x.template undo<SequenceReg>(p.number, came_before);
  p.missing = 0;
  return {.drop = Drop::kSum};
}

}  // namespace tally::pipeline

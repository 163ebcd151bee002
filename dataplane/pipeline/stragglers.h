#pragma once
// What Pipeline does for jobs with stragglers. Included by pipeline_definitions.h alone.

#include <bit>
#include <cstdint>
#include <utility>

#include "pipeline/pipeline.h"
#include "pipeline/pool.h"
#include "pipeline/program.h"
#include "pipeline/registers.h"
#include "pipeline/reply.h"

namespace tally::pipeline {

// The pool discipline of jobs that opted in to INCOMPLETE results. Registers and rules are the pool's; beside
// them an entry knows since when it fills, and whom its result lacks if it could not wait for everybody.

struct StragglerPool : Pool {
  std::uint32_t now = 0;      // stamp()
  std::uint64_t missing = 0;  // (out) ranks that the entry's result lacks; 0 while it fills

  // No older than the chunk whose entry it would have been: with a window that was made smaller the span
  // reaches further back than two windows, and an entry that a bad sum freed no longer says what it held. A
  // chunk that has a result must not be begun again, for now it may get another one. Whom this refuses asks
  // peers; if none had the result, nobody would be 2W ahead in this epoch.
  static Decision order(High& high, const Contribution& p, const jobs::NativeJob& job) noexcept {
    const auto back = -static_cast<std::int32_t>(2 * job.window);
    if (high.epoch == raw(p.epoch) && serial_difference(p.chunk, Chunk{high.chunk}) <= back)
      return {.drop = Drop::kStale};
    return Pool::order(high, p, job);
  }

  // Between head and shape.
  template <class Exec>
  Decision at_entry(Exec& x, Decision d, const Contribution& p) noexcept {
    x.template rmw<ClaimedReg>(p.line, [&](std::uint32_t& claimed) {
      if (d.op == Op::kWrite) claimed = now;
      return claimed;
    });
    missing = x.template rmw<MissingReg>(p.line, [&](std::uint64_t& ranks) {
      if (d.op == Op::kWrite) ranks = 0;
      return ranks;
    });
    return d;
  }

  // Control's judgement of a filling entry: has it waited long enough, and is it the job's to give away? A
  // barrier (total 0) is not: it says that everybody came.
  static bool is_due(const Head& head, std::uint32_t claimed, const jobs::NativeJob& job,
                     std::uint32_t now) noexcept {
    return head.tag == raw(job.epoch) && head.contributors != job.members &&
           now - claimed >= job.stragglers.timeout &&
           std::popcount(head.contributors) >= job.stragglers.least &&
           serial_difference(Chunk{head.chunk}, job.stragglers.fence) >= 0;
  }
};

// As Pipeline::contribute, with the entry's two registers more. Out of its way.
template <class Exec>
[[gnu::noinline]] Outcome Pipeline<Exec>::contribute_late(Parsed& parsed, const Frame& frame,
                                                          TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  JobState& state = states_[raw(job.id)];
  const bool suspect = state.suspect();
  p.verify |= suspect;

  Mismatch why;
  StragglerPool pool{{}, jobs::stamp(now)};
  const Ruling ruling = aggregate<StragglerPool>(exec_, job, state, p, why, &pool);
  if (ruling.verdict == Verdict::kAbsorb) return conclude(parsed, Verdict::kAbsorb, true, now);
  if (ruling.verdict != Verdict::kDrop) {
    const bool repeats = ruling.verdict == Verdict::kRepeat;
    parsed.payload_bytes = jobs::datagram_bytes(p.sum);
    write_result(parsed.payload, job, p, repeats ? kFlagRetransmit : 0, *kernels_, pool.missing,
                 repeats ? 0 : p.before);
    return conclude(parsed, ruling.verdict, !repeats, now);
  }
  why.contributors &= ~pool.missing;
  report(job, p, ruling.drop, why, suspect);
  return drop(parsed, frame, ruling.drop, now);
}

// A few entries each time, as a packet that a chip sends round would look at them.
template <class Exec>
bool Pipeline<Exec>::find_late(TimeNs now) noexcept {
  constexpr std::uint32_t kLook = 8;
  late_.forget();
  if (late_.empty()) return false;
  for (std::uint32_t i = 0; i < kLook; ++i) {
    const jobs::NativeJob& job = late_.job();
    if (states_[raw(job.id)].occupancy == 0) {
      late_.skip();
      continue;
    }
    const std::uint32_t line = late_.line();
    const Head head = exec_.head(line);
    const bool waits = head.tag != 0 && head.contributors != job.members;
    if (waits && StragglerPool::is_due(head, exec_.template peek<ClaimedReg>(line), job, jobs::stamp(now)) &&
        exec_.template peek<ShapeReg>(line).total != 0) {
      late_.find();
      return true;
    }
    late_.step();
  }
  return false;
}

// One pass: the head becomes that of a complete entry, and the result leaves for all members.
template <class Exec>
Outcome Pipeline<Exec>::finish_late(std::span<std::byte> payload) noexcept {
  const jobs::NativeJob& job = late_.job();
  const std::uint32_t line = late_.line();
  late_.forget();
  late_.step();
  if (payload.size() < kHeaderBytes + std::size_t{4} * jobs::words_of(exec_.template peek<ShapeReg>(line)))
    return {};

  if constexpr (requires(Exec & x) { x.begin(); }) exec_.begin();
  Contribution p{.values = payload.data() + kHeaderBytes, .line = line};
  std::uint64_t contributors = 0;
  p.chunk = exec_.template rmw<HeadReg>(line, [&](Head& head) {
    contributors = std::exchange(head.contributors, job.members);
    return Chunk{head.chunk};
  });
  const std::uint64_t missing = exec_.template rmw<MissingReg>(
      line, [&](std::uint64_t& ranks) { return ranks = job.members & ~contributors; });
  read_sum(exec_, line, p.sum);
  const std::uint32_t before = finish(exec_, job, p.chunk);
  p.form = form_of(p.sum);
  exec_.values(Op::kRead, p, false);

  JobState& state = states_[raw(job.id)];
  --state.occupancy;
  if (!matches(exec_.payload_sums(p), jobs::keys_of(job, contributors), p)) {
    exec_.template undo<HeadReg>(line, Head{});
    state.finished_badly();
    ++state.slots.incomplete_bad;
    return {};
  }
  state.finished_well();
  ++state.slots.incomplete;
  write_result(payload.data(), job, p, 0, *kernels_, missing, before);
  return {.verdict = Verdict::kComplete,
          .ranks = job.members,
          .job = &job,
          .payload = payload.data(),
          .payload_bytes = jobs::datagram_bytes(p.sum)};
}

}  // namespace tally::pipeline

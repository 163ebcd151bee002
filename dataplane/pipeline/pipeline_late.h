#pragma once
// What Pipeline does for jobs with stragglers. Included by pipeline_definitions.h alone.

#include <utility>

#include "pipeline.h"
#include "program.h"
#include "reply.h"
#include "straggler_pool.h"

namespace tally {

// As Pipeline::contribute, with the entry's two registers more. Out of its way.
template <class Exec>
[[gnu::noinline]] Outcome Pipeline<Exec>::contribute_late(Parsed& parsed, const Frame& frame,
                                                          TimeNs now) noexcept {
  const Job& job = *parsed.job;
  Contribution& p = parsed.contribution;
  JobState& state = states_[raw(job.id)];
  const bool suspect = state.suspect();
  p.verify |= suspect;

  Mismatch why;
  StragglerPool pool{{}, stamp(now)};
  const Ruling ruling = aggregate<StragglerPool>(exec_, job, state, p, why, &pool);
  if (ruling.verdict == Verdict::kAbsorb) return conclude(parsed, Verdict::kAbsorb, true, now);
  if (ruling.verdict != Verdict::kDrop) {
    const bool repeats = ruling.verdict == Verdict::kRepeat;
    write_result(parsed.payload, job, p, repeats ? kFlagRetransmit : 0, *kernels_, pool.missing);
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
    const Job& job = late_.job();
    if (states_[raw(job.id)].occupancy == 0) {
      late_.skip();
      continue;
    }
    const std::uint32_t line = late_.line();
    const Head head = exec_.head(line);
    const bool waits = head.tag != 0 && head.contributors != job.members;
    if (waits && StragglerPool::is_due(head, exec_.template peek<ClaimedReg>(line), job, stamp(now)) &&
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
  const Job& job = late_.job();
  const std::uint32_t line = late_.line();
  late_.forget();
  late_.step();
  const Shape shape = exec_.template peek<ShapeReg>(line);
  if (payload.size() < kHeaderBytes + std::size_t{4} * shape.elements) return {};

  if constexpr (requires(Exec & x) { x.begin(); }) exec_.begin();
  Contribution p{.values = payload.data() + kHeaderBytes, .line = line, .shape = shape};
  std::uint64_t contributors = 0;
  p.chunk = exec_.template rmw<HeadReg>(line, [&](Head& head) {
    contributors = std::exchange(head.contributors, job.members);
    return Chunk{head.chunk};
  });
  const std::uint64_t missing = exec_.template rmw<MissingReg>(
      line, [&](std::uint64_t& ranks) { return ranks = job.members & ~contributors; });
  p.shape = exec_.template rmw<ShapeReg>(line, [](Shape& r) { return r; });
  p.slot = SlotIndex{slot_of(slot_map(job), p.chunk)};
  merge_numbers(exec_, Op::kRead, p);
  exec_.values(Op::kRead, p, false);

  JobState& state = states_[raw(job.id)];
  --state.occupancy;
  if (!matches(exec_.payload_sums(p), keys_of(job, contributors), p)) {
    exec_.template undo<HeadReg>(line, Head{});
    state.finished_badly();
    ++state.slots.incomplete_bad;
    return {};
  }
  state.finished_well();
  ++state.slots.incomplete;
  write_result(payload.data(), job, p, 0, *kernels_, missing);
  return {.verdict = Verdict::kComplete,
          .ranks = job.members,
          .job = &job,
          .payload = payload.data(),
          .payload_bytes = static_cast<std::uint32_t>(kHeaderBytes + 4 * p.shape.elements)};
}

}  // namespace tally

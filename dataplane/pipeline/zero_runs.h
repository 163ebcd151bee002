#pragma once
// What Pipeline does for jobs whose members leave out what is zero (docs/protocol_sparse.md): results that are as
// short, and zero runs, each of which is a contribution of zeros to several chunks of this core. Included by
// pipeline_definitions.h alone.

#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "pipeline/pipeline.h"
#include "pipeline/pool.h"
#include "pipeline/program.h"
#include "pipeline/registers.h"
#include "pipeline/reply.h"
#include "tally/rows.h"
#include "tally/time.h"
#include "tally/zero_run.h"

namespace tally::pipeline {

// A result whose values, if it has any, all lie in the packet, becomes as short as it may: the bytes of its datagram.
// Rows are left out only where nobody has sent all: where somebody has, some zeros would be an accident. The marks of
// its sum are then those of what is sent.
template <class Exec>
std::uint32_t Pipeline<Exec>::shorten(Contribution& p) noexcept {
  const bool may = !jobs::is_dense(p.sum) && !jobs::is_zero(p.sum);
  const std::uint32_t bytes =
      may ? pack_rows(p.values, rows_of(p.sum.shape.elements, p.sum.shape.dtype)) : std::uint32_t{0};
  if (bytes != 0) return static_cast<std::uint32_t>(kHeaderBytes) + bytes;
  p.sum.marks |= jobs::kMarkDense;
  return jobs::datagram_bytes(p.sum);
}

inline Chunk chunk_of_run(const jobs::NativeJob& job, Chunk first, std::uint32_t bit) noexcept {
  return first + bit * job.shards;
}

// The sums of a run are over what each of its contributions would say, chunk by chunk as they are counted: so they
// vouch for rank and chunks, as those of a contribution do, and for exponents that are not in the header.
template <class Exec>
std::optional<Drop> Pipeline<Exec>::refuse_run(const jobs::NativeJob& job, const Contribution& run,
                                               const Header& h,
                                               std::span<const std::byte> exponents) const noexcept {
  RunSums sums;
  for (std::uint64_t rest = h.contributors.host(); rest != 0; rest &= rest - 1) {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(rest));
    const Chunk chunk = chunk_of_run(job, run.chunk, bit);
    // Nobody may have chunks a window apart on the way; two of one entry would lose what the first has finished.
    if (bit * job.shards >= job.window) return Drop::kRun;
    // Where shards do not divide the window: a chunk behind its end may be another core's.
    if (owner_of(Pool::slot_of(chunk, job), job) != options_.core) return Drop::kRun;
    sums.add_chunk(bit, run.key, chunk);
  }
  sums.add_exponents(exponents);
  if (!sums.are_of(h)) return Drop::kSum;
  return std::nullopt;
}

// Each chunk is a pass of its own, as a contribution of zeros whose sequence is the run's: at most 64. Sums that
// nobody had values for leave in one packet, which this one becomes; the others are owed. That packet may be the longer
// one, where all of this rank's exponents are alike and those of the others are not: the buffer has room, or the run
// was dropped when it was judged.
template <class Exec>
[[gnu::noinline]] Outcome Pipeline<Exec>::contribute_run(Parsed& parsed, const Frame& frame,
                                                         TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  const Header h = header_at(parsed.payload);
  const std::span<const std::byte> behind(parsed.payload + kHeaderBytes, parsed.payload_bytes - kHeaderBytes);
  owed_.chunks = 0;
  if (const auto why = refuse_run(job, p, h, behind)) return drop(parsed, frame, *why, now);
  const Decision arrival =
      exec_.template rmw<SequenceReg>(p.number, [&](Came& came) { return arrive(came, p); });
  if (arrival.op == Op::kNone) return drop(parsed, frame, arrival.drop, now);

  const std::uint64_t chunks = h.contributors.host();
  const RunExponents exponents = run_exponents(h, behind);
  const Contribution run = p;
  JobState& state = states_[raw(job.id)];
  Contribution first;  // of the sums that are told together
  std::uint64_t told = 0;
  RunExponents of_told{};
  std::size_t named = 0;
  std::size_t tells = 0;
  bool counted = false;
  Outcome out;
  for (std::uint64_t rest = chunks; rest != 0; rest &= rest - 1) {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(rest));
    if (rest != chunks) exec_.again();
    p = run;
    p.chunk = chunk_of_run(job, run.chunk, bit);
    locate(p, job, options_.shared);
    p.form = Form::kZero;
    p.sum.marks = 0;
    p.sum.exponent = exponents[named++];
    p.sum.sum1 = keyed(run.key, p.chunk);
    p.sum.sum2 = 0;
    Mismatch why;
    const Ruling ruling = enter<Pool>(exec_, job, state, p, why, nullptr, false, {});
    // It is no repetition of a result that anybody asks for: whoever misses one sends alone.
    if (ruling.verdict == Verdict::kDrop || ruling.verdict == Verdict::kRepeat) {
      const Drop drop = ruling.verdict == Verdict::kDrop ? ruling.drop : Drop::kDuplicate;
      report(job, p, drop, why, false);
      out = this->drop(parsed, frame, drop, now);
      continue;
    }
    count(parsed, ruling.verdict, true, now);
    counted = true;
    if (ruling.verdict == Verdict::kAbsorb) continue;
    if (p.sum.marks != 0) {
      owed_.before[bit] = p.before;
      owed_.chunks |= std::uint64_t{1} << bit;
      continue;
    }
    if (told == 0) first = p;
    told |= std::uint64_t{1} << (raw(p.chunk) - raw(first.chunk)) / job.shards;
    of_told[tells++] = p.sum.exponent;
  }
  owed_.job = &job;
  owed_.first = run.chunk;
  p = run;
  if (told != 0) {
    parsed.payload_bytes = write_zero_run(parsed.payload, job, first, told, of_told, *kernels_);
    out = outcome(parsed, Verdict::kComplete);
  } else if (counted) {
    out = outcome(parsed, Verdict::kAbsorb);
  }
  if (p.missing != 0) note_missing(parsed, out);
  return out;
}

// The entry is as complete as the run has left it: the frames behind the run have not been looked at.
template <class Exec>
Outcome Pipeline<Exec>::owed(std::span<std::byte> payload) noexcept {
  const auto bit = static_cast<std::uint32_t>(std::countr_zero(owed_.chunks));
  owed_.chunks &= owed_.chunks - 1;
  const jobs::NativeJob& job = *owed_.job;
  Contribution p{.values = payload.data() + kHeaderBytes,
                 .chunk = chunk_of_run(job, owed_.first, bit),
                 .epoch = job.epoch};
  locate(p, job, options_.shared);
  if constexpr (requires(Exec & x) { x.begin(); }) exec_.begin();
  if (!look_up(exec_, job, p).complete || payload.size() < jobs::datagram_bytes(p.sum)) return {};
  p.form = form_of(p.sum);
  exec_.values(Op::kRead, p, false);
  const std::uint32_t bytes = shorten(p);
  write_result(payload.data(), job, p, 0, *kernels_, 0, owed_.before[bit]);
  return {.verdict = Verdict::kComplete,
          .ranks = job.members,
          .job = &job,
          .payload = payload.data(),
          .payload_bytes = bytes};
}

}  // namespace tally::pipeline

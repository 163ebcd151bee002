#include "pipeline.h"

#include <bit>
#include <cstring>

#include "fused.h"
#include "gate.h"
#include "match.h"
#include "pool.h"
#include "reply.h"
#include "staged.h"

namespace tally {
namespace {

Header header_at(const std::byte* datagram) noexcept {
  Header h;
  std::memcpy(&h, datagram, sizeof h);
  return h;
}

}  // namespace

template <class Exec>
Pipeline<Exec>::Pipeline(const PipelineOptions& options, Region region, const Kernels& kernels)
    : exec_(region, kernels),
      kernels_(&kernels),
      options_(options),
      states_(std::make_unique<JobState[]>(kMaxJobs + 1)),
      counters_(std::make_unique<JobCounters[]>(kMaxJobs + 1)) {}

template <class Exec>
Parsed Pipeline<Exec>::parse(const Frame& frame) const noexcept {
  const Datagram datagram = open_frame(frame, options_.box);
  Parsed parsed;
  parsed.verdict = datagram.verdict;
  parsed.drop = datagram.drop;
  if (datagram.verdict != Verdict::kPunt) return parsed;
  parsed.source = datagram.source;
  parsed.payload = datagram.payload;
  parsed.payload_bytes = datagram.payload_bytes;

  const Header h = header_at(datagram.payload);
  parsed.type = h.type;
  if (const auto why =
          refuse_header(h, datagram.payload, datagram.payload_bytes, frame.checksum_good, *kernels_)) {
    parsed.verdict = Verdict::kDrop;
    parsed.drop = *why;
    return parsed;
  }
  if (is_control(h.type)) return parsed;
  match_job(parsed, h, table_, options_.core, frame.checksum_good);
  return parsed;
}

template <class Exec>
void Pipeline<Exec>::prefetch(const Parsed& parsed) const noexcept {
  if (parsed.verdict == Verdict::kAbsorb) {
    exec_.prefetch(parsed.contribution.line, parsed.contribution.shape.elements);
  }
}

template <class Exec>
Outcome Pipeline<Exec>::drop(const Parsed& parsed, Drop why, TimeNs now) noexcept {
  const std::uint32_t row = parsed.job != nullptr ? raw(parsed.job->id) : 0;
  ++counters_[row].drops[static_cast<std::size_t>(why)];
  Outcome out{.verdict = Verdict::kDrop, .drop = why, .job = parsed.job, .payload = parsed.payload};
  if (parsed.reject && rejects_.allow(parsed.source, now)) {
    out.reject = true;
    out.reject_reason = why == Drop::kJob ? RejectReason::kJob : RejectReason::kEpoch;
  }
  return out;
}

// Counts a packet that was not dropped and renews its rank's lease.
template <class Exec>
Outcome Pipeline<Exec>::conclude(const Parsed& parsed, Verdict verdict, Rank to, TimeNs now) noexcept {
  const std::uint32_t row = raw(parsed.job->id);
  ++counters_[row].verdicts[static_cast<std::size_t>(verdict)];
  states_[row].last_seen[raw(parsed.contribution.rank)] = now;
  return {.verdict = verdict,
          .to = to,
          .job = parsed.job,
          .payload = parsed.payload,
          .payload_bytes = parsed.payload_bytes};
}

template <class Exec>
Outcome Pipeline<Exec>::contribute(Parsed& parsed, TimeNs now) noexcept {
  const Job& job = *parsed.job;
  Contribution& p = parsed.contribution;
  JobState& state = states_[raw(job.id)];
  const bool suspect = state.suspect();
  p.verify |= suspect;

  Mismatch why;
  const Ruling ruling = aggregate<Pool>(exec_, job, state, p, why);
  if (ruling.verdict == Verdict::kAbsorb) [[likely]]
    return conclude(parsed, Verdict::kAbsorb, p.rank, now);
  if (ruling.verdict != Verdict::kDrop) {
    write_result(parsed.payload, job, p, ruling.verdict == Verdict::kRepeat ? kFlagRetransmit : 0, *kernels_);
    return conclude(parsed, ruling.verdict, p.rank, now);
  }
  if (ruling.drop == Drop::kMismatch) {
    events_.push(
        {EventKind::kMismatch, job.id, job.epoch, p.chunk, p.rank, why.contributors, p.shape, why.shape});
  } else if (ruling.drop == Drop::kSum && suspect) {
    events_.push({EventKind::kPoisoned, job.id, job.epoch, p.chunk, p.rank, 0, p.shape, {}});
  }
  return drop(parsed, ruling.drop, now);
}

// A complete entry answers at once; else the named peer is asked, and when the chunk is filling the asker
// also learns whom everybody waits for.
template <class Exec>
Outcome Pipeline<Exec>::query(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  const Job& job = *parsed.job;
  Contribution& p = parsed.contribution;
  const Found found = look_up(exec_, job, p);
  if (found.complete) {
    const auto bytes = static_cast<std::uint32_t>(kHeaderBytes + 4 * p.shape.elements);
    const auto offset = static_cast<std::uint32_t>(parsed.payload - frame.data);
    if (offset + bytes > frame.capacity) return drop(parsed, Drop::kRoom, now);
    exec_.values(Op::kRead, p, false);
    parsed.payload_bytes = bytes;
    write_result(parsed.payload, job, p, kFlagRetransmit, *kernels_);
    return conclude(parsed, Verdict::kRepeat, p.rank, now);
  }
  const auto peer =
      static_cast<std::uint16_t>(std::countr_zero(header_at(parsed.payload).contributors.host()));
  relay_header(parsed.payload, job.result_cookie, *kernels_);
  Outcome out = conclude(parsed, Verdict::kRelay, Rank{peer}, now);
  out.reject = found.contributors != 0;
  out.reject_reason = RejectReason::kWaiting;
  out.reject_contributors = found.contributors;
  return out;
}

template <class Exec>
Outcome Pipeline<Exec>::answer(Parsed& parsed, TimeNs now) noexcept {
  const Job& job = *parsed.job;
  Contribution& p = parsed.contribution;
  if (!matches(exec_.payload_sums(p), job.key_sum, p)) return drop(parsed, Drop::kSum, now);
  const Rank asker{static_cast<std::uint16_t>(header_at(parsed.payload).slot.host())};
  write_result(parsed.payload, job, p, kFlagRetransmit, *kernels_);
  return conclude(parsed, Verdict::kRelay, asker, now);
}

template <class Exec>
Outcome Pipeline<Exec>::handle(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  if constexpr (requires(Exec & x) { x.begin(); }) exec_.begin();
  if (parsed.verdict == Verdict::kDrop) return drop(parsed, parsed.drop, now);
  if (parsed.verdict != Verdict::kAbsorb) {
    const std::uint32_t row = parsed.job != nullptr ? raw(parsed.job->id) : 0;
    ++counters_[row].verdicts[static_cast<std::size_t>(parsed.verdict)];
    return {.verdict = parsed.verdict,
            .owner = parsed.owner,
            .job = parsed.job,
            .payload = parsed.payload,
            .payload_bytes = parsed.payload_bytes};
  }
  switch (parsed.type) {
    case PacketType::kContribute:
      return contribute(parsed, now);
    case PacketType::kQuery:
      return query(parsed, frame, now);
    default:
      return answer(parsed, now);  // the gate lets no other data type in
  }
}

template <class Exec>
void Pipeline<Exec>::release(const Job& job) noexcept {
  const std::uint32_t step = entry_lines(job.elements);
  JobState& state = states_[raw(job.id)];
  for (std::uint32_t line = job.slots.first; line + step <= job.slots.first + job.slots.count; line += step) {
    const Head head = exec_.head(line);
    if (head.tag != 0 && head.contributors != job.members) --state.occupancy;
  }
  exec_.clear(job.slots);
}

template class Pipeline<Fused>;
template class Pipeline<Staged>;

}  // namespace tally

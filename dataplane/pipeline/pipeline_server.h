#pragma once
// What Pipeline does for jobs with external servers: what goes to them, and what comes from them. Included by
// pipeline_definitions.h alone.

#include "pipeline.h"
#include "reply.h"
#include "shared_program.h"

namespace tally {

inline void towards(std::uint32_t server, std::uint8_t priority, Outcome& out) noexcept {
  out.server = static_cast<std::uint8_t>(server);
  out.priority = priority;
}

// The packet at `payload` becomes the PARTIAL of what p holds. No counter changes.
template <class Exec>
Outcome Pipeline<Exec>::partial_of(const Job& job, const Contribution& p, std::byte* payload) noexcept {
  write_partial(payload, job, p, *kernels_);
  Outcome out{.verdict = Verdict::kRelay, .job = &job, .payload = payload};
  out.payload_bytes = static_cast<std::uint32_t>(kHeaderBytes + 4 * p.shape.elements);
  towards(server_of(p.chunk, job.servers), p.priority, out);
  return out;
}

// The packet leaves for the server of the job whose sum it carries: as it came, or as a PARTIAL. A filling
// entry does not go along with the last arrival, as it does with the embedded server: one frame cannot become
// two. The server's timer fetches it.
// What goes by is verified here, as the embedded server does: the server only drops what does not match, and
// the job would hang with nobody to blame.
template <class Exec>
Outcome Pipeline<Exec>::depart(Parsed& parsed, const SharedRuling& ruling, const Frame& frame,
                               TimeNs now) noexcept {
  const Job& owner = *ruling.leaving;
  const Contribution& p = parsed.contribution;
  if (ruling.verdict == Verdict::kBypass && !p.verify && !payload_matches(exec_, p)) {
    states_[raw(owner.id)].finished_badly();
    if (ruling.fresh) unsee(exec_, owner, p);
    return drop(parsed, frame, Drop::kSum, now);
  }
  // By hash no ledger tells a replay that goes by, which renews no lease; what the server knows is not heard.
  const bool told = ruling.verdict != Verdict::kBypass || !by_hash(owner.discipline);
  Outcome out = conclude(parsed, ruling.verdict, ruling.fresh && told, now);
  if (ruling.verdict == Verdict::kBypass) {
    relay_header(parsed.payload, owner.result_cookie, *kernels_,
                 ruling.collision ? std::uint8_t{kFlagCollision} : std::uint8_t{0});
    towards(server_of(p.chunk, owner.servers), p.priority, out);
    return out;
  }
  const Verdict verdict = out.verdict;
  out = partial_of(owner, p, parsed.payload);
  out.verdict = verdict;
  return out;
}

template <class Exec>
Outcome Pipeline<Exec>::conclude_server(const Parsed& parsed) noexcept {
  ++counters_[raw(parsed.job->id)].verdicts[static_cast<std::size_t>(Verdict::kRelay)];
  return {.verdict = Verdict::kAbsorb,
          .job = parsed.job,
          .payload = parsed.payload,
          .payload_bytes = parsed.payload_bytes};
}

// To the ranks that it names: a RESULT as the box's own, a RESEND as the server's.
template <class Exec>
Outcome Pipeline<Exec>::relay_from_server(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  const Job& job = *parsed.job;
  Contribution& p = parsed.contribution;
  const std::uint64_t ranks = p.bit;
  const bool result = parsed.type == PacketType::kResult;
  if (result && !matches(exec_.payload_sums(p), job.key_sum, p)) return drop(parsed, frame, Drop::kSum, now);
  Outcome out = conclude_server(parsed);
  out.verdict = result && ranks == job.members ? Verdict::kComplete : Verdict::kRepeat;
  out.ranks = ranks;
  if (!result) {
    relay_header(parsed.payload, job.result_cookie, *kernels_);
    return out;
  }
  const std::uint8_t flags = header_at(parsed.payload).flags & kFlagRetransmit;
  if (out.verdict == Verdict::kComplete && flags == 0) ++states_[raw(job.id)].slots.served;
  write_result(parsed.payload, job, p, flags, *kernels_);
  return out;
}

// What is filling goes to the server and is free; what is complete is told; of anything else nothing is said.
template <class Exec>
Outcome Pipeline<Exec>::flush(Parsed& parsed, const Frame& frame, TimeNs) noexcept {
  const Job& job = *parsed.job;
  Contribution& p = parsed.contribution;
  const std::uint32_t server = server_index(p.rank);
  const std::uint32_t entry = shares_slots(job.discipline) ? entry_of(job, p) : kNoEntry;
  if (entry == kNoEntry) return conclude_server(parsed);
  p.line = slots_.line_of(entry);
  const Shape stored = exec_.template peek<ShapeReg>(p.line);
  const Owner owner = exec_.template peek<OwnerReg>(p.line);
  if (p.room < stored.elements) return drop(parsed, frame, Drop::kRoom, 0);
  Outcome out = conclude_server(parsed);
  if (slots_.filling(entry)) {
    if (take_out(entry, p) == nullptr) return out;
    ++states_[raw(job.id)].slots.flushed;
    return partial_of(job, p, parsed.payload);
  }
  look_up(exec_, job, p);
  exec_.values(Op::kRead, p, false);
  write_result(parsed.payload, job, p, kFlagRetransmit, *kernels_);
  out.payload_bytes = static_cast<std::uint32_t>(kHeaderBytes + 4 * p.shape.elements);
  out.verdict = Verdict::kRelay;
  towards(server, owner.priority, out);
  return out;
}

}  // namespace tally

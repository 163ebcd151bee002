#pragma once
// What Pipeline does for sessions of the dialect switchml. Included by pipeline.cc alone.

#include <bit>
#include <cstring>

#include "pipeline.h"
#include "session_match.h"
#include "session_program.h"
#include "tally/switchml.h"

namespace tally {

// The reply in the packet's own place: everything as it came but what is the session's or the entry's.
inline void write_session_result(std::byte* datagram, const Job& job, const Contribution& p,
                                 const SessionPacket& s) noexcept {
  switchml::PacketHeader h;
  std::memcpy(&h, datagram, sizeof h);
  h.type_size = static_cast<std::uint8_t>(
      0x10 | std::countr_zero(std::uint32_t{job.session->payload} / switchml::kMinPayload));
  h.exponent0 = p.exponent;
  h.exponent1 = s.exponent1;
  std::memcpy(datagram, &h, sizeof h);
}

// As Pipeline::contribute. Out of its way.
template <class Exec>
[[gnu::noinline]] Outcome Pipeline<Exec>::contribute_session(Parsed& parsed, const Frame& frame,
                                                             TimeNs now) noexcept {
  const Job& job = *parsed.job;
  Contribution& p = parsed.contribution;
  switchml::PacketHeader h;
  std::memcpy(&h, parsed.payload, sizeof h);
  const std::uint32_t entry = p.line;
  JobState& state = states_[raw(job.id)];
  const bool opaque = job.session->tsi == TsiRule::kOpaque;
  SessionPacket s{.head = session_line(job, raw(p.slot), 0),
                  .set = (h.pool_index.host() & switchml::kSetBit) != 0 ? 1U : 0U,
                  .operation = opaque ? state.run.life(job.epoch, now)
                                      : state.run.operation(job.epoch, h.job_number, now),
                  .now = stamp(now),
                  .job_number = h.job_number,
                  .exponent1 = h.exponent1,
                  .path = {udp_before(parsed.payload).source.host(), frame.port}};

  const Ruling ruling = aggregate_session(exec_, job, state, p, s);
  const bool dropped = ruling.verdict == Verdict::kDrop;
  if (!dropped || ruling.drop == Drop::kDuplicate)
    state.run.heard(s.operation, ruling.verdict == Verdict::kComplete, now);
  if (dropped) return drop(parsed, frame, ruling.drop, now);
  if (ruling.verdict == Verdict::kAbsorb) return conclude(parsed, Verdict::kAbsorb, true, now);
  write_session_result(parsed.payload, job, p, s);
  const bool complete = ruling.verdict == Verdict::kComplete;
  for (std::uint64_t left = complete ? job.members : p.bit; left != 0; left &= left - 1) {
    const auto rank = static_cast<std::uint32_t>(std::countr_zero(left));
    paths_[rank] = exec_.template peek<PathReg>(path_of(entry, rank));
  }
  return conclude(parsed, ruling.verdict, complete, now);
}

}  // namespace tally

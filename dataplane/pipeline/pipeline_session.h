#pragma once
// What Pipeline does for sessions of the dialect switchml. Included by pipeline_definitions.h alone.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "jobs/job_table.h"
#include "pipeline/frame.h"
#include "pipeline/pipeline.h"
#include "pipeline/program.h"
#include "pipeline/session_pool.h"
#include "tally/switchml.h"

namespace tally::pipeline {

// Gate and match of the dialect switchml: header, sender and slot of a packet, without any register.

// Continues the parse of a frame that open_frame() found to be of the dialect. Fills job, contribution, kind
// and drop; of the contribution what the session's program needs. table: may be null.
void match_session(Parsed& parsed, const OpenedFrame& datagram, const jobs::JobTable* table,
                   std::uint8_t core) noexcept;

// The UDP header in front of a datagram.
[[nodiscard]] UdpHeader udp_before(const std::byte* datagram) noexcept;

// The aggregation program of the dialect switchml, written once like program.h. Values wrap around; there are
// no sums and no shapes on its wire, so nothing here can find a corrupted payload.

template <class Exec>
Decision decide_session(Exec& x, const jobs::SessionJob& job, Contribution& p, SessionPacket& s) noexcept {
  if (job.tsi == jobs::TsiRule::kOpaque)
    return x.template rmw<HeadReg>(s.head,
                                   [&](Head& head) { return OpaqueSession::decide(head, p, s, job); });
  return x.template rmw<OwnerReg>(p.line, [&](Owner& owner) {
    return x.template rmw<OperationReg>(p.line, [&](std::uint32_t& operation) {
      return x.template rmw<HeadReg>(
          p.line, [&](Head& head) { return PacketSession::decide(head, owner, operation, p, s, job); });
    });
  });
}

// Everything that needs no register was checked before. p.line: the entry's.
template <class Exec>
Ruling aggregate_session(Exec& x, const jobs::SessionJob& job, JobState& state, Contribution& p,
                         SessionPacket& s) noexcept {
  const Decision d = decide_session(x, job, p, s);
  if (d.op == Op::kNone && !d.entry_is_ours) return {.drop = d.drop};
  x.template rmw<PathReg>(path_of(p.line, raw(p.rank)), [&](ReturnPath& path) {
    path = s.path;
    return 0;
  });
  if (d.op == Op::kNone) return {.drop = d.drop};

  const auto merge_max = [](std::int8_t a, std::int8_t b) noexcept { return std::max(a, b); };
  p.sum.exponent = x.template rmw<ExponentReg>(
      p.line, [&](std::int8_t& r) { return obey(d.op, r, p.sum.exponent, merge_max); });
  s.exponent1 = x.template rmw<Exponent1Reg>(
      p.line, [&](std::int8_t& r) { return obey(d.op, r, s.exponent1, merge_max); });
  state.occupancy += static_cast<std::uint32_t>(static_cast<std::int32_t>(d.occupancy));

  p.line += jobs::session_front_lines(job.world) - 1;  // the kernels' values are a line behind `line`
  state.overflows += x.values(d.op, p, false).overflow ? 1 : 0;
  if (d.op == Op::kRead) return {.verdict = Verdict::kRepeat};
  const bool complete = d.op == Op::kAddEmit || job.world == 1;
  return {.verdict = complete ? Verdict::kComplete : Verdict::kAbsorb};
}

// The reply in the packet's own place: everything as it came but what is the session's or the entry's.
inline void write_session_result(std::byte* datagram, const jobs::SessionJob& job, const Contribution& p,
                                 const SessionPacket& s) noexcept {
  switchml::PacketHeader h;
  std::memcpy(&h, datagram, sizeof h);
  h.type_size =
      static_cast<std::uint8_t>(0x10 | std::countr_zero(std::uint32_t{job.payload} / switchml::kMinPayload));
  h.exponent0 = p.sum.exponent;
  h.exponent1 = s.exponent1;
  std::memcpy(datagram, &h, sizeof h);
}

// As Pipeline::contribute. Out of its way.
template <class Exec>
[[gnu::noinline]] Outcome Pipeline<Exec>::contribute_session(Parsed& parsed, const Frame& frame,
                                                             TimeNs now) noexcept {
  const jobs::SessionJob& job = parsed.session();
  Contribution& p = parsed.contribution;
  switchml::PacketHeader h;
  std::memcpy(&h, parsed.payload, sizeof h);
  const std::uint32_t entry = p.line;
  JobState& state = states_[raw(job.id)];
  const bool opaque = job.tsi == jobs::TsiRule::kOpaque;
  SessionPacket s{.head = session_line(job, raw(p.slot), 0),
                  .set = (h.pool_index.host() & switchml::kSetBit) != 0 ? 1U : 0U,
                  .operation = opaque ? state.run.life(job.epoch, now)
                                      : state.run.operation(job.epoch, h.job_number, now),
                  .now = jobs::stamp(now),
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
  Outcome out = conclude(parsed, ruling.verdict, complete, now);
  out.session = true;
  return out;
}

}  // namespace tally::pipeline

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
Decision decide_session(Exec& x, const jobs::SessionJob& job, const SessionRun& run, Contribution& p,
                        SessionPacket& s) noexcept {
  if (job.tsi == jobs::TsiRule::kOpaque)
    return x.template rmw<HeadReg>(s.head,
                                   [&](Head& head) { return OpaqueSession::decide(head, p, s, job); });
  return x.template rmw<OperationReg>(p.line, [&](std::uint32_t& operation) {
    return x.template rmw<HeadReg>(
        p.line, [&](Head& head) { return PacketSession::decide(head, operation, p, s, run, job); });
  });
}

// Everything that needs no register was checked before. p.line: the entry's.
template <class Exec>
Ruling aggregate_session(Exec& x, const jobs::SessionJob& job, JobState& state, Contribution& p,
                         SessionPacket& s) noexcept {
  const Decision d = decide_session(x, job, state.run, p, s);
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

// For control, which alone can say it to people.
template <class Exec>
void Pipeline<Exec>::report_stall(const Parsed& parsed, const SessionPacket& s, Drop why) noexcept {
  const jobs::SessionJob& job = parsed.session();
  const bool opaque = job.tsi == jobs::TsiRule::kOpaque;
  const std::uint32_t line = opaque ? s.head : session_line(job, raw(parsed.contribution.slot), s.set);
  const std::uint64_t in = exec_.head(line).contributors;
  switchml::PacketHeader h;
  std::memcpy(&h, parsed.payload, sizeof h);
  events_.push({.kind = EventKind::kStalled,
                .job = job.id,
                .epoch = job.epoch,
                .chunk = parsed.contribution.chunk,
                .rank = parsed.contribution.rank,
                .others = opaque ? in >> (32 * s.set) & 0xFFFF'FFFF : in,
                .pool_index = h.pool_index.host(),
                .job_number = h.job_number,
                .refused = why == Drop::kStale || why == Drop::kForeign,
                .since = states_[raw(job.id)].stall.since()});
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
  Outcome refused;
  if (RateGate::concerns(job, state, parsed.sender()) && exceeds(parsed, job.rates, frame, now, refused))
    return refused;
  const bool opaque = job.tsi == jobs::TsiRule::kOpaque;
  SessionPacket s{.head = session_line(job, raw(p.slot), 0),
                  .set = (h.pool_index.host() & switchml::kSetBit) != 0 ? 1U : 0U,
                  .operation = opaque ? 0 : state.run.operation(job.epoch, h.job_number),
                  .job_number = h.job_number,
                  .exponent1 = h.exponent1,
                  .path = {udp_before(parsed.payload).source.host(), frame.port}};

  const Ruling ruling = aggregate_session(exec_, job, state, p, s);
  const bool complete = ruling.verdict == Verdict::kComplete;
  if (complete && !opaque) state.run.complete(s.operation);
  if (complete || ruling.verdict == Verdict::kAbsorb) {
    state.stall.moved();
  } else if (state.stall.asked(now)) {
    report_stall(parsed, s, ruling.drop);
  }
  if (ruling.verdict == Verdict::kDrop) return drop(parsed, frame, ruling.drop, now);
  if (ruling.verdict == Verdict::kAbsorb) return conclude(parsed, Verdict::kAbsorb, true, now);
  write_session_result(parsed.payload, job, p, s);
  for (std::uint64_t left = complete ? job.members : p.bit; left != 0; left &= left - 1) {
    const auto rank = static_cast<std::uint32_t>(std::countr_zero(left));
    paths_[rank] = exec_.template peek<PathReg>(path_of(entry, rank));
  }
  Outcome out = conclude(parsed, ruling.verdict, complete, now);
  out.session = true;
  return out;
}

}  // namespace tally::pipeline

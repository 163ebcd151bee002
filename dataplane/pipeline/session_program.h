#pragma once
// The aggregation program of the dialect switchml, written once like program.h. Values wrap around; there are
// no sums and no shapes on its wire, so nothing here can find a corrupted payload.

#include <algorithm>
#include <cstdint>

#include "program.h"
#include "session_pool.h"

namespace tally {

template <class Exec>
Decision decide_session(Exec& x, const Job& job, Contribution& p, SessionPacket& s) noexcept {
  if (job.session->tsi == TsiRule::kOpaque)
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
Ruling aggregate_session(Exec& x, const Job& job, JobState& state, Contribution& p,
                         SessionPacket& s) noexcept {
  const Decision d = decide_session(x, job, p, s);
  if (d.op == Op::kNone && !d.entry_is_ours) return {.drop = d.drop};
  x.template rmw<PathReg>(path_of(p.line, raw(p.rank)), [&](ReturnPath& path) {
    path = s.path;
    return 0;
  });
  if (d.op == Op::kNone) return {.drop = d.drop};

  const auto merge_max = [](std::int8_t a, std::int8_t b) noexcept { return std::max(a, b); };
  p.exponent = x.template rmw<ExponentReg>(
      p.line, [&](std::int8_t& r) { return obey(d.op, r, p.exponent, merge_max); });
  s.exponent1 = x.template rmw<Exponent1Reg>(
      p.line, [&](std::int8_t& r) { return obey(d.op, r, s.exponent1, merge_max); });
  state.occupancy += static_cast<std::uint32_t>(static_cast<std::int32_t>(d.occupancy));

  p.line += session_front_lines(job.world) - 1;  // the kernels' values are a line behind `line`
  state.overflows += x.values(d.op, p, false).overflow ? 1 : 0;
  if (d.op == Op::kRead) return {.verdict = Verdict::kRepeat};
  const bool complete = d.op == Op::kAddEmit || job.world == 1;
  return {.verdict = complete ? Verdict::kComplete : Verdict::kAbsorb};
}

}  // namespace tally

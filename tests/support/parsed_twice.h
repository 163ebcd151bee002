#pragma once
// Does the pipeline find out the same of a frame whether a member's template knows it or the gates judge it?
// What the first pass finds out is all that the second goes by: the same here is the same verdict, counters
// and registers.

#include <tuple>

#include "pipeline/pipeline.h"

namespace tally {

template <class Exec>
[[nodiscard]] bool template_agrees_with_gates(const pipeline::Pipeline<Exec>& pipeline,
                                              const pipeline::Frame& frame) {
  pipeline::Parsed known;
  pipeline::Parsed judged;
  pipeline.parse(frame, known);
  pipeline.judge(frame, judged);
  const auto found = [](const pipeline::Parsed& p) {
    return std::tie(p.kind, p.drop, p.reject, p.type, p.owner, p.job, p.payload, p.payload_bytes);
  };
  const auto told = [](const pipeline::Contribution& c) {
    return std::tie(c.values, c.line, c.chunk, c.slot, c.epoch, c.rank, c.priority, c.verify, c.direct, c.bit,
                    c.key, c.sequence, c.number, c.missing, c.row, c.room, c.swapped, c.form);
  };
  const auto sum = [](const jobs::Sum& s) { return std::tie(s.shape, s.sum1, s.sum2, s.exponent, s.marks); };
  return found(known) == found(judged) && told(known.contribution) == told(judged.contribution) &&
         sum(known.contribution.sum) == sum(judged.contribution.sum);
}

}  // namespace tally

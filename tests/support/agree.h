#pragma once
// What two ways of a frame through the box must agree on: that of its member's template and that of the gates, the
// fused execution and the staged one, a plan and none.

#include <string>
#include <tuple>

#include "pipeline/pipeline.h"

namespace tally {

// The first field in which two outcomes differ, with both verdicts; empty: none. Jobs are compared by their ids and
// payloads by their lengths, for theirs may be other tables and are other buffers.
[[nodiscard]] inline std::string difference(const pipeline::Outcome& a, const pipeline::Outcome& b) {
  const auto id = [](const jobs::Job* job) { return job != nullptr ? job->id : JobId{}; };
  const char* const field = a.verdict != b.verdict                           ? "verdict"
                            : a.drop != b.drop                               ? "drop"
                            : a.owner != b.owner                             ? "owner"
                            : a.session != b.session                         ? "session"
                            : a.member != b.member                           ? "member"
                            : a.to != b.to                                   ? "to"
                            : a.ranks != b.ranks                             ? "ranks"
                            : id(a.job) != id(b.job)                         ? "job"
                            : a.server != b.server                           ? "server"
                            : a.priority != b.priority                       ? "priority"
                            : a.payload_bytes != b.payload_bytes             ? "payload_bytes"
                            : a.reject != b.reject                           ? "reject"
                            : a.reject_reason != b.reject_reason             ? "reject_reason"
                            : a.reject_contributors != b.reject_contributors ? "reject_contributors"
                            : a.nack != b.nack                               ? "nack"
                                                                             : nullptr;
  if (field == nullptr) return {};
  const auto told = [](const pipeline::Outcome& of) {
    return std::string(name_of(of.verdict)).append(" ").append(name_of(of.drop));
  };
  return std::string(field).append(": ").append(told(a)).append(", ").append(told(b));
}

// Does the pipeline find out the same of a frame whether a member's template knows it or the gates judge it? What the
// first pass finds out is all that the second goes by: the same here is the same verdict, counters and registers.
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

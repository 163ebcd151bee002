#include "answers.h"

namespace tally {
namespace {

JoinedPayload common_part(const BoxState& box, std::uint64_t nonce, JoinStatus status) {
  JoinedPayload p;
  p.nonce = Be<std::uint64_t>(nonce);
  p.box_mac = box.options.box_mac;
  p.status = status;
  p.discipline = Discipline::kPool;
  p.results = ResultsMode::kUnicast;
  p.shards = box.options.shards;
  return p;
}

void fill_job_part(JoinedPayload& p, const JobMembership& job) {
  p.world = Be<std::uint16_t>(job.config.workers);
  p.lease_ms = Be<std::uint32_t>(static_cast<std::uint32_t>(job.config.lease / kMillisecond));
}

}  // namespace

void answer_running(const JobMembership& job, BoxState& box, Rank rank) {
  const MemberState& m = job.member(rank);
  const Term& term = job.term;
  JoinedPayload p = common_part(box, m.nonce, JoinStatus::kRunning);
  fill_job_part(p, job);
  p.cookie = Be<std::uint64_t>(raw(term.contribution.at(place_of(rank))));
  p.salt = Be<std::uint64_t>(term.salt);
  p.record = term.record;
  p.window = Be<std::uint32_t>(term.window);
  p.most_advanced = Be<std::uint16_t>(raw(term.most_advanced));
  p.discipline = job.config.discipline;
  if (shares_slots(p.discipline)) p.shared_slots = Be<std::uint32_t>(box.shared_slots());
  p.results = term.results;
  if (term.results == ResultsMode::kMulticast) {
    p.group = term.group;
    p.group_port = Be<std::uint16_t>(kMulticastPort);
  }
  Header header;
  header.job = Be<std::uint16_t>(raw(job.id));
  header.epoch = Be<std::uint32_t>(raw(term.epoch));
  header.cookie = Be<std::uint64_t>(raw(term.result));
  // Its workers order their packets below this maximum; clamped by the cores, all would be equal.
  if (shares_slots(p.discipline)) header.priority = job.config.priority;
  if (job.config.stragglers.timeout != 0) header.flags = kFlagIncomplete;
  box.outbox.send_joined(header, p, {}, m.binding);
}

void answer_forming(const JobMembership& job, BoxState& box, std::uint64_t nonce, std::uint64_t missing,
                    const Binding& to) {
  JoinedPayload p = common_part(box, nonce, JoinStatus::kForming);
  fill_job_part(p, job);
  p.missing = Be<std::uint64_t>(missing);
  box.outbox.send_joined(Header{}, p, {}, to);
}

void answer_refused(BoxState& box, std::uint64_t nonce, std::string_view text, const Binding& to) {
  box.outbox.send_joined(Header{}, common_part(box, nonce, JoinStatus::kRefused), text, to);
}

}  // namespace tally

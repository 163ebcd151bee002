#include "members/job_membership.h"

#include <algorithm>
#include <bit>

namespace tally::members {
namespace {

template <class Predicate>
std::uint64_t ranks_where(const JobMembership& job, Predicate holds) noexcept {
  std::uint64_t bits = 0;
  for (std::uint16_t r = 0; r < job.config.workers; ++r) {
    if (holds(job.members[r])) bits |= bit_of(Rank{r});
  }
  return bits;
}

}  // namespace

std::uint64_t JobMembership::joined() const noexcept {
  return ranks_where(*this, [](const MemberState& m) { return m.joined; });
}

std::uint64_t JobMembership::left() const noexcept {
  return ranks_where(*this, [](const MemberState& m) { return m.left; });
}

std::uint64_t JobMembership::live(TimeNs now) const noexcept {
  return ranks_where(*this, [&](const MemberState& m) { return m.joined && !m.left && lease_end(m) > now; });
}

std::uint32_t JobMembership::missing_servers() const noexcept {
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < config.servers; ++i) {
    if (!members[place_of(server_rank(i))].joined) bits |= std::uint32_t{1} << i;
  }
  return bits;
}

bool JobMembership::deserted() const noexcept {
  return joined() == 0 && static_cast<std::uint32_t>(std::popcount(missing_servers())) == config.servers;
}

TimeNs JobMembership::patience() const noexcept { return std::max(config.lease, kJoinPatience); }

TimeNs JobMembership::lease_end(const MemberState& m) const noexcept {
  const TimeNs most = phase == JobPhase::kForming ? patience() : config.lease;
  return after(after(m.last_seen, most), std::min(m.unheard, most));
}

JobStatus status_of(const JobMembership& job, TimeNs now) {
  const Term& term = job.offered() ? job.offer : job.term;
  JobStatus s;
  s.id = job.id;
  s.name = job.config.name;
  s.phase = job.phase;
  s.world = job.config.workers;
  if (job.offered() || job.active()) s.epoch = term.epoch;
  s.generation = term.generation();
  s.elements = term.record.elements.host();
  s.window = term.window;
  s.largest_window = term.record.largest_window.host();
  s.wanted_window = job.config.window;
  s.limit = job.limit == kNoLimit ? 0 : job.limit;
  s.shrunk_for = job.shrunk_for;
  s.slots = job.slots;
  s.discipline = job.config.discipline;
  s.priority = job.config.priority;
  s.reserved = job.quota.reserved;
  s.cap = job.quota.cap;
  if (job.phase == JobPhase::kForming) {
    s.missing = job.missing();
    s.missing_servers = job.missing_servers();
  }
  s.live = job.live(now);
  s.reason = job.reason;
  for (const Rank r : job.ranks()) {
    const MemberState& m = job.member(r);
    auto& list = is_server(r) ? s.servers : s.ranks;
    list.push_back({m.joined, m.left, m.instance, m.attempt, m.next, m.last_seen, m.binding});
  }
  return s;
}

}  // namespace tally::members

#include "members/native_life.h"

#include <algorithm>
#include <bit>

namespace tally::members {
namespace {

template <class Predicate>
std::uint64_t ranks_where(std::span<const MemberState> workers, Predicate holds) noexcept {
  std::uint64_t bits = 0;
  for (std::size_t r = 0; r < workers.size(); ++r) {
    if (holds(workers[r])) bits |= std::uint64_t{1} << r;
  }
  return bits;
}

}  // namespace

NativeLife::NativeLife(BoxState& box, JobId id, NativeConfig config) : box_(box), id_(id) {
  adopt(std::move(config));
}

std::uint64_t NativeLife::joined() const noexcept {
  return ranks_where(workers(), [](const MemberState& m) { return m.joined; });
}

std::uint64_t NativeLife::left() const noexcept {
  return ranks_where(workers(), [](const MemberState& m) { return m.left; });
}

std::uint64_t NativeLife::live(TimeNs now) const noexcept {
  std::uint64_t bits = 0;
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    const MemberState& m = members_[r];
    if (m.joined && !m.left && lease_end(Rank{r}) > now) bits |= bit_of(Rank{r});
  }
  return bits;
}

std::uint32_t NativeLife::missing_servers() const noexcept {
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < config_.external_servers(); ++i) {
    if (!members_[place_of(server_rank(i))].joined) bits |= std::uint32_t{1} << i;
  }
  return bits;
}

bool NativeLife::deserted() const noexcept {
  return joined() == 0 &&
         static_cast<std::uint32_t>(std::popcount(missing_servers())) == config_.external_servers();
}

TimeNs NativeLife::patience() const noexcept { return std::max(config_.lease, kJoinPatience); }

JobStatus NativeLife::status(TimeNs now) const {
  const Term& term = newest_term();
  JobStatus s;
  s.id = id_;
  s.name = config_.name;
  s.phase = phase_;
  s.world = config_.workers;
  if (offered() || active()) s.epoch = term.epoch;
  s.generation = term.generation();
  s.elements = term.record.elements.host();
  s.window = term.window;
  s.largest_window = term.record.largest_window.host();
  s.wanted_window = config_.window;
  s.deferred = deferred_.has_value();
  s.lease = config_.lease;
  s.limit = limit_ == kNoLimit ? 0 : limit_;
  s.shrunk_for = shrunk_for_;
  s.slots = slots_;
  s.discipline = config_.discipline;
  s.priority = config_.priority;
  s.packet_rate = config_.packet_rate;
  s.bad_packet_rate = config_.bad_packet_rate;
  s.reserved = quota_.reserved;
  s.cap = quota_.cap;
  if (phase_ == JobPhase::kForming) {
    s.missing = missing();
    s.missing_servers = missing_servers();
  }
  s.live = live(now);
  s.reason = reason_;
  for (const Rank r : ranks_) {
    const MemberState& m = member(r);
    auto& list = is_server(r) ? s.servers : s.ranks;
    list.push_back({m.joined, m.left, m.instance, m.attempt, m.next, heard_at(r), m.binding});
  }
  return s;
}

}  // namespace tally::members

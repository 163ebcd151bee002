#include "engine/worker_join.h"

#include <bit>
#include <cstring>
#include <numeric>

namespace tally::engine {
namespace {

constexpr std::uint32_t kLeastWindow = 16;
constexpr std::uint32_t kGreatestWindow = 16384;

bool is_window(std::uint32_t w) noexcept {
  return std::has_single_bit(w) && w >= kLeastWindow && w <= kGreatestWindow;
}

bool plausible_slots(const Membership& m) noexcept {
  switch (m.discipline) {
    case Discipline::kPool:
      return true;
    case Discipline::kFcfs:
    case Discipline::kPreemptive:
    case Discipline::kShared:
      return m.shared_slots >= m.shards;  // each data core has some
  }
  return false;
}

// Where each sum is of all ranks and made by one box alone.
bool plausible_features(const Header& header, const Membership& m) noexcept {
  return !m.sparse || (m.discipline == Discipline::kPool && !m.stragglers &&
                       (header.flags & (kFlagPlanned | kFlagRacks)) == 0);
}

bool plausible(const Membership& m, std::uint16_t elements) noexcept {
  return raw(m.job) != 0 && raw(m.job) <= kMaxJobs && raw(m.epoch) != 0 && raw(m.generation) != 0 &&
         is_window(m.largest_window) && is_window(m.window) && m.window <= m.largest_window &&
         is_window(m.lookahead) && m.lookahead <= m.largest_window && m.elements != 0 &&
         valid_elements(m.elements) && m.elements <= elements && m.world >= 1 && m.ranks() <= kMaxRanks &&
         raw(m.most_advanced) < m.ranks() && m.shards >= 1 && m.shards <= kMaxShards && m.lease != 0 &&
         plausible_slots(m) && !(m.stragglers && shares_slots(m.discipline)) &&
         m.max_priority <= kGreatestPriority &&
         (m.results == ResultsMode::kUnicast || m.results == ResultsMode::kMulticast);
}

// number: the program's, which becomes a rank of the rack.
bool put_racks(const Header& header, const Joined& joined, Rank number, Membership& m) noexcept {
  m.rank = number;
  if ((header.flags & kFlagRacks) == 0) return true;
  const auto place = read_racks(joined.text);
  if (!place) return false;
  m.place = *place;
  m.rank = Rank{static_cast<std::uint16_t>(raw(number) - place->first)};  // it wraps below the rack
  const auto world = std::reduce(place->workers.begin(), place->workers.end(), std::uint32_t{0});
  return world == m.world && raw(m.rank) < m.ranks() && m.discipline == Discipline::kPool && !m.stragglers &&
         m.results == ResultsMode::kUnicast && (header.flags & kFlagPlanned) == 0;
}

void put_keys(Rank number, Membership& m) noexcept {
  const auto key = [&m](std::uint32_t n) {
    return m.has_racks() ? racked_key(m.generation, n)
                         : rank_key(m.generation, Rank{static_cast<std::uint16_t>(n)});
  };
  for (std::uint32_t n = 0; n < m.world; ++n) m.key_sum += key(n);
  m.key = key(raw(number));
}

// A job without a plan has nothing behind the fixed part.
bool put_plan(const Header& header, const Joined& joined, Membership& m) noexcept {
  if ((header.flags & kFlagPlanned) == 0) return true;
  if (joined.text.size() != sizeof(PlannedText)) return false;
  const auto said = wire_at<PlannedText>(joined.text.data());
  m.plan_id = said.plan;
  m.plan_bytes = said.bytes.host();
  m.home_box = said.home;
  return m.plan_bytes != 0 && m.plan_bytes <= kMaxPlanBytes &&
         (said.home < kMaxPlanBoxes || said.home == PlannedText::kNoBox) &&
         said.zero == decltype(said.zero){} && m.discipline == Discipline::kShared &&
         m.results == ResultsMode::kUnicast;
}

}  // namespace

std::optional<Refused> read_joined(std::span<const std::byte> payload, Joined& out) noexcept {
  std::memcpy(&out.fixed, payload.data(), sizeof out.fixed);
  out.text = auth::body_of(payload).subspan(sizeof out.fixed);
  if (out.text.size() != out.fixed.text_bytes.host() || out.text.size() > kMaxTextBytes)
    return Refused::kLength;
  return std::nullopt;
}

std::optional<RackPlace> read_racks(std::span<const std::byte> text) noexcept {
  if (text.size() < sizeof(RacksText)) return std::nullopt;
  const auto said = wire_at<RacksText>(text.data());
  RackPlace place;
  if (said.racks == 0 || said.racks > kMaxRacks || text.size() != sizeof said + said.racks ||
      said.zero != 0 || said.rack >= said.racks || said.most_advanced >= said.racks)
    return std::nullopt;
  place.racks = said.racks;
  place.rack = said.rack;
  place.most_advanced = said.most_advanced;
  for (std::uint32_t r = 0; r < said.racks; ++r) {
    const auto workers = std::to_integer<std::uint8_t>(text[sizeof said + r]);
    if (workers == 0 || workers > kMaxRanks) return std::nullopt;
    if (r < said.rack) place.first = static_cast<std::uint16_t>(place.first + workers);
    place.workers.at(r) = workers;
  }
  return place;
}

std::optional<Membership> to_membership(const Header& header, const Joined& said,
                                        const EngineOptions& options, const auth::Key& job) noexcept {
  const JoinedPayload& joined = said.fixed;
  Membership m;
  m.job = header.job_id();
  m.epoch = header.epoch_id();
  m.cookie = Cookie{joined.cookie.host()};
  m.result_cookie = Cookie{header.cookie.host()};
  m.generation = Generation{joined.record.generation.host()};
  m.first_chunk = Chunk{joined.record.first_chunk.host()};
  m.largest_window = joined.record.largest_window.host();
  m.lookahead = joined.record.lookahead.host();
  m.elements = joined.record.elements.host();
  m.window = joined.window.host();
  m.world = joined.world.host();
  m.shards = joined.shards;
  m.discipline = joined.discipline;
  m.shared_slots = joined.shared_slots.host();
  m.salt = joined.salt.host();
  if (header.priority != 0) m.max_priority = header.priority;
  m.stragglers = (header.flags & kFlagIncomplete) != 0;
  m.sparse = options.sparse && (header.contributors.host() & kFeatureSparse) != 0;
  m.lease = TimeNs{joined.lease_ms.host()} * kMillisecond;
  m.most_advanced = Rank{joined.most_advanced.host()};
  m.results = joined.results;
  m.group_port = joined.group_port.host();
  m.group = joined.group;
  m.box_mac = joined.box_mac;
  if (!put_racks(header, said, options.rank, m) || !plausible(m, options.elements) ||
      !plausible_features(header, m) || !put_plan(header, said, m))
    return std::nullopt;
  put_keys(options.rank, m);
  m.session =
      auth::session_key(job, m.generation, m.epoch, m.result_cookie, m.cookie, options.instance, m.rank);
  return m;
}

std::string name_ranks(std::uint64_t ranks, std::uint32_t first) {
  if (ranks == 0) return {};
  std::string out = std::has_single_bit(ranks) ? "rank " : "ranks ";
  for (bool more = false; ranks != 0; ranks &= ranks - 1, more = true) {
    if (more) out += ", ";
    out += std::to_string(first + static_cast<std::uint32_t>(std::countr_zero(ranks)));
  }
  return out;
}

}  // namespace tally::engine

#include "engine/worker_join.h"

#include <bit>
#include <cstring>

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

bool plausible(const Membership& m, std::uint16_t elements) noexcept {
  return raw(m.job) != 0 && raw(m.job) <= kMaxJobs && raw(m.epoch) != 0 && raw(m.generation) != 0 &&
         is_window(m.largest_window) && is_window(m.window) && m.window <= m.largest_window &&
         is_window(m.lookahead) && m.lookahead <= m.largest_window && m.elements != 0 &&
         valid_elements(m.elements) && m.elements <= elements && m.world >= 1 && m.world <= kMaxRanks &&
         raw(m.most_advanced) < m.world && m.shards >= 1 && m.shards <= kMaxShards && m.lease != 0 &&
         plausible_slots(m) && !(m.stragglers && shares_slots(m.discipline)) &&
         m.max_priority <= kGreatestPriority &&
         (m.results == ResultsMode::kUnicast || m.results == ResultsMode::kMulticast);
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
  m.lease = TimeNs{joined.lease_ms.host()} * kMillisecond;
  m.most_advanced = Rank{joined.most_advanced.host()};
  m.results = joined.results;
  m.group_port = joined.group_port.host();
  m.group = joined.group;
  m.box_mac = joined.box_mac;
  if (!plausible(m, options.elements) || !put_plan(header, said, m)) return std::nullopt;
  for (std::uint32_t r = 0; r < m.world; ++r)
    m.key_sum += rank_key(m.generation, Rank{static_cast<std::uint16_t>(r)});
  m.key = rank_key(m.generation, options.rank);
  m.session = auth::session_key(job, m.generation, m.epoch, m.result_cookie, m.cookie, options.instance,
                                options.rank);
  return m;
}

std::string name_ranks(std::uint64_t ranks) {
  if (ranks == 0) return {};
  std::string out = std::has_single_bit(ranks) ? "rank " : "ranks ";
  for (bool first = true; ranks != 0; ranks &= ranks - 1, first = false) {
    if (!first) out += ", ";
    out += std::to_string(std::countr_zero(ranks));
  }
  return out;
}

}  // namespace tally::engine

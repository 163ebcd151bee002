#include "members/session_life.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "members/box_state.h"
#include "members/texts.h"

namespace tally::members {
namespace {

std::uint8_t home_of(JobId id, const BoxState& box) noexcept {
  return static_cast<std::uint8_t>(raw(id) % box.options.shards);
}

std::uint32_t world_of(const SessionConfig& config) noexcept {
  return static_cast<std::uint32_t>(config.members.size());
}

jobs::Binding binding_of(const ConfiguredMember& m) {
  jobs::Binding binding;
  binding.mac = m.mac;
  binding.address = mapped(m.ipv4);
  binding.udp_port = m.port;
  return binding;
}

std::string no_room_text(const SessionConfig& c, const BoxState& box) {
  return "admission: " + std::to_string(c.slots) + " slots of " + std::to_string(c.payload) + " bytes for " +
         std::to_string(c.members.size()) + " members take " + kib_text(lines_of(c)) +
         " of slot memory per core; " + kib_text(box.slots.free_lines()) + " of " +
         kib_text(box.slots.lines()) + " are free, the largest hole has " +
         kib_text(box.slots.largest_hole()) +
         ": raise dataplane.slots, lower slots, or give other jobs less. Tried again when some come free";
}

// With a new epoch; carried by the next publication.
void publish_row(SessionMembership& session, BoxState& box) {
  const SessionConfig& c = session.config;
  session.epoch = box.draw_session_epoch();
  auto row = std::make_shared<jobs::Job>();
  row->id = session.id;
  row->epoch = session.epoch;
  row->result_cookie = box.source.cookie();
  row->world = static_cast<std::uint8_t>(c.members.size());
  row->elements = static_cast<std::uint16_t>(c.payload / 4);
  row->members = members_of(row->world);
  row->slots = session.slots;
  for (const ConfiguredMember& m : c.members) row->ranks.at(m.rank) = {box.source.cookie(), 0, binding_of(m)};
  row->session = jobs::Session{.payload = static_cast<std::uint16_t>(c.payload),
                               .tsi = c.tsi,
                               .slots = c.slots,
                               .home = home_of(session.id, box)};
  box.publisher.set(session.id, std::move(row));
  session.row_version = box.publisher.next_version();
  session.phase.transition(JobPhase::kForming);
}

void try_to_admit(SessionMembership& session, BoxState& box) {
  if (const JobMembership* const first = box.awaits_slots(); first != nullptr) {
    session.lacks = SessionLacks::kTurn;
    session.reason = "admission: waits until job '" + first->config.name + "' has its slot memory";
    return;
  }
  const auto lines = box.slots.allocate(lines_of(session.config));
  if (!lines) {
    session.lacks = SessionLacks::kRoom;
    session.reason = no_room_text(session.config, box);
    return;
  }
  session.slots = *lines;
  session.lacks = SessionLacks::kNothing;
  session.reason.clear();
  publish_row(session, box);
}

// What the cores count out of the occupancy while they zero it. With tsi opaque one head holds both sets and
// never counts.
jobs::FreedLines freed_lines(const SessionMembership& session) {
  const SessionConfig& c = session.config;
  const bool counted = c.tsi == jobs::TsiRule::kPacket;
  return {.job = session.id,
          .elements = counted ? static_cast<std::uint16_t>(c.payload / 4) : std::uint16_t{0},
          .lines = session.slots,
          .members = members_of(static_cast<std::uint16_t>(c.members.size())),
          .in_front = jobs::session_front_lines(world_of(c))};
}

}  // namespace

Result<void> objection_to(const SessionConfig& config, const BoxState& box) {
  for (const auto& other : box.sessions) {
    if (other == nullptr) continue;
    for (const ConfiguredMember& theirs : other->config.members) {
      const auto same = std::find_if(config.members.begin(), config.members.end(),
                                     [&](const auto& m) { return same_sender(m, theirs); });
      if (same == config.members.end()) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "rank " + std::to_string(same->rank) + " has the addresses of rank " +
                      std::to_string(theirs.rank) + " of job '" + other->config.name +
                      "': a packet could be of either",
                  "job '" + config.name + "'");
    }
  }
  return {};
}

void declare_session(JobId id, SessionConfig config, BoxState& box) {
  auto session = std::make_unique<SessionMembership>();
  session->id = id;
  session->last_seen.resize(config.members.size());
  session->config = std::move(config);
  try_to_admit(*session, box);
  box.sessions.at(raw(id)) = std::move(session);
}

bool end_session(JobId id, BoxState& box) {
  auto& session = box.sessions.at(raw(id));
  if (session == nullptr) return false;
  box.publisher.clear(id);
  if (session->slots.count != 0) {
    box.slots.release(session->slots);
    box.publisher.freed(freed_lines(*session));
    box.slots_changed = true;
  }
  session.reset();
  return true;
}

void end_all_sessions(BoxState& box) {
  std::erase_if(box.names, [&](const auto& named) { return end_session(named.second, box); });
}

void admit_sessions(BoxState& box) {
  for (const auto& session : box.sessions) {
    if (session != nullptr && session->epoch == Epoch{}) try_to_admit(*session, box);
  }
}

void sessions_in_force(BoxState& box, std::uint64_t version, TimeNs now) {
  for (const auto& session : box.sessions) {
    if (session == nullptr || session->phase != JobPhase::kForming || session->row_version > version)
      continue;
    session->phase.transition(JobPhase::kRunning);
    session->running_since = now;
  }
}

void restart_sessions(BoxState& box) {
  for (const auto& session : box.sessions) {
    if (session != nullptr && session->epoch != Epoch{}) publish_row(*session, box);
  }
}

void note_seen(SessionMembership& session, Rank rank, TimeNs last_seen) noexcept {
  if (raw(rank) >= session.last_seen.size() || session.phase != JobPhase::kRunning) return;
  TimeNs& seen = session.last_seen[raw(rank)];
  seen = std::max(seen, last_seen);
}

JobStatus status_of(const SessionMembership& session, const BoxState& box) {
  const SessionConfig& c = session.config;
  JobStatus s;
  s.id = session.id;
  s.name = c.name;
  s.phase = session.phase;
  s.world = static_cast<std::uint16_t>(c.members.size());
  s.epoch = session.epoch;
  s.elements = static_cast<std::uint16_t>(c.payload / 4);
  s.slots = session.slots;
  s.reason = session.reason;
  s.session =
      SessionStatus{c.payload, c.slots, c.tsi, home_of(session.id, box), box.options.box_mac, session.lacks};
  s.ranks.resize(c.members.size());
  for (const ConfiguredMember& m : c.members) {
    RankStatus& rank = s.ranks[m.rank];
    rank.last_seen = session.last_seen[m.rank];
    rank.binding = binding_of(m);
    if (rank.last_seen > session.running_since) s.live |= bit_of(Rank{m.rank});
  }
  if (session.phase != JobPhase::kRunning) s.live = 0;
  return s;
}

std::string nobody_joins_text(const std::string& name) {
  return "job '" + cleaned(name) +
         "' is a session of SwitchML's clients (dialect: switchml): its members are written in the box's "
         "configuration, and nobody joins it";
}

}  // namespace tally::members

// What becomes of a session: its row, its slot memory, its status.

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "members/box_state.h"
#include "members/session_life.h"
#include "members/texts.h"
#include "text/text.h"

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

}  // namespace

// With a new epoch; carried by the next publication.
void SessionLife::publish_row() {
  const SessionConfig& c = config_;
  epoch_ = box_.draw_session_epoch(id_);
  auto row = std::make_shared<jobs::SessionJob>();
  row->id = id_;
  row->epoch = epoch_;
  row->result_cookie = box_.source.cookie();
  row->world = static_cast<std::uint8_t>(c.members.size());
  row->elements = static_cast<std::uint16_t>(c.payload / 4);
  row->members = members_of(row->world);
  row->slots = slots_;
  for (const ConfiguredMember& m : c.members)
    row->ranks.at(m.rank) = {box_.source.cookie(), 0, binding_of(m)};
  row->payload = static_cast<std::uint16_t>(c.payload);
  row->tsi = c.tsi;
  row->slot_count = c.slots;
  row->home = home_of(id_, box_);
  row->rates = rate_limits(c);
  row->limits_packets = row->rates.packets.has_value();
  box_.publisher.set(id_, std::move(row));
  row_version_ = box_.await(id_);
  box_.enter(id_, phase_, JobPhase::kForming, false);
}

SessionLife::SessionLife(BoxState& box, JobId id, SessionConfig config)
    : box_(box), id_(id), config_(std::move(config)) {
  try_to_begin({});
}

void SessionLife::try_to_begin(TimeNs /*now*/) {
  if (epoch_ != Epoch{}) return;
  box_.unadmitted.insert(id_);
  box_.touch(id_);
  if (const ResidentJob* const first = box_.awaits_slots(); first != nullptr) {
    lacks_ = SessionLacks::kTurn;
    reason_ = "admission: waits until job '" + first->config().name + "' has its slot memory";
    return;
  }
  const auto lines = box_.slots.allocate(lines_of(config_));
  if (!lines) {
    lacks_ = SessionLacks::kRoom;
    reason_ = no_room_text(config_, box_);
    return;
  }
  box_.unadmitted.erase(id_);
  slots_ = *lines;
  lacks_ = SessionLacks::kNothing;
  reason_.clear();
  publish_row();
}

// What the cores count out of the occupancy while they zero it. With tsi opaque one head holds both sets and
// never counts.
jobs::FreedLines SessionLife::freed_lines() const {
  const SessionConfig& c = config_;
  const bool counted = c.tsi == jobs::TsiRule::kPacket;
  return {.job = id_,
          .elements = counted ? static_cast<std::uint16_t>(c.payload / 4) : std::uint16_t{0},
          .lines = slots_,
          .members = members_of(static_cast<std::uint16_t>(c.members.size())),
          .in_front = jobs::session_front_lines(world_of(c))};
}

void SessionLife::withdraw(std::string_view /*reason*/) {
  box_.publisher.clear(id_);
  if (slots_.count == 0) return;
  box_.slots.release(slots_);
  box_.publisher.freed(freed_lines());
  box_.slots_changed = true;
}

bool SessionLife::in_force(std::uint64_t version, TimeNs now) {
  if (row_version_ > version) return false;
  if (phase_ == JobPhase::kForming) running_since_ = now;
  box_.enter(id_, phase_, JobPhase::kRunning, false);
  return true;
}

void SessionLife::restart(TimeNs /*now*/) {
  if (epoch_ != Epoch{}) publish_row();
}

Result<void> SessionLife::resize(std::uint32_t /*window*/, TimeNs /*now*/) {
  return fail(ErrorCode::kInvalidArgument, "it is a session of the dialect switchml, which has no window",
              "job '" + config_.name + "'");
}

JobStatus SessionLife::status(TimeNs /*now*/) const {
  const SessionConfig& c = config_;
  JobStatus s;
  s.id = id_;
  s.name = c.name;
  s.phase = phase_;
  s.world = static_cast<std::uint16_t>(c.members.size());
  s.epoch = epoch_;
  s.elements = static_cast<std::uint16_t>(c.payload / 4);
  s.slots = slots_;
  s.packet_rate = c.packet_rate;
  s.reason = reason_;
  s.session = SessionStatus{
      c.payload, c.slots, c.tsi, home_of(id_, box_), box_.options.box_mac, lacks_, SessionConfig::kSystem};
  s.ranks.resize(c.members.size());
  for (const ConfiguredMember& m : c.members) {
    RankStatus& rank = s.ranks[m.rank];
    if (box_.last_seen && phase_ == JobPhase::kRunning) rank.last_seen = box_.last_seen(id_, Rank{m.rank});
    rank.binding = binding_of(m);
    if (rank.last_seen > running_since_) s.live |= bit_of(Rank{m.rank});
  }
  if (phase_ != JobPhase::kRunning) s.live = 0;
  return s;
}

std::string SessionLife::nobody_joins_text() const {
  return "job '" + text::cleaned(config_.name) +
         "' is a session of SwitchML's clients (dialect: switchml): its members are written in the box's "
         "configuration, and nobody joins it";
}

std::string clash_text(const SessionConfig& session, const SessionConfig& other) {
  const auto sender = [](const ConfiguredMember& m) { return std::tuple(m.mac, m.ipv4, m.port); };
  for (const ConfiguredMember& theirs : other.members) {
    const auto same = std::ranges::find(session.members, sender(theirs), sender);
    if (same == session.members.end()) continue;
    return "rank " + std::to_string(same->rank) + " has the addresses of rank " +
           std::to_string(theirs.rank) + " of job '" + other.name + "'";
  }
  return {};
}

}  // namespace tally::members

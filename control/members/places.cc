// What a native job does alike at its home and at another box: who has a place, what a member must show, and what is
// told to it; the row.

#include <algorithm>
#include <bit>
#include <utility>

#include "members/box_state.h"
#include "members/rack_seat.h"
#include "members/resident_job.h"
#include "members/texts.h"

namespace tally::members {
namespace {

std::uint32_t rack_key(Generation generation, const RacksConfig& racks, std::size_t rack) noexcept {
  std::uint32_t sum = 0;
  const std::uint32_t first = racks.first_of(rack);
  for (std::uint32_t g = first; g < first + racks.workers[rack]; ++g) sum += racked_key(generation, g);
  return sum;
}

std::uint32_t key_of(Generation generation, const NativeConfig& config, Rank rank) noexcept {
  if (!config.racks) return rank_key(generation, rank);
  const RacksConfig& racks = *config.racks;
  if (!racks.rack) return rack_key(generation, racks, raw(rank));
  return racked_key(generation, racks.first_of(*racks.rack) + std::uint32_t{raw(rank)});
}

jobs::Parent parent_of(const ParentTerm& told, const RacksConfig& racks, Rank most_advanced) noexcept {
  jobs::Parent parent;
  parent.binding = told.binding;
  parent.job = told.job;
  parent.rack = *racks.rack;
  parent.racks = static_cast<std::uint8_t>(racks.workers.size());
  parent.shards = told.shards;
  parent.most_advanced = most_advanced;
  parent.window = told.window;
  for (std::size_t rack = 0; rack < racks.workers.size(); ++rack)
    parent.key_sum += rack_key(told.generation(), racks, rack);
  parent.cookie = told.cookie;
  parent.result_cookie = told.result;
  parent.members = members_of(static_cast<std::uint16_t>(racks.workers.size()));
  return parent;
}

bool knows_secret(const Term& term, const Header& h) noexcept {
  return raw(h.epoch_id()) != 0 && h.epoch_id() == term.epoch &&
         Cookie{h.cookie.host()} == term.contribution.at(place_of(h.rank_id()));
}

}  // namespace

ResidentJob::ResidentJob(BoxState& box, JobId id, NativeConfig config) : box_(box), id_(id) {
  adopt(std::move(config));
}

void ResidentJob::adopt(NativeConfig config) {
  config_ = std::move(config);
  key_ = auth::job_key(config_.name, config_.token);
  ranks_.clear();
  for (std::uint16_t r = 0; r < config_.workers; ++r) ranks_.push_back(Rank{r});
  for (std::uint32_t s = 0; s < config_.external_servers(); ++s) ranks_.push_back(server_rank(s));
}

void ResidentJob::enter(JobPhase phase) {
  box_.enter(id_, phase_, phase, shares_slots(config_.discipline));
  if (deferred_ && nobody_is_in(phase)) adopt(*std::exchange(deferred_, std::nullopt));
}

void ResidentJob::touch() { box_.touch(id_); }

std::uint64_t ResidentJob::joined() const noexcept {
  std::uint64_t bits = 0;
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    if (members_[r].joined) bits |= bit_of(Rank{r});
  }
  return bits;
}

std::uint32_t ResidentJob::missing_servers() const noexcept {
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < config_.external_servers(); ++i) {
    if (!members_[place_of(server_rank(i))].joined) bits |= std::uint32_t{1} << i;
  }
  return bits;
}

bool ResidentJob::deserted() const noexcept {
  return joined() == 0 &&
         static_cast<std::uint32_t>(std::popcount(missing_servers())) == config_.external_servers();
}

TimeNs ResidentJob::heard_at(Rank rank) const noexcept {
  const MemberState& m = member(rank);
  if (is_server(rank) || !m.joined || !active() || !box_.last_seen) return m.last_seen;
  return std::max(m.last_seen, box_.last_seen(id_, rank));
}

TimeNs ResidentJob::silence_end(Rank rank, TimeNs lease) const noexcept {
  const TimeNs heard = heard_at(rank);
  return after(after(heard, lease), std::min(box_.unheard.since(heard), lease));
}

std::string ResidentJob::silence_text(const std::vector<Rank>& silent, TimeNs lease, TimeNs now) const {
  std::string text;
  for (const Rank r : silent) {
    const MemberState& m = member(r);
    if (!text.empty()) text += "; ";
    text += rank_text(r, names()) + " at " + address_text(m.binding.address) + " was silent for " +
            seconds_text(now - heard_at(r));
  }
  return text + " (lease " + seconds_text(lease) + ")";
}

bool ResidentJob::said_by(const Term& term, std::uint64_t instance, const auth::Key& session,
                          const ControlPacket& packet) noexcept {
  const bool beats = packet.header.type == PacketType::kHeartbeat;
  if (beats && packet.header.contributors.host() != instance) return false;
  return auth::verify(beats ? term.key : session, packet.header, packet.payload);
}

std::optional<MembershipDrop> ResidentJob::objection_to(const ControlPacket& packet,
                                                        const jobs::Binding& source) const {
  const Header& h = packet.header;
  const MemberState& m = member(h.rank_id());
  if (!knows_secret(term_, h)) return MembershipDrop::kCookie;
  if (m.binding != source) return MembershipDrop::kSource;
  if (!said_by(term_, m.instance, session_key(h.rank_id()), packet)) return MembershipDrop::kTag;
  if (packet.counter <= m.counter) return MembershipDrop::kReplay;
  return std::nullopt;
}

void ResidentJob::remember(bool aborted, std::string_view text) {
  if (term_.epoch == Epoch{}) return;
  gone_.term = term_;
  gone_.aborted = aborted;
  gone_.text = text;
  for (std::size_t i = 0; i < kMaxPlaces; ++i) {
    gone_.bindings[i] = members_[i].binding;
    gone_.instances[i] = members_[i].instance;
  }
}

// A member of the term that ended last, which has not heard of its end. Its counter is not looked at: the
// answer to an old packet says nothing new, and goes where the new one's would; copies get it ten times a
// second at most.
bool ResidentJob::answer_gone(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  const Header& h = packet.header;
  const std::size_t place = place_of(h.rank_id());
  if (!knows_secret(gone_.term, h) || gone_.bindings.at(place) != source) return false;
  const auth::Key session = gone_.term.session_key(h.rank_id(), gone_.instances.at(place));
  if (!said_by(gone_.term, gone_.instances.at(place), session, packet)) {
    box_.count(MembershipDrop::kTag);
    return true;
  }
  if (gone_.aborted) {
    box_.count(MembershipDrop::kAborted);
    if (box_.farewells.take(source, now))
      box_.outbox.send_abort(id_, gone_.term, gone_.text, session, source);
    return true;
  }
  if (h.type != PacketType::kLeave) return false;
  box_.accept(PacketType::kLeave);
  if (!box_.farewells.take(source, now)) return true;
  box_.outbox.send_echo(h, gone_.term, 0, session, source);
  return true;
}

void ResidentJob::call_back(Rank rank) {
  box_.outbox.send_reject(id_, term_, session_key(rank), member(rank).binding);
}

JoinedPayload ResidentJob::joined_part(std::uint64_t nonce, JoinStatus status) const {
  JoinedPayload p = box_.joined_part(nonce, status);
  p.world = Be<std::uint16_t>(config_.world());
  p.lease_ms = Be<std::uint32_t>(static_cast<std::uint32_t>(config_.lease / kMillisecond));
  return p;
}

void ResidentJob::answer_forming(std::uint64_t nonce, std::uint64_t awaited, const jobs::Binding& to) {
  JoinedPayload p = joined_part(nonce, JoinStatus::kForming);
  p.missing = Be<std::uint64_t>(awaited);
  Header header;
  std::string text;
  if (config_.has_parent()) {
    header.flags = kFlagRacks;
    text = racks_text({}, 0);
  }
  box_.outbox.send_joined(header, p, text, &key_, to);
}

void ResidentJob::answer_elsewhere(std::uint64_t nonce, BoxIndex box, const jobs::Binding& to) {
  const Ipv6& address = config_.boxes->addresses[box];
  box_.outbox.send_joined(Header{}, joined_part(nonce, JoinStatus::kElsewhere),
                          {reinterpret_cast<const char*>(address.data()), address.size()}, &key_, to);
}

std::string ResidentJob::racks_text(Rank to, std::uint8_t most_advanced) const {
  const RacksConfig& racks = *config_.racks;
  RacksText fixed;
  fixed.rack = racks.rack.value_or(static_cast<std::uint8_t>(raw(to)));
  fixed.most_advanced = most_advanced;
  fixed.racks = static_cast<std::uint8_t>(racks.workers.size());
  std::string text(reinterpret_cast<const char*>(&fixed), sizeof fixed);
  text.append(racks.workers.begin(), racks.workers.end());
  return text;
}

void ResidentJob::refuse_held(const Request& request, const jobs::Binding& source, TimeNs now) {
  box_.refuse(request, source, now, MembershipDrop::kHeld,
              rank_text(request.rank, names()) + " is held by a live process at " +
                  address_text(member(request.rank).binding.address));
}

void ResidentJob::follow(BoxIndex home) {
  config_.boxes->home = home;
  if (deferred_ && deferred_->boxes) deferred_->boxes->home = home;
  touch();
}

std::shared_ptr<jobs::NativeJob> ResidentJob::row_of(const Term& term) const {
  auto row = std::make_shared<jobs::NativeJob>();
  row->id = id_;
  row->epoch = term.epoch;
  row->generation = term.generation();
  row->result_cookie = term.result;
  row->discipline = config_.discipline;
  row->server = config_.server;
  row->decay = config_.decay;
  row->results = term.results;
  row->sparse = term.sparse;
  row->world = static_cast<std::uint8_t>(config_.workers);
  row->shards = box_.options.shards;
  row->elements = term.record.elements.host();
  row->window = term.window;
  row->span = 2 * term.record.largest_window.host();
  row->members = everyone();
  row->slots = slots_;
  if (shares_slots(row->discipline)) {
    row->shared_slots = box_.shared_slots();
    row->salt = term.salt;
    row->reserved = quota_.reserved;
  }
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    const std::uint32_t key = key_of(term.generation(), config_, Rank{r});
    row->ranks.at(r) = {term.contribution.at(r), key, members_[r].binding};
    row->key_sum += key;
  }
  row->servers = config_.external_servers();
  for (std::uint32_t i = 0; i < row->servers; ++i) {
    const Rank r = server_rank(i);
    row->server_ranks.at(i) = {term.contribution.at(place_of(r)), 0, member(r).binding};
  }
  if (term.plan) row->take_part(term.part);
  if (term.parent) {
    row->racked = true;
    row->parent = parent_of(*term.parent, *config_.racks, term.most_advanced);
  }
  row->rates = rate_limits(config_, box_.options.shards);
  row->limits_packets = row->rates.packets.has_value();
  return row;
}

std::uint64_t ResidentJob::publish(std::shared_ptr<const jobs::NativeJob> row) {
  if (shares_slots(row->discipline)) box_.publisher.cap(id_, quota_.cap);
  box_.publisher.set(id_, std::move(row));
  return box_.await(id_);
}

JobStatus ResidentJob::common_status(const Term& term) const {
  JobStatus s;
  s.id = id_;
  s.name = config_.name;
  s.phase = phase_;
  s.world = config_.workers;
  s.generation = term.generation();
  s.elements = term.record.elements.host();
  s.window = term.window;
  s.largest_window = term.record.largest_window.host();
  s.wanted_window = config_.window;
  s.deferred = deferred_.has_value();
  s.lease = config_.lease;
  s.slots = slots_;
  s.discipline = config_.discipline;
  s.priority = config_.priority;
  s.packet_rate = config_.packet_rate;
  s.bad_packet_rate = config_.bad_packet_rate;
  s.reserved = quota_.reserved;
  s.cap = quota_.cap;
  s.reason = reason_;
  for (const Rank r : ranks_) {
    const MemberState& m = member(r);
    auto& list = is_server(r) ? s.servers : s.ranks;
    list.push_back({m.joined, m.left, m.instance, m.attempt, m.next, heard_at(r), m.binding});
  }
  return s;
}

BoxesStatus ResidentJob::boxes_status(const Term& term) const {
  BoxesStatus s;
  const BoxesConfig& boxes = *config_.boxes;
  s.here = boxes.here;
  s.home = boxes.home;
  for (const Ipv6& address : boxes.addresses) {
    const bool planned = term.plan && term.plan->index_of(address) != PlannedText::kNoBox;
    s.boxes.push_back({address, planned, false});
  }
  if (term.plan) {
    s.plan = term.plan->id;
    s.plan_bytes = static_cast<std::uint32_t>(term.plan->bytes.size());
  }
  return s;
}

}  // namespace tally::members

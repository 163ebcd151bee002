// All ranks are there: which epoch they get. Either they all bring the same generation, which is adopted, or
// a new one begins; admission finds the window; the row goes to the cores; when they have it, the members are
// told.

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "members/box_state.h"
#include "members/native_life.h"
#include "members/room.h"
#include "members/texts.h"

namespace tally::members {
namespace {

// A fence before which all chunks of an epoch lie, which ends at 2^29 of them.
constexpr std::uint32_t kOutOfReach = std::uint32_t{1} << 30;

// The record that all joined ranks report, if it is one and the same and not zero.
std::optional<GenerationRecord> common_record(std::span<const MemberState> workers) {
  std::optional<GenerationRecord> common;
  for (const MemberState& m : workers) {
    if (!m.joined) continue;
    if (is_zero(m.reported) || (common && *common != m.reported)) return std::nullopt;
    common = m.reported;
  }
  return common;
}

bool further(const MemberState& a, const MemberState& b) {
  const std::int32_t by_next = serial_difference(a.next, b.next);
  return by_next != 0 ? by_next > 0 : serial_difference(a.lowest, b.lowest) > 0;
}

// The first rank of each (port, VLAN, IP version): one identical frame serves all that share them.
std::uint64_t leaders_of(const jobs::NativeJob& row) {
  std::uint64_t leaders = 0;
  for (std::uint16_t r = 0; r < row.world; ++r) {
    const auto same_wire = [&](std::uint16_t other) {
      const jobs::Binding& a = row.ranks.at(r).binding;
      const jobs::Binding& b = row.ranks.at(other).binding;
      return a.port == b.port && a.vlan == b.vlan && is_mapped_ipv4(a.address) == is_mapped_ipv4(b.address);
    };
    bool led = false;
    for (std::uint16_t other = 0; other < r && !led; ++other) led = same_wire(other);
    if (!led) leaders |= bit_of(Rank{r});
  }
  return leaders;
}

}  // namespace

Rank NativeLife::most_advanced() const {
  std::optional<Rank> best;
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    if (!members_[r].joined) continue;
    if (!best || further(members_[r], members_[raw(*best)])) best = Rank{r};
  }
  return best.value_or(Rank{0});
}

std::uint16_t NativeLife::negotiated_elements() const {
  std::uint16_t least = config_.elements;
  for (const Rank r : ranks_) {
    if (member(r).joined) least = std::min(least, member(r).elements);
  }
  return least;
}

// A generation that goes on keeps the size of its packets. Servers whose path does not carry them are
// refused, and their places wait for others.
bool NativeLife::refuse_narrow_servers(std::uint16_t elements) {
  bool any = false;
  for (std::uint32_t i = 0; i < config_.external_servers(); ++i) {
    MemberState& m = member(server_rank(i));
    if (!m.joined || m.elements >= elements) continue;
    any = true;
    m.joined = m.repeated = false;
    reason_ = too_narrow_text(server_rank(i), m.elements, elements);
    box_.answer_refused(m.nonce, reason_, &key_, m.binding);
  }
  box_.slots_changed = box_.slots_changed || any;  // it waits no longer for slot memory
  return any;
}

// Where each sum is of all ranks, made by this box alone, in slots of the job's own.
bool NativeLife::may_be_sparse() const {
  return config_.discipline == Discipline::kPool && config_.workers > 1 && !config_.stragglers &&
         !config_.boxes && !config_.racks && std::all_of(ranks_.begin(), ranks_.end(), [this](Rank r) {
           return (member(r).features & kFeatureSparse) != 0;
         });
}

void NativeLife::fill_group(Term& term) const {
  std::uint32_t ipv6 = 0;
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    if (!is_mapped_ipv4(members_[r].binding.address)) ++ipv6;
  }
  // One frame per port has one address family: a job of both gets unicast results.
  const bool mixed = ipv6 != 0 && ipv6 != config_.workers;
  term.results = mixed ? ResultsMode::kUnicast : config_.results;
  if (term.results == ResultsMode::kMulticast) term.group = jobs::multicast_group(id_, ipv6 != 0);
}

void NativeLife::draw_secrets(Term& term) {
  if (term.epoch == Epoch{}) term.epoch = box_.draw_epoch(id_);
  term.result = box_.source.cookie();
  term.salt = box_.source.word();
  for (const Rank r : ranks_) term.contribution.at(place_of(r)) = box_.source.cookie();
}

GenerationRecord NativeLife::new_record(std::uint32_t window, std::uint16_t elements) {
  GenerationRecord record;
  record.generation = Be<std::uint64_t>(raw(box_.source.generation()));
  record.first_chunk = Be<std::uint32_t>(raw(config_.first_chunk));
  record.largest_window = Be<std::uint32_t>(window);
  record.lookahead = Be<std::uint32_t>(window);
  record.elements = Be<std::uint16_t>(elements);
  return record;
}

// Forming with nobody missing: makes the offer, or refuses or aborts with the reason in the text, or does
// nothing yet, because pools of lower priority are to make room first.
void NativeLife::make_offer(TimeNs now) {
  cancel_offer();
  if (config_.has_parent()) return offer_of_parent(now);
  const auto common = common_record(workers());
  const std::uint16_t elements = common ? common->elements.host() : negotiated_elements();
  if (refuse_narrow_servers(elements)) return;
  const std::uint32_t largest = common ? common->largest_window.host() : 0;
  const bool gives = reforming() && outranked(*this, box_);
  const std::uint32_t most = std::min({config_.window, limit_, gives ? term_.window : limit_});
  const bool grows = reforming() && limit_ != kNoLimit && most > term_.window;
  const Wish wish{elements, common ? std::min(most, largest) : most, largest, grows, gives};
  if (objection(wish).empty() && must_wait(*this, box_, wish, now)) return;
  if (config_.boxes && box_.options.homes_move) {
    std::string no = objection_to_room(wish);
    lacks_ = no.empty() ? std::nullopt : std::optional(wish);
    if (lacks_) {
      reason_ = bounded("waits for a home with more room: " + no);
      return touch();
    }
  }
  const auto window = admit(wish);
  if (!window) {
    return reforming() ? abort(window.error()) : refuse_waiting(everyone(), window.error());
  }
  Term term;
  term.key = key_;
  term.record = common ? *common : new_record(*window, elements);
  term.window = *window;
  term.most_advanced = common ? most_advanced() : Rank{0};
  term.base = common ? member(term.most_advanced).next : config_.first_chunk;
  term.held = common && (!reforming() || term_.held);
  if (config_.boxes) {
    auto plan = new_plan();
    const BoxIndex own = plan->index_of(own_address());
    term.take_plan(std::move(plan), own);
  }
  term.sparse = may_be_sparse();
  fill_group(term);
  draw_secrets(term);
  offer_version_ = publish_row(term);
  offer_ = term;
}

// For the boxes that nobody has lost. This one is always among them: who speaks to it has not.
std::shared_ptr<const NamedPlan> NativeLife::new_plan() {
  const BoxesConfig& boxes = *config_.boxes;
  const std::uint64_t all = members_of(static_cast<std::uint16_t>(boxes.addresses.size()));
  std::vector<Ipv6> workers;
  std::vector<Ipv6> servers;
  for (const Rank r : ranks_) (is_server(r) ? servers : workers).push_back(member(r).binding.address);
  const PlanRequest request{.job = config_.name,
                            .world = config_.workers,
                            .servers = config_.external_servers(),
                            .addresses = boxes.addresses,
                            .usable = all & ~left_out_,
                            .rank_addresses = workers,
                            .server_addresses = servers};
  Plan plan = box_.options.plans(request);
  stand_in_ = !fits(plan, request);
  return NamedPlan::of(stand_in_ ? even_plan(request) : std::move(plan));
}

// What was offered, if anything, is taken back; nobody had been told.
void NativeLife::cancel_offer() {
  if (!offered()) return;
  box_.publisher.clear(id_);
  release_slots();
  offer_ = {};
  offer_version_ = 0;
}

std::uint64_t NativeLife::publish_row(const Term& term) {
  auto row = row_of(term);
  if (const auto& late = config_.stragglers) {
    // Whatever was offered or finished in an earlier epoch lies before the term's base.
    const Chunk fence = term.held ? term.base + kOutOfReach : term.base;
    row->stragglers = {jobs::stamp(late->timeout), static_cast<std::uint8_t>(late->least), fence};
  }
  row->max_priority = config_.priority;
  row->leaders = leaders_of(*row);
  return publish(std::move(row));
}

bool NativeLife::in_force(std::uint64_t version, TimeNs now) {
  const bool begins = offered() && offer_version_ <= version;
  if (begins) {
    term_ = std::exchange(offer_, {});
    offer_version_ = 0;
    returning_since_ = kNever;
    running_since_ = now;
    reason_.clear();
    if (seat_) seat_->use();
    enter(JobPhase::kRunning);
    if (term_.window >= std::min(config_.window, term_.record.largest_window.host())) limit_to(kNoLimit);
    box_.slots_changed = true;  // it can be called back again
  }
  bool later = offered();
  for (const Rank r : ranks_) {
    MemberState& m = member(r);
    const bool due = m.answer_at != 0 && m.answer_at <= version;
    later = later || m.answer_at > version;
    if (!m.joined || m.left || !(begins || due)) continue;
    m.answer_at = 0;
    if (begins) m.heard(now);  // a whole lease from the moment it is told
    answer_running(r);
  }
  return !later;
}

// The workers because of which the term is not of the generation that this rank brought: they brought none,
// or another.
std::uint64_t NativeLife::strangers_to(const MemberState& m) const noexcept {
  if (is_zero(m.reported) || m.reported == term_.record) return 0;
  std::uint64_t strangers = 0;
  for (std::uint16_t r = 0; r < config_.workers; ++r) {
    if (members_[r].reported != m.reported) strangers |= bit_of(Rank{r});
  }
  return strangers;
}

// To the rank's binding with the nonce of its newest JOIN: the term is in force.
void NativeLife::answer_running(Rank rank) {
  const MemberState& m = member(rank);
  const Term& term = term_;
  JoinedPayload p = joined_part(m.nonce, JoinStatus::kRunning);
  p.missing = Be<std::uint64_t>(strangers_to(m));
  p.cookie = Be<std::uint64_t>(raw(term.contribution.at(place_of(rank))));
  p.salt = Be<std::uint64_t>(term.salt);
  p.record = term.record;
  p.window = Be<std::uint32_t>(term.window);
  p.most_advanced = Be<std::uint16_t>(raw(term.most_advanced));
  p.lease_ms = Be<std::uint32_t>(static_cast<std::uint32_t>(lease() / kMillisecond));
  p.discipline = config_.discipline;
  if (shares_slots(p.discipline)) p.shared_slots = Be<std::uint32_t>(box_.shared_slots());
  p.results = term.results;
  if (term.results == ResultsMode::kMulticast) {
    p.group = term.group;
    p.group_port = Be<std::uint16_t>(kMulticastPort);
  }
  Header header;
  header.job = Be<std::uint16_t>(raw(id_));
  header.epoch = Be<std::uint32_t>(raw(term.epoch));
  header.cookie = Be<std::uint64_t>(raw(term.result));
  // Its workers order their packets below this maximum; clamped by the cores, all would be equal.
  if (shares_slots(p.discipline)) header.priority = config_.priority;
  if (config_.stragglers) header.flags = kFlagIncomplete;
  if (term.sparse) header.contributors = Be<std::uint64_t>{kFeatureSparse};
  PlannedText planned;
  std::string racks;
  std::string_view text;
  if (term.plan) {
    header.flags = kFlagPlanned;
    planned.plan = term.plan->id;
    planned.bytes = Be<std::uint32_t>(static_cast<std::uint32_t>(term.plan->bytes.size()));
    planned.home = term.plan->index_of(own_address());
    text = {reinterpret_cast<const char*>(&planned), sizeof planned};
  }
  if (config_.racks) {
    header.flags = kFlagRacks;
    const std::uint8_t rack =
        term.parent ? term.parent->most_advanced : static_cast<std::uint8_t>(raw(term.most_advanced));
    racks = racks_text(rank, rack);
    text = racks;
  }
  box_.outbox.send_joined(header, p, text, &key_, m.binding);
}

// A page of the plan in force, to who is in its epoch.
void NativeLife::from_planned(const PlanPacket& packet, const jobs::Binding& source, TimeNs now) {
  tick(now);
  if (!has_rank(packet.rank)) return box_.count(MembershipDrop::kRank);
  const NamedPlan* const plan = active() ? term_.plan.get() : nullptr;
  const bool known =
      plan != nullptr && packet.fixed.plan == plan->id && packet.fixed.bytes.host() == plan->bytes.size();
  if (!known || !packet.page.empty()) return box_.count(MembershipDrop::kPlan);
  const MemberState& m = member(packet.rank);
  if (!m.joined || m.left || m.binding != source) return box_.count(MembershipDrop::kSource);
  box_.accept(PacketType::kPlan);
  const auto page = plan->page(packet.fixed.page);
  PlanPayload fixed = packet.fixed;
  fixed.page_bytes = Be<std::uint16_t>(static_cast<std::uint16_t>(page.size()));
  std::vector<std::byte> body(sizeof fixed);
  wire_put(body.data(), fixed);
  const auto name = std::as_bytes(std::span(packet.name));
  body.insert(body.end(), name.begin(), name.end());
  body.insert(body.end(), page.begin(), page.end());
  Header header;
  header.type = PacketType::kPlan;
  box_.outbox.send(header, body, &key_, source);
}

}  // namespace tally::members

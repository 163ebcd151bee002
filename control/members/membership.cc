#include "members/membership.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "engine/datagram.h"
#include "kernels/kernels.h"
#include "members/box_state.h"
#include "members/control_packet.h"
#include "members/groups.h"
#include "members/rebalance.h"
#include "members/room.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::members {

struct MembershipEngine::State {
  State(const MembershipOptions& options, RandomWords random) : box(options, std::move(random)) {}

  BoxState box;
  std::uint32_t last_id = 0;  // ids rotate, so that a withdrawn job's is not taken at once
  std::string closed{};       // why nothing new is admitted; empty: it is

  // For a job of that name; fails if there is one, or no room.
  [[nodiscard]] Result<JobId> new_id(const std::string& name);
  // The life of that id ends, not its name.
  void withdraw(JobId id, std::string_view reason);
  // A group of a declared job that admits it, which the JOIN makes; nullptr: it makes none, and was answered.
  [[nodiscard]] NativeLife* make_group(const ControlPacket& packet, JoinRequest& join,
                                       const jobs::Binding& source, TimeNs now);
  void forget_idle_groups(TimeNs now);
  // After anything that may have changed a job.
  void settle(TimeNs now);
  void join(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  void enlist(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  void planned(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  void probe(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  void from_member(const ControlPacket& packet, const jobs::Binding& source, TimeNs now);
  // True: it is control of the parent of some job, and was taken or dropped as that.
  [[nodiscard]] bool from_parent(std::span<const std::byte> datagram, const jobs::Binding& source,
                                 TimeNs now);
};

namespace {

// Whether a JOIN may ask at all: job, token, world and rank.

std::optional<Objection> objection_to_server(const NativeConfig& job, const JoinRequest& join,
                                             const std::string& name) {
  const std::uint32_t servers = job.external_servers();
  if (server_index(join.rank) < servers) return std::nullopt;
  if (servers == 0) {
    return Objection{MembershipDrop::kRank,
                     name + " has no external server here: write server: external in its configuration"};
  }
  return Objection{MembershipDrop::kRank, name + " has servers 0 to " + std::to_string(servers - 1) +
                                              ", not " + std::to_string(server_index(join.rank))};
}

// Of a job of racks: who joins at the box of a rack, and who at the parent.
std::optional<Objection> objection_to_racks(const NativeConfig& job, const JoinRequest& join,
                                            const Ipv6& from, const std::string& name) {
  const RacksConfig& racks = *job.racks;
  const bool is_rack = join.fixed.rack_workers != 0;
  if (!racks.rack) {
    if (!is_rack) {
      return Objection{MembershipDrop::kRank,
                       name + " has racks, and this is their parent: join at the box of the worker's rack"};
    }
    if (const auto n = raw(join.rank) < job.workers ? racks.workers[raw(join.rank)] : 0U;
        n != join.fixed.rack_workers) {
      return Objection{MembershipDrop::kRank, name + ": rack " + std::to_string(raw(join.rank)) + " has " +
                                                  std::to_string(n) + " workers here, and " +
                                                  std::to_string(join.fixed.rack_workers) +
                                                  " at its own box"};
    }
    return std::nullopt;
  }
  const std::uint16_t first = racks.first_of(*racks.rack);
  if (is_rack || from == racks.parent) {
    return Objection{MembershipDrop::kRank, name + ": this is the box of rack " +
                                                std::to_string(*racks.rack) +
                                                ", which workers join and no other box"};
  }
  if (raw(join.rank) < first || raw(join.rank) >= first + job.workers) {
    return Objection{MembershipDrop::kRank,
                     name + ": this is the box of rack " + std::to_string(*racks.rack) +
                         ", whose ranks are " + std::to_string(first) + " to " +
                         std::to_string(first + job.workers - 1) + ", not " + std::to_string(raw(join.rank))};
  }
  return std::nullopt;
}

// `job`: what the JOIN names, nullptr if nothing of that name is declared.
std::optional<Objection> objection_to(const NativeConfig* job, const JoinRequest& join, const Ipv6& from) {
  const std::string name = "job '" + text::cleaned(join.name) + "'";
  if (job == nullptr) return Objection{MembershipDrop::kUnknownJob, name + " is not declared on this box"};
  if (join.key == nullptr) return Objection{MembershipDrop::kToken, name + ": wrong token"};
  if (is_server(join.rank)) return objection_to_server(*job, join, name);
  const std::uint16_t world = join.fixed.world.host();
  const bool is_rack = join.fixed.rack_workers != 0;
  if (is_rack && !job->racks)
    return Objection{MembershipDrop::kRank, name + " has no racks here, and the box of one joins it"};
  const std::uint16_t expected = is_rack ? job->workers : job->world();
  if (world != expected) {
    return Objection{MembershipDrop::kWorld, name + " has " + std::to_string(expected) +
                                                 (is_rack ? " racks here, the box of one expects "
                                                          : " workers here, this worker expects ") +
                                                 std::to_string(world)};
  }
  if (job->racks) return objection_to_racks(*job, join, from, name);
  if (raw(join.rank) >= job->workers) {
    return Objection{MembershipDrop::kRank, name + " has ranks 0 to " + std::to_string(job->workers - 1) +
                                                ", not " + std::to_string(raw(join.rank))};
  }
  return std::nullopt;
}

// What control of a box says to its members.
bool is_answer(PacketType type) noexcept {
  return type == PacketType::kJoined || type == PacketType::kChallenge || type == PacketType::kReject ||
         type == PacketType::kHeartbeat || type == PacketType::kLeave || type == PacketType::kAbort;
}

MembershipDrop drop_of(Refused why) noexcept {
  switch (why) {
    case Refused::kRunt:
      return MembershipDrop::kRunt;
    case Refused::kVersion:
      return MembershipDrop::kVersion;
    case Refused::kCheck:
      return MembershipDrop::kCheck;
    case Refused::kFlags:
      return MembershipDrop::kFlags;
    case Refused::kLength:
      return MembershipDrop::kLength;
    case Refused::kPayload:
      return MembershipDrop::kPayload;
    default:
      return MembershipDrop::kType;
  }
}

std::string shape_text(std::uint16_t elements, std::uint32_t total) {
  return std::to_string(elements) + " elements of an operation of " + std::to_string(total);
}

tl::unexpected<Error> of_one_box(std::string_view name) {
  return fail(ErrorCode::kInvalidArgument, "it is of this box alone", "job '" + std::string(name) + "'");
}

// Why a job with such members cannot be declared beside the others of its dialect.
template <class Config>
Result<void> objection_to(const Config& config, const BoxState& box) {
  for (const typename Config::Life& other : box.all<typename Config::Life>()) {
    const std::string clash = clash_text(config, other.config());
    if (!clash.empty())
      return fail(ErrorCode::kInvalidArgument, clash + ": a packet could be of either",
                  "job '" + config.name + "'");
  }
  return {};
}

std::unique_ptr<Life> new_life(BoxState& box, JobId id, SessionConfig config) {
  return std::make_unique<Life>(std::in_place_type<SessionLife>, box, id, std::move(config));
}
std::unique_ptr<Life> new_life(BoxState& box, JobId id, NativeConfig config) {
  if (config.boxes && config.boxes->home != config.boxes->here)
    return std::make_unique<Life>(std::in_place_type<GuestLife>, box, id, std::move(config));
  return std::make_unique<Life>(std::in_place_type<NativeLife>, box, id, std::move(config));
}

// Where boxes are, and which of them this is, stays; which is the home, set_home() says.
bool has_other_boxes(const NativeConfig& is, const NativeConfig& wanted) {
  if (is.boxes.has_value() != wanted.boxes.has_value()) return true;
  return is.boxes && (is.boxes->addresses != wanted.boxes->addresses || is.boxes->here != wanted.boxes->here);
}

tl::unexpected<Error> unknown_job(std::string_view name) {
  return fail(ErrorCode::kInvalidArgument, "no job of this name is declared",
              "job '" + std::string(name) + "'");
}

}  // namespace

Result<JobId> MembershipEngine::State::new_id(const std::string& name) {
  if (box.names.contains(name)) {
    return fail(ErrorCode::kInvalidArgument, "a job of this name is declared already", "job '" + name + "'");
  }
  if (box.names.size() >= kMaxJobs) {
    return fail(ErrorCode::kInvalidArgument, "the box holds at most " + std::to_string(kMaxJobs) + " jobs");
  }
  do {
    last_id = last_id % kMaxJobs + 1;
  } while (box.lives[last_id] != nullptr);
  const JobId id{static_cast<std::uint16_t>(last_id)};
  box.names.emplace(name, id);
  return id;
}

void MembershipEngine::State::withdraw(JobId id, std::string_view reason) {
  jobs::with_dialect(*box.find(id), [reason](auto& l) { l.withdraw(reason); });
  box.forget(id);
}

NativeLife* MembershipEngine::State::make_group(const ControlPacket& packet, JoinRequest& join,
                                                const jobs::Binding& source, TimeNs now) {
  const NativeLife* const parent = box.admits(join.name);
  const auto refuse = [&](const Objection& no) -> NativeLife* {
    if (no.text.empty())
      box.count(no.drop);
    else
      box.refuse(join, source, now, no.drop, no.text);
    join.key = nullptr;
    return nullptr;
  };
  if (!closed.empty()) return refuse({MembershipDrop::kUnknownJob, closed});
  if (parent == nullptr) return refuse(*objection_to(nullptr, join, source.address));
  const auth::Key key = auth::job_key(join.name, parent->config().token);
  if (auth::verify(key, packet.header, packet.payload)) join.key = &key;
  if (join.key == nullptr) return refuse(*objection_to(&parent->config(), join, source.address));
  if (auto no = box.groups.objection_to(parent->config(), parent->id(), join, source, now))
    return refuse(*no);
  NativeConfig config = group_config(parent->config(), join.name, join.fixed.world.host());
  const auto id = new_id(config.name);
  if (!id) return refuse({MembershipDrop::kGroups, id.error().text()});
  box.groups.add(*id, parent->id(), parent->config());
  auto& life = box.lives.at(raw(*id));
  life = std::make_unique<Life>(std::in_place_type<NativeLife>, box, *id, std::move(config));
  box.touch(*id);
  auto* const group = std::get_if<NativeLife>(life.get());
  join.key = &group->key();
  return group;
}

void MembershipEngine::State::forget_idle_groups(TimeNs now) {
  for (const JobId id : box.groups.take_moved())
    box.groups.idle(id, nobody_is_in(box.find_native(id)->phase()), now);
  while (const auto id = box.groups.due(now)) {
    box.names.erase(box.names.find(box.find_native(*id)->config().name));
    withdraw(*id, "nobody was in it for long");
  }
}

void MembershipEngine::State::settle(TimeNs now) {
  forget_idle_groups(now);
  settle_slots(box, now);
  box.settle();
}

void MembershipEngine::State::join(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  auto join = read_join(packet);
  if (!join) return box.count(join.error());
  if (!box.fresh(*join, source, now)) return box.send_challenge(*join, source, now);
  const auto named = box.names.find(join->name);
  ResidentJob* job = box.find_resident(join->name);
  if (named == box.names.end()) {
    job = make_group(packet, *join, source, now);
    if (job == nullptr) return;
  } else if (job != nullptr && auth::verify(job->key(), packet.header, packet.payload)) {
    join->key = &job->key();
  }
  if (auto no = objection_to(job == nullptr ? nullptr : &job->config(), *join, source.address)) {
    if (job == nullptr)
      no->text = jobs::with_dialect(*box.find(named->second), [](auto& l) { return l.nobody_joins_text(); });
    return box.refuse(*join, source, now, no->drop, no->text);
  }
  if (auto* const guest = std::get_if<GuestLife>(box.find(job->id())); guest != nullptr)
    return guest->join(*join, source);
  // From here on as everywhere else: its rank in the rack.
  if (job->config().has_parent())
    join->rank = Rank{static_cast<std::uint16_t>(raw(join->rank) - job->names().first)};
  box.find_native(job->id())->join(*join, source, now);
}

void MembershipEngine::State::enlist(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  auto request = read_enlist(packet);
  if (!request) return box.count(request.error());
  ResidentJob* const job = box.find_resident(request->name);
  auto* const guest = job == nullptr ? nullptr : std::get_if<GuestLife>(box.find(job->id()));
  const bool fresh =
      guest != nullptr ? guest->fresh(*request, source, now) : box.fresh(*request, source, now);
  if (!fresh) return box.send_challenge(*request, source, now, guest != nullptr ? guest->epoch() : Epoch{});
  const std::string name = "job '" + text::cleaned(request->name) + "'";
  if (job == nullptr) {
    return box.refuse(*request, source, now, MembershipDrop::kUnknownJob,
                      closed.empty() ? name + " is not declared on this box" : closed);
  }
  if (!auth::verify(job->key(), packet.header, packet.payload))
    return box.refuse(*request, source, now, MembershipDrop::kToken, name + ": wrong token");
  request->key = &job->key();
  if (guest != nullptr) return guest->enlist(*request, source, now);
  box.refuse(*request, source, now, MembershipDrop::kType,
             name + (job->config().boxes ? " has its home here, where nobody enlists"
                                         : " is a job of this box alone here"));
}

void MembershipEngine::State::planned(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  const auto plan = read_plan_packet(packet);
  if (!plan) return box.count(plan.error());
  ResidentJob* const job = box.find_resident(plan->name);
  if (job == nullptr) return box.count(MembershipDrop::kUnknownJob);
  if (!auth::verify(job->key(), packet.header, packet.payload)) return box.count(MembershipDrop::kTag);
  job->from_planned(*plan, source, now);
}

void MembershipEngine::State::probe(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  if (!box.probes.take(jobs::host_of(source), now)) return box.count(MembershipDrop::kRate);
  box.accept(PacketType::kProbe);
  box.outbox.send(packet.header, packet.payload, nullptr, source);
}

void MembershipEngine::State::from_member(const ControlPacket& packet, const jobs::Binding& source,
                                          TimeNs now) {
  ResidentJob* const job = box.find_resident(packet.header.job_id());
  if (job == nullptr) return box.reject(packet, source, now, MembershipDrop::kJob);
  job->from_member(packet, source, now);
}

bool MembershipEngine::State::from_parent(std::span<const std::byte> datagram, const jobs::Binding& source,
                                          TimeNs now) {
  if (datagram.size() < kHeaderBytes) return false;
  const auto header = wire_at<Header>(datagram.data());
  const bool is_parent =
      std::ranges::any_of(box.parents, [&](const auto& of) { return of.second == source.address; });
  if (!is_parent || header.rank_id() != kSwitchRank || !is_answer(header.type)) return false;
  engine::Datagram answer;
  if (const auto wrong = engine::open_datagram(datagram, kernels::best_kernels(), answer)) {
    box.count(drop_of(*wrong));
    return true;
  }
  for (const auto& [id, address] : std::map(box.parents)) {
    NativeLife* const job = box.find_native(id);
    if (!job->awaits(answer, source.address)) continue;
    job->from_parent(answer, source, now);
    return true;
  }
  const bool joins = header.type == PacketType::kJoined || header.type == PacketType::kChallenge;
  box.count(joins ? MembershipDrop::kOldAttempt : MembershipDrop::kEpoch);
  return true;
}

MembershipEngine::MembershipEngine(const MembershipOptions& options, RandomWords random)
    : state_(std::make_unique<State>(options, std::move(random))) {}
MembershipEngine::MembershipEngine(MembershipEngine&&) noexcept = default;
MembershipEngine& MembershipEngine::operator=(MembershipEngine&&) noexcept = default;
MembershipEngine::~MembershipEngine() = default;

Result<JobId> MembershipEngine::declare(JobConfig config) noexcept {
  BoxState& box = state_->box;
  return jobs::with_dialect(config, [&](auto& job) -> Result<JobId> {
    if (auto good = objection_to(job, box); !good) return tl::unexpected<Error>(good.error());
    auto id = state_->new_id(job.name);
    if (!id) return id;
    box.lives.at(raw(*id)) = new_life(box, *id, std::move(job));
    box.touch(*id);
    box.settle();
    return id;
  });
}

Result<void> MembershipEngine::withdraw(std::string_view name, std::string_view reason) noexcept {
  BoxState& box = state_->box;
  const auto named = box.names.find(name);
  if (named == box.names.end()) return unknown_job(name);
  const JobId id = named->second;
  for (const JobId group : box.groups.of(id)) {
    box.names.erase(box.names.find(box.find_native(group)->config().name));
    state_->withdraw(group, reason);
  }
  box.names.erase(named);
  state_->withdraw(id, reason);
  box.renew_secret();  // the name may come again
  box.settle();
  return {};
}

std::size_t MembershipEngine::close(std::string_view reason) noexcept {
  BoxState& box = state_->box;
  state_->closed = reason;
  std::erase_if(box.names, [&](const auto& named) {
    if (jobs::with_dialect(*box.find(named.second), [](const auto& life) { return life.alive(); }))
      return false;
    state_->withdraw(named.second, reason);
    return true;
  });
  box.settle();
  return box.names.size();
}

void MembershipEngine::receive(std::span<const std::byte> datagram, const jobs::Binding& source,
                               TimeNs now) noexcept {
  if (!state_->box.parents.empty() && state_->from_parent(datagram, source, now)) return state_->settle(now);
  const auto packet = read_control(datagram);
  if (!packet) return state_->box.count(packet.error());
  if (packet->header.rank_id() == kSwitchRank) return state_->box.count(MembershipDrop::kRank);
  switch (packet->header.type) {
    case PacketType::kJoin:
      if (packet->header.version != kWireVersion) return state_->box.refuse_version(*packet, source, now);
      state_->join(*packet, source, now);
      break;
    case PacketType::kEnlist:
      state_->enlist(*packet, source, now);
      break;
    case PacketType::kPlan:
      state_->planned(*packet, source, now);
      break;
    case PacketType::kProbe:
      return state_->probe(*packet, source, now);
    default:
      state_->from_member(*packet, source, now);
  }
  state_->settle(now);
}

Result<void> MembershipEngine::change(const NativeConfig& wanted, TimeNs now) noexcept {
  BoxState& box = state_->box;
  ResidentJob* const life = box.find_resident(wanted.name);
  if (life == nullptr) {
    if (!box.names.contains(wanted.name)) return unknown_job(wanted.name);
    return fail(ErrorCode::kInvalidArgument, "it is a session", "job '" + wanted.name + "'");
  }
  if (has_other_boxes(life->config(), wanted)) {
    return fail(ErrorCode::kInvalidArgument,
                "its boxes are others: withdraw it on all of them, and declare it anew",
                "job '" + wanted.name + "'");
  }
  NativeConfig as_here = wanted;
  if (as_here.boxes) as_here.boxes->home = life->config().boxes->home;
  auto done = life->change(as_here, now);
  box.settle();
  return done;
}

Result<void> MembershipEngine::resize(std::string_view name, std::uint32_t window, TimeNs now) noexcept {
  BoxState& box = state_->box;
  const auto named = box.names.find(name);
  if (named == box.names.end()) return unknown_job(name);
  auto done =
      jobs::with_dialect(*box.find(named->second), [&](auto& life) { return life.resize(window, now); });
  box.settle();
  return done;
}

Result<void> MembershipEngine::abort(std::string_view name, std::string_view reason, TimeNs now) noexcept {
  BoxState& box = state_->box;
  const auto named = box.names.find(name);
  if (named == box.names.end()) return unknown_job(name);
  ResidentJob* const life = box.find_resident(named->second);
  if (life == nullptr)
    return fail(ErrorCode::kInvalidArgument, "it is a session, whose clients cannot be told anything",
                "job '" + std::string(name) + "'");
  auto done = life->give_up(reason, now);
  state_->settle(now);
  return done;
}

Result<void> MembershipEngine::replan(std::string_view name, TimeNs now, std::uint64_t take_back) noexcept {
  BoxState& box = state_->box;
  ResidentJob* const life = box.find_resident(name);
  if (life == nullptr && !box.names.contains(name)) return unknown_job(name);
  if (life == nullptr || !life->config().boxes) return of_one_box(name);
  auto done = life->replan(now, take_back);
  state_->settle(now);
  return done;
}

Result<void> MembershipEngine::set_home(std::string_view name, const Ipv6& address, TimeNs now) noexcept {
  BoxState& box = state_->box;
  ResidentJob* const life = box.find_resident(name);
  if (life == nullptr && !box.names.contains(name)) return unknown_job(name);
  if (life == nullptr || !life->config().boxes) return of_one_box(name);
  const BoxesConfig& boxes = *life->config().boxes;
  const auto at = std::ranges::find(boxes.addresses, address);
  if (at == boxes.addresses.end()) {
    return fail(ErrorCode::kInvalidArgument, address_text(address) + " is none of its boxes",
                "job '" + std::string(name) + "'");
  }
  const auto home = static_cast<BoxIndex>(at - boxes.addresses.begin());
  if (home == boxes.home) return {};
  if (home != boxes.here && boxes.home != boxes.here) {
    life->follow(home);
  } else {
    life->hand_over();
    life->follow(home);
    // Under the same id and name; what the other box knew of the members it hears again from them.
    const JobId id = life->id();
    auto deferred = life->deferred();
    NativeConfig config = life->config();
    box.forget(id);
    box.lives.at(raw(id)) = new_life(box, id, std::move(config));
    box.renew_secret();
    box.find_resident(id)->defer(std::move(deferred));
  }
  state_->settle(now);
  return {};
}

void MembershipEngine::hear_of_home(std::string_view name, const HomeNews& news) noexcept {
  ResidentJob* const life = state_->box.find_resident(name);
  if (life != nullptr && life->config().boxes) life->hear_of_home(news);
}

std::optional<BoxesJob> MembershipEngine::boxes_job(std::string_view name) const noexcept {
  const ResidentJob* const life = state_->box.find_resident(name);
  if (life == nullptr || !life->config().boxes) return std::nullopt;
  const NativeConfig& config = life->config();
  return BoxesJob{config.workers, config.external_servers(), config.boxes->home, life->needs(),
                  life->no_room()};
}

std::string MembershipEngine::objection_to_home(std::string_view name,
                                                const HomeNeeds& needs) const noexcept {
  const ResidentJob* const life = state_->box.find_resident(name);
  if (life == nullptr || !life->config().boxes) return {};
  return life->objection_to_home(needs);
}

Result<void> MembershipEngine::reset_session(std::string_view name, TimeNs now) noexcept {
  BoxState& box = state_->box;
  const auto named = box.names.find(name);
  if (named == box.names.end()) return unknown_job(name);
  Life& life = *box.find(named->second);
  if (!std::holds_alternative<SessionLife>(life))
    return fail(ErrorCode::kInvalidArgument, "it is no session: its workers join anew",
                "job '" + std::string(name) + "'");
  jobs::with_dialect(life, [now](auto& l) { l.restart(now); });  // entries of another epoch are nobody's
  box.settle();
  return {};
}

std::optional<Outgoing> MembershipEngine::next(std::span<std::byte> out) noexcept {
  return state_->box.outbox.next(out);
}

void MembershipEngine::report_mismatch(JobId job, Epoch epoch, Rank a, std::uint64_t others,
                                       std::uint16_t elements_a, std::uint16_t elements_b,
                                       std::uint32_t total_a, std::uint32_t total_b, TimeNs now) noexcept {
  ResidentJob* const found = state_->box.find_resident(job);
  if (found == nullptr) return;
  const RankNames& names = found->names();
  std::string text = "the " + std::string(names.word) +
                     "s issued different operations: " + rank_text(a, names) + " sent " +
                     shape_text(elements_a, total_a) + ", " + ranks_text(others, names) + " " +
                     shape_text(elements_b, total_b);
  if (elements_a == elements_b && total_a == total_b)
    text +=
        total_a == 0 ? ": one leaves the job, or their element types differ" : " with another element type";
  found->disagree(epoch, text, now);
  state_->settle(now);
}

void MembershipEngine::listen(LastSeen last_seen) noexcept { state_->box.last_seen = std::move(last_seen); }

void MembershipEngine::unheard(TimeNs time, TimeNs now) noexcept { state_->box.unheard.add(time, now); }

void MembershipEngine::tick(TimeNs now) noexcept {
  BoxState& box = state_->box;
  while (const auto id = box.agenda.due(now)) {
    box.find_resident(*id)->tick(now);
    box.touch(*id);
    box.settle();
  }
  state_->settle(now);
  grow_pools(box, now);
  box.settle();
}

TimeNs MembershipEngine::deadline() const noexcept {
  if (state_->box.slots_changed) return 0;  // jobs wait for what close() or withdraw() freed
  return std::min({state_->box.grow_at, state_->box.agenda.first(), state_->box.groups.deadline()});
}

void MembershipEngine::rebalance(std::span<const SharedDemand> demand) noexcept {
  rebalance_shared(state_->box, demand);
}

std::optional<jobs::Publication> MembershipEngine::publication() noexcept {
  return state_->box.publisher.take();
}

void MembershipEngine::quiesced(std::uint64_t version, TimeNs now) noexcept {
  BoxState& box = state_->box;
  for (const JobId id : std::set(box.awaiting)) {
    box.touch(id);
    if (jobs::with_dialect(*box.find(id), [&](auto& l) { return l.in_force(version, now); }))
      box.awaiting.erase(id);
  }
  state_->settle(now);
}

void MembershipEngine::restart_data_plane(TimeNs now) noexcept {
  BoxState& box = state_->box;
  for (const auto& life : box.lives) {
    if (life != nullptr) jobs::with_dialect(*life, [&](auto& l) { l.restart(now); });
  }
  box.publisher.republish();
  state_->settle(now);
}

std::vector<JobStatus> MembershipEngine::status(TimeNs now) const noexcept {
  std::vector<JobStatus> all;
  for (std::uint16_t id = 1; id <= kMaxJobs; ++id) {
    if (auto job = status(JobId{id}, now); job) all.push_back(std::move(*job));
  }
  return all;
}

std::optional<JobStatus> MembershipEngine::status(JobId job, TimeNs now) const noexcept {
  const Life* const found = state_->box.find(job);
  if (found == nullptr) return std::nullopt;
  JobStatus status = jobs::with_dialect(*found, [now](const auto& life) { return life.status(now); });
  status.group_of = group_of(status.name);
  return status;
}

std::string MembershipEngine::group_of(std::string_view name) const noexcept {
  const BoxState& box = state_->box;
  const auto named = box.names.find(name);
  return named == box.names.end() ? std::string() : box.groups.parent_of(named->second);
}

const MembershipCounters& MembershipEngine::counters() const noexcept { return state_->box.counters; }

std::set<JobId> MembershipEngine::changed() noexcept { return std::exchange(state_->box.changed, {}); }
const std::set<JobId>& MembershipEngine::sharing() const noexcept { return state_->box.sharing; }
std::size_t MembershipEngine::running() const noexcept { return state_->box.running.size(); }
std::size_t MembershipEngine::declared() const noexcept { return state_->box.names.size(); }

}  // namespace tally::members

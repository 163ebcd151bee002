#include "members/reception.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <variant>

#include "engine/datagram.h"
#include "kernels/kernels.h"
#include "members/groups.h"
#include "members/room.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::members {
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

// Of a packet that names this job, or a group of it, and whose tag is not by its key. Who has no token where one is
// wanted, or one where none is, has made another mistake than who has a wrong one.
Objection objection_to_token(const NativeConfig& job, std::string_view named, const ControlPacket& packet) {
  const auto no = [&](const char* why) {
    return Objection{MembershipDrop::kToken, "job '" + text::cleaned(named) + "'" + why};
  };
  if (job.token.empty()) return no(": wrong token: it has none on this box (token_file: none)");
  if (auth::verify(auth::job_key(named, {}), packet.header, packet.payload))
    return no(" has a token on this box, and none came: name its file in TALLY_TOKEN_FILE or --token-file");
  return no(": wrong token");
}

// `job`: what the JOIN names, nullptr if nothing of that name is declared.
std::optional<Objection> objection_to(const NativeConfig* job, const JoinRequest& join,
                                      const ControlPacket& packet, const Ipv6& from) {
  const std::string name = "job '" + text::cleaned(join.name) + "'";
  if (job == nullptr) return Objection{MembershipDrop::kUnknownJob, name + " is not declared on this box"};
  if (join.key == nullptr) return objection_to_token(*job, join.name, packet);
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

// Behind a JOIN ranks of a job of racks are those of the rack.
Rank rank_here(const ResidentJob& job, Rank rank) noexcept {
  if (!job.config().has_parent()) return rank;
  return Rank{static_cast<std::uint16_t>(raw(rank) - job.names().first)};  // it wraps below the rack
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

}  // namespace

Result<JobId> Reception::new_id(const std::string& name) {
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

void Reception::withdraw(JobId id, std::string_view reason) {
  jobs::with_dialect(*box.find(id), [reason](auto& l) { l.withdraw(reason); });
  box.forget(id);
}

NativeLife* Reception::make_group(const ControlPacket& packet, JoinRequest& join, const jobs::Binding& source,
                                  TimeNs now) {
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
  if (parent == nullptr) return refuse(*objection_to(nullptr, join, packet, source.address));
  const auth::Key key = auth::job_key(join.name, parent->config().token);
  if (auth::verify(key, packet.header, packet.payload)) join.key = &key;
  if (join.key == nullptr) return refuse(objection_to_token(parent->config(), join.name, packet));
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

void Reception::forget_idle_groups(TimeNs now) {
  for (const JobId id : box.groups.take_moved())
    box.groups.idle(id, nobody_is_in(box.find_native(id)->phase()), now);
  while (const auto id = box.groups.due(now)) {
    box.names.erase(box.names.find(box.find_native(*id)->config().name));
    withdraw(*id, "nobody was in it for long");
  }
}

void Reception::settle(TimeNs now) {
  forget_idle_groups(now);
  settle_slots(box, now);
  box.settle();
}

void Reception::join(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  auto join = read_join(packet);
  if (!join) return box.count(join.error());
  if (join->gives_up()) return give_up(packet, *join, source, now);
  if (!box.fresh(*join, source, now)) return box.send_challenge(*join, source, now);
  const auto named = box.names.find(join->name);
  ResidentJob* job = box.find_resident(join->name);
  if (named == box.names.end()) {
    job = make_group(packet, *join, source, now);
    if (job == nullptr) return;
  } else if (job != nullptr && auth::verify(job->key(), packet.header, packet.payload)) {
    join->key = &job->key();
  }
  if (auto no = objection_to(job == nullptr ? nullptr : &job->config(), *join, packet, source.address)) {
    if (job == nullptr)
      no->text = jobs::with_dialect(*box.find(named->second), [](auto& l) { return l.nobody_joins_text(); });
    return box.refuse(*join, source, now, no->drop, no->text);
  }
  if (auto* const guest = std::get_if<GuestLife>(box.find(job->id())); guest != nullptr)
    return guest->join(*join, source);
  join->rank = rank_here(*job, join->rank);
  box.find_native(job->id())->join(*join, source, now);
}

// It needs no challenge, which may be over by now, and gets no answer: it says nothing but to a job that is there, and
// there of the process that has the place and whose JOIN did bring one, from where that came from.
void Reception::give_up(const ControlPacket& packet, JoinRequest& join, const jobs::Binding& source,
                        TimeNs now) {
  NativeLife* const job = box.find_native(join.name);
  if (job == nullptr) return box.count(MembershipDrop::kJob);
  if (!auth::verify(job->key(), packet.header, packet.payload)) return box.count(MembershipDrop::kTag);
  join.rank = rank_here(*job, join.rank);
  job->give_up(join, source, now);
}

void Reception::enlist(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
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
  if (!auth::verify(job->key(), packet.header, packet.payload)) {
    const Objection no = objection_to_token(job->config(), request->name, packet);
    return box.refuse(*request, source, now, no.drop, no.text);
  }
  request->key = &job->key();
  if (guest != nullptr) return guest->enlist(*request, source, now);
  box.refuse(*request, source, now, MembershipDrop::kType,
             name + (job->config().boxes ? " has its home here, where nobody enlists"
                                         : " is a job of this box alone here"));
}

void Reception::planned(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  const auto plan = read_plan_packet(packet);
  if (!plan) return box.count(plan.error());
  ResidentJob* const job = box.find_resident(plan->name);
  if (job == nullptr) return box.count(MembershipDrop::kUnknownJob);
  if (!auth::verify(job->key(), packet.header, packet.payload)) return box.count(MembershipDrop::kTag);
  job->from_planned(*plan, source, now);
}

void Reception::probe(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  if (!box.probes.take(jobs::host_of(source), now)) return box.count(MembershipDrop::kRate);
  box.accept(PacketType::kProbe);
  box.outbox.send(packet.header, packet.payload, nullptr, source);
}

void Reception::from_member(const ControlPacket& packet, const jobs::Binding& source, TimeNs now) {
  ResidentJob* const job = box.find_resident(packet.header.job_id());
  if (job == nullptr) return box.reject(packet, source, now, MembershipDrop::kJob);
  job->from_member(packet, source, now);
}

bool Reception::from_parent(std::span<const std::byte> datagram, const jobs::Binding& source, TimeNs now) {
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

void Reception::receive(std::span<const std::byte> datagram, const jobs::Binding& source, TimeNs now) {
  if (!box.parents.empty() && from_parent(datagram, source, now)) return settle(now);
  const auto packet = read_control(datagram);
  if (!packet) return box.count(packet.error());
  if (packet->header.rank_id() == kSwitchRank) return box.count(MembershipDrop::kRank);
  switch (packet->header.type) {
    case PacketType::kJoin:
      if (packet->header.version != kWireVersion) return box.refuse_version(*packet, source, now);
      join(*packet, source, now);
      break;
    case PacketType::kEnlist:
      enlist(*packet, source, now);
      break;
    case PacketType::kPlan:
      planned(*packet, source, now);
      break;
    case PacketType::kProbe:
      return probe(*packet, source, now);
    default:
      from_member(*packet, source, now);
  }
  settle(now);
}

}  // namespace tally::members

#include "session_service/group.h"

#include <algorithm>
#include <utility>

#include "text/text.h"

namespace tally::session_service {
namespace {

std::string whole_seconds(TimeNs time) { return std::to_string(time / kSecond) + " s"; }

std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + text::listed(ranks);
}

}  // namespace

std::optional<std::uint32_t> Group::rank_of(ConnectionId connection) const {
  for (const auto& [rank, peer] : peers_)
    if (peer.connection == connection) return rank;
  return std::nullopt;
}

std::optional<std::uint32_t> Group::rank_of_call(CallId call) const {
  for (const auto& [rank, peer] : peers_)
    if (peer.wait != Peer::Wait::kNone && peer.call == call) return rank;
  return std::nullopt;
}

std::string Group::name_of(std::uint32_t rank) const {
  const auto peer = peers_.find(rank);
  const std::string name = "rank " + std::to_string(rank);
  return peer == peers_.end() ? name : name + " (" + peer->second.where + ")";
}

Status Group::wrong_world(std::uint32_t workers) const {
  if (workers == workers_) return {};
  return {Code::kInvalidArgument,
          "num_workers is " + std::to_string(workers) + ", and the group that forms on this port has " +
              std::to_string(workers_) + ", as " + said_by_ +
              " said first: give all clients the same number, or another session's port"};
}

void Group::wait_in(Peer& peer, Peer::Wait wait, CallId call, TimeNs now) noexcept {
  peer.wait = wait;
  peer.call = call;
  peer.since = now;
  changed_ = now;
}

Status Group::join(CallId call, ConnectionId connection, const std::string& where, const Broadcast& request,
                   TimeNs now, std::vector<Answer>& answers) {
  if (Status no = wrong_world(request.workers); !no.ok()) return no;
  if (request.root != root_)
    return {Code::kInvalidArgument, "root is " + std::to_string(request.root) + ", and " + said_by_ +
                                        " said " + std::to_string(root_)};
  if (const auto mine = rank_of(connection))
    return {Code::kFailedPrecondition, "this client is rank " + std::to_string(*mine) +
                                           " of the group that forms, which has had its Broadcast"};
  if (peers_.contains(request.rank))
    return {Code::kAlreadyExists,
            name_of(request.rank) +
                " is there already and waits for the others: give each client its own rank, "
                "each session its own port"};
  Peer& peer = peers_.emplace(request.rank, Peer{.connection = connection, .where = where}).first->second;
  wait_in(peer, Peer::Wait::kBroadcast, call, now);
  if (request.rank == root_) value_ = request.value;
  if (!value_) return {};
  for (auto& [rank, one] : peers_) {
    if (one.wait != Peer::Wait::kBroadcast) continue;
    answers.push_back({.call = one.call, .value = *value_});
    forget_wait(rank);
  }
  return {};
}

Status Group::ask_session(std::uint32_t rank, CallId call, const UdpSession& request, TimeNs now) {
  Peer& peer = peers_.at(rank);
  if (Status no = wrong_world(request.workers); !no.ok()) return no;
  if (request.rank != rank)
    return {Code::kInvalidArgument, "rank is " + std::to_string(request.rank) +
                                        ", and this client was rank " + std::to_string(rank) +
                                        " in its Broadcast"};
  if (peer.wait != Peer::Wait::kNone)
    return {Code::kFailedPrecondition, name_of(rank) + " waits in another call: one after the other"};
  if (peer.claim)
    return {Code::kFailedPrecondition,
            name_of(rank) + " has its session; whoever wants another begins with a Broadcast"};
  peer.asked = request;
  wait_in(peer, Peer::Wait::kSession, call, now);
  return {};
}

Status Group::objection_to_claim(std::uint32_t rank) const {
  const UdpSession& asked = peers_.at(rank).asked;
  const std::uint32_t payload = payload_of(asked);
  if (payload_ && *payload_ != payload)
    return {Code::kInvalidArgument, name_of(rank) + " has packets of " + std::to_string(payload) +
                                        " bytes of values, the ranks before it of " +
                                        std::to_string(*payload_) +
                                        ": build and configure all clients alike (packet_numel)"};
  const Ipv4 ipv4 = ipv4_of(asked.ipv4);
  for (const auto& [other, peer] : peers_) {
    if (other == rank || !peer.claim || peer.claim->ipv4 != ipv4) continue;
    return {Code::kInvalidArgument, config::to_text(ipv4) + " is taken: " + name_of(other) +
                                        " of this session has it already; each client has its own worker_ip"};
  }
  return {};
}

void Group::admit(std::uint32_t rank, const BoxAddresses& box, TimeNs now, std::vector<Answer>& answers) {
  Peer& peer = peers_.at(rank);
  peer.claim = Claim{mac_of(peer.asked.mac), ipv4_of(peer.asked.ipv4)};
  payload_ = payload_of(peer.asked);
  answers.push_back({.call = peer.call,
                     .value = peer.asked.session_id,
                     .mac = number_of(box.mac),
                     .ipv4 = number_of(box.ipv4.value_or(Ipv4{}))});
  peer.wait = Peer::Wait::kNone;
  changed_ = now;
}

Status Group::meet(std::uint32_t rank, CallId call, const Barrier& request, TimeNs now) {
  Peer& peer = peers_.at(rank);
  if (Status no = wrong_world(request.workers); !no.ok()) return no;
  if (peer.wait != Peer::Wait::kNone)
    return {Code::kFailedPrecondition, name_of(rank) + " waits in another call: one after the other"};
  // Rank 0 asks before the first Barrier, the others between the first and the second.
  if (!peer.claim && (rank == 0 || opened_ > 0))
    return {Code::kFailedPrecondition,
            name_of(rank) + " has no session yet: UdpSession comes before this Barrier"};
  wait_in(peer, Peer::Wait::kBarrier, call, now);
  return {};
}

bool Group::all_meet() const noexcept {
  return peers_.size() == workers_ &&
         std::ranges::all_of(peers_, [](const auto& one) { return one.second.wait == Peer::Wait::kBarrier; });
}

bool Group::anybody_waits() const noexcept {
  return std::ranges::any_of(peers_, [](const auto& one) { return one.second.wait != Peer::Wait::kNone; });
}

bool Group::all_admitted() const noexcept {
  return peers_.size() == workers_ &&
         std::ranges::all_of(peers_, [](const auto& one) { return one.second.claim.has_value(); });
}

std::vector<Claim> Group::members() const {
  std::vector<Claim> all;
  for (const auto& [rank, peer] : peers_) all.push_back(peer.claim.value_or(Claim{}));
  return all;
}

void Group::open_barrier(TimeNs now, std::vector<Answer>& answers) {
  ++opened_;
  changed_ = now;
  release({}, answers);
}

void Group::release(const Status& status, std::vector<Answer>& answers) {
  for (auto& [rank, peer] : peers_) {
    if (std::exchange(peer.wait, Peer::Wait::kNone) != Peer::Wait::kNone)
      answers.push_back({.call = peer.call, .status = status});
  }
}

std::string Group::missing_text() const {
  std::vector<std::uint32_t> absent;
  std::string elsewhere;
  for (std::uint32_t rank = 0; rank < workers_; ++rank) {
    const auto peer = peers_.find(rank);
    if (peer == peers_.end())
      absent.push_back(rank);
    else if (peer->second.wait == Peer::Wait::kNone)
      elsewhere += (elsewhere.empty() ? "" : ", ") + name_of(rank);
  }
  std::string text;
  if (!absent.empty()) text = ranks_text(absent) + (absent.size() == 1 ? " has not come" : " have not come");
  if (!elsewhere.empty()) text += (text.empty() ? "" : "; ") + elsewhere + " asked nothing more";
  return text.empty() ? "nobody is missing" : text;
}

std::optional<std::string> Group::overdue(TimeNs now, TimeNs wait) const {
  TimeNs first = kNever;
  for (const auto& [rank, peer] : peers_) {
    if (peer.wait == Peer::Wait::kBroadcast || peer.wait == Peer::Wait::kBarrier)
      first = std::min(first, peer.since);
  }
  if (first == kNever) first = changed_;
  if (now < first + wait) return std::nullopt;
  return missing_text() + " within " + whole_seconds(wait) + "; " + std::to_string(peers_.size()) + " of " +
         text::counted(workers_, "worker") + " were there";
}

}  // namespace tally::session_service

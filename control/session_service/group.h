#pragma once
// The ranks that meet on one port, from their Broadcast to their last Barrier, and whom each of them waits for.
// A connection is a rank: Barrier names none, and nothing tells two groups of one size apart. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "session_service/requests.h"

namespace tally::session_service {

struct Peer {
  enum class Wait : std::uint8_t { kNone, kBroadcast, kSession, kBarrier };

  ConnectionId connection = 0;
  std::string where{};           // the other end of it, for people
  std::optional<Claim> claim{};  // once its UdpSession has a good answer
  Wait wait = Wait::kNone;
  CallId call = 0;  // that waits
  TimeNs since = 0;
  UdpSession asked{};  // while it waits in kSession
};

class Group {
 public:
  // first: without objections, as every request here.
  Group(const Broadcast& first, std::string where, TimeNs now)
      : workers_(first.workers), root_(first.root), said_by_(std::move(where)), changed_(now) {}

  [[nodiscard]] std::uint32_t workers() const noexcept { return workers_; }
  [[nodiscard]] const std::map<std::uint32_t, Peer>& peers() const noexcept { return peers_; }
  [[nodiscard]] std::optional<std::uint32_t> rank_of(ConnectionId connection) const;
  [[nodiscard]] std::optional<std::uint32_t> rank_of_call(CallId call) const;
  // "rank 1 (10.0.0.12:40822)"
  [[nodiscard]] std::string name_of(std::uint32_t rank) const;
  [[nodiscard]] std::optional<std::uint32_t> payload() const noexcept { return payload_; }

  // Each says why not, or takes the call: it is answered now (`answers`) or it waits. rank: of peers().
  [[nodiscard]] Status join(CallId call, ConnectionId connection, const std::string& where,
                            const Broadcast& request, TimeNs now, std::vector<Answer>& answers);
  [[nodiscard]] Status ask_session(std::uint32_t rank, CallId call, const UdpSession& request, TimeNs now);
  [[nodiscard]] Status meet(std::uint32_t rank, CallId call, const Barrier& request, TimeNs now);

  // Of a peer that waits in kSession: why it cannot have what it asked for beside the others.
  [[nodiscard]] Status objection_to_claim(std::uint32_t rank) const;
  // It has it.
  void admit(std::uint32_t rank, const BoxAddresses& box, TimeNs now, std::vector<Answer>& answers);

  // All ranks wait in a Barrier.
  [[nodiscard]] bool all_meet() const noexcept;
  [[nodiscard]] bool all_admitted() const noexcept;
  // By rank; of a group whose ranks are all admitted.
  [[nodiscard]] std::vector<Claim> members() const;
  void open_barrier(TimeNs now, std::vector<Answer>& answers);

  [[nodiscard]] bool anybody_waits() const noexcept;
  // Who has not come, if somebody waits since `wait`, or nobody does and nothing has happened for so long.
  [[nodiscard]] std::optional<std::string> overdue(TimeNs now, TimeNs wait) const;
  // Everybody that waits is answered this.
  void release(const Status& status, std::vector<Answer>& answers);
  // The call is gone, or has its answer.
  void forget_wait(std::uint32_t rank) { peers_.at(rank).wait = Peer::Wait::kNone; }

 private:
  [[nodiscard]] Status wrong_world(std::uint32_t workers) const;
  [[nodiscard]] std::string missing_text() const;
  void wait_in(Peer& peer, Peer::Wait wait, CallId call, TimeNs now) noexcept;

  std::uint32_t workers_;
  std::uint32_t root_;
  std::string said_by_;  // who said how many there are
  TimeNs changed_;       // when anything was asked or answered last
  std::map<std::uint32_t, Peer> peers_{};
  std::optional<std::uint64_t> value_{};
  std::optional<std::uint32_t> payload_{};
  std::uint32_t opened_ = 0;  // Barriers
};

}  // namespace tally::session_service

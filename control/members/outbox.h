#pragma once
// Datagrams that wait to be sent, and how each kind is written.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "job_membership.h"
#include "membership.h"
#include "tally/wire.h"
#include "tally/wire_join.h"

namespace tally {

class Outbox {
 public:
  // Completes `header` (rank of the box, payload CRC, check) and queues it with what follows it.
  void send(Header header, std::span<const std::byte> payload, const Binding& to);
  // A JOINED: text_bytes is filled in, the text bounded.
  void send_joined(Header header, JoinedPayload fixed, std::string_view text, const Binding& to);
  // An ABORT that the members of `term` accept.
  void send_abort(JobId job, const Term& term, std::string_view text, const Binding& to);
  // A LEAVE or HEARTBEAT back to its sender, with the ranks that are live.
  void send_echo(const Header& received, const Term& term, std::uint64_t live, const Binding& to);
  // A hint that anybody may forge: it carries no secret.
  void send_reject(const Header& received, RejectReason reason, const Binding& to);

  [[nodiscard]] std::optional<Outgoing> next(std::span<std::byte> out);

 private:
  struct Datagram {
    Binding to;
    std::vector<std::byte> bytes;
  };
  std::deque<Datagram> queue_;
};

}  // namespace tally

#pragma once
// A member of a job, as far as the packets of membership show it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "auth/auth.h"
#include "jobs/binding.h"
#include "tally/wire.h"

namespace tally::members_test {

using Bytes = std::vector<std::byte>;

// Fills sum1 and check as a correct sender does.
Bytes sealed(Header header, const Bytes& payload = {});
// ... with its tag behind the body.
Bytes tagged(const Header& header, const Bytes& body, const auth::Key& key);
Bytes bytes_of(const std::string& text);

// A worker's side of membership, as far as packets show it.
struct Peer {
  std::uint16_t rank = 0;
  std::uint16_t world = 2;
  std::string job = "resnet";
  std::string token = "secret";
  std::uint64_t instance = 0;
  std::uint64_t nonce = 0;
  std::uint32_t attempt = 0;
  std::uint32_t lowest = 0;
  std::uint32_t next = 0;
  std::uint16_t elements = 352;
  std::uint64_t features = 0;
  GenerationRecord last{};
  Tag challenge{};
  jobs::Binding binding{};
  // From the newest JOINED(running).
  std::uint16_t job_id = 0;
  std::uint32_t epoch = 0;
  std::uint64_t cookie = 0;
  std::uint64_t result_cookie = 0;

  explicit Peer(std::uint16_t rank_in, std::uint16_t world_in = 2);
  static Peer server(std::uint32_t index);  // an external one: behind the worker's ports, asks for the world
  [[nodiscard]] JoinPayload join_payload() const;
  [[nodiscard]] Bytes join();              // the next attempt with a new nonce
  [[nodiscard]] Bytes join_again() const;  // the same bytes as the newest
  // Under the session key, each with the next counter.
  [[nodiscard]] Bytes packet(PacketType type, const Bytes& text = {}) const;
  [[nodiscard]] Bytes heartbeat() const { return packet(PacketType::kHeartbeat, bytes_of(job)); }
  [[nodiscard]] Bytes leave() const { return packet(PacketType::kLeave); }
  [[nodiscard]] Bytes abort(const std::string& text) const {
    return packet(PacketType::kAbort, bytes_of(text));
  }
  void restart();  // a new process on the same machine
  [[nodiscard]] auth::Key job_key() const { return auth::job_key(job, token); }
  [[nodiscard]] auth::Key session_key() const;
  // What the box said to this rank, a header and a payload, bears its tag.
  template <class Said>
  [[nodiscard]] bool believes(const Said& said) const {
    const bool joined = said.header.type == PacketType::kJoined;
    return auth::verify(joined ? job_key() : session_key(), said.header, said.payload);
  }

  mutable std::uint64_t counter = 0;  // of what it said last
};

}  // namespace tally::members_test

#pragma once
// The box as a server hears it, one job at a time: what it says is made by hand, with values that depend on
// generation, chunk and rank only. What the server says back is opened and checked here.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_testbed.h"
#include "ps/ps_engine.h"
#include "tally/wire.h"

namespace tally::psbed {

using testbed::Bytes;
using testbed::header_of;
using testbed::payload_of;
using testbed::sealed;
using testbed::values_of;
using Values = std::vector<std::int32_t>;

inline constexpr std::uint64_t kInstance = 77;  // of the server's process

struct BoxJob {
  std::string name = "a";
  std::string token = "secret";
  std::uint32_t server = 0;  // its index
  std::uint16_t id = 7;
  std::uint32_t epoch = 100;
  std::uint64_t generation = 0x1234567890abcdefULL;
  std::uint16_t world = 3;
  std::uint32_t window = 16;
  std::uint16_t elements = 32;
  std::uint8_t shards = 2;
  std::uint32_t lease_ms = 10'000;
  Discipline discipline = Discipline::kShared;

  [[nodiscard]] std::uint64_t members() const { return members_of(world); }
  [[nodiscard]] std::uint64_t cookie() const { return 0x5E00'0000ULL + epoch; }  // the server's
  [[nodiscard]] std::uint64_t result_cookie() const { return 0xAB00'0000'0000ULL + epoch; }
  [[nodiscard]] auth::Key job_key() const { return auth::job_key(name, token); }
  [[nodiscard]] engine::Membership membership() const;
  [[nodiscard]] Header from_box(PacketType type) const;
  [[nodiscard]] Bytes joined(JoinStatus status, std::uint64_t nonce, const std::string& text = {}) const;
  [[nodiscard]] Bytes reject(RejectReason reason) const;  // of control, under the session key
  [[nodiscard]] Bytes abort(const std::string& text) const;
  [[nodiscard]] Bytes echo() const;

  // What rank offers for a chunk, and the sum of several ranks'.
  [[nodiscard]] Values offered(std::uint16_t rank, Chunk chunk, std::uint16_t n) const;
  [[nodiscard]] Values sum(std::uint64_t ranks, Chunk chunk, std::uint16_t n) const;
  // Header and values of these ranks' part of a chunk, in the box's name.
  [[nodiscard]] Header part(PacketType type, std::uint64_t ranks, Chunk chunk, std::uint16_t n = 16) const;
  [[nodiscard]] Bytes contribution(std::uint16_t rank, Chunk chunk, std::uint16_t n = 16) const;
  [[nodiscard]] Bytes partial(std::uint64_t ranks, Chunk chunk, std::uint16_t n = 16) const;
  [[nodiscard]] Bytes result(Chunk chunk, std::uint16_t n = 16) const;
  [[nodiscard]] Bytes query(std::uint16_t rank, Chunk chunk) const;

  // A RESULT of the server: to these ranks, and the sum of all, each once.
  void expect_result(const Bytes& sent, std::uint64_t ranks, Chunk chunk, std::uint16_t n = 16) const;
  void expect_bare(const Bytes& sent, PacketType type, std::uint64_t ranks, Chunk chunk) const;
  void expect_from_server(const Header& h, Chunk chunk) const;
};

struct Out {
  Bytes bytes;
  std::uint16_t port = 0;
  [[nodiscard]] Header header() const { return header_of(bytes); }
};

[[nodiscard]] JoinPayload join_payload(const Bytes& join);

class Server {
 public:
  explicit Server(const std::vector<BoxJob>& jobs, std::size_t states = 64, std::uint16_t elements = 32);

  // Everything due at `now`, without heartbeats.
  std::vector<Out> drain();
  // One that is expected.
  Bytes one();
  void none() { EXPECT_TRUE(drain().empty()); }
  void hear(const Bytes& datagram) { engine->receive(datagram, now); }
  // Answers the JOIN that is due now: the job runs.
  void join(const BoxJob& job);
  // The datagram is refused for this reason, and nothing else happens.
  void expect_refused(const Bytes& datagram, Refused why);
  [[nodiscard]] const ps::PsJobStatistics& counted(std::size_t job = 0) const {
    return engine->statistics(job);
  }
  [[nodiscard]] std::vector<std::string> events();

  std::unique_ptr<ps::PsEngine> engine;
  TimeNs now = kSecond;
};

[[nodiscard]] ps::PsOptions options_of(const std::vector<BoxJob>& jobs, std::size_t states,
                                       std::uint16_t elements);

}  // namespace tally::psbed

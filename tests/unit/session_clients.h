#pragma once
// Clients of a session over a network that loses, doubles, reorders and delays, and an oracle that knows
// every sum. Rule tsi: packet. One operation after the other; a window of slots whose sequence goes on from
// operation to operation; old timers send packets again whose chunks are long done (docs/switchml.md).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "jobs.h"
#include "pipeline/pipeline.h"
#include "pipeline/session_pool.h"
#include "rng.h"
#include "session_frames.h"

namespace tally {

struct ClientsCase {
  std::uint32_t operations = 30;
  std::uint32_t most_chunks = 20;  // of an operation, at least 1
  std::uint32_t window = 4;
  double loss = 0.05;
  double twice = 0.05;
  double stale = 0.05;
  bool rests =
      false;  // after an operation everybody computes, for up to 100 s, and nobody waits for anything
  double silence = 0;               // of a step: nobody sends for up to 100 s, whoever waits for what
  TimeNs pace = 20 * kMicrosecond;  // between steps, at most
  std::uint32_t run = 0;  // with rests: operations after which all clients are started again; 0: never
};

class SessionClients {
 public:
  // How the box takes a frame: `each` gets the verdict, and the frame for every receiver.
  using Box = std::function<Verdict(const Bytes& frame, std::uint32_t rank, TimeNs now,
                                    const std::function<void(std::uint32_t, const Bytes&)>& each)>;
  using Reset = std::function<void()>;  // begins the session anew

  SessionClients(const jobs::SessionJob& job, const ClientsCase& c, std::uint64_t seed, Box box, Reset reset)
      : job_(job), case_(c), rng_(seed), box_(std::move(box)), reset_(std::move(reset)), clients_(job.world) {
    std::uint32_t first = 0;
    for (std::uint32_t o = 0; o < c.operations; ++o) {
      operations_.push_back({first, static_cast<std::uint32_t>(rng_.between(1, c.most_chunks))});
      first += operations_.back().chunks;
    }
    job_number_ = static_cast<std::uint8_t>(rng_.below(256));
    for (std::uint32_t r = 0; r < job.world; ++r) begin(r, 0);
  }

  // Until all operations are done everywhere; false: not within `steps`.
  bool run(std::uint64_t steps) {
    for (; steps != 0 && !finished() && !testing::Test::HasFatalFailure(); --steps) step();
    return finished();
  }
  [[nodiscard]] std::uint64_t stale() const noexcept { return stale_; }
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_.size(); }

 private:
  struct Operation {
    std::uint32_t first;  // number of its first chunk in the sequence of all
    std::uint32_t chunks;
  };
  struct Client {
    std::uint32_t operation = 0;
    std::set<std::uint32_t> pending;  // tsi
    std::uint32_t done = 0;
  };
  struct Packet {
    std::uint32_t rank, operation, tsi;
  };

  [[nodiscard]] bool finished() const {
    for (const Client& c : clients_)
      if (c.operation < operations_.size()) return false;
    return true;
  }
  void begin(std::uint32_t rank, std::uint32_t operation) {
    Client& c = clients_[rank];
    c = {.operation = operation};
    if (operation == operations_.size()) return;
    for (std::uint32_t tsi = 0; tsi < case_.window && tsi < operations_[operation].chunks; ++tsi)
      send({rank, operation, tsi}, true);
  }
  void send(const Packet& p, bool fresh) {
    if (fresh) clients_[p.rank].pending.insert(p.tsi);
    up_.push_back(p);
  }

  [[nodiscard]] SessionSent sent(const Packet& p) const {
    const std::uint32_t number = operations_[p.operation].first + p.tsi;
    const std::uint32_t begun = first_of_run(p.operation);
    const std::uint32_t use = number - operations_[begun].first;
    return {.rank = p.rank,
            .slot = use % case_.window,
            .set = use / case_.window % 2,
            .job_number = static_cast<std::uint8_t>(job_number_ + p.operation - begun),
            .tsi = p.tsi,
            .value = static_cast<std::int32_t>(mix64(number * 64ULL + p.rank)),
            .exponent0 = static_cast<std::int8_t>(mix64(number) + p.rank)};
  }

  void step() {
    now_ += rng_.chance(case_.silence) ? rng_.below(kLongest) : rng_.below(case_.pace);
    const auto rank = static_cast<std::uint32_t>(rng_.below(clients_.size()));
    const Client& c = clients_[rank];
    if (rng_.chance(0.1) && !c.pending.empty()) send({rank, c.operation, some_of(c.pending)}, false);
    if (rng_.chance(case_.stale) && c.operation > 0) send_stale(rank);
    if (!up_.empty()) arrive();
    if (!down_.empty() && rng_.chance(0.7)) take_result();
  }
  std::uint32_t some_of(const std::set<std::uint32_t>& set) {
    return *std::next(set.begin(), static_cast<std::ptrdiff_t>(rng_.below(set.size())));
  }
  [[nodiscard]] std::uint32_t first_of_run(std::uint32_t operation) const {
    return case_.run == 0 ? 0 : operation - operation % case_.run;
  }
  // At most kMemory operations back: the wire has 8 bits of their number. Timers end with their process.
  void send_stale(std::uint32_t rank) {
    const std::uint32_t now = clients_[rank].operation;
    const std::uint32_t most = std::min(now - first_of_run(now), kMemory);
    if (most == 0) return;
    const std::uint32_t back = static_cast<std::uint32_t>(rng_.between(1, most));
    const std::uint32_t operation = now - back;
    send({rank, operation, static_cast<std::uint32_t>(rng_.below(operations_[operation].chunks))}, false);
  }
  void arrive() {
    const std::size_t at = rng_.chance(0.8) ? 0 : rng_.below(up_.size());
    const Packet p = up_[at];
    if (!rng_.chance(case_.twice)) up_.erase(up_.begin() + static_cast<std::ptrdiff_t>(at));
    if (rng_.chance(case_.loss) || p.operation + kMemory < clients_[p.rank].operation) return;
    deliver(p);
  }

  void deliver(const Packet& p) {
    const SessionSent s = sent(p);
    stale_ += p.operation < clients_[p.rank].operation ? 1 : 0;
    const Verdict v = box_(session_frame(job_, s, addresses_), p.rank, now_,
                           [&](std::uint32_t to, const Bytes& frame) { leave(p, s, to, frame); });
    if (v != Verdict::kComplete) return;
    ASSERT_TRUE(completed_.insert({p.operation, p.tsi}).second)
        << "operation " << p.operation << ", tsi " << p.tsi << " was completed twice";
  }
  // Every frame that leaves is right, whoever it is for.
  void leave(const Packet& p, const SessionSent& s, std::uint32_t to, const Bytes& frame) {
    std::vector<std::int32_t> values(job_.elements);
    std::int8_t exponent = -128;
    for (std::uint32_t r = 0; r < clients_.size(); ++r) {
      const SessionSent one = sent({r, p.operation, p.tsi});
      exponent = std::max(exponent, one.exponent0);
      for (std::uint32_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(values[i]) +
                                              static_cast<std::uint32_t>(one.value) + i);
    }
    ASSERT_EQ(frame, session_reply(job_, s, addresses_, to, 4000, exponent, 0, values))
        << "operation " << p.operation << ", tsi " << p.tsi << " for rank " << to;
    if (!rng_.chance(case_.loss)) down_.push_back({to, p.operation, p.tsi});
  }
  void take_result() {
    const std::size_t at = rng_.chance(0.8) ? 0 : rng_.below(down_.size());
    const Packet p = down_[at];
    if (!rng_.chance(case_.twice)) down_.erase(down_.begin() + static_cast<std::ptrdiff_t>(at));
    Client& c = clients_[p.rank];
    if (c.operation != p.operation || c.pending.erase(p.tsi) == 0) return;
    const Operation& o = operations_[p.operation];
    if (p.tsi + case_.window < o.chunks) send({p.rank, p.operation, p.tsi + case_.window}, true);
    if (++c.done != o.chunks) return;
    if (!case_.rests) return begin(p.rank, p.operation + 1);
    if (++ready_ < clients_.size()) return;
    ready_ = 0;
    const bool again = case_.run != 0 && (p.operation + 1) % case_.run == 0;
    now_ += rng_.below(kLongest);
    if (again) {
      up_.clear();
      reset_();
    }
    for (std::uint32_t r = 0; r < clients_.size(); ++r) begin(r, p.operation + 1);
  }

  // Of the sender's operations, which may be one ahead of the newest that has a complete chunk.
  static constexpr std::uint32_t kMemory =
      pipeline::SessionRun::kNumbers - 1 - 2 * pipeline::SessionRun::kAhead;
  static constexpr TimeNs kLongest = 100 * kSecond;

  const jobs::SessionJob& job_;
  ClientsCase case_;
  Rng rng_;
  Box box_;
  Reset reset_;
  tally::jobs::Box addresses_ = test_box();
  std::vector<Client> clients_;
  std::vector<Operation> operations_;
  std::uint8_t job_number_ = 0;
  std::vector<Packet> up_;
  std::vector<Packet> down_;  // results, judged when they left
  std::set<std::pair<std::uint32_t, std::uint32_t>> completed_;
  std::size_t ready_ = 0;  // clients that rest
  std::uint64_t stale_ = 0;
  TimeNs now_ = 50 * kSecond;
};

}  // namespace tally

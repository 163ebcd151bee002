#pragma once
// A worker by hand whose early repair is looked at (docs/protocol.md, 8).

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {

inline constexpr TimeNs kRtt = 100 * kMicrosecond;
inline constexpr TimeNs kFloor = 20 * kMillisecond;
inline constexpr TimeNs kRto = kRtt + kFloor;
inline constexpr TimeNs kLeast = 500 * kMicrosecond;  // of what passes before a question without an overtaker

// Rank 1 of 4 by hand, window 32: the lead is 4 sendings. One chunk has been answered, after kRtt. The slots are
// shared, so that no result tells of others.
class Early : public testing::Test {
 protected:
  explicit Early(std::uint8_t shards = 1, Discipline discipline = Discipline::kShared)
      : box_(shape(shards, discipline)) {
    engine::EngineOptions options = options_of(shape(shards, discipline), 1);
    options.rto_floor = kFloor;
    engine_ = std::move(*engine::WorkerEngine::create(options, kernels::best_kernels()));
    const auto join = drain(*engine_, 0);
    JoinPayload p;
    std::memcpy(&p, join[0].bytes.data() + kHeaderBytes, sizeof p);
    engine_->receive(box_.joined(JoinStatus::kRunning, p.nonce.host(), 1), 0);
    send(1, 0);
    answer({0}, kRtt);
  }
  static JobShape shape(std::uint8_t shards, Discipline discipline) {
    JobShape s;
    s.discipline = discipline;
    s.shared_slots = 64;
    s.world = 4;
    s.window = s.largest_window = s.lookahead = 32;
    s.shards = shards;
    s.lease_ms = 1'000'000;
    return s;
  }
  // The next n chunks, a barrier each.
  void send(std::size_t n, TimeNs now) {
    for (std::size_t i = 0; i < n; ++i) (void)engine_->barrier(now);
    for (const Out& o : drain(*engine_, now)) sent_.push_back(o.bytes);
  }
  void answer(std::initializer_list<std::uint32_t> chunks, TimeNs now) {
    for (const std::uint32_t chunk : chunks) engine_->receive(box_.result_of(sent_.at(chunk)), now);
  }
  // An external server made it.
  void served(std::uint32_t chunk, TimeNs now) {
    Bytes result = box_.result_of(sent_.at(chunk));
    Header h = header_of(result);
    h.flags |= kFlagServed;
    engine_->receive(sealed(h, payload_of(result)), now);
  }
  using Chunks = std::vector<std::uint32_t>;
  // Chunks that are due now: contributed again, or asked for at the box alone. Heartbeats are left out.
  struct Said {
    Chunks again;
    Chunks asked;
    bool operator==(const Said&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const Said& said) {
      return out << "again " << testing::PrintToString(said.again) << ", asked "
                 << testing::PrintToString(said.asked);
    }
  };
  Said said(TimeNs now) {
    Said all;
    for (const Out& o : drain(*engine_, now)) {
      const Header h = header_of(o.bytes);
      if (h.type == PacketType::kHeartbeat) continue;
      const bool asks = h.type == PacketType::kQuery;
      if (asks && h.contributors.host() != 0U) ++named_;
      EXPECT_TRUE(asks || (h.type == PacketType::kContribute && (h.flags & kFlagRetransmit) != 0));
      if (!asks) sent_.push_back(o.bytes);
      (asks ? all.asked : all.again).push_back(h.chunk.host());
    }
    return all;
  }
  // The box lacks `first` and what the other bits stand for.
  void nack(std::uint32_t first, std::uint64_t missing, std::uint32_t shard, TimeNs now) {
    Header h = box_.from_box(PacketType::kNack);
    h.slot = Be{first};
    h.contributors = Be{missing};
    h.total = Be{shard};
    engine_->receive(sealed(h), now);
  }
  void waiting(std::uint32_t chunk, std::uint64_t there, TimeNs now) {
    Header h = header_of(sent_.at(chunk));
    h.chunk = Be{chunk};
    engine_->receive(box_.reject(RejectReason::kWaiting, h, box_.result_cookie(), there), now);
  }
  Box box_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  std::vector<Bytes> sent_;
  int named_ = 0;  // questions that named a peer
};

}  // namespace tally::testbed

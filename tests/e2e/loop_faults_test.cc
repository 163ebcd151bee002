// What is wrong on the wire, and what runs out: each frame is counted once, nothing is lost from a mempool,
// and the job goes on.

#include <gtest/gtest.h>

#include <cstring>

#include "frames.h"
#include "loop_eal.h"
#include "loop_packets.h"
#include "loop_rack.h"
#include "pool_audit.h"
#include "rng.h"

namespace tally::e2e {
namespace {

class LoopFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
};

void expect_clean(Rack& rack) {
  rack.settle();
  rack.expect_all_mbufs_back();
  rack.expect_every_frame_counted();
}

// A datagram of the given type with a right check, in a right frame from rank 0.
Bytes frame_of_type(PacketType type, std::size_t payload = 0) {
  Bytes datagram(kHeaderBytes + payload);
  Header h;
  h.type = type;
  h.job = Be<std::uint16_t>(9);
  set_header(datagram, h);
  seal(datagram);
  return wrap(datagram, loop_binding(0, jobs::kUntagged, false), loop_box(), kBasePort);
}

struct Wrong {
  std::string name;
  Bytes frame;
  Verdict verdict = Verdict::kDrop;
  Drop drop{};
  std::uint64_t rejects = 0;
};

std::vector<Wrong> wrong_frames() {
  const auto changed = [](std::size_t at, int value) {
    Bytes f = frame_of_type(PacketType::kContribute);
    f[at] = static_cast<std::byte>(value);
    return f;
  };
  const auto cut = [](std::size_t bytes) {
    Bytes f = frame_of_type(PacketType::kContribute);
    f.resize(bytes);
    return f;
  };
  return {{"nothing", {}, Verdict::kDrop, Drop::kRunt},
          {"half an Ethernet header", cut(7), Verdict::kDrop, Drop::kRunt},
          {"half an IP header", cut(24), Verdict::kDrop, Drop::kRunt},
          {"half a datagram", cut(60), Verdict::kDrop, Drop::kLength},
          {"another host's MAC", changed(0, 6), Verdict::kForward},
          {"ARP", changed(13, 6), Verdict::kForward},
          {"TCP", changed(23, 6), Verdict::kForward},
          {"another host's address", changed(33, 99), Verdict::kForward},
          {"another UDP port", changed(36, 1), Verdict::kForward},
          {"a fragment", changed(20, 0x20), Verdict::kDrop, Drop::kFragment},
          {"IP options", changed(14, 0x46), Verdict::kDrop, Drop::kIpHeader},
          {"protocol version 1", changed(42, 1), Verdict::kDrop, Drop::kVersion},
          {"a flipped bit in the header", changed(60, 1), Verdict::kDrop, Drop::kCheck},
          {"a type from inside", frame_of_type(PacketType::kResult), Verdict::kDrop, Drop::kType},
          {"no such job", frame_of_type(PacketType::kContribute), Verdict::kDrop, Drop::kJob, 1},
          {"control", frame_of_type(PacketType::kHeartbeat), Verdict::kPunt}};
}

TEST_F(LoopFaults, WhatIsWrongOnTheWireIsCountedOnceAndFreed) {
  Rack rack({.name = "Wrong", .operations = 4});
  for (const Wrong& w : wrong_frames()) {
    const auto count = [&] {
      return w.verdict == Verdict::kDrop ? rack.count(w.drop) : rack.count(w.verdict);
    };
    const std::uint64_t before = count();
    const std::uint64_t rejects = rack.sum(&io::CoreStatistics::rejects);
    rack.host(0).send_raw(w.frame, 0);
    EXPECT_EQ(rack.plane().turn(0, 1'000), 1U) << w.name;
    EXPECT_EQ(count(), before + 1) << w.name;
    EXPECT_EQ(rack.sum(&io::CoreStatistics::rejects), rejects + w.rejects) << w.name;
  }
  EXPECT_EQ(rack.count(Verdict::kForward), rack.sum(&io::CoreStatistics::not_ours));
  EXPECT_EQ(rack.plane().core(0).statistics.last_turn, 1'000U);
  EXPECT_TRUE(rack.run());
  expect_clean(rack);
}

// Frames of a running job with bytes changed at random, beside its traffic. One of a thousand may be another
// job's valid control packet; none may change a sum.
TEST_F(LoopFaults, RandomBytesHurtNobody) {
  Rack rack({.name = "Random", .cores = 2, .up = 2, .down = 2, .operations = 8});
  Rng rng(3);
  std::uint32_t sent = 0;
  EXPECT_TRUE(rack.run([&] {
    if (++sent > 4'000) return;
    Bytes frame = frame_of_type(static_cast<PacketType>(1 + rng.below(8)), 16 * rng.below(60));
    for (std::uint64_t n = rng.below(4); n > 0; --n)
      frame[rng.below(frame.size())] = static_cast<std::byte>(rng.below(256));
    if (rng.chance(0.1)) frame.resize(rng.below(frame.size()));
    rack.host(rng.below(4)).send_raw(frame, static_cast<std::uint16_t>(rng.below(2)));
  }));
  EXPECT_GT(sent, 1'000U);
  for (std::uint16_t r = 0; r < 4; ++r) {
    EXPECT_EQ(rack.worker(r).completed(), 8U);
    for (const auto& what : rack.worker(r).wrong()) ADD_FAILURE() << what;
  }
  expect_clean(rack);
}

TEST_F(LoopFaults, AFullRingToControlLosesPuntsByName) {
  Rack rack({.name = "Punts", .hand_over = 16, .operations = 4});
  for (int i = 0; i < 40; ++i) rack.host(0).send_raw(frame_of_type(PacketType::kProbe), 0);
  for (int i = 0; i < 2; ++i) rack.plane().turn(0, 1);
  EXPECT_EQ(rack.count(Verdict::kPunt), 40U);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::punts_lost), 40U - 15);
  EXPECT_TRUE(rack.run());
  expect_clean(rack);
}

TEST_F(LoopFaults, WhatControlCannotSendIsRefusedAndFreed) {
  Rack rack({.name = "Inject", .hand_over = 16, .frame_mbufs = 20});
  const std::array<std::byte, 64> datagram{};
  jobs::Binding to = loop_binding(0, jobs::kUntagged, false);
  to.port = PortIndex{99};
  EXPECT_FALSE(rack.plane().inject(to, datagram)) << "no such port";
  to.port = PortIndex{1};
  EXPECT_FALSE(rack.plane().inject(to, std::vector<std::byte>(9'000))) << "larger than any frame here";
  int sent = 0;
  while (sent < 100 && rack.plane().inject(to, datagram)) ++sent;
  EXPECT_EQ(sent, 15) << "a full ring";
  EXPECT_EQ(rack.plane().turn(0, 1), 15U);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::sent_for), 15U);
  EXPECT_EQ(rack.sum(&io::CoreStatistics::frames_out), 15U);
  for (sent = 0; sent < 100 && rack.plane().inject(to, datagram);) ++sent;
  EXPECT_EQ(sent, 5) << "an empty mempool: 15 of 20 are on the wire";
  expect_clean(rack);
}

TEST_F(LoopFaults, OptionsThatCannotWorkAreRefusedByName) {
  const auto refused = [](const io::DataPlaneOptions& o) -> std::string {
    auto pools = make_plain_pools(
        {.frames = 16, .heads = 16, .frame_room = 2'048, .cores = std::max<std::size_t>(o.cores, 1)},
        "refused");
    if (!pools) return pools.error().text();
    const auto plane = io::DataPlane::create(o, std::move(*pools), {}, kernels::best_kernels());
    return plane ? "" : plane.error().text();
  };
  EXPECT_EQ(refused({.slot_lines = 16}), "");
  EXPECT_NE(refused({.cores = 0, .slot_lines = 16}).find("has 0 cores"), std::string::npos);
  EXPECT_NE(refused({.cores = 65, .slot_lines = 16}).find("has 65 cores"), std::string::npos);
  EXPECT_NE(refused({.slot_lines = 16, .hand_over = 1'000}).find("power of two"), std::string::npos);
  const std::string large = refused({.cores = 2, .slot_lines = 1U << 24});
  EXPECT_NE(large.find("2 data cores x (1073741824 bytes of slots"), std::string::npos) << large;
  EXPECT_NE(large.find("raise dataplane.memory"), std::string::npos) << large;
}

// What the ranks disagree about reaches control as an event, and the job is aborted naming both sides.
TEST_F(LoopFaults, EventsReachControl) {
  Rack rack({.name = "Mismatch"});
  rack.worker(3).differ_at(2);
  rack.run([&] {
    if (!rack.control().events().empty()) rack.interrupt();
  });
  ASSERT_FALSE(rack.control().events().empty());
  EXPECT_EQ(rack.control().events().front().kind, pipeline::EventKind::kMismatch);
  EXPECT_EQ(rack.control().events().front().job, rack.job());
  for (int i = 0; i < 1'000; ++i) rack.turn();
  EXPECT_EQ(rack.worker(0).engine().state(), engine::EngineState::kClosed);
  EXPECT_NE(rack.worker(0).engine().why_closed().what.find("different operations"), std::string::npos)
      << rack.worker(0).engine().why_closed().what;
  expect_clean(rack);
}

}  // namespace
}  // namespace tally::e2e

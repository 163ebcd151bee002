// Ranks of tally-bench against the production membership.

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "load_member.h"
#include "members_support.h"

namespace tally::bench {
namespace {

using members_test::Bytes;
using members_test::Peer;
using members_test::Sent;

struct LoadRack {
  explicit LoadRack(std::uint16_t workers, std::uint16_t world = 0) {
    box.declare(members_test::config_of(workers));
    for (std::uint16_t r = 0; r < (world == 0 ? workers : world); ++r) add(r, world == 0 ? workers : world);
  }
  void add(std::uint16_t rank, std::uint16_t world) {
    engine::EngineOptions o;
    o.job = "resnet";
    o.token = "secret";
    o.rank = Rank{rank};
    o.world = world;
    o.instance = 500U + rank;
    o.seed = rank;
    members.emplace_back(o, kernels::best_kernels());
    peers.emplace_back(rank, world);
  }
  void deliver(const std::vector<Sent>& sent) {
    for (const Sent& s : sent) {
      const Bytes bytes = members_test::sealed(s.header, s.payload);
      engine::Datagram d{};
      if (engine::open_datagram(bytes, kernels::best_kernels(), d)) continue;
      for (std::size_t r = 0; r < peers.size(); ++r)
        if (s.to == peers[r].binding) members[r].receive(d, box.now);
    }
  }
  // Everybody says what is due, and hears the answers; so for a time. deaf: nothing reaches the box.
  void pass(TimeNs time, bool deaf = false) {
    for (const TimeNs end = box.now + time; box.now < end;) {
      for (std::size_t r = 0; r < members.size(); ++r) {
        std::array<std::byte, kMaxDatagramBytes> out;
        const std::size_t bytes = members[r].transmit(out, Chunk{9}, box.now);
        if (bytes == 0 || deaf) continue;
        deliver(box.send(peers[r], Bytes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(bytes))));
      }
      deliver(box.advance(10 * kMillisecond));
    }
  }
  [[nodiscard]] bool all(LoadMember::State state) const {
    return std::ranges::all_of(members, [&](const LoadMember& m) { return m.state() == state; });
  }

  members_test::Bench box;
  std::vector<LoadMember> members;
  std::vector<Peer> peers;
};

using State = LoadMember::State;

TEST(LoadMember, AllRanksJoinStayAliveAndLeave) {
  LoadRack rack(3);
  rack.pass(kSecond);
  ASSERT_TRUE(rack.all(State::kRunning)) << rack.members[0].why();
  EXPECT_EQ(rack.members[0].membership().world, 3U);
  EXPECT_NE(rack.members[0].membership().cookie, rack.members[1].membership().cookie);
  rack.pass(3 * rack.members[0].membership().lease);
  EXPECT_TRUE(rack.all(State::kRunning)) << rack.members[0].why();
  for (LoadMember& m : rack.members) m.leave(rack.box.now);
  rack.pass(kSecond);
  EXPECT_TRUE(rack.all(State::kLeft));
}

TEST(LoadMember, SaysForWhomTheBoxWaits) {
  LoadRack rack(2, 2);
  rack.members.pop_back();
  rack.peers.pop_back();
  rack.pass(kSecond);
  EXPECT_TRUE(rack.all(State::kJoining));
  EXPECT_EQ(rack.members[0].why(), "the box waits for rank 1 of the job");
}

TEST(LoadMember, ARefusalSaysWhy) {
  LoadRack rack(2, 3);
  rack.pass(kSecond);
  ASSERT_TRUE(rack.all(State::kFailed));
  EXPECT_NE(rack.members[0].why().find("refuses"), std::string::npos) << rack.members[0].why();
}

TEST(LoadMember, GivesUpWhenNobodyAnswers) {
  LoadRack rack(1);
  rack.pass(11 * kSecond, true);
  ASSERT_TRUE(rack.all(State::kFailed));
  EXPECT_NE(rack.members[0].why().find("does tallyd run"), std::string::npos) << rack.members[0].why();
}

TEST(LoadMember, ABoxThatFallsSilentEndsTheRun) {
  LoadRack rack(2);
  rack.pass(kSecond);
  ASSERT_TRUE(rack.all(State::kRunning));
  const TimeNs lease = rack.members[0].membership().lease;
  for (const TimeNs end = rack.box.now + lease + kSecond; rack.box.now < end;
       rack.box.now += kMillisecond * 100) {
    for (LoadMember& m : rack.members) {
      std::array<std::byte, kMaxDatagramBytes> out;
      static_cast<void>(m.transmit(out, Chunk{9}, rack.box.now));
    }
  }
  ASSERT_TRUE(rack.all(State::kFailed));
  EXPECT_NE(rack.members[0].why().find("has not answered"), std::string::npos) << rack.members[0].why();
}

TEST(LoadMember, AnAbortEndsTheRunWithItsText) {
  LoadRack rack(2);
  rack.pass(kSecond);
  ASSERT_TRUE(rack.all(State::kRunning));
  const engine::Membership& m = rack.members[1].membership();
  Peer& peer = rack.peers[1];
  peer.job_id = raw(m.job);
  peer.epoch = raw(m.epoch);
  peer.cookie = raw(m.cookie);
  peer.result_cookie = raw(m.result_cookie);
  peer.last = m.record();
  peer.instance = 501;
  peer.counter = std::uint64_t{1} << 63;  // beyond those of the member itself
  rack.deliver(rack.box.send(peer, peer.abort("out of cheese")));
  ASSERT_EQ(rack.members[0].state(), State::kFailed);
  EXPECT_NE(rack.members[0].why().find("out of cheese"), std::string::npos) << rack.members[0].why();
}

TEST(LoadMember, ABoxThatLostItsStateEndsTheRun) {
  LoadRack rack(2);
  rack.pass(kSecond);
  ASSERT_TRUE(rack.all(State::kRunning));
  rack.box.forget_everything();
  rack.pass(3 * kSecond);
  ASSERT_TRUE(rack.all(State::kFailed));
}

}  // namespace
}  // namespace tally::bench

// Hazards of docs/hazards.md: packets from whoever only guesses, at a worker and at the switch.

#include <gtest/gtest.h>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

class HazardSpoof : public testing::Test {
 protected:
  static constexpr std::uint32_t kChunks = 3000;
  static constexpr TimeNs kThereAndBack = 25 * kMicrosecond;

  // Rank 0 in the middle of an operation.
  HazardSpoof() : rack({.world = 3}) {
    rack.join();
    sum = rack.reduce(16 * kChunks);
    rack.run_for(200 * kMicrosecond);
    EXPECT_FALSE(rack.done(0, sum));
  }
  void down(Bytes datagram, const std::function<void(Header&)>& lie) {
    Header h = header_of(datagram);
    lie(h);
    set_header(datagram, h);
    rack.inject_down(0, datagram);
    rack.run_for(kThereAndBack);
  }
  void up(Bytes datagram, const std::function<void(Header&)>& lie, std::uint16_t from = 1) {
    Header h = header_of(datagram);
    lie(h);
    set_header(datagram, h);
    rack.inject_up(from, datagram);
    rack.run_for(kThereAndBack);
  }
  Bytes from_box(PacketType type, const std::string& text = {}) {
    Bytes datagram = rack.control(type, 0, {}, text);
    Header h = header_of(datagram);
    h.rank = Be{raw(kSwitchRank)};
    h.cookie = Be{raw(rack.membership(0).result_cookie)};
    set_header(datagram, h);
    return datagram;
  }
  Chunk awaited() { return Chunk{static_cast<std::uint32_t>(rack.counted(0).results)}; }
  Bytes forged_result() { return rack.result(awaited(), std::vector<std::int32_t>(16, 7), 16 * kChunks); }
  std::uint64_t refused(Refused why) { return rack.counted(0).of(why); }

  HazardRack rack;
  std::size_t sum = 0;
};

TEST_F(HazardSpoof, spoofed_result) {
  down(forged_result(), [](Header& h) { h.cookie = Be{h.cookie.host() ^ 1}; });
  EXPECT_EQ(refused(Refused::kCookie), 1U);
  down(forged_result(), [](Header& h) { h.epoch = Be{h.epoch.host() ^ 1}; });
  EXPECT_EQ(refused(Refused::kEpoch), 1U);
  down(forged_result(), [](Header& h) { h.job = Be<std::uint16_t>(2); });
  EXPECT_EQ(refused(Refused::kJob), 1U);
  down(forged_result(), [](Header& h) { h.rank = Be<std::uint16_t>(1); });
  EXPECT_EQ(refused(Refused::kRank), 1U);
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(0).epochs, 1U);
  // And at the switch: it takes no RESULT, whoever sends it.
  up(rack.result(Chunk{kChunks}, std::vector<std::int32_t>(16, 7), 16), [](Header&) {});
  EXPECT_EQ(rack.box().counters(JobId{0}).of(Drop::kType), 1U);
  rack.expect_healthy();
}

// Of the present epoch, and nobody knows whose: the worker asks control by a HEARTBEAT and goes on. Only with
// a tag it would join anew.
TEST_F(HazardSpoof, spoofed_reject) {
  const auto reason = [](RejectReason r) {
    return [r](Header& h) { h.slot = Be{static_cast<std::uint32_t>(r)}, h.cookie = Be<std::uint64_t>(0); };
  };
  const engine::Membership before = rack.membership(0);
  const std::uint64_t joins = rack.counted(0).joins;
  const std::uint64_t beats = rack.counted(0).heartbeats;
  down(from_box(PacketType::kReject), reason(RejectReason::kEpoch));
  EXPECT_EQ(rack.counted(0).hints, 1U);
  EXPECT_EQ(rack.counted(0).heartbeats, beats + 1);
  down(from_box(PacketType::kReject), reason(RejectReason::kJob));
  const std::string forged(sizeof(CountedPayload) + kTagBytes, '\1');
  down(from_box(PacketType::kReject, forged), reason(RejectReason::kEpoch));
  down(from_box(PacketType::kReject, forged), reason(RejectReason::kJob));
  EXPECT_EQ(refused(Refused::kTag), 2U);
  down(from_box(PacketType::kReject), reason(RejectReason::kWaiting));
  EXPECT_EQ(refused(Refused::kCookie), 1U);
  down(from_box(PacketType::kReject), reason(RejectReason{77}));
  EXPECT_EQ(refused(Refused::kReason), 1U);
  down(from_box(PacketType::kReject), [](Header& h) {
    h.slot = Be<std::uint32_t>(1);
    h.epoch = Be{h.epoch.host() ^ 1};
  });
  EXPECT_EQ(refused(Refused::kEpoch), 1U);
  rack.expect_exact(sum);
  EXPECT_EQ(rack.membership(0).epoch, before.epoch);
  EXPECT_EQ(rack.counted(0).epochs, 1U) << "the same epoch again: nothing was offered anew";
  EXPECT_EQ(rack.counted(0).generations, 1U);
  // A flood of them costs one HEARTBEAT per 100 ms.
  const std::uint64_t before_flood = rack.counted(0).heartbeats;
  for (int i = 0; i < 1000; ++i) {
    down(from_box(PacketType::kReject), reason(RejectReason::kEpoch));
    rack.run_for(kMillisecond - kThereAndBack);
  }
  EXPECT_LE(rack.counted(0).heartbeats - before_flood, 15U);
  EXPECT_EQ(rack.counted(0).joins, joins);
  rack.expect_healthy();
  up(from_box(PacketType::kReject), reason(RejectReason::kEpoch));
  EXPECT_EQ(rack.box().counters(JobId{0}).of(Drop::kType), 1U);
}

TEST_F(HazardSpoof, spoofed_answer) {
  const auto answer = [&](Rank peer, Rank asker, Chunk chunk) {
    Bytes datagram = rack.result(chunk, std::vector<std::int32_t>(16, 7), 16 * kChunks);
    Header h = header_of(datagram);
    h.type = PacketType::kAnswer;
    h.rank = Be{raw(peer)};
    h.slot = Be<std::uint32_t>(raw(asker));
    h.cookie = Be{raw(rack.membership(raw(peer)).cookie)};
    set_header(datagram, h);
    return datagram;
  };
  // A worker takes none; who asks is answered by RESULT.
  down(answer(Rank{1}, Rank{0}, awaited()), [](Header&) {});
  EXPECT_EQ(refused(Refused::kType), 1U);
  // The switch relays one only under the peer's own secret, from the peer's own place, for another member.
  up(answer(Rank{1}, Rank{0}, awaited()), [](Header& h) { h.cookie = Be{h.cookie.host() ^ 1}; });
  EXPECT_EQ(rack.drops(Drop::kCookie), 1U);
  up(
      answer(Rank{1}, Rank{0}, awaited()), [](Header&) {}, 2);
  EXPECT_EQ(rack.drops(Drop::kSource), 1U);
  up(answer(Rank{1}, Rank{1}, awaited()), [](Header&) {});
  up(answer(Rank{1}, Rank{3}, awaited()), [](Header&) {});
  EXPECT_EQ(rack.drops(Drop::kAsker), 2U);
  up(answer(Rank{1}, Rank{0}, awaited()), [](Header& h) { h.contributors = Be<std::uint64_t>(3); });
  EXPECT_EQ(rack.drops(Drop::kContributors), 1U);
  up(answer(Rank{1}, Rank{0}, awaited()), [](Header& h) { h.sum1 = Be{h.sum1.host() + 1}; });
  EXPECT_EQ(rack.drops(Drop::kSum), 1U);
  EXPECT_EQ(rack.verdicts(Verdict::kRelay), 0U);
  rack.expect_exact(sum);
  // A genuine one for a chunk that nobody asked about any more is late, and touches no entry.
  up(answer(Rank{1}, Rank{0}, Chunk{kChunks - 1}), [](Header&) {});
  EXPECT_EQ(rack.verdicts(Verdict::kRelay), 1U);
  EXPECT_EQ(refused(Refused::kLate), 1U);
  up(answer(Rank{1}, Rank{0}, Chunk{kChunks}), [](Header&) {});
  EXPECT_EQ(refused(Refused::kNotWaited), 1U);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
  rack.expect_healthy();
}

TEST_F(HazardSpoof, spoofed_abort) {
  down(from_box(PacketType::kAbort, "give up"), [](Header& h) { h.cookie = Be{h.cookie.host() ^ 1}; });
  EXPECT_EQ(refused(Refused::kCookie), 1U);
  down(from_box(PacketType::kAbort, "give up"), [](Header& h) { h.epoch = Be{h.epoch.host() ^ 1}; });
  EXPECT_EQ(refused(Refused::kEpoch), 1U);
  down(from_box(PacketType::kAbort, "give up"), [](Header& h) { h.rank = Be<std::uint16_t>(1); });
  EXPECT_EQ(refused(Refused::kRank), 1U);
  EXPECT_FALSE(rack.worker(0).closed());
  // At the switch the same for all that a member may say to control.
  for (const auto type : {PacketType::kAbort, PacketType::kLeave, PacketType::kHeartbeat}) {
    const std::uint64_t cookies = rack.control_drops(members::MembershipDrop::kCookie);
    const std::uint64_t sources = rack.control_drops(members::MembershipDrop::kSource);
    // One that asks for an answer must prove itself first.
    const auto unknown =
        type == PacketType::kHeartbeat ? members::MembershipDrop::kTag : members::MembershipDrop::kEpoch;
    const std::uint64_t unknowns = rack.control_drops(unknown);
    up(rack.control(type, 1), [](Header& h) { h.cookie = Be{h.cookie.host() ^ 1}; });
    EXPECT_EQ(rack.control_drops(members::MembershipDrop::kCookie), cookies + 1);
    up(
        rack.control(type, 1), [](Header&) {}, 2);
    EXPECT_EQ(rack.control_drops(members::MembershipDrop::kSource), sources + 1);
    up(rack.control(type, 1), [](Header& h) { h.epoch = Be{h.epoch.host() ^ 1}; });
    EXPECT_EQ(rack.control_drops(unknown), unknowns + 1);
  }
  EXPECT_EQ(rack.status().phase, members::JobPhase::kRunning);
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(0).epochs, 1U);
}

// Not in docs/hazards.md, of the same family: JOINED without the nonce, LEAVE's echo that nobody asked
// for.
TEST_F(HazardSpoof, spoofed_joined) {
  Bytes joined = from_box(PacketType::kJoined, std::string(sizeof(JoinedPayload), '\3'));
  down(joined, [](Header&) {});
  EXPECT_EQ(refused(Refused::kLength) + refused(Refused::kState), 1U);
  down(from_box(PacketType::kLeave), [](Header&) {});
  EXPECT_FALSE(rack.worker(0).closed());
  rack.expect_exact(sum);
}

}  // namespace
}  // namespace tally::sim

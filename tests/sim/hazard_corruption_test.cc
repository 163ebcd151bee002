// Hazards of protocol.md's list: bits that flip, fields that lie, and packets from whoever only guesses.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "hazard_rack.h"
#include "kernels.h"

namespace tally::sim {
namespace {

constexpr auto kContribution = PacketType::kContribute;
constexpr auto kResult = PacketType::kResult;
constexpr std::size_t kValues = 42 + kHeaderBytes;  // of a frame

void flip(Bytes& frame) { frame.at(kValues + 5) ^= std::byte{0x10}; }

TEST(Hazard, flipped_bit_behind_a_port_that_does_not_vouch) {
  HazardRack rack;
  rack.join();
  const Rule& first =
      rack.change({.worker = 0, .up = true, .type = kContribution, .chunk = Chunk{0}}, flip, 1);
  const Rule& second =
      rack.change({.worker = 1, .up = true, .type = kContribution, .chunk = Chunk{1}}, flip, 1);
  rack.expect_exact(rack.reduce(40));
  EXPECT_EQ(first.hits() + second.hits(), 2U);
  EXPECT_EQ(rack.drops(Drop::kSum), 2U);
  EXPECT_EQ(rack.drops(Drop::kBadSum), 0U);
  EXPECT_TRUE(rack.box().events().empty());
}

// The port vouches for what was spoilt before it was summed: the finished sum finds out, three times, then
// every contribution is looked at and the one who spoils them is named.
TEST(Hazard, poisoned_contribution_and_its_naming) {
  HazardRack rack({.world = 3, .vouched = true});
  rack.join();
  Rule& poison = rack.change({.worker = 1, .up = true, .type = kContribution}, flip);
  const std::size_t sum = rack.reduce(16 * 4);
  ASSERT_TRUE(rack.until([&] { return rack.drops(Drop::kSum) >= 3; }));
  EXPECT_GE(rack.drops(Drop::kBadSum), 3U);
  EXPECT_EQ(rack.counted(0).results + rack.counted(1).results, 0U);
  ASSERT_FALSE(rack.box().events().empty());
  for (const Event& event : rack.box().events()) {
    EXPECT_EQ(event.kind, EventKind::kPoisoned);
    EXPECT_EQ(event.rank, Rank{1});
    EXPECT_EQ(event.job, rack.id());
    EXPECT_EQ(event.epoch, rack.membership(0).epoch);
  }
  poison.left = 0;
  rack.expect_exact(sum);
  // Suspect for 1,024 finished chunks; then a single flipped bit is again only a bad sum.
  const std::uint64_t bad_sums = rack.drops(Drop::kBadSum);
  rack.expect_exact(rack.reduce(16 * 1010));
  poison.left = 1;
  rack.expect_exact(rack.reduce(16));
  EXPECT_EQ(rack.drops(Drop::kBadSum), bad_sums) << "still suspect";
  rack.expect_exact(rack.reduce(16 * 20));
  const std::size_t events = rack.box().events().size();
  poison.left = 1;
  rack.expect_exact(rack.reduce(16));
  EXPECT_EQ(rack.drops(Drop::kBadSum), bad_sums + 1);
  EXPECT_EQ(rack.box().events().size(), events);
}

TEST(Hazard, poisoned_contribution_in_a_world_of_one) {
  HazardRack rack({.world = 1, .vouched = true});
  rack.join();
  rack.change({.up = true, .type = kContribution}, flip, 2);
  rack.expect_exact(rack.reduce(40));
  EXPECT_EQ(rack.drops(Drop::kBadSum), 2U);
}

TEST(Hazard, flipped_bit_in_a_result) {
  HazardRack rack;
  rack.join();
  const Rule& spoilt = rack.change({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{1}}, flip, 2);
  rack.expect_exact(rack.reduce(40));
  EXPECT_EQ(spoilt.hits(), 2U);
  EXPECT_EQ(rack.counted(1).of(Refused::kSum), 2U);
  EXPECT_EQ(rack.counted(1).results, 3U);
}

TEST(Hazard, flipped_bit_in_three_results_of_a_chunk) {
  HazardRack rack;
  rack.join();
  rack.change({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{1}}, flip);
  const std::size_t sum = rack.reduce(40);
  ASSERT_TRUE(rack.until([&] { return rack.failed(1, sum); }));
  EXPECT_NE(rack.error(1, sum).find("three results of chunk 1 failed their sums"), std::string::npos);
  rack.run_for(kMillisecond);
  EXPECT_TRUE(rack.done(0, sum));
  EXPECT_NE(rack.worker(0).engine().why_closed().text().find("rank 1: operation 1: three results of chunk 1"),
            std::string::npos);
}

// Sums that leave int32 wrap, and everybody is told so: at once, from the entry and from a peer's history.
TEST(Hazard, overflow) {
  HazardRack rack({.world = 3});
  rack.join();
  std::vector<std::vector<std::int32_t>> x(3, std::vector<std::int32_t>(48, 1));
  const std::size_t small = rack.reduce_ints(x);
  rack.expect_exact(small);
  for (const std::uint16_t r : rack.ranks()) EXPECT_FALSE(rack.stats(r, small).overflow);
  x[1][20] = 715'827'882;  // floor((2^31-1)/3)
  const std::size_t within = rack.reduce_ints(x);
  rack.expect_exact(within);
  for (const std::uint16_t r : rack.ranks()) EXPECT_FALSE(rack.stats(r, within).overflow);
  x[1][20] = 715'827'883;
  x[0][40] = x[1][40] = x[2][40] = std::numeric_limits<std::int32_t>::min();
  Rule& stored = rack.lose({.worker = 1, .up = false, .type = kResult});
  Rule& forgotten = rack.lose({.worker = 2, .up = false, .type = kResult});
  const std::size_t beyond = rack.reduce_ints(x);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, beyond); }));
  stored.left = 0;
  ASSERT_TRUE(rack.until([&] { return rack.done(1, beyond); }));
  rack.box().restart_data_plane();
  forgotten.left = 0;
  rack.expect_exact(beyond);
  EXPECT_GT(rack.counted(0).answers + rack.counted(1).answers, 0U);
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_TRUE(rack.stats(r, beyond).overflow);
    EXPECT_EQ(rack.counted(r).overflows, 2U) << "of the three chunks";
  }
}

// The one field that lies, the drop that says so. Secrets, check and sums are right.
TEST(Hazard, wire_fields_out_of_range) {
  struct Lie {
    const char* what;
    Drop drop;
    std::function<void(Header&)> tell;
  };
  const std::vector<Lie> lies{
      {"rank of no member", Drop::kRank, [](Header& h) { h.rank = Be<std::uint16_t>(3); }},
      {"rank beyond 64", Drop::kRank, [](Header& h) { h.rank = Be<std::uint16_t>(64); }},
      {"rank of the box", Drop::kRank, [](Header& h) { h.rank = Be<std::uint16_t>(0xFFFF); }},
      {"rank of a server", Drop::kRank, [](Header& h) { h.rank = Be<std::uint16_t>(0xFF00); }},
      {"rank of another", Drop::kCookie, [](Header& h) { h.rank = Be<std::uint16_t>(0); }},
      {"count beyond the payload", Drop::kLength, [](Header& h) { h.elements = Be<std::uint16_t>(32); }},
      {"count below the payload", Drop::kLength, [](Header& h) { h.elements = Be<std::uint16_t>(0); }},
      {"odd count", Drop::kElements, [](Header& h) { h.elements = Be<std::uint16_t>(15); }},
      {"count beyond all", Drop::kElements, [](Header& h) { h.elements = Be<std::uint16_t>(0xFFF0); }},
      {"slot of another chunk", Drop::kSlot, [](Header& h) { h.slot = Be{h.slot.host() ^ 1U}; }},
      {"slot beyond the window", Drop::kSlot, [](Header& h) { h.slot = Be{h.slot.host() + 16U}; }},
      {"slot beyond all", Drop::kSlot, [](Header& h) { h.slot = Be{~0U}; }},
      {"no contributors", Drop::kContributors, [](Header& h) { h.contributors = Be<std::uint64_t>(0); }},
      {"all contributors", Drop::kContributors, [](Header& h) { h.contributors = Be<std::uint64_t>(7); }},
      {"another's bit", Drop::kContributors, [](Header& h) { h.contributors = Be<std::uint64_t>(1); }},
      {"a bit of nobody", Drop::kContributors,
       [](Header& h) { h.contributors = Be{std::uint64_t{1} << 63}; }},
      {"unknown type of element", Drop::kDtype, [](Header& h) { h.dtype = 2; }},
      {"unknown flag", Drop::kFlags, [](Header& h) { h.flags = 64; }},
      {"a flag of the box", Drop::kFlags, [](Header& h) { h.flags = kFlagIncomplete; }},
      {"unknown version", Drop::kVersion, [](Header& h) { h.version = 2; }},
      {"chunk too far ahead", Drop::kAhead, [](Header& h) { h.chunk = Be{h.chunk.host() + 0x1000U}; }},
      {"a server's business", Drop::kDirect, [](Header& h) { h.flags = kFlagDirect; }},
  };
  HazardRack rack({.world = 3, .vouched = true});
  rack.join();
  rack.expect_healthy();
  // A chunk is filling; what lies is about the same chunk.
  const std::size_t sum = 1;
  rack.reduce_at(0, sum, 16);
  rack.reduce_at(1, sum, 16);
  rack.run_for(100 * kMicrosecond);
  std::uint64_t dropped = 0;
  const auto count = [&] {
    std::uint64_t n = 0;
    for (const JobId job : {JobId{0}, rack.id()}) {
      for (const std::uint64_t drops : rack.box().counters(job).drops) n += drops;
    }
    return n;
  };
  for (const Lie& lie : lies) {
    Bytes datagram = make_contribution(
        rack.row(),
        {.rank = Rank{1}, .chunk = Chunk{3}, .values = std::vector<std::int32_t>(16, 1 << 20), .total = 16});
    Header h = header_of(datagram);
    lie.tell(h);
    set_header(datagram, h);
    const auto of = [&] { return rack.drops(lie.drop) + rack.box().counters(JobId{0}).of(lie.drop); };
    const std::uint64_t before = of();
    dropped = count();
    rack.inject_up(1, datagram);
    rack.run_for(20 * kMicrosecond);
    EXPECT_EQ(of() - before, 1U) << lie.what;
    EXPECT_EQ(count() - dropped, 1U) << lie.what << ": one counter and nothing else";
    EXPECT_EQ(rack.box().occupancy(rack.id()), 1U) << lie.what;
  }
  rack.reduce_at(2, sum, 16);
  rack.expect_exact(sum);
}

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

// Of the present epoch, and nobody knows whose: the worker asks control and goes on.
TEST_F(HazardSpoof, spoofed_reject) {
  const auto reason = [](RejectReason r) {
    return [r](Header& h) { h.slot = Be{static_cast<std::uint32_t>(r)}, h.cookie = Be<std::uint64_t>(0); };
  };
  const Membership before = rack.membership(0);
  down(from_box(PacketType::kReject), reason(RejectReason::kEpoch));
  EXPECT_EQ(rack.counted(0).rejects, 1U);
  down(from_box(PacketType::kReject), reason(RejectReason::kJob));
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
  // A flood of them costs one JOIN per 100 ms.
  const std::uint64_t joins = rack.counted(0).joins;
  for (int i = 0; i < 1000; ++i) {
    down(from_box(PacketType::kReject), reason(RejectReason::kEpoch));
    rack.run_for(kMillisecond - kThereAndBack);
  }
  EXPECT_LE(rack.counted(0).joins - joins, 11U);
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
    const std::uint64_t cookies = rack.control_drops(MembershipDrop::kCookie);
    const std::uint64_t sources = rack.control_drops(MembershipDrop::kSource);
    const std::uint64_t epochs = rack.control_drops(MembershipDrop::kEpoch);
    up(rack.control(type, 1), [](Header& h) { h.cookie = Be{h.cookie.host() ^ 1}; });
    EXPECT_EQ(rack.control_drops(MembershipDrop::kCookie), cookies + 1);
    up(
        rack.control(type, 1), [](Header&) {}, 2);
    EXPECT_EQ(rack.control_drops(MembershipDrop::kSource), sources + 1);
    up(rack.control(type, 1), [](Header& h) { h.epoch = Be{h.epoch.host() ^ 1}; });
    EXPECT_EQ(rack.control_drops(MembershipDrop::kEpoch), epochs + 1);
  }
  EXPECT_EQ(rack.status().phase, JobPhase::kRunning);
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(0).epochs, 1U);
}

// Not in protocol.md's list, of the same family: JOINED without the nonce, LEAVE's echo that nobody asked
// for.
TEST_F(HazardSpoof, spoofed_joined) {
  Bytes joined = from_box(PacketType::kJoined, std::string(sizeof(JoinedPayload), '\3'));
  down(joined, [](Header&) {});
  EXPECT_EQ(refused(Refused::kLength) + refused(Refused::kState), 1U);
  down(from_box(PacketType::kLeave), [](Header&) {});
  EXPECT_FALSE(rack.worker(0).closed());
  rack.expect_exact(sum);
}

struct Special {
  const char* name;
  float value;
};

class HazardValue : public testing::TestWithParam<Special> {};

INSTANTIATE_TEST_SUITE_P(Bad, HazardValue,
                         testing::Values(Special{"nan", std::numeric_limits<float>::quiet_NaN()},
                                         Special{"inf", std::numeric_limits<float>::infinity()},
                                         Special{"minus_inf", -std::numeric_limits<float>::infinity()},
                                         Special{"beyond_2_127",
                                                 std::nextafter(0x1p127F,
                                                                std::numeric_limits<float>::infinity())}),
                         [](const auto& p) { return p.param.name; });

TEST_P(HazardValue, nan_and_inf_fail_where_they_are_and_abort_the_others) {
  HazardRack rack({.world = 3});
  rack.join();
  std::vector<std::vector<float>> x(3, std::vector<float>(100, 1.0F));
  x[1][83] = GetParam().value;
  const std::size_t sum = rack.reduce_floats(x);
  ASSERT_TRUE(rack.until([&] { return rack.failed(0, sum) && rack.failed(1, sum) && rack.failed(2, sum); }));
  EXPECT_NE(rack.error(1, sum).find(" in tensor 0 at offset 83"), std::string::npos) << rack.error(1, sum);
  for (const std::uint16_t r : {std::uint16_t{0}, std::uint16_t{2}}) {
    EXPECT_NE(rack.error(r, sum).find("rank 1: "), std::string::npos) << rack.error(r, sum);
    EXPECT_NE(rack.error(r, sum).find("offset 83"), std::string::npos) << rack.error(r, sum);
  }
}

// Blocks of 16: zeros, denormals, both ends of the range, and each beside blocks of the other ranks.
TEST(Hazard, zero_and_denormal_blocks_and_exponents_at_both_ends) {
  const std::vector<float> blocks{0.0F,      -0.0F,     0x1p-149F,  -0x1p-140F, 0x1p-126F, 0x1p-97F,
                                  0x1p-96F,  0x1p-95F,  0x1p0F,     -0x1p1F,    0x1p126F,  0x1p127F,
                                  -0x1p127F, 0x1.8p-5F, 0x1.8p126F, 0x1p-130F};
  HazardRack rack({.world = 3});
  rack.join();
  rack.lose({.up = true, .type = kContribution}, 5);
  rack.lose({.up = false, .type = kResult}, 5);
  for (std::size_t shift = 0; shift < blocks.size(); ++shift) {
    std::vector<std::vector<float>> x(3);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      x[0].insert(x[0].end(), 16, blocks[i]);
      x[1].insert(x[1].end(), 16, blocks[(i + shift) % blocks.size()]);
      x[2].insert(x[2].end(), 16, 0.0F);
    }
    const std::size_t sum = rack.reduce_floats(x);
    ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
    for (std::size_t i = 0; i < x[0].size(); ++i) {
      const double exact = static_cast<double>(x[0][i]) + static_cast<double>(x[1][i]);
      const double largest =
          std::max(std::fabs(static_cast<double>(x[0][i])), std::fabs(static_cast<double>(x[1][i])));
      // protocol.md: |y - sum x| <= N * 2^(E-s-1) + 2^-24 |y|, s = 29 for 3 ranks less one bit, E >= -96.
      const double exponent = largest == 0 ? -127 : std::max(std::ceil(std::log2(largest)), -96.0);
      const double bound = 3 * std::exp2(exponent - 29 - 1) + std::exp2(-24) * std::fabs(exact);
      const float y = rack.floats(0, sum)[i];
      if (std::fabs(exact) <= static_cast<double>(std::numeric_limits<float>::max())) {
        ASSERT_LE(std::fabs(static_cast<double>(y) - exact), bound) << i << " of " << shift;
      } else {
        ASSERT_EQ(y, std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(exact)));
      }
      ASSERT_EQ(std::bit_cast<std::uint32_t>(rack.floats(1, sum)[i]), std::bit_cast<std::uint32_t>(y));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(rack.floats(2, sum)[i]), std::bit_cast<std::uint32_t>(y));
    }
  }
}

}  // namespace
}  // namespace tally::sim

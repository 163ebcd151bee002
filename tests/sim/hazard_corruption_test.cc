// Hazards of docs/hazards.md: bits that flip, fields that lie, and values at the edge of what a float is.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

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
  for (const pipeline::Event& event : rack.box().events()) {
    EXPECT_EQ(event.kind, pipeline::EventKind::kPoisoned);
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
  EXPECT_NE(rack.error(1, sum).find("three results of chunk 1 were wrong, the last by its sum"),
            std::string::npos);
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
      {"no sequence", Drop::kSequence, [](Header& h) { h.slot = Be{0U}; }},
      {"a sequence that has come", Drop::kReplay, [](Header& h) { h.slot = Be{1U}; }},
      {"no contributors", Drop::kContributors, [](Header& h) { h.contributors = Be<std::uint64_t>(0); }},
      {"all contributors", Drop::kContributors, [](Header& h) { h.contributors = Be<std::uint64_t>(7); }},
      {"another's bit", Drop::kContributors, [](Header& h) { h.contributors = Be<std::uint64_t>(1); }},
      {"a bit of nobody", Drop::kContributors,
       [](Header& h) { h.contributors = Be{std::uint64_t{1} << 63}; }},
      {"unknown type of element", Drop::kDtype, [](Header& h) { h.dtype = 3; }},
      {"16 values of 16 bits", Drop::kElements, [](Header& h) { h.dtype = 2; }},
      {"zeros, and values behind them", Drop::kLength, [](Header& h) { h.flags = kFlagZero; }},
      {"unknown flag", Drop::kFlags, [](Header& h) { h.flags = 128; }},
      {"rows left out, and none is", Drop::kRows, [](Header& h) { h.flags = kFlagSparse; }},
      {"a flag of the box", Drop::kFlags, [](Header& h) { h.flags = kFlagIncomplete; }},
      {"unknown version", Drop::kVersion, [](Header& h) { h.version = 1; }},
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
    Bytes datagram = make_contribution(rack.row(), {.rank = Rank{1},
                                                    .chunk = Chunk{3},
                                                    .values = std::vector<std::int32_t>(16, 1 << 20),
                                                    .total = 16,
                                                    .sequence = kForgottenSequence});
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

struct Special {
  const char* name;
  float value;
};

class HazardValue : public testing::TestWithParam<Special> {};

INSTANTIATE_TEST_SUITE_P(Bad, HazardValue,
                         testing::Values(Special{"nan", std::numeric_limits<float>::quiet_NaN()},
                                         Special{"inf", std::numeric_limits<float>::infinity()},
                                         Special{"minus_inf", -std::numeric_limits<float>::infinity()},
                                         Special{"beyond_2_126",
                                                 std::nextafter(0x1p126F,
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
                                  0x1p-96F,  0x1p-95F,  0x1p0F,     -0x1p1F,    0x1p125F,  0x1p126F,
                                  -0x1p126F, 0x1.8p-5F, 0x1.8p125F, 0x1p-130F};
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
      ASSERT_LE(std::fabs(static_cast<double>(y) - exact), bound) << i << " of " << shift;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(rack.floats(1, sum)[i]), std::bit_cast<std::uint32_t>(y));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(rack.floats(2, sum)[i]), std::bit_cast<std::uint32_t>(y));
    }
  }
}

}  // namespace
}  // namespace tally::sim

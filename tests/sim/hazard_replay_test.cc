// Hazards of docs/hazards.md: packets of the past, and numbers that come round.

#include <gtest/gtest.h>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

constexpr Chunk kNearTheWrap{0xFFFF'FFFDU};

// Chunk 32 lies in the entry that chunk 0 had; rank 1 still needs its stored result when chunk 0 comes again.
TEST(Hazard, stale_packet_of_an_earlier_chunk_does_not_destroy_a_stored_result) {
  HazardRack rack({.first_chunk = kNearTheWrap});
  rack.join();
  const Rule& stale = rack.record({.worker = 0, .up = true, .type = kContribution, .chunk = kNearTheWrap});
  rack.expect_exact(rack.reduce(16 * 32));
  ASSERT_EQ(stale.hits(), 1U);
  Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult});
  const std::size_t sum = rack.reduce(16);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, sum); }));
  rack.replay_forgotten(stale, 0);
  EXPECT_EQ(rack.drops(Drop::kStale), 1U);
  lost.left = 0;
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(0).answers, 0U) << "the stored result was enough";
  EXPECT_EQ(rack.counted(1).queries, rack.counted(1).asks) << "no peer was asked";
  EXPECT_EQ(rack.counted(1).epochs, 1U);
}

// The same while chunk 32 is filling: rank 0's value is in, rank 1's on its way.
TEST(Hazard, stale_packet_of_an_earlier_chunk_does_not_destroy_a_filling_entry) {
  HazardRack rack;
  rack.join();
  const Rule& stale = rack.record({.worker = 1, .up = true, .type = kContribution, .chunk = Chunk{0}});
  rack.expect_exact(rack.reduce(16 * 32));
  rack.reduce_at(0, 1, 16);
  rack.run_for(100 * kMicrosecond);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 1U);
  rack.replay_forgotten(stale, 1);
  EXPECT_EQ(rack.drops(Drop::kStale), 1U);
  rack.reduce_at(1, 1, 16);
  rack.expect_exact(1);
  EXPECT_EQ(rack.counted(0).retransmissions, 0U) << "its value was still there";
}

// Everything that was said in the first epoch, both ways, a minute after that epoch ended.
TEST(Hazard, packets_of_an_earlier_epoch_60_seconds_old) {
  HazardRack rack({.first_chunk = kNearTheWrap, .cores = 2});
  Rule& up = rack.record({.up = true});
  Rule& down = rack.record({.up = false});
  rack.join();
  rack.expect_exact(rack.reduce(16 * 60));
  rack.box().restart_data_plane();
  rack.run_for(kSecond);
  ASSERT_EQ(rack.counted(0).epochs, 2U);
  up.left = down.left = 0;
  const auto of = [](const Rule& rule, PacketType type) {
    std::uint64_t n = 0;
    for (const auto& frame : rule.frames) n += header_in(frame).type == type ? 1 : 0;
    return n;
  };
  ASSERT_EQ(of(up, kContribution), 120U);
  ASSERT_EQ(of(down, kResult), 120U);
  rack.run_for(60 * kSecond);

  const std::uint64_t joins = rack.counted(0).joins + rack.counted(1).joins;
  const std::uint64_t challenged = rack.control_drops(members::MembershipDrop::kChallenge);
  const std::uint64_t old_epoch = rack.drops(Drop::kEpoch);
  const std::uint64_t refused = rack.counted(0).of(Refused::kEpoch);
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(50 * kMicrosecond);
  ASSERT_FALSE(rack.done(0, sum)) << "in the middle of an operation";
  for (const std::size_t link : {0U, 1U}) {  // from and to either, whoever they were of
    for (const Bytes& frame : up.frames) rack.sim().network().inject(link, true, frame);
    for (const Bytes& frame : down.frames) rack.sim().network().inject(link, false, frame);
  }
  rack.expect_exact(sum);
  EXPECT_EQ(rack.drops(Drop::kEpoch) - old_epoch, 240U);
  EXPECT_GE(rack.counted(0).of(Refused::kEpoch) - refused, 60U);
  EXPECT_EQ(rack.control_drops(members::MembershipDrop::kChallenge) - challenged,
            2 * of(up, PacketType::kJoin))
      << "their challenges are of long ago";
  EXPECT_EQ(rack.counted(0).joins + rack.counted(1).joins, joins);
  EXPECT_EQ(rack.counted(0).epochs, 2U);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
}

// All that it ever said to control comes again, once a second.
TEST(Hazard, replayed_heartbeats_keep_no_dead_rank_alive) {
  HazardRack rack({.world = 3, .lease = 3 * kSecond});
  rack.join();
  const Rule& beats = rack.record({.worker = 2, .up = true, .type = PacketType::kHeartbeat});
  rack.expect_healthy();
  rack.run_for(2 * kSecond);
  const std::vector<Bytes> old = beats.frames;
  ASSERT_FALSE(old.empty());
  rack.worker(2).crash();
  constexpr std::size_t sum = 1;
  for (const std::uint16_t rank : {std::uint16_t{0}, std::uint16_t{1}}) rack.reduce_at(rank, sum, 64);
  for (int i = 0; i < 5; ++i) {
    for (const Bytes& frame : old) rack.sim().network().inject(2, true, frame);
    rack.run_for(kSecond);
  }
  EXPECT_TRUE(rack.failed(0, sum));
  EXPECT_NE(rack.error(0, sum).find("rank 2"), std::string::npos) << rack.error(0, sum);
  EXPECT_GE(rack.control_drops(members::MembershipDrop::kReplay), old.size());
}

// The job is withdrawn and declared again; the ids have rotated, so the new one gets the same id. Ranks,
// hosts and ports are the same too: only epoch and cookies tell the two apart.
TEST(Hazard, id_reuse) {
  HazardRack rack;
  Rule& up = rack.record({.up = true});
  Rule& down = rack.record({.up = false});
  rack.join();
  const JobId id = rack.id();
  const Epoch epoch = rack.membership(0).epoch;
  const members::NativeConfig config = rack.box().options().jobs.front();
  const std::size_t cut = rack.reduce(16 * 400);
  rack.run_for(50 * kMicrosecond);
  rack.box().withdraw(config.name);
  ASSERT_TRUE(rack.until([&] { return rack.failed(0, cut) && rack.failed(1, cut); }));
  EXPECT_NE(rack.error(0, cut).find("the job was withdrawn from the box"), std::string::npos);
  up.left = down.left = 0;
  for (std::uint32_t i = 1; i < kMaxJobs; ++i) {
    members::NativeConfig other = config;
    other.name = "other" + std::to_string(i);
    EXPECT_NE(rack.box().declare(other), id);
    rack.box().withdraw(other.name);
  }
  ASSERT_EQ(rack.box().declare(config), id);
  for (const std::uint16_t r : rack.ranks()) rack.worker(r).program_again();
  ASSERT_TRUE(rack.until([&] { return rack.running(); }));
  EXPECT_NE(rack.membership(0).epoch, epoch);

  const std::uint64_t before = rack.drops(Drop::kEpoch);
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(50 * kMicrosecond);
  for (const std::size_t link : {0U, 1U}) {
    for (const Bytes& frame : up.frames) rack.sim().network().inject(link, true, frame);
    for (const Bytes& frame : down.frames) rack.sim().network().inject(link, false, frame);
  }
  rack.expect_exact(sum);
  EXPECT_GT(rack.drops(Drop::kEpoch), before + 20);
  EXPECT_GT(rack.counted(0).of(Refused::kEpoch), 20U);
  EXPECT_EQ(rack.membership(0).job, id);
}

class HazardWrap : public testing::TestWithParam<std::uint8_t> {};

TEST_P(HazardWrap, chunk_wrap) {
  HazardRack rack({.world = 3, .first_chunk = kNearTheWrap, .cores = GetParam()});
  rack.join();
  for (const std::uint32_t chunk : {0xFFFF'FFFDU, 0xFFFF'FFFFU, 0U, 1U, 15U}) {
    rack.lose({.worker = chunk % 3, .up = true, .type = kContribution, .chunk = Chunk{chunk}}, 1);
    rack.lose({.worker = (chunk + 1) % 3, .up = false, .type = kResult, .chunk = Chunk{chunk}}, 2);
    rack.copy({.worker = (chunk + 2) % 3, .up = true, .type = kContribution, .chunk = Chunk{chunk}}, 1);
  }
  rack.expect_exact(rack.reduce(16 * 70));
  EXPECT_EQ(rack.counted(0).epochs, 1U);
  EXPECT_GE(rack.verdicts(Verdict::kRepeat), 10U);
  EXPECT_EQ(rack.drops(Drop::kStale) + rack.drops(Drop::kAhead), 0U);
  rack.expect_healthy();
}

// Priming chunks before the wrap, their data chunks behind it.
TEST_P(HazardWrap, chunk_wrap_within_a_float_operation) {
  HazardRack rack({.first_chunk = kNearTheWrap, .cores = GetParam()});
  rack.join();
  // One core owns all chunks, so exponents come in a run, from the first chunk on; of three each owns too few.
  const bool run = GetParam() == 1;
  const Rule& lost = rack.lose({.worker = 0,
                                .up = false,
                                .type = run ? PacketType::kZeroRun : kResult,
                                .chunk = run ? kNearTheWrap : Chunk{0xFFFF'FFFEU}},
                               1);
  std::vector<std::vector<float>> x(2, std::vector<float>(16 * 5));
  for (std::size_t i = 0; i < x[0].size(); ++i) {
    x[0][i] = static_cast<float>(i) * 0.25F;
    x[1][i] = static_cast<float>(i) * -8.0F;
  }
  const std::size_t sum = rack.reduce_floats(x);
  ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
  for (const std::uint16_t r : rack.ranks()) {
    for (std::size_t i = 0; i < x[0].size(); ++i) ASSERT_EQ(rack.floats(r, sum)[i], x[0][i] + x[1][i]);
  }
  EXPECT_EQ(lost.hits(), 1U);
}

// A result from before the wrap comes from the peer's history after it.
TEST_P(HazardWrap, chunk_wrap_between_a_lost_result_and_its_answer) {
  HazardRack rack({.first_chunk = kNearTheWrap, .cores = GetParam()});
  rack.join();
  Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{0xFFFF'FFFFU}});
  const std::size_t sum = rack.reduce(16 * 10);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, sum); }));
  EXPECT_FALSE(rack.done(1, sum));
  rack.box().restart_data_plane();
  lost.left = 0;
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(0).answers, 1U);
  EXPECT_EQ(rack.counted(0).queries_silent, 0U);
}

INSTANTIATE_TEST_SUITE_P(Cores, HazardWrap, testing::Values(1, 3));

// All secrets right, and a number that serial arithmetic calls newer, older or neither.
TEST(Hazard, same_epoch_replay_older_than_half_the_number_space) {
  HazardRack rack;
  rack.join();
  rack.expect_exact(rack.reduce(16 * 100));
  const Chunk high{99};
  const auto send = [&](Chunk chunk) {
    rack.inject_up(
        1, make_contribution(rack.row(),
                             {.rank = Rank{1}, .chunk = chunk, .values = std::vector<std::int32_t>(16, 7)}));
    rack.run_for(kMillisecond);
  };
  constexpr std::uint32_t kHalf = 1U << 31;
  for (const std::uint32_t back : {kHalf + 5, kHalf + 1, kHalf + (1U << 30), ~0U - 31}) send(high - back);
  EXPECT_EQ(rack.drops(Drop::kAhead), 4U) << "so far back that it looks newer";
  EXPECT_EQ(rack.drops(Drop::kStale), 0U);
  for (const std::uint32_t back : {kHalf, kHalf - 1, 1U << 30, 32U}) send(high - back);
  EXPECT_EQ(rack.drops(Drop::kStale), 4U);
  EXPECT_EQ(rack.drops(Drop::kAhead), 4U);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
  // A worker is not confused by such results either.
  const auto refused = [&] { return rack.counted(0).refused_total(); };
  const std::uint64_t before = refused();
  for (const std::uint32_t back : {kHalf + 5, kHalf, kHalf - 1, 32U, ~0U - 31})
    rack.inject_down(0, rack.result(high - back, std::vector<std::int32_t>(16, 7), 16));
  rack.run_for(kMillisecond);
  EXPECT_EQ(refused() - before, 5U);
  EXPECT_EQ(rack.counted(0).results, 100U);
  rack.expect_healthy();
}

// Control hears that the numbers have advanced 2^29 and renews the epoch under a running operation.
TEST(Hazard, epoch_renewal) {
  HazardRack rack({.world = 3});
  rack.join();
  rack.expect_healthy();
  const engine::Membership before = rack.membership(0);
  const std::size_t sum = rack.reduce(16 * 300);
  rack.run_for(50 * kMicrosecond);
  rack.say_up(1, rack.control(PacketType::kHeartbeat, 1, Chunk{(1U << 29) - 1}));
  rack.run_for(50 * kMicrosecond);
  EXPECT_EQ(rack.status().phase, members::JobPhase::kRunning) << "not yet";
  ASSERT_FALSE(rack.done(0, sum));
  rack.say_up(1, rack.control(PacketType::kHeartbeat, 1, Chunk{1U << 29}));
  ASSERT_TRUE(rack.until([&] { return rack.status().phase == members::JobPhase::kForming; }));
  ASSERT_FALSE(rack.done(0, sum));
  rack.expect_exact(sum);
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_NE(rack.membership(r).epoch, before.epoch);
    EXPECT_EQ(rack.membership(r).generation, before.generation);
    EXPECT_EQ(rack.counted(r).epochs, 2U);
    EXPECT_EQ(rack.counted(r).generations, 1U);
  }
  rack.expect_healthy();
}

TEST(Hazard, epoch_renewal_of_an_idle_job) {
  HazardRack rack({.first_chunk = kNearTheWrap});
  rack.join();
  rack.expect_healthy();
  const Epoch before = rack.membership(0).epoch;
  rack.lose({.up = false, .type = PacketType::kReject}, 2);  // both are called in vain: heartbeats find out
  rack.say_up(0, rack.control(PacketType::kHeartbeat, 0, kNearTheWrap + (1U << 29)));
  rack.run_for(rack.options().lease / 10 + 100 * kMillisecond);
  EXPECT_NE(rack.membership(0).epoch, before);
  EXPECT_EQ(rack.membership(0).epoch, rack.membership(1).epoch);
  rack.expect_healthy();
}

// Everything a RESULT says is the entry's: the packet that fetches it says something else.
TEST(Hazard, result_id_is_not_taken_from_the_triggering_packet) {
  HazardRack rack;
  rack.join();
  std::vector<std::vector<float>> x(2, std::vector<float>(16));
  for (std::size_t i = 0; i < 16; ++i) {
    x[0][i] = 1.0F;
    x[1][i] = 4096.0F;
  }
  // Rank 0's small exponent arrives last and completes chunk 0; it must carry rank 1's.
  rack.lose({.worker = 0, .up = true, .type = kContribution, .chunk = Chunk{0}}, 1);
  Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult});
  const Rule& repeated = rack.record({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{0}});
  const std::size_t sum = rack.reduce_floats(x);
  ASSERT_TRUE(rack.until([&] { return lost.hits() != 0; }));
  EXPECT_EQ(header_in(lost.frames.front()).exponent, 12);
  // Rank 1's next try is another packet, by its looks: exponent, flag, values, sums.
  const Rule& other_looks = rack.change(
      {.worker = 1, .up = true, .type = kContribution, .chunk = Chunk{0}},
      [&](Bytes& frame) {
        const Header h = header_in(frame);
        const auto other =
            make_contribution(rack.row(), {.rank = Rank{1},
                                           .chunk = h.chunk_id(),
                                           .values = std::vector<std::int32_t>(h.elements.host(), -1),
                                           .flags = kFlagRetransmit | kFlagOverflow,
                                           .dtype = h.dtype,
                                           .exponent = 100,
                                           .total = h.total.host()});
        std::copy(other.begin(), other.end(), frame.end() - static_cast<std::ptrdiff_t>(other.size()));
      },
      1);
  ASSERT_TRUE(rack.until([&] { return other_looks.hits() == 1; }));
  lost.left = 0;
  ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
  ASSERT_GE(repeated.hits(), 1U);
  Header wanted = header_in(lost.frames.front());
  const Header got = header_in(repeated.frames.front());
  EXPECT_EQ(got.flags, kFlagRetransmit);
  EXPECT_EQ(got.exponent, wanted.exponent);
  EXPECT_EQ(got.sum1.host(), wanted.sum1.host());
  EXPECT_EQ(got.sum2.host(), wanted.sum2.host());
  EXPECT_EQ(got.chunk.host(), wanted.chunk.host());
  for (const std::uint16_t r : rack.ranks()) EXPECT_EQ(rack.floats(r, sum), std::vector<float>(16, 4097.0F));
}

}  // namespace
}  // namespace tally::sim

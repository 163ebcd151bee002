// Hazards of docs/hazards.md: what is lost, comes twice or late, on jobs of all sizes.

#include <gtest/gtest.h>
#include <bit>

#include <algorithm>
#include <string>
#include <vector>

#include "hazard_rack.h"
#include "rng.h"

namespace tally::sim {
namespace {

TEST(Hazard, lost_contribution) {
  HazardRack rack;
  rack.join();
  const Rule& lost = rack.lose({.worker = 1, .up = true, .type = kContribution, .chunk = Chunk{0}}, 1);
  rack.expect_exact(rack.reduce(16));
  EXPECT_EQ(lost.hits(), 1U);
  EXPECT_EQ(rack.counted(1).retransmissions, 1U);
  // Rank 0 sent again too: before rank 1's copy or after it.
  EXPECT_EQ(rack.drops(Drop::kDuplicate) + rack.verdicts(Verdict::kRepeat), 1U);
  EXPECT_EQ(rack.counted(0).srtt, 0U);  // Karn: what was sent twice is no sample
  EXPECT_EQ(rack.counted(1).srtt, 0U);
}

// Nothing follows that could overtake it, and nobody waits for a timer.
TEST(Hazard, last_result_or_last_contribution_lost_is_asked_for) {
  for (const bool up : {true, false}) {
    HazardRack rack({.world = 3});
    rack.join();
    rack.expect_exact(rack.reduce(16));  // workers know now how long a round trip is
    const Rule& lost = rack.lose({.worker = 1, .up = up, .type = up ? kContribution : kResult}, 1);
    const std::size_t number = rack.reduce(16);
    rack.expect_exact(number);
    EXPECT_EQ(lost.hits(), 1U);
    EXPECT_GE(rack.counted(1).asks, 1U);
    EXPECT_LE(rack.counted(1).asks, 3U);
    EXPECT_EQ(rack.counted(1).retransmissions, up ? 1U : 0U) << "what the box says that it lacks";
    EXPECT_EQ(rack.counted(0).retransmissions, 0U);
    EXPECT_LT(rack.stats(1, number).finished - rack.stats(1, number).started, kMillisecond);
  }
}

// The box sees that it lacks one, and tells the rank whose it is. Nobody waits for a timer, nobody else does
// anything.
TEST(Hazard, lost_contribution_amid_others) {
  HazardRack rack({.world = 3});
  rack.join();
  const Rule& lost = rack.lose({.worker = 1, .up = true, .type = kContribution, .chunk = Chunk{20}}, 1);
  rack.expect_exact(rack.reduce(16 * 100));
  EXPECT_EQ(lost.hits(), 1U);
  for (std::uint16_t rank = 0; rank < 3; ++rank) {
    const std::uint64_t repairs = rank == 1 ? 1 : 0;
    EXPECT_EQ(rack.counted(rank).nacks, repairs) << rank;
    EXPECT_EQ(rack.counted(rank).early, repairs) << rank;
    EXPECT_EQ(rack.counted(rank).retransmissions, repairs) << rank;
    EXPECT_LE(rack.counted(rank).queries, rank == 1 ? 0U : 1U) << "it might have been its result: " << rank;
  }
  EXPECT_EQ(rack.drops(Drop::kDuplicate), 0U);
  EXPECT_LE(rack.verdicts(Verdict::kRepeat), 2U);
}

TEST(Hazard, lost_result_amid_others) {
  HazardRack rack({.world = 3});
  rack.join();
  const Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{20}}, 1);
  rack.expect_exact(rack.reduce(16 * 100));
  EXPECT_EQ(lost.hits(), 1U);
  EXPECT_EQ(rack.counted(1).asks, 1U);
  for (std::uint16_t rank = 0; rank < 3; ++rank) EXPECT_EQ(rack.counted(rank).retransmissions, 0U) << rank;
  EXPECT_EQ(rack.counted(0).queries + rack.counted(2).queries, 0U);
  EXPECT_EQ(rack.verdicts(Verdict::kRepeat), 1U);
}

// On a link with a rate a round trip is mostly the worker's own queue, and the window two or three of them. A
// loss must be repaired before the window is at its end, or all ranks stand still and then repeat what nobody
// lost. With a patience of 2 round trips a quarter of the rate is left at 5 %. Floats, whose data chunks wait for
// exponents, and both floors, since each behaves well where another does not. That timers do not run on while results
// come is not seen here: Early.ATimerBeginsAnewWithEachResultOfWhatWasSentBefore shows it.
struct RatedLink {
  std::uint16_t world;
  bool floats;
  TimeNs rto_floor;
};

void expect_rate_with_losses(const RatedLink& link) {
  constexpr std::uint64_t kRate = 100'000'000;
  constexpr TimeNs kPacket = 1500 * 8 * kSecond / kRate;
  constexpr std::uint32_t kElements = 352 * 2500;
  constexpr std::uint64_t kMost = 2250;
  const std::uint16_t world = link.world;
  const bool floats = link.floats;
  const TimeNs rto_floor = link.rto_floor;
  SCOPED_TRACE(std::to_string(world) + (floats ? " ranks, floats, " : " ranks, ints, ") +
               std::to_string(rto_floor / kMillisecond) + " ms");
  double repairs =
      0;  // contributions sent again and questions, for each lost frame, of a run for each of its chunks
  const auto time_with = [&](double loss) {
    HazardRack rack({.world = world,
                     .window = 256,
                     .elements = 352,
                     .bits_per_second = kRate,
                     .rto_floor = rto_floor,
                     .backlog = 32 * kPacket});
    rack.join();
    Rng rng(1);
    std::uint64_t lost = 0;
    rack.lose({.also = [&](const Header& h) {
      if (!rng.chance(loss)) return false;
      lost += h.type == PacketType::kZeroRun
                  ? static_cast<std::uint64_t>(std::popcount(h.contributors.host()))
                  : 1;
      return true;
    }});
    const TimeNs begun = rack.now();
    const std::vector<std::vector<float>> ones(world, std::vector<float>(kElements, 1.0F));
    const std::size_t sum = floats ? rack.reduce_floats(ones) : rack.reduce(kElements);
    // Not until the end: what is lost there is not overtaken by anything, and takes two round trips.
    const auto has_most = [&] {
      for (std::uint16_t rank = 0; rank < world; ++rank)
        if (rack.counted(rank).results < kMost) return false;
      return true;
    };
    EXPECT_TRUE(rack.until(has_most));
    const TimeNs time = rack.now() - begun;
    EXPECT_TRUE(rack.until([&] { return rack.done(sum); }));
    if (!floats) rack.expect_exact(sum);
    for (std::uint16_t rank = 0; floats && rank < world; ++rank)
      EXPECT_EQ(std::ranges::count(rack.floats(rank, sum), static_cast<float>(world)), kElements) << rank;
    std::uint64_t sent_again = 0;
    for (std::uint16_t rank = 0; rank < world; ++rank)
      sent_again += rack.counted(rank).retransmissions + rack.counted(rank).queries;
    EXPECT_EQ(sent_again == 0, loss == 0) << sent_again;
    repairs = static_cast<double>(sent_again) / static_cast<double>(lost);
    return static_cast<double>(time);
  };
  const double lossless = time_with(0);
  EXPECT_GT(lossless / time_with(0.01), 0.95);
  EXPECT_LT(repairs, 1.25);
  EXPECT_GT(lossless / time_with(0.05), world == 4 ? 0.75 : 0.65);
}

TEST(Hazard, losses_where_the_round_trip_is_the_workers_own_queue) {
  expect_rate_with_losses({4, false, kMillisecond});
  expect_rate_with_losses({8, true, kMillisecond});
  expect_rate_with_losses({4, true, 20 * kMillisecond});
  expect_rate_with_losses({8, true, 20 * kMillisecond});
}

TEST(Hazard, lost_contribution_of_every_rank_and_chunk) {
  HazardRack rack({.world = 4});
  rack.join();
  const Rule& lost = rack.lose({.up = true, .type = kContribution, .also = [](const Header& h) {
                                  return (h.flags & kFlagRetransmit) == 0;
                                }});
  rack.expect_exact(rack.reduce(16 * 50));
  EXPECT_EQ(lost.hits(), 200U);
}

TEST(Hazard, lost_result) {
  HazardRack rack;
  rack.join();
  const Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{0}}, 1);
  rack.expect_exact(rack.reduce(40));
  EXPECT_EQ(lost.hits(), 1U);
  EXPECT_EQ(rack.counted(1).retransmissions, 0U) << "a question is enough";
  EXPECT_EQ(rack.verdicts(Verdict::kRepeat), 1U);
  EXPECT_EQ(rack.counted(0).refused_total(), 0U) << "the repeat is for the rank that asked";
  EXPECT_EQ(rack.counted(1).asks, 1U);
}

TEST(Hazard, lost_result_of_every_rank) {
  HazardRack rack({.world = 3});
  rack.join();
  const Rule& lost = rack.lose({.up = false, .type = kResult, .also = [](const Header& h) {
                                  return (h.flags & kFlagRetransmit) == 0;
                                }});
  rack.expect_exact(rack.reduce(16 * 20));
  EXPECT_EQ(lost.hits(), 60U);
  EXPECT_EQ(rack.verdicts(Verdict::kRepeat), 60U);
}

TEST(Hazard, duplicate) {
  HazardRack rack;
  rack.join();
  const Rule& filling = rack.copy({.worker = 0, .up = true, .type = kContribution});
  const Rule& complete = rack.copy({.worker = 1, .up = true, .type = kContribution});
  const std::size_t sum = rack.reduce(16 * 20);
  rack.expect_exact(sum);
  rack.run_for(kSecond);
  EXPECT_EQ(filling.hits(), 20U);
  EXPECT_EQ(complete.hits(), 20U);
  EXPECT_EQ(rack.drops(Drop::kReplay), 40U);
  EXPECT_EQ(rack.verdicts(Verdict::kRepeat), 0U);
  EXPECT_EQ(rack.verdicts(Verdict::kComplete), 20U);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
}

TEST(Hazard, duplicate_result) {
  HazardRack rack;
  rack.join();
  const Rule& twice = rack.copy({.worker = 0, .up = false, .type = kResult});
  rack.expect_exact(rack.reduce(16 * 20));
  rack.run_for(kSecond);
  EXPECT_EQ(twice.hits(), 20U);
  EXPECT_EQ(rack.counted(0).of(Refused::kLate), 20U);
  EXPECT_EQ(rack.counted(0).results, 20U);
}

// The first packet that the job's first entry ever sees is a retransmission, for one rank or for all.
TEST(Hazard, retransmission_of_the_first_packet) {
  for (const bool all : {false, true}) {
    HazardRack rack({.first_chunk = Chunk{0xFFFF'FFFDU}});
    rack.join();
    const Chunk first{0xFFFF'FFFDU};
    const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution, .chunk = first});
    const Rule& lost = all ? rack.lose({.up = true, .type = kContribution, .chunk = first}, 2)
                           : rack.lose({.worker = 0, .up = true, .type = kContribution, .chunk = first}, 1);
    rack.expect_exact(rack.reduce(16));
    EXPECT_EQ(lost.hits(), all ? 2U : 1U);
    ASSERT_EQ(sent.hits(), 2U);
    EXPECT_EQ(header_in(sent.frames.front()).flags, 0U);
    EXPECT_EQ(header_in(sent.frames.back()).flags, kFlagRetransmit);
    // Its copies: while the entry is complete, and when `high` has gone a span beyond.
    const std::uint64_t repeats = rack.verdicts(Verdict::kRepeat);
    rack.replay_forgotten(sent, 0);
    EXPECT_EQ(rack.verdicts(Verdict::kRepeat), repeats + 2);
    rack.expect_exact(rack.reduce(16 * 64));
    rack.replay_forgotten(sent, 0);
    EXPECT_EQ(rack.drops(Drop::kStale), 2U);
    rack.expect_healthy();
  }
}

// A rank sends first after another chunk's worth of retransmissions by all others.
TEST(Hazard, straggler) {
  HazardRack rack({.world = 3, .lease = kSecond});
  rack.join();
  rack.reduce_at(0, 0, 16 * 40);
  rack.reduce_at(2, 0, 16 * 40);
  rack.run_for(5 * kSecond);  // rank 1 computes, for longer than a lease
  EXPECT_EQ(rack.counted(0).results, 0U);
  EXPECT_GT(rack.counted(0).retransmissions, 3U);
  EXPECT_GT(rack.counted(0).waiting, 0U);
  EXPECT_EQ(rack.worker(0).engine().missing(), bit_of(Rank{1}));
  EXPECT_EQ(rack.box().occupancy(rack.id()), 16U) << "a window, no more";
  rack.reduce_at(1, 0, 16 * 40);
  rack.expect_exact(0);
  EXPECT_EQ(rack.worker(2).engine().missing(), 0U);
  EXPECT_EQ(rack.counted(0).epochs, 1U);
}

TEST(Hazard, rank_pausing_longer_than_rto_but_alive) {
  HazardRack rack({.world = 3, .lease = kSecond});
  rack.join();
  rack.expect_healthy();  // the RTO is a few milliseconds from here on
  const std::size_t sum = rack.reduce(16 * 200);
  rack.run_for(30 * kMicrosecond);
  rack.worker(1).pause(rack.now() + 700 * kMillisecond);
  rack.run_for(600 * kMillisecond);
  EXPECT_FALSE(rack.done(0, sum));
  EXPECT_GT(rack.counted(0).retransmissions, 0U);
  EXPECT_LT(rack.counted(0).rto, 700 * kMillisecond);
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(1).epochs, 1U);
  EXPECT_EQ(rack.worker(0).engine().live(), 7U);
}

TEST(Hazard, world_of_one) {
  HazardRack rack({.world = 1, .first_chunk = Chunk{0xFFFF'FFFDU}});
  rack.join();
  rack.lose({.up = true, .type = kContribution, .also = [](const Header& h) { return h.flags == 0; }}, 5);
  rack.lose({.up = false, .type = kResult}, 5);
  const Rule& twice = rack.copy({.up = true, .type = kContribution});
  const std::size_t sum = rack.reduce(16 * 40);
  rack.run_for(20 * kMicrosecond);
  rack.box().restart_data_plane();
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(0).queries, 0U) << "there is nobody to ask";
  EXPECT_GT(twice.hits(), 40U);
  rack.box().restart();
  rack.expect_exact(rack.reduce(16 * 40));
  EXPECT_EQ(rack.counted(0).generations, 1U);
  EXPECT_EQ(rack.counted(0).epochs, 3U);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
}

TEST(Hazard, world_of_64) {
  HazardRack rack({.world = 64, .cores = 2});
  rack.join();
  EXPECT_EQ(rack.membership(0).members(), ~std::uint64_t{0});
  const Rule& up = rack.lose({.worker = 63, .up = true, .type = kContribution}, 3);
  const Rule& down = rack.lose({.up = false, .type = kResult, .chunk = Chunk{5}}, 64);
  rack.expect_exact(rack.reduce(16 * 40));
  EXPECT_EQ(up.hits(), 3U);
  EXPECT_EQ(down.hits(), 64U);
  EXPECT_GE(rack.verdicts(Verdict::kRepeat), 64U);
}

// Nothing of chunk 32 has arrived, and its entry still holds chunk 0: that is no answer.
TEST(Hazard, query_for_a_chunk_whose_entry_holds_an_earlier_one) {
  HazardRack rack;
  rack.join();
  rack.expect_exact(rack.reduce(16 * 32));
  const Rule& lost = rack.lose({.up = true, .type = kContribution, .chunk = Chunk{32}}, 8);
  const Rule& queries = rack.record({.up = true, .type = PacketType::kQuery});
  const std::size_t sum = rack.reduce(16);
  rack.expect_exact(sum);
  EXPECT_EQ(lost.hits(), 8U);
  EXPECT_GE(queries.hits(), 2U);
  EXPECT_EQ(rack.verdicts(Verdict::kTell) + rack.verdicts(Verdict::kRelay), queries.hits());
  EXPECT_EQ(rack.verdicts(Verdict::kRepeat), 0U);
  EXPECT_EQ(rack.counted(0).refused_total() + rack.counted(1).refused_total(), 0U);
}

// One rank has the result, the box has forgotten it, and all others ask for it at once.
TEST(Hazard, query_storm_with_64_ranks) {
  HazardRack rack({.world = 64});
  rack.join();
  rack.expect_healthy();
  for (std::size_t r = 0; r < 63; ++r) rack.lose({.worker = r, .up = false, .type = kResult}, 1);
  const Rule& queries = rack.record({.up = true, .type = PacketType::kQuery});
  const Rule& answers = rack.record({.up = true, .type = PacketType::kAnswer});
  const Rule& waiting =
      rack.record({.up = false, .type = PacketType::kReject, .also = [](const Header& h) {
                     return h.slot.host() == static_cast<std::uint32_t>(RejectReason::kWaiting);
                   }});
  const std::size_t sum = rack.reduce(16);
  ASSERT_TRUE(rack.until([&] { return rack.done(63, sum); }));
  EXPECT_FALSE(rack.done(0, sum));
  rack.box().restart_data_plane();
  const TimeNs restarted = rack.now();
  rack.expect_exact(sum, 0, 200 * kSecond);
  RecordProperty("seconds", static_cast<int>((rack.now() - restarted) / kSecond));
  EXPECT_EQ(rack.counted(63).answers, answers.hits());
  EXPECT_GE(answers.hits(), 63U);
  EXPECT_LE(answers.hits(), 3 * 63U) << "answered, not amplified";
  EXPECT_LE(queries.hits(), 64U * 63) << "one named rank per try";
  EXPECT_LE(waiting.hits(), queries.hits());
  EXPECT_EQ(rack.counted(0).epochs, 2U);
  rack.expect_healthy();
}

// Six of seven chunks meet a loss somewhere, so hardly any is a sample of the round trip; the others must end
// the back-off as well, or all ranks would soon wait for seconds together.
TEST(Hazard, many_ranks_under_loss_do_not_wait_for_each_others_back_off) {
  constexpr int kSums = 200;
  HazardRack rack({.world = 32, .window = 64, .lease = 60 * kSecond, .slot_lines = 1 << 16});
  rack.join();
  for (int i = 0; i < 20; ++i) rack.expect_exact(rack.reduce(16));
  rack.sim().network().set_faults({.loss = 0.03});
  const TimeNs begun = rack.now();
  for (int i = 0; i < kSums; ++i) rack.expect_exact(rack.reduce(16), 0, 600 * kSecond);
  EXPECT_LT(rack.now() - begun, kSums * 5 * kMillisecond);
}

}  // namespace
}  // namespace tally::sim

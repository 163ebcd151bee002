// Hazards of docs/hazards.md that are the pool discipline's alone, packet by packet, in both executions.
// What one packet can show is a fixture (tests/fixtures); what needs workers is in tests/sim.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "frames.h"
#include "jobs.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/pool.h"
#include "pipeline/staged.h"
#include "rng.h"

namespace tally {
namespace {

// Serial order against `high`, at every distance where something changes.
TEST(HazardPool, same_epoch_replay_older_than_half_the_number_space) {
  jobs::NativeJob job = make_job({.window = 16});
  job.span = 128;  // the window was 64 once
  const auto order = [&](std::uint32_t high, std::uint32_t distance) {
    pipeline::High reg{raw(job.epoch), high};
    pipeline::Contribution p;
    p.epoch = job.epoch;
    p.chunk = Chunk{high + distance};
    const pipeline::Decision d = pipeline::Pool::order(reg, p, job);
    const bool moves = d.op == pipeline::Op::kWrite;
    EXPECT_EQ(reg.chunk, moves ? high + distance : high);
    return d;
  };
  for (const std::uint32_t high : {0U, 5U, 127U, 0x7FFF'FFFFU, 0x8000'0000U, 0xFFFF'FFFDU}) {
    for (const std::uint32_t d : {1U, 16U, 32U, 127U})
      EXPECT_EQ(order(high, d).op, pipeline::Op::kWrite) << d;
    for (const std::uint32_t d : {0U, ~0U, ~0U - 126U})
      EXPECT_EQ(order(high, d).op, pipeline::Op::kRead) << d;
    for (const std::uint32_t d : {~0U - 127U, 0xC000'0000U, 0x8000'0001U, 0x8000'0000U}) {
      EXPECT_EQ(order(high, d).op, pipeline::Op::kNone) << d;
      EXPECT_EQ(order(high, d).drop, Drop::kStale) << d;
    }
    for (const std::uint32_t d : {128U, 1U << 30, 0x7FFF'FFFBU, 0x7FFF'FFFFU}) {
      EXPECT_EQ(order(high, d).op, pipeline::Op::kNone) << d;
      EXPECT_EQ(order(high, d).drop, Drop::kAhead) << d;
    }
  }
}

// A switch core and what comes out of it.
template <class Exec>
class HazardCore : public testing::Test {
 protected:
  HazardCore()
      : memory_(kLines),
        pipeline_({.core = 0, .box = test_box()}, memory_.region(), kernels::best_kernels()) {}

  void run(const jobs::NativeJob& job) {
    table_ = jobs::JobTable{}.with(job.id, std::make_shared<const jobs::NativeJob>(job));
    pipeline_.adopt(table_.get());
  }
  pipeline::Outcome take(const Bytes& datagram, const jobs::NativeJob& job) {
    const Header h = header_of(datagram);
    const jobs::Binding& from = job.ranks[h.rank.host()].binding;
    frame_.emplace(wrap(datagram, from, test_box(), kBasePort), from.port, false, 4 * kMaxElements);
    return pipeline_.process(frame_->frame(), 0);
  }
  pipeline::Outcome contribute(const jobs::NativeJob& job, std::uint16_t rank, Chunk chunk,
                               std::int32_t value = 1) {
    return take(
        make_contribution(
            job, {.rank = Rank{rank}, .chunk = chunk, .values = std::vector<std::int32_t>(16, value)}),
        job);
  }
  [[nodiscard]] std::uint32_t occupancy(const jobs::NativeJob& job) {
    return pipeline_.state(job.id).occupancy;
  }

  static constexpr std::uint32_t kLines = 1 << 10;
  SlotMemory memory_;
  pipeline::Pipeline<Exec> pipeline_;
  std::shared_ptr<const jobs::JobTable> table_;
  std::optional<ReceivedFrame> frame_;
};

using Executions = testing::Types<pipeline::Fused, pipeline::Staged>;
TYPED_TEST_SUITE(HazardCore, Executions);

// A window that was larger leaves a span of several rounds: an earlier chunk of the same entry passes the
// order test and must stop at the entry.
TYPED_TEST(HazardCore, stale_packet_of_an_earlier_chunk_under_a_shrunken_window) {
  jobs::NativeJob job = make_job({.window = 16});
  job.span = 128;
  this->run(job);
  const Chunk first{0xFFFF'FFFDU};
  EXPECT_EQ(this->contribute(job, 0, first).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->contribute(job, 0, first + 32).verdict, Verdict::kAbsorb);  // over the own filling entry
  EXPECT_EQ(this->occupancy(job), 1U);
  EXPECT_EQ(this->contribute(job, 1, first).drop, Drop::kStale);  // filling: rank 0's value stays
  EXPECT_EQ(this->contribute(job, 1, first + 32).verdict, Verdict::kComplete);
  EXPECT_EQ(this->occupancy(job), 0U);
  EXPECT_EQ(this->contribute(job, 0, first).drop, Drop::kStale);  // complete: so does the result
  EXPECT_EQ(this->contribute(job, 1, first).drop, Drop::kStale);
  EXPECT_EQ(this->contribute(job, 1, first + 32).verdict, Verdict::kRepeat);
  EXPECT_EQ(this->contribute(job, 1, first + 64).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->contribute(job, 1, first + 96).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->occupancy(job), 1U);
}

// Another job under the same id, in the same memory, of the same ranks at the same places.
TYPED_TEST(HazardCore, id_reuse) {
  const jobs::NativeJob old_job = make_job({});
  const jobs::NativeJob new_job = make_job({.epoch = 0x2000'0002, .generation = 0xdead});
  this->run(old_job);
  EXPECT_EQ(this->contribute(old_job, 0, Chunk{0}, 5).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->contribute(old_job, 0, Chunk{1}, 5).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->contribute(old_job, 1, Chunk{1}, 5).verdict, Verdict::kComplete);
  this->run(new_job);
  EXPECT_EQ(this->contribute(old_job, 1, Chunk{0}, 5).drop, Drop::kEpoch);
  EXPECT_EQ(this->take(make_query(new_job, Rank{0}, Chunk{1}, Rank{1}), new_job).verdict, Verdict::kRelay);
  EXPECT_EQ(this->contribute(new_job, 0, Chunk{1}, 2).verdict, Verdict::kAbsorb) << "no old result";
  EXPECT_EQ(this->contribute(new_job, 0, Chunk{0}, 2).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->contribute(old_job, 1, Chunk{0}, 5).drop, Drop::kEpoch);
  EXPECT_EQ(this->contribute(new_job, 1, Chunk{0}, 3).verdict, Verdict::kComplete) << "no old value";
  EXPECT_EQ(this->occupancy(new_job), 1U);
}

// Workers with anchored windows, a network that delays by up to thousands of packets and repeats: a
// contribution that somebody still waits for is never refused as stale or ahead, and every chunk completes
// with each value once.
TYPED_TEST(HazardCore, order_test_never_refuses_what_is_needed) {
  Rng rng(7);
  const jobs::NativeJob job = make_job({.world = 3, .window = 16});
  this->run(job);
  const Chunk first{0xFFFF'FFFDU - 200};
  constexpr std::uint32_t kChunks = 600;
  struct Worker {
    std::vector<bool> has = std::vector<bool>(kChunks + 1);
    std::uint32_t lowest = 0;
  };
  std::vector<Worker> workers(3);
  std::vector<std::pair<std::uint16_t, std::uint32_t>> in_flight;
  for (std::uint64_t steps = 0; steps < 200'000; ++steps) {
    const auto rank = static_cast<std::uint16_t>(rng.below(3));
    Worker& worker = workers[rank];
    const auto sent = worker.lowest + static_cast<std::uint32_t>(rng.below(job.window));
    if (sent < kChunks && !worker.has[sent]) in_flight.emplace_back(rank, sent);
    if (in_flight.size() < 20 || rng.chance(0.5)) continue;
    const std::size_t at =
        rng.chance(0.9) ? in_flight.size() - 1 - rng.below(20) : rng.below(in_flight.size());
    const auto [from, index] = in_flight[at];
    if (rng.chance(0.7)) in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(at));
    const bool needed =
        std::any_of(workers.begin(), workers.end(), [i = index](const Worker& w) { return !w.has[i]; });
    const pipeline::Outcome out =
        this->contribute(job, from, first + index, static_cast<std::int32_t>(index + 1));
    if (needed) {
      ASSERT_FALSE(out.verdict == Verdict::kDrop && out.drop != Drop::kDuplicate) << name_of(out.drop);
    }
    if (out.verdict != Verdict::kComplete && out.verdict != Verdict::kRepeat) continue;
    Be<std::uint32_t> value;
    std::copy_n(out.payload + kHeaderBytes, sizeof value,
                std::as_writable_bytes(std::span{&value, 1}).data());
    ASSERT_EQ(value.host(), 3 * (index + 1));
    for (std::uint16_t r = 0; r < 3; ++r) {  // RESULTs get lost
      if (out.verdict == Verdict::kRepeat ? r != from : rng.chance(0.3)) continue;
      workers[r].has[index] = true;
      while (workers[r].has[workers[r].lowest]) ++workers[r].lowest;
    }
  }
  for (const Worker& w : workers) EXPECT_EQ(w.lowest, kChunks);
  EXPECT_EQ(this->occupancy(job), 0U);
}

// In a burst the next packet takes the place of one before it.
TYPED_TEST(HazardCore, corrupted_contribution_repeats_no_nack_of_another) {
  const jobs::NativeJob job = make_job({});
  this->run(job);
  pipeline::Parsed parsed;
  const auto take = [&](std::uint32_t sequence, bool corrupted) {
    Bytes datagram = make_contribution(
        job, {.chunk = Chunk{sequence}, .values = std::vector<std::int32_t>(16, 1), .sequence = sequence});
    if (corrupted) datagram.back() ^= std::byte{1};
    const jobs::Binding& from = job.ranks[0].binding;
    ReceivedFrame received(wrap(datagram, from, test_box(), kBasePort), from.port, false);
    const pipeline::Frame frame = received.frame();
    this->pipeline_.parse(frame, parsed);
    return this->pipeline_.handle(parsed, frame, 0);
  };
  EXPECT_FALSE(take(1, false).nack);
  EXPECT_TRUE(take(6, false).nack) << "2 and 3 have not come";
  const pipeline::Outcome out = take(7, true);
  EXPECT_EQ(out.drop, Drop::kSum);
  EXPECT_FALSE(out.nack);
}

}  // namespace
}  // namespace tally

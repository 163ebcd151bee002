// fused = staged: the same random packets of random jobs through both executions give the same verdicts, the
// same bytes, the same counters and the same registers. The staged execution asserts the chip's rules itself.

#include <gtest/gtest.h>

#include <algorithm>

#include "frames.h"
#include "fused.h"
#include "jobs.h"
#include "pipeline.h"
#include "rng.h"
#include "staged.h"

namespace tally {
namespace {

struct World {
  std::vector<Job> jobs;
  std::shared_ptr<const JobTable> table = std::make_shared<JobTable>();
  std::uint32_t lines = 0;
};

World random_world(Rng& rng) {
  World w;
  const auto count = rng.between(1, 3);
  for (std::uint16_t id = 1; id <= count; ++id) {
    JobSpec spec{.id = id, .epoch = static_cast<std::uint32_t>(rng.next() | 1), .generation = rng.next()};
    spec.world = static_cast<std::uint8_t>(rng.chance(0.1) ? 64 : rng.between(1, 5));
    spec.window = 16U << rng.below(2);
    spec.shards = static_cast<std::uint8_t>(rng.between(1, 3));
    spec.elements = static_cast<std::uint16_t>(16 * rng.between(1, rng.chance(0.05) ? 139 : 6));
    spec.first_line = w.lines;
    w.jobs.push_back(make_job(spec));
    w.lines += w.jobs.back().slots.count;
    w.table = w.table->with(JobId{id}, std::make_shared<Job>(w.jobs.back()));
  }
  return w;
}

// Mostly sensible contributions around a moving front, some queries and answers, a few of everything wrong.
Bytes random_datagram(Rng& rng, const Job& job, std::uint32_t front) {
  const Rank rank{static_cast<std::uint16_t>(rng.below(job.world))};
  const auto back = rng.chance(0.02) ? rng.below(5 * job.span) : rng.below(8);
  ContributionSpec spec{.rank = rank, .chunk = Chunk{static_cast<std::uint32_t>(front - back)}};
  if (rng.chance(0.01)) spec.chunk = spec.chunk + 3 * job.span;
  const std::uint32_t n =
      rng.chance(0.95) ? job.elements : static_cast<std::uint32_t>(16 * rng.below(job.elements / 16 + 1));
  for (std::uint32_t i = 0; i < n; ++i)
    spec.values.push_back(static_cast<std::int32_t>(rng.next() >> (rng.chance(0.5) ? 32 : 48)));
  spec.total = rng.chance(0.99) ? 5000 : 4999;
  spec.exponent = static_cast<std::int8_t>(rng.next());
  spec.flags = static_cast<std::uint8_t>(rng.chance(0.1) ? rng.below(8) : 0);
  spec.dtype = rng.chance(0.99) ? 0 : 1;
  if (job.world > 1 && rng.chance(0.05)) {
    return make_query(
        job, rank, spec.chunk,
        Rank{static_cast<std::uint16_t>((raw(rank) + rng.between(1, job.world - 1u)) % job.world)});
  }
  Bytes out = make_contribution(job, spec);
  if (rng.chance(0.02)) {  // an answer; its sums are right in one of two cases
    Header h = header_of(out);
    h.type = PacketType::kAnswer;
    h.flags = 0;
    h.contributors = Be{job.members};
    h.slot = Be{static_cast<std::uint32_t>(rng.below(job.world + 1u))};
    if (rng.chance(0.5))
      h.sum1 =
          Be{h.sum1.host() - keyed(job.ranks[raw(rank)].key, spec.chunk) + keyed(job.key_sum, spec.chunk)};
    set_header(out, h);
  }
  if (rng.chance(0.06))
    out[rng.below(out.size())] ^= std::byte{static_cast<unsigned char>(1U << rng.below(8))};
  if (rng.chance(0.5)) seal(out);  // else the header check names what was flipped there
  return out;
}

template <class A, class B>
void expect_same_state(Pipeline<A>& a, Pipeline<B>& b, const Job& job) {
  EXPECT_EQ(a.counters(job.id), b.counters(job.id));
  EXPECT_EQ(a.state(job.id).occupancy, b.state(job.id).occupancy);
  EXPECT_EQ(a.state(job.id).last_seen, b.state(job.id).last_seen);
  EXPECT_EQ(a.state(job.id).suspect_chunks, b.state(job.id).suspect_chunks);
  EXPECT_EQ(a.state(job.id).overflows, b.state(job.id).overflows);
  for (std::uint32_t line = job.slots.first; line < job.slots.first + job.slots.count;
       line += entry_lines(job.elements)) {
    const Head x = a.execution().head(line);
    const Head y = b.execution().head(line);
    ASSERT_TRUE(x.tag == y.tag && x.chunk == y.chunk && x.contributors == y.contributors)
        << "entry at line " << line;
  }
}

void run(std::uint64_t seed, int packets) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  const World world = random_world(rng);
  const auto tables = usable_kernels();
  const Kernels& kernels = *tables[rng.below(tables.size())];
  SlotMemory memory(world.lines);
  const PipelineOptions options{.core = static_cast<std::uint8_t>(rng.below(2)), .box = test_box()};
  Pipeline<Fused> fused(options, memory.region(), kernels);
  Pipeline<Staged> staged(options, memory.region(), kernels);
  fused.adopt(world.table.get());
  staged.adopt(world.table.get());

  std::vector<std::uint32_t> front(world.jobs.size(), static_cast<std::uint32_t>(0) - 20);
  for (int i = 0; i < packets; ++i) {
    const auto which = rng.below(world.jobs.size());
    const Job& job = world.jobs[which];
    if (rng.chance(0.6 / job.world)) ++front[which];
    const Bytes datagram = random_datagram(rng, job, front[which]);
    const Rank sender = header_of(datagram).rank_id();
    const Binding from = test_binding(raw(job.id), raw(sender) < job.world ? raw(sender) : 0);
    const Bytes wire = wrap(datagram, from, test_box(), kBasePort);
    const bool vouched = rng.chance(0.5);
    const std::size_t room = rng.chance(0.9) ? 9000 : 0;
    ReceivedFrame f(wire, from.port, vouched, room);
    ReceivedFrame s(wire, from.port, vouched, room);
    const TimeNs now = static_cast<TimeNs>(i) * kMillisecond;
    const Outcome x = fused.process(f.frame(), now);
    const Outcome y = staged.process(s.frame(), now);
    ASSERT_EQ(x.verdict, y.verdict) << name_of(x.verdict) << " " << name_of(x.drop) << " / "
                                    << name_of(y.verdict) << " " << name_of(y.drop);
    ASSERT_EQ(x.drop, y.drop) << name_of(x.drop) << " / " << name_of(y.drop);
    ASSERT_EQ(x.to, y.to);
    ASSERT_EQ(x.payload_bytes, y.payload_bytes);
    ASSERT_EQ(x.reject, y.reject);
    ASSERT_EQ(x.reject_contributors, y.reject_contributors);
    // What leaves is equal to the last bit. A dropped packet's buffer belongs to nobody.
    if (x.verdict != Verdict::kDrop) {
      ASSERT_EQ(f.buffer(), s.buffer());
    }
    const auto e = fused.events().pop();
    const auto g = staged.events().pop();
    ASSERT_EQ(e.has_value(), g.has_value());
  }
  for (const Job& job : world.jobs) expect_same_state(fused, staged, job);
}

// 400 worlds of 400 packets: 160,000 in all. Eight tests, so that they run side by side.
class FusedEqualsStaged : public testing::TestWithParam<int> {};

TEST_P(FusedEqualsStaged, on_random_packets_of_random_jobs) {
  for (int i = 0; i < 50; ++i)
    ASSERT_NO_FATAL_FAILURE(run(static_cast<std::uint64_t>(GetParam() * 50 + i), 400));
}

INSTANTIATE_TEST_SUITE_P(Worlds, FusedEqualsStaged, testing::Range(0, 8));

// A random mix that never finishes a chunk or never repeats one would prove little.
TEST(FusedEqualsStagedCoverage, every_verdict_and_state_drop_occurs) {
  Rng rng(7);
  JobCounters seen;
  for (int w = 0; w < 60; ++w) {
    const World world = random_world(rng);
    SlotMemory memory(world.lines);
    Pipeline<Staged> staged({.core = 0, .box = test_box()}, memory.region(), best_kernels());
    staged.adopt(world.table.get());
    std::uint32_t front = 0;
    const Job& job = world.jobs.front();
    for (int i = 0; i < 400; ++i) {
      if (rng.chance(0.6 / job.world)) ++front;
      const Bytes datagram = random_datagram(rng, job, front);
      const Rank sender = header_of(datagram).rank_id();
      const Binding from = test_binding(raw(job.id), raw(sender) < job.world ? raw(sender) : 0);
      ReceivedFrame f(wrap(datagram, from, test_box(), kBasePort), from.port, rng.chance(0.5), 9000);
      staged.process(f.frame(), 0);
    }
    for (std::size_t v = 0; v < kVerdictCount; ++v) seen.verdicts[v] += staged.counters(job.id).verdicts[v];
    for (std::size_t d = 0; d < kDropCount; ++d) seen.drops[d] += staged.counters(job.id).drops[d];
  }
  for (const auto v :
       {Verdict::kAbsorb, Verdict::kComplete, Verdict::kRepeat, Verdict::kRelay, Verdict::kHandOver}) {
    EXPECT_GT(seen.of(v), 0u) << name_of(v);
  }
  for (const auto d :
       {Drop::kSum, Drop::kStale, Drop::kAhead, Drop::kDirect, Drop::kMismatch, Drop::kDuplicate,
        Drop::kBadSum, Drop::kAsker, Drop::kSlot, Drop::kCookie, Drop::kEpoch}) {
    EXPECT_GT(seen.of(d), 0u) << name_of(d);
  }
}

}  // namespace
}  // namespace tally

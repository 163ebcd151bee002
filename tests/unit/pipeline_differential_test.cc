// fused = staged: the same random packets of random jobs through both executions give the same verdicts, the
// same bytes, the same counters and the same registers. The staged execution asserts the chip's rules itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "agree.h"
#include "frames.h"
#include "jobs.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/staged.h"
#include "random_packets.h"
#include "rng.h"

namespace tally {
namespace {

template <class T>
bool same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;  // register words have no padding
}

// == would compare byte by byte, in calls (-O0).
bool same_bytes(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

template <class Exec>
struct Side {
  Side(const RandomWorld& world, const pipeline::PipelineOptions& base, const kernels::Kernels& kernels)
      : memory(world.lines), server(world.server_lines), pipeline(options(base), memory.region(), kernels) {
    pipeline.adopt(world.table.get());
  }
  pipeline::PipelineOptions options(pipeline::PipelineOptions base) {
    base.server = server.region();
    return base;
  }
  template <class R>
  auto peek(std::uint32_t index) {
    return pipeline.execution().template peek<R>(index);
  }

  SlotMemory memory;
  SlotMemory server;
  pipeline::Pipeline<Exec> pipeline;
};

class Pair {
 public:
  Pair(RandomWorld world, const pipeline::PipelineOptions& options, const kernels::Kernels& kernels)
      : world_(std::move(world)), fused_(world_, options, kernels), staged_(world_, options, kernels) {}

  void packet(Rng& rng, TimeNs now) {
    const auto which = rng.below(world_.jobs.size());
    const jobs::NativeJob& job = world_.jobs[which];
    if (rng.chance(0.6 / job.world)) ++world_.front[which];
    const Bytes datagram = random_datagram(rng, job, world_.front[which]);
    const jobs::Binding from = binding_of_sender(job, header_of(datagram));
    const Bytes wire = wrap(datagram, from, test_box(), kBasePort);
    const bool vouched = rng.chance(0.5);
    const std::size_t room = rng.chance(0.9) ? 9000 : 0;
    ReceivedFrame f(wire, from.port, vouched, room);
    ReceivedFrame s(wire, from.port, vouched, room);
    const pipeline::Outcome x = fused_.pipeline.process(f.frame(), now);
    const pipeline::Outcome y = staged_.pipeline.process(s.frame(), now);
    ASSERT_EQ(difference(x, y), "");
    // What leaves is equal to the last bit. A dropped packet's buffer belongs to nobody.
    if (x.verdict != Verdict::kDrop) {
      ASSERT_TRUE(same_bytes(f.buffer(), s.buffer()));
    }
    if (x.verdict == Verdict::kComplete || x.verdict == Verdict::kRepeat) note_form(x);
    ASSERT_NO_FATAL_FAILURE(take_owed());
    while (const auto e = fused_.pipeline.events().pop()) {  // of a run several
      const auto g = staged_.pipeline.events().pop();
      ASSERT_TRUE(g.has_value());
      ASSERT_TRUE(e->kind == g->kind && e->job == g->job && e->rank == g->rank && e->others == g->others &&
                  e->chunk == g->chunk);
    }
    ASSERT_FALSE(staged_.pipeline.events().pop().has_value());
  }

  void sweep(TimeNs now) {
    const bool found = fused_.pipeline.aged(now);
    ASSERT_EQ(found, staged_.pipeline.aged(now));
    if (!found) return;
    Bytes f(kHeaderBytes + 4 * kMaxElements);
    Bytes s(f.size());
    const pipeline::Outcome x = fused_.pipeline.sweep(f, now);
    const pipeline::Outcome y = staged_.pipeline.sweep(s, now);
    ASSERT_EQ(difference(x, y), "");
    ASSERT_TRUE(same_bytes(f, s));
  }

  // As control does it: a ledger is zeroed before the new row is in force. Entries stay where they are.
  void change_epoch(Rng& rng) {
    const auto which = rng.below(world_.jobs.size());
    const jobs::NativeJob old = world_.jobs[which];
    if (old.discipline == Discipline::kShared) {
      fused_.pipeline.release(old.id, old.slots, 0, old.members);
      staged_.pipeline.release(old.id, old.slots, 0, old.members);
    }
    world_.publish(which, with_new_epoch(rng, old));
    adopt();
  }
  // As control does it: with no publication, between two packets.
  void change_cap(Rng& rng) {
    const jobs::NativeJob& job = world_.jobs[rng.below(world_.jobs.size())];
    (*world_.caps)[raw(job.id)] = static_cast<std::uint32_t>(rng.below(8));
  }
  // The job goes, and comes back in another epoch.
  void leave(Rng& rng) {
    const auto which = rng.below(world_.jobs.size());
    const jobs::NativeJob old = world_.jobs[which];
    const std::uint32_t elements = old.discipline == Discipline::kPool ? old.elements : 0;
    fused_.pipeline.release(old.id, old.slots, elements, old.members);
    staged_.pipeline.release(old.id, old.slots, elements, old.members);
    world_.table = world_.table->with(old.id, {});
    adopt();
    world_.publish(which, with_new_epoch(rng, old));
    adopt();
  }

  void expect_same_state() {
    auto& a = fused_.pipeline;
    auto& b = staged_.pipeline;
    for (const jobs::NativeJob& job : world_.jobs) {
      EXPECT_EQ(a.counters(job.id), b.counters(job.id));
      const pipeline::JobState& x = a.state(job.id);
      const pipeline::JobState& y = b.state(job.id);
      EXPECT_EQ(x.occupancy, y.occupancy);
      EXPECT_EQ(x.last_seen, y.last_seen);
      EXPECT_EQ(x.suspect_chunks, y.suspect_chunks);
      EXPECT_EQ(x.overflows, y.overflows);
      EXPECT_EQ(x.filling_time, y.filling_time);
      EXPECT_EQ(x.slots.claims, y.slots.claims);
      EXPECT_EQ(x.slots.denied, y.slots.denied);
      EXPECT_EQ(x.slots.swaps, y.slots.swaps);
      EXPECT_EQ(x.slots.evicted, y.slots.evicted);
      EXPECT_EQ(x.slots.partials, y.slots.partials);
      EXPECT_EQ(x.slots.swept, y.slots.swept);
      EXPECT_EQ(x.slots.flushed, y.slots.flushed);
      EXPECT_EQ(x.slots.served, y.slots.served);
      EXPECT_EQ(x.slots.incomplete, y.slots.incomplete);
      EXPECT_EQ(x.slots.incomplete_bad, y.slots.incomplete_bad);
      EXPECT_TRUE(
          same(fused_.peek<pipeline::HighReg>(raw(job.id)), staged_.peek<pipeline::HighReg>(raw(job.id))));
      EXPECT_EQ(x.slots.above, y.slots.above);
      EXPECT_EQ(x.slots.above_again, y.slots.above_again);
      EXPECT_EQ(x.parent_seen, y.parent_seen);
      for (std::uint32_t number = raw(job.id) * kMaxShards; number < (raw(job.id) + 1) * kMaxShards; ++number)
        EXPECT_TRUE(
            same(fused_.peek<pipeline::SentAboveReg>(number), staged_.peek<pipeline::SentAboveReg>(number)));
      EXPECT_TRUE(same(fused_.peek<pipeline::FinishedReg>(raw(job.id)),
                       staged_.peek<pipeline::FinishedReg>(raw(job.id))));
      for (std::uint32_t number = raw(job.id) * kMaxRanks; number < (raw(job.id) + 1) * kMaxRanks; ++number)
        EXPECT_TRUE(
            same(fused_.peek<pipeline::SequenceReg>(number), staged_.peek<pipeline::SequenceReg>(number)));
      if (by_hash(job.discipline)) continue;
      const bool pool = job.discipline == Discipline::kPool;
      for (std::uint32_t line = job.slots.first; line < job.slots.first + job.slots.count;
           line += pool ? jobs::entry_lines(job.elements) : 1) {
        pool ? expect_same_entry(line) : expect_same_rows(line);
      }
    }
    EXPECT_EQ(a.shared().filling(), b.shared().filling());
    for (std::uint32_t i = 0; i < world_.shared.entries; ++i) {
      expect_same_entry(world_.shared.line_of(i));
      EXPECT_EQ(a.shared().filling(i), b.shared().filling(i));
    }
    EXPECT_EQ(a.server().merged, b.server().merged);
    EXPECT_EQ(a.server().completed, b.server().completed);
    EXPECT_EQ(a.server().incomplete, b.server().incomplete);
  }

  void count(JobCounters& seen) const {
    for (const jobs::NativeJob& job : world_.jobs) {
      const JobCounters& c = staged_.pipeline.counters(job.id);
      for (std::size_t v = 0; v < kVerdictCount; ++v) seen.verdicts[v] += c.verdicts[v];
      for (std::size_t d = 0; d < kDropCount; ++d) seen.drops[d] += c.drops[d];
    }
  }
  // Of jobs that leave out zeros.
  void count_forms(std::uint64_t& sparse, std::uint64_t& runs, std::uint64_t& owed) const {
    sparse += sparse_;
    runs += runs_;
    owed += owed_;
  }
  [[nodiscard]] std::uint64_t flushed() const {
    std::uint64_t n = 0;
    for (const jobs::NativeJob& job : world_.jobs) n += staged_.pipeline.state(job.id).slots.flushed;
    return n;
  }
  [[nodiscard]] std::uint64_t swept() const {
    std::uint64_t n = 0;
    for (const jobs::NativeJob& job : world_.jobs) n += staged_.pipeline.state(job.id).slots.swept;
    return n;
  }
  // Of jobs over several boxes: entries that left when all who are here had come.
  [[nodiscard]] std::uint64_t planned_partials() const {
    std::uint64_t n = 0;
    for (const jobs::NativeJob& job : world_.jobs)
      if (job.planned) n += staged_.pipeline.state(job.id).slots.partials;
    return n;
  }
  // Of jobs of racks.
  void count_above(std::uint64_t& above, std::uint64_t& again, std::uint64_t& results) const {
    for (const jobs::NativeJob& job : world_.jobs) {
      above += staged_.pipeline.state(job.id).slots.above;
      again += staged_.pipeline.state(job.id).slots.above_again;
      if (job.racked != 0) results += staged_.pipeline.counters(job.id).of(Verdict::kComplete);
    }
  }
  [[nodiscard]] std::uint64_t incomplete() const {
    std::uint64_t n = 0;
    for (const jobs::NativeJob& job : world_.jobs) n += staged_.pipeline.state(job.id).slots.incomplete;
    return n;
  }

 private:
  void note_form(const pipeline::Outcome& x) {
    if (x.session) return;
    const Header h = header_of({x.payload, kHeaderBytes});
    sparse_ += h.type == PacketType::kResult && (h.flags & kFlagSparse) != 0 ? 1 : 0;
    runs_ += h.type == PacketType::kZeroRun ? 1 : 0;
  }
  // The results with values that a zero run has finished.
  void take_owed() {
    while (fused_.pipeline.owes()) {
      ASSERT_TRUE(staged_.pipeline.owes());
      Bytes f(kHeaderBytes + std::size_t{4} * kMaxElements);
      Bytes s(f.size());
      const pipeline::Outcome x = fused_.pipeline.owed(f);
      const pipeline::Outcome y = staged_.pipeline.owed(s);
      ASSERT_EQ(difference(x, y), "");
      ASSERT_EQ(x.verdict, Verdict::kComplete);
      ASSERT_TRUE(same_bytes(f, s));
      ++owed_;
      note_form(x);
    }
    ASSERT_FALSE(staged_.pipeline.owes());
  }
  void adopt() {
    fused_.pipeline.adopt(world_.table.get());
    staged_.pipeline.adopt(world_.table.get());
    in_force_ = world_.table;
  }
  void expect_same_rows(std::uint32_t line) {
    for (std::uint32_t row = line * jobs::kLedgerRowsPerLine; row < (line + 1) * jobs::kLedgerRowsPerLine;
         ++row)
      ASSERT_TRUE(same(fused_.peek<pipeline::LedgerReg>(row), staged_.peek<pipeline::LedgerReg>(row)))
          << "ledger row " << row;
  }
  // The other registers of an entry that is free say nothing.
  void expect_same_entry(std::uint32_t line) {
    const pipeline::Head head = fused_.peek<pipeline::HeadReg>(line);
    ASSERT_TRUE(same(head, staged_.peek<pipeline::HeadReg>(line))) << "entry at line " << line;
    if (head.tag == 0) return;
    EXPECT_TRUE(same(fused_.peek<pipeline::OwnerReg>(line), staged_.peek<pipeline::OwnerReg>(line)));
    EXPECT_EQ(fused_.peek<pipeline::ClaimedReg>(line), staged_.peek<pipeline::ClaimedReg>(line));
    EXPECT_EQ(fused_.peek<pipeline::MissingReg>(line), staged_.peek<pipeline::MissingReg>(line));
    EXPECT_EQ(fused_.peek<pipeline::ShapeReg>(line), staged_.peek<pipeline::ShapeReg>(line));
    EXPECT_EQ(fused_.peek<pipeline::ExponentReg>(line), staged_.peek<pipeline::ExponentReg>(line));
    EXPECT_EQ(fused_.peek<pipeline::MarksReg>(line), staged_.peek<pipeline::MarksReg>(line));
    EXPECT_EQ(fused_.peek<pipeline::Sum1Reg>(line), staged_.peek<pipeline::Sum1Reg>(line));
    EXPECT_EQ(fused_.peek<pipeline::Sum2Reg>(line), staged_.peek<pipeline::Sum2Reg>(line));
  }

  RandomWorld world_;
  std::shared_ptr<const jobs::JobTable> in_force_ = world_.table;
  Side<pipeline::Fused> fused_;
  Side<pipeline::Staged> staged_;
  std::uint64_t sparse_ = 0;
  std::uint64_t runs_ = 0;
  std::uint64_t owed_ = 0;
};

// What many runs saw.
struct Coverage {
  JobCounters counters;
  std::uint64_t swept = 0;
  std::uint64_t flushed = 0;
  std::uint64_t incomplete = 0;
  std::uint64_t planned_partials = 0;
  std::uint64_t above = 0;
  std::uint64_t above_again = 0;
  std::uint64_t results_above = 0;
  std::uint64_t sparse_results = 0;
  std::uint64_t runs_told = 0;
  std::uint64_t owed = 0;
};

void run(std::uint64_t seed, int packets, bool mixed, Coverage* coverage = nullptr) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  RandomWorld world = random_world(rng, mixed);
  const auto tables = kernels::usable_kernels();
  const kernels::Kernels& kernels = *tables[rng.below(tables.size())];
  const pipeline::PipelineOptions options{
      .core = static_cast<std::uint8_t>(rng.below(2)), .box = test_box(), .shared = world.shared};
  // Everything from a chunk that is through at once to one that ages between two packets.
  const TimeNs step = mixed ? 10'000ULL << rng.below(11) : kMillisecond;
  Pair pair(std::move(world), options, kernels);
  for (int i = 0; i < packets; ++i) {
    const TimeNs now = kSecond + static_cast<TimeNs>(i) * step;
    ASSERT_NO_FATAL_FAILURE(pair.packet(rng, now));
    if (rng.chance(0.3)) {
      ASSERT_NO_FATAL_FAILURE(pair.sweep(now));
    }
    if (!mixed) continue;
    if (rng.chance(0.005)) pair.change_epoch(rng);
    if (rng.chance(0.002)) pair.leave(rng);
    if (rng.chance(0.02)) pair.change_cap(rng);
    if (i % 64 == 0) pair.expect_same_state();
  }
  pair.expect_same_state();
  if (coverage == nullptr) return;
  pair.count(coverage->counters);
  coverage->swept += pair.swept();
  coverage->flushed += pair.flushed();
  coverage->incomplete += pair.incomplete();
  pair.count_above(coverage->above, coverage->above_again, coverage->results_above);
  coverage->planned_partials += pair.planned_partials();
  pair.count_forms(coverage->sparse_results, coverage->runs_told, coverage->owed);
}

constexpr int kShare = TALLY_SEED_SHARE;  // 1 of so many seeds

// 400 worlds of 400 packets, 160,000 in all, of the discipline pool; and 320 worlds of 800 packets of all
// disciplines. Eight tests each, so that they run side by side.
class FusedEqualsStaged : public testing::TestWithParam<int> {};

TEST_P(FusedEqualsStaged, on_random_packets_of_random_jobs) {
  for (int i = 0; i < 50 / kShare; ++i)
    ASSERT_NO_FATAL_FAILURE(run(static_cast<std::uint64_t>(GetParam() * 50 + i), 400, false));
}
TEST_P(FusedEqualsStaged, with_jobs_of_all_disciplines_in_one_small_region) {
  for (int i = 0; i < 40 / kShare; ++i)
    ASSERT_NO_FATAL_FAILURE(run(static_cast<std::uint64_t>(1000 + GetParam() * 40 + i), 800, true));
}

INSTANTIATE_TEST_SUITE_P(Worlds, FusedEqualsStaged, testing::Range(0, 8));

// A random mix that never finishes a chunk or never repeats one would prove little.
TEST(FusedEqualsStagedCoverage, every_verdict_and_state_drop_occurs) {
  Coverage coverage;
  for (std::uint64_t w = 0; w < 120; ++w) ASSERT_NO_FATAL_FAILURE(run(7000 + w, 400, w % 2 == 0, &coverage));
  const JobCounters& seen = coverage.counters;
  for (const auto v : {Verdict::kAbsorb, Verdict::kComplete, Verdict::kRepeat, Verdict::kRelay,
                       Verdict::kHandOver, Verdict::kBypass, Verdict::kEvict, Verdict::kTell}) {
    EXPECT_GT(seen.of(v), 0u) << name_of(v);
  }
  for (const auto d : {Drop::kSum, Drop::kStale, Drop::kAhead, Drop::kDirect, Drop::kMismatch,
                       Drop::kDuplicate, Drop::kBadSum, Drop::kAsker, Drop::kSlot, Drop::kCookie,
                       Drop::kEpoch, Drop::kSequence, Drop::kReplay, Drop::kRun}) {
    EXPECT_GT(seen.of(d), 0u) << name_of(d);
  }
  EXPECT_GT(coverage.swept, 0u);
  EXPECT_GT(coverage.flushed, 0u);
  EXPECT_GT(coverage.incomplete, 0u);
  EXPECT_GT(coverage.planned_partials, 0u);
  EXPECT_GT(coverage.above, 0u);
  EXPECT_GT(coverage.above_again, 0u);
  EXPECT_GT(coverage.results_above, 0u);
  EXPECT_GT(coverage.sparse_results, 0u);
  EXPECT_GT(coverage.runs_told, 0u);
  EXPECT_GT(coverage.owed, 0u);
}

}  // namespace
}  // namespace tally

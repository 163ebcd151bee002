// No result of a session under `tsi: packet` is ever wrong, and none is missing for ever, within what
// docs/switchml.md promises: random clients and faults, judged by an oracle. And fused = staged for random
// packets of sessions under both rules.

#include "agree.h"
#include "pipeline/session_pool.h"
#include "session_clients.h"
#include "session_core.h"

namespace tally {
namespace {

template <class Exec>
class SessionFaults : public SessionCore<Exec> {
 protected:
  std::uint64_t reduce(std::uint64_t seed, const ClientsCase& c) {
    const auto id = static_cast<std::uint16_t>(1 + seed % 1000);
    jobs::SessionJob job =
        this->publish({.id = id, .world = static_cast<std::uint8_t>(2 + seed % 3), .slots = c.window});
    const auto box = [&](const Bytes& frame, std::uint32_t rank, TimeNs now, const auto& each) {
      this->now_ = now;
      const auto taken = this->take(frame, job.ranks[rank].binding.port);
      for (const auto& [to, reply] : taken.frames) each(to, reply);
      return taken.out.verdict;
    };
    const auto reset = [&] {
      job.epoch = Epoch{raw(job.epoch) + 1};
      this->adopt(this->table_->with(job.id, std::make_shared<const jobs::SessionJob>(job)));
    };
    SessionClients clients(job, c, seed, box, reset);
    EXPECT_TRUE(clients.run(400'000)) << "seed " << seed << ": an operation does not end";
    EXPECT_EQ(this->state(job).occupancy, 0U) << "seed " << seed;
    this->adopt(this->table_->with(job.id, {}));
    this->pipeline_.release(job.id, job.slots, job.elements, job.members,
                            jobs::session_front_lines(job.world));
    this->next_line_ = 3;
    return clients.stale();
  }
};
TYPED_TEST_SUITE(SessionFaults, BothExecutions);

TYPED_TEST(SessionFaults, no_result_is_ever_wrong) {
  std::uint64_t stale = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    stale += this->reduce(seed, {.loss = 0.02 * static_cast<double>(seed % 8)});
  EXPECT_GT(stale, 1000U);
}
TYPED_TEST(SessionFaults, nor_when_operations_are_many_and_short) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed)
    this->reduce(seed, {.operations = 700, .most_chunks = 2, .window = 16, .stale = 0.2});
}
TYPED_TEST(SessionFaults, nor_when_clients_rest_for_long) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    this->reduce(seed, {.operations = 60, .most_chunks = 6, .window = 8, .stale = 0.2, .rests = true});
}
TYPED_TEST(SessionFaults, nor_when_everybody_is_silent_in_the_middle_of_operations) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    this->reduce(seed, {.most_chunks = 12, .loss = 0.1, .stale = 0.1, .silence = 0.02});
}
TYPED_TEST(SessionFaults, nor_when_clients_are_started_again_after_a_reset) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    this->reduce(seed, {.operations = 60,
                        .most_chunks = 6,
                        .window = 8,
                        .stale = 0.2,
                        .rests = true,
                        .run = static_cast<std::uint32_t>(1 + seed % 7)});
}

// The same frames through both: outcome, every byte, every register.
class SessionPair {
 public:
  explicit SessionPair(std::uint64_t seed) : rng_(seed) {
    std::uint32_t line = 1;
    for (std::uint16_t id = 1; id <= 3; ++id) {
      jobs_.push_back(
          make_session({.id = id,
                        .epoch = static_cast<std::uint32_t>(rng_.next() | 1),
                        .world = static_cast<std::uint8_t>(rng_.chance(0.2) ? 20 : rng_.between(1, 3)),
                        .payload = static_cast<std::uint16_t>(128U << rng_.below(4)),
                        .slots = 2,
                        .tsi = rng_.chance(0.5) ? jobs::TsiRule::kPacket : jobs::TsiRule::kOpaque,
                        .home = static_cast<std::uint8_t>(rng_.chance(0.1) ? 1 : 0),
                        .first_line = line}));
      line += jobs_.back().slots.count;
      table_ = table_->with(jobs_.back().id, std::make_shared<const jobs::SessionJob>(jobs_.back()));
    }
    fused_.adopt(table_.get());
    staged_.adopt(table_.get());
  }

  void packet() {
    now_ += rng_.chance(0.02) ? rng_.below(2 * kSecond) : rng_.below(kMillisecond);
    jobs::SessionJob& job = jobs_[rng_.below(jobs_.size())];
    if (rng_.chance(0.05)) ++number_;
    if (rng_.chance(0.01)) number_ = static_cast<std::uint8_t>(rng_.next());
    Bytes frame = session_frame(job,
                                {.rank = static_cast<std::uint32_t>(rng_.below(job.world)),
                                 .slot = static_cast<std::uint32_t>(rng_.below(rng_.chance(0.02) ? 4 : 2)),
                                 .set = static_cast<std::uint32_t>(rng_.below(2)),
                                 .job_number = static_cast<std::uint8_t>(number_ - rng_.below(2)),
                                 .tsi = static_cast<std::uint32_t>(rng_.below(3)),
                                 .value = static_cast<std::int32_t>(rng_.next()),
                                 .exponent0 = static_cast<std::int8_t>(rng_.next()),
                                 .exponent1 = static_cast<std::int8_t>(rng_.next()),
                                 .udp_source = static_cast<std::uint16_t>(rng_.next())},
                                test_box());
    if (rng_.chance(0.03))
      frame[rng_.below(56)] ^= std::byte{static_cast<unsigned char>(1U << rng_.below(8))};
    const PortIndex port{static_cast<std::uint16_t>(rng_.below(3))};
    ReceivedFrame f(frame, port, false);
    ReceivedFrame s(frame, port, false);
    const pipeline::Outcome x = fused_.process(f.frame(), now_);
    const pipeline::Outcome y = staged_.process(s.frame(), now_);
    ASSERT_EQ(difference(x, y), "");
    ASSERT_EQ(f.buffer(), s.buffer());
    for (std::size_t r = 0; r < kMaxRanks; ++r) {
      ASSERT_EQ(fused_.return_paths()[r].udp_port, staged_.return_paths()[r].udp_port);
      ASSERT_EQ(fused_.return_paths()[r].port, staged_.return_paths()[r].port);
    }
  }
  void expect_same_state() {
    for (const jobs::SessionJob& job : jobs_) {
      EXPECT_EQ(fused_.counters(job.id), staged_.counters(job.id));
      EXPECT_EQ(fused_.state(job.id).occupancy, staged_.state(job.id).occupancy);
      EXPECT_EQ(fused_.state(job.id).overflows, staged_.state(job.id).overflows);
      EXPECT_EQ(fused_.state(job.id).last_seen, staged_.state(job.id).last_seen);
      for (std::uint32_t slot = 0; slot < 2; ++slot) {
        for (const std::uint32_t set : {0U, 1U}) {
          const std::uint32_t line = pipeline::session_line(job, slot, set);
          expect_same<pipeline::HeadReg>(line);
          expect_same<pipeline::OwnerReg>(line);
          expect_same<pipeline::ExponentReg>(line);
          expect_same<pipeline::Exponent1Reg>(line);
        }
      }
    }
  }
  void count(JobCounters& seen) const {
    for (std::uint16_t id = 0; id <= 3; ++id) {
      const JobCounters& c = staged_.counters(JobId{id});
      for (std::size_t v = 0; v < kVerdictCount; ++v) seen.verdicts[v] += c.verdicts[v];
      for (std::size_t d = 0; d < kDropCount; ++d) seen.drops[d] += c.drops[d];
    }
  }

 private:
  template <class R>
  void expect_same(std::uint32_t index) {
    const auto a = fused_.execution().peek<R>(index);
    const auto b = staged_.execution().peek<R>(index);
    EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0) << R::kName << " " << index;
  }

  static constexpr std::uint32_t kLines = 512;
  Rng rng_;
  std::uint8_t number_ = 0;
  TimeNs now_ = 10 * kSecond;
  std::vector<jobs::SessionJob> jobs_;
  std::shared_ptr<const jobs::JobTable> table_ = std::make_shared<jobs::JobTable>();
  SlotMemory memory_{kLines};
  SlotMemory other_{kLines};
  pipeline::Pipeline<pipeline::Fused> fused_{
      {.core = 0, .box = test_box()}, memory_.region(), kernels::best_kernels()};
  pipeline::Pipeline<pipeline::Staged> staged_{
      {.core = 0, .box = test_box()}, other_.region(), kernels::best_kernels()};
};

TEST(SessionFusedEqualsStaged, on_random_packets_of_both_rules) {
  JobCounters seen;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SessionPair pair(seed);
    for (int i = 0; i < 1500; ++i) ASSERT_NO_FATAL_FAILURE(pair.packet());
    ASSERT_NO_FATAL_FAILURE(pair.expect_same_state());
    pair.count(seen);
  }
  for (const auto v : {Verdict::kAbsorb, Verdict::kComplete, Verdict::kRepeat, Verdict::kHandOver})
    EXPECT_GT(seen.of(v), 100U) << name_of(v);
  for (const auto d :
       {Drop::kStale, Drop::kForeign, Drop::kDuplicate, Drop::kSlot, Drop::kMember, Drop::kType})
    EXPECT_GT(seen.of(d), 0U) << name_of(d);
}

}  // namespace
}  // namespace tally

// Quotas of rate (docs/configuration.md, packet_rate and bad_packet_rate): what is beyond them is dropped by
// name before it touches anything, and nobody else's packets are.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "frames.h"
#include "jobs.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/staged.h"
#include "session_frames.h"

namespace tally {
namespace {

using jobs::Budget;

template <class Exec>
class Rates : public testing::Test {
 protected:
  Rates()
      : memory_(kLines),
        pipeline_({.core = 0, .box = test_box()}, memory_.region(), kernels::best_kernels()) {}

  void run(const jobs::NativeJob& job) {
    table_ = table_->with(job.id, std::make_shared<const jobs::NativeJob>(job));
    pipeline_.adopt(table_.get());
  }
  static jobs::NativeJob job_with(std::optional<Budget> packets, std::optional<Budget> bad,
                                  JobSpec spec = {}) {
    jobs::NativeJob job = make_job(spec);
    job.rates = {packets, bad};
    job.limits_packets = packets.has_value();
    return job;
  }

  pipeline::Outcome take(const Bytes& datagram, const jobs::NativeJob& job, std::uint16_t rank, TimeNs now) {
    const jobs::Binding& from = job.ranks[rank].binding;
    frame_.emplace(wrap(datagram, from, test_box(), kBasePort), from.port, false, 4 * kMaxElements);
    return pipeline_.process(frame_->frame(), now);
  }
  static Bytes contribution(const jobs::NativeJob& job, std::uint16_t rank, std::uint32_t chunk) {
    return make_contribution(
        job, {.rank = Rank{rank}, .chunk = Chunk{chunk}, .values = std::vector<std::int32_t>(16, 3)});
  }
  // With a value changed on the way: its sums are wrong.
  static Bytes damaged(const jobs::NativeJob& job, std::uint16_t rank, std::uint32_t chunk) {
    Bytes datagram = contribution(job, rank, chunk);
    datagram.back() ^= std::byte{1};
    return datagram;
  }
  // How many of so many damaged packets were looked at.
  int looked_at(const jobs::NativeJob& job, std::uint16_t rank, int packets, TimeNs now) {
    int count = 0;
    for (int i = 0; i < packets; ++i) {
      const pipeline::Outcome out = take(damaged(job, rank, 0), job, rank, now);
      EXPECT_EQ(out.verdict, Verdict::kDrop);
      EXPECT_EQ(out.drop == Drop::kSum, out.drop != Drop::kBadPacketRate) << name_of(out.drop);
      count += out.drop == Drop::kSum ? 1 : 0;
    }
    return count;
  }
  [[nodiscard]] std::uint64_t drops(const jobs::NativeJob& job, Drop why) const {
    return pipeline_.counters(job.id).of(why);
  }

  static constexpr std::uint32_t kLines = 1 << 12;
  SlotMemory memory_;
  pipeline::Pipeline<Exec> pipeline_;
  std::shared_ptr<const jobs::JobTable> table_ = std::make_shared<const jobs::JobTable>();
  std::optional<ReceivedFrame> frame_;
};

using Executions = testing::Types<pipeline::Fused, pipeline::Staged>;
TYPED_TEST_SUITE(Rates, Executions);

TYPED_TEST(Rates, WhatIsBeyondPacketRateTouchesNothing) {
  const jobs::NativeJob job = this->job_with(Budget{.per_second = 1'000, .burst = 4}, {});
  this->run(job);
  for (std::uint32_t chunk = 0; chunk < 4; ++chunk)
    EXPECT_EQ(this->take(this->contribution(job, 0, chunk), job, 0, kSecond).verdict, Verdict::kAbsorb);
  const pipeline::Outcome out = this->take(this->contribution(job, 0, 4), job, 0, kSecond);
  EXPECT_EQ(out.verdict, Verdict::kDrop);
  EXPECT_EQ(out.drop, Drop::kPacketRate);
  EXPECT_EQ(this->pipeline_.state(job.id).occupancy, 4U);
  EXPECT_EQ(this->drops(job, Drop::kPacketRate), 1U);
  // It is no copy of anything: the worker sends it again, and it is taken.
  const TimeNs later = kSecond + kMillisecond;
  EXPECT_EQ(this->take(this->contribution(job, 0, 4), job, 0, later).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->take(this->contribution(job, 0, 5), job, 0, later).drop, Drop::kPacketRate);
}

TYPED_TEST(Rates, PacketRateIsOfAllMembersAndEveryPacketThatIsAnswered) {
  const jobs::NativeJob job = this->job_with(Budget{.per_second = 1'000, .burst = 3}, {});
  this->run(job);
  EXPECT_EQ(this->take(this->contribution(job, 0, 0), job, 0, 0).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->take(this->contribution(job, 1, 0), job, 1, 0).verdict, Verdict::kComplete);
  EXPECT_EQ(this->take(make_query(job, Rank{0}, Chunk{0}), job, 0, 0).verdict, Verdict::kRepeat);
  EXPECT_EQ(this->take(make_query(job, Rank{0}, Chunk{0}), job, 0, 0).drop, Drop::kPacketRate);
  EXPECT_EQ(this->take(this->contribution(job, 1, 1), job, 1, 0).drop, Drop::kPacketRate);
}

TYPED_TEST(Rates, AStrangerSpendsNothingOfTheJobsPacketRate) {
  const jobs::NativeJob job = this->job_with(Budget{.per_second = 1'000, .burst = 1}, Budget{100, 1});
  this->run(job);
  jobs::NativeJob forged = job;
  forged.ranks[0].cookie = Cookie{raw(job.ranks[0].cookie) + 1};
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(this->take(this->contribution(forged, 0, 0), job, 0, 0).drop, Drop::kCookie);
  EXPECT_EQ(this->take(this->contribution(job, 0, 0), job, 0, 0).verdict, Verdict::kAbsorb);
}

TYPED_TEST(Rates, AnotherJobLosesNothing) {
  const jobs::NativeJob greedy = this->job_with(Budget{.per_second = 1'000, .burst = 1}, Budget{100, 1});
  const jobs::NativeJob other = this->job_with(Budget{.per_second = 1'000, .burst = 1}, Budget{100, 1},
                                               {.id = 2, .first_line = 1 << 10});
  this->run(greedy);
  this->run(other);
  for (std::uint32_t i = 0; i < 50; ++i) this->take(this->contribution(greedy, 0, i), greedy, 0, 0);
  for (std::uint32_t i = 0; i < 50; ++i) this->take(this->damaged(greedy, 0, i), greedy, 0, 0);
  EXPECT_EQ(this->take(this->contribution(other, 0, 0), other, 0, 0).verdict, Verdict::kAbsorb);
}

TYPED_TEST(Rates, AWorkerWithoutBadPacketsLeftIsNotLookedAt) {
  const jobs::NativeJob job = this->job_with({}, Budget{.per_second = 1'000, .burst = 8});
  this->run(job);
  EXPECT_EQ(this->looked_at(job, 0, 100, kSecond), 8);
  EXPECT_EQ(this->drops(job, Drop::kBadPacketRate), 92U);
  // Neither is what is good, of any type; the other rank has its own budget.
  EXPECT_EQ(this->take(this->contribution(job, 0, 0), job, 0, kSecond).drop, Drop::kBadPacketRate);
  EXPECT_EQ(this->take(make_query(job, Rank{0}, Chunk{0}), job, 0, kSecond).drop, Drop::kBadPacketRate);
  EXPECT_EQ(this->take(this->contribution(job, 1, 0), job, 1, kSecond).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->looked_at(job, 1, 100, kSecond), 8);
  // A millisecond has room for one.
  const TimeNs later = kSecond + kMillisecond;
  EXPECT_EQ(this->take(this->contribution(job, 0, 0), job, 0, later).verdict, Verdict::kComplete);
  EXPECT_EQ(this->take(this->contribution(job, 0, 1), job, 0, later).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->looked_at(job, 0, 100, later), 1);
  EXPECT_EQ(this->take(this->contribution(job, 0, 2), job, 0, later).drop, Drop::kBadPacketRate);
}

// Fields that no correct client sends, behind the cookie that only the worker knows.
TYPED_TEST(Rates, WrongFieldsAreBadPacketsAndCopiesAreNone) {
  const jobs::NativeJob job = this->job_with({}, Budget{.per_second = 1'000, .burst = 2});
  this->run(job);
  const Bytes good = this->contribution(job, 0, 0);
  EXPECT_EQ(this->take(good, job, 0, 0).verdict, Verdict::kAbsorb);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(this->take(good, job, 0, 0).drop, Drop::kReplay);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(this->take(sent_again(job, good), job, 0, 0).drop, Drop::kDuplicate);
  const auto with_contributors = [&](std::uint64_t contributors) {
    Bytes datagram = this->contribution(job, 0, 1);
    Header h = header_of(datagram);
    h.contributors = Be{contributors};
    set_header(datagram, h);
    return datagram;
  };
  EXPECT_EQ(this->take(with_contributors(3), job, 0, 0).drop, Drop::kContributors);
  EXPECT_EQ(this->take(with_contributors(2), job, 0, 0).drop, Drop::kContributors);
  EXPECT_EQ(this->take(this->contribution(job, 0, 1), job, 0, 0).drop, Drop::kBadPacketRate);
}

// What is damaged so that its header does not tell who sent it costs nobody anything.
TYPED_TEST(Rates, WhatAnybodyCanSendAccusesNobody) {
  const jobs::NativeJob job = this->job_with({}, Budget{.per_second = 1'000, .burst = 1});
  this->run(job);
  for (int i = 0; i < 10; ++i) {
    Bytes datagram = this->contribution(job, 0, 0);
    datagram[offsetof(Header, check)] ^= std::byte{1};
    EXPECT_EQ(this->take(datagram, job, 0, 0).drop, Drop::kCheck);
    Header h = header_of(this->contribution(job, 0, 0));
    h.epoch = Be{h.epoch.host() + 1};
    datagram = this->contribution(job, 0, 0);
    set_header(datagram, h);
    EXPECT_EQ(this->take(datagram, job, 0, 0).drop, Drop::kEpoch);
  }
  EXPECT_EQ(this->take(this->contribution(job, 0, 0), job, 0, 0).verdict, Verdict::kAbsorb);
}

TYPED_TEST(Rates, WithoutQuotasEverythingIsLookedAt) {
  const jobs::NativeJob job = this->job_with({}, {});
  this->run(job);
  EXPECT_EQ(this->looked_at(job, 0, 2'000, 0), 2'000);
  EXPECT_EQ(this->take(this->contribution(job, 0, 0), job, 0, 0).verdict, Verdict::kAbsorb);
}

// A quota that is changed holds for the next packet; who was silenced by one that is gone is heard.
TYPED_TEST(Rates, ChangeWithTheRow) {
  jobs::NativeJob job = this->job_with({}, Budget{.per_second = 100, .burst = 1});
  this->run(job);
  EXPECT_EQ(this->looked_at(job, 0, 10, 0), 1);
  job.rates.bad_packets.reset();
  this->run(job);
  EXPECT_EQ(this->looked_at(job, 0, 10, 0), 10);
  job.rates.packets = Budget{.per_second = 100, .burst = 1};
  job.limits_packets = true;
  this->run(job);
  EXPECT_EQ(this->take(this->contribution(job, 0, 0), job, 0, 0).verdict, Verdict::kAbsorb);
  EXPECT_EQ(this->take(this->contribution(job, 0, 1), job, 0, 0).drop, Drop::kPacketRate);
}

// A session's members are known by their addresses, which anybody can write: they have a packet_rate alone.
TYPED_TEST(Rates, OfASessionTheSame) {
  jobs::SessionJob job = make_session({});
  job.rates.packets = Budget{.per_second = 1'000, .burst = 2};
  job.limits_packets = true;
  this->table_ = this->table_->with(job.id, std::make_shared<const jobs::SessionJob>(job));
  this->pipeline_.adopt(this->table_.get());
  const auto take = [&](const SessionSent& sent) {
    this->frame_.emplace(session_frame(job, sent, test_box()), job.ranks[sent.rank].binding.port, false,
                         4 * kMaxElements);
    return this->pipeline_.process(this->frame_->frame(), 0);
  };
  EXPECT_EQ(take({.rank = 0}).verdict, Verdict::kAbsorb);
  EXPECT_EQ(take({.rank = 1}).verdict, Verdict::kComplete);
  EXPECT_EQ(take({.rank = 1}).drop, Drop::kPacketRate);
  EXPECT_EQ(this->pipeline_.counters(job.id).of(Drop::kPacketRate), 1U);
}

}  // namespace
}  // namespace tally

#pragma once
// A switch core and its sessions (dialect switchml), for tests that look at one rule each. What comes out of
// it is compared as whole frames.

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "jobs.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/staged.h"
#include "session_frames.h"

namespace tally {

template <class Exec>
class SessionCore : public testing::Test {
 protected:
  static constexpr std::uint32_t kLines = 8192;

  jobs::SessionJob publish(SessionSpec spec) {
    spec.epoch += spec.id;
    spec.first_line = next_line_;
    const jobs::SessionJob job = make_session(spec);
    next_line_ += job.slots.count;
    adopt(table_->with(job.id, std::make_shared<const jobs::SessionJob>(job)));
    return job;
  }
  void adopt(std::shared_ptr<const jobs::JobTable> next) {
    pipeline_.adopt(next.get());
    table_ = std::move(next);
  }

  struct Taken {
    pipeline::Outcome out;
    std::vector<std::pair<std::uint32_t, Bytes>> frames;  // rank, the frame that leaves for it
  };
  Taken take(const Bytes& frame, PortIndex port = {}) {
    ReceivedFrame received(frame, port, false);
    Taken taken{pipeline_.process(received.frame(), now_), {}};
    const pipeline::Outcome& out = taken.out;
    if (out.verdict != Verdict::kComplete && out.verdict != Verdict::kRepeat) return taken;
    for (std::uint64_t left = out.ranks; left != 0; left &= left - 1) {
      const auto rank = static_cast<std::uint32_t>(std::countr_zero(left));
      taken.frames.emplace_back(rank, outcome_frame(out, rank, pipeline_.return_paths()[rank], test_box()));
    }
    return taken;
  }
  Taken send(const jobs::SessionJob& job, const SessionSent& sent) {
    return take(session_frame(job, sent, test_box()), job.ranks[sent.rank].binding.port);
  }

  // What `sent` leads to, by name; 'drop duplicate' and the like.
  std::string says(const jobs::SessionJob& job, const SessionSent& sent) {
    const pipeline::Outcome out = send(job, sent).out;
    if (out.verdict != Verdict::kDrop) return std::string(name_of(out.verdict));
    return "drop " + std::string(name_of(out.drop));
  }
  // The sums of these first elements, as every receiver of `sent` must get them.
  void expect_result(const jobs::SessionJob& job, const SessionSent& sent, Verdict verdict,
                     std::vector<std::int32_t> of) {
    const Taken taken = send(job, sent);
    ASSERT_EQ(taken.out.verdict, verdict) << name_of(taken.out.verdict) << " " << name_of(taken.out.drop);
    EXPECT_EQ(taken.out.ranks, verdict == Verdict::kComplete ? job.members : bit_of(rank_of(sent)));
    for (const auto& [rank, frame] : taken.frames)
      EXPECT_EQ(frame, session_reply(job, sent, test_box(), rank, 4000, 0, 0, sums(job, of)))
          << "rank " << rank;
  }
  // Of one chunk, another value for each rank, operation and tsi.
  static SessionSent chunk(std::uint32_t rank, std::uint8_t job_number, std::uint32_t tsi,
                           std::uint32_t slot = 0) {
    return {.rank = rank,
            .slot = slot,
            .job_number = job_number,
            .tsi = tsi,
            .value = static_cast<std::int32_t>(rank * 100'000 + job_number * 1000U + tsi)};
  }
  void reduce(const jobs::SessionJob& job, std::uint8_t job_number, std::uint32_t tsi,
              std::uint32_t slot = 0) {
    std::vector<std::int32_t> of;
    for (std::uint32_t r = 0; r < job.world; ++r) of.push_back(chunk(r, job_number, tsi, slot).value);
    for (std::uint32_t r = 0; r + 1U < job.world; ++r)
      EXPECT_EQ(says(job, chunk(r, job_number, tsi, slot)), "absorb");
    expect_result(job, chunk(job.world - 1U, job_number, tsi, slot), Verdict::kComplete, of);
  }
  static std::vector<std::int32_t> sums(const jobs::SessionJob& job, const std::vector<std::int32_t>& of) {
    std::vector<std::int32_t> values(job.elements);
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      std::uint32_t sum = 0;
      for (const std::int32_t v : of) sum += static_cast<std::uint32_t>(v) + i;
      values[i] = static_cast<std::int32_t>(sum);
    }
    return values;
  }
  static Rank rank_of(const SessionSent& sent) { return Rank{static_cast<std::uint16_t>(sent.rank)}; }
  void wait(TimeNs time) { now_ += time; }
  const pipeline::JobState& state(const jobs::SessionJob& job) { return pipeline_.state(job.id); }

  TimeNs now_ = 100 * kSecond;
  SlotMemory memory_{kLines};
  std::uint32_t next_line_ = 3;
  std::shared_ptr<const jobs::JobTable> table_ = std::make_shared<jobs::JobTable>();
  pipeline::Pipeline<Exec> pipeline_{
      {.core = 0, .box = test_box()}, memory_.region(), kernels::best_kernels()};
};

using BothExecutions = testing::Types<pipeline::Fused, pipeline::Staged>;

}  // namespace tally

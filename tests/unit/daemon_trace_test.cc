// The trace of a box: whom it lends what, when it ends, and what is said of a frame.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/tracer.h"
#include "daemon_plane.h"

namespace tally::daemon_test {
namespace {

using testing::HasSubstr;

struct DaemonTrace : testing::Test {
  DaemonTrace() {
    for (const std::uint16_t id : {std::uint16_t{1}, std::uint16_t{2}}) {
      members::JobStatus job;
      job.id = JobId{id};
      job.name = id == 1 ? "resnet" : "bert";
      jobs.look(job);
    }
  }

  static api::TraceWish wish() { return {.frames = 100, .seconds = 60}; }
  [[nodiscard]] std::string refused(const api::TraceWish& wish) {
    const auto begun = tracer.start(wish, now, 0);
    return begun ? "" : begun.error().text();
  }
  void come(std::size_t frames, io::TracedFrame frame = {}) {
    for (std::size_t i = 0; i < frames; ++i) plane.traced.push_back(frame);
  }

  FakePlane plane;
  Journal journal;
  daemon::JobWatch jobs{journal.sink(), {"w0", "w1"}};
  daemon::Tracer tracer{plane, jobs};
  TimeNs now = 1'000 * kSecond;
};

TEST_F(DaemonTrace, AWishBecomesAFilter) {
  api::TraceWish all = wish();
  all.job = "bert";
  all.port = "w1";
  all.way = "in";
  all.drop = "stale";
  all.every = 7;
  ASSERT_EQ(refused(all), "");
  const io::TraceFilter& f = plane.traced_filter;
  EXPECT_EQ(f.job, JobId{2});
  EXPECT_EQ(f.port, PortIndex{1});
  EXPECT_EQ(f.way, io::TraceWay::kIn);
  EXPECT_EQ(f.drop, Drop::kStale);
  EXPECT_FALSE(f.any_drop);
  EXPECT_EQ(f.every, 7U);
}

TEST_F(DaemonTrace, NamesThatThereAreNotAreRefusedAndNothingBegins) {
  api::TraceWish one = wish();
  one.port = "w9";
  EXPECT_THAT(refused(one), HasSubstr("there is no port 'w9'"));
  one = wish();
  one.drop = "stael";
  EXPECT_THAT(refused(one), HasSubstr("did you mean stale?"));
  one = wish();
  one.job = "x";
  EXPECT_THAT(refused(one), HasSubstr("there is no job 'x'"));
  one = wish();
  one.way = "out";
  one.drop = "any";
  EXPECT_THAT(refused(one), HasSubstr("nothing that leaves is dropped"));
  EXPECT_FALSE(plane.tracing);
  EXPECT_FALSE(tracer.status().running);
}

TEST_F(DaemonTrace, ThereIsOneAtATime) {
  ASSERT_EQ(refused(wish()), "");
  EXPECT_THAT(refused(wish()), HasSubstr("a trace runs already"));
  tracer.stop();
  EXPECT_FALSE(plane.tracing);
  EXPECT_EQ(tracer.status().ended, "it was stopped");
  EXPECT_EQ(refused(wish()), "");
}

TEST_F(DaemonTrace, EndsWithItsFramesItsTimeAndItsReader) {
  ASSERT_EQ(refused(wish()), "");
  come(200);
  EXPECT_EQ(tracer.read(now).frames.size(), 64U);
  EXPECT_TRUE(plane.tracing);
  const api::TraceBatch last = tracer.read(now);
  EXPECT_EQ(last.frames.size(), 36U);
  EXPECT_FALSE(last.status.running);
  EXPECT_FALSE(plane.tracing);
  EXPECT_TRUE(tracer.read(now).frames.empty()) << "no more than was wanted";
  plane.traced.clear();

  ASSERT_EQ(refused(wish()), "");
  for (int second = 0; second < 60; ++second) {
    EXPECT_TRUE(tracer.read(now += kSecond).status.running || second == 59);
    tracer.turn(now);
  }
  EXPECT_EQ(tracer.status().ended, "its time is over");
  come(3);
  EXPECT_EQ(tracer.read(now).frames.size(), 3U) << "what was taken in time is there";

  ASSERT_EQ(refused(wish()), "");
  tracer.turn(now += 9 * kSecond);
  EXPECT_TRUE(plane.tracing);
  tracer.turn(now += 2 * kSecond);
  EXPECT_FALSE(plane.tracing);
  EXPECT_EQ(tracer.status().ended, "nobody reads it");
}

TEST_F(DaemonTrace, AFrameSaysWhatBecameOfIt) {
  ASSERT_TRUE(tracer.start(wish(), now, 5));
  io::TracedFrame frame{.time = 7, .length = 1'000, .captured = 3, .port = 1, .job = 1, .core = 2};
  frame.bytes = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  frame.verdict = Verdict::kAbsorb;
  come(1, frame);
  frame.verdict = Verdict::kDrop;
  frame.drop = Drop::kStale;
  frame.job = 9;
  come(1, frame);
  frame.verdict = Verdict::kHandOver;
  frame.owner = 1;
  frame.job = 0;
  come(1, frame);
  frame.out = true;
  come(1, frame);
  plane.traced_lost = 4;
  const api::TraceBatch batch = tracer.read(now);
  ASSERT_EQ(batch.frames.size(), 4U);
  EXPECT_EQ(batch.status.lost, 4U);
  const api::TraceFrame& first = batch.frames[0];
  EXPECT_EQ(first.unix_ns, 12U);
  EXPECT_EQ(first.port, "w1");
  EXPECT_FALSE(first.out);
  EXPECT_EQ(first.length, 1'000U);
  EXPECT_EQ(first.comment, "core 2: absorb, job resnet");
  EXPECT_EQ(first.bytes.size(), 3U) << "as much as was captured";
  EXPECT_THAT(batch.frames[1].comment, testing::StartsWith("core 2: dropped, stale, job 9. "));
  EXPECT_EQ(batch.frames[2].comment, "core 2: hand_over to core 1");
  EXPECT_EQ(batch.frames[3].comment, "core 2: sent");
  EXPECT_TRUE(batch.frames[3].out);
}

}  // namespace
}  // namespace tally::daemon_test

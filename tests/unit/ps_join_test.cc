// The server's membership: it joins each of its jobs, for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps_support.h"

namespace tally::psbed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

BoxJob job_b() {
  BoxJob b;
  b.name = "b";
  b.server = 2;
  b.id = 8;
  b.epoch = 200;
  b.generation = 0xBBBB;
  b.world = 2;
  return b;
}

TEST(PsJoin, SaysWhoItIsAndAsksHowManyTheyAre) {
  Server server({BoxJob{}, job_b()});
  const auto joins = server.drain();
  ASSERT_EQ(joins.size(), 2U);
  EXPECT_EQ(joins[0].header().rank.host(), 0xFF00);
  EXPECT_EQ(joins[1].header().rank.host(), 0xFF02);
  for (const Out& out : joins) {
    const Header h = out.header();
    EXPECT_EQ(out.port, kBasePort);
    EXPECT_EQ(h.job.host() | h.epoch.host() | h.cookie.host(), 0U);
    const JoinPayload p = join_payload(out.bytes);
    EXPECT_EQ(p.instance.host(), 77U);
    EXPECT_EQ(p.attempt.host(), 1U);
    EXPECT_EQ(p.world.host(), 0U);
    EXPECT_EQ(p.elements.host(), 32U);
    EXPECT_EQ(p.lowest.host() | p.next.host(), 0U);
    EXPECT_EQ(p.last, GenerationRecord{});
    EXPECT_EQ(p.name_bytes, 1U);
  }
  EXPECT_NE(join_payload(joins[0].bytes).nonce, join_payload(joins[1].bytes).nonce);
}

TEST(PsJoin, RepeatsItselfUntilTheJobRuns) {
  const BoxJob a;
  Server server({a});
  std::vector<TimeNs> at;
  const TimeNs start = server.now;
  std::uint64_t nonce = 0;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const JoinPayload p = join_payload(server.one());
    EXPECT_EQ(p.attempt.host(), i + 1U);
    EXPECT_NE(p.nonce.host(), nonce);
    nonce = p.nonce.host();
    at.push_back((server.now - start) / kMillisecond);
    server.hear(a.joined(JoinStatus::kForming, nonce));
    EXPECT_EQ(server.engine->member(0).missing(), 0b111U);
    server.now = server.engine->deadline();
  }
  EXPECT_THAT(at, ElementsAre(0, 100, 300, 700, 1500, 2500));
  server.hear(a.joined(JoinStatus::kRunning, nonce));  // unasked, with the same nonce
  EXPECT_FALSE(server.engine->member(0).joining());
  EXPECT_EQ(server.engine->member(0).membership()->world, 3U);
  EXPECT_THAT(server.events(), ElementsAre("runs with 3 workers, 32 elements, span 32"));
  server.now += kSecond / 2;
  server.none();
}

TEST(PsJoin, BelievesOnlyTheNewestNonceAndPlausibleValues) {
  BoxJob a;
  Server server({a});
  const std::uint64_t first = join_payload(server.one()).nonce.host();
  server.now = server.engine->deadline();
  const std::uint64_t newest = join_payload(server.one()).nonce.host();
  server.expect_refused(a.joined(JoinStatus::kRunning, first), Refused::kNonce);
  BoxJob wrong = a;
  wrong.discipline = Discipline::kPool;
  server.expect_refused(wrong.joined(JoinStatus::kRunning, newest), Refused::kJoined);
  wrong = a;
  wrong.elements = 48;  // more than wished for
  server.expect_refused(wrong.joined(JoinStatus::kRunning, newest), Refused::kJoined);
  wrong = a;
  wrong.world = 65;
  server.expect_refused(wrong.joined(JoinStatus::kRunning, newest), Refused::kJoined);
  server.hear(a.joined(JoinStatus::kRunning, newest));
  EXPECT_FALSE(server.engine->member(0).joining());
  server.expect_refused(a.joined(JoinStatus::kRunning, newest), Refused::kNonce);
}

TEST(PsJoin, RefusedItAsksAgainEachSecondAndSaysSoOnce) {
  const BoxJob a;
  Server server({a});
  for (int i = 0; i < 5; ++i) {
    const JoinPayload p = join_payload(server.one());
    server.hear(a.joined(JoinStatus::kRefused, p.nonce.host(), i < 4 ? "no such job" : "wrong\ntoken"));
    server.now += kSecond - kMillisecond;
    server.none();
    server.now += kMillisecond;
  }
  EXPECT_EQ(server.counted().refusals, 5U);
  EXPECT_THAT(server.events(), ElementsAre(HasSubstr("no such job"), HasSubstr("wrong token")));
  server.join(a);
  EXPECT_FALSE(server.engine->member(0).joining());
}

TEST(PsJoin, HeartbeatsAndGivesUpASilentBoxAfterALease) {
  const BoxJob a;
  Server server({a});
  server.join(a);
  const TimeNs joined = server.now;
  std::vector<TimeNs> beats;
  TimeNs last_echo = joined;
  while (!server.engine->member(0).joining()) {
    server.now = server.engine->deadline();
    const std::uint64_t before = server.counted().heartbeats;
    (void)server.drain();
    if (server.counted().heartbeats == before) continue;
    beats.push_back((server.now - joined) / kMillisecond);
    if (beats.size() > 2) continue;
    server.hear(a.echo());
    last_echo = server.now;
  }
  EXPECT_EQ(beats.size(), 11U);
  EXPECT_EQ(beats[0], 1000U);
  EXPECT_EQ(server.now, last_echo + 10 * kSecond);
  EXPECT_EQ(server.counted().heartbeat_echoes, 2U);
  EXPECT_EQ(server.counted().silences, 1U);
  EXPECT_THAT(server.events().back(), HasSubstr("not answered for 10000 ms"));
}

// Anybody may forge a REJECT. It costs a JOIN, and no sum.
TEST(PsJoin, CalledBackItSaysWhatItWasInAndGoesOnSumming) {
  const BoxJob a;
  Server server({a});
  server.join(a);
  server.hear(a.contribution(0, Chunk{5}));
  BoxJob other = a;
  other.epoch = 99;
  server.expect_refused(other.reject(RejectReason::kEpoch), Refused::kEpoch);
  server.hear(a.reject(RejectReason::kEpoch));
  server.now += 100 * kMicrosecond;
  server.hear(a.partial(0b110, Chunk{5}));
  server.now = kSecond + 100 * kMillisecond;  // never more than one JOIN in 100 ms
  const auto out = server.drain();
  ASSERT_EQ(out.size(), 3U);
  const JoinPayload p = join_payload(out[0].bytes);
  EXPECT_EQ(p.last.generation.host(), a.generation);
  EXPECT_EQ(p.last.largest_window.host(), 16U);
  EXPECT_EQ(p.last.elements.host(), 32U);
  a.expect_result(out[1].bytes, 0b111, Chunk{5});
  server.hear(a.joined(JoinStatus::kRunning, p.nonce.host()));
  EXPECT_EQ(server.counted().epochs, 1U) << "the same one";
  server.hear(a.contribution(1, Chunk{5}));
  a.expect_result(server.one(), 0b010, Chunk{5});
}

// A sum that was kept would be taken for that of the same number 2^32 chunks later.
TEST(PsJoin, ANewEpochForgetsEverySum) {
  BoxJob a;
  Server server({a});
  server.join(a);
  server.hear(a.partial(0b111, Chunk{5}));
  server.hear(a.contribution(0, Chunk{6}));
  (void)server.drain();
  server.hear(a.reject(RejectReason::kEpoch));
  server.now += 200 * kMillisecond;
  a.epoch = 101;
  server.join(a);
  EXPECT_EQ(server.counted().epochs, 2U);
  EXPECT_EQ(server.counted().generations, 1U);
  EXPECT_EQ(server.engine->memory().incomplete, 0U);
  EXPECT_EQ(server.engine->memory().complete, 0U);
  (void)server.drain();
  server.hear(a.contribution(2, Chunk{5}));
  server.hear(a.partial(0b110, Chunk{6}));
  server.none();
  EXPECT_EQ(server.engine->memory().incomplete, 2U);
  server.hear(a.partial(0b011, Chunk{5}));
  a.expect_result(server.drain().at(0).bytes, 0b111, Chunk{5});
}

TEST(PsJoin, ANewGenerationForgetsEverything) {
  BoxJob a;
  Server server({a});
  server.join(a);
  server.hear(a.partial(0b111, Chunk{5}));
  server.hear(a.contribution(0, Chunk{6}));
  (void)server.drain();
  server.hear(a.reject(RejectReason::kEpoch));
  server.now += 200 * kMillisecond;
  a.epoch = 101;
  a.generation ^= 1;
  a.world = 2;
  server.join(a);
  EXPECT_EQ(server.counted().generations, 2U);
  EXPECT_EQ(server.engine->memory().incomplete + server.engine->memory().complete, 0U);
  (void)server.drain();
  server.hear(a.contribution(0, Chunk{5}));
  server.hear(a.contribution(1, Chunk{5}));
  a.expect_result(server.drain().at(0).bytes, 0b11, Chunk{5});
}

TEST(PsJoin, AnAbortEndsTheJobAndItWaitsForTheNext) {
  BoxJob a;
  Server server({a});
  server.join(a);
  server.hear(a.partial(0b111, Chunk{5}));
  BoxJob forged = a;
  forged.epoch = 99;
  server.hear(forged.abort("no"));
  EXPECT_FALSE(server.engine->member(0).joining());
  server.hear(a.abort("rank 1: tired"));
  EXPECT_EQ(server.engine->memory().complete, 0U);
  EXPECT_FALSE(server.engine->member(0).membership());
  server.now += kSecond;
  const Bytes join = server.one();  // and no RESULT of what has ended
  EXPECT_EQ(join_payload(join).last, GenerationRecord{});
  EXPECT_THAT(server.events(), ElementsAre(testing::_, "was aborted: rank 1: tired"));
  EXPECT_EQ(server.counted().overtaken, 2U) << "a RESULT and its FLUSH";
  server.expect_refused(a.contribution(0, Chunk{6}), Refused::kState);
}

// Jobs find each other's ids after a restart of the box.
TEST(PsJoin, JobsMayChangeTheirIds) {
  BoxJob a;
  BoxJob b = job_b();
  Server server({a, b});
  const auto joins = server.drain();
  server.hear(a.joined(JoinStatus::kRunning, join_payload(joins[0].bytes).nonce.host()));
  server.hear(b.joined(JoinStatus::kRunning, join_payload(joins[1].bytes).nonce.host()));
  server.hear(a.partial(0b111, Chunk{1}));
  server.hear(b.partial(0b11, Chunk{1}));
  ASSERT_EQ(server.drain().size(), 4U);
  const BoxJob old_a = a;
  const BoxJob old_b = b;
  a.id = old_b.id, a.epoch = 300;
  b.id = old_a.id, b.epoch = 301;
  server.hear(old_a.reject(RejectReason::kEpoch));
  server.now += kSecond;
  server.join(a);
  server.hear(old_b.reject(RejectReason::kEpoch));
  server.now += kSecond;
  server.join(b);
  EXPECT_EQ(server.counted(0).epochs + server.counted(1).epochs, 4U);
  (void)server.drain();
  server.hear(a.contribution(0, Chunk{1}));
  server.hear(b.contribution(1, Chunk{1}));
  server.none();
  server.hear(a.partial(0b110, Chunk{1}));
  a.expect_result(server.drain().at(0).bytes, 0b111, Chunk{1});
  server.hear(b.contribution(0, Chunk{1}));
  b.expect_result(server.drain().at(0).bytes, 0b11, Chunk{1});
}

TEST(PsJoin, ManyJobsDoNotMix) {
  std::vector<BoxJob> jobs;
  for (std::uint16_t i = 0; i < 40; ++i) {
    BoxJob job;
    job.name = "job" + std::to_string(i);
    job.id = static_cast<std::uint16_t>(1000 - i);
    job.epoch = 500U + i;
    job.generation = 77U + i;
    jobs.push_back(job);
  }
  Server server(jobs, 256);
  const auto joins = server.drain();
  ASSERT_EQ(joins.size(), 40U);
  for (std::size_t i = 0; i < 40; ++i)
    server.hear(jobs[i].joined(JoinStatus::kRunning, join_payload(joins[i].bytes).nonce.host()));
  for (const std::uint64_t ranks : {0b001U, 0b110U}) {
    for (const BoxJob& job : jobs) server.hear(job.partial(ranks, Chunk{3}));
  }
  const auto out = server.drain();
  ASSERT_EQ(out.size(), 80U);
  for (std::size_t i = 0; i < 40; ++i) jobs[i].expect_result(out[2 * i].bytes, 0b111, Chunk{3});
}

TEST(PsJoin, OptionsOutOfRangeAreNamed) {
  const auto error = [](auto change) {
    ps::PsOptions o = options_of({BoxJob{}, job_b()}, 8, 32);
    change(o);
    const auto made = ps::PsEngine::create(o, kernels::best_kernels());
    return made ? std::string("none") : made.error().text();
  };
  EXPECT_THAT(error([](ps::PsOptions& o) { o.jobs.clear(); }), HasSubstr("jobs: 0"));
  EXPECT_THAT(error([](ps::PsOptions& o) { o.jobs[0].job = ""; }),
              HasSubstr("a job's name has 1..64 letters"));
  EXPECT_THAT(error([](ps::PsOptions& o) { o.jobs[0].token = std::string(65, 'x'); }), HasSubstr("token"));
  EXPECT_THAT(error([](ps::PsOptions& o) { o.jobs[1].index = 16; }),
              HasSubstr("'b': index 16 is not in 0..15"));
  EXPECT_THAT(error([](ps::PsOptions& o) { o.jobs[1].job = "a"; }), HasSubstr("'a' is named twice"));
  EXPECT_THAT(error([](ps::PsOptions& o) { o.elements = 33; }), HasSubstr("elements: 33"));
  EXPECT_THAT(error([](ps::PsOptions& o) { o.memory = 100; }), HasSubstr("the least is 192"));
  EXPECT_EQ(error([](ps::PsOptions&) {}), "none");
}

}  // namespace
}  // namespace tally::psbed

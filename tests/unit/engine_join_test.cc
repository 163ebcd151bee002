// Membership as one worker sees it: JOIN pacing, and what JOINED is believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "box_says.h"
#include "engine_testbed.h"

namespace tally::testbed {
namespace {

using testing::HasSubstr;

class Joining : public testing::Test {
 protected:
  Joining()
      : engine_(std::move(*engine::WorkerEngine::create(options_of(shape_, 0), kernels::best_kernels()))),
        box_(shape_) {}

  // The JOIN that is due, or an empty one.
  Bytes join(TimeNs now) {
    const auto out = drain(*engine_, now);
    EXPECT_LE(out.size(), 1U);
    return out.empty() ? Bytes{} : out[0].bytes;
  }
  static JoinPayload payload(const Bytes& join) {
    JoinPayload p;
    EXPECT_GE(join.size(), kHeaderBytes + sizeof p);
    std::memcpy(&p, join.data() + kHeaderBytes, sizeof p);
    return p;
  }
  static std::uint64_t nonce(const Bytes& join) { return payload(join).nonce.host(); }
  void run(TimeNs now) { engine_->receive(box_.joined(JoinStatus::kRunning, nonce(join(now)), 0), now); }

  JobShape shape_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  Box box_;
};

TEST_F(Joining, FirstJoinIsDueAtOnceAndComplete) {
  EXPECT_EQ(engine_->deadline(), 0U);
  const auto out = drain(*engine_, 5);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].port, kBasePort);
  const Header h = header_of(out[0].bytes);
  EXPECT_EQ(h.type, PacketType::kJoin);
  EXPECT_EQ(h.rank.host(), 0);
  EXPECT_EQ(h.job.host() | h.epoch.host() | h.cookie.host(), 0U);
  const JoinPayload p = payload(out[0].bytes);
  EXPECT_EQ(p.attempt.host(), 1U);
  EXPECT_EQ(p.instance.host(), 1000U);
  EXPECT_EQ(p.world.host(), 2);
  EXPECT_EQ(p.elements.host(), shape_.elements);
  EXPECT_EQ(p.last, GenerationRecord{});
  EXPECT_EQ(p.lowest.host() | p.next.host(), 0U);
  EXPECT_EQ(p.challenge, Tag{});
  const Bytes name(out[0].bytes.begin() + kHeaderBytes + sizeof p, out[0].bytes.end() - kTagBytes);
  EXPECT_EQ(name, text_bytes("test"));
  EXPECT_TRUE(auth::verify(Box::job_key(), h, std::span(out[0].bytes).subspan(kHeaderBytes)));
}

// It wishes for no elements, under the numbers that come next, and waits for nobody.
TEST_F(Joining, WhoGivesUpBeforeTheJobFormsSaysSo) {
  const JoinPayload last = payload(join(0));
  engine_->abort("no patience", 1);
  ASSERT_EQ(engine_->state(), engine::EngineState::kClosed);
  TimeNs last_said = 0;
  for (std::uint32_t i = 0; i < 3; ++i) {
    // Not in one burst, which one pause of the box would lose whole.
    const TimeNs due = engine_->deadline();
    EXPECT_GE(due, last_said + (i == 0 ? 1 : 50 * kMillisecond));
    EXPECT_LE(due, 100 * kMillisecond + 1) << "longer than a worker that is destroyed has for it";
    const auto out = drain(*engine_, due);
    last_said = due;
    ASSERT_EQ(out.size(), 1U);
    const JoinPayload p = payload(out[0].bytes);
    EXPECT_EQ(header_of(out[0].bytes).type, PacketType::kJoin);
    EXPECT_EQ(p.elements.host(), 0);
    EXPECT_EQ(p.instance.host(), last.instance.host());
    EXPECT_EQ(p.attempt.host(), last.attempt.host() + 1 + i);
    EXPECT_TRUE(
        auth::verify(Box::job_key(), header_of(out[0].bytes), std::span(out[0].bytes).subspan(kHeaderBytes)));
  }
  EXPECT_EQ(engine_->deadline(), kNever);
  ASSERT_TRUE(engine_->rejoin(kSecond));
  EXPECT_EQ(payload(join(kSecond)).elements.host(), shape_.elements);
}

TEST_F(Joining, WhoLeavesBeforeTheJobFormsSaysSo) {
  join(0);
  engine_->leave(1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(drain(*engine_, engine_->deadline()).size(), 1U);
  EXPECT_EQ(engine_->deadline(), kNever);
}

TEST_F(Joining, WhoHasSaidNothingHasNothingToGiveUp) {
  engine_->abort("no patience", 0);
  EXPECT_TRUE(drain(*engine_, 0).empty());
  EXPECT_EQ(engine_->deadline(), kNever);
}

// Giving up is for who has no epoch.
TEST_F(Joining, WhoIsInAnEpochSaysAbort) {
  run(0);
  engine_->abort("no patience", 1);
  const auto out = drain(*engine_, 1);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(header_of(out[0].bytes).type, PacketType::kAbort);
}

TEST_F(Joining, TheTokenIsNeverOnTheWire) {
  const Bytes token = text_bytes("secret");
  const auto has_token = [&](const Bytes& b) {
    return std::search(b.begin(), b.end(), token.begin(), token.end()) != b.end();
  };
  Bytes j = join(0);
  EXPECT_FALSE(has_token(j));
  engine_->receive(Box::challenge(nonce(j)), 1);
  j = join(1);
  EXPECT_FALSE(has_token(j));
  engine_->receive(box_.joined(JoinStatus::kRunning, nonce(j), 0), 2);
  EXPECT_FALSE(has_token(join(engine_->deadline()))) << "a HEARTBEAT";
}

TEST_F(Joining, AChallengeIsBroughtAtOnceUnderANewNonce) {
  const Bytes first = join(0);
  engine_->receive(Box::challenge(nonce(first) + 1), kMillisecond);
  EXPECT_EQ(engine_->statistics().of(Refused::kNonce), 1U) << "somebody else's";
  EXPECT_EQ(engine_->deadline(), 100 * kMillisecond);
  engine_->receive(Box::challenge(nonce(first)), kMillisecond);
  EXPECT_EQ(engine_->deadline(), kMillisecond);
  const Bytes second = join(kMillisecond);
  EXPECT_EQ(payload(second).challenge, (Tag{7, 7}));
  EXPECT_EQ(payload(second).attempt.host(), 2U);
  EXPECT_NE(nonce(second), nonce(first));
  EXPECT_EQ(engine_->deadline(), 101 * kMillisecond) << "it is no repetition";
  EXPECT_EQ(payload(join(101 * kMillisecond)).challenge, (Tag{7, 7})) << "repetitions bring it, too";
}

TEST_F(Joining, WhoMakesUpChallengesDoublesTheJoinsAndNoMore) {
  std::size_t joins = 0;
  for (TimeNs now = 0; now < 2500 * kMillisecond; now += kMillisecond) {
    const Bytes j = join(now);
    if (j.empty()) continue;
    ++joins;
    engine_->receive(Box::challenge(nonce(j)), now);
  }
  EXPECT_LE(joins, 12U);
}

// Whoever sees the nonce can make up a refusal that has no tag. One who has a generation to lose does not
// believe it.
TEST_F(Joining, ARefusalWithoutTagEndsNoGeneration) {
  run(0);
  engine_->receive(box_.call_back(0), kSecond);
  const Bytes j = join(kSecond);
  engine::Membership forger = box_.epoch_of(0);
  const auth::Key guess = auth::job_key("test", "guess");
  engine_->receive(box_joined(forger, JoinStatus::kRefused, nonce(j), guess, 0, text_bytes("go away")),
                   kSecond);
  EXPECT_EQ(engine_->state(), engine::EngineState::kJoining);
  forger.epoch = Epoch{66};
  engine_->receive(box_joined(forger, JoinStatus::kRunning, nonce(j), guess), kSecond);
  EXPECT_EQ(engine_->statistics().of(Refused::kTag), 1U);
  EXPECT_EQ(engine_->state(), engine::EngineState::kJoining);
  while (engine_->state() != engine::EngineState::kClosed) (void)drain(*engine_, engine_->deadline());
  EXPECT_EQ(engine_->why_closed().code, ErrorCode::kUnreachable);
  EXPECT_THAT(engine_->why_closed().what, HasSubstr("said: go away"));
}

// ... and one who has the tag is.
TEST_F(Joining, ARefusalOfTheBoxEndsAGeneration) {
  run(0);
  engine_->receive(box_.call_back(0), kSecond);
  engine_->receive(box_.joined(JoinStatus::kRefused, nonce(join(kSecond)), 0, "enough"), kSecond);
  EXPECT_EQ(engine_->state(), engine::EngineState::kClosed);
}

TEST_F(Joining, RepeatsWithDoublingIntervalNewNonceAndAttempt) {
  std::vector<TimeNs> at;
  std::vector<std::uint64_t> nonces;
  for (TimeNs now = 0; at.size() < 6; now = engine_->deadline()) {
    const Bytes j = join(now);
    ASSERT_FALSE(j.empty());
    at.push_back(now / kMillisecond);
    nonces.push_back(nonce(j));
    EXPECT_EQ(payload(j).attempt.host(), at.size());
    engine_->receive(box_.joined(JoinStatus::kForming, nonce(j), 0), now);
  }
  EXPECT_EQ(at, (std::vector<TimeNs>{0, 100, 300, 700, 1500, 2500}));
  std::sort(nonces.begin(), nonces.end());
  EXPECT_EQ(std::unique(nonces.begin(), nonces.end()), nonces.end());
  EXPECT_EQ(engine_->missing(), 3U) << "the forming answer names who is missing";
  EXPECT_EQ(engine_->state(), engine::EngineState::kJoining);
}

TEST_F(Joining, OnlyTheNewestNonceCounts) {
  const std::uint64_t first = nonce(join(0));
  const std::uint64_t second = nonce(join(100 * kMillisecond));
  engine_->receive(box_.joined(JoinStatus::kRunning, first, 0), 101 * kMillisecond);
  engine_->receive(box_.joined(JoinStatus::kRefused, first, 0, "no"), 101 * kMillisecond);
  engine_->receive(box_.joined(JoinStatus::kRunning, 0, 0), 101 * kMillisecond);
  EXPECT_EQ(engine_->state(), engine::EngineState::kJoining);
  EXPECT_EQ(engine_->statistics().of(Refused::kNonce), 3U);
  engine_->receive(box_.joined(JoinStatus::kRunning, second, 0), 101 * kMillisecond);
  EXPECT_EQ(engine_->state(), engine::EngineState::kRunning);
  ASSERT_TRUE(engine_->membership());
  EXPECT_EQ(engine_->membership()->epoch, Epoch{box_.epoch});
  // The same JOINED once more answers nothing.
  engine_->receive(box_.joined(JoinStatus::kRunning, second, 0), 102 * kMillisecond);
  EXPECT_EQ(engine_->statistics().of(Refused::kState), 1U);
}

TEST_F(Joining, RefusedIsFinalAndSaysWhy) {
  engine_->receive(box_.joined(JoinStatus::kRefused, nonce(join(0)), 0, "token of job 'test' is wrong\x1b"),
                   1);
  EXPECT_EQ(engine_->state(), engine::EngineState::kClosed);
  EXPECT_EQ(engine_->why_closed().code, ErrorCode::kRefused);
  EXPECT_THAT(engine_->why_closed().what, HasSubstr("token of job 'test' is wrong "));
  EXPECT_EQ(engine_->deadline(), kNever);
  EXPECT_TRUE(drain(*engine_, kSecond).empty());
}

TEST_F(Joining, OtherWorldIsRefusedHere) {
  box_.shape.world = 3;
  engine_->receive(box_.joined(JoinStatus::kRunning, nonce(join(0)), 0), 1);
  EXPECT_EQ(engine_->state(), engine::EngineState::kClosed);
  EXPECT_EQ(engine_->why_closed().code, ErrorCode::kRefused);
  EXPECT_THAT(engine_->why_closed().what, HasSubstr("3 workers"));
}

TEST_F(Joining, ImplausibleJoinedIsCountedOnly) {
  const Bytes j = join(0);
  const std::vector<void (*)(Box&)> spoil{
      [](Box& b) { b.job = 0; },
      [](Box& b) { b.job = 1025; },
      [](Box& b) { b.epoch = 0; },
      [](Box& b) { b.generation = 0; },
      [](Box& b) { b.shape.window = 24; },
      [](Box& b) { b.shape.window = 32; },
      [](Box& b) { b.shape.window = 8; },
      [](Box& b) { b.shape.largest_window = 32768; },
      [](Box& b) { b.shape.lookahead = 32; },
      [](Box& b) { b.shape.lookahead = 0; },
      [](Box& b) { b.shape.elements = 0; },
      [](Box& b) { b.shape.elements = 48; },
      [](Box& b) { b.shape.elements = 20; },
      [](Box& b) { b.shape.world = 65; },
      [](Box& b) { b.shape.shards = 0; },
      [](Box& b) { b.shape.shards = 65; },
      [](Box& b) { b.shape.lease_ms = 0; },
      [](Box& b) { b.shape.most_advanced = 2; },
      [](Box& b) { b.shape.discipline = Discipline{0}; },
      [](Box& b) { b.shape.discipline = Discipline{5}; },
      [](Box& b) { b.shape.discipline = Discipline::kFcfs; },  // no shared slots
      [](Box& b) { b.shape.discipline = Discipline::kPreemptive; },
      [](Box& b) { b.shape.discipline = Discipline::kShared; },
      [](Box& b) {
        b.shape.discipline = Discipline::kFcfs;
        b.shape.shards = 3;
        b.shape.shared_slots = 2;
      },
      [](Box& b) { b.shape.max_priority = 255; },
  };
  for (const auto& f : spoil) {
    Box bad(shape_);
    f(bad);
    engine_->receive(bad.joined(JoinStatus::kRunning, nonce(j), 0), 1);
  }
  EXPECT_EQ(engine_->statistics().of(Refused::kJoined), spoil.size());
  EXPECT_EQ(engine_->statistics().refused_total(), spoil.size());
  EXPECT_EQ(engine_->state(), engine::EngineState::kJoining);
  engine_->receive(box_.joined(JoinStatus::kRunning, nonce(j), 0), 1);
  EXPECT_EQ(engine_->state(), engine::EngineState::kRunning);
}

// REJECTs of data cores, which anybody may forge: at most ten HEARTBEATs a second, and data goes on.
TEST_F(Joining, HintsMakeItBeatAndNothingElse) {
  run(0);
  std::vector<std::int32_t> x(1, 1);
  ASSERT_TRUE(engine_->allreduce(std::span<std::int32_t>(x), 0));
  const Header data = box_.from_box(PacketType::kContribute);
  std::vector<TimeNs> beats;
  bool contributed = false;
  for (TimeNs now = 500 * kMillisecond; now < 1500 * kMillisecond; now += kMillisecond) {
    engine_->receive(box_.reject(RejectReason::kEpoch, data), now);
    engine_->receive(box_.reject(RejectReason::kJob, data), now);
    EXPECT_EQ(engine_->state(), engine::EngineState::kRunning);
    for (const auto& out : drain(*engine_, now)) {
      EXPECT_NE(header_of(out.bytes).type, PacketType::kJoin);
      contributed = contributed || header_of(out.bytes).type == PacketType::kContribute;
      if (header_of(out.bytes).type == PacketType::kHeartbeat) beats.push_back(now);
    }
  }
  EXPECT_TRUE(contributed);
  EXPECT_EQ(beats.size(), 10U);
  for (std::size_t i = 1; i < beats.size(); ++i) EXPECT_GE(beats[i] - beats[i - 1], 100 * kMillisecond);
  EXPECT_EQ(engine_->statistics().hints, 2000U);
}

TEST_F(Joining, ControlCallsItBackAndNeverFasterThanTenPerSecond) {
  run(0);
  std::vector<TimeNs> joins;
  for (TimeNs now = 0; now < 1000 * kMillisecond; now += kMillisecond) {
    engine_->receive(box_.call_back(0), now);
    for (const auto& out : drain(*engine_, now)) {
      if (header_of(out.bytes).type != PacketType::kJoin) continue;
      joins.push_back(now);
      engine_->receive(box_.joined(JoinStatus::kRunning, nonce(out.bytes), 0), now);
    }
    if (engine_->state() == engine::EngineState::kRunning) {
      EXPECT_EQ(engine_->membership()->epoch, Epoch{box_.epoch});
    }
  }
  ASSERT_EQ(joins.size(), 9U);
  for (std::size_t i = 1; i < joins.size(); ++i) EXPECT_GE(joins[i] - joins[i - 1], 100 * kMillisecond);
  EXPECT_EQ(engine_->statistics().epochs, 1U) << "the same epoch again is no new one";
}

// A box that lost everything answers a HEARTBEAT by its counter: the answer to an old one is worth nothing.
TEST_F(Joining, AnUnknownEpochIsBelievedOnceForEachHeartbeat) {
  run(0);
  const Bytes first = join(engine_->deadline());
  ASSERT_EQ(header_of(first).type, PacketType::kHeartbeat);
  engine_->receive(box_.echo(PacketType::kHeartbeat, 0), kSecond);
  engine_->receive(box_.unknown_epoch(first), kSecond);
  EXPECT_EQ(engine_->statistics().of(Refused::kReplay), 1U) << "that one was answered";
  const Bytes second = join(engine_->deadline());
  engine_->receive(box_.unknown_epoch(second), 2 * kSecond);
  EXPECT_EQ(engine_->state(), engine::EngineState::kJoining);
  const Bytes j = join(engine_->deadline());
  engine_->receive(box_.joined(JoinStatus::kRunning, nonce(j), 0), 2 * kSecond);
  engine_->receive(box_.unknown_epoch(second), 2 * kSecond);
  EXPECT_EQ(engine_->statistics().of(Refused::kReplay), 2U);
  EXPECT_EQ(engine_->state(), engine::EngineState::kRunning);
}

TEST_F(Joining, RejectOfAnotherEpochIsRefused) {
  run(0);
  Header data = box_.from_box(PacketType::kContribute);
  data.epoch = Be<std::uint32_t>{box_.epoch - 1};
  engine_->receive(box_.reject(RejectReason::kEpoch, data), 1);
  EXPECT_EQ(engine_->statistics().of(Refused::kEpoch), 1U);
  EXPECT_EQ(engine_->state(), engine::EngineState::kRunning);
}

TEST_F(Joining, SilenceOfControlIsUnreachable) {
  EXPECT_EQ(drain(*engine_, 0).size(), 1U);
  std::vector<std::int32_t> x(4, 1);
  const auto id = engine_->allreduce(std::span<std::int32_t>(x), 0);
  TimeNs now = 0;
  while (engine_->state() != engine::EngineState::kClosed && now < kNever) {
    now = engine_->deadline();
    drain(*engine_, now);
  }
  EXPECT_EQ(now, 10 * kSecond);
  EXPECT_EQ(engine_->why_closed().code, ErrorCode::kUnreachable);
  const auto c = engine_->next_completion();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->id, *id);
  EXPECT_EQ(c->result.error().code, ErrorCode::kUnreachable);
}

TEST(Options, AreValidated) {
  const auto refused = [](void (*spoil)(engine::EngineOptions&)) {
    engine::EngineOptions o = options_of({}, 0);
    spoil(o);
    const auto engine = engine::WorkerEngine::create(o, kernels::best_kernels());
    return !engine && engine.error().code == ErrorCode::kInvalidArgument && !engine.error().what.empty();
  };
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.job.clear(); }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.job.assign(65, 'x'); }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.token.assign(65, 'x'); }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.world = 0; }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.world = 4097; }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.rank = Rank{2}; }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.elements = 0; }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.elements = 17; }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.elements = 2240; }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.rto_floor = 0; }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.rto_floor = 2 * kSecond; }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.unreachable_after = 0; }));
  EXPECT_TRUE(refused([](engine::EngineOptions& o) { o.priority = 255; }));
  EXPECT_FALSE(refused([](engine::EngineOptions& o) { o.token.clear(); }));
}

}  // namespace
}  // namespace tally::testbed

// How it ends: time-outs that name the missing, ABORT, LEAVE, a box that is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {
namespace {

using testing::HasSubstr;

JobShape four() {
  JobShape s;
  s.world = 4;
  return s;
}

TEST(Timeout, NamesTheRanksOfTheLastWaiting) {
  Rig rig(four());
  ASSERT_TRUE(rig.run_until_running());
  std::vector<float> x(100, 1.0F);
  std::vector<float> y(100, 1.0F);
  engine::OperationOptions limited;
  limited.deadline = rig.now + 5 * kSecond;
  const auto id = *rig[0].allreduce(std::span<float>(x), rig.now, limited);
  const auto after = *rig[0].barrier(rig.now);
  (void)rig[2].allreduce(std::span<float>(y), rig.now);
  ASSERT_TRUE(rig.run_until([&] { return rig.completed.contains({0, after}); }));
  EXPECT_EQ(rig.now, limited.deadline);
  const auto& r = rig.completed.at({0, id});
  EXPECT_EQ(r.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(r.error().what, HasSubstr("operation 1 timed out; waiting for ranks 1, 3"));
  EXPECT_EQ(rig.completed.at({0, after}).error().code, ErrorCode::kAborted);
  EXPECT_EQ(rig[0].state(), engine::EngineState::kClosed);
  // The others are told.
  ASSERT_TRUE(rig.run_until([&] { return rig[1].state() == engine::EngineState::kClosed; }));
  EXPECT_THAT(rig[3].why_closed().what, HasSubstr("rank 0: operation 1 timed out"));
}

TEST(Timeout, WhileForming) {
  Rig rig(four());
  rig.paused[3] = true;
  engine::OperationOptions limited;
  limited.deadline = kSecond;
  const auto id = *rig[0].barrier(0, limited);
  ASSERT_TRUE(rig.run_until([&] { return rig.completed.contains({0, id}); }));
  EXPECT_THAT(rig.completed.at({0, id}).error().what, HasSubstr("waiting for rank 3"));
  EXPECT_TRUE(rig.box.aborts.empty()) << "there is no epoch to abort";
}

TEST(Timeout, OthersHaveNone) {
  Rig rig({});
  engine::OperationOptions limited;
  limited.deadline = 10 * kSecond;
  const auto id = *rig[0].barrier(0, limited);
  (void)rig[1].barrier(0, limited);
  for (const auto& r : rig.finish(id)) EXPECT_TRUE(r);
  EXPECT_FALSE(rig.run_until([&] { return rig[0].state() == engine::EngineState::kClosed; }, 20 * kSecond));
}

TEST(Abort, LocalAbortReachesEveryRank) {
  Rig rig(four());
  ASSERT_TRUE(rig.run_until_running());
  std::vector<std::vector<std::int32_t>> x(4, std::vector<std::int32_t>(5000, 1));
  engine::OperationId id{};
  for (std::size_t r = 0; r < 4; ++r) id = *rig[r].allreduce(std::span<std::int32_t>(x[r]), rig.now);
  ASSERT_TRUE(rig.run_until([&] { return rig[0].statistics().results > 30; }));
  rig[2].abort("disk full", rig.now);
  EXPECT_EQ(rig[2].state(), engine::EngineState::kClosed);
  for (const auto& r : rig.finish(id)) {
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code, ErrorCode::kAborted);
    EXPECT_THAT(r.error().what, HasSubstr("disk full"));
  }
  // The box's ABORT is the answer: nothing more is said.
  ASSERT_TRUE(rig.run_until([&] { return rig[2].deadline() == kNever; }));
  EXPECT_EQ(rig.box.aborts.size(), 1U);
  const std::uint64_t late = rig[2].statistics().of(Refused::kState);
  rig[2].receive(rig.box.abort("again"), rig.now);
  EXPECT_EQ(rig[2].statistics().of(Refused::kState), late + 1);
  EXPECT_THAT(rig[2].why_closed().what, HasSubstr("aborted here: disk full"));
  EXPECT_FALSE(rig[0].barrier(rig.now));
  EXPECT_EQ(rig[0].barrier(rig.now).error().code, ErrorCode::kClosed);
}

TEST(Abort, IsRepeatedFiveTimesWithoutAnswer) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  std::uint64_t said = 0;
  rig.lose = [&](bool to_box, std::uint16_t rank, const Header& h) {
    if (to_box && rank == 0 && h.type == PacketType::kAbort) ++said;
    return rank == 0;
  };
  rig[0].abort("x", rig.now);
  EXPECT_TRUE(rig.run_until([&] { return rig[0].deadline() == kNever; }, 5 * kSecond));
  EXPECT_EQ(said, 5U);
}

TEST(Abort, LongReasonIsCut) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig[0].abort(std::string(2000, 'y'), rig.now);
  ASSERT_TRUE(rig.run_until([&] { return !rig.box.aborts.empty(); }));
  EXPECT_EQ(rig.box.aborts[0].size(), kMaxTextBytes);
}

TEST(Unreachable, RunningWorkerFailsAfterALease) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  std::vector<float> x(100, 1.0F);
  const auto id = *rig[0].allreduce(std::span<float>(x), rig.now);
  ASSERT_FALSE(rig.run_until([] { return false; }, 3 * kSecond));
  rig.lose = [](bool, std::uint16_t, const Header&) { return true; };
  const TimeNs cut = rig.now;
  ASSERT_TRUE(rig.run_until([&] { return rig.completed.contains({0, id}); }));
  EXPECT_EQ(rig.completed.at({0, id}).error().code, ErrorCode::kUnreachable);
  EXPECT_LE(rig.now, cut + 10 * kSecond);
  EXPECT_GE(rig.now, cut + 9 * kSecond) << "heartbeats go every second";
}

TEST(Unreachable, IdleWorkerToo) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig.lose = [](bool, std::uint16_t, const Header&) { return true; };
  EXPECT_TRUE(rig.run_until([&] { return rig[1].state() == engine::EngineState::kClosed; }, 11 * kSecond));
  EXPECT_EQ(rig[1].why_closed().code, ErrorCode::kUnreachable);
}

// Time in which the worker did not run is not the box's silence; the time after it is.
TEST(Unreachable, AWorkerThatWasStoppedForLongerThanALeaseIsNot) {
  Box box({.lease_ms = 1'000});
  const auto engine = joined_engine(box, options_of(box.shape, 0));
  (void)drain(*engine, 0);
  TimeNs now = 10 * kSecond;
  EXPECT_EQ(header_of(drain(*engine, now).at(0).bytes).type, PacketType::kHeartbeat);
  EXPECT_EQ(engine->state(), engine::EngineState::kRunning);
  while (engine->state() != engine::EngineState::kClosed && now < 20 * kSecond) {
    now = engine->deadline();
    (void)drain(*engine, now);
  }
  EXPECT_EQ(engine->why_closed().code, ErrorCode::kUnreachable);
  EXPECT_LE(now, 10 * kSecond + 3 * kSecond) << "a lease, or while joining 3 s";
}

// The box's data cores answer, its control does not. The worker's program comes when it has a step to sum and
// when the engine is due, as the progress thread does: the time between was not time in which it did not run.
TEST(Unreachable, ASilentControlIsNoticedBetweenTheStepsOfAProgram) {
  Box box({.lease_ms = 2'000});
  const auto engine = joined_engine(box, options_of(box.shape, 0));
  TimeNs now = 0;
  const auto come = [&] {
    if (engine->deadline() > now) return;
    for (const Out& o : drain(*engine, now))
      if (header_of(o.bytes).type == PacketType::kContribute)
        engine->receive(box.result_of(o.bytes), now + 200 * kMicrosecond);
  };
  std::uint64_t steps = 0;
  for (; engine->state() != engine::EngineState::kClosed && steps < 100; ++steps) {
    (void)engine->barrier(now);
    come();
    const TimeNs next = now + 300 * kMillisecond;
    while (engine->deadline() < next && engine->state() != engine::EngineState::kClosed) {
      now = std::max(now + 1, engine->deadline());
      come();
    }
    now = next;
  }
  EXPECT_EQ(engine->why_closed().code, ErrorCode::kUnreachable);
  EXPECT_LE(steps, 8U) << "a lease";
}

TEST(Unreachable, HeartbeatsKeepAnIdleWorkerAlive) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  EXPECT_FALSE(rig.run_until([&] { return rig[0].state() != engine::EngineState::kRunning; }, 100 * kSecond));
  EXPECT_EQ(rig[0].statistics().heartbeats, 100U);
  EXPECT_EQ(rig[0].statistics().heartbeat_echoes, 99U);  // the last is under way
  EXPECT_EQ(rig[0].live(), 3U);
}

bool all_closed(const Rig& rig) {
  return std::all_of(rig.engines.begin(), rig.engines.end(),
                     [](const auto& e) { return e->state() == engine::EngineState::kClosed; });
}

TEST(Leave, DrainsThenBarrierThenLeave) {
  Rig rig({});
  std::vector<float> a(3000, 1.0F);
  std::vector<float> b(3000, 1.0F);
  const auto id = *rig[0].allreduce(std::span<float>(a), 0);
  (void)rig[1].allreduce(std::span<float>(b), 0);
  rig[0].leave(0);
  rig[1].leave(0);
  EXPECT_EQ(rig[0].barrier(0).error().code, ErrorCode::kClosed);
  for (const auto& r : rig.finish(id)) EXPECT_TRUE(r);
  ASSERT_TRUE(rig.run_until([&] { return all_closed(rig); }));
  EXPECT_EQ(rig.box.left.size(), 2U);
  EXPECT_EQ(rig[0].why_closed().code, ErrorCode::kClosed);
  EXPECT_EQ(rig.completed.size(), 2U) << "the barrier of leaving is not the program's";
  EXPECT_EQ(a[5], 2.0F);
}

TEST(Leave, WaitsForTheOthersBarrier) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig[0].leave(rig.now);
  EXPECT_EQ(rig[0].pending_operations(), 0U);
  EXPECT_FALSE(rig.run_until([&] { return rig[0].state() == engine::EngineState::kClosed; }, 30 * kSecond));
  rig[1].leave(rig.now);
  EXPECT_TRUE(rig.run_until([&] { return all_closed(rig); }));
}

TEST(Leave, LastResultLostAndEchoesLost) {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    Rig rig(four());
    std::uint64_t state = seed;
    rig.lose = [&](bool, std::uint16_t, const Header&) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return (state >> 33) % 100 < 30;
    };
    std::vector<std::vector<std::int32_t>> x(4, std::vector<std::int32_t>(300, 1));
    engine::OperationId id{};
    for (std::size_t r = 0; r < 4; ++r) {
      id = *rig[r].allreduce(std::span<std::int32_t>(x[r]), 0);
      rig[r].leave(0);
    }
    for (const auto& r : rig.finish(id)) EXPECT_TRUE(r);
    EXPECT_TRUE(rig.run_until([&] { return all_closed(rig); }));
    for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(rig[r].why_closed().code, ErrorCode::kClosed);
  }
}

TEST(Leave, FiveTriesWithoutEcho) {
  Rig rig({});
  std::uint64_t said = 0;
  rig.lose = [&](bool to_box, std::uint16_t rank, const Header& h) {
    if (h.type != PacketType::kLeave) return false;
    if (to_box && rank == 0) ++said;
    return true;
  };
  rig[0].leave(0);
  EXPECT_EQ(rig[0].state(), engine::EngineState::kClosed) << "never joined: nothing to say";
  ASSERT_TRUE(rig[0].rejoin(0));
  ASSERT_TRUE(rig.run_until_running());
  rig[0].leave(rig.now);
  rig[1].leave(rig.now);
  ASSERT_TRUE(rig.run_until([&] { return all_closed(rig); }, 5 * kSecond));
  EXPECT_EQ(said, 5U);
  EXPECT_THAT(rig[0].why_closed().what, HasSubstr("did not answer"));
}

// A lease that is over before the five tries are: all sums are here, so nothing failed.
TEST(Leave, SilenceOfTheBoxAfterItIsNoFailure) {
  Rig rig({.lease_ms = 500});
  ASSERT_TRUE(rig.run_until_running());
  std::uint64_t said = 0;
  rig.lose = [&](bool to_box, std::uint16_t rank, const Header& h) {
    if (to_box && rank == 0 && h.type == PacketType::kLeave) ++said;
    return said != 0;  // the box is gone from the first LEAVE on
  };
  rig[0].leave(rig.now);
  rig[1].leave(rig.now);
  ASSERT_TRUE(rig.run_until([&] { return rig[0].state() == engine::EngineState::kClosed; }, 5 * kSecond));
  EXPECT_LT(said, 5U);
  EXPECT_EQ(rig[0].why_closed().code, ErrorCode::kClosed);
  EXPECT_THAT(rig[0].why_closed().what, HasSubstr("did not answer"));
}

// A rank that is about to go must not LEAVE a generation it never took part in: the others would wait for it.
TEST(Leave, TakesNoPartInANewGeneration) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig[0].leave(rig.now);  // its barrier waits for rank 1
  rig.box.restart(true);
  bool said_leave = false;
  rig.lose = [&](bool to_box, std::uint16_t rank, const Header& h) {
    said_leave |= to_box && rank == 0 && h.type == PacketType::kLeave;
    return false;
  };
  ASSERT_TRUE(rig.run_until([&] { return all_closed(rig); }));
  EXPECT_EQ(rig[0].why_closed().code, ErrorCode::kClosed);
  EXPECT_EQ(rig[1].why_closed().code, ErrorCode::kAborted) << "told, not left waiting";
  EXPECT_FALSE(said_leave);
}

TEST(Leave, JobThatEndedMeanwhileIsNoFailure) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig.lose = [&](bool, std::uint16_t rank, const Header& h) {
    return rank == 0 && h.type == PacketType::kJoined;
  };
  rig[0].leave(rig.now);
  ASSERT_FALSE(rig.run_until([] { return false; }, kSecond));
  rig.box.restart();
  ASSERT_TRUE(rig.run_until([&] { return rig.box.joins[0].size() == 2; }));
  const std::uint64_t nonce = rig.box.last_join[0].nonce.host();
  rig[0].receive(rig.box.joined(JoinStatus::kRefused, nonce, 0, "the job ended"), rig.now);
  EXPECT_EQ(rig[0].state(), engine::EngineState::kClosed);
  EXPECT_EQ(rig[0].why_closed().code, ErrorCode::kClosed);
  EXPECT_THAT(rig[0].why_closed().what, HasSubstr("the job ended"));
}

// After LEAVE was said, a box that knows the job no more is answer enough: no JOIN into a job that is over.
TEST(Leave, RejectAfterLeaveCausesNoJoin) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig.lose = [&](bool to_box, std::uint16_t, const Header& h) {
    return !to_box && h.type == PacketType::kLeave;
  };
  rig[0].leave(rig.now);
  rig[1].leave(rig.now);
  ASSERT_TRUE(rig.run_until([&] { return rig.box.left.size() == 2; }));
  rig.box.restart();
  ASSERT_TRUE(rig.run_until([&] { return all_closed(rig); }));
  EXPECT_GT(rig[0].statistics().rejects, 0U);
  EXPECT_EQ(rig.box.joins[0].size(), 1U);
  EXPECT_EQ(rig.box.joins[1].size(), 1U);
}

TEST(Leave, SurvivesARestartOfTheBox) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig[0].leave(rig.now);
  ASSERT_FALSE(rig.run_until([] { return false; }, kSecond));
  rig.box.restart();
  rig[1].leave(rig.now);
  EXPECT_TRUE(rig.run_until([&] { return all_closed(rig); }));
  EXPECT_EQ(rig.box.left.size(), 2U);
}

// Rank 1 has left for good; the box restarts before rank 0's LEAVE: the job is never formed again.
TEST(Leave, DoesNotWaitForeverForThoseWhoLeft) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig.lose = [&](bool to_box, std::uint16_t rank, const Header& h) {
    return rank == 0 && (h.type == PacketType::kLeave || (!to_box && h.type == PacketType::kResult));
  };
  rig[0].leave(rig.now);
  rig[1].leave(rig.now);
  ASSERT_TRUE(rig.run_until([&] { return rig[1].state() == engine::EngineState::kClosed; }));
  rig.box.restart();
  EXPECT_TRUE(rig.run_until([&] { return all_closed(rig); }, 30 * kSecond));
  EXPECT_EQ(rig[0].why_closed().code, ErrorCode::kClosed);
}

// The barrier's result is lost for good, and the rank that had it is gone. Who left had it, so all is done.
TEST(Leave, AnEchoThatLacksARankEndsTheBarrier) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig.lose = [](bool to_box, std::uint16_t rank, const Header& h) {
    return !to_box && rank == 0 && h.type == PacketType::kResult;
  };
  rig[0].leave(rig.now);
  rig[1].leave(rig.now);
  EXPECT_TRUE(rig.run_until([&] { return all_closed(rig); }, 10 * kSecond));
  EXPECT_EQ(rig.box.left.size(), 2U);
}

// Who was missing in an earlier epoch says nothing of this one: the barrier is waited for.
TEST(Leave, AnEchoOfAnEarlierEpochEndsNoBarrier) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  rig.box.left.insert(1);
  ASSERT_TRUE(rig.run_until([&] { return rig[0].live() == 1; }, 20 * kSecond));
  rig.box.left.clear();
  const std::uint64_t epochs = rig[0].statistics().epochs;
  rig.box.restart();
  ASSERT_TRUE(rig.run_until([&] { return rig[0].statistics().epochs > epochs; }, 20 * kSecond));
  rig.lose = [](bool, std::uint16_t rank, const Header& h) {
    return rank == 0 && h.type == PacketType::kHeartbeat;
  };
  rig[0].leave(rig.now);
  EXPECT_FALSE(rig.run_until([&] { return !rig.box.left.empty(); }, kSecond));
}

TEST(Determinism, SameSeedSameBytes) {
  std::array<std::vector<Bytes>, 2> runs;
  for (auto& run : runs) {
    Rig rig(four());
    std::uint64_t n = 0;
    std::vector<std::vector<float>> x(4, std::vector<float>(500, 0.5F));
    rig.lose = [&](bool, std::uint16_t, const Header&) { return ++n % 9 == 0; };
    for (std::size_t r = 0; r < 4; ++r) {
      (void)rig[r].allreduce(std::span<float>(x[r]), 0);
      rig[r].leave(0);
    }
    EXPECT_TRUE(rig.run_until([&] { return all_closed(rig); }));
    run.push_back(text_bytes(std::to_string(rig.now)));
    for (const auto& [rank, join] : rig.box.last_join) {
      Bytes b(sizeof join);
      std::memcpy(b.data(), &join, sizeof join);
      run.push_back(b);
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
}

}  // namespace
}  // namespace tally::testbed

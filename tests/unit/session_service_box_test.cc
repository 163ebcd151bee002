// The box refuses, has no room, is away, hangs: what the clients are told, and what is left of it.

#include "session_service_scene.h"

namespace tally::session_service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

BoxTrouble away() { return {BoxTrouble::Kind::kAway, "the tallyd at /run/x does not answer within 2.0 s"}; }

TEST(SessionBox, NoRoomIsToldWithTheBoxsNumbersAndLeavesNothing) {
  Scene scene;
  const auto all = scene.meet(2);
  scene.box.phase = "declared";
  scene.box.reason = "admission: 2048 slots take 4608 KiB; 100 KiB are free";
  const auto calls = scene.last_barriers(all);
  scene.pass(2 * kSecond);
  EXPECT_TRUE(scene.waits(calls[0])) << "memory of others may be on its way";
  scene.pass(2 * kSecond);
  for (const CallId call : calls) {
    EXPECT_EQ(scene.code(call), Code::kResourceExhausted);
    EXPECT_THAT(scene.text(call), HasSubstr("2048 slots take 4608 KiB; 100 KiB are free"));
  }
  EXPECT_THAT(scene.box.sessions, IsEmpty());
}

TEST(SessionBox, MemoryThatComesFreeSoonIsWaitedFor) {
  Scene scene;
  const auto all = scene.meet(2);
  scene.box.phase = "declared";
  scene.box.reason = "admission: a moment";
  const auto calls = scene.last_barriers(all);
  scene.pass(2 * kSecond);
  scene.box.sessions["switchml.a"].phase = "running";
  scene.pass(kSecond);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kOk);
}

TEST(SessionBox, ASessionLargerThanTheBoxIsToldSoAtOnce) {
  Scene scene;
  const auto all = scene.meet(2);
  scene.box.add_trouble = BoxTrouble{BoxTrouble::Kind::kNoRoom, "/slots: at most 100 fit"};
  const auto calls = scene.last_barriers(all);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kResourceExhausted);
}

TEST(SessionBox, WhatTheBoxRefusesIsTheClientsToLearn) {
  for (const auto& [kind, code] : {std::pair{BoxTrouble::Kind::kUnfit, Code::kInvalidArgument},
                                   {BoxTrouble::Kind::kNotPermitted, Code::kFailedPrecondition},
                                   {BoxTrouble::Kind::kRefused, Code::kFailedPrecondition}}) {
    Scene scene;
    const auto all = scene.meet(2);
    scene.box.add_trouble = BoxTrouble{kind, "its sentence"};
    for (const CallId call : scene.last_barriers(all)) {
      EXPECT_EQ(scene.code(call), code);
      EXPECT_THAT(scene.text(call), HasSubstr("its sentence"));
    }
  }
}

TEST(SessionBox, AJobInTheWayIsReplacedOnce) {
  Scene scene;
  const auto all = scene.meet(2);
  scene.box.sessions["switchml.a"] = {job_of("switchml.a", {}, 128, settings_of())};
  const auto calls = scene.last_barriers(all);
  scene.pass(kSecond);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kOk);
  EXPECT_THAT(scene.box.done, ElementsAre("remove switchml.a", "add switchml.a"));
}

TEST(SessionBox, UdpSessionWaitsTenSecondsForATallydThatIsAway) {
  Scene scene;
  scene.box.trouble = away();
  scene.pass(6 * kSecond);
  const ConnectionId zero = scene.connect();
  scene.broadcast(zero, 0, 2);
  const CallId call = scene.session(zero, 0, 2, 11);
  scene.pass(9 * kSecond);
  EXPECT_TRUE(scene.waits(call));
  scene.pass(2 * kSecond);
  EXPECT_EQ(scene.code(call), Code::kUnavailable);
  EXPECT_THAT(scene.text(call), HasSubstr("does not answer within 2.0 s"));
}

TEST(SessionBox, ATallydThatComesBackInTimeIsNoTrouble) {
  Scene scene;
  scene.box.trouble = away();
  scene.pass(6 * kSecond);
  const ConnectionId zero = scene.connect();
  scene.broadcast(zero, 0, 2);
  const CallId call = scene.session(zero, 0, 2, 11);
  scene.pass(5 * kSecond);
  scene.box.trouble.reset();
  scene.pass(kSecond);
  EXPECT_EQ(scene.code(call), Code::kOk);
}

TEST(SessionBox, TheLastBarrierWaitsTenSecondsForATallydThatIsAway) {
  Scene scene;
  const auto all = scene.meet(2);
  scene.box.trouble = away();
  const auto calls = scene.last_barriers(all);
  scene.pass(9 * kSecond);
  EXPECT_TRUE(scene.waits(calls[0]));
  scene.pass(2 * kSecond);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kUnavailable);
}

TEST(SessionBox, ATallydThatHangsHoldsNoCallBeyondItsDeadline) {
  Scene scene;
  const auto all = scene.meet(2);
  scene.box.hangs = true;
  const auto calls = scene.last_barriers(all);
  scene.pass(11 * kSecond);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kUnavailable);
  const ConnectionId other = scene.connect();
  scene.broadcast(other, 0, 1);
  scene.pass(kSecond);
  const CallId meets = scene.broadcast(scene.connect(), 1, 2);
  EXPECT_EQ(scene.code(meets), Code::kInvalidArgument) << "what needs no box is answered meanwhile";
}

TEST(SessionBox, WhatAHungTallydDoesLaterIsTakenBack) {
  Scene scene;
  const auto all = scene.meet(2);
  scene.box.hangs = true;
  scene.last_barriers(all);
  scene.pass(11 * kSecond);
  scene.wakes();
  scene.pass(2 * kSecond);
  EXPECT_THAT(scene.box.sessions, IsEmpty());
  EXPECT_EQ(scene.service.sessions(), 0U);
}

TEST(SessionBox, AnAddWhoseAnswerWasLostIsTakenBackToo) {
  Scene scene;
  const auto all = scene.meet(2);
  scene.box.add_trouble = away();
  scene.last_barriers(all);
  scene.pass(11 * kSecond);
  scene.box.add_trouble.reset();
  // Done by the box all the same, when nobody listened any more.
  scene.box.sessions["switchml.a"] = {job_of("switchml.a", {}, 128, settings_of())};
  scene.pass(6 * kSecond);
  EXPECT_THAT(scene.box.sessions, IsEmpty());
}

// The Add of a group that is no more, behind which its Remove waits, is nothing that the next group may begin with.
TEST(SessionBox, TheAnswerToAnEarlierGroupsAddOpensNobodysBarrier) {
  Scene scene;
  const auto first = scene.meet(2);
  scene.box.hangs = true;
  scene.last_barriers(first);
  scene.close_all(first);
  const auto next = scene.meet(2);
  const auto calls = scene.last_barriers(next);
  ASSERT_GE(scene.box.held.size(), 3U) << "Add, Remove, Add";
  // Only the first is answered by now, and the box says that the session runs.
  const auto is_add = [](const Order& order) { return std::holds_alternative<Add>(order); };
  const auto add = std::ranges::find_if(scene.box.held, is_add);
  const Order earlier = *add;
  scene.box.held.erase(add);
  scene.box.carry_out(earlier, scene.service, scene.now);
  scene.service.looked(scene.box.report(), scene.now);
  scene.settle();
  EXPECT_TRUE(scene.waits(calls[0]));
  scene.wakes();
  scene.pass(kSecond);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kOk) << scene.text(call);
  EXPECT_THAT(scene.box.done, ElementsAre("add switchml.a", "remove switchml.a", "add switchml.a"));
}

// A restart: what was there is removed, the Add is carried out, and its answer is lost.
TEST(SessionBox, AnAddThatWasCarriedOutWithoutAnAnswerIsNobodyElses) {
  Scene scene;
  scene.close_all(scene.run(2));
  const auto all = scene.meet(2);
  scene.box.hangs = true;
  const auto calls = scene.last_barriers(all);
  bool lost = false;
  for (int round = 0; round < 10 && !lost; ++round) {
    scene.pass(kSecond / 10);
    for (const Order& order : std::exchange(scene.box.held, {})) {
      const auto* const add = std::get_if<Add>(&order);
      if (add == nullptr) {
        scene.box.carry_out(order, scene.service, scene.now);
        continue;
      }
      lost = true;
      scene.box.sessions[add->name] = {add->job};
      scene.service.added(add->name, tl::unexpected<BoxTrouble>(away()), scene.now);
    }
    scene.settle();
  }
  ASSERT_TRUE(lost);
  scene.box.hangs = false;
  scene.pass(2 * kSecond);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kOk) << scene.text(call);
}

TEST(SessionBox, APeerThatLeavesWhileTheBoxIsAskedEndsItForAll) {
  Scene scene;
  const auto all = scene.meet(2);
  scene.box.phase = "declared";
  const auto calls = scene.last_barriers(all);
  scene.close(all[1]);
  EXPECT_EQ(scene.code(calls[0]), Code::kAborted);
  EXPECT_THAT(scene.box.sessions, IsEmpty());
  scene.box.phase = "running";
  scene.run(2);
  EXPECT_EQ(scene.service.sessions(), 1U);
}

TEST(SessionBox, ATallydStartedAgainWhileItIsAskedIsAskedAgain) {
  Scene scene;
  const auto all = scene.meet(2);
  scene.box.phase = "forming";
  const auto calls = scene.last_barriers(all);
  scene.box.sessions.clear();
  scene.box.anew = true;
  scene.box.phase = "running";
  scene.pass(2 * kSecond);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kOk);
  EXPECT_THAT(scene.box.done, ElementsAre("add switchml.a", "add switchml.a"));
}

TEST(SessionBox, ItsOwnMacAndAddressAreRefusedAsTheBoxHasThemNow) {
  Scene scene;
  const ConnectionId zero = scene.connect();
  UdpSession wish = Scene::wish(0, 1, 11);
  wish.mac = number_of(kBoxHere.mac);
  scene.broadcast(zero, 0, 1);
  EXPECT_EQ(scene.code(scene.ask(zero, wish)), Code::kInvalidArgument);
  scene.box.addresses.mac = {2, 2, 2, 2, 2, 2};
  scene.pass(6 * kSecond);
  scene.broadcast(zero, 0, 1);
  const CallId call = scene.ask(zero, wish);
  EXPECT_EQ(scene.code(call), Code::kOk);
  EXPECT_EQ(scene.answers.at(call).mac, 0x020202020202U);
}

TEST(SessionBox, ABoxWithoutIpv4ServesNobody) {
  Scene scene;
  scene.box.addresses.ipv4.reset();
  scene.pass(6 * kSecond);
  const ConnectionId zero = scene.connect();
  scene.broadcast(zero, 0, 1);
  EXPECT_EQ(scene.code(scene.session(zero, 0, 1, 11)), Code::kFailedPrecondition);
}

TEST(SessionBox, WhoIsAwayIsToldOnce) {
  Scene scene;
  scene.box.trouble = away();
  scene.pass(60 * kSecond);
  scene.box.trouble.reset();
  scene.pass(6 * kSecond);
  const auto count = [&](const std::string& words) {
    std::size_t found = 0;
    for (auto at = scene.log.find(words); at != std::string::npos; at = scene.log.find(words, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("tallyd is away"), 1U);
  EXPECT_EQ(count("tallyd is there"), 2U);
}

TEST(SessionBox, AnIdleServiceAsksSeldom) {
  Scene scene;
  scene.box.hangs = true;
  scene.pass(60 * kSecond);
  EXPECT_LE(scene.box.held.size(), 1U) << "one question at a time";
}

}  // namespace
}  // namespace tally::session_service

// The life of a session that runs: what ends it and what does not.

#include "session_service_scene.h"

namespace tally::session_service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(SessionLife, EndsWhenAllConnectionsAreClosedAndNoPacketsCome) {
  Scene scene;
  const auto all = scene.run(2);
  scene.close(all[0]);
  scene.pass(60 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 1U) << "one is open";
  scene.close(all[1]);
  scene.pass(settings_of().idle - kSecond);
  EXPECT_EQ(scene.service.sessions(), 1U) << "it may be a pause of clients whose connections were cut";
  scene.pass(3 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 0U);
  EXPECT_THAT(scene.box.sessions, IsEmpty());
}

TEST(SessionLife, GoesOnWithoutConnectionsWhilePacketsFlow) {
  Scene scene;
  scene.close_all(scene.run(2));
  for (int second = 0; second < 60; ++second) {
    scene.box.sessions["switchml.a"].packets += 100;
    scene.pass(kSecond);
  }
  EXPECT_EQ(scene.service.sessions(), 1U);
  scene.pass(settings_of().idle + 3 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 0U);
}

TEST(SessionLife, GoesOnWhileTheBoxSaysThatItHasSeenSomebody) {
  Scene scene;
  scene.close_all(scene.run(2));
  scene.box.sessions["switchml.a"].seen_ago = kSecond;
  scene.pass(60 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 1U);
}

TEST(SessionLife, ALongSilenceWithOpenConnectionsEndsNothing) {
  Scene scene;
  scene.run(2);
  scene.box.sessions["switchml.a"].packets = 5'000;
  scene.pass(24 * 3600 * kSecond / 8);
  EXPECT_EQ(scene.service.sessions(), 1U);
  EXPECT_TRUE(scene.box.sessions.contains("switchml.a"));
}

TEST(SessionLife, IsNotEndedWhileNobodyKnowsWhetherPacketsCome) {
  Scene scene;
  const auto all = scene.run(2);
  scene.box.trouble = BoxTrouble{BoxTrouble::Kind::kAway, "no answer"};
  scene.close_all(all);
  scene.pass(2 * settings_of().idle);
  EXPECT_EQ(scene.service.sessions(), 1U);
  scene.box.trouble.reset();
  scene.box.sessions["switchml.a"].packets = 1'000;  // they came meanwhile
  scene.pass(2 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 1U);
  scene.pass(settings_of().idle + 3 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 0U);
}

TEST(SessionLife, TheServicesOwnPauseEndsNothing) {
  Scene scene;
  scene.close_all(scene.run(2));
  scene.box.hangs = true;
  scene.now += 2 * settings_of().idle;  // nothing was looked at meanwhile
  scene.service.tick(scene.now);
  scene.settle();
  EXPECT_EQ(scene.service.sessions(), 1U);
}

TEST(SessionLife, ANewBroadcastOfTheSameClientsReplacesIt) {
  Scene scene;
  const auto all = scene.run(2);
  scene.box.done.clear();
  for (std::uint32_t rank = 0; rank < 2; ++rank) scene.broadcast(all[rank], rank, 2, 8);
  EXPECT_EQ(scene.service.sessions(), 1U) << "nothing is touched before all are there";
  scene.register_all(all);
  const auto calls = scene.last_barriers(all);
  scene.pass(kSecond);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kOk);
  EXPECT_THAT(scene.box.done, ElementsAre("remove switchml.a", "add switchml.a"));
  EXPECT_EQ(scene.service.sessions(), 1U);
}

TEST(SessionLife, ClientsThatAreStartedAgainReplaceIt) {
  Scene scene;
  const auto before = scene.run(2);
  scene.box.done.clear();
  scene.close(before[0]);  // the other's connection is still open: nobody has told us that it died
  scene.run(2);
  EXPECT_THAT(scene.box.done, ElementsAre("remove switchml.a", "add switchml.a"));
  // What is left of the old ones has no part in the new session.
  EXPECT_EQ(scene.code(scene.barrier(before[1], 2)), Code::kAborted);
  scene.close(before[1]);
  scene.pass(20 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 1U);
}

TEST(SessionLife, OneClientStartedAgainWaitsAndTouchesNothing) {
  Scene scene;
  const auto all = scene.run(2);
  scene.close(all[1]);
  const CallId waits = scene.broadcast(scene.connect(), 1, 2);
  scene.pass(61 * kSecond);
  EXPECT_EQ(scene.code(waits), Code::kDeadlineExceeded);
  EXPECT_EQ(scene.service.sessions(), 1U);
  // Rank 0 gets its UdpSession before anybody else is there.
  const ConnectionId zero = scene.connect();
  scene.broadcast(zero, 0, 2);
  EXPECT_EQ(scene.code(scene.session(zero, 0, 2, 11)), Code::kOk);
  scene.close(zero);
  EXPECT_EQ(scene.service.sessions(), 1U);
  EXPECT_TRUE(scene.box.sessions.contains("switchml.a"));
}

// A test on the side, on a host of the session, or one who only says that he is there.
TEST(SessionLife, OneOfItsMembersAloneDoesNotReplaceASessionAtWork) {
  Scene scene;
  scene.run(3);
  const ConnectionId one = scene.connect();
  scene.broadcast(one, 0, 1);
  const CallId call = scene.session(one, 0, 1, 12);
  EXPECT_EQ(scene.code(call), Code::kFailedPrecondition);
  EXPECT_THAT(scene.text(call), HasSubstr("3 of 3 connected"));
  EXPECT_EQ(scene.service.sessions(), 1U);
  EXPECT_TRUE(scene.box.sessions.contains("switchml.a"));
}

// Else a packet of an old process, which the box cannot tell from its successor's, would stand for the successor's.
TEST(SessionLife, ItIsNotReplacedWhileItsOldProcessesSend) {
  Scene scene;
  const auto before = scene.run(2);
  scene.box.sessions["switchml.a"].packets = 10;
  scene.pass(2 * kSecond);
  scene.box.done.clear();
  const auto all = scene.meet(2);
  const auto calls = scene.last_barriers(all);
  for (int step = 0; step < 20; ++step) {
    scene.box.sessions["switchml.a"].packets += 10;
    scene.pass(kSecond / 2);
    EXPECT_EQ(scene.waits(calls[0]), step < 19) << step;
  }
  scene.pass(kSecond);
  for (const CallId call : calls) {
    EXPECT_EQ(scene.code(call), Code::kFailedPrecondition);
    EXPECT_THAT(scene.text(call), HasSubstr("still send"));
  }
  EXPECT_THAT(scene.box.done, IsEmpty());
  EXPECT_EQ(scene.service.sessions(), 1U);
}

TEST(SessionLife, ItIsReplacedAMomentAfterItsOldProcessesHaveSentLast) {
  Scene scene;
  const auto before = scene.run(2);
  scene.box.done.clear();
  scene.box.sessions["switchml.a"].packets = 10;
  scene.pass(2 * kSecond);
  scene.box.sessions["switchml.a"].packets = 20;
  scene.pass(kSecond);
  scene.close_all(before);
  const auto all = scene.meet(2);
  const auto calls = scene.last_barriers(all);
  EXPECT_TRUE(scene.waits(calls[0]));
  scene.pass(4 * kSecond);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kOk) << scene.text(call);
  EXPECT_THAT(scene.box.done, ElementsAre("remove switchml.a", "add switchml.a"));
}

TEST(SessionLife, OthersAreRefusedThePortOfASessionAtWork) {
  Scene scene;
  const auto all = scene.run(2);
  const ConnectionId zero = scene.connect();
  scene.broadcast(zero, 0, 1);
  const CallId call = scene.session(zero, 0, 1, 77);
  EXPECT_EQ(scene.code(call), Code::kFailedPrecondition);
  EXPECT_THAT(scene.text(call), HasSubstr("port 50099 serves one session at a time"));
  EXPECT_THAT(scene.text(call), HasSubstr("2 of 2 connected"));
  scene.close_all(all);
  scene.pass(10 * kSecond);
  scene.broadcast(zero, 0, 1);
  EXPECT_EQ(scene.code(scene.session(zero, 0, 1, 77)), Code::kOk);
}

// Sessions of a former life of the service.

Json left_job(const char* name = "switchml.a") {
  return job_of(name, {{{2, 0, 0, 0, 0, 11}, {10, 0, 0, 11}}, {{2, 0, 0, 0, 0, 12}, {10, 0, 0, 12}}}, 1024,
                settings_of());
}

struct FormerLife : Scene {
  explicit FormerLife(const char* name = "switchml.a") : Scene(settings_of(0)) {
    box.sessions[name] = {left_job(name)};
    service = Service(settings_of());
    pass(kSecond);
  }
};

TEST(SessionLife, ANewLifeOfTheServiceLeavesSessionsAsTheyAre) {
  FormerLife scene;
  EXPECT_EQ(scene.service.sessions(), 1U);
  EXPECT_THAT(scene.log, HasSubstr("runs since before this service was started, 2 members"));
  scene.pass(9 * 60 * kSecond);
  EXPECT_THAT(scene.box.done, IsEmpty());
  scene.pass(2 * 60 * kSecond);
  EXPECT_THAT(scene.box.done, ElementsAre("remove switchml.a"));
}

TEST(SessionLife, IdleCountsFromTheLastPacketOfSuchASession) {
  FormerLife scene;
  for (int minute = 0; minute < 60; ++minute) {
    ++scene.box.sessions["switchml.a"].packets;
    scene.pass(60 * kSecond);
  }
  EXPECT_THAT(scene.box.done, IsEmpty());
  scene.pass(11 * 60 * kSecond);
  EXPECT_THAT(scene.box.done, ElementsAre("remove switchml.a"));
}

TEST(SessionLife, ASessionOfAPortThatIsNoneAnyMoreIsFoundToo) {
  FormerLife scene("switchml.gone");
  EXPECT_EQ(scene.service.sessions(), 1U);
  const ConnectionId zero = scene.connect();
  scene.broadcast(zero, 0, 1);
  EXPECT_EQ(scene.code(scene.session(zero, 0, 1, 11)), Code::kAlreadyExists);
  scene.pass(11 * 60 * kSecond);
  EXPECT_THAT(scene.box.done, ElementsAre("remove switchml.gone"));
  EXPECT_EQ(scene.service.sessions(), 0U);
}

TEST(SessionLife, SessionsOfOtherNamesAreNotTouched) {
  FormerLife scene("legacy");
  scene.pass(3600 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 0U);
  EXPECT_THAT(scene.box.done, IsEmpty());
}

TEST(SessionLife, ItsOwnClientsTakeItOverAndOthersDoNot) {
  FormerLife scene;
  const ConnectionId other = scene.connect();
  scene.broadcast(other, 0, 1);
  const CallId refused = scene.session(other, 0, 1, 77);
  EXPECT_EQ(scene.code(refused), Code::kFailedPrecondition);
  EXPECT_THAT(scene.text(refused), HasSubstr("since before this service was started"));
  scene.close(other);
  scene.run(2);
  EXPECT_THAT(scene.box.done, ElementsAre("remove switchml.a", "add switchml.a"));
}

// tallyd's lives.

TEST(SessionLife, IsDeclaredAgainWhenItsTallydIsStartedAgain) {
  Scene scene;
  scene.run(2);
  const Json job = scene.box.sessions["switchml.a"].job;
  scene.box.sessions.clear();
  scene.box.anew = true;
  scene.pass(3 * kSecond);
  ASSERT_TRUE(scene.box.sessions.contains("switchml.a"));
  EXPECT_EQ(scene.box.sessions["switchml.a"].job, job);
  EXPECT_EQ(scene.service.sessions(), 1U);
}

TEST(SessionLife, OneOfAFormerLifeIsDeclaredAgainAsItWas) {
  FormerLife scene;
  scene.box.sessions.clear();
  scene.box.anew = true;
  scene.pass(3 * kSecond);
  EXPECT_EQ(scene.box.sessions["switchml.a"].job, left_job());
}

TEST(SessionLife, IsDeclaredAgainAlsoIfTheFirstTryFails) {
  Scene scene;
  scene.run(2);
  scene.box.sessions.clear();
  scene.box.anew = true;
  scene.box.add_trouble = BoxTrouble{BoxTrouble::Kind::kAway, "no answer"};
  scene.pass(5 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 1U);
  scene.box.add_trouble.reset();
  scene.pass(3 * kSecond);
  EXPECT_TRUE(scene.box.sessions.contains("switchml.a"));
}

TEST(SessionLife, ATallydThatEndsMakesNobodyForgetAnything) {
  Scene scene;
  scene.run(2);
  scene.box.ending = true;
  scene.box.sessions.clear();
  scene.pass(20 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 1U);
  scene.box.ending = false;
  scene.box.anew = true;
  scene.pass(10 * kSecond);
  EXPECT_TRUE(scene.box.sessions.contains("switchml.a"));
}

TEST(SessionLife, ASessionThatEndedWithItsTallydIsKept) {
  Scene scene;
  const auto all = scene.run(2);
  scene.box.sessions["switchml.a"].phase = "ended";  // and no word of an end of tallyd itself
  scene.pass(20 * kSecond);
  scene.close_all(all);
  scene.pass(20 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 1U) << "whether packets come nobody knows";
}

TEST(SessionLife, WhatIsRemovedAtTheBoxIsOverAndItsClientsLearnIt) {
  Scene scene;
  const auto all = scene.run(2);
  const CallId waits = scene.barrier(all[0], 2);
  scene.box.sessions.clear();
  scene.pass(3 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 0U);
  EXPECT_EQ(scene.code(waits), Code::kAborted);
  EXPECT_THAT(scene.text(waits), HasSubstr("it was removed at the box"));
  EXPECT_EQ(scene.code(scene.barrier(all[1], 2)), Code::kAborted);
  EXPECT_EQ(scene.code(scene.broadcast(all[0], 0, 2)), Code::kOk) << "and may begin anew";
}

TEST(SessionLife, ASessionThatCannotBeDeclaredAgainIsOver) {
  Scene scene;
  scene.run(2);
  scene.box.sessions.clear();
  scene.box.anew = true;
  scene.box.add_trouble = BoxTrouble{BoxTrouble::Kind::kUnfit, "/members/0: taken"};
  scene.pass(3 * kSecond);
  EXPECT_EQ(scene.service.sessions(), 0U);
  EXPECT_THAT(scene.log, HasSubstr("could not be declared again: /members/0: taken"));
}

TEST(SessionLife, StoppingLeavesSessionsAtTheBox) {
  Scene scene;
  scene.run(2);
  scene.box.done.clear();
  scene.service.stop();
  scene.settle();
  EXPECT_THAT(scene.box.done, IsEmpty());
  EXPECT_TRUE(scene.box.sessions.contains("switchml.a"));
}

TEST(SessionLife, IsReadFromWhatTheBoxShows) {
  const Json shown =
      Json::parse(R"({"name": "switchml.a", "dialect": "switchml", "made_by": "job.add", "phase": "running",
    "reason": "", "contributions": 5, "repeats": 2, "relays": 0, "drops": 1,
    "session": {"payload": 256, "slots": 64, "tsi": "opaque"},
    "ranks": [{"mac": "02:00:00:00:00:01", "address": "10.0.0.11", "seen_ns_ago": 900},
              {"mac": "02:00:00:00:00:02", "address": "10.0.0.12", "seen_ns_ago": null}]})");
  const auto read = session_of(shown);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->packets, 8U);
  EXPECT_EQ(read->seen_ago, TimeNs{900});
  EXPECT_EQ(read->tsi, jobs::TsiRule::kOpaque);
  ASSERT_EQ(read->members.size(), 2U);
  EXPECT_EQ(read->members[1], (Claim{{2, 0, 0, 0, 0, 2}, {10, 0, 0, 12}}));
  for (const auto& [key, other] : {std::pair{"made_by", "file"}, {"dialect", "native"}, {"phase", "gone"}}) {
    Json differs = shown;
    differs[key] = other;
    EXPECT_FALSE(session_of(differs)) << key;
  }
  EXPECT_FALSE(session_of(Json::array()));
  EXPECT_FALSE(session_of({{"dialect", "switchml"}, {"made_by", "job.add"}}));
}

TEST(SessionLife, TheBoxsAddressesAreReadFromItsConfiguration) {
  const auto read =
      addresses_of("instance: x\nbox:\n  ipv4: 10.0.0.1/24\n  mac: 02:00:00:00:00:fe\nnewer: {key: 1}\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->mac, kBoxHere.mac);
  EXPECT_EQ(read->ipv4, kBoxHere.ipv4);
  const auto made = addresses_of("instance: x\nbox:\n  ipv4: none\n  mac: auto\n");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->mac[0], 0x02);
  EXPECT_FALSE(made->ipv4);
  EXPECT_FALSE(addresses_of("instance: x\n"));
  EXPECT_FALSE(addresses_of("{"));
}

}  // namespace
}  // namespace tally::session_service

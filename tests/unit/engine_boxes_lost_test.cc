// A job over several boxes: what becomes of boxes that are silent, refuse or forgot, and how a member ends
// (docs/protocol_boxes.md, 17.2 and 17.3).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "box_says.h"
#include "engine_boxes_scene.h"

namespace tally::testbed {
namespace {

using engine::EngineState;
using engine::GuestState;
using testing::HasSubstr;

class BoxesLost : public testing::Test {
 protected:
  BoxesLost() : scene_(planned_shape(2), even_plan(3, 2)) {}
  void enlist() { ASSERT_TRUE(scene_.run_until_enlisted()); }
  BoxesScene scene_;
};

TEST_F(BoxesLost, WhoIsSilentForItsLimitIsGoneAndTheHomeHearsOfIt) {
  enlist();
  scene_.at(2).silent = true;
  const TimeNs from = scene_.now;
  ASSERT_TRUE(scene_.run_until([&] { return scene_.lost.size() == 2; }));
  EXPECT_LE(scene_.now - from, kGuestSilence + 10 * kMillisecond);
  EXPECT_GE(scene_.now - from, kGuestSilence - kGuestSilence / 4 - 10 * kMillisecond)
      << "the newest echo may be so old";
  EXPECT_EQ(scene_.lost[0].gone.host(), 1U << 2);
  EXPECT_EQ(scene_.lost[0].forgot.host(), 0U);
  EXPECT_EQ(scene_[0].guest(2).state(), GuestState::kGone);
  EXPECT_EQ(scene_[0].statistics().boxes_lost, 1U);
  EXPECT_EQ(scene_[0].state(), EngineState::kRunning) << "the home decides";
}

TEST_F(BoxesLost, ItIsSaidAgainWithEachHeartbeatUntilThereIsAnotherEpoch) {
  enlist();
  scene_.at(2).silent = true;
  ASSERT_TRUE(scene_.run_until([&] { return scene_.lost.size() == 2; }));
  const std::uint64_t before = scene_.losts;
  scene_.run_for(5 * kSecond);
  EXPECT_NEAR(static_cast<double>(scene_.losts - before), 2 * 5, 2);
  scene_.change_plan(even_plan(2, 2));
  ASSERT_TRUE(scene_.run_until(
      [&] { return scene_[0].statistics().epochs == 2 && scene_[1].statistics().epochs == 2; }));
  const std::uint64_t after = scene_.losts;
  scene_.run_for(3 * kSecond);
  EXPECT_EQ(scene_.losts, after);
  EXPECT_EQ(scene_[0].boxes().size(), 2U);
  EXPECT_TRUE(scene_.reduce(100));
}

TEST_F(BoxesLost, WhoNeverAnswersAnEnlistIsGone) {
  scene_.at(1).silent = true;
  ASSERT_TRUE(scene_.run_until_running());
  const TimeNs from = scene_.now;
  ASSERT_TRUE(scene_.run_until([&] { return scene_.lost.size() == 2; }));
  EXPECT_NEAR(static_cast<double>(scene_.now - from), static_cast<double>(kGuestSilence), 2.0 * kMillisecond);
  EXPECT_EQ(scene_.lost[1].gone.host(), 1U << 1);
}

TEST_F(BoxesLost, WhoRefusesIsGoneAtOnce) {
  scene_.at(1).refuses = true;
  ASSERT_TRUE(scene_.run_until([&] { return scene_.lost.size() == 2; }, 100 * kMillisecond));
  EXPECT_EQ(scene_.lost[0].gone.host(), 1U << 1);
  const std::uint64_t enlists = scene_.at(1).of(PacketType::kEnlist);
  scene_.run_for(3 * kSecond);
  EXPECT_EQ(scene_.at(1).of(PacketType::kEnlist), enlists) << "it is not asked again in this epoch";
}

TEST_F(BoxesLost, FormingIsAnAnswer) {
  scene_.at(1).holds = true;
  ASSERT_TRUE(scene_.run_until_running());
  scene_.run_for(5 * kGuestSilence);
  EXPECT_TRUE(scene_.lost.empty());
  scene_.at(1).holds = false;
  ASSERT_TRUE(scene_.run_until_enlisted());
}

TEST_F(BoxesLost, RejectOfControlMeansThatItForgot) {
  enlist();
  scene_.deliver(1, 0, scene_.forgets(1, 0));
  EXPECT_EQ(scene_[0].guest(1).state(), GuestState::kForgot);
  ASSERT_TRUE(scene_.run_until([&] { return scene_.lost.contains(0); }, 10 * kMillisecond));
  EXPECT_EQ(scene_.lost[0].gone.host(), 0U);
  EXPECT_EQ(scene_.lost[0].forgot.host(), 1U << 1);
}

TEST_F(BoxesLost, AHeartbeatThatIsAnsweredByNoSuchJobMeansTheSame) {
  enlist();
  Bytes beat;
  scene_.watch = [&](std::size_t box, const Header& h, const Bytes& bytes, TimeNs) {
    if (box == 1 && h.type == PacketType::kHeartbeat && h.rank.host() == 0) beat = bytes;
  };
  scene_.lose = [&](bool to_box, std::size_t box, std::uint16_t, const Header&) {
    return !to_box && box == 1;
  };
  ASSERT_TRUE(scene_.run_until([&] { return !beat.empty(); }));
  const Header asked = header_of(beat);
  Header h;
  h.type = PacketType::kReject;
  h.rank = Be{raw(kSwitchRank)};
  h.job = asked.job;
  h.epoch = asked.epoch;
  h.slot = Be{static_cast<std::uint32_t>(RejectReason::kJob)};
  const std::uint64_t counter = wire_at<CountedPayload>(beat.data() + kHeaderBytes).counter.host();
  scene_.deliver(1, 0, box_says(h, counter + 1, Box::job_key()));
  EXPECT_EQ(scene_[0].statistics().of(Refused::kReplay), 1U) << "it answers nothing that was said";
  scene_.deliver(1, 0, box_says(h, counter, Box::job_key()));
  EXPECT_EQ(scene_[0].guest(1).state(), GuestState::kForgot);
}

TEST_F(BoxesLost, WhatOneBoxSaysIsNothingToAnother) {
  enlist();
  // The session key and the job id of box 1, said by box 2, and by the home.
  const Bytes of_one = scene_.forgets(1, 0);
  scene_.deliver(2, 0, of_one);
  scene_.deliver(kHome, 0, of_one);
  Header h = header_of(of_one);
  h.job = Be{scene_.at(2).job};
  const auto body = auth::body_of(std::span(of_one).subspan(kHeaderBytes));
  scene_.deliver(2, 0, box_says(h, body, scene_.session_of(1, 0)));
  EXPECT_EQ(scene_[0].statistics().of(Refused::kJob), 2U);
  EXPECT_EQ(scene_[0].statistics().of(Refused::kTag), 1U);
  EXPECT_TRUE(scene_.known_everywhere(0));
}

TEST_F(BoxesLost, AnAddressThatIsNotInTheListIsRefused) {
  enlist();
  scene_[0].receive(scene_.from_box(1, PacketType::kHeartbeat, 0), scene_.now, 7);
  EXPECT_EQ(scene_[0].statistics().of(Refused::kPeer), 1U);
}

TEST_F(BoxesLost, ABareRejectIsAHintAndAsksByHeartbeat) {
  enlist();
  Header h;
  h.type = PacketType::kReject;
  h.rank = Be{raw(kSwitchRank)};
  h.job = Be{scene_.at(1).job};
  h.epoch = Be{scene_.sum.epoch};
  h.slot = Be{static_cast<std::uint32_t>(RejectReason::kEpoch)};
  const std::uint64_t beats = scene_.at(1).of(PacketType::kHeartbeat);
  for (int i = 0; i < 50; ++i) scene_.deliver(1, 0, sealed(h));
  scene_.run_for(kMillisecond);
  EXPECT_EQ(scene_.at(1).of(PacketType::kHeartbeat), beats + 1) << "one for all of them";
  EXPECT_TRUE(scene_.known_everywhere(0)) << "anybody can make it";
}

TEST_F(BoxesLost, ResultsOfABoxKeepItAlive) {
  enlist();
  scene_.lose = [](bool to_box, std::size_t box, std::uint16_t, const Header& h) {
    return !to_box && box != kHome && h.type == PacketType::kHeartbeat;
  };
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(scene_.reduce(30));
    scene_.run_for(kGuestSilence / 4);
  }
  EXPECT_TRUE(scene_.lost.empty());
  scene_.run_for(kGuestSilence);
  EXPECT_FALSE(scene_.lost.empty());
}

TEST_F(BoxesLost, NothingIsSentToALostBoxAndOthersGoOn) {
  enlist();
  scene_.deliver(1, 0, scene_.forgets(1, 0));
  const std::uint64_t before = scene_.at(1).of(PacketType::kContribute) + scene_.at(1).of(PacketType::kQuery);
  (void)scene_.submit(0, 12);
  scene_.run_for(5 * kSecond);
  EXPECT_EQ(scene_.at(1).of(PacketType::kContribute) + scene_.at(1).of(PacketType::kQuery), before);
  EXPECT_GT(scene_.at(2).of(PacketType::kContribute), 0U);
  EXPECT_GT(scene_.at(kHome).of(PacketType::kContribute), 0U);
}

TEST_F(BoxesLost, TheTimeInWhichAWorkerDidNotRunIsNobodysSilence) {
  enlist();
  scene_.now += 5 * kSecond;
  scene_.run_for(kGuestSilence / 2);
  EXPECT_TRUE(scene_.lost.empty());
  EXPECT_EQ(scene_[0].state(), EngineState::kRunning);
}

TEST_F(BoxesLost, ASilentHomeIsJoinedAgainAndThenItsBoxesAreAsked) {
  enlist();
  scene_.at(kHome).silent = true;
  scene_.at(2).elsewhere = address_of_box(1);
  scene_.at(1).unknown = false;
  // Box 1 adopts the job: it is the home from now on.
  ASSERT_TRUE(scene_.run_until([&] { return scene_[0].state() == EngineState::kJoining; }));
  EXPECT_GE(scene_.now, 4 * kSecond) << "half a lease";
  scene_.home = 1;
  scene_.sum.restart();
  scene_.sum.job = scene_.at(1).job;
  scene_.at(1).epoch = 0;
  ASSERT_TRUE(scene_.run_until(
      [&] { return scene_[0].statistics().epochs == 2 && scene_[1].statistics().epochs == 2; },
      10 * kSecond));
  EXPECT_EQ(scene_[0].boxes()[0], address_of_box(1));
  EXPECT_EQ(scene_[0].statistics().generations, 1U) << "what was numbered stays";
}

TEST_F(BoxesLost, WhenNobodyKnowsTheHomeTheWorkerIsUnreachableAfterALease) {
  enlist();
  for (auto& box : scene_.boxes) box.silent = true;
  const TimeNs from = scene_.now;
  ASSERT_TRUE(scene_.run_until([&] { return scene_[0].state() == EngineState::kClosed; }));
  EXPECT_EQ(scene_[0].why_closed().code, ErrorCode::kUnreachable);
  EXPECT_LE(scene_.now - from, 10 * kSecond + kMillisecond);
}

TEST_F(BoxesLost, AHintOfTheHomeLeavesTheOthersAsTheyWere) {
  enlist();
  scene_.deliver(kHome, 0, scene_.sum.call_back(0));  // and then it offers the same epoch
  ASSERT_EQ(scene_[0].state(), EngineState::kJoining);
  ASSERT_TRUE(scene_.run_until_running());
  EXPECT_EQ(scene_[0].statistics().epochs, 1U);
  EXPECT_TRUE(scene_.known_everywhere(0)) << "it need not enlist anew";
  EXPECT_TRUE(scene_.reduce(64));
}

TEST_F(BoxesLost, WhoLeavesSaysSoOnceToEachBox) {
  enlist();
  for (auto& engine : scene_.engines) engine->leave(scene_.now);
  ASSERT_TRUE(scene_.run_until([&] {
    return std::all_of(scene_.engines.begin(), scene_.engines.end(), [](const auto& e) {
      return e->state() == EngineState::kClosed && e->deadline() == kNever;
    });
  }));
  scene_.run_for(kSecond);
  EXPECT_EQ(scene_[0].why_closed().code, ErrorCode::kClosed);
  for (std::size_t b = 1; b < 3; ++b) {
    EXPECT_EQ(scene_.at(b).left.size(), 2U);
    EXPECT_EQ(scene_.at(b).of(PacketType::kLeave), 2U);
  }
}

TEST_F(BoxesLost, AnAbortHereIsToldTheHomeAndLeavesTheOthers) {
  enlist();
  scene_[0].abort("disk full", scene_.now);
  ASSERT_TRUE(scene_.run_until([&] { return scene_[1].state() == EngineState::kClosed; }));
  EXPECT_THAT(scene_[1].why_closed().what, HasSubstr("disk full"));
  scene_.run_for(kMillisecond);
  EXPECT_TRUE(scene_.at(1).left.contains(0));
}

TEST_F(BoxesLost, AnAbortOfABoxEndsTheJobByTheHome) {
  enlist();
  engine::Membership m = scene_.sum.epoch_of(0);
  m.job = JobId{scene_.at(2).job};
  m.session = scene_.session_of(2, 0);
  scene_.deliver(
      2, 0, box_tells(m, box_header(m, PacketType::kAbort), text_bytes("ranks 0 and 1 disagree in chunk 7")));
  EXPECT_EQ(scene_[0].state(), EngineState::kClosed);
  ASSERT_TRUE(scene_.run_until([&] { return scene_[1].state() == EngineState::kClosed; }));
  EXPECT_THAT(scene_[1].why_closed().what, HasSubstr("disagree in chunk 7"));
}

TEST_F(BoxesLost, AMismatchThatABoxTellsWhoEnlistsEndsTheJobToo) {
  scene_.at(1).holds = true;
  ASSERT_TRUE(scene_.run_until_running());
  scene_.run_for(10 * kMillisecond);
  engine::Membership m = scene_.sum.epoch_of(0);
  m.job = JobId{scene_.at(1).job};
  m.session = scene_.session_of(1, 0);
  scene_.deliver(1, 0, box_tells(m, box_header(m, PacketType::kAbort), text_bytes("disagree")));
  EXPECT_EQ(scene_[0].state(), EngineState::kClosed);
  EXPECT_THAT(scene_[0].why_closed().what, HasSubstr("disagree"));
}

}  // namespace
}  // namespace tally::testbed

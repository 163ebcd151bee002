// The home of a job over several boxes becomes another one (docs/protocol_boxes.md, 17.2).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_boxes_support.h"

namespace tally::members_test {
namespace {

using members::JobPhase;

TEST_F(MembersBoxesHome, AnotherBoxTakesTheJobOverFromWhatItsMembersSay) {
  ASSERT_TRUE(form());
  ASSERT_TRUE(enlist_all(1));
  const GenerationRecord record = all[0].last;
  const std::uint32_t epoch = all[0].epoch;
  for (Bench& bench : boxes) ASSERT_TRUE(bench.members->set_home("resnet", box_address(1), bench.now));
  expect_called_back(home().settle());
  EXPECT_EQ(row(0), nullptr);
  EXPECT_EQ(status(0).slots.count, 0U);
  const auto at_new = boxes[1].settle();
  for (const Member& m : all) {
    const Sent s = only(at_new, PacketType::kReject, m);
    EXPECT_TRUE(auth::verify(m.key_of(1), s.header, s.payload)) << "as a box it forgot the epoch";
  }
  for (const std::size_t box : {0U, 2U}) {
    const Sent s = only(boxes[box].send(all[0], all[0].join()), PacketType::kJoined, all[0]);
    EXPECT_EQ(s.status(), JoinStatus::kElsewhere);
    EXPECT_EQ(static_cast<std::uint8_t>(s.text().back()), box_address(1).back());
  }
  home_ = 1;
  ASSERT_TRUE(form());
  EXPECT_EQ(all[0].last, record) << "adopted";
  EXPECT_NE(all[0].epoch, epoch);
  EXPECT_EQ(all[0].planned.home, 1);
  EXPECT_TRUE(status(1).boxes->home == 1 && status(0).boxes->home == 1);
  EXPECT_TRUE(enlist_all(0)) << "the former home is a box as any other";
  EXPECT_TRUE(enlist_all(2));
}

// What it knew of them went with the home, so nothing else would tell an old one.
TEST_F(MembersBoxesHome, ABoxThatIsHomeAgainObeysNoRequestOfBefore) {
  ASSERT_TRUE(form());
  ASSERT_TRUE(enlist_all(1));
  const Bytes join = boxes[0].with_challenge(all[0], all[0].join());
  const Bytes enlist = boxes[1].with_challenge(all[0], all[0].enlist(1));
  for (const std::size_t home : {1U, 0U}) {
    for (Bench& bench : boxes) {
      ASSERT_TRUE(bench.members->set_home("resnet", box_address(home), bench.now));
      bench.settle();
    }
  }
  only(boxes[0].send_bare(all[0], join), PacketType::kChallenge, all[0]);
  only(boxes[1].send_bare(all[0], enlist), PacketType::kChallenge, all[0]);
}

// It is gone, and could tell nobody.
TEST_F(MembersBoxesHome, AJobIsTakenOverFromADeadHome) {
  ASSERT_TRUE(form());
  const GenerationRecord record = all[0].last;
  for (const std::size_t box : {1U, 2U})
    ASSERT_TRUE(boxes[box].members->set_home("resnet", box_address(2), boxes[box].now));
  home_ = 2;
  ASSERT_TRUE(form());
  EXPECT_EQ(all[0].last, record);
  // It comes back, and does not know yet that it is not the home any more: nobody who knows better joins it.
  ASSERT_TRUE(boxes[0].members->set_home("resnet", box_address(2), boxes[0].now));
  boxes[0].settle();
  EXPECT_TRUE(enlist_all(0));
}

// A fleet may have another home for it by now, that this box does not know of.
struct MembersBoxesUnsure : MembersBoxesHome {
  void be_unsure(std::size_t box) {
    boxes[box].members->hear_of_home("resnet", {.sure_until = boxes[box].now});
  }
  std::uint8_t sent_to(std::size_t box, Member& m) {
    const Sent s = only(boxes[box].send(m, m.join()), PacketType::kJoined, m);
    return s.status() == JoinStatus::kElsewhere ? static_cast<std::uint8_t>(s.text().back()) : 0;
  }
};

TEST_F(MembersBoxesUnsure, WhoJoinsAHomeThatMayBeNoneAsksTheOthersFirst) {
  home().members->hear_of_home("resnet", {.sure_until = home().now + kSecond});
  Member& m = all[0];
  EXPECT_EQ(sent_to(0, m), 0U) << "until then no other box can be it";
  home().advance(kSecond);
  EXPECT_EQ(sent_to(0, m), box_address(1).back());
  EXPECT_EQ(sent_to(0, m), 0U) << "none knew better";
  home().advance(kSecond);
  EXPECT_EQ(sent_to(0, m), 0U);
  home().advance(3 * kSecond);
  EXPECT_EQ(sent_to(0, m), box_address(2).back()) << "nobody is held for good";
  EXPECT_EQ(sent_to(0, all[1]), box_address(1).back());
  home().members->hear_of_home("resnet", {});
  EXPECT_EQ(sent_to(0, all[2]), 0U);
}

// The whole fleet is without its store: nobody knows another home.
TEST_F(MembersBoxesUnsure, AJobFormsAtAHomeThatNobodyDoubts) {
  be_unsure(0);
  for (Member& m : all) EXPECT_NE(sent_to(0, m), 0U);
  ASSERT_TRUE(form());
  ASSERT_TRUE(home().members->replan("resnet", home().now));
  expect_called_back(home().settle());
  ASSERT_TRUE(form()) << "who was here a moment ago is not sent about";
}

TEST_F(MembersBoxesUnsure, WhoWasAwayFromItsEpochAsksTheOthersFirst) {
  ASSERT_TRUE(form());
  be_unsure(0);
  EXPECT_EQ(sent_to(0, all[0]), 0U) << "it is in the epoch of this box";
  pass(4 * kSecond, &all[0], 0);
  EXPECT_EQ(sent_to(0, all[0]), 0U);
  pass(6 * kSecond, &all[0], 0);
  EXPECT_NE(sent_to(0, all[0]), 0U) << "and may be in one of another home by now";
}

TEST_F(MembersBoxesUnsure, WhereABoxKnowsThatNobodyIsTheHomeMembersWait) {
  EXPECT_EQ(sent_to(1, all[0]), box_address(0).back());
  boxes[1].members->hear_of_home("resnet", {.nobody = true});
  const Sent s = only(boxes[1].send(all[0], all[0].join()), PacketType::kJoined, all[0]);
  EXPECT_EQ(s.status(), JoinStatus::kForming);
  EXPECT_EQ(s.joined().missing.host(), 0U);
  EXPECT_TRUE(auth::verify(all[0].job_key(), s.header, s.payload));
  boxes[1].members->hear_of_home("resnet", {});
  EXPECT_EQ(sent_to(1, all[0]), box_address(0).back());
}

TEST_F(MembersBoxesHome, AHomeThatStaysIsNotDisturbed) {
  ASSERT_TRUE(form());
  ASSERT_TRUE(home().members->set_home("resnet", box_address(0), home().now));
  EXPECT_TRUE(home().settle().empty());
  EXPECT_EQ(status(0).phase, JobPhase::kRunning);
  ASSERT_TRUE(enlist_all(1));
  ASSERT_TRUE(boxes[1].members->set_home("resnet", box_address(2), boxes[1].now));
  EXPECT_TRUE(boxes[1].settle().empty()) << "of the two it was neither";
  EXPECT_EQ(status(1).phase, JobPhase::kRunning);
  EXPECT_EQ(status(1).boxes->home, 2);
  EXPECT_FALSE(boxes[1].members->set_home("resnet", box_address(7), boxes[1].now));
  EXPECT_FALSE(boxes[1].members->set_home("resnte", box_address(2), boxes[1].now));
}

// What was to change when nobody is in the job still does, at the box that has become its home.
TEST_F(MembersBoxesHome, ADeferredChangeOutlivesATakeover) {
  ASSERT_TRUE(form());
  members::NativeConfig wanted = config(1);
  wanted.elements = 64;
  ASSERT_TRUE(enlist_all(1));
  ASSERT_TRUE(boxes[1].members->change(wanted, boxes[1].now));
  EXPECT_TRUE(status(1).deferred);
  for (Bench& bench : boxes) ASSERT_TRUE(bench.members->set_home("resnet", box_address(1), bench.now));
  boxes[1].settle();
  EXPECT_TRUE(status(1).deferred);
  home_ = 1;
  ASSERT_TRUE(form());
  EXPECT_EQ(status(1).elements, 352);
  for (const Member& m : all) {
    if (!m.serves()) home().send_bare(m, m.leave());
  }
  EXPECT_FALSE(status(1).deferred);
  for (Member& m : all) m.restart();
  ASSERT_TRUE(form());
  EXPECT_EQ(status(1).elements, 64);
}

}  // namespace
}  // namespace tally::members_test

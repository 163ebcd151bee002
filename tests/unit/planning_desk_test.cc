// When a plan is answered at once, when a better one is looked for, and when it is worth an epoch. Time is simulated.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planning_home.h"

namespace tally::planning {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(PlanningDesk, WithoutAClusterAllBoxesAreAlike) {
  new_epoch();
  EXPECT_EQ(plan_, members::even_plan(request()));
  EXPECT_THAT(job().plan.why_not, HasSubstr("planner.cluster"));
  run(5 * kSecond);
  EXPECT_EQ(works_, 0);
  EXPECT_EQ(wishes_, 0);
}

TEST_F(PlanningDesk, AJobWithSomebodyNowhereIsEvenAndSaysWhom) {
  desk_.set_cluster(two_racks(), now_);
  facts_.ranks[1] = mapped({192, 168, 0, 1});
  new_epoch();
  EXPECT_EQ(plan_, members::even_plan(request()));
  EXPECT_THAT(notes(), HasSubstr("rank 1 at 192.168.0.1"));
  run(5 * kSecond);
  EXPECT_EQ(wishes_, 0);
}

TEST_F(PlanningDesk, TheFirstPlanIsThereAtOnceAndAGoodOneStays) {
  desk_.set_cluster(two_racks(), now_);
  new_epoch();
  EXPECT_NE(plan_, members::even_plan(request()));
  EXPECT_NEAR(job().plan.made.rate, 10, 1e-9);
  EXPECT_TRUE(job().in_haste);
  run(5 * kSecond);
  EXPECT_GE(works_, 1);
  EXPECT_EQ(wishes_, 0) << "nothing is better";
  EXPECT_TRUE(job().baselines.has_value());
  EXPECT_LE(works_, 6) << "and nobody reckons the same for ever";
}

// The second rack's uplink is narrow, and so are the servers, which are in the first: own racks give 5, both boxes for
// both racks 5.33, a mixture of the two 6.
TEST_F(PlanningDesk, ABetterPlanComesWithAnEpochOfItsOwn) {
  desk_.set_cluster(cluster_of("switches: spine1\n"
                               "racks:\n"
                               "  - {name: rack1, hosts: 3, nic: 10G, uplink: 100G, addresses: 10.0.1.0/24}\n"
                               "  - {name: rack2, hosts: 3, nic: 10G, uplink: 8G, addresses: 10.0.2.0/24}\n"
                               "boxes: [{at: [rack1, rack2], rate: 40G, address: \"10.0.[1-2].1\"}]\n"
                               "servers: [{name: \"ps[1-2]\", rack: rack1, nic: 5G}]\n"
                               "results: ignored\n"),
                    now_);
  facts_.servers = {at(1, 8), at(1, 9)};
  new_epoch();
  const double in_haste = job().plan.made.rate;
  run(3 * kSecond);
  EXPECT_EQ(wishes_, 1);
  EXPECT_GE(job().plan.made.rate, 1.05 * in_haste);
  EXPECT_FALSE(job().in_haste);
  EXPECT_EQ(job().pause, kTrip);
  EXPECT_EQ(job().cause, Cause::kRefine);
}

TEST_F(PlanningDesk, ALinkThatIsHalvedBringsAnotherPlanWithinASecondOfTheTrigger) {
  desk_.set_cluster(two_racks("40G"), now_);
  facts_.usable = 3;
  new_epoch();
  run(3 * kSecond);
  const double before = job().plan.made.rate;
  const int wishes = wishes_;
  ASSERT_TRUE(desk_.set_rate("box rack1", 4, now_));
  const TimeNs said = now_;
  run(kSecond - 10 * kMillisecond);
  EXPECT_EQ(wishes_, wishes) << "it may pass";
  run(kSecond);
  EXPECT_EQ(wishes_, wishes + 1);
  EXPECT_GE(last_wish_, said + kSecond);
  EXPECT_LE(last_wish_, said + 2 * kSecond);
  EXPECT_EQ(job().cause, Cause::kDrift);
  EXPECT_THAT(notes(), HasSubstr("box rack1 has 4.00 Gbit/s"));
  // Not faster than before, and faster than what was in force would be by now.
  EXPECT_LT(job().plan.made.rate, before);
  EXPECT_GT(job().plan.made.rate, 1.05 * 2);
  run(10 * kSecond);
  EXPECT_EQ(wishes_, wishes + 1) << "once";
}

TEST_F(PlanningDesk, ARateThatComesBackWithinTheSecondIsNothing) {
  desk_.set_cluster(two_racks("40G"), now_);
  new_epoch();
  run(3 * kSecond);
  const int wishes = wishes_;
  ASSERT_TRUE(desk_.set_rate("box rack1", 4, now_));
  run(kSecond / 2);
  ASSERT_TRUE(desk_.set_rate("box rack1", std::nullopt, now_));
  run(5 * kSecond);
  EXPECT_EQ(wishes_, wishes);
}

TEST_F(PlanningDesk, WhatIsDownIsLeftAtOnce) {
  desk_.set_cluster(two_racks("40G"), now_);
  new_epoch();
  run(3 * kSecond);
  const TimeNs said = now_;
  ASSERT_TRUE(desk_.set_rate("box rack1", 0, now_));
  run(kSecond / 2);
  EXPECT_LE(last_wish_, said + 20 * kMillisecond);
  EXPECT_EQ(job().cause, Cause::kLost);
  EXPECT_THAT(plan_.boxes, ElementsAre(at(2, 1)));
}

TEST_F(PlanningDesk, WhatIsThereAgainIsUsedAgain) {
  desk_.set_cluster(two_racks("40G"), now_);
  new_epoch();
  run(3 * kSecond);
  ASSERT_TRUE(desk_.set_rate("box rack1", 0, now_));
  run(3 * kSecond);
  ASSERT_THAT(plan_.boxes, ElementsAre(at(2, 1)));
  ASSERT_TRUE(desk_.set_rate("box rack1", std::nullopt, now_));
  run(10 * kSecond);
  EXPECT_EQ(plan_.boxes.size(), 2U);
}

TEST_F(PlanningDesk, UnknownNamesAreRefused) {
  EXPECT_FALSE(desk_.set_rate("box rack1", 4, now_)) << "there is no cluster";
  desk_.set_cluster(two_racks(), now_);
  EXPECT_FALSE(desk_.set_rate("box rack9", 4, now_));
  EXPECT_TRUE(desk_.set_rate("link rack1 to spine1", 4, now_));
}

TEST_F(PlanningDesk, ALostBoxReturnsAndTrialsThatFailBecomeRarer) {
  new_epoch();
  facts_.usable = 1;  // members lost the second
  new_epoch();
  EXPECT_EQ(job().cause, Cause::kLost);
  EXPECT_THAT(job().cause_text, HasSubstr("10.0.2.1"));
  const TimeNs lost = now_;
  run(15 * kSecond);
  EXPECT_EQ(wishes_, 1);
  EXPECT_NEAR(static_cast<double>(last_wish_ - lost), static_cast<double>(Comeback::kFirst), 1e7);
  EXPECT_EQ(facts_.usable, 3U);
  EXPECT_EQ(job().cause, Cause::kReturned);
  facts_.usable = 1;  // and again
  new_epoch();
  run(19 * kSecond);
  EXPECT_EQ(wishes_, 1);
  run(2 * kSecond);
  EXPECT_EQ(wishes_, 2);
}

TEST_F(PlanningDesk, NewsOfALostBoxBringItBackAtOnce) {
  new_epoch();
  facts_.usable = 1;
  new_epoch();
  run(kSecond);
  desk_.box_seen(at(2, 1), now_);
  run(10 * kMillisecond);
  EXPECT_EQ(wishes_, 1);
  EXPECT_EQ(facts_.usable, 3U);
}

// Of three boxes this one is in the first rack, and everybody may use each.
struct PlanningDeskWithASpine : PlanningDesk {
  PlanningDeskWithASpine() {
    desk_.set_cluster(
        cluster_of("leaf_spine: {racks: 2, spines: 1, hosts: 3, nic: 10G, uplink: 100G}\n"
                   "places: [{rack: \"rack[1-2]\", addresses: \"10.0.[1-2].0/24\"}]\n"
                   "boxes: [{at: racks, rate: 20G, address: \"10.0.[1-2].1\"}, {at: spine1, rate: 30G, "
                   "address: 10.0.3.1}]\n"
                   "servers: [{name: \"ps[1-2]\", rack: \"rack[1-2]\", nic: 20G}]\n"),
        now_);
    facts_.boxes.push_back(at(3, 1));
    facts_.usable = 7;
    new_epoch();
    run(3 * kSecond);
  }
  std::size_t groups_here() {
    std::size_t groups = 0;
    for (std::size_t box = 0; box < plan_.boxes.size(); ++box) {
      if (plan_.boxes[box] != at(1, 1)) continue;
      for (std::uint32_t g = 0; g < kPlanGroups; ++g)
        groups += plan_.here(static_cast<BoxIndex>(box), g) != 0;
    }
    return groups;
  }
};

TEST_F(PlanningDeskWithASpine, ContributionsWithoutASlotMoveToOtherBoxes) {
  const std::size_t before = groups_here();
  ASSERT_GT(before, 0U);
  saw_misses(0.005);
  run(3 * kSecond);
  EXPECT_EQ(groups_here(), before) << "half a percent is no reason";
  saw_misses(0.5);
  run(3 * kSecond);
  EXPECT_LT(groups_here(), before);
  EXPECT_EQ(job().cause, Cause::kMisses);
}

TEST_F(PlanningDeskWithASpine, WhatMissesTookFromABoxComesBackInTime) {
  const auto limits = [&] { return desk_.work_for_fleet({facts_})->limits; };
  saw_misses(0.5);
  run(3 * kSecond);
  ASSERT_EQ(job().cause, Cause::kMisses);
  run(590 * kSecond);
  EXPECT_THAT(limits(), SizeIs(1)) << "slots are still as few, for all that is known";
  const int works = works_;
  run(10 * kSecond);
  EXPECT_THAT(limits(), IsEmpty());
  EXPECT_GT(works_, works) << "and it is seen whether that is worth a plan";
}

// Half of the workers meet at a rack's own box: a slot there is one for two contributions, not for four.
TEST_F(PlanningDesk, MissesOfARacksOwnBoxAreOfThoseWhoReachIt) {
  desk_.set_cluster(two_racks(), now_);
  new_epoch();
  run(3 * kSecond);
  const auto is_looked_for = [&] {
    run(kSecond);
    return notes().find("another plan is looked for (misses") != std::string::npos;
  };
  (void)notes();
  desk_.saw_slots("vgg", 1'000, 19, now_);
  EXPECT_FALSE(is_looked_for()) << "19 of 2,019";
  desk_.saw_slots("vgg", 1'000, 21, now_);
  EXPECT_TRUE(is_looked_for()) << "21 of 2,021 are more than a percent";
}

// With slots too few everywhere no plan helps, and nobody looks for one again each second.
TEST_F(PlanningDesk, WhatNoPlanMendsIsLookedAtOnceInAWhile) {
  desk_.set_cluster(two_racks(), now_);
  new_epoch();
  run(3 * kSecond);
  const int works = works_;
  for (int second = 0; second < 20; ++second) {
    saw_misses(0.02);
    run(kSecond);
  }
  EXPECT_LE(works_, works + 2);
  EXPECT_EQ(wishes_, 0);
  ASSERT_TRUE(desk_.set_rate("link rack1 to spine1", 8, now_));  // of ten, and own racks are still the best
  (void)desk_.take_notes();
  run(10 * kSecond);
  EXPECT_EQ(wishes_, 0);
  EXPECT_LE(works_, works + 4);
}

// An epoch that begins for another reason keeps the plan that was reckoned well.
TEST_F(PlanningDesk, AnEpochForAnotherReasonKeepsItsPlan) {
  desk_.set_cluster(two_racks("40G"), now_);
  new_epoch();
  ASSERT_TRUE(desk_.set_rate("box rack1", 4, now_));
  run(5 * kSecond);
  ASSERT_EQ(wishes_, 1);
  const Plan before = plan_;
  new_epoch();
  EXPECT_EQ(plan_, before);
  EXPECT_EQ(job().cause, Cause::kRenewed);
  run(5 * kSecond);
  EXPECT_EQ(wishes_, 1);
}

// Membership asks again when somebody is lost while the epoch is offered.
TEST_F(PlanningDesk, AnEpochHasTheCauseForWhichItWasAskedFirst) {
  desk_.set_cluster(two_racks(), now_);
  (void)desk_.plan(request(), now_);
  new_epoch();
  EXPECT_EQ(job().cause, Cause::kFirst);
  facts_.usable = 1;
  (void)desk_.plan(request(), now_);
  const TimeNs asked = now_;
  new_epoch();
  ASSERT_GT(now_, asked);
  EXPECT_EQ(job().cause, Cause::kLost);
  EXPECT_EQ(job().cause_text, "the box at 10.0.2.1");
  EXPECT_EQ(desk_.changes()[static_cast<std::size_t>(Cause::kLost)], 1U);
  new_epoch();
  EXPECT_EQ(job().cause, Cause::kRenewed) << "the next one has its own";
  EXPECT_EQ(job().cause_text, "");
}

// Members wait for the thread that answers.
TEST_F(PlanningDesk, OfManyJobsThatAskTogetherTheLastHaveAllBoxesAlikeUntilTheNextRound) {
  desk_.set_cluster(two_racks(), now_);
  const auto ask = [&](int number) {
    facts_.job = "job" + std::to_string(number);
    return desk_.plan(request(), now_);
  };
  std::size_t planned = 0;
  for (int number = 0; number < 250; ++number) {
    (void)ask(number);
    planned += desk_.jobs().at(facts_.job).plan.planned() ? 1 : 0;
  }
  EXPECT_GE(planned, 100U);
  EXPECT_LT(planned, 200U) << "50 ms, at a microsecond for each rack, box and job";
  EXPECT_THAT(desk_.jobs().at("job249").plan.why_not, HasSubstr("many jobs asked for plans together"));
  EXPECT_EQ(ask(249), members::even_plan(request()));
  now_ += 60 * kMillisecond;
  (void)ask(250);
  EXPECT_TRUE(desk_.jobs().at("job250").plan.planned()) << "the next round";
}

TEST_F(PlanningDesk, AnotherFileOfTheClusterIsPlannedFor) {
  new_epoch();
  desk_.set_cluster(two_racks(), now_);
  run(3 * kSecond);
  EXPECT_EQ(wishes_, 1);
  EXPECT_NEAR(job().plan.made.rate, 10, 1e-9);
  desk_.set_cluster(nullptr, now_);
  run(3 * kSecond);
  EXPECT_EQ(wishes_, 1) << "what runs goes on";
  new_epoch();
  EXPECT_EQ(plan_, members::even_plan(request()));
}

TEST_F(PlanningDesk, WorkOfAFormerClusterIsForgotten) {
  desk_.set_cluster(two_racks(), now_);
  new_epoch();
  now_ += 2 * kSecond;
  auto work = desk_.work(now_);
  ASSERT_TRUE(work);
  EXPECT_FALSE(desk_.work(now_)) << "one at a time";
  desk_.set_cluster(two_racks("20G"), now_);
  desk_.done(do_work(std::move(*work)));
  EXPECT_THAT(desk_.wishes(now_), IsEmpty());
  now_ += 2 * kSecond;
  EXPECT_TRUE(desk_.work(now_));
}

TEST_F(PlanningDesk, AJobThatIsOverIsForgotten) {
  desk_.set_cluster(two_racks(), now_);
  new_epoch();
  desk_.saw("vgg", {.over = true}, now_);
  EXPECT_THAT(desk_.jobs(), IsEmpty());
  EXPECT_FALSE(desk_.work(now_ + 10 * kSecond));
}

}  // namespace
}  // namespace tally::planning

// What a desk makes of the plans of a fleet's planner. Time is simulated.

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planning_home.h"

namespace tally::planning {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Whoever plans for the fleet knows more than this box: its plan is taken even where it looks no better from here.
TEST_F(PlanningDesk, APlanOfTheFleetIsTakenForTheseFactsAndStays) {
  desk_.set_cluster(two_racks(), now_);
  new_epoch();
  run(3 * kSecond);
  desk_.set_planned_by_fleet(true);
  const Plan other = members::even_plan(request());
  ASSERT_NE(plan_, other);
  const int wishes = wishes_;
  JobFacts gone = facts_;
  gone.usable = 1;
  desk_.give(gone, other, 4, "b");
  run(2 * kSecond);
  EXPECT_EQ(wishes_, wishes) << "it is for another job by now";
  desk_.give(facts_, other, 5, "b");
  run(2 * kSecond);
  EXPECT_EQ(wishes_, wishes + 1);
  EXPECT_EQ(plan_, other);
  EXPECT_EQ(job().cause, Cause::kFleet);
  EXPECT_EQ(job().planner, "b");
  EXPECT_FALSE(job().in_haste);
  EXPECT_GT(job().plan.made.rate, 0) << "and what it brings is known here too";
  EXPECT_THAT(notes(), HasSubstr("plan (fleet): by box b of the fleet, "));
  for (int i = 0; i < 3; ++i) {
    desk_.give(facts_, other, 5, "b");
    run(2 * kSecond);
  }
  new_epoch();
  EXPECT_EQ(plan_, other) << "also where an epoch begins for another reason";
  run(5 * kSecond);
  EXPECT_EQ(wishes_, wishes + 1);
}

// What lasts would else be the reason each time that one may be, and no plan of the fleet would ever be taken.
TEST_F(PlanningDesk, APlanOfTheFleetIsTakenWhileARateIsOff) {
  desk_.set_cluster(two_racks(), now_);
  desk_.set_planned_by_fleet(true);
  new_epoch();
  run(3 * kSecond);
  for (const char* name : {"box rack1", "box rack2", "server ps1", "server ps2"})
    ASSERT_TRUE(desk_.set_rate(name, 60.0, now_));
  run(5 * kSecond);
  const Plan other = members::even_plan(request());
  ASSERT_NE(other, plan_);
  desk_.give(facts_, other, 1, "b");
  run(10 * kSecond);
  EXPECT_EQ(plan_, other);
}

TEST_F(PlanningDesk, APlanOfTheFleetIsTakenWhileSlotsAreMissing) {
  desk_.set_cluster(two_racks(), now_);
  desk_.set_planned_by_fleet(true);
  new_epoch();
  run(3 * kSecond);
  saw_misses(0.05);
  const Plan other = members::even_plan(request());
  ASSERT_NE(other, plan_);
  desk_.give(facts_, other, 1, "b");
  for (int second = 0; second < 10; ++second, run(kSecond)) saw_misses(0.05);
  EXPECT_EQ(plan_, other);
}

TEST_F(PlanningDesk, ALaterPlanOfTheFleetMustBeWorthItsEpoch) {
  desk_.set_cluster(two_racks(), now_);
  desk_.set_planned_by_fleet(true);
  new_epoch();
  const Plan good = plan_;
  desk_.give(facts_, members::even_plan(request()), 1, "b");
  run(3 * kSecond);
  ASSERT_EQ(plan_, members::even_plan(request()));
  const double even = job().plan.made.rate;
  const int wishes = wishes_;
  Plan alike = plan_;
  std::swap(alike.servers[0], alike.servers[1]);
  desk_.give(facts_, alike, 2, "b");
  run(3 * kSecond);
  EXPECT_EQ(wishes_, wishes) << "no better";
  desk_.give(facts_, good, 3, "c");
  run(3 * kSecond);
  EXPECT_EQ(wishes_, wishes + 1);
  EXPECT_EQ(plan_, good);
  EXPECT_GE(job().plan.made.rate, 1.05 * even);
  EXPECT_EQ(job().planner, "c");
}

TEST_F(PlanningDesk, WhileTheFleetPlansTheDeskMakesPlansAtOnceAlone) {
  desk_.set_cluster(two_racks(), now_);
  desk_.set_planned_by_fleet(true);
  new_epoch();
  EXPECT_NE(plan_, members::even_plan(request())) << "at once it does";
  run(5 * kSecond);
  EXPECT_EQ(works_, 0);
  EXPECT_EQ(wishes_, 0);
  facts_.usable = 1;
  new_epoch();
  EXPECT_THAT(plan_.boxes, ElementsAre(at(1, 1)));
  EXPECT_EQ(works_, 0);
  desk_.set_planned_by_fleet(false);
  run(2 * kSecond);
  EXPECT_GE(works_, 1);
}

TEST_F(PlanningDesk, WithoutAClusterAFleetsPlanIsTakenAsItIs) {
  new_epoch();
  Plan other = plan_;
  std::swap(other.servers[0], other.servers[1]);
  desk_.give(facts_, other, 1, "b");
  run(2 * kSecond);
  EXPECT_EQ(plan_, other);
  EXPECT_EQ(job().planner, "b");
  EXPECT_FALSE(desk_.has_loads(job()));
  // A cluster that comes later shows what it brings, and brings no other plan by itself.
  desk_.set_planned_by_fleet(true);
  desk_.set_cluster(two_racks(), now_);
  EXPECT_TRUE(desk_.has_loads(job()));
  const int wishes = wishes_;
  run(3 * kSecond);
  EXPECT_EQ(wishes_, wishes);
  facts_.usable = 1;
  other.boxes = {at(1, 1), at(3, 1)};
  desk_.give(facts_, other, 2, "b");
  new_epoch();
  EXPECT_THAT(plan_.boxes, ElementsAre(at(1, 1))) << "a loss is answered at once";
  EXPECT_EQ(job().planner, "");
  desk_.give(facts_, other, 3, "b");
  run(2 * kSecond);
  EXPECT_EQ(job().planner, "") << "that plan is none for the job";
  EXPECT_THAT(notes(), HasSubstr("box b of the fleet has made a plan that is none for it"));
}

TEST_F(PlanningDesk, PlansOfTheFleetComeAtMostOnceASecond) {
  desk_.set_planned_by_fleet(true);
  new_epoch();
  const TimeNs begun = now_;
  std::uint32_t number = 0;
  while (now_ < begun + 10 * kSecond) {
    Plan other = plan_;
    std::swap(other.servers[0], other.servers[1]);
    desk_.give(facts_, other, ++number, "b");
    run(50 * kMillisecond);
  }
  EXPECT_GE(wishes_, 5);
  EXPECT_LE(wishes_, 11);
}

}  // namespace
}  // namespace tally::planning

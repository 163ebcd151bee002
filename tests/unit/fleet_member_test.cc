// The life of a box in its fleet, in virtual time: it registers, keeps its lease, plans, and says when the store is gone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fleet_bed.h"

namespace tally::fleet {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using Verdict = Outcome::Verdict;

TEST_F(FleetMember, RegistersAndIsKnown) {
  start();
  const SeenBox& seen = bed.box("c").member->view().boxes().at("a");
  EXPECT_EQ(seen.record.name, "a");
  EXPECT_NE(seen.lease, 0);
  EXPECT_EQ(bed.box("a").member->standing().kind, Standing::Kind::kMember);
  EXPECT_THAT(bed.box("a").notes, Contains("box a is registered in the fleet /tally"));
  EXPECT_THAT(bed.box("a").notes, Contains("box c is there"));
}

TEST_F(FleetMember, KeepsItsLeaseForAsLongAsItLives) {
  start();
  const Revision before = bed.server.pairs().at("/tally/box/a").created;
  bed.run(120 * kSecond);
  EXPECT_EQ(bed.server.pairs().at("/tally/box/a").created, before);
  EXPECT_EQ(bed.box("a").member->leases_lost(), 0U);
  EXPECT_EQ(bed.box("a").member->reads(), 1U);
}

TEST_F(FleetMember, PublishesWhatChangedAtMostOnceASecond) {
  start(1);
  bed.run(2 * kSecond);
  const Revision before = bed.server.revision();
  BoxRecord self = box_record("a", 99);
  for (int i = 0; i < 100; ++i) {
    self.free_slots = static_cast<std::uint64_t>(i);
    bed.box("a").member->set_self(self);
    bed.run(100 * kMillisecond);
  }
  EXPECT_GE(bed.server.revision() - before, 8);
  EXPECT_LE(bed.server.revision() - before, 11);
  bed.run(2 * kSecond);
  const SeenBox& seen = bed.box("a").member->view().boxes().at("a");
  EXPECT_EQ(seen.record.free_slots, 99U);
  EXPECT_EQ(seen.record.life, bed.box("a").life);  // it stays
  const Revision then = bed.server.revision();
  bed.run(5 * kSecond);
  EXPECT_EQ(bed.server.revision(), then);
}

TEST_F(FleetMember, WhoDiesIsGoneAfterItsLease) {
  start();
  Bed::kill(bed.box("b"));
  const TimeNs died = bed.now;
  ASSERT_TRUE(bed.run_until([&] { return all_know(2); }));
  EXPECT_LE(bed.now - died, 5 * kSecond + 100 * kMillisecond);
  EXPECT_THAT(bed.box("a").notes, Contains("box b is gone"));
}

TEST_F(FleetMember, WhoLeavesIsGoneAtOnce) {
  start();
  Bed::Box& b = bed.box("b");
  b.member->leave(bed.now);
  ASSERT_TRUE(bed.run_until([&] { return b.member->left(); }, kSecond));
  Bed::kill(b);
  EXPECT_TRUE(bed.run_until([&] { return all_know(2); }, kSecond));
}

TEST_F(FleetMember, RegistersAgainWhenItsLeaseIsLost) {
  start();
  const LeaseId lease = bed.server.pairs().at("/tally/box/a").lease;
  bed.server.end_lease(lease);
  ASSERT_TRUE(bed.run_until([&] { return bed.there("/tally/box/a") && all_know(3); }));
  EXPECT_NE(bed.server.pairs().at("/tally/box/a").lease, lease);
  EXPECT_EQ(bed.box("a").member->leases_lost(), 1U);
  EXPECT_THAT(bed.box("a").notes, Contains(HasSubstr("it registers again")));
}

TEST_F(FleetMember, RegistersAgainWhenSomebodyRemovesItsRecord) {
  start();
  ASSERT_TRUE(bed.server.apply(Erase{{"/tally/box/a", false}}));
  EXPECT_TRUE(bed.run_until([&] { return bed.there("/tally/box/a") && all_know(3); }));
}

TEST_F(FleetMember, StartedAgainItWaitsForTheLeaseOfItsFormerLife) {
  start();
  Bed::Box& b = bed.box("b");
  const std::uint64_t former = b.life;
  bed.start(b);
  bed.run(kSecond);
  EXPECT_NE(b.member->standing().kind, Standing::Kind::kMember);
  ASSERT_TRUE(
      bed.run_until([&] { return b.member->standing().kind == Standing::Kind::kMember; }, 6 * kSecond));
  EXPECT_TRUE(bed.run_until(
      [&] {
        const auto& seen = bed.box("a").member->view().boxes();
        return seen.contains("b") && seen.at("b").record.life != former;
      },
      kSecond));
  EXPECT_THAT(b.notes, Not(Contains(HasSubstr("another box"))));
}

TEST_F(FleetMember, TwoOfOneIdAreToldApart) {
  start();
  bed.add("a");
  Bed::Box& twin = bed.boxes.back();
  bed.run(4 * kSecond);
  EXPECT_EQ(twin.member->standing().kind, Standing::Kind::kJoining);
  EXPECT_EQ(twin.member->standing().text, "the ID a is taken until a lease is over: 'a' at 10.0.0.2");
  bed.run(7 * kSecond);
  EXPECT_EQ(twin.member->standing().kind, Standing::Kind::kTaken);
  EXPECT_EQ(twin.member->standing().text, "another box has the ID a: 'a' at 10.0.0.2");
  EXPECT_EQ(bed.boxes[0].member->standing().kind, Standing::Kind::kMember);
  Bed::kill(bed.boxes[0]);
  EXPECT_TRUE(bed.run_until([&] { return twin.member->standing().kind == Standing::Kind::kMember; }));
}

TEST_F(FleetMember, SeveralFleetsShareAStore) {
  bed.boxes.reserve(2);
  bed.add("a", {.prefix = "/one"});
  bed.add("a", {.prefix = "/one2"});
  bed.run(5 * kSecond);
  for (const Bed::Box& box : bed.boxes) {
    EXPECT_EQ(box.member->standing().kind, Standing::Kind::kMember);
    EXPECT_EQ(box.member->view().boxes().size(), 1U);
    EXPECT_NE(box.member->planner_since(bed.now), 0);
    EXPECT_EQ(box.member->view().bad_total(), 0U);
  }
}

TEST_F(FleetMember, AnotherPlansWhenThePlannerDies) {
  start();
  const std::string first = planner().id;
  Bed::kill(planner());
  const TimeNs died = bed.now;
  ASSERT_TRUE(bed.run_until([&] { return bed.planners().size() == 1; }));
  EXPECT_NE(planner().id, first);
  EXPECT_LE(bed.now - died, 6 * kSecond);
}

TEST_F(FleetMember, AnotherPlansAtOnceWhenThePlannerLeaves) {
  start();
  Bed::Box& first = planner();
  first.member->leave(bed.now);
  EXPECT_TRUE(bed.run_until([&] { return bed.planners().size() == 1 && planner().id != first.id; }, kSecond));
}

TEST_F(FleetMember, WhoDoesNotPlanIsNeverElected) {
  bed.boxes.reserve(2);
  bed.add("a", {.plans = false});
  bed.run(5 * kSecond);
  EXPECT_THAT(bed.planners(), IsEmpty());
  bed.add("b");
  bed.run(5 * kSecond);
  EXPECT_THAT(bed.planners(), ElementsAre("b"));
}

TEST_F(FleetMember, APlanIsWrittenAndReadByAll) {
  start();
  declare(bed.box("b"), "resnet");
  const PlanRecord plan = plan_of("resnet", 1);
  ASSERT_TRUE(planner().member->publish(plan, bed.now));
  EXPECT_EQ(planner().member->publish(plan, bed.now).error().what, "a plan for job resnet is on its way");
  ASSERT_TRUE(bed.run_until(
      [&] { return bed.box("c").member->view().jobs().at("resnet").newest_plan() != nullptr; }));
  EXPECT_EQ(*bed.box("c").member->view().jobs().at("resnet").newest_plan(), plan);
  ASSERT_THAT(planner().outcomes, SizeIs(::testing::Ge(1)));
  EXPECT_EQ(planner().outcomes.back().verdict, Verdict::kDone);
  // The one before it stays, older ones go.
  for (std::uint32_t epoch = 2; epoch <= 4; ++epoch) {
    ASSERT_TRUE(planner().member->publish(plan_of("resnet", epoch), bed.now));
    bed.run(kSecond);
  }
  EXPECT_EQ(bed.box("c").member->view().jobs().at("resnet").plans.size(), 2U);
  EXPECT_EQ(planner().member->publish(plan_of("resnet", 4), bed.now).error().what, "job resnet has plan 4");
}

TEST_F(FleetMember, NobodyElseWritesAPlan) {
  start();
  declare(bed.box("b"), "resnet");
  Bed::Box& other = another_than(planner().id);
  EXPECT_EQ(other.member->publish(plan_of("resnet", 1), bed.now).error().what,
            "this box is not the planner of its fleet");
  EXPECT_EQ(planner().member->publish(plan_of("bert", 1), bed.now).error().what,
            "job bert is not declared in the fleet");
  PlanRecord none = plan_of("resnet", 1);
  none.plan.boxes.clear();
  EXPECT_EQ(planner().member->publish(none, bed.now).error().what,
            "the plan is none: its parts do not fit each other");
}

// A planner whose lease the store has ended does not know it yet, and its plan is on the way.
TEST_F(FleetMember, APlannerThatWasReplacedCannotWrite) {
  start();
  declare(bed.box("b"), "resnet");
  Bed::Box& first = planner();
  first.store->faults.delay = 0;
  first.store->faults.unreachable = true;
  bed.server.end_lease(bed.server.pairs().at("/tally/planner").lease);
  ASSERT_NE(first.member->planner_since(bed.now), 0);  // so it thinks
  ASSERT_TRUE(first.member->publish(plan_of("resnet", 1, 666), bed.now));
  first.stopped = true;
  ASSERT_TRUE(bed.run_until([&] { return bed.server.pairs().contains("/tally/planner"); }));
  first.store->faults.unreachable = false;
  first.stopped = false;
  // Orders are asked again, so the plan does arrive.
  ASSERT_TRUE(bed.run_until([&] { return !first.outcomes.empty(); }, 20 * kSecond));
  EXPECT_EQ(first.outcomes.back().verdict, Verdict::kFenced);
  EXPECT_FALSE(bed.there("/tally/plan/resnet/0000000001"));
}

TEST_F(FleetMember, APlanWhoseAnswerWasLostIsWrittenOnce) {
  start();
  declare(bed.box("b"), "resnet");
  Bed::Box& first = planner();
  first.store->faults.lose_answer = 1;
  ASSERT_TRUE(first.member->publish(plan_of("resnet", 1), bed.now));
  bed.run(kSecond);
  EXPECT_TRUE(bed.there("/tally/plan/resnet/0000000001"));
  const std::size_t outcomes = first.outcomes.size();
  first.store->faults.lose_answer = 0;
  ASSERT_TRUE(bed.run_until([&] { return first.outcomes.size() > outcomes; }));
  EXPECT_EQ(first.outcomes.back().verdict, Verdict::kDone);
  EXPECT_EQ(bed.server.pairs().at("/tally/plan/resnet/0000000001").modified,
            bed.server.pairs().at("/tally/plan/resnet/0000000001").created);
}

TEST_F(FleetMember, ABoxBeyondTheLimitSaysThatTheFleetDoesWithoutIt) {
  const LeaseId lease = bed.server.apply(Grant{600 * kSecond})->lease;
  for (std::size_t i = 0; i < kMostBoxes; ++i)
    bed.put("/tally/box/x" + std::to_string(i), text_of(box_record("x", i + 1)), lease);
  bed.boxes.reserve(1);
  Bed::Box& a = bed.add("a");
  ASSERT_TRUE(bed.run_until([&] { return a.member->standing().kind == Standing::Kind::kIgnored; }));
  EXPECT_EQ(a.member->standing().text, "the fleet has 64 boxes already");
  EXPECT_THAT(a.notes, Contains("the fleet does without this box: the fleet has 64 boxes already"));
  ASSERT_TRUE(bed.server.apply(Erase{{"/tally/box/x7", false}}));
  bed.start(a);
  EXPECT_TRUE(
      bed.run_until([&] { return a.member->standing().kind == Standing::Kind::kMember; }, 60 * kSecond));
}

TEST_F(FleetMember, SaysSinceWhenTheStoreIsGoneAndWhenItIsBack) {
  start();
  declare(bed.box("b"), "resnet");
  bed.run(5 * kSecond);
  const TimeNs before = bed.now;
  for (Bed::Box& box : bed.boxes) box.store->faults.unreachable = true;
  bed.run(8 * kSecond);
  Bed::Box& a = bed.box("a");
  EXPECT_EQ(a.member->standing().kind, Standing::Kind::kAway);
  EXPECT_LE(a.member->standing().since, before);
  EXPECT_GE(a.member->standing().since + 2 * kSecond, before);
  EXPECT_THAT(a.notes, Contains("the store of the fleet does not answer: no answer came in time; jobs go on, "
                                "nothing new is planned"));
  // What it knew it still knows; it neither plans nor declares.
  EXPECT_EQ(a.member->view().boxes().size(), 3U);
  EXPECT_THAT(bed.planners(), IsEmpty());
  EXPECT_THAT(a.member->publish(plan_of("resnet", 1), bed.now).error().what,
              HasSubstr("the store of the fleet has not answered for "));
  EXPECT_THAT(a.member->declare({.name = "bert"}, bed.now).error().what,
              HasSubstr("the store of the fleet has not answered for "));
  for (Bed::Box& box : bed.boxes) box.store->faults.unreachable = false;
  ASSERT_TRUE(bed.run_until(
      [&] { return all_know(3) && bed.planners().size() == 1 && bed.homes("resnet").size() == 1; }));
  EXPECT_EQ(a.member->standing().kind, Standing::Kind::kMember);
  EXPECT_THAT(a.notes, Contains(HasSubstr("the store of the fleet answers again, after ")));
}

TEST_F(FleetMember, NeverReachedItSaysSoFromItsStart) {
  bed.boxes.reserve(1);
  Bed::Box& a = bed.add("a");
  a.store->faults.unreachable = true;
  const TimeNs begun = bed.now;
  bed.run(10 * kSecond);
  EXPECT_EQ(a.member->standing().kind, Standing::Kind::kAway);
  EXPECT_EQ(a.member->standing().since, begun);
  EXPECT_FALSE(a.member->knows_fleet());
}

TEST_F(FleetMember, SaysThatItIsRefused) {
  bed.boxes.reserve(1);
  Bed::Box& a = bed.add("a");
  a.store->faults.refused = true;
  bed.run(5 * kSecond);
  EXPECT_EQ(a.member->standing().kind, Standing::Kind::kRefused);
  EXPECT_THAT(a.notes, Contains("the store of the fleet refuses this box: permission denied"));
  a.store->faults.refused = false;
  EXPECT_TRUE(bed.run_until([&] { return a.member->standing().kind == Standing::Kind::kMember; }));
}

TEST_F(FleetMember, ASlowStoreCostsNoLease) {
  start();
  for (Bed::Box& box : bed.boxes) box.store->faults.delay = 1500 * kMillisecond;
  bed.run(60 * kSecond);
  for (const Bed::Box& box : bed.boxes) EXPECT_EQ(box.member->leases_lost(), 0U) << box.id;
  EXPECT_TRUE(all_know(3));
}

TEST_F(FleetMember, AFrozenStoreCostsAtMostARegistration) {
  start();
  for (Bed::Box& box : bed.boxes) box.store->faults.unreachable = true;
  bed.server.freeze(true);
  bed.run(20 * kSecond);
  bed.server.freeze(false);
  for (Bed::Box& box : bed.boxes) box.store->faults.unreachable = false;
  EXPECT_TRUE(bed.run_until([&] { return all_know(3) && bed.planners().size() == 1; }));
}

TEST_F(FleetMember, AStoreThatForgotIsReadAnew) {
  start();
  bed.box("c").store->faults.unreachable = true;
  bed.run(2 * kSecond);
  for (int i = 0; i < 10; ++i) bed.put("/tally/rubbish", std::to_string(i));
  bed.server.compact(bed.server.revision());
  bed.box("c").store->faults.unreachable = false;
  ASSERT_TRUE(bed.run_until([&] { return bed.box("c").member->view().holds("/tally/rubbish"); }));
  EXPECT_EQ(bed.box("c").member->reads(), 2U);
  EXPECT_EQ(bed.box("c").store->watches(), 1U);
}

TEST_F(FleetMember, AStoreThatWasWipedIsFilledAgain) {
  start();
  for (int i = 0; i < 50; ++i) bed.put("/elsewhere", "x");
  bed.run(15 * kSecond);
  bed.server.wipe();
  ASSERT_TRUE(bed.run_until(
      [&] { return bed.server.pairs().size() == 4 && all_know(3) && bed.planners().size() == 1; },
      60 * kSecond));
}

// Not only when a box looks at the whole view, every 10 s: the lease is beaten every 1.25 s, and a box that has none
// registers; the revision of the answer has gone back.
TEST_F(FleetMember, AStoreThatWasWipedIsSeenAtTheNextRegistration) {
  start();
  for (const TimeNs wait : {0U, 3U, 6U, 9U}) {
    for (int i = 0; i < 50; ++i) bed.put("/elsewhere", "x");
    for (Bed::Box& box : bed.boxes) bed.put("/tally/rubbish", box.id);  // so that views know of the revision
    bed.run(20 * kSecond + wait * kSecond);
    bed.server.wipe();
    const auto read_anew = [&](const Bed::Box& box) {
      return box.member->view().revision() <= bed.server.revision() &&
             !box.member->view().holds("/tally/rubbish");
    };
    EXPECT_TRUE(bed.run_until(
        [&] {
          return std::all_of(bed.boxes.begin(), bed.boxes.end(), read_anew) && all_know(3) &&
                 bed.planners().size() == 1;
        },
        4 * kSecond))
        << wait;
  }
}

TEST_F(FleetMember, AnUnreadablePlannerIsNamedAndNobodyPlans) {
  bed.boxes.reserve(1);
  bed.put("/tally/planner", "rubbish");
  Bed::Box& a = bed.add("a");
  bed.run(10 * kSecond);
  EXPECT_THAT(bed.planners(), IsEmpty());
  EXPECT_THAT(a.notes, Contains(HasSubstr("the record /tally/planner is ignored: ")));
  ASSERT_TRUE(bed.server.apply(Erase{{"/tally/planner", false}}));
  EXPECT_TRUE(bed.run_until([&] { return bed.planners().size() == 1; }));
}

}  // namespace
}  // namespace tally::fleet

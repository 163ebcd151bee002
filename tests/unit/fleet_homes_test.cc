// Homes of jobs in a fleet, in virtual time: who declares a job, who takes its seat, and who gives it back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fleet_bed.h"

namespace tally::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

using Verdict = Outcome::Verdict;

TEST_F(FleetMember, AJobIsDeclaredOnceAndItsDeclarerIsItsHome) {
  start();
  declare(bed.box("b"), "resnet");
  EXPECT_THAT(bed.homes("resnet"), ElementsAre("b"));
  ASSERT_TRUE(bed.box("c").member->declare({.name = "resnet", .spec = Json{{"workers", 3}}}, bed.now));
  ASSERT_TRUE(bed.run_until([&] { return !bed.box("c").outcomes.empty(); }));
  EXPECT_EQ(bed.box("c").outcomes.back().verdict, Verdict::kRefused);
  EXPECT_EQ(bed.box("c").outcomes.back().text, "a job of this name is declared already");
  EXPECT_FALSE(bed.box("c").member->declare({.name = "a/b"}, bed.now));
  EXPECT_EQ(bed.box("c").member->withdraw("resnet", bed.now).error().what,
            "this box is not the home of job resnet");
}

TEST_F(FleetMember, AWithdrawnJobLeavesNothing) {
  start();
  declare(bed.box("b"), "resnet");
  ASSERT_TRUE(planner().member->publish(plan_of("resnet", 1), bed.now));
  bed.run(kSecond);
  ASSERT_TRUE(bed.box("b").member->withdraw("resnet", bed.now));
  ASSERT_TRUE(bed.run_until([&] { return bed.box("c").member->view().jobs().empty(); }));
  EXPECT_EQ(bed.box("b").outcomes.back().verdict, Verdict::kDone);
  EXPECT_EQ(bed.server.pairs().size(), 4U);  // three boxes and a planner
}

TEST_F(FleetMember, OneTakesTheHomeOfABoxThatDied) {
  start();
  declare(bed.box("b"), "resnet");
  Bed::kill(bed.box("b"));
  const TimeNs died = bed.now;
  ASSERT_TRUE(bed.run_until([&] { return bed.homes("resnet").size() == 1; }));
  EXPECT_THAT(bed.homes("resnet"), Not(ElementsAre("b")));
  EXPECT_LE(bed.now - died, 7 * kSecond);
}

// Facts go with the home that says them, and a plan is for those that it names.
TEST_F(FleetMember, APlanIsForTheFactsOfTheHome) {
  start();
  declare(bed.box("b"), "resnet");
  const auto seen = [&](const std::string& id) -> const SeenJob& {
    return bed.box(id).member->view().jobs().at("resnet");
  };
  EXPECT_FALSE(seen("a").wants_plan()) << "it does not run";
  ASSERT_TRUE(bed.box("b").member->tell_facts("resnet", facts_of(), bed.now));
  ASSERT_TRUE(bed.run_until([&] { return seen(planner().id).wants_plan() && seen("b").facts.has_value(); }));
  const std::uint64_t first = seen("b").facts->number;
  // Said again they are the same ones.
  ASSERT_TRUE(bed.box("b").member->tell_facts("resnet", facts_of(), bed.now));
  bed.run(kSecond);
  EXPECT_EQ(seen("b").facts->number, first);
  ASSERT_TRUE(planner().member->publish(plan_of("resnet", 1, first), bed.now));
  ASSERT_TRUE(bed.run_until([&] { return seen("b").plan_for_facts() != nullptr; }));
  EXPECT_FALSE(seen("b").wants_plan());
  FactsRecord other = facts_of();
  other.usable = 0b01;
  ASSERT_TRUE(bed.box("b").member->tell_facts("resnet", other, bed.now));
  ASSERT_TRUE(bed.run_until([&] { return seen("b").wants_plan(); }));
  EXPECT_EQ(seen("b").plan_for_facts(), nullptr) << "it may have a box that is lost";
  EXPECT_GT(seen("b").facts->number, first);
  // Nobody else says anything of the job.
  EXPECT_FALSE(bed.box("a").member->tell_facts("resnet", other, bed.now));
  const std::uint64_t second = seen("b").facts->number;
  Bed::kill(bed.box("b"));
  ASSERT_TRUE(bed.run_until([&] { return bed.homes("resnet").size() == 1; }));
  const std::string heir = bed.homes("resnet").at(0);
  EXPECT_FALSE(seen(heir).facts) << "they went with their home";
  ASSERT_TRUE(bed.box(heir).member->tell_facts("resnet", other, bed.now));
  ASSERT_TRUE(bed.run_until([&] { return seen(heir).facts.has_value(); }));
  EXPECT_GT(seen(heir).facts->number, second);
  ASSERT_TRUE(bed.box(heir).member->tell_facts("resnet", std::nullopt, bed.now));
  EXPECT_TRUE(bed.run_until([&] { return !seen(heir).facts; }));
}

// Its facts arrive when another box is the home.
TEST_F(FleetMember, AHomeThatWasReplacedSaysNothingOfTheJob) {
  start();
  declare(bed.box("b"), "resnet");
  Bed::Box& b = bed.box("b");
  b.store->faults.unreachable = true;
  ASSERT_TRUE(b.member->tell_facts("resnet", facts_of(), bed.now));
  // Its lease holds, so that nothing but the seat keeps them out.
  ASSERT_TRUE(bed.server.apply(Erase{{"/tally/job/resnet/home", false}}));
  b.stopped = true;
  ASSERT_TRUE(bed.run_until([&] { return bed.there("/tally/job/resnet/home"); }));
  b.store->faults.unreachable = false;
  b.stopped = false;
  ASSERT_TRUE(
      bed.run_until([&] { return !b.outcomes.empty() && b.outcomes.back().kind == Outcome::Kind::kFacts; }));
  EXPECT_EQ(b.outcomes.back().verdict, Verdict::kFenced);
  EXPECT_FALSE(bed.there("/tally/job/resnet/facts"));
}

// What it wrote itself it knows before its view does.
TEST_F(FleetMember, FactsThatTheViewDoesNotShowYetAreWrittenOnce) {
  start();
  declare(bed.box("b"), "resnet");
  Bed::Box& b = bed.box("b");
  const std::string key = "/tally/job/resnet/facts";
  const auto written = [&] {
    return std::count_if(bed.server.history().begin(), bed.server.history().end(),
                         [&](const Change& change) { return change.pair.key == key; });
  };
  const auto say = [&](const std::optional<FactsRecord>& facts) {
    for (int turn = 0; turn < 10; ++turn) {
      (void)b.member->tell_facts("resnet", facts, bed.now);
      bed.run(Member::kTurn);
    }
  };
  say(facts_of());
  ASSERT_TRUE(b.member->view().jobs().at("resnet").facts);
  ASSERT_EQ(written(), 1);
  for (WatchId watch = 1; watch < 1000; ++watch) b.store->unwatch(watch);
  FactsRecord other = facts_of();
  other.usable = 0b01;
  say(other);
  EXPECT_EQ(written(), 2);
  ASSERT_EQ(b.member->view().jobs().at("resnet").facts->usable, 0b11U) << "it does not see them";
  say(std::nullopt);
  EXPECT_EQ(written(), 3);
  EXPECT_FALSE(bed.there(key));
  // Those that the view shows do not stand there any more.
  for (int i = 0; i < 50; ++i) bed.put("/elsewhere", std::to_string(i));
  say(facts_of());
  EXPECT_EQ(written(), 4);
  EXPECT_EQ(read_facts(bed.server.pairs().at(key).value)->usable, 0b11U);
  // Of another store at the same address it knows nothing, though that counts from 1.
  bed.box("a").member->set_jobs({});
  bed.box("c").member->set_jobs({});
  bed.server.wipe();
  ASSERT_TRUE(bed.run_until(
      [&] { return bed.there("/tally/job/resnet/home") && bed.homes("resnet").size() == 1; }, 60 * kSecond));
  ASSERT_LT(b.member->view().revision(), 50);
  say(facts_of());
  EXPECT_TRUE(bed.there(key));
}

TEST_F(FleetMember, ABoxThatDoesNotHaveTheJobDoesNotTakeIt) {
  start();
  declare(bed.box("b"), "resnet");
  bed.box("a").member->set_jobs({});
  bed.jobs.at("resnet").addresses = {"10.0.0.3", "10.0.0.9"};  // b, and nobody who is there
  bed.box("c").member->set_jobs(bed.jobs);
  Bed::kill(bed.box("b"));
  bed.run(20 * kSecond);
  EXPECT_THAT(bed.homes("resnet"), IsEmpty());
  bed.start(bed.box("b"));
  EXPECT_TRUE(bed.run_until([&] { return bed.homes("resnet") == std::vector<std::string>{"b"}; }));
}

// The first of a job's list is its home, unless it is not there.
TEST_F(FleetMember, TheFirstOfItsBoxesDeclaresAJob) {
  start();
  bed.give("resnet");
  std::reverse(bed.jobs.at("resnet").addresses.begin(), bed.jobs.at("resnet").addresses.end());
  for (Bed::Box& box : bed.boxes) box.member->set_jobs(bed.jobs);
  ASSERT_TRUE(bed.run_until([&] { return bed.homes("resnet").size() == 1; }));
  EXPECT_THAT(bed.homes("resnet"), ElementsAre("c"));
  ASSERT_TRUE(bed.run_until([&] { return knows(bed.box("a"), "resnet"); }));
  EXPECT_EQ(bed.box("a").member->view().jobs().at("resnet").record->spec, (Json{{"workers", 2}}));
}

TEST_F(FleetMember, AJobWhoseFirstBoxIsNotThereIsDeclaredByAnother) {
  start();
  bed.give("resnet");
  bed.jobs.at("resnet").addresses.insert(bed.jobs.at("resnet").addresses.begin(), "10.0.0.99");
  for (Bed::Box& box : bed.boxes) box.member->set_jobs(bed.jobs);
  bed.run(4 * kSecond);
  EXPECT_THAT(bed.homes("resnet"), IsEmpty()) << "it may be about to begin";
  EXPECT_TRUE(bed.run_until([&] { return bed.homes("resnet").size() == 1; }, 5 * kSecond));
}

// Of all that know it: a lease that ended while the home lived moves nothing, if the home hears of it in time.
TEST_F(FleetMember, WhoIsTheHomeNowTakesItsSeatBackFirst) {
  start();
  declare(bed.box("c"), "resnet");
  bed.jobs.at("resnet").at_home = true;
  bed.box("c").member->set_jobs(bed.jobs);
  ASSERT_EQ(place_for_home(bed.box("a").member->view(), bed.jobs.at("resnet"), "c"), 0U);
  ASSERT_TRUE(bed.server.apply(Erase{{"/tally/job/resnet/home", false}}));
  ASSERT_TRUE(bed.run_until([&] { return bed.homes("resnet").size() == 1; }));
  EXPECT_THAT(bed.homes("resnet"), ElementsAre("c"));
  // And when all is gone from the store.
  bed.server.wipe();
  ASSERT_TRUE(
      bed.run_until([&] { return bed.there("/tally/job/resnet/home") && all_know(3); }, 60 * kSecond));
  ASSERT_TRUE(bed.run_until([&] { return bed.homes("resnet").size() == 1; }));
  EXPECT_THAT(bed.homes("resnet"), ElementsAre("c"));
}

// Its workers would go there with what they have, and be refused for good.
TEST_F(FleetMember, ABoxThatHasAnotherJobOfThatNameLeavesItsSeat) {
  start();
  declare(bed.box("b"), "resnet");
  bed.jobs.at("resnet").addresses = {"10.0.0.4", "10.0.0.3", "10.0.0.2"};  // c is the first
  bed.box("a").member->set_jobs(bed.jobs);
  std::map<std::string, OwnJob> other = bed.jobs;
  other.at("resnet").record.spec["workers"] = 3;
  bed.box("c").member->set_jobs(other);
  EXPECT_EQ(objection_to_home(bed.box("c").member->view(), other.at("resnet")),
            "the fleet has it with workers 2, this box with 3");
  Bed::kill(bed.box("b"));
  ASSERT_TRUE(bed.run_until([&] { return bed.homes("resnet").size() == 1; }));
  EXPECT_THAT(bed.homes("resnet"), ElementsAre("a"));
  // What the fleet does not say, anybody may have.
  other.at("resnet").record.spec = Json{{"workers", 2}, {"servers", 1}};
  bed.box("c").member->set_jobs(other);
  Bed::kill(bed.box("a"));
  EXPECT_TRUE(bed.run_until([&] { return bed.homes("resnet") == std::vector<std::string>{"c"}; }));
}

TEST_F(FleetMember, ABoxWithoutRoomForAJobLeavesItsSeat) {
  start();
  declare(bed.box("b"), "resnet");
  bed.jobs.at("resnet").addresses = {"10.0.0.4", "10.0.0.3", "10.0.0.2"};
  bed.box("a").member->set_jobs(bed.jobs);
  std::map<std::string, OwnJob> full = bed.jobs;
  full.at("resnet").objection = "there is no room";
  bed.box("c").member->set_jobs(full);
  Bed::kill(bed.box("b"));
  ASSERT_TRUE(bed.run_until([&] { return bed.homes("resnet").size() == 1; }));
  EXPECT_THAT(bed.homes("resnet"), ElementsAre("a"));
  // Where nobody has, nobody takes it; until somebody has.
  Bed::kill(bed.box("a"));
  ASSERT_TRUE(bed.run_until([&] { return !bed.there("/tally/job/resnet/home"); }));
  // Longer than another configuration is waited for. Not for a moment either, to be given back.
  EXPECT_FALSE(bed.run_until([&] { return bed.there("/tally/job/resnet/home"); }, 120 * kSecond));
  bed.box("c").member->set_jobs(bed.jobs);
  EXPECT_TRUE(bed.run_until([&] { return bed.homes("resnet") == std::vector<std::string>{"c"}; }));
}

// It has found out late. The seat is free at once, for one that can, and says what that must carry.
TEST_F(FleetMember, AHomeThatCannotCarryItsJobGivesTheSeatBack) {
  start();
  declare(bed.box("b"), "resnet");
  const Revision declared = bed.server.pairs().at("/tally/job/resnet").created;
  bed.box("a").member->set_jobs({});
  std::map<std::string, OwnJob> full = bed.jobs;
  full.at("resnet").objection = "there is no room";
  full.at("resnet").generation = {{"elements", 352}};
  full.at("resnet").at_home = true;
  bed.box("b").member->set_jobs(full);
  ASSERT_TRUE(bed.run_until([&] { return bed.homes("resnet") == std::vector<std::string>{"c"}; }));
  EXPECT_EQ(bed.server.pairs().at("/tally/job/resnet").created, declared) << "it is the same job";
  bed.run(20 * kSecond);
  EXPECT_THAT(bed.homes("resnet"), ElementsAre("c")) << "and stays there";
  const auto said = [&] {
    return read_job("resnet", bed.server.pairs().at("/tally/job/resnet").value)->spec.dump();
  };
  EXPECT_EQ(said(), R"({"workers":2})") << "c has none of it";
  bed.jobs.at("resnet").generation = {{"elements", 64}};
  bed.box("c").member->set_jobs(bed.jobs);
  ASSERT_TRUE(bed.run_until([&] { return said() == R"({"workers":2,"generation":{"elements":64}})"; }));
  bed.box("b").member->set_jobs(full);
  Bed::kill(bed.box("c"));
  bed.run(20 * kSecond);
  EXPECT_EQ(said(), R"({"workers":2,"generation":{"elements":64}})") << "for who comes later";
}

// Else nobody could take its seat once its configuration has changed everywhere.
TEST_F(FleetMember, WhatAJobIsNowItsHomeSays) {
  start();
  declare(bed.box("b"), "resnet");
  std::map<std::string, OwnJob> other = bed.jobs;
  other.at("resnet").record.spec["workers"] = 3;
  const auto said = [&] {
    return read_job("resnet", bed.server.pairs().at("/tally/job/resnet").value)
        ->spec.at("workers")
        .get<int>();
  };
  bed.box("c").member->set_jobs(other);
  bed.run(5 * kSecond);
  EXPECT_EQ(said(), 2) << "who is not the home has nothing to say";
  bed.box("b").member->set_jobs(other);
  ASSERT_TRUE(bed.run_until([&] { return said() == 3; }));
  bed.run(kSecond);
  const Revision written = bed.server.pairs().at("/tally/job/resnet").modified;
  bed.run(5 * kSecond);
  EXPECT_EQ(bed.server.pairs().at("/tally/job/resnet").modified, written) << "once";
  Bed::kill(bed.box("b"));
  EXPECT_TRUE(bed.run_until([&] { return bed.homes("resnet") == std::vector<std::string>{"c"}; }));
}

// All were started again with another configuration.
TEST_F(FleetMember, AJobThatNobodyHasAsItWasDeclaredIsDeclaredAnewAfterAMinute) {
  start();
  declare(bed.box("b"), "resnet");
  bed.jobs.at("resnet").record.spec["workers"] = 3;
  bed.box("a").member->set_jobs(bed.jobs);
  bed.box("c").member->set_jobs(bed.jobs);
  Bed::kill(bed.box("b"));
  bed.run(50 * kSecond);
  EXPECT_THAT(bed.homes("resnet"), IsEmpty());
  ASSERT_TRUE(bed.run_until([&] { return bed.homes("resnet").size() == 1; }));
  bed.run(kSecond);
  const auto record = read_job("resnet", bed.server.pairs().at("/tally/job/resnet").value);
  EXPECT_EQ(record->spec.at("workers"), 3);
}

TEST_F(FleetMember, HomesSpreadOverTheBoxes) {
  bed.boxes.reserve(4);
  for (const char* const id : {"a", "b", "c", "d"}) bed.add(id);
  ASSERT_TRUE(bed.run_until([&] { return all_know(4); }));
  Bed::Box& d = bed.box("d");
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(d.member->declare({.name = "j" + std::to_string(i)}, bed.now));
  bed.run(2 * kSecond);
  for (int i = 0; i < 30; ++i) bed.give("j" + std::to_string(i));
  for (auto& [name, job] : bed.jobs) job.addresses = {"10.9.9.9", "10.0.0.2", "10.0.0.3", "10.0.0.4"};
  for (Bed::Box& box : bed.boxes) box.member->set_jobs(bed.jobs);
  Bed::kill(d);
  ASSERT_TRUE(bed.run_until([&] {
    for (int i = 0; i < 30; ++i)
      if (bed.homes("j" + std::to_string(i)).size() != 1) return false;
    return true;
  }));
  for (const char* const id : {"a", "b", "c"}) {
    int n = 0;
    for (int i = 0; i < 30; ++i) n += bed.homes("j" + std::to_string(i)).at(0) == id ? 1 : 0;
    EXPECT_GE(n, 4) << id;
  }
}

}  // namespace
}  // namespace tally::fleet

// Plans of a fleet: homes say where members are, one box plans for all of them, and homes take what it says. Boxes with
// their desks around a store in memory, in virtual time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/load_config.h"
#include "daemon/fleet_link.h"
#include "fake_store.h"
#include "planning_support.h"

namespace tally::daemon_test {
namespace {

using planning::at;
using planning::four_workers;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A tallyd, as far as plans go: whoever is told to plan anew has another epoch at once.
struct PlanningBox {
  PlanningBox(FakeServer& server, std::uint8_t number, bool with_cluster, TimeNs now)
      : id("rack" + std::to_string(number)), desk({at(number, 1)}) {
    const std::string text = "instance: " + id + "\nbox: {ipv4: 10.0." + std::to_string(number) + ".1/24}\n" +
                             "fleet: {endpoints: [\"http://127.0.0.1:2379\"], prefix: /site}\n" +
                             (with_cluster ? "planner: {cluster: /c.yaml}\n" : "") +
                             "ports:\n  - {name: w0, device: net_ring0}\n";
    auto config = config::load_config_text(text, "box.yaml");
    EXPECT_TRUE(config.has_value()) << (config ? "" : config::to_text(config.error()));
    if (with_cluster) desk.set_cluster(planning::two_racks(), now);
    auto owned = std::make_unique<FakeStore>(server, number);
    store = owned.get();
    store->advance(now);
    link.emplace(
        config->config, std::move(owned),
        daemon::FleetFace{
            [] { return daemon::FleetRoom{}; },
            {[this] { return jobs; }, [](const std::string&, const Ipv6&) { return Result<void>{}; },
             [](const Ipv6&) {}, [](const std::string&, const members::HomeNeeds&) { return std::string(); },
             [](const std::string&, const members::HomeNews&) {}},
            {&desk,
             [this](planning::Work work) {
               ++rounds;
               jobs_of_round = work.jobs.size();
               done = planning::do_work(std::move(work));
             },
             [this] { return std::exchange(done, {}); }}},
        [this](daemon::LogLevel, std::string_view line) { log.emplace_back(line); }, now);
  }

  // Whose home this is.
  void give_job(planning::JobFacts facts, TimeNs now) {
    daemon::SharedJob job{.name = facts.job, .workers = 4, .servers = 2};
    job.boxes.addresses = facts.boxes;
    jobs.push_back(std::move(job));
    mine.push_back(std::move(facts));
    new_epoch(mine.back(), now);
  }
  void new_epoch(const planning::JobFacts& facts, TimeNs now) {
    (void)desk.plan(planning::request_of(facts), now);
    desk.saw(facts.job, {.running = true, .epoch = Epoch{++epoch}}, now);
  }
  void turn(TimeNs now) {
    store->advance(now);
    link->turn(now);
    for (const auto& wish : desk.wishes(now))
      for (const planning::JobFacts& facts : mine)
        if (facts.job == wish.job) new_epoch(facts, now);
  }
  [[nodiscard]] const planning::Desk::Job& job(const std::string& name) const { return desk.jobs().at(name); }

  std::string id;
  planning::Desk desk;
  FakeStore* store = nullptr;
  std::vector<daemon::SharedJob> jobs{};
  std::vector<planning::JobFacts> mine{};
  std::optional<planning::WorkDone> done{};
  int rounds = 0;
  std::size_t jobs_of_round = 0;
  std::uint32_t epoch = 0;
  std::vector<std::string> log{};
  std::optional<daemon::FleetLink> link{};
};

struct DaemonFleetPlans : testing::Test {
  PlanningBox& add(std::uint8_t number, bool with_cluster) {
    return *boxes.emplace_back(std::make_unique<PlanningBox>(server, number, with_cluster, now));
  }
  void run(TimeNs span) {
    for (const TimeNs end = now + span; now < end;) {
      now += 10 * kMillisecond;
      server.advance(now);
      for (auto& box : boxes)
        if (box) box->turn(now);
    }
  }
  bool run_until(const std::function<bool()>& holds) {
    for (const TimeNs end = now + 30 * kSecond; !holds(); run(10 * kMillisecond))
      if (now >= end) return false;
    return true;
  }
  // Empty: nobody.
  std::string planner() {
    const auto seat = server.pairs().find("/site/planner");
    return seat == server.pairs().end() ? "" : fleet::read_seat(seat->second.value)->box;
  }
  std::vector<std::string> plans(const std::string& job) {
    std::vector<std::string> keys;
    for (const auto& [key, pair] : server.pairs())
      if (key.starts_with("/site/plan/" + job + "/")) keys.push_back(key);
    return keys;
  }
  std::optional<fleet::FactsRecord> facts(const std::string& job) {
    const auto pair = server.pairs().find("/site/job/" + job + "/facts");
    if (pair == server.pairs().end()) return std::nullopt;
    return *fleet::read_facts(pair->second.value);
  }
  // As its planner wrote it last.
  Plan told(const std::string& job) {
    const std::string key = plans(job).back();
    return fleet::read_plan({job, static_cast<std::uint32_t>(std::stoul(key.substr(key.rfind('/') + 1)))},
                            server.pairs().at(key).value)
        ->plan;
  }

  TimeNs now = kSecond;
  FakeServer server;
  std::vector<std::unique_ptr<PlanningBox>> boxes;
};

TEST_F(DaemonFleetPlans, AHomeSaysItsFactsAndTakesThePlanThatTheFleetMakesOfThem) {
  PlanningBox& home = add(1, false);
  PlanningBox& other = add(2, true);
  ASSERT_TRUE(run_until([&] { return planner() == "rack2"; }));
  EXPECT_FALSE(facts("vgg").has_value());
  home.give_job(four_workers("vgg"), now);
  ASSERT_EQ(home.job("vgg").planner, "");
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  EXPECT_THAT(facts("vgg")->ranks, ElementsAre("10.0.1.11", "10.0.1.12", "10.0.2.11", "10.0.2.12"));
  EXPECT_THAT(facts("vgg")->servers, ElementsAre("10.0.1.9", "10.0.2.9"));
  EXPECT_EQ(facts("vgg")->usable, 3U);
  EXPECT_EQ(home.job("vgg").plan.plan, told("vgg"));
  EXPECT_EQ(home.epoch, 2U) << "the plan at once, and the fleet's";
  run(20 * kSecond);
  EXPECT_EQ(home.epoch, 2U) << "it stays";
  EXPECT_EQ(other.rounds, 1) << "and nobody reckons the same again";
  const daemon::WhoPlans& who = home.link->who_plans();
  EXPECT_EQ(who.planner, "rack2");
  EXPECT_GT(who.since, 0U);
  EXPECT_FALSE(who.here);
  EXPECT_EQ(who.trouble, "");
  EXPECT_TRUE(other.link->who_plans().here);
}

// The same, but for what the boxes take in.
std::shared_ptr<const cluster::Cluster> two_racks_of(const std::string& first, const std::string& second) {
  return planning::cluster_of(
      "leaf_spine: {racks: 2, spines: 1, hosts: 3, nic: 10G, uplink: 10G}\n"
      "places: [{rack: \"rack[1-2]\", addresses: \"10.0.[1-2].0/24\"}]\n"
      "boxes: [{at: rack1, rate: " +
      first + ", address: \"10.0.1.1\"}, {at: rack2, rate: " + second +
      ", address: \"10.0.2.1\"}]\n"
      "servers: [{name: \"ps[1-2]\", rack: \"rack[1-2]\", nic: 10G}]\n");
}

TEST_F(DaemonFleetPlans, AnotherFileOfTheClusterBringsAnotherPlanWhereThatIsWorthIt) {
  PlanningBox& home = add(1, false);
  PlanningBox& other = add(2, true);
  other.desk.set_cluster(two_racks_of("4G", "4G"), now);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  run(5 * kSecond);
  const Plan before = told("vgg");
  ASSERT_EQ(other.rounds, 1);
  other.desk.set_cluster(two_racks_of("4G", "3.9G"), now);
  ASSERT_NE(planning::do_work(*other.desk.work_for_fleet({four_workers("vgg")}, {})).plans[0].plan, before)
      << "another plan is a little better";
  run(10 * kSecond);
  EXPECT_EQ(other.rounds, 2);
  EXPECT_EQ(plans("vgg").size(), 1U) << "not worth an epoch";
  EXPECT_EQ(home.epoch, 2U);
  other.desk.set_cluster(two_racks_of("1G", "4G"), now);
  ASSERT_TRUE(run_until([&] { return home.epoch == 3; }));
  EXPECT_NE(told("vgg"), before);
  EXPECT_EQ(home.job("vgg").plan.plan, told("vgg"));
  EXPECT_EQ(home.job("vgg").cause, planning::Cause::kFleet);
  run(60 * kSecond);
  EXPECT_EQ(other.rounds, 3);
  EXPECT_EQ(home.epoch, 3U) << "and that is it";
}

TEST_F(DaemonFleetPlans, JobsThatComeAndGoAreAReasonToPlanTheOthersAnew) {
  PlanningBox& home = add(1, true);
  add(2, true);
  const auto rounds = [&] { return boxes[0]->rounds + boxes[1]->rounds; };
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return !home.job("vgg").planner.empty(); }));
  home.give_job(four_workers("bert"), now);
  ASSERT_TRUE(run_until([&] { return !home.job("bert").planner.empty(); }));
  run(10 * kSecond);
  const int before = rounds();
  EXPECT_EQ(before, 2) << "in the round of the one that came both were planned";
  home.desk.gone("bert");
  run(10 * kSecond);
  ASSERT_FALSE(facts("bert").has_value());
  EXPECT_EQ(rounds(), before + 1);
  run(60 * kSecond);
  EXPECT_EQ(rounds(), before + 1);
}

TEST_F(DaemonFleetPlans, WhatWasSetAtAnyBoxHoldsForTheFleetsPlans) {
  PlanningBox& home = add(1, true);
  ASSERT_TRUE(run_until([&] { return planner() == "rack1"; }));
  PlanningBox& other = add(2, true);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack1"; }));
  run(5 * kSecond);
  const Plan before = told("vgg");
  ASSERT_TRUE(other.desk.set_rate("box rack1", 2, now));
  ASSERT_TRUE(run_until([&] { return told("vgg") != before; }));
  ASSERT_TRUE(run_until([&] { return home.job("vgg").plan.plan == told("vgg"); }));
  ASSERT_TRUE(home.desk.set_rate("box rack1", 5, now));
  run(3 * kSecond);
  EXPECT_EQ(home.desk.work_for_fleet({four_workers("vgg")})->rates, (planning::SetRates{{"box rack1", 2}}))
      << "the less counts";
  ASSERT_TRUE(other.desk.set_rate("box rack1", std::nullopt, now));
  run(3 * kSecond);
  EXPECT_EQ(home.desk.work_for_fleet({four_workers("vgg")})->rates, (planning::SetRates{{"box rack1", 5}}));
}

TEST_F(DaemonFleetPlans, WhatFoundNoSlotsAtAHomeItsPlannerIsTold) {
  PlanningBox& other = add(2, true);
  ASSERT_TRUE(run_until([&] { return planner() == "rack2"; }));
  PlanningBox& home = add(1, true);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  run(5 * kSecond);
  const auto to_own_box = [&] {
    const Plan plan = told("vgg");
    std::size_t groups = 0;
    for (std::uint32_t g = 0; g < kPlanGroups; ++g)
      for (std::size_t b = 0; b < plan.boxes.size(); ++b)
        if (plan.boxes[b] == at(1, 1)) groups += plan.here(static_cast<BoxIndex>(b), g) != 0 ? 1 : 0;
    return groups;
  };
  const std::size_t before = to_own_box();
  const int rounds = other.rounds;
  for (int i = 0; i < 10; ++i) {
    home.desk.saw_slots("vgg", 1'000, 3'000, now);
    run(kSecond);
  }
  ASSERT_EQ(facts("vgg")->limits.size(), 1U);
  EXPECT_EQ(facts("vgg")->limits.begin()->first, "10.0.1.1");
  EXPECT_EQ(other.rounds, rounds + 1) << "not again while the planner answers";
  EXPECT_LT(to_own_box(), before);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").plan.plan == told("vgg"); }));
  // Some minutes later it is tried again.
  run(700 * kSecond);
  EXPECT_TRUE(facts("vgg")->limits.empty());
}

// A loss is answered by the home, at once; the fleet's plan follows.
TEST_F(DaemonFleetPlans, OtherFactsHaveAnotherPlan) {
  PlanningBox& home = add(1, false);
  add(2, true);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  const std::uint64_t first = facts("vgg")->number;
  home.mine[0].usable = 1;
  home.new_epoch(home.mine[0], now);
  EXPECT_EQ(home.job("vgg").planner, "");
  EXPECT_EQ(home.job("vgg").cause, planning::Cause::kLost);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  EXPECT_GT(facts("vgg")->number, first);
  EXPECT_THAT(home.job("vgg").plan.plan.boxes, ElementsAre(at(1, 1)));
  EXPECT_EQ(plans("vgg").size(), 2U);
}

TEST_F(DaemonFleetPlans, APlanForFormerFactsIsNotTakenWhileTheNewOnesAreOnTheirWay) {
  PlanningBox& home = add(1, false);
  add(2, true);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  home.mine[0].ranks[0] = at(2, 13);
  home.new_epoch(home.mine[0], now);
  ASSERT_EQ(home.job("vgg").planner, "");
  home.store->faults.unreachable = true;
  run(2 * kSecond);
  EXPECT_EQ(home.job("vgg").planner, "");
  home.store->faults.unreachable = false;
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  EXPECT_EQ(facts("vgg")->ranks[0], "10.0.2.13");
}

TEST_F(DaemonFleetPlans, JobsOfAllHomesArePlannedBesideOneAnother) {
  PlanningBox& first = add(1, true);
  PlanningBox& second = add(2, true);
  auto other = four_workers("bert");
  std::swap(other.boxes[0], other.boxes[1]);
  first.give_job(four_workers("vgg"), now);
  second.give_job(other, now);
  ASSERT_TRUE(
      run_until([&] { return !first.job("vgg").planner.empty() && !second.job("bert").planner.empty(); }));
  EXPECT_EQ(first.job("vgg").planner, planner());
  EXPECT_EQ(second.job("bert").planner, planner());
  PlanningBox& planned = planner() == "rack1" ? first : second;
  EXPECT_EQ(planned.jobs_of_round, 2U);
  EXPECT_EQ((planner() == "rack1" ? second : first).rounds, 0) << "one of them plans";
}

TEST_F(DaemonFleetPlans, AnotherBoxPlansOnWhenThePlannerIsGone) {
  PlanningBox& home = add(1, false);
  add(2, true);
  add(3, true);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return !home.job("vgg").planner.empty(); }));
  const std::string first = home.job("vgg").planner;
  const Plan before = home.job("vgg").plan.plan;
  boxes[first == "rack2" ? 1 : 2].reset();  // killed
  const TimeNs died = now;
  ASSERT_TRUE(run_until([&] { return planner() != first && home.link->who_plans().planner == planner(); }));
  EXPECT_GE(home.link->who_plans().since, died);
  run(5 * kSecond);
  EXPECT_EQ(home.job("vgg").plan.plan, before) << "a plan outlives its planner";
  EXPECT_EQ(home.epoch, 2U);
  home.mine[0].usable = 1;
  home.new_epoch(home.mine[0], now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == planner(); }));
}

TEST_F(DaemonFleetPlans, WithoutAPlannerTheHomePlansAtOnceAndSaysWhoIsMissing) {
  PlanningBox& home = add(1, false);
  PlanningBox& other = add(2, true);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  other.desk.set_cluster(nullptr, now);  // its configuration was read again
  other.link->set_plans(false, now);
  ASSERT_TRUE(run_until([&] { return planner().empty(); })) << "the seat is given back";
  run(kSecond);
  const daemon::WhoPlans& who = home.link->who_plans();
  EXPECT_EQ(who.planner, "");
  EXPECT_THAT(who.trouble, HasSubstr("no box of the fleet plans"));
  home.mine[0].usable = 1;
  home.new_epoch(home.mine[0], now);
  run(10 * kSecond);
  EXPECT_EQ(home.job("vgg").planner, "");
  EXPECT_EQ(plans("vgg").size(), 1U);
  EXPECT_EQ(facts("vgg")->usable, 1U) << "for who comes";
  other.desk.set_cluster(planning::two_racks(), now);
  other.link->set_plans(true, now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  EXPECT_EQ(who.trouble, "");
}

TEST_F(DaemonFleetPlans, WithoutEtcdNothingNewIsPlannedByTheFleet) {
  PlanningBox& home = add(1, true);
  PlanningBox& other = add(2, true);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return !home.job("vgg").planner.empty(); }));
  const Plan before = home.job("vgg").plan.plan;
  const std::uint32_t epoch = home.epoch;
  const int rounds = home.rounds + other.rounds;
  for (auto& box : boxes) box->store->faults.unreachable = true;
  run(30 * kSecond);
  EXPECT_EQ(home.job("vgg").plan.plan, before);
  EXPECT_EQ(home.epoch, epoch) << "the job goes on as it is";
  EXPECT_THAT(home.link->who_plans().trouble, HasSubstr("not in its fleet (away: "));
  EXPECT_FALSE(home.link->who_plans().here);
  EXPECT_FALSE(home.desk.work(now).has_value()) << "nor does it plan for itself";
  home.mine[0].usable = 1;
  home.new_epoch(home.mine[0], now);
  run(10 * kSecond);
  EXPECT_THAT(home.job("vgg").plan.plan.boxes, ElementsAre(at(1, 1))) << "a loss is answered at once";
  EXPECT_EQ(home.job("vgg").planner, "");
  EXPECT_EQ(home.rounds + other.rounds, rounds);
  for (auto& box : boxes) box->store->faults.unreachable = false;
  ASSERT_TRUE(run_until([&] { return !home.job("vgg").planner.empty(); }));
  EXPECT_EQ(home.link->who_plans().trouble, "");
}

TEST_F(DaemonFleetPlans, AHomeWhosePlannerIsGoneForGoodPlansForItself) {
  PlanningBox& home = add(1, true);
  add(2, true);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return !home.job("vgg").planner.empty(); }));
  home.store->faults.unreachable = true;
  ASSERT_TRUE(run_until([&] { return !home.link->who_plans().trouble.empty(); }));
  home.mine[0].usable = 1;
  home.new_epoch(home.mine[0], now);
  run(60 * kSecond);
  EXPECT_FALSE(home.desk.work(now).has_value()) << "it may come back";
  run(250 * kSecond);
  EXPECT_THAT(home.link->who_plans().trouble, HasSubstr("homes plan their own jobs by now"));
  auto work = home.desk.work(now);
  ASSERT_TRUE(work.has_value());
  EXPECT_FALSE(work->fleet);
  home.desk.done(planning::do_work(std::move(*work)));
  EXPECT_TRUE(home.job("vgg").baselines.has_value());
  home.store->faults.unreachable = false;
  ASSERT_TRUE(run_until([&] { return !home.job("vgg").planner.empty(); }))
      << "which ends with the fleet's return";
  EXPECT_FALSE(home.desk.work(now + kSecond).has_value());
}

TEST_F(DaemonFleetPlans, AJobThatCannotBePlannedIsSaidOnceAndKeepsItsOwnPlan) {
  PlanningBox& home = add(1, false);
  PlanningBox& other = add(2, true);
  auto lost = four_workers("bert");
  lost.ranks[1] = mapped({192, 168, 0, 1});
  home.give_job(lost, now);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; })) << "which harms no other";
  run(20 * kSecond);
  EXPECT_EQ(home.job("bert").planner, "");
  EXPECT_THAT(plans("bert"), IsEmpty());
  EXPECT_LE(other.rounds, 3);
  EXPECT_EQ(std::ranges::count_if(other.log,
                                  [](const std::string& line) {
                                    return line.find("rank 1 at 192.168.0.1") != std::string::npos;
                                  }),
            1);
}

// Until the view is compared with etcd's the home does not see what it wrote.
TEST_F(DaemonFleetPlans, AHomeWhoseWatchIsDeadSaysItsFactsOnce) {
  PlanningBox& home = add(1, false);
  add(2, true);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  run(5 * kSecond);
  const auto written = [&](const std::string& start) {
    return std::ranges::count_if(
        server.history(), [&](const fleet::Change& change) { return change.pair.key.starts_with(start); });
  };
  const auto facts_before = written("/site/job/vgg/facts");
  const auto plans_before = plans("vgg").back();
  for (fleet::WatchId watch = 1; watch < 1000; ++watch) home.store->unwatch(watch);
  ASSERT_EQ(home.store->watches(), 0U);
  home.mine[0].usable = 1;
  home.new_epoch(home.mine[0], now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack2"; }));
  run(10 * kSecond);
  EXPECT_EQ(written("/site/job/vgg/facts"), facts_before + 1);
  EXPECT_EQ(plans_before, "/site/plan/vgg/0000000001");
  EXPECT_EQ(plans("vgg").back(), "/site/plan/vgg/0000000002");
}

TEST_F(DaemonFleetPlans, FactsGoWithTheJob) {
  PlanningBox& home = add(1, true);
  home.give_job(four_workers("vgg"), now);
  ASSERT_TRUE(run_until([&] { return home.job("vgg").planner == "rack1"; }));
  home.desk.gone("vgg");  // nobody is in it any more
  ASSERT_TRUE(run_until([&] { return !facts("vgg"); }));
  EXPECT_TRUE(server.pairs().contains("/site/job/vgg"));
}

}  // namespace
}  // namespace tally::daemon_test

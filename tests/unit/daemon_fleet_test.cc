// The box's place in its fleet: what it says of itself, what it knows of others, and what it tells people.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/load_config.h"
#include "config/reload_plan.h"
#include "daemon/fleet_link.h"
#include "fake_store.h"

namespace tally::daemon_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFleetText = R"(instance: rack1
dataplane: {cores: [1, 3]}
box: {ipv4: 10.0.0.1/24, ipv6: "fd00::1/64"}
fleet: {endpoints: ["http://127.0.0.1:2379"], prefix: /site}
ports:
  - {name: w0, device: net_ring0}
)";

struct DaemonFleet : testing::Test {
  DaemonFleet() {
    auto owned = std::make_unique<FakeStore>(server, 1);
    store = owned.get();
    link.emplace(
        config, std::move(owned),
        daemon::FleetFace{[this] { return room; },
                          {[this] { return jobs; },
                           [this](const std::string& job, const Ipv6& home) { return set_home(job, home); },
                           [this](const Ipv6& address) { seen.push_back(address); },
                           [this](const std::string&, const members::HomeNeeds& needs) {
                             asked = needs;
                             return objection;
                           },
                           [this](const std::string&, const members::HomeNews& said) { news = said; }}},
        [this](daemon::LogLevel, std::string_view text) { log.emplace_back(text); }, now);
  }
  void run(TimeNs span) {
    for (const TimeNs end = now + span; now < end;) {
      now += 5 * kMillisecond;
      store->advance(now);
      link->turn(now);
    }
  }
  // A job of this box and of the one at 10.0.0.2, whose home this is by its configuration.
  void give_job() {
    daemon::SharedJob job{.name = "vgg", .workers = 4, .servers = 2};
    job.boxes.addresses = {mapped({10, 0, 0, 1}), mapped({10, 0, 0, 2})};
    jobs.push_back(std::move(job));
  }
  Result<void> set_home(const std::string& job, const Ipv6& home) {
    for (daemon::SharedJob& one : jobs) {
      if (one.name != job) continue;
      const auto at = std::find(one.boxes.addresses.begin(), one.boxes.addresses.end(), home);
      one.boxes.home = static_cast<BoxIndex>(at - one.boxes.addresses.begin());
      ++told;
    }
    return {};
  }
  // Another box of the fleet; its lease.
  fleet::LeaseId add_box(const std::string& id, const std::string& address) {
    const auto lease = server.apply(fleet::Grant{600 * kSecond})->lease;
    const fleet::BoxRecord record{.name = id, .life = 9, .addresses = {address}};
    EXPECT_TRUE(server.apply(fleet::Put{"/site/box/" + id, fleet::text_of(record), lease}));
    return lease;
  }
  void seat(const std::string& id, fleet::LeaseId lease) {
    ASSERT_TRUE(
        server.apply(fleet::Put{"/site/job/vgg/home", fleet::text_of(fleet::SeatRecord{id, 9}), lease}));
  }
  std::string home_in_store() {
    const auto at = server.pairs().find("/site/job/vgg/home");
    return at == server.pairs().end() ? "" : fleet::read_seat(at->second.value)->box;
  }
  fleet::Pair own() { return server.pairs().at("/site/box/rack1"); }

  config::Config config = config::load_config_text(kFleetText, "box.yaml")->config;
  FakeServer server;
  FakeStore* store = nullptr;
  TimeNs now = kSecond;
  daemon::FleetRoom room{.free_slots = 7, .free_bytes = 1'000'000};
  std::vector<daemon::SharedJob> jobs;
  std::vector<Ipv6> seen;    // boxes that have begun
  int told = 0;              // times that a job got another home
  std::string objection;     // of the box to being a home
  members::HomeNeeds asked;  // for which it was asked last
  members::HomeNews news;
  std::vector<std::string> log;
  std::optional<daemon::FleetLink> link;
};

TEST(DaemonFleetKeys, AreReadAndWrittenAsTheyStand) {
  const std::string text = R"(instance: rack1
box: {ipv4: 10.0.0.1/24}
fleet:
  endpoints: ["https://10.0.0.1:2379", "https://etcd-2.site:2379", "https://[fd00::1]:2379"]
  prefix: /site/tally
  id: box-7
  user: tally
  password_file: /etc/tally/etcd.password
  ca: /etc/tally/etcd-ca.crt
  cert: /etc/tally/box-7.crt
  key: /etc/tally/box-7.key
ports:
  - {name: w0, device: net_ring0}
)";
  const auto read = config::load_config_text(text, "box.yaml");
  ASSERT_TRUE(read);
  const config::FleetSection wanted{
      .endpoints = {"https://10.0.0.1:2379", "https://etcd-2.site:2379", "https://[fd00::1]:2379"},
      .prefix = "/site/tally",
      .id = "box-7",
      .user = "tally",
      .password_file = "/etc/tally/etcd.password",
      .ca = "/etc/tally/etcd-ca.crt",
      .cert = "/etc/tally/box-7.crt",
      .key = "/etc/tally/box-7.key"};
  EXPECT_EQ(read->config.fleet, wanted);
  const auto again = config::load_config_text(config::dump_config(read->config), "box.yaml");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->config.fleet, wanted);
  // Any of them takes a restart, which ends no job.
  config::Config other = read->config;
  other.fleet.prefix = "/elsewhere";
  EXPECT_THAT(config::plan_reload(read->config, other).restart, ElementsAre("fleet.prefix"));
}

TEST_F(DaemonFleet, TheBoxSaysWhatItIs) {
  run(2 * kSecond);
  const auto record = fleet::read_box(own().value);
  ASSERT_TRUE(record) << record.error();
  EXPECT_EQ(record->name, "rack1");
  EXPECT_THAT(record->addresses, ElementsAre("10.0.0.1", "fd00::1"));
  EXPECT_EQ(record->cores, 2U);
  EXPECT_EQ(record->free_slots, 7U);
  EXPECT_EQ(record->free_bytes, 1'000'000U);
  EXPECT_NE(record->life, 0U);
  EXPECT_THAT(log, Contains("fleet: box rack1 is registered in the fleet /site"));
}

TEST_F(DaemonFleet, WhatIsFreeIsToldWhenItChanges) {
  run(3 * kSecond);
  const fleet::Revision before = server.revision();
  run(5 * kSecond);
  EXPECT_EQ(server.revision(), before);
  room.free_bytes = 2'000'000;
  run(2500 * kMillisecond);
  EXPECT_EQ(fleet::read_box(own().value)->free_bytes, 2'000'000U);
  EXPECT_EQ(server.revision(), before + 1);
}

// It would be kept from somebody who plans, or who has the job.
TEST_F(DaemonFleet, ASeatThatIsNotItsOwnTheBoxDoesNotTake) {
  ASSERT_TRUE(
      server.apply(fleet::Put{"/site/job/resnet", fleet::text_of(fleet::JobRecord{.name = "resnet"})}));
  run(10 * kSecond);
  EXPECT_FALSE(server.pairs().contains("/site/planner"));
  EXPECT_FALSE(server.pairs().contains("/site/job/resnet/home"));
}

TEST_F(DaemonFleet, AJobOfSeveralBoxesIsDeclaredByItsHome) {
  give_job();
  run(3 * kSecond);
  EXPECT_EQ(home_in_store(), "rack1");
  EXPECT_EQ(told, 0) << "it is as its configuration says";
  const auto record = fleet::read_job("vgg", server.pairs().at("/site/job/vgg").value);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->spec.dump(), R"({"workers":4,"servers":2,"boxes":["10.0.0.1","10.0.0.2"]})");
}

TEST_F(DaemonFleet, AJobGoesWhereItsSeatIsAndComesBack) {
  const auto lease = add_box("rack2", "10.0.0.2");
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(fleet::JobRecord{.name = "vgg"})}));
  seat("rack2", lease);
  give_job();
  run(2 * kSecond);
  EXPECT_EQ(jobs[0].boxes.home, 1);
  EXPECT_EQ(told, 1);
  EXPECT_THAT(log, Contains("job 'vgg': box rack2 at 10.0.0.2 is its home now, this box was it"));
  run(20 * kSecond);
  EXPECT_EQ(told, 1) << "and it stays there";
  EXPECT_EQ(home_in_store(), "rack2");
  server.end_lease(lease);
  run(3 * kSecond);
  EXPECT_EQ(home_in_store(), "rack1");
  EXPECT_EQ(jobs[0].boxes.home, 0);
  EXPECT_THAT(log, Contains("job 'vgg': this box is its home now, 10.0.0.2 was it"));
}

TEST_F(DaemonFleet, WithoutTheStoreAHomeStaysAndNobodyBecomesOne) {
  give_job();
  run(3 * kSecond);
  const auto lease = add_box("rack2", "10.0.0.2");
  run(kSecond);
  store->faults.unreachable = true;
  // Its own lease ends meanwhile, and another box takes the seat: nobody can tell it.
  server.end_lease(own().lease);
  seat("rack2", lease);
  run(60 * kSecond);
  EXPECT_EQ(told, 0);
  EXPECT_EQ(jobs[0].boxes.home, 0);
  store->faults.unreachable = false;
  run(10 * kSecond);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(jobs[0].boxes.home, 1);
}

// Its workers need not wait for the end of its drain.
TEST_F(DaemonFleet, AHomeThatLeavesSendsItsJobsToWhoTakesThem) {
  give_job();
  run(3 * kSecond);
  const auto lease = add_box("rack2", "10.0.0.2");
  run(kSecond);
  link->leave(now);
  run(kSecond);
  ASSERT_EQ(home_in_store(), "");
  seat("rack2", lease);
  run(kSecond);
  EXPECT_EQ(jobs[0].boxes.home, 1);
  EXPECT_EQ(home_in_store(), "rack2");
}

// Somebody's configuration is wrong. Nothing moves, and it is said once.
TEST_F(DaemonFleet, AHomeThatIsNoneOfItsBoxesMovesNothing) {
  const auto lease = add_box("rack9", "10.0.0.9");
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(fleet::JobRecord{.name = "vgg"})}));
  seat("rack9", lease);
  give_job();
  run(10 * kSecond);
  EXPECT_EQ(told, 0);
  const std::string said = "job 'vgg': its home in the fleet is box rack9, which is none of its boxes here";
  EXPECT_EQ(std::count(log.begin(), log.end(), said), 1);
}

TEST_F(DaemonFleet, AJobThatItHasNoRoomForItLeavesAndSaysSoOnce) {
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(fleet::JobRecord{.name = "vgg"})}));
  give_job();
  objection = "admission: 0 KiB are free";
  run(10 * kSecond);
  EXPECT_EQ(home_in_store(), "");
  objection = "admission: 64 KiB are free";
  run(kSecond);
  const std::string said = "job 'vgg': it has no home, and this box does not take it: admission: ";
  EXPECT_EQ(std::ranges::count_if(log, [&](const std::string& line) { return line.starts_with(said); }), 1);
  ASSERT_EQ(link->status(now)->jobs.size(), 1U);
  EXPECT_EQ(link->status(now)->jobs[0].left, "admission: 64 KiB are free");
  objection.clear();
  run(2 * kSecond);
  EXPECT_EQ(home_in_store(), "rack1");
  EXPECT_EQ(link->status(now)->jobs[0].left, "");
}

// By what the home said of its generation, which is in the store when the home is not.
TEST_F(DaemonFleet, WhetherItCouldCarryTheGenerationItAsksItselfBefore) {
  give_job();
  jobs[0].needs = {352, 256};
  run(3 * kSecond);
  const std::string said = server.pairs().at("/site/job/vgg").value;
  EXPECT_THAT(said, HasSubstr(R"("generation":{"elements":352,"largest_window":256})"));
  jobs[0].needs = {};
  run(3 * kSecond);
  EXPECT_EQ(server.pairs().at("/site/job/vgg").value.find("generation"), std::string::npos);
  const auto lease = add_box("rack2", "10.0.0.2");
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", said}));
  seat("rack2", lease);
  run(kSecond);
  ASSERT_EQ(jobs[0].boxes.home, 1);
  asked = {};
  objection = "admission: 0 KiB are free";
  server.end_lease(lease);
  run(10 * kSecond);
  EXPECT_EQ(asked, (members::HomeNeeds{352, 256}));
  EXPECT_EQ(home_in_store(), "");
  EXPECT_TRUE(news.nobody) << "members wait here";
  objection.clear();
  run(2 * kSecond);
  EXPECT_EQ(home_in_store(), "rack1");
  // What is none is nothing.
  server.end_lease(own().lease);
  ASSERT_TRUE(server.apply(fleet::Put{
      "/site/job/vgg",
      fleet::text_of(fleet::JobRecord{
          .name = "vgg", .spec = {{"generation", {{"elements", 70'000}, {"largest_window", 100}}}}})}));
  run(3 * kSecond);
  EXPECT_EQ(asked, members::HomeNeeds{});
}

TEST_F(DaemonFleet, AHomeWithoutRoomGivesItsSeatBackAndSaysSo) {
  give_job();
  run(3 * kSecond);
  const auto lease = add_box("rack2", "10.0.0.2");
  run(kSecond);
  jobs[0].no_room = objection = "admission: 0 KiB are free";
  jobs[0].needs = {352, 256};
  run(kSecond);
  EXPECT_EQ(home_in_store(), "");
  EXPECT_THAT(server.pairs().at("/site/job/vgg").value, HasSubstr(R"("largest_window":256)"));
  EXPECT_THAT(log,
              Contains("job 'vgg': this box is its home, and gives that back: admission: 0 KiB are free"));
  EXPECT_EQ(link->status(now)->jobs.at(0).left, "admission: 0 KiB are free");
  run(10 * kSecond);
  EXPECT_EQ(home_in_store(), "") << "it stays free";
  seat("rack2", lease);
  run(kSecond);
  EXPECT_EQ(jobs[0].boxes.home, 1);
}

// A box that is cut off cannot know what became of its seat: by its own clock it is sure no longer than its lease is.
TEST_F(DaemonFleet, AHomeIsSureOfItselfNoLongerThanItsLease) {
  give_job();
  EXPECT_EQ(news.sure_until, kNever) << "nothing was said";
  run(50 * kMillisecond);
  EXPECT_EQ(news.sure_until, 0U) << "it has no seat yet";
  run(3 * kSecond);
  EXPECT_GT(news.sure_until, now);
  EXPECT_LE(news.sure_until, now + 5 * kSecond);
  store->faults.unreachable = true;
  const TimeNs cut = now;
  run(20 * kSecond);
  EXPECT_LE(news.sure_until, cut + 5 * kSecond);
  store->faults.unreachable = false;
  run(10 * kSecond);
  EXPECT_GT(news.sure_until, now);
  link->leave(now);
  run(kSecond);
  EXPECT_EQ(news.sure_until, 0U);
}

TEST_F(DaemonFleet, ThatNobodyIsTheHomeABoxSaysOnlyWhileItHearsTheFleet) {
  const auto lease = add_box("rack2", "10.0.0.2");
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(fleet::JobRecord{.name = "vgg"})}));
  seat("rack2", lease);
  give_job();
  run(2 * kSecond);
  EXPECT_FALSE(news.nobody);
  objection = "admission: 0 KiB are free";
  ASSERT_TRUE(server.apply(fleet::Erase{{"/site/job/vgg/home", false}}));
  run(5 * kSecond);
  EXPECT_FALSE(news.nobody) << "the box that was it lives, and is asked";
  server.end_lease(lease);
  run(3 * kSecond);
  EXPECT_TRUE(news.nobody);
  store->faults.unreachable = true;
  run(20 * kSecond);
  EXPECT_FALSE(news.nobody);
}

TEST_F(DaemonFleet, AJobThatWasDeclaredAsAnotherItLeaves) {
  const fleet::Json boxes{"10.0.0.1", "10.0.0.2"};
  const auto declared = [&](int workers, int servers, const fleet::Json& at, std::optional<int> token = {}) {
    fleet::JobRecord record{.name = "vgg",
                            .spec = {{"workers", workers}, {"servers", servers}, {"boxes", at}}};
    if (token) record.spec["token_check"] = *token;
    ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(record)}));
    run(3 * kSecond);
  };
  declared(5, 2, boxes);
  give_job();
  run(10 * kSecond);
  EXPECT_EQ(home_in_store(), "");
  EXPECT_EQ(link->status(now)->jobs.at(0).left, "the fleet has it with workers 5, this box with 4");
  declared(4, 1, boxes);
  EXPECT_EQ(link->status(now)->jobs.at(0).left, "the fleet has it with servers 1, this box with 2");
  declared(4, 2, {"10.0.0.1"});
  EXPECT_EQ(link->status(now)->jobs.at(0).left,
            R"(the fleet has it with boxes ["10.0.0.1"], this box with ["10.0.0.1","10.0.0.2"])");
  jobs[0].token_check = 17;
  declared(4, 2, boxes, 18);
  EXPECT_EQ(link->status(now)->jobs.at(0).left, "the fleet has it with another token than this box");
  EXPECT_EQ(home_in_store(), "");
  declared(4, 2, boxes, 17);
  EXPECT_EQ(home_in_store(), "rack1");
}

// A box of the version before says nothing of tokens.
TEST_F(DaemonFleet, ItsHomeSaysWhichTokenAJobHas) {
  const fleet::JobRecord record{
      .name = "vgg", .spec = {{"workers", 4}, {"servers", 2}, {"boxes", {"10.0.0.1", "10.0.0.2"}}}};
  ASSERT_TRUE(server.apply(fleet::Put{"/site/job/vgg", fleet::text_of(record)}));
  give_job();
  jobs[0].token_check = 17;
  run(3 * kSecond);
  EXPECT_EQ(home_in_store(), "rack1");
  const auto said = [&] {
    return fleet::read_job("vgg", server.pairs().at("/site/job/vgg").value)->spec["token_check"];
  };
  run(3 * kSecond);
  EXPECT_EQ(said(), 17);
  jobs[0].token_check = 18;
  run(3 * kSecond);
  EXPECT_EQ(said(), 18);
}

TEST_F(DaemonFleet, EachLifeOfABoxIsSeenOnce) {
  run(2 * kSecond);
  EXPECT_TRUE(seen.empty()) << "itself it knows";
  const auto lease = add_box("rack2", "10.0.0.2");
  run(5 * kSecond);
  EXPECT_THAT(seen, ElementsAre(mapped({10, 0, 0, 2})));
  server.end_lease(lease);
  run(kSecond);
  add_box("rack2", "10.0.0.2");
  run(5 * kSecond);
  EXPECT_THAT(seen, ElementsAre(mapped({10, 0, 0, 2}), mapped({10, 0, 0, 2})));
}

TEST_F(DaemonFleet, AJobThatItsHomeHasNoMoreIsWithdrawn) {
  give_job();
  run(3 * kSecond);
  ASSERT_EQ(home_in_store(), "rack1");
  jobs.clear();
  run(kSecond);
  EXPECT_FALSE(server.pairs().contains("/site/job/vgg"));
  EXPECT_FALSE(server.pairs().contains("/site/job/vgg/home"));
  give_job();
  run(kSecond);
  EXPECT_EQ(home_in_store(), "rack1") << "and declared again";
}

// Nobody else could take the seat of a box that lives.
TEST_F(DaemonFleet, AJobThatWentWhileEtcdWasAwayIsWithdrawnWhenItIsBack) {
  give_job();
  run(3 * kSecond);
  ASSERT_EQ(home_in_store(), "rack1");
  const fleet::LeaseId lease = own().lease;
  store->faults.unreachable = true;
  // So long that by the box's clock its lease may have ended; etcd was down, and begins leases anew when it is back.
  const auto run_down = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      run(kSecond);
      ASSERT_TRUE(server.apply(fleet::KeepAlive{lease}));
    }
  };
  run_down(10);
  jobs.clear();
  run_down(2);
  store->faults.unreachable = false;
  run(30 * kSecond);
  EXPECT_EQ(own().lease, lease);
  EXPECT_FALSE(server.pairs().contains("/site/job/vgg/home"));
  EXPECT_FALSE(server.pairs().contains("/site/job/vgg"));
}

TEST_F(DaemonFleet, AJobThatWentWhileItsDeclarationWasOnItsWayIsWithdrawn) {
  run(3 * kSecond);
  give_job();
  store->faults.delay = 2 * kSecond;
  for (int turns = 0; turns < 1000 && home_in_store().empty(); ++turns) run(10 * kMillisecond);
  ASSERT_EQ(home_in_store(), "rack1");
  ASSERT_TRUE(link->status(now)->jobs.empty()) << "this box has not heard of it";
  jobs.clear();
  store->faults.delay = 0;
  const fleet::LeaseId lease = own().lease;
  run(30 * kSecond);
  EXPECT_EQ(own().lease, lease);
  EXPECT_FALSE(server.pairs().contains("/site/job/vgg/home"));
}

TEST_F(DaemonFleet, WhatItsPortsCarryIsInItsRecord) {
  room.rate = 100'000'000'000;
  run(2 * kSecond);
  EXPECT_EQ(fleet::read_box(own().value)->rate, 100'000'000'000U);
}

TEST_F(DaemonFleet, ItsStatusIsThatOfTheFleet) {
  const auto lease = server.apply(fleet::Grant{60 * kSecond})->lease;
  ASSERT_TRUE(
      server.apply(fleet::Put{"/site/planner", fleet::text_of(fleet::SeatRecord{"rack2", 9}), lease}));
  ASSERT_TRUE(server.apply(
      fleet::Put{"/site/box/rack2", fleet::text_of(fleet::BoxRecord{.name = "rack2", .life = 9}), lease}));
  ASSERT_TRUE(server.apply(fleet::Put{"/site/rubbish", "x"}));
  run(2 * kSecond);
  const auto status = link->status(now);
  EXPECT_EQ(status->standing, "member");
  EXPECT_EQ(status->planner, "rack2");
  EXPECT_FALSE(status->is_planner);
  ASSERT_EQ(status->boxes.size(), 2U);
  EXPECT_EQ(status->boxes[0].id, "rack1");
  EXPECT_EQ(status->bad_now, 1U);
  EXPECT_EQ(status->bad[0].why, "it is no key of a fleet");
}

TEST_F(DaemonFleet, ItSaysSinceWhenEtcdIsGone) {
  run(2 * kSecond);
  store->faults.unreachable = true;
  const TimeNs gone = now;
  run(10 * kSecond);
  auto status = link->status(now);
  EXPECT_EQ(status->standing, "away");
  EXPECT_LE(status->since, gone);
  EXPECT_EQ(status->boxes.size(), 1U);
  EXPECT_THAT(log.back(), HasSubstr("fleet: the store of the fleet does not answer: "));
  store->faults.unreachable = false;
  run(10 * kSecond);
  EXPECT_EQ(link->status(now)->standing, "member");
}

TEST_F(DaemonFleet, ItLeavesAtOnce) {
  run(2 * kSecond);
  link->leave(now);
  link->leave(now);
  EXPECT_FALSE(link->left());
  run(100 * kMillisecond);
  EXPECT_TRUE(link->left());
  EXPECT_FALSE(server.pairs().contains("/site/box/rack1"));
  run(10 * kSecond);
  EXPECT_FALSE(server.pairs().contains("/site/box/rack1"));
}

TEST_F(DaemonFleet, AFleetThatComesAndGoesDoesNotFloodTheLog) {
  run(2 * kSecond);
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(
        server.apply(fleet::Put{"/site/job/j" + std::to_string(i), fleet::text_of(fleet::JobRecord{})}));
  const std::size_t before = log.size();
  run(10 * kSecond);
  EXPECT_LE(log.size() - before, 60U);
}

}  // namespace
}  // namespace tally::daemon_test

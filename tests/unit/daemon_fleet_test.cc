// The box in its fleet: what it says of itself, what it knows of others, and what it tells people.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config/load_config.h"
#include "config/reload_plan.h"
#include "daemon_fleet_bed.h"
#include "fake_store.h"

namespace tally::daemon_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

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

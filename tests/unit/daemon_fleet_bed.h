#pragma once
// The box's place in its fleet, over a store in memory and in virtual time.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/load_config.h"
#include "daemon/fleet_link.h"
#include "fake_store.h"

namespace tally::daemon_test {

inline constexpr const char* kFleetText = R"(instance: rack1
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

}  // namespace tally::daemon_test

// What becomes of a good file of a cluster.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster_file.h"
#include "planner/closed_form.h"

namespace tally::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Cluster read(const std::string& text) {
  auto loaded = load_cluster_text(text, "c.yaml");
  EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : config::to_text(loaded.error()));
  return loaded ? std::move(loaded->cluster) : Cluster{};
}

Cluster example(const std::string& name) {
  auto loaded = load_cluster(std::string(TALLY_CONF_DIRECTORY "/cluster-") + name + ".yaml");
  EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : config::to_text(loaded.error()));
  return loaded ? std::move(loaded->cluster) : Cluster{};
}

// The link of two switches, from the first to the second.
double rate_between(const Cluster& cluster, const std::string& from, const std::string& to) {
  for (const Cluster::Link& link : cluster.links) {
    const std::string& a = cluster.switches[link.from].name;
    const std::string& b = cluster.switches[link.to].name;
    if (a == from && b == to) return link.rate;
    if (a == to && b == from) return link.back;
  }
  return -1;
}

struct Closed {
  double none = 0;
  double own_racks = 0;
  double any_box = 0;
};
// Of the first job, when links between switches never bind.
Closed closed_forms(const Cluster& cluster) {
  const planner::Topology topology = topology_of(cluster);
  const planner::Rates all = topology.rates();
  planner::Rates none = all;
  for (Index b = 0; b < topology.boxes().size(); ++b) none[topology.box(b)] = 0;
  const auto party = planner::party_of(topology, cluster.jobs.at(0).plan, all);
  EXPECT_TRUE(party.has_value());
  if (!party) return {};
  return {planner::upper_bound(topology, *party, none), planner::rack_local_rate(topology, *party, all),
          planner::upper_bound(topology, *party, all)};
}

std::vector<std::string> places_of(const Cluster& cluster) {
  std::vector<std::string> out;
  for (const Cluster::Place& place : cluster.places)
    out.push_back(cluster.switches[place.rack].name + " " + network_text(place.network));
  return out;
}

TEST(ClusterAddresses, OfRacksAreNetworksOneForEach) {
  const Cluster cluster = read(
      "switches: spine1\n"
      "racks:\n"
      "  - {name: \"rack[1-2]\", hosts: 2, nic: 10G, uplink: 10G, addresses: \"10.0.[1-2].0/24\"}\n"
      "  - {name: rack3, hosts: 1, nic: 10G, uplink: 10G}\n"
      "places:\n"
      "  - {rack: \"rack[1-2]\", addresses: [\"fd00:1::/64\", \"fd00:2::/64\"]}\n"
      "  - {rack: rack3, addresses: 192.168.3.7/32}\n");
  EXPECT_THAT(places_of(cluster),
              ElementsAre("rack1 10.0.1.0/24", "rack2 10.0.2.0/24", "rack3 192.168.3.7/32",
                          "rack1 fd00:1::/64", "rack2 fd00:2::/64"));
}

TEST(ClusterAddresses, OfGeneratedRacksStandInPlaces) {
  const Cluster cluster = read(
      "leaf_spine: {racks: 4, spines: 1, hosts: 2, nic: 10G, uplink: 10G}\n"
      "places: [{rack: \"rack[1-4]\", addresses: \"10.0.[1-4].0/24\"}]\n"
      "boxes:\n"
      "  - {at: \"rack[1-4]\", rate: 10G, address: \"10.9.[1-4].1\"}\n"
      "  - {at: spine1, rate: 10G}\n"
      "servers:\n"
      "  - {name: \"ps[1-2]\", rack: \"rack[1-2]\", nic: 10G, address: [10.0.1.9, 10.0.1.1]}\n");
  EXPECT_THAT(places_of(cluster), SizeIs(4));
  ASSERT_THAT(cluster.boxes, SizeIs(5));
  EXPECT_EQ(cluster.boxes[3].address, mapped({10, 9, 4, 1}));
  EXPECT_EQ(cluster.boxes[4].address, std::nullopt);
  EXPECT_EQ(cluster.servers[1].address, mapped({10, 0, 1, 1}));
}

TEST(ClusterAddresses, ANetworkHasWhatBeginsAsItDoes) {
  const auto networks = parse_networks("10.0.[1-2].128/25");
  ASSERT_TRUE(networks.has_value());
  ASSERT_THAT(*networks, SizeIs(2));
  EXPECT_TRUE((*networks)[0].contains(mapped({10, 0, 1, 128})));
  EXPECT_TRUE((*networks)[0].contains(mapped({10, 0, 1, 255})));
  EXPECT_FALSE((*networks)[0].contains(mapped({10, 0, 1, 127})));
  EXPECT_FALSE((*networks)[0].contains(mapped({10, 0, 2, 200})));
  EXPECT_FALSE((*networks)[0].contains(Ipv6{0xfd}));
}

TEST(ClusterExamples, FourRacksGiveTheKnownRates) {
  const Cluster cluster = example("leaf-spine");
  EXPECT_THAT(cluster.switches, SizeIs(6));
  EXPECT_THAT(cluster.hosts, SizeIs(36)) << "32 workers, 4 servers";
  EXPECT_THAT(cluster.links, SizeIs(8));
  EXPECT_THAT(cluster.jobs.at(0).plan.workers, SizeIs(32));
  const Closed closed = closed_forms(cluster);
  EXPECT_DOUBLE_EQ(closed.none, 12.5);
  EXPECT_DOUBLE_EQ(closed.own_racks, 23.4375);
  EXPECT_DOUBLE_EQ(closed.any_box, 24.609375);
}

TEST(ClusterExamples, TheFatTreeOfTheArticleGivesItsRates) {
  const Cluster cluster = example("fat-tree");
  EXPECT_THAT(cluster.switches, SizeIs(45));
  EXPECT_THAT(cluster.boxes, SizeIs(45));
  EXPECT_THAT(cluster.hosts, SizeIs(54));
  EXPECT_THAT(cluster.links, SizeIs(108));
  EXPECT_THAT(cluster.jobs.at(0).plan.workers, SizeIs(50));
  EXPECT_EQ(cluster.routing, planner::Routing::kChosen);
  EXPECT_EQ(cluster.results, planner::Results::kIgnored);
  const Closed closed = closed_forms(cluster);
  EXPECT_DOUBLE_EQ(closed.none, 1.6);
  EXPECT_NEAR(closed.own_racks, 3.565, 5e-4);
  EXPECT_NEAR(closed.any_box, 9.538, 5e-4);
}

TEST(ClusterExamples, OneRackIsABoxWithoutServers) {
  const Cluster cluster = example("one-rack");
  EXPECT_THAT(cluster.jobs, SizeIs(2));
  EXPECT_EQ(cluster.hosts[15].name, "gpu16");
  EXPECT_THAT(cluster.servers, IsEmpty());
  EXPECT_DOUBLE_EQ(closed_forms(cluster).any_box, 25);
  EXPECT_EQ(cluster.jobs[1].gradient, 1280ULL << 20U);
}

TEST(ClusterFileText, EveryKeyArrives) {
  const Cluster c = read(
      "routing: chosen\nresults: ignored\nslot_time: 250us\nswitches: core1\n"
      "racks:\n  - {name: a, hosts: 2, nic: 10G, uplink: 40G}\n  - {name: b, hosts: [x, y, z], nic: 2.5G}\n"
      "links:\n  - {from: b, to: core1, rate: 50G, back: 20 Gbit/s}\n"
      "boxes:\n  - {at: core1, rate: 200G, name: big, slots: 64MiB}\n"
      "servers:\n  - {name: s, host: z, ingress: 2G}\n  - {name: t, rack: a, nic: 100G}\n"
      "jobs:\n  - {name: j, workers: [a, y x 2], servers: t, demand: 5G, gradient: 1GiB}\n");
  EXPECT_EQ(c.routing, planner::Routing::kChosen);
  EXPECT_EQ(c.results, planner::Results::kIgnored);
  EXPECT_DOUBLE_EQ(c.slot_seconds, 250e-6);
  ASSERT_THAT(c.switches, SizeIs(3));
  EXPECT_TRUE(c.switches[1].rack);
  EXPECT_FALSE(c.switches[2].rack);
  ASSERT_THAT(c.hosts, SizeIs(6));
  EXPECT_EQ(c.hosts[1].name, "a-2");
  EXPECT_DOUBLE_EQ(c.hosts[4].nic, 2.5);
  EXPECT_EQ(c.hosts[5].name, "t");
  EXPECT_DOUBLE_EQ(c.hosts[5].nic, 100);
  EXPECT_DOUBLE_EQ(rate_between(c, "a", "core1"), 40);
  EXPECT_DOUBLE_EQ(rate_between(c, "b", "core1"), 50);
  EXPECT_DOUBLE_EQ(rate_between(c, "core1", "b"), 20);
  ASSERT_THAT(c.boxes, SizeIs(1));
  EXPECT_EQ(c.boxes[0].name, "big");
  EXPECT_EQ(c.boxes[0].at, 2U);
  EXPECT_EQ(c.boxes[0].slots, 64ULL << 20U);
  ASSERT_THAT(c.servers, SizeIs(2));
  EXPECT_DOUBLE_EQ(c.servers[0].ingress, 2);
  EXPECT_EQ(c.servers[0].host, 4U);
  EXPECT_DOUBLE_EQ(c.servers[1].ingress, 100);
  ASSERT_THAT(c.jobs, SizeIs(1));
  EXPECT_THAT(c.jobs[0].plan.workers, ElementsAre(0, 1, 3, 3));
  EXPECT_THAT(c.jobs[0].plan.servers, ElementsAre(1));
  EXPECT_DOUBLE_EQ(c.jobs[0].plan.demand, 5);
  EXPECT_EQ(c.jobs[0].gradient, 1ULL << 30U);
}

TEST(ClusterFileText, WithoutJobsThereIsOneOfAllHostsThatHaveNoServer) {
  const Cluster c = read(
      "racks: [{name: a, hosts: 3, nic: 10G}]\nservers: [{name: s, host: a-2}, {name: t, rack: a, nic: "
      "1G}]\n");
  ASSERT_THAT(c.jobs, SizeIs(1));
  EXPECT_EQ(c.jobs[0].plan.name, "all");
  EXPECT_THAT(c.jobs[0].plan.workers, ElementsAre(0, 2));
  EXPECT_THAT(c.jobs[0].plan.servers, ElementsAre(0, 1));
  EXPECT_EQ(c.jobs[0].plan.demand, std::numeric_limits<double>::infinity());
  EXPECT_EQ(c.jobs[0].gradient, 0U);
}

TEST(ClusterFileText, WorkersOfARackAreOnItsFirstHostsWithoutAServer) {
  const Cluster c = read(
      "racks:\n  - name: r[1-2]\n    hosts: 4\n    nic: 10G\n    uplink: 40G\nswitches: s\n"
      "servers:\n  - {name: p, host: r1-1}\njobs:\n  - name: j\n    workers: r[1-2] x 3\n");
  EXPECT_THAT(c.jobs.at(0).plan.workers, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(ClusterFileText, HostsWithNamesAreSharedOutInOrder) {
  const Cluster c =
      read("racks:\n  - name: r[1-2]\n    hosts: gpu[01-04]\n    nic: 10G\n    uplink: 40G\nswitches: s\n");
  ASSERT_THAT(c.hosts, SizeIs(4));
  EXPECT_EQ(c.hosts[1].name, "gpu02");
  EXPECT_EQ(c.hosts[1].at, 0U);
  EXPECT_EQ(c.hosts[2].name, "gpu03");
  EXPECT_EQ(c.hosts[2].at, 1U);
}

TEST(ClusterFileText, ALinkOfTheListOverridesAMadeOneEitherWayRound) {
  const std::string base = "leaf_spine: {racks: 2, spines: 2, hosts: 1, nic: 10G, uplink: 100G}\n";
  const Cluster c = read(base + "links: [{from: spine1, to: rack2, rate: 40G, back: 25G}]\n");
  EXPECT_THAT(c.links, SizeIs(4));
  EXPECT_DOUBLE_EQ(rate_between(c, "spine1", "rack2"), 40);
  EXPECT_DOUBLE_EQ(rate_between(c, "rack2", "spine1"), 25);
  EXPECT_DOUBLE_EQ(rate_between(c, "rack1", "spine1"), 100);
}

TEST(ClusterFileText, ServersTakeTheirRacksByTurns) {
  const Cluster c = read(
      "leaf_spine: {racks: 2, spines: 1, hosts: 1, nic: 10G, uplink: 100G}\n"
      "servers:\n  - name: ps[1-3]\n    rack: rack[1-2]\n    nic: 50G\n    ingress: 40G\n");
  ASSERT_THAT(c.servers, SizeIs(3));
  EXPECT_EQ(c.hosts[c.servers[2].host].at, 0U);
  EXPECT_EQ(c.hosts[c.servers[1].host].at, 1U);
  EXPECT_DOUBLE_EQ(c.servers[0].ingress, 40);
}

TEST(ClusterFileText, ATopologyHasTheSameNumbers) {
  const Cluster c = example("leaf-spine");
  const planner::Topology t = topology_of(c);
  ASSERT_EQ(t.hosts().size(), c.hosts.size());
  ASSERT_EQ(t.boxes().size(), c.boxes.size());
  for (std::size_t h = 0; h < c.hosts.size(); ++h) {
    EXPECT_EQ(t.hosts()[h].name, c.hosts[h].name);
    EXPECT_EQ(t.hosts()[h].rack, c.hosts[h].at);
  }
  EXPECT_EQ(t.links().size(), 2 * (c.hosts.size() + c.links.size()));
}

TEST(ClusterLoss, WhatIsLostHasNoRate) {
  const Cluster c = example("leaf-spine");
  const auto box = without(c, "box=rack2");
  ASSERT_TRUE(box.has_value());
  EXPECT_DOUBLE_EQ(box->boxes[1].rate, 0);
  EXPECT_DOUBLE_EQ(box->boxes[0].rate, 100);
  const auto link = without(c, "link=spine1-rack2");
  ASSERT_TRUE(link.has_value());
  EXPECT_DOUBLE_EQ(rate_between(*link, "rack2", "spine1"), 0);
  EXPECT_DOUBLE_EQ(rate_between(*link, "spine1", "rack2"), 0);
  EXPECT_DOUBLE_EQ(rate_between(*link, "rack2", "spine2"), 100);
  const auto spine = without(c, "switch=spine2");
  ASSERT_TRUE(spine.has_value());
  EXPECT_DOUBLE_EQ(rate_between(*spine, "rack4", "spine2"), 0);
  EXPECT_DOUBLE_EQ(without(c, "switch=rack1")->boxes[0].rate, 0) << "its box is gone with it";
}

TEST(ClusterLoss, WhatIsNotThereCannotBeLost) {
  const Cluster c = example("leaf-spine");
  EXPECT_THAT(without(c, "box=rakc2").error().what, HasSubstr("did you mean rack2?"));
  EXPECT_THAT(without(c, "link=rack1-rack2").error().what, HasSubstr("there is no link 'rack1-rack2'"));
  EXPECT_THAT(without(c, "switch=core9").error().what, HasSubstr("there is no switch 'core9'"));
  for (const char* const bad : {"", "box", "box=", "rack1", "host=rack1-1", "=rack1"})
    EXPECT_THAT(without(c, bad).error().what, HasSubstr("box=NAME, link=A-B or switch=NAME")) << bad;
}

TEST(ClusterFiles, OneThatCannotBeReadIsNamed) {
  const auto loaded = load_cluster("/no/such/file.yaml");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_THAT(config::to_text(loaded.error()), HasSubstr("/no/such/file.yaml"));
}

}  // namespace
}  // namespace tally::cluster

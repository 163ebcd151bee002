// Where boxes bring most.

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_tool/purchase.h"
#include "plan_tool_scene.h"

namespace tally::plan_tool {
namespace {

using cluster::Cluster;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<Index> all_switches(const Cluster& c) {
  std::vector<Index> all(c.switches.size());
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

Cluster bare_example(const std::string& name) {
  Cluster c = example_cluster(name);
  c.boxes.clear();
  return c;
}

TEST(Likeness, RacksThatLookTheSameAreOneClass) {
  const Cluster c = bare_example("leaf-spine");
  const Likeness like = likeness_of(c);
  EXPECT_EQ(std::set<std::size_t>(like.classes.begin(), like.classes.begin() + 4).size(), 1U);
  EXPECT_EQ(like.classes[4], like.classes[5]);
  EXPECT_NE(like.classes[0], like.classes[4]);
}

// By far more than neighbours: a link that is slower three switches away.
TEST(Likeness, WhatIsFarAwayTellsSwitchesApart) {
  const Cluster c = cluster_of(
      "switches: [s1, s2, top]\nracks:\n"
      "  - {name: [a, b], hosts: 2, nic: 10G, uplink: 40G, uplink_to: s1}\n"
      "  - {name: [c, d], hosts: 2, nic: 10G, uplink: 40G, uplink_to: s2}\n"
      "links: [{from: [s1, s2], to: top, rate: 40G}]\n");
  const std::vector<std::size_t> alike = likeness_of(c).classes;
  EXPECT_EQ(std::set<std::size_t>(alike.begin(), alike.begin() + 4).size(), 1U);
  Cluster slower = c;
  slower.links.back().back = 10;
  const std::vector<std::size_t> unlike = likeness_of(slower).classes;
  EXPECT_EQ(unlike[0], unlike[1]);
  EXPECT_EQ(unlike[2], unlike[3]);
  EXPECT_NE(unlike[0], unlike[2]);
}

TEST(Likeness, EachThingThatHangsOnARackCounts) {
  const std::string base = "leaf_spine: {racks: 2, spines: 1, hosts: 2, nic: 10G, uplink: 40G}\n";
  for (const char* const more :
       {"boxes: [{at: rack2, rate: 10G}]\n", "jobs: [{name: j, workers: [rack1, rack2-1]}]\n",
        "servers: [{name: p, host: rack2-1}]\n", "links: [{from: rack2, to: spine1, rate: 10G}]\n"}) {
    const std::vector<std::size_t> classes = likeness_of(cluster_of(base + more)).classes;
    EXPECT_NE(classes[0], classes[1]) << more;
  }
  const std::vector<std::size_t> same = likeness_of(cluster_of(base)).classes;
  EXPECT_EQ(same[0], same[1]);
}

TEST(Likeness, ClustersThatAreAlikeHaveOneSignature) {
  const Cluster c = bare_example("leaf-spine");
  const auto with_box_at = [&](Index at) {
    Cluster more = c;
    more.boxes.push_back({"b", at, 100, {}});
    return likeness_of(more).signature;
  };
  EXPECT_EQ(with_box_at(0), with_box_at(3));
  EXPECT_EQ(with_box_at(4), with_box_at(5));
  EXPECT_NE(with_box_at(0), with_box_at(4));
}

TEST(Purchase, ATableOfBoxesNeverFallsAndStaysBelowTheBound) {
  const Cluster c = bare_example("leaf-spine");
  const auto found = placements(c, {.boxes = 6, .rate = 100, .places = all_switches(c)});
  ASSERT_THAT(found, SizeIs(7));
  EXPECT_THAT(found[0].at, IsEmpty());
  EXPECT_NEAR(found[0].rates.at(0), 12.5, 1e-6);
  for (std::size_t k = 1; k < found.size(); ++k) {
    EXPECT_THAT(found[k].at, SizeIs(k));
    EXPECT_TRUE(found[k].all_tried);
    EXPECT_GE(found[k].total, found[k - 1].total);
    EXPECT_LE(found[k].total, found[k].bound * (1 + 1e-9));
    EXPECT_GE(found[k].total, found[k].bound * 0.95);
  }
  // (B + (W - 1) C / W) / W of each worker.
  EXPECT_NEAR(found[4].bound / 32, 24.609375, 1e-6);
  EXPECT_NEAR(found[1].bound / 32, (400 + 31 * 100.0 / 32) / 32, 1e-6);
}

// Of three racks one alone has workers of the job that a server's link is too narrow for.
TEST(Purchase, ABoxGoesWhereTheWorkersAre) {
  const Cluster c = cluster_of(
      "leaf_spine: {racks: 3, spines: 1, hosts: 8, nic: 25G, uplink: 25G}\n"
      "servers: [{name: p, rack: rack3, nic: 25G}]\njobs: [{name: j, workers: rack2}]\n");
  const auto found = placements(c, {.boxes = 1, .rate = 200, .places = all_switches(c)});
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[1].at, ElementsAre(1));
  EXPECT_NEAR(found[0].rates.at(0), 25.0 / 8, 1e-6);
  EXPECT_NEAR(found[1].rates.at(0), 25, 0.1);
}

TEST(Purchase, OneByOneIsSaidAndIsNearTheBestOfAll) {
  const Cluster c = bare_example("leaf-spine");
  const auto all = placements(c, {.boxes = 4, .rate = 100, .places = all_switches(c)});
  const auto greedy = placements(c, {.boxes = 4, .rate = 100, .places = all_switches(c), .most_tried = 1});
  EXPECT_FALSE(greedy[2].all_tried);
  for (std::size_t k = 0; k < all.size(); ++k) {
    EXPECT_LE(greedy[k].total, all[k].total * (1 + 1e-9));
    EXPECT_GE(greedy[k].total, all[k].total * 0.9);
  }
}

// Against every choice, alike or not.
TEST(Purchase, OfThoseThatAreAlikeOneIsEnough) {
  const Cluster c = cluster_of(
      "leaf_spine: {racks: 3, spines: 2, hosts: 4, nic: 25G, uplink: 50G}\n"
      "servers: [{name: p, rack: rack1, nic: 50G}]\njobs: [{name: j, workers: [rack1 x 2, rack2, rack3]}]\n");
  const auto found = placements(c, {.boxes = 2, .rate = 50, .places = all_switches(c)});
  double best = 0;
  for (Index a = 0; a < c.switches.size(); ++a) {
    for (Index b = a + 1; b < c.switches.size(); ++b) {
      Cluster more = c;
      more.boxes = {{"a", a, 50, {}}, {"b", b, 50, {}}};
      best = std::max(best, plan_all(more, planner::Effort::kProduct, Compare::kNothing).total());
    }
  }
  EXPECT_LT(found[2].tried, 10U);
  EXPECT_NEAR(found[2].total, best, best * 0.01) << "those that are alike differ by rounding alone";
}

TEST(Purchase, OnlyAtThePlacesThatAreNamedAndNoMoreThanThose) {
  const Cluster c = bare_example("leaf-spine");
  const auto found = placements(c, {.boxes = 5, .rate = 100, .places = {4, 5}});
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_THAT(found[2].at, ElementsAre(4, 5));
}

}  // namespace
}  // namespace tally::plan_tool

// What is printed.

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_tool/answers.h"
#include "plan_tool_scene.h"

namespace tally::plan_tool {
namespace {

using planner::Effort;
using testing::HasSubstr;
using testing::Not;

const std::string kFile = "c.yaml";
const std::string kEveryJob;

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

struct Scene {
  cluster::Cluster cluster = example_cluster("leaf-spine");
  PlannedCluster planned = plan_all(cluster, Effort::kFull, Compare::kAll);
  Shown shown{kFile, cluster, kEveryJob};
};

TEST(PlanAnswers, ShowSaysRateLimitBoundAndOtherMeans) {
  const Scene s;
  const std::string text = show_text(s.shown, s.planned);
  for (const char* const words :
       {"c.yaml: 4 racks, 2 other switches, 36 hosts, 4 boxes, 4 servers",
        "job gpt: 32 workers in 4 racks, 4 servers", "Gbit/s from every worker; a step of 1440MiB takes 5",
        "at most  24.61 Gbit/s", "no aggregation", "12.50", "boxes of own racks, at best", "23.44",
        "a ring of the workers", "12.90", "more: --all"})
    EXPECT_THAT(text, HasSubstr(words));
  EXPECT_THAT(text, Not(HasSubstr("A ring would be faster")));
  EXPECT_LE(widest_line(text), 100U);
}

TEST(PlanAnswers, AllLoadsAreThereWhenAsked) {
  Scene s;
  s.shown.all_loads = true;
  const std::string text = show_text(s.shown, s.planned);
  EXPECT_THAT(text, Not(HasSubstr("--all")));
  for (planner::Resource r = 0; r < s.planned.loads.size(); ++r) {
    const bool used = s.planned.loads[r] > 1e-6;
    EXPECT_TRUE(!used || text.find(s.planned.topology.name_of(r)) != std::string::npos)
        << s.planned.topology.name_of(r);
  }
}

TEST(PlanAnswers, ARingThatIsFasterHasASentence) {
  const cluster::Cluster c =
      cluster_of("racks: [{name: r, hosts: 12, nic: 25G}]\nboxes: [{at: r, rate: 100G}]\n");
  const PlannedCluster planned = plan_all(c, Effort::kFull, Compare::kAll);
  const Shown shown{kFile, c, kEveryJob};
  EXPECT_THAT(show_text(shown, planned),
              HasSubstr("A ring would be faster, and needs no box: 13.64 against 8.33 Gbit/s."));
  EXPECT_EQ(show_json(shown, planned)["jobs"][0]["ring_is_faster"], true);
}

TEST(PlanAnswers, WantOfSlotsIsNamed) {
  const cluster::Cluster c =
      cluster_of("racks: [{name: r, hosts: 12, nic: 25G}]\nboxes: [{at: r, rate: 100G, slots: 1KiB}]\n");
  const PlannedCluster planned = plan_all(c, Effort::kFull, Compare::kNothing);
  EXPECT_THAT(show_text({kFile, c, kEveryJob}, planned), HasSubstr("box r, for want of slots"));
}

TEST(PlanAnswers, OneJobIsShownAndTheOthersArePlanned) {
  const cluster::Cluster c = example_cluster("one-rack");
  const PlannedCluster planned = plan_all(c, Effort::kFull, Compare::kAll);
  const std::string bert = "bert";
  const std::string text = show_text({kFile, c, bert}, planned);
  EXPECT_THAT(text, HasSubstr("job bert"));
  EXPECT_THAT(text, Not(HasSubstr("resnet")));
  EXPECT_EQ(show_json({kFile, c, bert}, planned)["jobs"].size(), 1U);
  EXPECT_THAT(show_text({kFile, c, kEveryJob}, planned), HasSubstr("all jobs together: 300.00 Gbit/s"));
}

TEST(PlanAnswers, AJobWithoutAPlanSaysWhy) {
  const auto c = cluster::without(example_cluster("leaf-spine"), "switch=rack1");
  ASSERT_TRUE(c.has_value());
  const PlannedCluster planned = plan_all(*c, Effort::kFull, Compare::kAll);
  EXPECT_THAT(show_text({kFile, *c, kEveryJob}, planned), HasSubstr("no plan: "));
  const Json json = show_json({kFile, *c, kEveryJob}, planned);
  EXPECT_TRUE(json["jobs"][0]["rate_gbps"].is_null());
  EXPECT_TRUE(json["jobs"][0]["error"].is_string());
}

TEST(PlanAnswers, ALossIsBesideWhatWas) {
  const Scene s;
  const auto left = cluster::without(s.cluster, "box=rack1");
  ASSERT_TRUE(left.has_value());
  const PlannedCluster after = plan_all(*left, Effort::kFull, Compare::kRing);
  const std::vector<std::string> lost{"box=rack1"};
  const std::string text = what_if_text(s.shown, {lost, s.planned, after});
  EXPECT_THAT(text, HasSubstr("lost: box=rack1"));
  EXPECT_THAT(text, HasSubstr("% of before"));
  EXPECT_LE(widest_line(text), 100U);
  const Json json = what_if_json(s.shown, {lost, s.planned, after});
  EXPECT_EQ(json["lost"], Json(lost));
  EXPECT_GT(json["before"]["jobs"][0]["rate_gbps"], json["after"]["jobs"][0]["rate_gbps"]);
}

TEST(PlanAnswers, ATableOfBoxesHasAKneeOrNone) {
  const cluster::Cluster c = example_cluster("leaf-spine");
  const Shown shown{kFile, c, kEveryJob};
  const auto row = [](double total) {
    return Placement{.rates = {total / 32}, .total = total, .bound = 1000};
  };
  Purchase purchase{.boxes = 4, .rate = 100, .places = {0, 1, 2, 3}};
  std::vector<Placement> found{row(100), row(500), row(510), row(511), row(512)};
  for (std::size_t k = 0; k < found.size(); ++k)
    found[k].at.assign(purchase.places.begin(), purchase.places.begin() + static_cast<std::ptrdiff_t>(k));
  std::string text = buy_text(shown, purchase, found);
  EXPECT_THAT(text, HasSubstr("The first 1 box bring 97.1 % of what 4 bring."));
  EXPECT_THAT(text, HasSubstr("rack[1-3]"));
  EXPECT_THAT(text, HasSubstr("one by one"));
  EXPECT_LE(widest_line(text), 100U);
  for (Placement& one : found) one.all_tried = true;
  for (std::size_t k = 0; k < found.size(); ++k) found[k].total = 100 + 10 * static_cast<double>(k);
  text = buy_text(shown, purchase, found);
  EXPECT_THAT(text, HasSubstr("no knee"));
  EXPECT_THAT(text, Not(HasSubstr("one by one")));
  for (Placement& one : found) one.total = 100;
  EXPECT_THAT(buy_text(shown, purchase, found), HasSubstr("No box makes it faster"));
  EXPECT_EQ(buy_json(shown, purchase, found)["placements"][2]["at"], Json({"rack1", "rack2"}));
}

void names_in(const Json& json, std::set<std::string>& names) {
  if (json.is_object()) {
    for (const auto& [name, value] : json.items()) {
      names.insert(name);
      names_in(value, names);
    }
  } else if (json.is_array() && !json.empty()) {
    names_in(json[0], names);
  }
}

TEST(PlanAnswers, ThePageHasEveryKeyOfTheJson) {
  const Scene s;
  const std::vector<std::string> lost{"box=rack1"};
  std::set<std::string> names;
  names_in(show_json(s.shown, s.planned), names);
  names_in(what_if_json(s.shown, {lost, s.planned, s.planned}), names);
  names_in(buy_json(s.shown, {.places = {0}}, {Placement{.at = {0}, .rates = {1}}}), names);
  EXPECT_GT(names.size(), 40U);
  std::ostringstream page;
  page << std::ifstream(TALLY_PLANNING_PAGE).rdbuf();
  for (const std::string& name : names) {
    EXPECT_TRUE(page.str().find("`" + name + "`") != std::string::npos ||
                page.str().find("`" + name + "[]`") != std::string::npos)
        << "docs/fleet_planning.md lacks " << name;
  }
}

}  // namespace
}  // namespace tally::plan_tool

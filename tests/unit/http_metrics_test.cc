// The metrics: what stands in docs/http.md is what there is, and counters only grow.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "control_api_plan_scene.h"
#include "http/metrics.h"
#include "http_bed.h"

namespace tally::http_test {
namespace {

using testing::HasSubstr;

// By name and labels.
std::map<std::string, double> samples_of(const std::string& text) {
  std::map<std::string, double> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t end = line.rfind(' ');
    const bool fresh = all.emplace(line.substr(0, end), std::stod(line.substr(end + 1))).second;
    EXPECT_TRUE(fresh) << "twice: " << line;
  }
  return all;
}

std::map<std::string, double> samples(const api::Snapshot& box, const http::HttpCounts& counts = {}) {
  return samples_of(http::metrics_text(box, "0.1.0", counts));
}

TEST(HttpMetrics, SayWhatTheSnapshotSays) {
  api::Snapshot box = control_api_test::make_snapshot();
  box.ports[1].link_up = false;
  box.cores[1].silent = 2 * kSecond;
  http::HttpCounts counts;
  counts.of(http::Refusal::kHost) = 4;
  counts.streams = 2;
  const auto all = samples(box, counts);
  EXPECT_EQ(all.at("tally_build_info{instance_name=\"rack1\",version=\"0.1.0\"}"), 1);
  EXPECT_EQ(all.at("tally_job_contributions_total{job_name=\"resnet\"}"), 900);
  EXPECT_EQ(all.at("tally_job_results_total{job_name=\"resnet\"}"), 300);
  EXPECT_EQ(all.at("tally_job_stale_total{job_name=\"resnet\"}"), 12);
  EXPECT_EQ(all.at("tally_job_drops_total{job_name=\"resnet\",reason=\"stale\"}"), 12);
  EXPECT_EQ(all.at("tally_job_running{job_name=\"resnet\"}"), 1);
  EXPECT_EQ(all.at("tally_job_running{job_name=\"bert\"}"), 0);
  EXPECT_EQ(all.at("tally_job_workers_joined{job_name=\"bert\"}"), 1);
  EXPECT_EQ(all.at("tally_job_workers_expected{job_name=\"bert\"}"), 2);
  EXPECT_EQ(all.at("tally_rank_late{job_name=\"resnet\",rank=\"2\"}"), 0);
  EXPECT_EQ(all.at("tally_port_received_bytes_total{port=\"w0\"}"), 64'000);
  EXPECT_EQ(all.at("tally_port_down{port=\"w1\"}"), 1);
  EXPECT_EQ(all.at("tally_core_received_packets_total{core=\"0\"}"), 1'000);
  EXPECT_EQ(all.at("tally_core_busy_cycles_total{core=\"0\"}"), 250'000);
  EXPECT_EQ(all.at("tally_core_cycles_total{core=\"0\"}"), 1'000'000);
  EXPECT_EQ(all.at("tally_core_stalled{core=\"1\"}"), 1);
  EXPECT_EQ(all.at("tally_ready"), 0);
  EXPECT_EQ(all.at("tally_http_refused_total{reason=\"host\"}"), 4);
  EXPECT_EQ(all.at("tally_http_streams"), 2);
}

// Prometheus overwrites `job` and `instance` by its own.
TEST(HttpMetrics, UseNoLabelThatPrometheusOverwrites) {
  const std::string text = http::metrics_text(control_api_test::make_snapshot(), "0.1.0", {});
  for (const char* label : {"{job=", ",job=", "{instance=", ",instance="})
    EXPECT_EQ(text.find(label), std::string::npos);
}

TEST(HttpMetrics, AReasonThatHasNotHappenedIsThereForTheBox) {
  const auto all = samples(control_api_test::make_snapshot());
  EXPECT_EQ(all.at("tally_drops_total{where=\"box\",reason=\"runt\"}"), 0);
  EXPECT_EQ(all.at("tally_drops_total{where=\"switch\",reason=\"too_long\"}"), 0);
  EXPECT_EQ(all.at("tally_drops_total{where=\"control\",reason=\"token\"}"), 0);
  EXPECT_EQ(all.at("tally_core_lost_total{core=\"1\",reason=\"no_buffer\"}"), 0);
}

TEST(HttpMetrics, AJobThatComesBackGoesOnCounting) {
  api::Snapshot box = control_api_test::make_snapshot();
  api::JobCounts again = box.jobs[0];
  box.jobs[0].declared = false;
  again.status.id = JobId{9};
  again.status.world = 8;
  box.jobs.push_back(again);
  const auto all = samples(box);
  EXPECT_EQ(all.at("tally_job_contributions_total{job_name=\"resnet\"}"), 1'800);
  EXPECT_EQ(all.at("tally_job_drops_total{job_name=\"resnet\",reason=\"stale\"}"), 24);
  EXPECT_EQ(all.at("tally_job_workers_expected{job_name=\"resnet\"}"), 8);
}

TEST(HttpMetrics, ReloadsSayWhetherTheLastWasGood) {
  api::Snapshot box = control_api_test::make_snapshot();
  box.reloads = {.good = 2, .refused = 1, .last_good = false, .last_good_at = 1'700'000'000 * kSecond};
  const auto all = samples(box);
  EXPECT_EQ(all.at("tally_config_last_reload_successful"), 0);
  EXPECT_EQ(all.at("tally_config_last_reload_success_timestamp_seconds"), 1.7e9);
  EXPECT_EQ(all.at("tally_config_reloads_total{result=\"refused\"}"), 1);
}

std::string contents(const char* path) {
  std::ifstream in(path);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

TEST(HttpMetrics, PlansHaveRatesLoadsAndCauses) {
  const auto all = samples(control_api_test::make_planned_snapshot());
  EXPECT_EQ(all.at("tally_plan_rate_bits{job=\"resnet\"}"), 12.5e9);
  EXPECT_EQ(all.at("tally_plan_bound_bits{job=\"resnet\"}"), 25e9);
  EXPECT_FALSE(all.contains("tally_plan_rate_bits{job=\"bert\"}")) << "it has no plan";
  EXPECT_EQ(all.at("tally_plan_load_ratio{resource=\"box rack1\"}"), 1);
  EXPECT_EQ(all.at("tally_plan_load_ratio{resource=\"link spine to rack1\"}"), 0.2);
  EXPECT_FALSE(all.contains("tally_plan_load_ratio{resource=\"link rack1 to spine\"}")) << "nothing is on it";
  EXPECT_EQ(all.at("tally_plan_changes_total{why=\"lost\"}"), 2);
}

// Of a cluster with thousands of links a scrape does not have thousands of lines.
TEST(HttpMetrics, OfLoadsTheFullestAreEnough) {
  api::Snapshot box = control_api_test::make_snapshot();
  api::PlanStatus plans = control_api_test::make_plans();
  for (std::uint32_t l = 0; l < 1'000; ++l) {
    plans.topology.switches.push_back({"s" + std::to_string(l)});
    plans.topology.links.push_back({2, l + 3, 50, 10.0 + 0.01 * l});
  }
  box.plans = std::make_shared<const api::PlanStatus>(std::move(plans));
  std::size_t loads = 0;
  const auto all = samples(box);
  for (const auto& [name, value] : all) loads += name.starts_with("tally_plan_load_ratio") ? 1 : 0;
  EXPECT_EQ(loads, 64U);
  EXPECT_TRUE(all.contains("tally_plan_load_ratio{resource=\"box rack1\"}"));
  EXPECT_TRUE(all.contains("tally_plan_load_ratio{resource=\"link spine to s999\"}"));
  EXPECT_FALSE(all.contains("tally_plan_load_ratio{resource=\"link spine to s0\"}"));
}

// UPDATE_GOLDEN=1 writes the table; names elsewhere in the page are the reader's to mend.
TEST(HttpMetrics, ThePageHasThemAllAndNoOthers) {
  std::string page = contents(TALLY_HTTP_PAGE);
  const std::string table = http::metrics_markdown();
  const std::size_t from = page.find("| metric | kind |");
  ASSERT_NE(from, std::string::npos);
  const std::size_t to = page.find("\n\n", from) + 1;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    page.replace(from, to - from, table);
    std::ofstream(TALLY_HTTP_PAGE) << page;
  }
  EXPECT_EQ(page.substr(from, page.find("\n\n", from) + 1 - from), table) << "UPDATE_GOLDEN=1 rewrites it";
  for (std::size_t at = page.find("`tally_"); at != std::string::npos; at = page.find("`tally_", at + 1)) {
    const std::string name = page.substr(at + 1, page.find_first_of("`{ ", at + 1) - at - 1);
    EXPECT_THAT(table, HasSubstr("| `" + name + "` |"));
  }
}

TEST(HttpMetrics, TheTableHasWhatIsProducedWithItsLabels) {
  const std::string table = http::metrics_markdown();
  api::Snapshot box = control_api_test::make_snapshot();
  box.fleet = std::make_shared<const api::FleetStatus>();
  box.plans = std::make_shared<const api::PlanStatus>(control_api_test::make_plans());
  std::set<std::string> seen;
  for (const auto& [sample, value] : samples(box)) {
    const std::size_t brace = sample.find('{');
    const std::string name = sample.substr(0, brace);
    seen.insert(name);
    std::string labels;
    for (std::size_t at = brace; at < sample.size();) {
      const std::size_t end = sample.find("=\"", at);
      if (end == std::string::npos) break;
      labels += (labels.empty() ? "" : ", ") + sample.substr(at + 1, end - at - 1);
      at = sample.find("\",", end);
      if (at != std::string::npos) ++at;
    }
    const char* const kind = name.ends_with("_total") ? "counter" : "gauge";
    EXPECT_THAT(table, HasSubstr("| `" + name + "` | " + kind + " | " + labels + " |"));
    EXPECT_GE(value, 0) << sample;
  }
  std::istringstream in(table);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| `")) continue;
    EXPECT_TRUE(seen.contains(line.substr(3, line.find('`', 3) - 3))) << line;
  }
}

}  // namespace
}  // namespace tally::http_test

// Jobs of racks in a configuration: what they are read as, dumped and reloaded. What is refused: the golden files racks_*.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load_config.h"
#include "config/one_job.h"
#include "config/reload_plan.h"

namespace tally {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kRackBox = R"(instance: rack1
box: {ipv4: 10.0.1.1/16}
ports:
  - {name: w0, device: net_ring0}
jobs:
  - {name: large, token_file: none, racks: [8, 8, 4], rack: 1, parent: 10.0.9.1}
  - {name: wide, token_file: none, racks: [64, 2]}
  - {name: one, workers: 2, token_file: none}
)";

struct ConfigRacks : testing::Test {
  static config::Config load(const std::string& text) {
    const auto loaded = config::load_config_text(text, "f");
    EXPECT_TRUE(loaded) << config::to_text(loaded ? loaded->warnings : loaded.error());
    return loaded ? loaded->config : config::Config{};
  }
  static std::string with(const std::string& old, const std::string& by, std::string text = kRackBox) {
    return text.replace(text.find(old), old.size(), by);
  }
  static const config::NativeConfig& job(const config::Config& config, std::size_t index) {
    return std::get<config::NativeConfig>(config.jobs.at(index));
  }
};

TEST_F(ConfigRacks, TheBoxOfARackHasItsWorkers) {
  const config::Config config = load(kRackBox);
  const auto& large = job(config, 0);
  ASSERT_TRUE(large.racks);
  EXPECT_THAT(large.racks->workers, ElementsAre(8, 8, 4));
  EXPECT_EQ(large.racks->rack, 1);
  EXPECT_EQ(large.racks->parent, mapped({10, 0, 9, 1}));
  EXPECT_EQ(large.workers, 8U);
  EXPECT_EQ(large.world(), 20U);
  EXPECT_EQ(large.racks->first_of(1), 8U);
  EXPECT_TRUE(large.has_parent());
  EXPECT_FALSE(large.ranks_are_racks());
}

TEST_F(ConfigRacks, TheParentHasTheRacks) {
  const config::Config config = load(kRackBox);
  const auto& wide = job(config, 1);
  EXPECT_EQ(wide.workers, 2U);
  EXPECT_EQ(wide.world(), 66U);
  EXPECT_FALSE(wide.has_parent());
  EXPECT_TRUE(wide.ranks_are_racks());
  EXPECT_FALSE(job(config, 2).racks);
}

TEST_F(ConfigRacks, TheOrderOfTheKeysIsNothing) {
  const config::Config other = load(
      with("racks: [8, 8, 4], rack: 1, parent: 10.0.9.1", "parent: 10.0.9.1, rack: 1, racks: [8, 8, 4]"));
  EXPECT_EQ(job(other, 0), job(load(kRackBox), 0));
}

TEST_F(ConfigRacks, TheDumpReadsBackAsTheSame) {
  const config::Config config = load(kRackBox);
  const std::string dump = config::dump_config(config);
  EXPECT_THAT(dump, HasSubstr("racks: [8, 8, 4]"));
  EXPECT_THAT(dump, HasSubstr("parent: 10.0.9.1"));
  EXPECT_EQ(load(dump).jobs, config.jobs);
}

TEST_F(ConfigRacks, AJobThatIsChangedByOneKeyKeepsItsRacks) {
  const config::Config config = load(kRackBox);
  const config::YamlNode keys = config::node_of(job(config, 0));
  for (const auto& entry : keys.entries) EXPECT_NE(entry.key, "workers");
}

TEST_F(ConfigRacks, OtherRacksAreForTheNextGeneration) {
  const config::ReloadPlan plan = config::plan_reload(load(kRackBox), load(with("[8, 8, 4]", "[8, 6, 4]")));
  EXPECT_THAT(plan.restart, IsEmpty());
  ASSERT_EQ(plan.change.size(), 1U);
  EXPECT_THAT(plan.change[0].later, ElementsAre("racks"));
  const config::ReloadPlan moved = config::plan_reload(load(kRackBox), load(with("10.0.9.1", "10.0.9.2")));
  ASSERT_EQ(moved.change.size(), 1U);
  EXPECT_THAT(moved.change[0].later, ElementsAre("parent"));
}

TEST_F(ConfigRacks, TheSameFileAsksForNothing) {
  const config::ReloadPlan plan = config::plan_reload(load(kRackBox), load(kRackBox));
  EXPECT_THAT(plan.change, IsEmpty());
  EXPECT_THAT(plan.restart, IsEmpty());
}

TEST_F(ConfigRacks, TheExamplesAreOneJob) {
  const auto parent = config::load_config(TALLY_CONF_DIRECTORY "/racks-parent.yaml");
  const auto rack = config::load_config(TALLY_CONF_DIRECTORY "/racks-rack.yaml");
  ASSERT_TRUE(parent) << config::to_text(parent.error());
  ASSERT_TRUE(rack) << config::to_text(rack.error());
  EXPECT_EQ(config::to_text(parent->warnings), "");
  EXPECT_EQ(config::to_text(rack->warnings), "");
  EXPECT_EQ(job(parent->config, 0).racks->workers, job(rack->config, 0).racks->workers);
  EXPECT_EQ(job(parent->config, 0).name, job(rack->config, 0).name);
  EXPECT_EQ(job(rack->config, 0).racks->parent, mapped(parent->config.box.ipv4->address));
  EXPECT_EQ(rack->config.ports.size(), job(rack->config, 0).workers + 1U);
}

}  // namespace
}  // namespace tally

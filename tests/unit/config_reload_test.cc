// What a configuration that is read again asks of a running box.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "config/load_config.h"
#include "config/reload_plan.h"

namespace tally {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kText = R"(instance: rack1
dataplane: {cores: [1], slots: 32MiB, shared: {slots: 64}}
box: {ipv4: 10.0.0.1/24}
ports:
  - {name: w0, device: net_ring0}
  - {name: w1, device: net_ring1}
jobs:
  - {name: one, workers: 2, token_file: none, window: 256}
  - {name: two, workers: 2, token_file: none, window: 64}
  - {name: shared, workers: 2, token_file: none, discipline: shared}
)";

struct ConfigReload : testing::Test {
  static config::Config load(const std::string& text) {
    const auto loaded = config::load_config_text(text, "f");
    EXPECT_TRUE(loaded) << config::to_text(loaded ? loaded->warnings : loaded.error());
    return loaded ? loaded->config : config::Config{};
  }
  // With the first `old` replaced.
  static std::string with(const std::string& old, const std::string& by, std::string text = kText) {
    return text.replace(text.find(old), old.size(), by);
  }
  // "one now window"
  static std::vector<std::string> changes(const config::ReloadPlan& plan) {
    std::vector<std::string> all;
    for (const config::ReloadPlan::Change& change : plan.change) {
      for (const std::string& key : change.now) all.push_back(change.job.name + " now " + key);
      for (const std::string& key : change.later) all.push_back(change.job.name + " later " + key);
    }
    return all;
  }
  static config::ReloadPlan to(const std::string& text) {
    return config::plan_reload(load(kText), load(text));
  }
};

TEST_F(ConfigReload, TheSameFileAsksForNothing) {
  const config::ReloadPlan plan = to(kText);
  EXPECT_THAT(plan.withdraw, IsEmpty());
  EXPECT_THAT(plan.change, IsEmpty());
  EXPECT_THAT(plan.declare, IsEmpty());
  EXPECT_THAT(plan.restart, IsEmpty());
}

TEST_F(ConfigReload, TheWindowOfAPoolAppliesAtOnce) {
  const config::ReloadPlan plan = to(with("window: 64", "window: 16", with("window: 256", "window: 128")));
  EXPECT_THAT(changes(plan), ElementsAre("one now window", "two now window"));
  EXPECT_EQ(plan.change[0].job.window, 128U);
  EXPECT_THAT(plan.restart, IsEmpty());
}

TEST_F(ConfigReload, TheWindowOfAJobThatSharesSlotsWaitsForTheNextGeneration) {
  const config::ReloadPlan plan = to(with("discipline: shared", "discipline: shared, window: 16"));
  EXPECT_THAT(changes(plan), ElementsAre("shared later window"));
  EXPECT_THAT(plan.restart, IsEmpty());
}

TEST_F(ConfigReload, WhatGoesWithTheDisciplineWaitsWithIt) {
  const config::ReloadPlan plan = to(with("discipline: shared", "discipline: pool, window: 16, priority: 7"));
  EXPECT_THAT(changes(plan), ElementsAre("shared now priority", "shared later discipline",
                                         "shared later window", "shared later server"));
}

// What the column says is what the plan does, of every key of the file.
TEST_F(ConfigReload, EveryKeyAppliesWhenItsColumnSays) {
  const std::map<std::string, std::string> others{
      {"token_file", "/other"}, {"workers", "3"},          {"discipline", "shared"},
      {"elements", "16"},       {"window", "16"},          {"results", "multicast"},
      {"priority", "7"},        {"lease", "5s"},           {"stragglers", "{timeout: 50ms, min: 1}"},
      {"packet_rate", "5000"},  {"bad_packet_rate", "off"}};
  for (const config::ReferenceRow& row : config::reference_rows()) {
    const bool job = row.path.starts_with("jobs[]");
    if (!job) {
      const bool at_once =
          row.path == "log.level" || row.path == "planner.cluster" || row.path.starts_with("ports[].impair.");
      EXPECT_EQ(row.applies == config::Applies::kAtOnce, at_once) << row.path;
      continue;
    }
    const auto found = others.find(row.path.substr(7));
    if (found == others.end()) continue;
    const std::string key = found->first;
    const config::Config running = load(kText);
    std::string text = kText;
    const std::string line = "{name: one, workers: 2, token_file: none, window: 256}";
    std::map<std::string, std::string> keys{{"workers", "2"}, {"token_file", "none"}, {"window", "256"}};
    keys[key] = found->second;
    std::string other = "{name: one";
    for (const auto& [name, value] : keys) other += ", " + name + ": " + value;
    text.replace(text.find(line), line.size(), other + "}");
    const config::Config wanted =
        config::load_config_text(text, "f", ".", config::TokenFiles::kLeave).value().config;
    const auto differences = config::differences(config::plan_reload(running, wanted));
    const auto at = std::ranges::find(differences, "jobs[0]." + key, &config::Difference::what);
    ASSERT_NE(at, differences.end()) << key;
    EXPECT_EQ(at->applies, row.applies) << key;
  }
}

// The frames that a fault keeps lie in packet buffers that the start sets aside.
TEST_F(ConfigReload, FaultsOnPurposeApplyAtOnceUnlessTheyKeepMoreFrames) {
  const auto differences = [](const std::string& before, const std::string& after) {
    const auto impaired_by = [](const std::string& keys) {
      return load(with("device: net_ring0", "device: net_ring0, impair: {" + keys + "}"));
    };
    std::vector<std::string> all;
    for (const auto& [what, applies] :
         config::differences(config::plan_reload(impaired_by(before), impaired_by(after))))
      all.push_back(what + " " + config::applies_text(applies));
    return all;
  };
  EXPECT_THAT(differences("loss: 1%", "loss: 2%, out: {corrupt: 1%}"),
              ElementsAre("ports[0].impair.loss at once", "ports[0].impair.out.corrupt at once"));
  EXPECT_THAT(differences("delay: 1us", "delay: 5ms, jitter: 1ms"),
              ElementsAre("ports[0].impair.delay at once", "ports[0].impair.jitter at once"));
  EXPECT_THAT(differences("delay: 1us", "reorder: 1%"),
              ElementsAre("ports[0].impair.reorder at once", "ports[0].impair.delay at once"));
  EXPECT_THAT(differences("loss: 1%", "in: {duplicate: 1%}"),
              ElementsAre("ports[0].impair.loss restart", "ports[0].impair.in.duplicate restart"));
  EXPECT_THAT(differences("delay: 1us, queue: 100", "delay: 1us, queue: 101"),
              ElementsAre("ports[0].impair.queue restart"));
}

TEST_F(ConfigReload, JobsComeAndGo) {
  const config::ReloadPlan plan = to(with("name: two", "name: three"));
  EXPECT_THAT(plan.withdraw, ElementsAre("two"));
  ASSERT_EQ(plan.declare.size(), 1U);
  EXPECT_EQ(std::get<config::NativeConfig>(plan.declare[0]).name, "three");
  EXPECT_EQ(std::get<config::NativeConfig>(plan.declare[0]).window, 64U);
  EXPECT_THAT(plan.restart, IsEmpty());
}

TEST_F(ConfigReload, JobsAreKnownByTheirNamesInWhateverOrder) {
  std::string text = with("name: one", "name: XXX");
  text = with("name: two", "name: one", text);
  text = with("name: XXX", "name: two", text);
  const config::ReloadPlan plan = to(text);
  EXPECT_THAT(plan.withdraw, IsEmpty());
  EXPECT_THAT(plan.declare, IsEmpty());
  EXPECT_THAT(changes(plan), ElementsAre("two now window", "one now window"));
}

TEST_F(ConfigReload, EverythingElseIsNamedWithItsPath) {
  std::string text = with("slots: 32MiB", "slots: 16MiB");
  text = with("slots: 64", "slots: 128", text);
  text = with("10.0.0.1", "10.0.0.2", text);
  text = with("net_ring1", "net_ring1, mtu: 9000", text);
  text = with("window: 64", "window: 32, lease: 5s, priority: 7, quota: {weight: 1}", text);
  text += "log: {level: debug}\ncontrol: {access: owner}\n";
  const config::ReloadPlan plan = to(text);
  EXPECT_THAT(plan.restart, ElementsAre("dataplane.slots", "dataplane.shared.slots", "box.ipv4",
                                        "ports[1].mtu", "control.access"));
  EXPECT_THAT(changes(plan), ElementsAre("two now window", "two now priority", "two now lease"));
  EXPECT_EQ(plan.log_level, config::LogSection::Level::kDebug);
}

TEST_F(ConfigReload, PortsThatComeOrGoNeedARestart) {
  EXPECT_THAT(to(with("  - {name: w1, device: net_ring1}\n", "")).restart, ElementsAre("ports"));
}

TEST_F(ConfigReload, ATokenOfOtherContentWaitsForTheNextGenerationAndIsNotPrinted) {
  config::Config running = load(kText);
  config::Config wanted = running;
  auto& old = std::get<config::NativeConfig>(running.jobs[0]);
  old.token_file = "/token";
  old.token = "old";
  auto& other = std::get<config::NativeConfig>(wanted.jobs[0]);
  other = old;
  other.token = "new";
  EXPECT_THAT(changes(config::plan_reload(running, wanted)),
              ElementsAre("one later token_file (what it holds)"));
}

}  // namespace
}  // namespace tally

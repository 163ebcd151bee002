// What a configuration that is read again asks of a running box.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "load_config.h"
#include "reload_plan.h"

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
  static Config load(const std::string& text) {
    const auto loaded = load_config_text(text, "f");
    EXPECT_TRUE(loaded) << to_text(loaded ? loaded->warnings : loaded.error());
    return loaded ? loaded->config : Config{};
  }
  // With the first `old` replaced.
  static std::string with(const std::string& old, const std::string& by, std::string text = kText) {
    return text.replace(text.find(old), old.size(), by);
  }
  static ReloadPlan to(const std::string& text) { return plan_reload(load(kText), load(text)); }
};

TEST_F(ConfigReload, TheSameFileAsksForNothing) {
  const ReloadPlan plan = to(kText);
  EXPECT_THAT(plan.withdraw, IsEmpty());
  EXPECT_THAT(plan.resize, IsEmpty());
  EXPECT_THAT(plan.declare, IsEmpty());
  EXPECT_THAT(plan.restart, IsEmpty());
}

TEST_F(ConfigReload, TheWindowOfAPoolIsAResize) {
  const ReloadPlan plan = to(with("window: 64", "window: 16", with("window: 256", "window: 128")));
  EXPECT_THAT(plan.resize, ElementsAre(ReloadPlan::Resize{"one", 128}, ReloadPlan::Resize{"two", 16}));
  EXPECT_THAT(plan.restart, IsEmpty());
}

TEST_F(ConfigReload, TheWindowOfAJobThatSharesSlotsNeedsARestart) {
  const ReloadPlan plan = to(with("discipline: shared", "discipline: shared, window: 16"));
  EXPECT_THAT(plan.resize, IsEmpty());
  EXPECT_THAT(plan.restart, ElementsAre("jobs[2].window"));
}

TEST_F(ConfigReload, AJobThatBecomesAPoolNeedsARestartOfAllThatDiffers) {
  const ReloadPlan plan = to(with("discipline: shared", "discipline: pool, window: 16"));
  EXPECT_THAT(plan.resize, IsEmpty());
  EXPECT_THAT(plan.restart, ElementsAre("jobs[2].discipline", "jobs[2].window", "jobs[2].server"));
}

TEST_F(ConfigReload, JobsComeAndGo) {
  const ReloadPlan plan = to(with("name: two", "name: three"));
  EXPECT_THAT(plan.withdraw, ElementsAre("two"));
  ASSERT_EQ(plan.declare.size(), 1U);
  EXPECT_EQ(plan.declare[0].name, "three");
  EXPECT_EQ(plan.declare[0].window, 64U);
  EXPECT_THAT(plan.restart, IsEmpty());
}

TEST_F(ConfigReload, JobsAreKnownByTheirNamesInWhateverOrder) {
  std::string text = with("name: one", "name: XXX");
  text = with("name: two", "name: one", text);
  text = with("name: XXX", "name: two", text);
  const ReloadPlan plan = to(text);
  EXPECT_THAT(plan.withdraw, IsEmpty());
  EXPECT_THAT(plan.declare, IsEmpty());
  EXPECT_THAT(plan.resize, ElementsAre(ReloadPlan::Resize{"two", 256}, ReloadPlan::Resize{"one", 64}));
}

TEST_F(ConfigReload, EverythingElseIsNamedWithItsPath) {
  std::string text = with("slots: 32MiB", "slots: 16MiB");
  text = with("slots: 64", "slots: 128", text);
  text = with("10.0.0.1", "10.0.0.2", text);
  text = with("net_ring1", "net_ring1, mtu: 9000", text);
  text = with("window: 64", "window: 32, lease: 5s, priority: 7, quota: {weight: 1}", text);
  text += "log: {level: debug}\n";
  const ReloadPlan plan = to(text);
  EXPECT_THAT(plan.restart, ElementsAre("dataplane.slots", "dataplane.shared.slots", "box.ipv4",
                                        "ports[1].mtu", "log.level", "jobs[1].priority", "jobs[1].lease"));
  EXPECT_THAT(plan.resize, ElementsAre(ReloadPlan::Resize{"two", 32}));
}

TEST_F(ConfigReload, PortsThatComeOrGoNeedARestart) {
  EXPECT_THAT(to(with("  - {name: w1, device: net_ring1}\n", "")).restart, ElementsAre("ports"));
}

TEST_F(ConfigReload, ATokenOfOtherContentNeedsARestartAndIsNotPrinted) {
  Config running = load(kText);
  Config wanted = running;
  running.jobs[0].token_file = wanted.jobs[0].token_file = "/token";
  running.jobs[0].token = "old";
  wanted.jobs[0].token = "new";
  EXPECT_THAT(plan_reload(running, wanted).restart, ElementsAre("jobs[0].token_file (what it holds)"));
}

}  // namespace
}  // namespace tally

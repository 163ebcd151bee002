// Jobs of the dialect switchml in a configuration: defaults, the dump, what membership takes. What is
// refused: the golden files switchml_*.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load_config.h"
#include "config/reload_plan.h"

namespace tally {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kSessions = R"(instance: rack1
box: {ipv4: 10.0.0.1/24}
ports:
  - {name: w0, device: net_ring0}
jobs:
  - {name: one, workers: 2, token_file: none}
  - name: legacy
    dialect: switchml
    payload: 256
    slots: 512
    tsi: opaque
    members:
      - {rank: 1, mac: 02:00:00:00:00:02, ipv4: 10.0.0.12, port: 48870}
      - {rank: 0, mac: 02:00:00:00:00:01, ipv4: 10.0.0.11}
  - {name: usual, dialect: switchml, members: [{rank: 0, mac: 02:00:00:00:00:03, ipv4: 192.168.7.255}]}
)";

struct ConfigSession : testing::Test {
  static config::Config load(const std::string& text) {
    const auto loaded = config::load_config_text(text, "f");
    EXPECT_TRUE(loaded) << config::to_text(loaded ? loaded->warnings : loaded.error());
    EXPECT_TRUE(!loaded || loaded->warnings.empty()) << config::to_text(loaded->warnings);
    return loaded ? loaded->config : config::Config{};
  }
  // With the first `old` replaced.
  static std::string with(const std::string& old, const std::string& by, std::string text = kSessions) {
    return text.replace(text.find(old), old.size(), by);
  }
  static config::ReloadPlan to(const std::string& text) {
    return config::plan_reload(load(kSessions), load(text));
  }
};

TEST_F(ConfigSession, LoadsWithItsDefaults) {
  const config::Config config = load(kSessions);
  const auto& legacy = std::get<config::SessionConfig>(config.jobs.at(1));
  EXPECT_EQ(legacy.workers, 2) << "as many as members";
  EXPECT_EQ(legacy.payload, 256U);
  EXPECT_EQ(legacy.slots, 512U);
  EXPECT_EQ(legacy.tsi, jobs::TsiRule::kOpaque);
  EXPECT_THAT(legacy.members,
              ElementsAre(members::ConfiguredMember{1, {2, 0, 0, 0, 0, 2}, {10, 0, 0, 12}, 48870},
                          members::ConfiguredMember{0, {2, 0, 0, 0, 0, 1}, {10, 0, 0, 11}, 48864}));
  const auto& usual = std::get<config::SessionConfig>(config.jobs.at(2));
  EXPECT_EQ(usual.payload, 1024U);
  EXPECT_EQ(usual.slots, 2048U);
  EXPECT_EQ(usual.tsi, jobs::TsiRule::kPacket);
  EXPECT_EQ(usual.members.at(0).ipv4, (Ipv4{192, 168, 7, 255})) << "not the box's network";
}

TEST_F(ConfigSession, WorkersMayBeSaidIfTheyAgree) {
  EXPECT_EQ(load(with("payload: 256", "payload: 256\n    workers: 2")), load(kSessions));
}

TEST_F(ConfigSession, TheDumpLoadsAsTheSameConfiguration) {
  const config::Config config = load(kSessions);
  const std::string dump = config::dump_config(config);
  const auto again = config::load_config_text(dump, "dump");
  ASSERT_TRUE(again) << dump << config::to_text(again.error());
  EXPECT_EQ(again->config, config) << dump;
  EXPECT_EQ(config::dump_config(again->config), dump);
}

TEST_F(ConfigSession, EachDialectDumpsItsOwnKeysOnly) {
  const std::string dump = config::dump_config(load(kSessions));
  const auto native = dump.find("name: one");
  const auto session = dump.find("name: legacy");
  const std::string before = dump.substr(native, session - native);
  EXPECT_THAT(before, HasSubstr("dialect: native\n"));
  for (const char* key : {"payload:", "slots:", "tsi:", "run:", "members:"})
    EXPECT_THAT(before, Not(HasSubstr(key)));
  EXPECT_THAT(dump.substr(session), HasSubstr(R"(name: legacy
    workers: 2
    packet_rate: off
    dialect: switchml
    payload: 256
    slots: 512
    tsi: opaque
    run: 0
    members:
      - rank: 1
        mac: 02:00:00:00:00:02
        ipv4: 10.0.0.12
        port: 48870
      - rank: 0
)"));
}

TEST_F(ConfigSession, TheSmallestMtuThatCarriesItIsEnough) {
  EXPECT_EQ(load(with("net_ring0", "net_ring0, mtu: 1062")).ports.at(0).mtu, 1062);
  EXPECT_FALSE(config::load_config_text(with("net_ring0", "net_ring0, mtu: 1061"), "f"));
}

TEST_F(ConfigSession, TheExampleIsGoodAndSaysNothing) {
  const auto example = config::load_config(TALLY_CONF_DIRECTORY "/switchml.yaml");
  ASSERT_TRUE(example) << config::to_text(example.error());
  EXPECT_EQ(config::to_text(example->warnings), "");
  EXPECT_EQ(example->config.jobs.size(), 2U);
}

TEST_F(ConfigSession, TheSameFileAsksForNothingEvenWithMembersInAnotherOrder) {
  const std::string first = "      - {rank: 1, mac: 02:00:00:00:00:02, ipv4: 10.0.0.12, port: 48870}\n";
  const std::string second = "      - {rank: 0, mac: 02:00:00:00:00:01, ipv4: 10.0.0.11}\n";
  for (const std::string& text : {std::string(kSessions), with(first + second, second + first)}) {
    const config::ReloadPlan plan = to(text);
    EXPECT_THAT(plan.again, IsEmpty());
    EXPECT_THAT(plan.restart, IsEmpty());
    EXPECT_THAT(plan.declare, IsEmpty());
    EXPECT_THAT(plan.withdraw, IsEmpty());
  }
}

// The default of `elements`, which only native jobs have, follows the ports' mtu.
TEST_F(ConfigSession, AnotherMtuOfAPortTouchesNoSession) {
  const std::string text = with("net_ring0", "net_ring0, mtu: 1200");
  const config::ReloadPlan plan = to(text);
  EXPECT_THAT(plan.again, IsEmpty());
  EXPECT_THAT(plan.restart, ElementsAre("dataplane.shared.elements", "ports[0].mtu"));
  ASSERT_EQ(plan.change.size(), 1U);
  EXPECT_THAT(plan.change[0].later, ElementsAre("elements"));
  const config::ReloadPlan other = to(with("payload: 256", "payload: 512", text));
  EXPECT_THAT(other.again.at(0).keys, ElementsAre("jobs[1].payload"));
}

TEST_F(ConfigSession, OneThatDiffersIsDeclaredAgainAndTheOthersAreNot) {
  const config::ReloadPlan plan = to(with("10.0.0.11", "10.0.0.99", with("payload: 256", "payload: 512")));
  ASSERT_EQ(plan.again.size(), 1U);
  const auto& legacy = std::get<config::SessionConfig>(plan.again[0].job);
  EXPECT_EQ(legacy.name, "legacy");
  EXPECT_EQ(legacy.payload, 512U);
  EXPECT_THAT(plan.again[0].keys, ElementsAre("jobs[1].payload", "jobs[1].members[1].ipv4"));
  EXPECT_THAT(plan.restart, IsEmpty());
  EXPECT_THAT(plan.withdraw, IsEmpty());
}

TEST_F(ConfigSession, AnotherRunAloneIsAReset) {
  const std::string again = with("tsi: opaque", "tsi: opaque\n    run: 7");
  const config::ReloadPlan plan = to(again);
  EXPECT_THAT(plan.reset, ElementsAre(config::ReloadPlan::Reset{"legacy", 7, "jobs[1]"}));
  EXPECT_THAT(plan.again, IsEmpty());
  EXPECT_THAT(plan.restart, IsEmpty());
  const config::ReloadPlan both = to(with("payload: 256", "payload: 512", again));
  EXPECT_THAT(both.reset, IsEmpty());
  ASSERT_EQ(both.again.size(), 1U);
  EXPECT_THAT(both.again[0].keys, ElementsAre("jobs[1].payload", "jobs[1].run"));
}

TEST_F(ConfigSession, SessionsComeAndGoLikeJobs) {
  const config::ReloadPlan plan = to(with("name: usual", "name: other"));
  EXPECT_THAT(plan.withdraw, ElementsAre("usual"));
  ASSERT_EQ(plan.declare.size(), 1U);
  EXPECT_EQ(std::get<config::SessionConfig>(plan.declare[0]).name, "other");
}

TEST_F(ConfigSession, AnotherDialectNeedsARestart) {
  const config::ReloadPlan plan = to(with(
      "name: usual, dialect: switchml, members: [{rank: 0, mac: 02:00:00:00:00:03, ipv4: 192.168.7.255}]",
      "name: usual, workers: 1, token_file: none"));
  EXPECT_THAT(plan.restart, ElementsAre("jobs[2].dialect"));
  EXPECT_THAT(plan.again, IsEmpty());
}

}  // namespace
}  // namespace tally

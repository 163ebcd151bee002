// The configuration that the demo starts tallyd with: still what the strict loader takes.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo_config.h"
#include "load_config.h"

namespace tally {
namespace {

using testing::HasSubstr;

// What `tallyd --dump-config` prints.
std::string dumped(const std::string& text) {
  const auto loaded = load_config_text(text, "test.yaml");
  EXPECT_TRUE(loaded.has_value()) << to_text(loaded.error());
  return dump_config(loaded->config);
}

std::string shipped() {
  const auto loaded = load_config(TALLY_CONF_DIRECTORY "/demo.yaml");
  EXPECT_TRUE(loaded.has_value());
  return dump_config(loaded->config);
}

const std::string kBox = "box: {ipv4: 10.1.0.10/24}\n";
const std::string kPort =
    "  - {name: p0, device: \"net_memif0,role=server,id=0,socket=/tmp/s,socket-abstract=no\"}\n";
const std::string kJob = "jobs: [{name: bert, workers: 1}]\n";

TEST(DemoConfigTest, WithLossItLoadsAndChangesOnlyLossAndSockets) {
  const auto made = make_demo_config(shipped(), {.socket = "/tmp/tally-demo.x/memif.sock", .loss = "1.5%"});
  ASSERT_TRUE(made.has_value()) << made.error().text();
  const auto loaded = load_config_text(made->text, "made.yaml");
  ASSERT_TRUE(loaded.has_value()) << to_text(loaded.error());
  EXPECT_EQ(loaded->config.ports.size(), 10U);
  for (const auto& port : loaded->config.ports) {
    EXPECT_EQ(port.impair.loss_ppm, 15'000U);
    EXPECT_EQ(port.device.value_or("socket", ""), "/tmp/tally-demo.x/memif.sock");
    EXPECT_EQ(port.device.value_or("role", ""), "server");
  }
  auto expected = load_config(TALLY_CONF_DIRECTORY "/demo.yaml")->config;
  for (std::size_t i = 0; i < 10; ++i) {
    expected.ports[i].impair = loaded->config.ports[i].impair;
    expected.ports[i].device = loaded->config.ports[i].device;
  }
  EXPECT_EQ(loaded->config, expected);
}

TEST(DemoConfigTest, WithoutLossTheConfigurationsOwnStays) {
  const auto made = make_demo_config(
      dumped(kBox + "ports:\n" + kPort.substr(0, kPort.size() - 2) + ", impair: {loss: 3%}}\n" + kJob),
      {.socket = "/tmp/t"});
  ASSERT_TRUE(made.has_value()) << made.error().text();
  EXPECT_EQ(load_config_text(made->text, "made.yaml")->config.ports[0].impair.loss_ppm, 30'000U);
}

TEST(DemoConfigTest, TellsEachWorkerItsWay) {
  const auto made = make_demo_config(shipped(), {.socket = "/tmp/d/m.sock"});
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->box, "10.0.0.1");
  ASSERT_EQ(made->jobs.size(), 3U);
  EXPECT_EQ(made->jobs[1].name, "bert");
  EXPECT_EQ(made->jobs[1].workers, 4);
  ASSERT_EQ(made->transports.size(), 10U);
  EXPECT_EQ(made->transports[5], "dpdk:net_memif5,role=client,id=5,socket=/tmp/d/m.sock,socket-abstract=no");
  EXPECT_EQ(made->addresses[5], "10.0.0.15/24");
  EXPECT_EQ(made->mtus[5], 1500);
}

TEST(DemoConfigTest, OnKernelPortsTheWorkersUseSockets) {
  const auto made = make_demo_config(shipped(), {.driver = "af_xdp"});
  ASSERT_TRUE(made.has_value()) << made.error().text();
  const auto loaded = load_config_text(made->text, "made.yaml");
  ASSERT_TRUE(loaded.has_value()) << to_text(loaded.error());
  ASSERT_EQ(loaded->config.ports.size(), 10U);
  EXPECT_EQ(loaded->config.ports[7].device.kind, DeviceKind::kAfXdp);
  EXPECT_EQ(loaded->config.ports[7].device.value_or("iface", ""), "port7");
  EXPECT_EQ(made->transports, std::vector<std::string>(10, "udp"));
  EXPECT_EQ(made->addresses[7], "10.0.0.17/24");
}

TEST(DemoConfigTest, KnowsWhoSharesSlots) {
  const auto made = make_demo_config(shipped(), {.socket = "/tmp/t"});
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->shared_slots, 256U);
  EXPECT_EQ(made->jobs[0].slots_text(), "shared, class 1");
  EXPECT_EQ(made->jobs[2].slots_text(), "shared, class 3");
  const auto pool = make_demo_config(dumped(kBox + "ports:\n" + kPort + kJob), {.socket = "/tmp/t"});
  ASSERT_TRUE(pool.has_value()) << pool.error().text();
  EXPECT_EQ(pool->shared_slots, 0U) << "dataplane.slots is another key";
  EXPECT_EQ(pool->jobs[0].slots_text(), "pool");
}

TEST(DemoConfigTest, AddressesAvoidTheBox) {
  const auto made = make_demo_config(dumped(kBox + "ports:\n" + kPort + kJob), {.socket = "/tmp/t"});
  ASSERT_TRUE(made.has_value()) << made.error().text();
  EXPECT_EQ(made->addresses[0], "10.1.0.11/24") << "10.1.0.10 is the box";
}

TEST(DemoConfigTest, AddsASocketThatWasLeftOut) {
  const auto made = make_demo_config(
      dumped(kBox + "ports:\n  - {name: p0, device: \"net_memif0,role=server,socket-abstract=yes\"}\n" +
             kJob),
      {.socket = "/tmp/t"});
  ASSERT_TRUE(made.has_value()) << made.error().text();
  EXPECT_EQ(made->transports[0], "dpdk:net_memif0,role=client,socket-abstract=yes,socket=/tmp/t");
}

TEST(DemoConfigTest, SaysWhatItNeeds) {
  const auto why = [](const std::string& yaml) {
    const auto made = make_demo_config(dumped(yaml), {.socket = "/tmp/t"});
    return made ? std::string("no error") : made.error().text();
  };
  EXPECT_THAT(why(kBox + "ports:\n" + kPort + "jobs: [{name: gpt, workers: 1}]\n"),
              HasSubstr("job gpt is unknown to the demo, which has resnet50, bert and urgent"));
  EXPECT_THAT(why(kBox + "ports:\n" + kPort + "jobs: [{name: bert, workers: 2}]\n"), HasSubstr("2 workers"));
  EXPECT_THAT(why("box: {ipv6: fd00::1/64}\nports:\n" + kPort + kJob), HasSubstr("IPv4"));
  EXPECT_THAT(why("box: {ipv4: 10.0.0.1/30}\nports:\n" + kPort + kJob), HasSubstr("too small"));
  EXPECT_THAT(why(kBox + "ports: [{name: p0, device: net_null0}]\n" + kJob), HasSubstr("net_memif"));
}

}  // namespace
}  // namespace tally

// The configuration as the parts of the data plane get it.

#include <gtest/gtest.h>

#include "config/checks.h"
#include "config/load_config.h"
#include "daemon/box_start.h"

namespace tally {
namespace {

config::Config config_of(const std::string& text) {
  auto loaded = config::load_config_text(text, "test.yaml");
  EXPECT_TRUE(loaded) << config::to_text(loaded.error());
  return loaded ? loaded->config : config::Config{};
}

const config::Config& two_cores() {
  static const config::Config config = config_of(R"(
instance: rack1
dataplane: {cores: [2, 5], idle: poll, execution: staged, memory: 128MiB, slots: 8MiB, hugepages: "off", eal: ["--telemetry"]}
box: {ipv4: 10.0.0.1/24, ipv6: "fd00::1/64", mac: "02:00:00:00:00:09"}
ports:
  - {name: a, device: "net_memif0,role=server,id=3,socket=/tmp/x.sock,socket-abstract=no", queues: 2, impair: {loss: 2.5%, seed: 9}}
  - {name: b, device: "3b:00.0", mtu: 9000, checksum: port}
log: {level: debug}
jobs:
  - {name: one, workers: 3, token_file: none}
)");
  return config;
}

TEST(DaemonOptions, Eal) {
  const dpdk::EalOptions eal = daemon::eal_options(two_cores());
  EXPECT_EQ(eal.program, "tallyd");
  EXPECT_EQ(eal.instance, "rack1");
  EXPECT_EQ(eal.cores, (std::vector<std::uint16_t>{2, 5}));
  EXPECT_TRUE(eal.pinned);
  EXPECT_EQ(eal.memory_bytes, 128U << 20U);
  EXPECT_EQ(eal.hugepages, false);
  EXPECT_EQ(eal.pci, std::vector<std::string>{two_cores().ports[1].device.text});
  EXPECT_EQ(eal.extra, std::vector<std::string>{"--telemetry"});
}

TEST(DaemonOptions, APortIsToldHowManyFramesItsWorkersMayHaveInFlight) {
  const auto burst_in = [](const std::string& mode) {
    const config::Config config = config_of(R"(
instance: rack1
dataplane: {cores: [2], memory: 128MiB, slots: 8MiB}
box: {ipv4: 10.0.0.1/24, mode: )" + mode +
                                            R"(}
ports:
  - {name: a, device: "net_af_packet0,iface=eth1"}
jobs:
  - {name: one, workers: 8, window: 128, token_file: none}
  - {name: two, workers: 3, window: 512, token_file: none}
)");
    return daemon::port_options(config, config.ports[0]).burst;
  };
  EXPECT_EQ(burst_in("inline"), 8U * 128 + 3 * 512) << "a switch with all of them may hang on any port";
  EXPECT_EQ(burst_in("one-arm"), 8U * 128 + 3 * 512);
}

TEST(DaemonOptions, Ports) {
  const dpdk::PortOptions a = daemon::port_options(two_cores(), two_cores().ports[0]);
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.device, "net_memif0,role=server,id=3,socket=/tmp/x.sock,socket-abstract=no");
  EXPECT_FALSE(a.pci);
  EXPECT_EQ(a.mtu, 1500);
  EXPECT_EQ(a.receive_queues, 2);
  EXPECT_EQ(a.transmit_queues, 2);
  EXPECT_FALSE(a.checksum);
  const impair::ImpairOptions loss{.loss_ppm = 25'000, .seed = 9};
  EXPECT_EQ(daemon::impair_options(two_cores().ports[0]).in, loss);
  EXPECT_EQ(daemon::impair_options(two_cores().ports[0]).out, loss);
  const dpdk::PortOptions b = daemon::port_options(two_cores(), two_cores().ports[1]);
  EXPECT_TRUE(b.pci);
  EXPECT_EQ(b.mtu, 9000);
  EXPECT_EQ(b.receive_queues, 1);
  EXPECT_EQ(b.transmit_queues, 2);
  EXPECT_TRUE(b.checksum);
  EXPECT_FALSE(daemon::impair_options(two_cores().ports[1]).in.on());
  EXPECT_FALSE(daemon::impair_options(two_cores().ports[1]).out.on());
}

TEST(DaemonOptions, ADirectionsOwnWordsReplaceThoseForBoth) {
  const config::Config config = config_of(R"(
box: {ipv4: 10.0.0.1/24}
ports:
  - name: a
    device: net_ring0
    impair: {loss: 1%, burst: 4, delay: 2ms, seed: 7, in: {loss: 0%, duplicate: 3%, queue: 10}, out: {burst: 1, reorder: 4%, corrupt: 5%, jitter: 1ms}}
jobs: [{name: one, workers: 3, token_file: none}]
)");
  const impair::PortImpairment impair = daemon::impair_options(config.ports[0]);
  EXPECT_EQ(impair.in, (impair::ImpairOptions{.loss_ppm = 0,
                                              .burst = 4,
                                              .duplicate_ppm = 30'000,
                                              .delay = 2 * kMillisecond,
                                              .queue = 10,
                                              .seed = 7}));
  EXPECT_EQ(impair.out, (impair::ImpairOptions{.loss_ppm = 10'000,
                                               .reorder_ppm = 40'000,
                                               .corrupt_ppm = 50'000,
                                               .delay = 2 * kMillisecond,
                                               .jitter = kMillisecond,
                                               .seed = 7}));
  // It reads back what it dumps, with nothing said for a direction that the file did not say.
  const std::string dumped = config::dump_config(config);
  EXPECT_EQ(config_of(dumped), config) << dumped;
  EXPECT_EQ(config::dump_config(two_cores()).find("in:\n"), std::string::npos);
}

dpdk::PoolDemand pool_demand(const config::Config& config) {
  return daemon::pool_demand(config, daemon::plane_options(config));
}

// Every queue that a core reads, and every core that sends, keeps frames of its own.
TEST(DaemonOptions, PoolsPayForWhatImpairKeeps) {
  config::Config config = two_cores();
  EXPECT_EQ(pool_demand(config).ports[0].impaired_in, 0U) << "loss keeps nothing";
  config.ports[0].impair.delay = kMillisecond;
  config.ports[0].impair.out.queue = 100;
  EXPECT_EQ(pool_demand(config).ports[0].impaired_in, 2 * 1'024U);
  EXPECT_EQ(pool_demand(config).ports[0].impaired_out, 2 * 100U);
  config.ports[1].impair.reorder_ppm = 5;
  EXPECT_EQ(pool_demand(config).ports[1].impaired_in, impair::kPassing + impair::kFarthest);
  EXPECT_EQ(pool_demand(config).ports[1].impaired_out, 2 * (impair::kPassing + impair::kFarthest));
}

TEST(DaemonOptions, PoolsAreSizedFromThePortsAndThePlane) {
  const config::Config config = two_cores();
  const dpdk::PoolDemand demand = pool_demand(config);
  ASSERT_EQ(demand.ports.size(), 2U);
  EXPECT_EQ(demand.ports[0].kind, config.ports[0].device.kind);
  EXPECT_EQ(demand.ports[0].frame_bytes, config.ports[0].mtu + 18U);
  EXPECT_EQ(demand.ports[1].frame_bytes, config.ports[1].mtu + 18U);
  EXPECT_EQ(demand.cores.size(), 2U);
  EXPECT_EQ(demand.hand_over, daemon::plane_options(config).hand_over) << "the rings' size";
}

// Whether a job has external servers may change while the daemon runs; whether slots are shared may not.
TEST(DaemonOptions, PoolsPayForServersQueuesWhereSlotsAreShared) {
  config::Config config = two_cores();
  config.dataplane.shared = {};
  EXPECT_FALSE(pool_demand(config).servers);
  config.dataplane.shared = {.slots = 64, .elements = 352};
  EXPECT_TRUE(pool_demand(config).servers);
}

TEST(DaemonOptions, Plane) {
  const io::DataPlaneOptions plane = daemon::plane_options(two_cores());
  EXPECT_EQ(plane.cores, 2);
  EXPECT_EQ(plane.idle, io::IdlePolicy::kPoll);
  EXPECT_TRUE(plane.staged);
  EXPECT_EQ(plane.slot_lines, (8U << 20U) / 64 / 2);
  EXPECT_EQ(plane.box.mac, (Mac{2, 0, 0, 0, 0, 9}));
  EXPECT_EQ(plane.box.ipv4, (Ipv4{10, 0, 0, 1}));
  EXPECT_EQ(plane.box.ipv6[0], 0xfd);
  EXPECT_EQ(plane.slot_lines, config::member_options(two_cores()).slot_lines);
  EXPECT_EQ(plane.box.mac, config::member_options(two_cores()).box_mac);
}

TEST(DaemonOptions, TheBoxIsASwitchUnlessItHangsOnOne) {
  config::Config config = two_cores();
  EXPECT_EQ(daemon::plane_options(config).mode, l2::BoxMode::kInline);
  config.box.one_arm = true;
  EXPECT_EQ(daemon::plane_options(config).mode, l2::BoxMode::kOneArm);
}

TEST(DaemonOptions, SharedSlotsAndTheServerAreDividedAmongTheCores) {
  const io::DataPlaneOptions none = daemon::plane_options(two_cores());
  EXPECT_EQ(none.shared_entries, 0U);
  EXPECT_EQ(none.server_lines, 0U);
  const config::Config config = config_of(R"(
dataplane: {cores: [2, 5], memory: 128MiB, slots: 8MiB, shared: {slots: 1001, elements: 256, server: 4MiB}}
box: {ipv4: 10.0.0.1/24}
ports: [{name: a, device: net_ring0}]
jobs: [{name: one, workers: 3, token_file: none, discipline: shared}]
)");
  const io::DataPlaneOptions plane = daemon::plane_options(config);
  EXPECT_EQ(plane.slot_lines, (8U << 20U) / 64 / 2);
  EXPECT_EQ(plane.shared_entries, 500U);
  EXPECT_EQ(plane.shared_elements, 256);
  EXPECT_EQ(plane.server_lines, (4U << 20U) / 64 / 2);
  EXPECT_EQ(plane.shared_entries, config::member_options(config).shared_entries);
  EXPECT_EQ(plane.shared_elements, config::member_options(config).shared_elements);
  EXPECT_TRUE(daemon::start_members(config));
}

TEST(DaemonOptions, TheSummaryCounts) {
  EXPECT_EQ(daemon::summary(two_cores()),
            "instance rack1: 2 data cores (CPUs 2, 5), 2 ports, 1 job of 3 workers");
}

TEST(DaemonOptions, EveryJobIsDeclaredAndEveryStartDrawsAnew) {
  auto one = daemon::start_members(two_cores());
  ASSERT_TRUE(one);
  const auto jobs = one->status(0);
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].name, "one");
  EXPECT_EQ(jobs[0].world, 3);
}

TEST(DaemonOptions, LevelsOfDpdk) {
  EXPECT_EQ(daemon::level_of_dpdk(4), daemon::LogLevel::kError);
  EXPECT_EQ(daemon::level_of_dpdk(5), daemon::LogLevel::kWarning);
  EXPECT_EQ(daemon::level_of_dpdk(6), daemon::LogLevel::kDebug);
  EXPECT_EQ(daemon::level_of_dpdk(7), daemon::LogLevel::kDebug);
  EXPECT_EQ(daemon::level_of_dpdk(8), daemon::LogLevel::kTrace);
}

}  // namespace
}  // namespace tally

// SIGHUP: what of a new configuration becomes of jobs that run, and what the log says.

#include "daemon_reload_bed.h"

namespace tally::daemon_test {
namespace {

using testing::HasSubstr;

TEST_F(DaemonReload, ARunningPoolIsResized) {
  ASSERT_TRUE(bench.form(peers));
  const std::uint32_t epoch = peers[0].epoch;
  reload(with("window: 256", "window: 64"));
  EXPECT_EQ(told.size(), 2U) << "both are called back";
  EXPECT_EQ(journal.count("reload: job 'one' gets a window of 64 instead of 256"), 1U);
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.status(id).window, 64U);
  EXPECT_NE(peers[0].epoch, epoch);
  reload(with("window: 256", "window: 64"));
  EXPECT_EQ(journal.count("reload: nothing differs from what runs"), 1U);
}

TEST_F(DaemonReload, AFileWithErrorsChangesNothingAndSaysWhere) {
  ASSERT_TRUE(bench.form(peers));
  reload(with("{name: one", "{name: two, workrs: 1") + "  - {name: three, workers: 2, token_file: none}\n");
  EXPECT_EQ(journal.count("box.yaml:7:17: jobs[0]: unknown key 'workrs'"), 1U);
  EXPECT_EQ(journal.count("reload: the configuration has errors; nothing was changed"), 1U);
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(bench.members->status(bench.now).size(), 1U);
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kRunning);
}

TEST_F(DaemonReload, WhatTakesARestartIsNamedInOneLineEveryTime) {
  std::string text = with("slots: 32MiB", "slots: 16MiB");
  text.replace(text.find("net_ring0"), 9, "net_ring0, mtu: 9000");
  for (int i = 0; i < 2; ++i) {
    reload(text);
    EXPECT_EQ(journal.count("reload: restart to apply: dataplane.slots, ports[0].mtu"), 1U);
  }
  EXPECT_EQ(reload_.config(), config);
}

TEST_F(DaemonReload, JobsAreDeclaredAndWithdrawn) {
  ASSERT_TRUE(bench.form(peers));
  reload(with("name: one", "name: two"));
  EXPECT_EQ(journal.count("reload: job 'one' is gone from the configuration"), 1U);
  EXPECT_EQ(journal.count("reload: job 'two' is declared: its workers may come"), 1U);
  EXPECT_THAT(members_test::only(told, PacketType::kAbort, peers[0]).text(),
              HasSubstr("gone from the box's configuration"));
  for (Peer& p : peers) {
    p.restart();
    p.job = "two";
  }
  ASSERT_TRUE(bench.form(peers));
  reload(with("name: one", "name: two"));
  EXPECT_EQ(journal.count("reload: nothing differs from what runs"), 1U);
}

TEST_F(DaemonReload, AWindowThatTheGenerationForbidsIsTriedAgainByTheNext) {
  ASSERT_TRUE(bench.form(peers));
  for (int i = 0; i < 2; ++i) {
    reload(with("window: 256", "window: 512"));
    EXPECT_EQ(journal.count("window is 512; the largest of this generation is 256"), 1U);
    EXPECT_EQ(journal.count("the job stays as it is, reload again when that has changed"), 1U);
    EXPECT_TRUE(told.empty());
  }
  for (const Peer& p : peers) bench.send(p, p.leave());
  reload(with("window: 256", "window: 512"));
  for (Peer& p : peers) p.restart();
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.status(id).window, 512U);
}

TEST_F(DaemonReload, AJobThatTheRunningBoxCannotServeIsNotDeclared) {
  reload(with("slots: 32MiB", "slots: 32MiB, shared: {slots: 64}") +
         "  - {name: two, workers: 2, token_file: none, discipline: shared}\n");
  EXPECT_EQ(journal.count("the box has no shared slots; the job is not declared"), 1U);
  EXPECT_EQ(journal.count("restart to apply: dataplane.shared.slots"), 1U);
  EXPECT_EQ(reload_.config().jobs.size(), 1U);
}

struct DaemonReloadShared : DaemonReload {
  DaemonReloadShared()
      : DaemonReload(with("slots: 32MiB", "slots: 32MiB, shared: {slots: 64, elements: 256}")) {}
};

TEST_F(DaemonReloadShared, AJobTooLargeForTheSharedSlotsOfTheRunningBoxIsNotDeclared) {
  const std::string larger = with("slots: 32MiB", "slots: 32MiB, shared: {slots: 64, elements: 352}");
  const std::string two = "  - {name: two, workers: 2, token_file: none, discipline: shared, elements: ";
  reload(larger + two + "352}\n");
  EXPECT_EQ(journal.count("job 'two': 352 elements do not fit a shared slot, which holds 256; the job is not "
                          "declared"),
            1U)
      << journal.all();
  reload(larger + two + "256}\n");
  EXPECT_EQ(journal.count("reload: job 'two' is declared: its workers may come"), 1U) << journal.all();
}

// Faults on purpose: at once, unless they keep frames for which there are no buffers.
TEST_F(DaemonReload, OtherFaultsOnPurposeHoldAtOnce) {
  const auto impaired_by = [](const std::string& keys) {
    return with("device: net_ring0", "device: net_ring0, impair: {" + keys + "}");
  };
  reload(impaired_by("loss: 1%, corrupt: 0.1%"));
  ASSERT_EQ(impaired.size(), 1U);
  EXPECT_EQ(impaired[0].first, PortIndex{0});
  EXPECT_EQ(impaired[0].second.in.loss_ppm, 10'000U);
  EXPECT_EQ(impaired[0].second.out.corrupt_ppm, 1'000U);
  EXPECT_EQ(journal.count("port w0 has other faults on purpose: in 1% lost, 0.1% corrupted; out 1% lost"), 1U)
      << journal.all();
  EXPECT_EQ(reload_.config().ports[0].impair.loss_ppm, 10'000U);
  reload(impaired_by("loss: 1%, corrupt: 0.1%"));
  EXPECT_EQ(impaired.size(), 1U) << "nothing differs";

  reload(impaired_by("loss: 1%, delay: 2ms"));
  EXPECT_EQ(impaired.size(), 1U);
  EXPECT_EQ(journal.count("restart to apply: ports[0].impair.corrupt, ports[0].impair.delay"), 1U)
      << journal.all();
  EXPECT_EQ(reload_.config().ports[0].impair.delay, 0U);

  reload(kText);
  ASSERT_EQ(impaired.size(), 2U);
  EXPECT_FALSE(impaired[1].second.in.on());
  EXPECT_EQ(journal.count("in nothing; out nothing"), 1U) << journal.all();
}

}  // namespace
}  // namespace tally::daemon_test

// SIGHUP: what of a new configuration becomes of a running box, and what the log says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "daemon_plane.h"
#include "members_support.h"
#include "reload.h"
#include "to_members.h"

namespace tally::daemon_test {
namespace {

using members_test::Bench;
using testing::HasSubstr;

constexpr const char* kText = R"(instance: rack1
dataplane: {cores: [1], slots: 32MiB}
box: {ipv4: 10.0.0.1/24}
ports:
  - {name: w0, device: net_ring0}
jobs:
  - {name: one, workers: 2, token_file: none, window: 256}
)";

// With the first `old` replaced.
std::string with(const std::string& old, const std::string& by, std::string text = kText) {
  return text.replace(text.find(old), old.size(), by);
}

struct DaemonReload : testing::Test {
  explicit DaemonReload(const std::string& text = kText)
      : config(load_config_text(text, "box.yaml")->config), bench(member_options(config)) {
    for (const JobSection& job : config.jobs) id = bench.declare(member_job(job));
    for (Peer& p : peers) {
      p.job = "one";
      p.token.clear();
    }
  }
  // The session of that name; nullopt if there is none.
  [[nodiscard]] std::optional<JobStatus> session(const std::string& name) const {
    for (JobStatus& job : bench.members->status(bench.now))
      if (job.session && job.name == name) return std::move(job);
    return std::nullopt;
  }
  void reload(const std::string& text) {
    journal.lines.clear();
    reload_.take(load_config_text(text, "box.yaml"), *bench.members, bench.now);
    told = bench.settle();
  }

  Config config;
  Bench bench;
  JobId id{};
  std::vector<Peer> peers{Peer(0), Peer(1)};
  Journal journal;
  Reload reload_{config, journal.sink()};
  std::vector<Sent> told;
};

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
  EXPECT_EQ(bench.status(id).phase, JobPhase::kRunning);
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
    EXPECT_EQ(journal.count("the window stays 256"), 1U);
    EXPECT_TRUE(told.empty());
  }
  for (const Peer& p : peers) bench.send(p, p.leave());
  reload(with("window: 256", "window: 512"));
  for (Peer& p : peers) p.restart();
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.status(id).window, 512U);
}

const std::string kSessions =
    "  - {name: a, dialect: switchml, slots: 64, members: [{rank: 0, mac: 02:00:00:00:00:01, ipv4: "
    "10.0.0.11}]}\n"
    "  - {name: b, dialect: switchml, slots: 64, members: [{rank: 0, mac: 02:00:00:00:00:02, ipv4: "
    "10.0.0.12}]}\n";

TEST_F(DaemonReload, SessionsComeAndGoAndJobsAreNotTouched) {
  ASSERT_TRUE(bench.form(peers));
  reload(kText + kSessions);
  EXPECT_EQ(journal.count("reload: job 'a' is declared: a session"), 1U);
  EXPECT_EQ(bench.members->status(bench.now).size(), 3U);
  for (const JobStatus& job : bench.members->status(bench.now)) EXPECT_EQ(job.phase, JobPhase::kRunning);
  reload(kText);
  EXPECT_EQ(journal.count("reload: job 'b' is gone from the configuration"), 1U);
  EXPECT_EQ(bench.members->status(bench.now).size(), 1U);
  EXPECT_TRUE(told.empty());
}

// Two that change members with each other are both withdrawn before one is declared again.
TEST_F(DaemonReload, SessionsThatDifferAreDeclaredAgainAndItIsSaidWhy) {
  reload(kText + kSessions);
  std::string text = kText + kSessions;
  text.replace(text.find("00:01, ipv4: 10.0.0.11"), 22, "00:02, ipv4: 10.0.0.12");
  text.replace(text.rfind("00:02, ipv4: 10.0.0.12"), 22, "00:01, ipv4: 10.0.0.11");
  reload(text);
  EXPECT_EQ(journal.count("reload: sessions are declared again, what they had begun is lost: "
                          "jobs[1].members[0].mac, jobs[1].members[0].ipv4, jobs[2].members[0].mac, "
                          "jobs[2].members[0].ipv4"),
            1U)
      << journal.all();
  EXPECT_EQ(journal.count("is gone"), 0U);
  const auto jobs = bench.members->status(bench.now);
  ASSERT_EQ(jobs.size(), 3U);
  for (const JobStatus& job : jobs) {
    if (!job.session) continue;
    EXPECT_EQ(job.phase, JobPhase::kRunning) << job.reason;
    EXPECT_EQ(job.ranks[0].binding.address,
              mapped({10, 0, 0, static_cast<std::uint8_t>(job.name == "a" ? 12 : 11)}));
  }
  reload(text);
  EXPECT_EQ(journal.count("reload: nothing differs from what runs"), 1U);
}

// Whatever a file says of the box holds only after a restart.
struct DaemonReloadBox : DaemonReload {
  using DaemonReload::DaemonReload;
  // The new text does not change session a, for this reason, however often it is read.
  void stays(const std::string& text, const std::string& why) {
    const auto before = session("a");
    ASSERT_TRUE(before && before->phase == JobPhase::kRunning);
    const Config was = reload_.config();
    for (int i = 0; i < 2; ++i) {
      reload(text);
      EXPECT_EQ(journal.count("reload: job 'a': " + why + "; the session stays as it runs"), 1U)
          << journal.all();
      EXPECT_EQ(journal.count("declared again"), 0U) << journal.all();
      EXPECT_EQ(journal.lines.at(0).first, LogLevel::kError);
    }
    EXPECT_EQ(session("a"), before);
    EXPECT_EQ(reload_.config(), was);
  }
};

TEST_F(DaemonReloadBox, ASessionWithTheAddressOfTheRunningBoxStaysAsItWas) {
  reload(kText + kSessions);
  stays(with("ipv4: 10.0.0.1/24", "ipv4: 10.0.0.5/24", with("10.0.0.11", "10.0.0.1", kText + kSessions)),
        "rank 0 has the box's address, 10.0.0.1, until tallyd is restarted");
}

TEST_F(DaemonReloadBox, ASessionWithTheMacOfTheRunningBoxStaysAsItWas) {
  reload(kText + kSessions);
  const std::string mac = to_text(box_mac(config));
  stays(with("10.0.0.1/24", "10.0.0.1/24, mac: 02:00:00:00:00:fe",
             with("02:00:00:00:00:01", mac, kText + kSessions)),
        "rank 0 has the box's MAC");
}

TEST_F(DaemonReloadBox, ASessionThatTheMemoryOfTheRunningBoxCannotHoldStaysAsItWas) {
  reload(kText + kSessions);
  stays(with("slots: 32MiB", "slots: 128MiB", with("slots: 64", "slots: 16384", kText + kSessions)),
        "it takes 36864 KiB of slot memory per core, and there are 32768 KiB until tallyd is restarted");
}

const std::string kSmall = with("net_ring0", "net_ring0, mtu: 600");

struct DaemonReloadMtu : DaemonReloadBox {
  DaemonReloadMtu() : DaemonReloadBox(kSmall) {}
};

TEST_F(DaemonReloadMtu, ASessionThatTheRunningPortsCannotCarryIsNotDeclaredAndWhatRunsStays) {
  const std::string small = with("slots: 64", "slots: 64, payload: 512",
                                 kSmall + kSessions.substr(0, kSessions.find("  - {name: b")));
  reload(small);
  EXPECT_EQ(session("a")->session->payload, 512U);
  const std::string why =
      "its payload of 1024 bytes makes IP packets of 1062, and port w0 carries 600 until tallyd is restarted";
  stays(kText + kSessions, why);
  EXPECT_EQ(journal.count("reload: job 'b': " + why + "; the job is not declared"), 1U) << journal.all();
  EXPECT_FALSE(session("b"));
}

struct DaemonReloadIpv6 : DaemonReload {
  DaemonReloadIpv6() : DaemonReload(with("ipv4: 10.0.0.1/24", "ipv6: fd00::1/64")) {}
};

TEST_F(DaemonReloadIpv6, WithoutAnIpv4OfTheRunningBoxNoSessionIsDeclared) {
  reload(kText + kSessions);
  EXPECT_EQ(journal.count("the box has no such address until tallyd is restarted; the job is not declared"),
            2U)
      << journal.all();
  EXPECT_EQ(journal.count("box.ipv4, box.ipv6"), 1U) << journal.all();
  EXPECT_FALSE(session("a"));
}

// a stays, since another dialect needs a restart; so b cannot have its addresses, and c not those of b.
TEST_F(DaemonReload, ASessionThatWouldCollideWithOneThatStaysStaysToo) {
  const auto line = [](const std::string& name, int host) {
    const std::string digits = std::to_string(host);
    return "  - {name: " + name +
           ", dialect: switchml, slots: 64, members: [{rank: 0, mac: 02:00:00:00:00:" + digits +
           ", ipv4: 10.0.0." + digits + "}]}\n";
  };
  reload(kText + line("c", 13) + line("b", 12) + line("a", 11) + line("d", 14));
  const auto before = bench.members->status(bench.now);
  ASSERT_EQ(before.size(), 5U);
  reload(kText + line("c", 12) + line("b", 11) + "  - {name: a, workers: 2, token_file: none}\n" +
         line("d", 13));
  const auto stays = [](const std::string& name, const std::string& by) {
    return "reload: job '" + name + "': rank 0 has the addresses of rank 0 of job '" + by +
           "', which runs on; the session stays as it runs";
  };
  EXPECT_EQ(journal.count(stays("b", "a")), 1U) << journal.all();
  EXPECT_EQ(journal.count(stays("c", "b")), 1U) << journal.all();
  EXPECT_EQ(journal.count(stays("d", "c")), 1U) << journal.all();
  EXPECT_EQ(journal.count("declared again"), 0U) << journal.all();
  EXPECT_EQ(bench.members->status(bench.now), before);
  reload(kText + line("c", 13) + line("b", 12) + line("a", 11) + line("d", 15));
  EXPECT_EQ(journal.count("what they had begun is lost: jobs[4].members[0].mac, jobs[4].members[0].ipv4"), 1U)
      << journal.all();
  EXPECT_EQ(session("d")->ranks[0].binding.address, mapped({10, 0, 0, 15}));
}

TEST_F(DaemonReload, AJobThatTheRunningBoxCannotServeIsNotDeclared) {
  reload(with("slots: 32MiB", "slots: 32MiB, shared: {slots: 64}") +
         "  - {name: two, workers: 2, token_file: none, discipline: shared}\n");
  EXPECT_EQ(journal.count("the box has no shared slots; the job is not declared"), 1U);
  EXPECT_EQ(journal.count("restart to apply: dataplane.shared.slots"), 1U);
  EXPECT_EQ(reload_.config().jobs.size(), 1U);
}

}  // namespace
}  // namespace tally::daemon_test

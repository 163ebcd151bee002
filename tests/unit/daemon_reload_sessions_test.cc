// SIGHUP: sessions of the dialect switchml come, go, are declared again or stay, and the log says why.

#include "daemon_reload_bed.h"

namespace tally::daemon_test {
namespace {

struct DaemonReloadSessions : DaemonReload {};

const std::string kSessions =
    "  - {name: a, dialect: switchml, slots: 64, members: [{rank: 0, mac: 02:00:00:00:00:01, ipv4: "
    "10.0.0.11}]}\n"
    "  - {name: b, dialect: switchml, slots: 64, members: [{rank: 0, mac: 02:00:00:00:00:02, ipv4: "
    "10.0.0.12}]}\n";

TEST_F(DaemonReloadSessions, SessionsComeAndGoAndJobsAreNotTouched) {
  ASSERT_TRUE(bench.form(peers));
  reload(kText + kSessions);
  EXPECT_EQ(journal.count("reload: job 'a' is declared: a session"), 1U);
  EXPECT_EQ(bench.members->status(bench.now).size(), 3U);
  for (const members::JobStatus& job : bench.members->status(bench.now))
    EXPECT_EQ(job.phase, members::JobPhase::kRunning);
  reload(kText);
  EXPECT_EQ(journal.count("reload: job 'b' is gone from the configuration"), 1U);
  EXPECT_EQ(bench.members->status(bench.now).size(), 1U);
  EXPECT_TRUE(told.empty());
}

// Two that change members with each other are both withdrawn before one is declared again.
TEST_F(DaemonReloadSessions, SessionsThatDifferAreDeclaredAgainAndItIsSaidWhy) {
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
  for (const members::JobStatus& job : jobs) {
    if (!job.session) continue;
    EXPECT_EQ(job.phase, members::JobPhase::kRunning) << job.reason;
    EXPECT_EQ(job.ranks[0].binding.address,
              mapped({10, 0, 0, static_cast<std::uint8_t>(job.name == "a" ? 12 : 11)}));
  }
  reload(text);
  EXPECT_EQ(journal.count("reload: nothing differs from what runs"), 1U);
}

TEST_F(DaemonReloadSessions, AnotherRunResetsThatSessionOnceAndTouchesNoOther) {
  reload(kText + kSessions);
  const Epoch a = session("a")->epoch, b = session("b")->epoch;
  const std::string again = with("name: a,", "name: a, run: 2,", kText + kSessions);
  reload(again);
  EXPECT_EQ(journal.count("reload: job 'a' begins anew: run 2"), 1U) << journal.all();
  EXPECT_EQ(journal.count("declared again"), 0U);
  EXPECT_NE(session("a")->epoch, a);
  EXPECT_EQ(session("a")->phase, members::JobPhase::kRunning);
  EXPECT_EQ(session("b")->epoch, b);
  reload(again);
  EXPECT_EQ(journal.count("reload: nothing differs from what runs"), 1U);
}

// Whatever a file says of the box holds only after a restart.
struct DaemonReloadBox : DaemonReload {
  using DaemonReload::DaemonReload;
  // The new text does not change session a, for this reason, however often it is read.
  void stays(const std::string& text, const std::string& why) {
    const auto before = session("a");
    ASSERT_TRUE(before && before->phase == members::JobPhase::kRunning);
    const config::Config was = reload_.config();
    for (int i = 0; i < 2; ++i) {
      reload(text);
      EXPECT_EQ(journal.count("reload: job 'a': " + why + "; the session stays as it runs"), 1U)
          << journal.all();
      EXPECT_EQ(journal.count("declared again"), 0U) << journal.all();
      EXPECT_EQ(journal.lines.at(0).first, daemon::LogLevel::kError);
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
  const std::string mac = config::to_text(config::box_mac(config));
  stays(with("10.0.0.1/24", "10.0.0.1/24, mac: 02:00:00:00:00:fe",
             with("02:00:00:00:00:01", mac, kText + kSessions)),
        "rank 0 has the box's MAC");
}

TEST_F(DaemonReloadBox, ASessionThatTheMemoryOfTheRunningBoxCannotHoldStaysAsItWas) {
  reload(kText + kSessions);
  stays(with("slots: 32MiB", "slots: 128MiB", with("slots: 64", "slots: 16384", kText + kSessions)),
        "it takes 36864 KiB of slot memory per core, and there are 32768 KiB until tallyd is restarted");
}

const std::string kSmall = with("net_ring0", "net_ring0, mtu: 616");

struct DaemonReloadMtu : DaemonReloadBox {
  DaemonReloadMtu() : DaemonReloadBox(kSmall) {}
};

TEST_F(DaemonReloadMtu, ASessionThatTheRunningPortsCannotCarryIsNotDeclaredAndWhatRunsStays) {
  const std::string small = with("slots: 64", "slots: 64, payload: 512",
                                 kSmall + kSessions.substr(0, kSessions.find("  - {name: b")));
  reload(small);
  EXPECT_EQ(session("a")->session->payload, 512U);
  const std::string why =
      "its payload of 1024 bytes makes IP packets of 1062, and port w0 carries 616 until tallyd is restarted";
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
TEST_F(DaemonReloadSessions, ASessionThatWouldCollideWithOneThatStaysStaysToo) {
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

}  // namespace
}  // namespace tally::daemon_test

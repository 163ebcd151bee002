#pragma once
// A running box whose configuration changes on SIGHUP: what becomes of it, and what the log says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/checks.h"
#include "daemon/reload.h"
#include "daemon_plane.h"
#include "members_support.h"

namespace tally::daemon_test {

using members_test::Bench;

inline constexpr const char* kText = R"(instance: rack1
dataplane: {cores: [1], slots: 32MiB}
box: {ipv4: 10.0.0.1/24}
ports:
  - {name: w0, device: net_ring0}
jobs:
  - {name: one, workers: 2, token_file: none, window: 256}
)";

// With the first `old` replaced.
inline std::string with(const std::string& old, const std::string& by, std::string text = kText) {
  return text.replace(text.find(old), old.size(), by);
}

struct DaemonReload : testing::Test {
  explicit DaemonReload(const std::string& text = kText)
      : config(config::load_config_text(text, "box.yaml")->config), bench(config::member_options(config)) {
    for (const auto& [i, job] : config::jobs_of<config::NativeConfig>(config)) id = bench.declare(*job);
    for (Peer& p : peers) {
      p.job = "one";
      p.token.clear();
    }
  }
  // The session of that name; nullopt if there is none.
  [[nodiscard]] std::optional<members::JobStatus> session(const std::string& name) const {
    for (members::JobStatus& job : bench.members->status(bench.now))
      if (job.session && job.name == name) return std::move(job);
    return std::nullopt;
  }
  void reload(const std::string& text) {
    journal.lines.clear();
    reload_.take(config::load_config_text(text, "box.yaml"), *bench.members, bench.now);
    told = bench.settle();
  }

  config::Config config;
  Bench bench;
  JobId id{};
  std::vector<Peer> peers{Peer(0), Peer(1)};
  Journal journal;
  std::vector<std::pair<PortIndex, impair::PortImpairment>> impaired;
  daemon::Reload reload_{
      config, journal.sink(), daemon::set_log_level,
      [this](PortIndex port, const impair::PortImpairment& faults) { impaired.emplace_back(port, faults); }};
  std::vector<Sent> told;
};

}  // namespace tally::daemon_test

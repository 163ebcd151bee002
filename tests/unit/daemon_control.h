#pragma once
// The control interface over a running membership whose data plane is made of paper (daemon_plane.h).

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "config/load_config.h"
#include "daemon/control_box.h"
#include "daemon_plane.h"
#include "daemon_reload_bed.h"

namespace tally::daemon_test {

namespace fs = std::filesystem;

struct DaemonControl : testing::Test {
  DaemonControl() {
    fs::create_directory(directory);
    std::ofstream(file) << kText;
    loop.turn(now);
    plane.obey(now);
  }
  ~DaemonControl() override { fs::remove_all(directory); }

  static members::MembershipEngine engine_of(const config::Config& config) {
    members::MembershipEngine engine(config::member_options(config),
                                     [n = std::uint64_t{7}]() mutable { return n += 977; });
    for (const auto& job : config.jobs) (void)engine.declare(job);
    return engine;
  }

  std::string directory = "/tmp/tally-control." + std::to_string(getpid());
  std::string file = directory + "/box.yaml";
  std::string path = directory + "/control.sock";
  std::string program = directory + "/tallyd";
  config::Config config = config::load_config_text(kText, "box.yaml")->config;
  FakePlane plane{1, 1};
  Journal journal;
  TimeNs now = 10 * kSecond;
  daemon::ControlLoop loop{plane, engine_of(config), journal.sink(), kSecond, now};
  inline static daemon::LogLevel level = daemon::LogLevel::kInfo;
  daemon::Reload reload{config, journal.sink(), [](daemon::LogLevel l) { level = l; }};
  api::TurnTimes turns{};
  int changes = 0;
  bool restarts = false;
  daemon::ControlBox box{{plane,
                          loop,
                          reload,
                          turns,
                          journal.sink(),
                          file,
                          program,
                          {},
                          {},
                          [this] { restarts = true; },
                          [this] { return now; },
                          [this] { ++changes; }}};
  // What comes of job.set, which is of the file's job and so done at once.
  std::string set(const std::string& job, const api::Json& keys) {
    std::string what = "not told";
    box.set_job(job, keys, std::nullopt,
                [&](const auto& done) { what = done ? done->notes.front() : done.error().message; });
    return what;
  }
};

}  // namespace tally::daemon_test

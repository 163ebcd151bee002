// The control interface of a daemon: what it changes in a running membership, and its socket.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "control_api_scene.h"
#include "daemon/control_socket.h"
#include "daemon_control.h"

namespace tally::daemon_test {
namespace {

using testing::HasSubstr;

TEST_F(DaemonControl, AWindowIsInForceAndAReloadBringsTheFilesBack) {
  EXPECT_EQ(set("one", {{"window", 64}}), "job 'one' gets a window of 64 instead of 256");
  EXPECT_EQ(changes, 1);
  const auto shown = box.snapshot();
  EXPECT_EQ(shown->jobs.at(0).status.wanted_window, 64U);
  EXPECT_EQ(std::get<config::NativeConfig>(shown->config->jobs[0]).window, 64U);
  EXPECT_EQ(journal.count("job 'one' gets a window of 64 instead of 256"), 1U);
  const api::ReloadReport report = box.reload();
  EXPECT_THAT(report.changed, testing::ElementsAre("job 'one' gets a window of 256 instead of 64"));
  EXPECT_EQ(box.snapshot()->jobs.at(0).status.wanted_window, 256U);
}

TEST_F(DaemonControl, TheLevelOfTheLogChangesAtOnce) {
  box.set_log_level(daemon::LogLevel::kDebug);
  EXPECT_EQ(level, daemon::LogLevel::kDebug);
  EXPECT_EQ(box.snapshot()->config->log.level, daemon::LogLevel::kDebug);
  const api::ReloadReport report = box.reload();
  EXPECT_THAT(report.changed, testing::ElementsAre("log.level is info"));
  EXPECT_EQ(level, daemon::LogLevel::kInfo);
  EXPECT_TRUE(report.restart.empty());
}

TEST_F(DaemonControl, AnotherLevelIsToldWhileEitherLetsTheLinePass) {
  using Level = daemon::LogLevel;
  std::vector<std::string> seen;
  level = config.log.level = Level::kWarning;
  const auto sink = [&](Level of, std::string_view text) {
    if (of >= level) seen.emplace_back(text);
  };
  daemon::Reload quiet{config, sink, [](Level l) { level = l; }};
  quiet.set_level(Level::kInfo);
  quiet.set_level(Level::kError);
  EXPECT_THAT(seen, testing::ElementsAre("log.level is info", "log.level is error"));
  EXPECT_EQ(level, Level::kError);
}

TEST_F(DaemonControl, AReloadTellsWhatTakesARestartAndWhatIsWrong) {
  std::ofstream(file) << with("10.0.0.1", "10.0.0.2");
  EXPECT_THAT(box.reload().restart, testing::ElementsAre("box.ipv4"));
  std::ofstream(file) << "nonsense: 1\n";
  const api::ReloadReport bad = box.reload();
  EXPECT_TRUE(bad.refused);
  EXPECT_FALSE(bad.diagnostics.empty());
  EXPECT_EQ(std::get<config::NativeConfig>(box.snapshot()->config->jobs[0]).name, "one");
}

// Before anything is ended it is known that something will follow.
TEST_F(DaemonControl, ARestartLooksForItsProgramAndItsFileFirst) {
  EXPECT_THAT(box.restart().failed, testing::ElementsAre(HasSubstr(program + ": No such file")));
  std::ofstream(program) << "half an upgrade";
  EXPECT_THAT(box.restart().failed, testing::ElementsAre(HasSubstr(program + ": Permission denied")));
  fs::permissions(program, fs::perms::owner_all);
  std::ofstream(file) << "nonsense: 1\n";
  EXPECT_TRUE(box.restart().refused);
  EXPECT_FALSE(restarts);
  std::ofstream(file) << kText;
  const api::ReloadReport good = box.restart();
  EXPECT_THAT(good.failed, testing::IsEmpty());
  EXPECT_TRUE(restarts);
}

TEST_F(DaemonControl, ARestartDoesNotLoseAJobThatNothingKeeps) {
  std::ofstream(program) << "an upgrade";
  fs::permissions(program, fs::perms::owner_all);
  bool made = false;
  box.add_job({{"name", "made"}, {"workers", 2}, {"token_file", "none"}}, std::nullopt,
              [&](const auto& done) { made = done.has_value(); });
  ASSERT_TRUE(made);
  EXPECT_THAT(box.restart().failed, testing::ElementsAre(HasSubstr("job 'made' would be lost")));
  EXPECT_FALSE(restarts);
}

TEST_F(DaemonControl, WhatHasNobodyInItCannotBeAborted) {
  const auto none = box.abort("one", "because");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text(), HasSubstr("nobody is in it: it is declared"));
  EXPECT_FALSE(box.abort("two", "because"));
}

TEST_F(DaemonControl, ASnapshotIsKeptForAMomentAndNotBeyondAChange) {
  const auto first = box.snapshot();
  EXPECT_EQ(box.snapshot(), first);
  now += 25 * kMillisecond;
  const auto second = box.snapshot();
  EXPECT_NE(second, first);
  (void)set("one", {{"window", 128}});
  EXPECT_NE(box.snapshot(), second);
}

TEST_F(DaemonControl, NothingIsReadAgainWhileItEnds) {
  loop.end(now);
  EXPECT_THAT(box.reload().failed, testing::ElementsAre(HasSubstr("shutting down")));
  EXPECT_TRUE(box.snapshot()->ending);
}

// The socket.

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 0777U : 0;
}

using Access = config::ControlSection::Access;

TEST_F(DaemonControl, TheFileHasItsModeAndGoesWithTheSocket) {
  for (const auto& [access, mode] :
       {std::pair{Access::kOwner, 0600U}, {Access::kGroup, 0660U}, {Access::kEverybody, 0666U}}) {
    const auto socket = daemon::ControlSocket::listen(path, {.access = access});
    ASSERT_TRUE(socket) << socket.error().text();
    EXPECT_EQ(mode_of(path), mode);
  }
  EXPECT_FALSE(fs::exists(path));
}

UniqueFd bound(const std::string& path, int type) {
  UniqueFd socket(::socket(AF_UNIX, type, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

TEST_F(DaemonControl, AStaleSocketIsReplacedAndALiveOneIsNot) {
  const auto first = daemon::ControlSocket::listen(path, {});
  ASSERT_TRUE(first);
  const auto second = daemon::ControlSocket::listen(path, {});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().text(), HasSubstr("is in use by process " + std::to_string(getpid())));
  // As after kill -9: the file is there and nobody listens.
  const std::string stale = directory + "/stale.sock";
  (void)bound(stale, SOCK_STREAM);
  ASSERT_TRUE(fs::exists(stale));
  EXPECT_TRUE(daemon::ControlSocket::listen(stale, {}));
}

// Of memif's type, or one that takes nobody at the moment: not to be connected to, and not stale.
TEST_F(DaemonControl, OnlyASocketThatRefusesIsStale) {
  const std::string datagrams = directory + "/datagrams.sock";
  const UniqueFd other = bound(datagrams, SOCK_DGRAM);
  const auto refused = daemon::ControlSocket::listen(datagrams, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("is in use by somebody (Protocol wrong type"));
  EXPECT_TRUE(fs::exists(datagrams));
}

TEST_F(DaemonControl, AHeldLockOfTheDirectoryHoldsNobodyUp) {
  const UniqueFd lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  ::alarm(60);  // else it would wait for ever
  EXPECT_TRUE(daemon::ControlSocket::listen(path, {}));
  ::alarm(0);
}

TEST_F(DaemonControl, APathThatIsTooLongIsRefused) {
  EXPECT_THAT(daemon::ControlSocket::listen("/tmp/" + std::string(200, 'x'), {}).error().text(),
              HasSubstr("too long a path"));
}

TEST_F(DaemonControl, WhatIsNoSocketStaysAndAMissingDirectoryIsNamed) {
  EXPECT_THAT(daemon::ControlSocket::listen(file, {}).error().text(),
              HasSubstr("is taken by something else"));
  EXPECT_TRUE(fs::exists(file));
  EXPECT_THAT(daemon::ControlSocket::listen(directory + "/no/x.sock", {}).error().text(),
              HasSubstr("mkdir -p " + directory + "/no"));
  EXPECT_THAT(daemon::ControlSocket::listen(path, {.group = "no-such-group"}).error().text(),
              HasSubstr("groupadd"));
}

TEST_F(DaemonControl, AnothersSocketIsNotRemoved) {
  {
    auto first = daemon::ControlSocket::listen(path, {});
    ASSERT_TRUE(first);
    fs::remove(path);
    std::ofstream(path) << "another's";
  }
  EXPECT_TRUE(fs::exists(path));
}

}  // namespace
}  // namespace tally::daemon_test

// sd_notify over a real socket.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "log/sd_notify.h"

namespace tally {
namespace {

class DaemonNotify : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
  }
  void TearDown() override {
    SetUp();
    if (socket_ >= 0) close(socket_);
    if (!path_.empty()) unlink(path_.c_str());
  }

  // name: as NOTIFY_SOCKET has it.
  void listen_at(const std::string& name) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, name.data(), name.size());
    if (name[0] == '@') at.sun_path[0] = '\0';
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    ASSERT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&at), bytes), 0) << std::strerror(errno);
    if (name[0] == '/') path_ = name;
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  std::string received() const {
    std::array<char, 512> text{};
    const ssize_t n = recv(socket_, text.data(), text.size(), 0);
    return n < 0 ? "nothing" : std::string(text.data(), static_cast<std::size_t>(n));
  }

  int socket_ = -1;
  std::string path_;
};

TEST_F(DaemonNotify, TellsAPathSocket) {
  listen_at("/tmp/tally-notify-" + std::to_string(getpid()));
  const auto manager = log::ServiceManager::from_environment();
  manager.ready("8 ports");
  EXPECT_EQ(received(), "READY=1\nSTATUS=8 ports");
  manager.status("1 of 2 jobs running");
  EXPECT_EQ(received(), "STATUS=1 of 2 jobs running");
  manager.alive();
  EXPECT_EQ(received(), "WATCHDOG=1");
  manager.stopping("shutting down");
  EXPECT_EQ(received(), "STOPPING=1\nSTATUS=shutting down");
}

TEST_F(DaemonNotify, TellsAnAbstractSocketAlsoAfterAMove) {
  listen_at("@tally-notify-" + std::to_string(getpid()));
  auto first = log::ServiceManager::from_environment();
  const log::ServiceManager manager = std::move(first);
  manager.alive();
  EXPECT_EQ(received(), "WATCHDOG=1");
}

TEST_F(DaemonNotify, WithoutAManagerNothingHappens) {
  const auto manager = log::ServiceManager::from_environment();
  manager.ready("x");
  manager.alive();
  EXPECT_EQ(manager.watchdog_interval(), 0U);
}

TEST_F(DaemonNotify, ASocketThatIsGoneOrUnusableIsNoFailure) {
  for (const std::string& name : {std::string("/tmp/tally-nobody-listens"), std::string("relative"),
                                  "/" + std::string(200, 'x'), std::string()}) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    log::ServiceManager::from_environment().ready("x");
  }
}

TEST_F(DaemonNotify, AManagerThatDoesNotReadNeverBlocks) {
  listen_at("/tmp/tally-notify-full-" + std::to_string(getpid()));
  const auto manager = log::ServiceManager::from_environment();
  for (int i = 0; i < 10'000; ++i) manager.alive();
  EXPECT_EQ(received(), "WATCHDOG=1");
}

TEST_F(DaemonNotify, TheWatchdogIsFedFourTimesInItsPatience) {
  listen_at("@tally-watchdog-" + std::to_string(getpid()));
  setenv("WATCHDOG_USEC", "10000000", 1);
  EXPECT_EQ(log::ServiceManager::from_environment().watchdog_interval(), 2'500 * kMillisecond);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  EXPECT_EQ(log::ServiceManager::from_environment().watchdog_interval(), 2'500 * kMillisecond);
  setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(log::ServiceManager::from_environment().watchdog_interval(), 0U);
  unsetenv("WATCHDOG_PID");
  setenv("WATCHDOG_USEC", "10s", 1);
  EXPECT_EQ(log::ServiceManager::from_environment().watchdog_interval(), 0U);
}

}  // namespace
}  // namespace tally

// Workers that go away at a bad moment, or do not keep to the protocol: the daemon's memif survives them all.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <thread>

#include "dpdk/memif_message.h"
#include "dpdk_testbed.h"
#include "tally/check.h"

namespace tally::e2e {
namespace {

using std::chrono::milliseconds;

// The bytes of a memif control message.
dpdk::MemifMessage message(dpdk::MemifType type, std::initializer_list<int> behind = {}) {
  dpdk::MemifMessage m;
  m.bytes[0] = static_cast<std::byte>(type);
  std::size_t at = 2;
  for (const int b : behind) m.bytes.at(at++) = static_cast<std::byte>(b);
  return m;
}

class DpdkDoor : public testing::Test {
 protected:
  void SetUp() override { open({.name = "box", .device = device()}); }
  void TearDown() override {
    stop_polling();
    server_.reset();
    EXPECT_FALSE(std::filesystem::exists(path()));
    EXPECT_EQ(audit(pools_.frames[0]), "");
  }
  [[nodiscard]] std::string path() const { return scratch_.file("door.sock"); }
  [[nodiscard]] std::string device() const {
    return "net_memif9,role=server,id=0,socket=" + path() + ",socket-abstract=no";
  }
  void open(const dpdk::PortOptions& options) {
    server_.reset();
    auto port = dpdk::Port::open(options, pools_.frames[0]);
    ASSERT_TRUE(port) << port.error().text();
    server_.emplace(std::move(*port));
  }
  // A data core: takes what arrives and sends it back.
  void poll_port() {
    polling_ = true;
    core_ = std::thread([this] {
      std::array<rte_mbuf*, 32> room{};
      while (polling_) {
        const auto frames = dpdk::receive(server_->traits().id, 0, room);
        arrived_ += frames.size();
        dpdk::send(server_->traits().id, 0, frames, counters_);
        if (frames.empty()) std::this_thread::yield();
      }
    });
  }
  void stop_polling() {
    polling_ = false;
    if (core_.joinable()) core_.join();
  }
  // Within ten seconds.
  template <class Condition>
  static bool soon(Condition condition) {
    for (int i = 0; i < 10000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(1));
    return condition();
  }
  [[nodiscard]] pid_t visitor() const {
    const pid_t pid = fork();
    if (pid == 0) {
      close_range(3, ~0U, 0);  // the driver's sockets would outlive what this process closes
      execl(TALLY_MEMIF_VISITOR, "visitor", path().c_str(), nullptr);
      _exit(9);
    }
    return pid;
  }
  [[nodiscard]] UniqueFd knock() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(std::begin(address.sun_path), sizeof address.sun_path - 1);
    UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto* name = reinterpret_cast<const sockaddr*>(&address);
    TALLY_CHECK(connect(fd.get(), name, sizeof address) == 0, "the door is open");
    return fd;
  }
  // The next message; nothing if the door hung up or is silent for ten seconds.
  static std::optional<dpdk::MemifMessage> hear(const UniqueFd& fd) {
    pollfd ready{fd.get(), POLLIN, 0};
    dpdk::MemifMessage m;
    if (::poll(&ready, 1, 10000) != 1 || dpdk::receive_memif(fd.get(), m) != dpdk::MemifReceived::kMessage)
      return std::nullopt;
    return m;
  }
  static bool hears(const UniqueFd& fd, dpdk::MemifType type) {
    const auto m = hear(fd);
    return m && m->type() == type;
  }
  void expect_a_visitor_is_served() {
    if (!polling_) poll_port();
    const std::uint64_t before = arrived_;
    const pid_t pid = visitor();
    EXPECT_TRUE(soon([&] { return arrived_ > before + 100; }));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    EXPECT_TRUE(soon([&] { return !server_->link_up(); }));
  }

  Scratch scratch_;
  dpdk::Pools pools_ = small_pools(511, 31);
  dpdk::MbufCounters counters_;
  std::optional<dpdk::Port> server_;
  std::thread core_;
  std::atomic<bool> polling_ = false;
  std::atomic<std::uint64_t> arrived_ = 0;
};

// Without the door: a segmentation fault within about ten of them.
TEST_F(DpdkDoor, WorkersKilledUnderLoadDoNoHarm) {
  // Each is a process with EAL, and most tests of this file end with one more.
  for (int i = 0; i < 6 && !HasFailure(); ++i) expect_a_visitor_is_served();
}

// Without the door: rte_panic in EAL's interrupt thread.
TEST_F(DpdkDoor, ConnectionsThatEndAtOnceDoNoHarm) {
  for (int i = 0; i < 200; ++i) static_cast<void>(knock());
  expect_a_visitor_is_served();
}

TEST_F(DpdkDoor, NonsenseIsHungUpOn) {
  for (const dpdk::MemifType type : {dpdk::MemifType::kNone, dpdk::MemifType::kConnected,
                                     dpdk::MemifType::kAddRing, dpdk::MemifType{0xFF}}) {
    const UniqueFd fd = knock();
    ASSERT_TRUE(hears(fd, dpdk::MemifType::kHello));
    ASSERT_TRUE(dpdk::send_memif(fd.get(), message(type)));
    const auto answer = hear(fd);
    EXPECT_TRUE(!answer || answer->type() == dpdk::MemifType::kDisconnect);
  }
  {
    const UniqueFd fd = knock();
    ASSERT_TRUE(hears(fd, dpdk::MemifType::kHello));
    ASSERT_EQ(::send(fd.get(), "short", 5, MSG_NOSIGNAL), 5);
    EXPECT_FALSE(hear(fd));
  }
  expect_a_visitor_is_served();
}

// A worker in its introduction, as far as the regions.
UniqueFd introduced(UniqueFd fd) {
  EXPECT_TRUE(dpdk::send_memif(fd.get(), message(dpdk::MemifType::kInit, {0, 2, 0, 0, 0, 0, 0})));
  return fd;
}
// Shared memory of 4,096 bytes that says it has `bytes`.
dpdk::MemifMessage region_of(std::uint8_t bytes_in_kib, int seals = F_SEAL_SHRINK) {
  dpdk::MemifMessage m =
      message(dpdk::MemifType::kAddRegion, {0, 0, 0, static_cast<std::uint8_t>(bytes_in_kib * 4), 0, 0, 0});
  m.fd.reset(memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(m.fd.get(), 4'096), 0);
  EXPECT_EQ(fcntl(m.fd.get(), F_ADD_SEALS, seals), 0);
  return m;
}
// Index 0 to the server, in region `region`, 2^log2 descriptors.
dpdk::MemifMessage ring_of(std::uint8_t region, std::uint8_t log2) {
  dpdk::MemifMessage m = message(dpdk::MemifType::kAddRing, {1, 0, 0, 0, region, 0, 0, 0, 0, 0, log2});
  m.fd.reset(eventfd(0, EFD_CLOEXEC));
  return m;
}
std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// The link goes down before everything is closed, and the door may open something anew behind it.
std::size_t settled_descriptors() {
  std::size_t count = open_descriptors();
  for (int same = 0; same < 100; ++same) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (const std::size_t now = open_descriptors(); now != count) {
      count = now;
      same = 0;
    }
  }
  return count;
}

std::string what_is_open() {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    text += entry.path().filename().string() + " " +
            std::filesystem::read_symlink(entry.path(), gone).string() + "\n";
  }
  return text;
}

// The driver would use what lies outside, or belongs to the worker before.
TEST_F(DpdkDoor, MemoryThatIsNotWhatItSaysIsHungUpOn) {
  const auto is_hung_up_on = [&](const std::function<void(const UniqueFd&)>& say) {
    const UniqueFd fd = introduced(knock());
    EXPECT_TRUE(hears(fd, dpdk::MemifType::kHello));
    EXPECT_TRUE(hears(fd, dpdk::MemifType::kAck));
    say(fd);
    while (const auto m = hear(fd))
      if (m->type() != dpdk::MemifType::kAck) return m->type() == dpdk::MemifType::kDisconnect;
    return true;
  };
  const auto sent = [](const UniqueFd& fd, const dpdk::MemifMessage& m) {
    EXPECT_TRUE(dpdk::send_memif(fd.get(), m));
  };
  EXPECT_TRUE(is_hung_up_on([&](const UniqueFd& fd) { sent(fd, region_of(8)); }));
  EXPECT_TRUE(is_hung_up_on([&](const UniqueFd& fd) { sent(fd, ring_of(0, 2)); }));
  struct Place {
    std::uint8_t region, log2;
  };
  for (const Place place : {Place{1, 2}, Place{0, 9}, Place{0, 60}}) {
    EXPECT_TRUE(is_hung_up_on([&](const UniqueFd& fd) {
      sent(fd, region_of(4));
      sent(fd, ring_of(place.region, place.log2));
    }));
  }
  EXPECT_TRUE(is_hung_up_on([&](const UniqueFd& fd) {
    sent(fd, region_of(4));
    sent(fd, ring_of(0, 2));
    sent(fd, ring_of(0, 2));
  }));
  EXPECT_TRUE(is_hung_up_on([&](const UniqueFd& fd) {
    sent(fd, message(dpdk::MemifType::kInit, {0, 2, 0, 0, 0, 0, 0}));
  }));
  expect_a_visitor_is_served();
}

// A worker that truncates its memory later would end the box.
TEST_F(DpdkDoor, MemoryThatMayShrinkIsHungUpOnWithTheReason) {
  for (const int seals : {0, F_SEAL_GROW, F_SEAL_SEAL}) {
    const UniqueFd fd = introduced(knock());
    ASSERT_TRUE(hears(fd, dpdk::MemifType::kHello));
    ASSERT_TRUE(hears(fd, dpdk::MemifType::kAck));
    ASSERT_TRUE(dpdk::send_memif(fd.get(), region_of(4, seals)));
    const auto answer = hear(fd);
    ASSERT_TRUE(answer && answer->type() == dpdk::MemifType::kDisconnect);
    EXPECT_THAT(reinterpret_cast<const char*>(answer->bytes.data() + 6), testing::HasSubstr("F_SEAL_SHRINK"));
  }
  expect_a_visitor_is_served();
}

// The driver does not close the memory of one that leaves before it is connected.
TEST_F(DpdkDoor, WhoLeavesBeforeItIsConnectedLeavesNothingOpen) {
  expect_a_visitor_is_served();
  const std::size_t before = settled_descriptors();
  for (int i = 0; i < 20; ++i) {
    const UniqueFd fd = introduced(knock());
    ASSERT_TRUE(hears(fd, dpdk::MemifType::kHello));
    ASSERT_TRUE(hears(fd, dpdk::MemifType::kAck));
    ASSERT_TRUE(dpdk::send_memif(fd.get(), region_of(4)));
    ASSERT_TRUE(hears(fd, dpdk::MemifType::kAck));
  }
  EXPECT_TRUE(soon([&] { return open_descriptors() <= before; })) << before << " before, now\n"
                                                                  << what_is_open();
  expect_a_visitor_is_served();
}

TEST_F(DpdkDoor, AnotherNumberOfQueuesIsRefusedWithTheNumbers) {
  const UniqueFd fd = knock();
  ASSERT_TRUE(hears(fd, dpdk::MemifType::kHello));
  ASSERT_TRUE(dpdk::send_memif(fd.get(),
                               message(dpdk::MemifType::kInit, {0, 2, 0, 0, 0, 0, 0})));  // version 2.0, id 0
  ASSERT_TRUE(hears(fd, dpdk::MemifType::kAck));
  ASSERT_TRUE(dpdk::send_memif(fd.get(), message(dpdk::MemifType::kConnect)));
  const auto answer = hear(fd);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->type(), dpdk::MemifType::kDisconnect);
  EXPECT_STREQ(reinterpret_cast<const char*>(answer->bytes.data() + 6),
               "the port has 1 queues to it and 1 from it, you have 0 and 0");
  expect_a_visitor_is_served();
}

TEST_F(DpdkDoor, AnUnknownInterfaceIsAnsweredByTheDriver) {
  const UniqueFd fd = knock();
  ASSERT_TRUE(hears(fd, dpdk::MemifType::kHello));
  ASSERT_TRUE(dpdk::send_memif(fd.get(), message(dpdk::MemifType::kInit, {0, 2, 77, 0, 0, 0, 0})));
  const auto answer = hear(fd);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->type(), dpdk::MemifType::kDisconnect);
  expect_a_visitor_is_served();
}

TEST_F(DpdkDoor, RestartingThePortUnderLoadEndsTheConnectionCleanly) {
  poll_port();
  const pid_t pid = visitor();
  EXPECT_TRUE(soon([&] { return arrived_ > 100; }));
  const auto done = server_->restart();
  EXPECT_TRUE(done) << done.error().text();
  EXPECT_FALSE(server_->link_up());
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  expect_a_visitor_is_served();
}

TEST_F(DpdkDoor, APortThatIsClosedUnderLoadOfItsWorkerDoesNoHarm) {
  for (int i = 0; i < 3; ++i) {
    poll_port();
    const pid_t pid = visitor();
    const std::uint64_t before = arrived_;
    EXPECT_TRUE(soon([&] { return arrived_ > before + 100; }));
    stop_polling();
    open({.name = "box", .device = device()});
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

}  // namespace
}  // namespace tally::e2e

// Two ends of a memif in one process, as daemon and worker have them in two.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "dpdk_testbed.h"
#include "tally/check.h"

namespace tally::e2e {
namespace {

constexpr std::uint32_t kFrameHead = 42;

bool link_becomes(const dpdk::Port& port, bool up) {
  for (int i = 0; i < 5000 && port.link_up() != up; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return port.link_up() == up;
}

int listening_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(std::begin(address.sun_path), sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  const bool done =
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && listen(fd, 1) == 0;
  TALLY_CHECK(done, "a socket file is made");
  return fd;
}

// The file that a killed server leaves.
void leave_socket(const std::string& path) { close(listening_socket(path)); }

// Another process that listens there, until it is killed.
pid_t fork_listener(const std::string& path) {
  std::array<int, 2> ready{};
  TALLY_CHECK(pipe(ready.data()) == 0, "a pipe is made");
  const pid_t pid = fork();
  if (pid == 0) {
    listening_socket(path);
    close(ready[1]);
    for (;;) pause();
  }
  close(ready[1]);
  char byte = 0;
  while (read(ready[0], &byte, 1) > 0) continue;
  close(ready[0]);
  return pid;
}

class DpdkMemif : public testing::Test {
 protected:
  // Ports first: they hold mbufs.
  void TearDown() override {
    client_.reset();
    server_.reset();
    EXPECT_EQ(audit(pools_.frames[0]), "");
    EXPECT_EQ(audit(pools_.heads[0]), "");
  }
  [[nodiscard]] std::string socket() const { return scratch_.file("memif.sock"); }
  // The driver keeps one socket per name and process, a listening one only if a server came first: the ends
  // use two names of one file, as if they were in two processes.
  [[nodiscard]] dpdk::PortOptions end(const std::string& role, const std::string& more = "") const {
    return {.name = role,
            .device = "net_memif" + std::string(role == "server" ? "0" : "1") + ",role=" + role +
                      ",id=0,socket=" + (role == "server" ? socket() : scratch_.file("./memif.sock")) +
                      ",socket-abstract=no" + more};
  }
  void open_server(const dpdk::PortOptions& options) {
    auto port = dpdk::Port::open(options, pools_.frames[0]);
    ASSERT_TRUE(port) << port.error().text();
    server_.emplace(std::move(*port));
  }
  void open_both(const dpdk::PortOptions& server, const dpdk::PortOptions& client) {
    open_server(server);
    ASSERT_TRUE(server_);
    auto port = dpdk::Port::open(client, pools_.frames[0]);
    ASSERT_TRUE(port) << port.error().text();
    client_.emplace(std::move(*port));
    ASSERT_TRUE(link_becomes(*client_, true));
    ASSERT_TRUE(link_becomes(*server_, true));
  }
  // A frame of `bytes` in the shape of its number, with its tag behind kFrameHead bytes.
  rte_mbuf* shaped(int number, std::uint32_t bytes) {
    const auto tag = static_cast<std::uint8_t>(number);
    rte_mbuf* body = tagged(pools_.frames[0], bytes - kFrameHead, tag, counters_);
    rte_mbuf* m = number % 3 == 0 ? dpdk::copied_whole(body, kFrameHead, pools_.frames[0], counters_)
                                  : dpdk::refer(body, kFrameHead, pools_.heads[0], counters_);
    dpdk::drop(body);
    return m;
  }
  // Sends bursts of all shapes and checks that each frame arrives whole, in order, in one piece if it must.
  void exchange(const dpdk::Port& from, const dpdk::Port& to, std::uint32_t bytes, int rounds) {
    int sent = 0;
    const std::uint64_t before = arrived_;
    // A server can send only into buffers that its client has offered, with the first look for frames.
    std::array<rte_mbuf*, 1> room{};
    ASSERT_TRUE(dpdk::receive(to.traits().id, 0, room).empty());
    for (int round = 0; round < rounds; ++round) {
      std::vector<rte_mbuf*> burst;
      for (int i = 0; i <= round % 7; ++i)
        burst.push_back(shaped(sent + i + round, bytes + static_cast<std::uint32_t>(i)));
      const std::size_t count = burst.size();
      ASSERT_EQ(dpdk::send(from.traits().id, 0, burst, counters_), count);
      const auto frames = receive_some(to, count);
      EXPECT_EQ(frames.size(), count) << "round " << round;
      for (std::size_t i = 0; i < frames.size(); ++i) {
        const rte_mbuf* m = frames[i];
        EXPECT_EQ(m->pkt_len, bytes + i) << "round " << round << " frame " << i << " segments " << m->nb_segs;
        EXPECT_TRUE(has_tag(m, kFrameHead, static_cast<std::uint8_t>(sent + static_cast<int>(i) + round)));
        pieces_ += m->nb_segs;
        ++arrived_;
        dpdk::drop(frames[i]);
      }
      if (HasFailure()) return;
      sent += static_cast<int>(count);
    }
    EXPECT_EQ(arrived_ - before, static_cast<std::uint64_t>(sent));
  }

  Scratch scratch_;
  dpdk::Pools pools_ = small_pools(511, 255);
  dpdk::MbufCounters counters_;
  std::optional<dpdk::Port> server_;
  std::optional<dpdk::Port> client_;
  std::uint64_t pieces_ = 0;  // segments of what arrived
  std::uint64_t arrived_ = 0;
};

TEST_F(DpdkMemif, TraitsAreThoseOfASharedRing) {
  open_both(end("server"), end("client", ",rsize=8"));
  if (HasFatalFailure()) return;
  const dpdk::PortTraits& traits = server_->traits();
  EXPECT_TRUE(traits.segments);
  EXPECT_FALSE(traits.same_mbuf);
  EXPECT_FALSE(traits.vouches);
  EXPECT_EQ(traits.receive_descriptors, 1024);  // rsize=10, from PortOptions::descriptors
  EXPECT_EQ(traits.transmit_descriptors, 1024);
  EXPECT_EQ(client_->traits().receive_descriptors, 256);
}

// The driver gathers chains: a reader gets one piece per frame, whatever the sender's shape.
TEST_F(DpdkMemif, EveryShapeArrivesWholeAndInOnePieceBothWays) {
  open_both(end("server", ",rsize=6"), end("client", ",rsize=6"));
  if (HasFatalFailure()) return;
  exchange(*server_, *client_, 1000, 300);
  exchange(*client_, *server_, 1000, 300);
  EXPECT_EQ(pieces_, arrived_);
  EXPECT_EQ(server_->statistics().tx_packets, client_->statistics().rx_packets);
  EXPECT_EQ(server_->statistics().rx_packets * 2, arrived_);
}

TEST_F(DpdkMemif, JumboFramesArriveWholeInLargeBuffers) {
  pools_ = small_pools(255, 255, 9088);
  dpdk::PortOptions server = end("server", ",bsize=9216,rsize=6");
  dpdk::PortOptions client = end("client", ",rsize=6");  // bsize comes from the mtu
  server.mtu = client.mtu = 9000;
  open_both(server, client);
  if (HasFatalFailure()) return;
  exchange(*server_, *client_, 9000, 60);
  exchange(*client_, *server_, 9000, 60);
  EXPECT_EQ(pieces_, arrived_);
}

TEST_F(DpdkMemif, AFullRingIsCountedAndGivesTheMbufsBack) {
  open_both(end("server", ",rsize=5"), end("client", ",rsize=5"));
  if (HasFatalFailure()) return;
  std::vector<rte_mbuf*> burst;
  for (int i = 0; i < 40; ++i) burst.push_back(shaped(i, 500));
  EXPECT_EQ(dpdk::send(client_->traits().id, 0, burst, counters_), 32U);
  EXPECT_EQ(counters_.refused, 8U);
  EXPECT_EQ(rte_mempool_in_use_count(pools_.frames[0]), 0U) << "memif copies";
  for (rte_mbuf* m : receive_some(*server_, 32)) dpdk::drop(m);
}

TEST_F(DpdkMemif, AnEmptyPoolDeniesFramesUntilSomeComeBack) {
  open_both(end("server"), end("client"));
  if (HasFatalFailure()) return;
  std::vector<rte_mbuf*> burst;
  for (int i = 0; i < 8; ++i) burst.push_back(shaped(i, 500));
  ASSERT_EQ(dpdk::send(client_->traits().id, 0, burst, counters_), 8U);
  std::vector<rte_mbuf*> hoard;
  while (rte_mbuf* m = dpdk::allocate(pools_.frames[0], counters_)) hoard.push_back(m);
  std::array<rte_mbuf*, 32> room{};
  EXPECT_TRUE(dpdk::receive(server_->traits().id, 0, room).empty());
  for (rte_mbuf* m : hoard) dpdk::drop(m);
  const auto frames = receive_some(*server_, 8);
  EXPECT_EQ(frames.size(), 8U);
  for (rte_mbuf* m : frames) dpdk::drop(m);
}

TEST_F(DpdkMemif, AServerHasAsManyTransmitQueuesAsReceiveQueues) {
  dpdk::PortOptions two = end("server");
  two.transmit_queues = 2;
  open_server(two);
  ASSERT_TRUE(server_);
  EXPECT_EQ(server_->traits().transmit_queues, 1);
}

TEST_F(DpdkMemif, AClientWithMoreQueuesThanItsServerIsNotConnected) {
  dpdk::PortOptions client = end("client");
  client.receive_queues = client.transmit_queues = 2;
  open_server(end("server"));
  auto port = dpdk::Port::open(client, pools_.frames[0]);
  ASSERT_TRUE(port) << port.error().text();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(port->link_up());
  EXPECT_FALSE(server_->link_up());
}

// The driver alone would connect it, and use rings that the client does not have.
TEST_F(DpdkMemif, AClientWithFewerQueuesThanItsServerIsNotConnected) {
  dpdk::PortOptions server = end("server");
  server.receive_queues = server.transmit_queues = 2;
  open_server(server);
  auto port = dpdk::Port::open(end("client"), pools_.frames[0]);
  ASSERT_TRUE(port) << port.error().text();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(port->link_up());
  EXPECT_FALSE(server_->link_up());
}

TEST_F(DpdkMemif, EachQueueHasItsOwnRing) {
  dpdk::PortOptions server = end("server");
  dpdk::PortOptions client = end("client");
  server.receive_queues = server.transmit_queues = client.receive_queues = client.transmit_queues = 2;
  open_both(server, client);
  if (HasFatalFailure()) return;
  std::array<rte_mbuf*, 8> room{};
  for (std::uint16_t q = 0; q < 2; ++q) {
    std::array<rte_mbuf*, 1> frame{tagged(pools_.frames[0], 100, static_cast<std::uint8_t>(q), counters_)};
    ASSERT_EQ(dpdk::send(client_->traits().id, q, frame, counters_), 1U);
  }
  for (std::uint16_t q = 0; q < 2; ++q) {
    const auto frames = dpdk::receive(server_->traits().id, q, room);
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_TRUE(has_tag(frames[0], 0, static_cast<std::uint8_t>(q)));
    dpdk::drop(frames[0]);
  }
}

TEST_F(DpdkMemif, OneIdIsOnePort) {
  open_server(end("server"));
  dpdk::PortOptions other = end("server");
  other.device.replace(other.device.find("net_memif0"), 10, "net_memif2");
  const auto second = dpdk::Port::open(other, pools_.frames[0]);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().what.find("another port has id=0 at this socket"), std::string::npos)
      << second.error().text();
}

TEST_F(DpdkMemif, SeveralPortsShareASocketFile) {
  open_server(end("server"));
  dpdk::PortOptions other = end("server");
  other.device.replace(other.device.find("net_memif0"), 10, "net_memif2");
  other.device.replace(other.device.find("id=0"), 4, "id=1");
  {
    auto second = dpdk::Port::open(other, pools_.frames[0]);
    ASSERT_TRUE(second) << second.error().text();
  }
  EXPECT_TRUE(std::filesystem::exists(socket())) << "the first port still listens";
}

TEST_F(DpdkMemif, AClientOpensWithoutItsServerAndConnectsAtARestart) {
  auto port = dpdk::Port::open(end("client"), pools_.frames[0]);
  ASSERT_TRUE(port) << port.error().text();
  client_.emplace(std::move(*port));
  EXPECT_FALSE(client_->link_up());
  const auto early = client_->restart();
  ASSERT_FALSE(early);
  EXPECT_NE(early.error().text().find("port client"), std::string::npos) << early.error().text();
  open_server(end("server"));
  const auto done = client_->restart();
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_TRUE(link_becomes(*client_, true));
  exchange(*client_, *server_, 800, 10);
}

TEST_F(DpdkMemif, AServerThatGoesTakesTheLinkAndTheSocketFileWithIt) {
  open_both(end("server"), end("client"));
  if (HasFatalFailure()) return;
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(socket()));
  EXPECT_TRUE(link_becomes(*client_, false));
  open_server(end("server"));
  ASSERT_TRUE(client_->restart());
  EXPECT_TRUE(link_becomes(*client_, true));
  exchange(*server_, *client_, 800, 10);
}

TEST_F(DpdkMemif, TheSocketOfAKilledServerIsReplaced) {
  leave_socket(socket());
  ASSERT_TRUE(std::filesystem::exists(socket()));
  open_both(end("server"), end("client"));
}

TEST_F(DpdkMemif, ASocketThatSomebodyListensToIsLeftAlone) {
  const pid_t pid = fork_listener(socket());
  const auto port = dpdk::Port::open(end("server"), pools_.frames[0]);
  ASSERT_FALSE(port);
  EXPECT_NE(port.error().what.find("is in use by another process"), std::string::npos) << port.error().text();
  EXPECT_TRUE(std::filesystem::exists(socket()));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  open_server(end("server"));  // it was killed; the name of the device is free
}

TEST_F(DpdkMemif, AFileThatIsNoSocketIsLeftAlone) {
  std::ofstream(socket()) << "precious";
  const auto port = dpdk::Port::open(end("server"), pools_.frames[0]);
  ASSERT_FALSE(port);
  EXPECT_NE(port.error().what.find("no socket"), std::string::npos) << port.error().text();
  EXPECT_EQ(std::filesystem::file_size(socket()), 8U);
}

TEST_F(DpdkMemif, AMissingDirectoryIsNamedWithTheCommandThatMakesIt) {
  dpdk::PortOptions options = end("server");
  options.device.replace(options.device.find(socket()), socket().size(), scratch_.file("none/x.sock"));
  const auto port = dpdk::Port::open(options, pools_.frames[0]);
  ASSERT_FALSE(port);
  EXPECT_NE(port.error().what.find("mkdir -p " + scratch_.file("none")), std::string::npos)
      << port.error().text();
}

TEST_F(DpdkMemif, ADirectoryThatMayNotBeWrittenIsNamed) {
  if (geteuid() == 0) {
    // Root may write everywhere but to a file system that is read-only for all.
    dpdk::PortOptions options = end("server");
    options.device.replace(options.device.find(socket()), socket().size(), "/sys/x.sock");
    const auto port = dpdk::Port::open(options, pools_.frames[0]);
    ASSERT_FALSE(port);
    EXPECT_NE(port.error().text().find("/sys"), std::string::npos) << port.error().text();
    return;
  }
  const std::string directory = std::filesystem::path(socket()).parent_path().string();
  chmod(directory.c_str(), 0500);
  const auto port = dpdk::Port::open(end("server"), pools_.frames[0]);
  chmod(directory.c_str(), 0700);
  ASSERT_FALSE(port);
  EXPECT_NE(port.error().what.find("may not write to " + directory), std::string::npos)
      << port.error().text();
}

}  // namespace
}  // namespace tally::e2e

// A memif worker and daemons that are late, stopped, ended or killed. The daemons are processes (echo_box).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "tally/check.h"
#include "transport_harness.h"

#include <rte_mempool.h>

extern char** environ;

namespace tally::e2e {
namespace {

using testing::HasSubstr;

// A daemon is a process with EAL, which takes a quarter of a second to start, and ThreadSanitizer two. What
// each connection loses, a file or an mbuf, is lost by a few of them too; they end at points spread over the
// same traffic.
#ifdef TALLY_UNDER_TSAN
constexpr unsigned kKills = 5;
constexpr unsigned kCounted =
    2;  // files are counted from this one on: ThreadSanitizer opens a pipe of its own before
#else
constexpr unsigned kKills = 8;
constexpr unsigned kCounted = 1;
#endif
constexpr unsigned kClosings = 4;

// One daemon; killed at the end if it still lives.
class Daemon {
 public:
  explicit Daemon(const std::string& device, bool silent = false) {
    std::vector<std::string> words{TALLY_ECHO_BOX, device};
    if (silent) words.emplace_back("silent");
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    TALLY_CHECK(posix_spawn(&pid_, TALLY_ECHO_BOX, nullptr, nullptr, arguments.data(), environ) == 0,
                "the daemon is started");
  }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon() { end(SIGKILL); }
  void end(int signal) {
    if (pid_ == 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void signal(int number) const { kill(pid_, number); }

 private:
  pid_t pid_ = 0;
};

class TransportReconnect : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = WorkerSetup{.device = directory_.client()}.open();
    ASSERT_TRUE(opened) << opened.error().text();
    worker_ = std::move(*opened);
    ASSERT_TRUE(worker_->attach());
  }
  // The file of a killed daemon stays; the next one could not listen there. tallyd removes it by itself.
  [[nodiscard]] std::unique_ptr<Daemon> daemon(bool silent = false) {
    std::filesystem::remove(directory_.socket());
    return std::make_unique<Daemon>(directory_.server(), silent);
  }
  // Sends and takes as fast as it goes, checking every echo, until `done`.
  bool traffic_until(const std::function<bool()>& done) {
    return turn_until(*worker_, done, [this] {
      for (const auto& echo : take_all(*worker_)) {
        std::uint32_t seed = 0;
        std::memcpy(&seed, echo.data() + 4, sizeof seed);
        EXPECT_EQ(echo, datagram(seed, echo.size()));
        ++echoes_;
      }
      const auto room = worker_->lend(16, 600);
      for (auto& out : room) {
        const auto bytes = datagram(++seed_, 600);
        std::copy(bytes.begin(), bytes.end(), out.room.begin());
        out.bytes = bytes.size();
      }
      worker_->send(room.size());
    });
  }
  bool echoes(std::uint64_t more) {
    const std::uint64_t wanted = echoes_ + more;
    return traffic_until([&] { return echoes_ >= wanted; });
  }
  [[nodiscard]] static std::size_t open_files() {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
    return n;
  }

  SocketDirectory directory_;
  std::unique_ptr<dpdk_transport::DpdkTransport> worker_;
  std::uint32_t seed_ = 0;
  std::uint64_t echoes_ = 0;
};

TEST_F(TransportReconnect, ADaemonThatStartsLater) {
  EXPECT_FALSE(turn_until(*worker_, [this] { return worker_->up() || !worker_->describe().empty(); }) &&
               worker_->up());
  EXPECT_TRUE(worker_->lend(1, 100).empty());
  EXPECT_TRUE(turn_until(*worker_, [this] {
    return worker_->describe().find("is tallyd running") != std::string::npos;
  })) << worker_->describe();
  const auto box = daemon();
  EXPECT_TRUE(echoes(100)) << worker_->describe();
  EXPECT_EQ(worker_->connections(), 1U);
}

TEST_F(TransportReconnect, ADaemonKilledAgainAndAgainUnderTraffic) {
  std::size_t files = 0;
  for (unsigned i = 1; i <= kKills; ++i) {
    const auto box = daemon();
    // Different points of the traffic: the first echo, or deep in it.
    ASSERT_TRUE(echoes(1 + 97 * (i - 1) * 20 / kKills)) << i << ": " << worker_->describe();
    EXPECT_EQ(worker_->connections(), i);
    if (i == kCounted) files = open_files();
    box->signal(SIGKILL);
    ASSERT_TRUE(traffic_until([this] { return !worker_->up(); })) << i;
    EXPECT_THAT(worker_->describe(), HasSubstr("link down"));
    EXPECT_TRUE(worker_->lend(1, 100).empty());
  }
  const auto box = daemon();
  ASSERT_TRUE(echoes(100));
  EXPECT_LE(open_files(), files) << "every connection gives its files back";
  static_cast<void>(take_all(*worker_));  // a full ring lends nothing before the next turn
  ASSERT_EQ(worker_->lend(dpdk_transport::DpdkTransport::kBurst, 100).size(),
            dpdk_transport::DpdkTransport::kBurst);
  EXPECT_EQ(rte_mempool_in_use_count(worker_->pool()), dpdk_transport::DpdkTransport::kBurst)
      << "no mbuf was lost";
  worker_->send(0);
}

TEST_F(TransportReconnect, ADaemonThatEndsInOrderAndComesBack) {
  for (unsigned i = 1; i <= 3; ++i) {
    const auto box = daemon();
    ASSERT_TRUE(echoes(50)) << worker_->describe();
    box->signal(SIGTERM);
    ASSERT_TRUE(traffic_until([this] { return !worker_->up(); }));
    EXPECT_EQ(worker_->connections(), i);
  }
}

// The kernel takes the connection, nobody answers: a blocking connect() or read would hang here.
TEST_F(TransportReconnect, AStoppedDaemonBlocksNobody) {
  const auto box = daemon();
  ASSERT_TRUE(echoes(10));
  worker_.reset();
  box->signal(SIGSTOP);
  SetUp();
  std::vector<std::unique_ptr<dpdk_transport::DpdkTransport>> others;  // more than its backlog takes
  for (unsigned id = 1; id <= 4; ++id) {
    auto opened = WorkerSetup{.device = directory_.client(id)}.open();
    ASSERT_TRUE(opened) << opened.error().text();
    others.push_back(std::move(*opened));
  }
  for (int turn = 0; turn < 400; ++turn) {
    const TimeNs now = steady_now();
    worker_->wait(now, now + kMillisecond);
    for (auto& other : others) other->wait(now, now + kMillisecond);
    EXPECT_FALSE(worker_->up());
  }
  // Not closed before the daemon has seen them: see memif_link.cc, kIntroduction.
  box->signal(SIGCONT);
  EXPECT_TRUE(echoes(10)) << worker_->describe();
}

TEST_F(TransportReconnect, AWrongIdIsNamed) {
  const auto box = daemon();
  ASSERT_TRUE(echoes(1));
  auto other = WorkerSetup{.device = directory_.client(9)}.open();
  ASSERT_TRUE(other) << other.error().text();
  EXPECT_TRUE(turn_until(**other, [&] {
    return (*other)->describe().find("ID not found (no port in the daemon's configuration") !=
           std::string::npos;
  })) << (*other)->describe();
}

TEST_F(TransportReconnect, ASecondWorkerOfOneIdWaitsForItsTurn) {
  const auto box = daemon();
  ASSERT_TRUE(echoes(1));
  auto other = WorkerSetup{.device = directory_.client()}.open();
  ASSERT_TRUE(other) << other.error().text();
  EXPECT_TRUE(turn_until(**other, [&] {
    return (*other)->describe().find("another worker uses this id") != std::string::npos;
  })) << (*other)->describe();
  EXPECT_TRUE(echoes(100)) << "the first one is not disturbed";
  worker_.reset();
  EXPECT_TRUE(bring_up(**other)) << (*other)->describe();
}

// A data loader forked by the program inherits the connection and lives longer than the worker.
TEST_F(TransportReconnect, AForkedChildDoesNotKeepThePortBusy) {
  const auto box = daemon();
  ASSERT_TRUE(echoes(1));
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  worker_.reset();
  SetUp();
  EXPECT_TRUE(echoes(10)) << worker_->describe();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(TransportReconnect, MoreQueuesThanThePortHasAreNamed) {
  const auto box = daemon();
  ASSERT_TRUE(echoes(1));
  worker_.reset();
  auto other = WorkerSetup{.device = directory_.client(0, ",queues=2")}.open();
  ASSERT_TRUE(other) << other.error().text();
  EXPECT_TRUE(turn_until(**other, [&] {
    return (*other)->describe().find("you have 2 and 2") != std::string::npos;
  })) << (*other)->describe();
}

// Closing while the daemon is gone, while it answers, and before it was ever there.
TEST_F(TransportReconnect, ClosesInEveryState) {
  for (unsigned i = 0; i < kClosings; ++i) {
    const auto box = daemon();
    unsigned turns = 0;
    static_cast<void>(turn_until(*worker_, [&] { return turns++ >= i * 200 / kClosings; }));
    worker_.reset();
    SetUp();
  }
  const auto box = daemon();
  EXPECT_TRUE(echoes(10)) << worker_->describe();
}

// The counterpart that never reads: frames are lost at a full ring, and the link stays.
TEST_F(TransportReconnect, ADaemonThatDoesNotReadFillsTheRing) {
  const auto box = daemon(true);
  ASSERT_TRUE(traffic_until([this] { return worker_->counters().mbufs.refused.get() > 100; }));
  EXPECT_TRUE(worker_->up());
  EXPECT_EQ(worker_->connections(), 1U);
  box->signal(SIGKILL);
  ASSERT_TRUE(traffic_until([this] { return !worker_->up(); }));
}

}  // namespace
}  // namespace tally::e2e

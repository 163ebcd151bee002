// Starting, hearing and ending processes; the private directory; the ready socket; tools/hugepages.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "demo_directory.h"
#include "ready_socket.h"
#include "supervisor.h"

namespace tally {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

struct Heard {
  std::vector<std::string> out, err;
  std::string extra;
  int ends = 0;
};

// One supervisor for all tests: the signals of the process are taken once.
Supervisor& supervisor() {
  static const std::unique_ptr<Supervisor> kOne = std::move(Supervisor::create().value());
  return *kOne;
}

Supervisor::Child* shell(const std::string& script, Heard& heard, int extra_fd = -1) {
  auto child = supervisor().start({.name = "test", .command = {"sh", "-c", script}, .extra_fd = extra_fd});
  EXPECT_TRUE(child.has_value());
  (*child)->on_line = [&heard](Supervisor::Stream stream, std::string_view line) {
    (stream == Supervisor::Stream::kOut ? heard.out : heard.err).emplace_back(line);
  };
  (*child)->on_extra = [&heard](std::span<const std::byte> bytes) {
    for (const auto byte : bytes) heard.extra += static_cast<char>(byte);
  };
  (*child)->on_end = [&heard] { ++heard.ends; };
  return *child;
}

// What never comes true fails the test by its time limit.
template <class Condition>
void wait_until(const Condition& condition) {
  while (!condition()) supervisor().turn(milliseconds(100));
}

void wait_for_end(const Supervisor::Child* child) {
  wait_until([&] { return child->told; });
}

bool alive(pid_t pid) { return kill(pid, 0) == 0; }

TEST(ChildProcessTest, LinesRecordsAndExitCodeArrive) {
  Heard heard;
  auto* const child = shell("echo one; printf 'two' ; echo bad >&2; printf rec >&3; exit 5", heard, 3);
  wait_for_end(child);
  EXPECT_THAT(heard.out, ElementsAre("one", "two"));
  EXPECT_THAT(heard.err, ElementsAre("bad"));
  EXPECT_EQ(heard.extra, "rec");
  EXPECT_EQ(heard.ends, 1);
  EXPECT_EQ(child->process.code(), 5);
  EXPECT_THAT(child->process.how_it_ended(), HasSubstr("exit code 5"));
}

TEST(ChildProcessTest, ALotOfOutputDoesNotBlock) {
  Heard heard;
  auto* const child = shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done", heard);
  wait_for_end(child);
  EXPECT_EQ(heard.out.size(), 20'000U);
}

TEST(ChildProcessTest, AMissingProgramSaysSo) {
  Heard heard;
  auto child = supervisor().start({.name = "none", .command = {"/no/such/program"}});
  ASSERT_TRUE(child.has_value());
  (*child)->on_line = [&](Supervisor::Stream, std::string_view line) { heard.err.emplace_back(line); };
  wait_for_end(*child);
  EXPECT_EQ((*child)->process.code(), 127);
  ASSERT_EQ(heard.err.size(), 1U);
  EXPECT_THAT(heard.err[0], HasSubstr("/no/such/program"));
}

TEST(ChildProcessTest, ItsNetworkNamespaceIsEntered) {
  if (geteuid() != 0) GTEST_SKIP() << "only root enters the network namespace of another process";
  Heard there;
  auto* const host = shell("exec unshare --net sh -c 'readlink /proc/self/ns/net; exec sleep 1000'", there);
  wait_until([&] { return !there.out.empty() || host->told; });
  ASSERT_EQ(there.out.size(), 1U) << "no namespace can be made";
  Heard heard;
  const std::string file = "/proc/" + std::to_string(host->process.pid()) + "/ns/net";
  auto child = supervisor().start(
      {.name = "guest", .command = {"readlink", "/proc/self/ns/net"}, .network_namespace = file});
  ASSERT_TRUE(child.has_value());
  (*child)->on_line = [&](Supervisor::Stream, std::string_view line) { heard.out.emplace_back(line); };
  wait_for_end(*child);
  EXPECT_EQ(heard.out, there.out);
  supervisor().end(std::vector{host}, milliseconds(5000));
}

TEST(ChildProcessTest, ANamespaceThatIsNotThereSaysSo) {
  Heard heard;
  auto child =
      supervisor().start({.name = "none", .command = {"true"}, .network_namespace = "/no/such/namespace"});
  ASSERT_TRUE(child.has_value());
  (*child)->on_line = [&](Supervisor::Stream, std::string_view line) { heard.err.emplace_back(line); };
  wait_for_end(*child);
  EXPECT_EQ((*child)->process.code(), 127);
  ASSERT_EQ(heard.err.size(), 1U);
  EXPECT_THAT(heard.err[0], HasSubstr("/no/such/namespace"));
}

TEST(ChildProcessTest, TermEndsItAndKillWhatIgnoresTerm) {
  Heard heard;
  auto* const polite = shell("sleep 100 & wait", heard);
  supervisor().end(std::vector{polite}, milliseconds(5000));
  EXPECT_THAT(polite->process.how_it_ended(), HasSubstr("signal 15"));
  auto* const stubborn = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done", heard);
  wait_until([&] { return !heard.out.empty(); });
  supervisor().end(std::vector{stubborn}, milliseconds(200));
  EXPECT_THAT(stubborn->process.how_it_ended(), HasSubstr("signal 9"));
}

TEST(ChildProcessTest, ChildrenOfAKilledParentEnd) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto child = ChildProcess::start({.name = "orphan", .command = {"sleep", "1000"}});
    const pid_t pid = child ? child->pid() : 0;
    if (write(ends[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    while (true) pause();
  }
  pid_t child = 0;
  ASSERT_EQ(read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  ASSERT_GT(child, 0);
  kill(parent, SIGKILL);
  for (int i = 0; i < 500 && alive(child); ++i) {
    // Whoever adopted it may not have collected it yet: a zombie has ended.
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string text;
    std::getline(stat, text);
    if (text.find(") Z ") != std::string::npos) break;
    usleep(10'000);
    ASSERT_LT(i, 499) << "the child outlived its parent";
  }
  close(ends[0]);
  close(ends[1]);
}

TEST(DemoDirectoryTest, IsPrivateAndRemoved) {
  std::string path;
  {
    auto directory = DemoDirectory::create(testing::TempDir());
    ASSERT_TRUE(directory.has_value()) << directory.error().text();
    path = directory->path();
    ASSERT_TRUE(directory->write("file", "text").has_value());
    const auto rights = std::filesystem::status(path).permissions();
    EXPECT_EQ(rights & (std::filesystem::perms::group_all | std::filesystem::perms::others_all),
              std::filesystem::perms::none);
    EXPECT_EQ(DemoDirectory::sweep(testing::TempDir()), 0) << "its owner lives";
    EXPECT_TRUE(std::filesystem::exists(path + "/file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(DemoDirectoryTest, TheNextOneSweepsWhatAKilledOneLeft) {
  auto parent = DemoDirectory::create(testing::TempDir());  // to have the sweep for ourselves
  ASSERT_TRUE(parent.has_value());
  const std::string left = parent->path() + "/tally-demo.left";
  std::filesystem::create_directory(left);
  std::ofstream(left + "/lock") << "";
  std::ofstream(left + "/memif.sock") << "";
  std::filesystem::create_directory(parent->path() + "/tally-demo.other");  // no lock: not ours
  EXPECT_EQ(DemoDirectory::sweep(parent->path()), 1);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(parent->path() + "/tally-demo.other"));
}

TEST(ReadySocketTest, HearsReadyAmongOtherWords) {
  auto directory = DemoDirectory::create(testing::TempDir());
  ASSERT_TRUE(directory.has_value());
  auto ready = ReadySocket::create(directory->path() + "/r");
  ASSERT_TRUE(ready.has_value()) << ready.error().text();
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ready->path().copy(address.sun_path, sizeof address.sun_path - 1);
  const Descriptor sender(socket(AF_UNIX, SOCK_DGRAM, 0));
  ASSERT_EQ(connect(sender.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const auto say = [&](std::string_view text) { return send(sender.get(), text.data(), text.size(), 0) > 0; };
  ASSERT_TRUE(say("STATUS=starting"));
  ASSERT_TRUE(say("UNREADY=1"));
  EXPECT_FALSE(ready->ready());
  ASSERT_TRUE(say("STATUS=serving\nREADY=1"));
  EXPECT_TRUE(ready->ready());
  EXPECT_TRUE(ready->ready()) << "once is enough";
  EXPECT_FALSE(ReadySocket::create("/tmp/" + std::string(120, 'x')).has_value());
}

// tools/hugepages against files that stand for the kernel's.
class Hugepages : public testing::Test {
 protected:
  void SetUp() override {
    directory_.emplace(DemoDirectory::create(testing::TempDir()).value());
    write("nr_hugepages", "100\n");
    write("free_hugepages", "30\n");
    write("mounts", "nodev /dev/hugepages hugetlbfs rw 0 0\n");
  }
  void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(directory_->write(name, text).has_value());
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream in(directory_->path() + "/" + name);
    std::string line;
    std::getline(in, line);
    return line;
  }
  [[nodiscard]] std::string variables() const {
    return "export TALLY_HUGEPAGES_POOL='" + directory_->path() + "' TALLY_MOUNTS='" + directory_->path() +
           "/mounts'; ";
  }
  // Exit code; what the command saw is in the file `seen`.
  int run(int pages, const std::string& rest) {
    Heard heard;
    auto* const child = shell(
        variables() + "exec " TALLY_HUGEPAGES " run " + std::to_string(pages) + " -- sh -c '" + rest + "'",
        heard);
    wait_for_end(child);
    said_ = heard.err;
    return child->process.code();
  }
  [[nodiscard]] std::string see() const { return "cat " + directory_->path() + "/nr_hugepages >" + seen(); }
  [[nodiscard]] std::string seen() const { return directory_->path() + "/seen"; }

  std::optional<DemoDirectory> directory_;
  std::vector<std::string> said_;
};

TEST_F(Hugepages, ReservesWhatIsMissingSaysTheOldValueAndGivesItBack) {
  EXPECT_EQ(run(50, see() + "; exit 4"), 4);
  EXPECT_EQ(read("seen"), "120") << "30 of 50 were free";
  EXPECT_EQ(read("nr_hugepages"), "100");
  ASSERT_FALSE(said_.empty());
  EXPECT_THAT(said_[0], HasSubstr("there were 100"));
}

TEST_F(Hugepages, LeavesEnoughAlone) {
  EXPECT_EQ(run(30, see()), 0);
  EXPECT_EQ(read("seen"), "100");
  EXPECT_EQ(read("nr_hugepages"), "100");
}

TEST_F(Hugepages, TakesBackOnlyItsOwn) {
  EXPECT_EQ(run(50, "echo 500 >" + directory_->path() + "/nr_hugepages"), 0);
  EXPECT_EQ(read("nr_hugepages"), "480") << "somebody else set 500 meanwhile";
}

TEST_F(Hugepages, RestoresAfterATermThatEndsTheCommand) {
  Heard heard;
  auto* const child =
      shell(variables() + "exec " TALLY_HUGEPAGES " run 50 -- sh -c 'echo started; exec sleep 1000'", heard);
  wait_until([&] { return !heard.out.empty(); });
  ASSERT_EQ(read("nr_hugepages"), "120");
  child->process.signal(SIGTERM);
  wait_for_end(child);
  EXPECT_EQ(child->process.code(), 128 + SIGTERM);
  EXPECT_EQ(read("nr_hugepages"), "100");
}

TEST_F(Hugepages, WithoutAPoolItOnlyRunsTheCommand) {
  std::filesystem::remove(directory_->path() + "/nr_hugepages");
  EXPECT_EQ(run(50, "exit 6"), 6);
  ASSERT_FALSE(said_.empty());
  EXPECT_THAT(said_[0], HasSubstr("none are reserved"));
}

}  // namespace
}  // namespace tally

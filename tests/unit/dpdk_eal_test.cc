#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "dpdk/eal.h"

namespace tally {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

TEST(EalArguments, OrdinaryMemory) {
  const dpdk::EalOptions options{.instance = "rack1", .cores = {1, 3}, .memory_bytes = 512 << 20};
  EXPECT_THAT(dpdk::eal_arguments(options, false, "0,1,2,3"),
              ElementsAre("tallyd", "--file-prefix", "tally-rack1", "--no-huge", "--no-shconf", "-m", "512",
                          "--iova-mode=va", "--no-telemetry", "--no-pci", "--lcores", "0@(0,1,2,3),1@1,2@3"));
}

TEST(EalArguments, HugepagesLeaveNoFiles) {
  const auto words = dpdk::eal_arguments({}, true, "0");
  EXPECT_THAT(words, Contains("--in-memory"));
  EXPECT_THAT(words, Not(Contains("--no-huge")));
  EXPECT_THAT(words, Not(Contains("--no-shconf"))) << "--in-memory implies it";
}

TEST(EalArguments, OnlyTheNamedDevicesAreTaken) {
  const auto words = dpdk::eal_arguments({.pci = {"0000:3b:00.0", "0000:3b:00.1"}}, true, "0");
  EXPECT_THAT(words, Not(Contains("--no-pci")));
  std::string joined;
  for (const auto& word : words) joined += word + ' ';
  EXPECT_THAT(joined, testing::HasSubstr("-a 0000:3b:00.0 -a 0000:3b:00.1 "));
}

TEST(EalArguments, UnpinnedCoresFloat) {
  const auto words = dpdk::eal_arguments({.cores = {0, 1}, .pinned = false}, false, "0,1");
  EXPECT_EQ(words.back(), "0@(0,1),1@(0,1),2@(0,1)");
}

TEST(EalArguments, ExtraWordsComeLastAndMayAskForTelemetry) {
  const auto words = dpdk::eal_arguments({.extra = {"--telemetry", "--log-level=8"}}, false, "0");
  EXPECT_THAT(words, Not(Contains("--no-telemetry")));
  EXPECT_EQ(words[words.size() - 2], "--telemetry");
  EXPECT_EQ(words.back(), "--log-level=8");
}

TEST(EalArguments, MemoryIsRoundedUpToMebibytes) {
  const auto words = dpdk::eal_arguments({.memory_bytes = (64 << 20) + 1}, false, "0");
  EXPECT_THAT(words, Contains("65"));
}

// A copy of the kernel's files with 2 MiB and 1 GiB pages.
class HugepageFiles : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("tally-hugepages-" + std::to_string(getpid()));
    write("proc/meminfo", "MemTotal: 1 kB\nHugepagesize:       2048 kB\n");
    write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "100\n");
    write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "60\n");
    write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "2\n");
    write("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::filesystem::path root_;
};

TEST_F(HugepageFiles, FreePagesOfEverySizeCount) {
  const dpdk::Hugepages found = dpdk::hugepages_of(root_);
  EXPECT_EQ(found.free_bytes, (60ULL << 21) + (1ULL << 30));
  EXPECT_EQ(found.usual.bytes, 2ULL << 20);
  EXPECT_EQ(found.usual.reserved, 100U);
}

TEST_F(HugepageFiles, TheCommandAddsWhatIsMissingToWhatIsReserved) {
  write("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n");
  // 512 MiB wanted, 120 MiB free: 196 pages more than the 100 there are.
  EXPECT_EQ(dpdk::reserve_command(dpdk::hugepages_of(root_), 512 << 20),
            "sudo sysctl -w vm.nr_hugepages=296");
  EXPECT_EQ(dpdk::reserve_command(dpdk::hugepages_of(root_), (120 << 20) + 1),
            "sudo sysctl -w vm.nr_hugepages=101");
}

TEST_F(HugepageFiles, AKernelWithoutHugepagesHasNoneFree) {
  const dpdk::Hugepages found = dpdk::hugepages_of(root_ / "nowhere");
  EXPECT_EQ(found.free_bytes, 0U);
  EXPECT_THAT(dpdk::reserve_command(found, 1), testing::HasSubstr("dataplane.hugepages to off"));
}

TEST(EalDirectory, IsPrivateAndGoesAndTakesWhatTheDeadLeftWithIt) {
  const auto parent = std::filesystem::temp_directory_path() / ("tally-runtime-" + std::to_string(getpid()));
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const auto left = parent / ("tally-eal-" + std::to_string(dead) + "-abcdef");
  const auto living = parent / ("tally-eal-" + std::to_string(getppid()) + "-abcdef");
  const auto other = parent / "tally-eal-notes";
  for (const auto& path : {left, living, other}) std::filesystem::create_directories(path / "dpdk");
  {
    const dpdk::RuntimeDirectory directory(parent);
    const char* const made = getenv("RUNTIME_DIRECTORY");
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(std::filesystem::path(made).parent_path(), parent);
    EXPECT_EQ(std::filesystem::status(made).permissions(), std::filesystem::perms::owner_all);
    std::filesystem::create_directories(std::filesystem::path(made) / "dpdk/tally-x");
  }
  EXPECT_EQ(getenv("RUNTIME_DIRECTORY"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(left));
  std::set<std::filesystem::path> rest;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) rest.insert(entry.path());
  EXPECT_EQ(rest, (std::set<std::filesystem::path>{living, other}));
  std::filesystem::remove_all(parent);
}

TEST(EalDirectory, OneThatIsSetIsUsed) {
  setenv("RUNTIME_DIRECTORY", "/run/tally", 1);
  {
    const dpdk::RuntimeDirectory directory(std::filesystem::temp_directory_path());
    EXPECT_STREQ(getenv("RUNTIME_DIRECTORY"), "/run/tally");
  }
  EXPECT_STREQ(getenv("RUNTIME_DIRECTORY"), "/run/tally");
  unsetenv("RUNTIME_DIRECTORY");
}

}  // namespace
}  // namespace tally

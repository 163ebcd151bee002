// performance.md, goal 9: a data core asks nothing of the kernel, of allocators or of locks for a packet, on
// ports in memory. The production loop runs as the daemon runs it, with `idle: poll`.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "core_calls_rig.h"
#include "loop_cable.h"
#include "loop_eal.h"
#include "start.h"
#include "tally/check.h"

#include <rte_malloc.h>

namespace tally::e2e {
namespace {

constexpr std::uint64_t kWarmUp = 20'000;
constexpr std::uint64_t kPackets = 1'000'000;
// So many that core and members seldom wait for each other: where they share a CPU that costs a time slice.
constexpr std::uint16_t kDescriptors = 4096;

// The compiler must not see that it is for nothing.
void use_memory() {
  void* volatile memory = std::malloc(100);
  std::free(memory);
}

// What a watched thread of its own is seen doing in `work`.
WatchedCounts watched(const std::function<void()>& work, std::string& why) {
  WatchedCounts counts;
  std::thread([&] {
    why = watch_this_thread();
    if (!why.empty()) return;
    use_memory();  // a thread's first makes it an arena
    begin_counting();
    work();
    counts = end_counting();
  }).join();
  return counts;
}

class CoreCalls : public testing::Test {
 protected:
  void SetUp() override {
    if (!start_eal().empty()) GTEST_SKIP() << start_eal();
  }
  // The clock of this machine may be none that the vDSO reads: then the core's, which is tied to the kernel's
  // every 10 ms, costs a call that often.
  static bool clock_is_read_without_a_call() {
    std::string why;
    const auto counts = watched([] { static_cast<void>(std::chrono::steady_clock::now()); }, why);
    return counts.system_calls == 0;
  }
  static void expect_quiet(CoreCallsRig& rig, CoreCallsRig::Ends ends, std::uint64_t packets = kPackets) {
    const bool quiet_clock = clock_is_read_without_a_call();
    const std::string why = rig.start(std::move(ends));
    if (!why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(rig.play(kWarmUp)) << "no answers";
    begin_counting();
    const bool played = rig.play(packets);
    const std::uint64_t clock_calls = quiet_clock ? 0 : counted_calls(SYS_clock_gettime);
    const WatchedCounts counts = end_counting();
    ASSERT_TRUE(played) << "no answers";
    EXPECT_EQ(counts.system_calls - clock_calls, 0U) << counts.names;
    EXPECT_EQ(counts.allocations, 0U) << counts.names;
    EXPECT_EQ(counts.locks, 0U) << counts.names;
    if (clock_calls != 0)
      std::printf("the kernel's clock is no vDSO clock here: %lu calls of clock_gettime for %lu packets\n",
                  clock_calls, packets);
    rig.finish();
  }
};

TEST_F(CoreCalls, WhatAThreadDoesIsSeenAndNamed) {
  std::mutex mutex;
  std::shared_mutex shared;
  std::string why;
  const auto counts = watched(
      [&] {
        for (int i = 0; i < 3; ++i) syscall(SYS_getppid);
        EXPECT_EQ(getpid(), static_cast<pid_t>(syscall(SYS_getpid)));  // made, not only counted
        use_memory();
        int* volatile number = new int(1);
        delete number;
        rte_free(rte_malloc_socket(nullptr, 64, 0, SOCKET_ID_ANY));
        const std::lock_guard one(mutex);
        const std::shared_lock two(shared);
      },
      why);
  if (!why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(counts.names,
            "getpid 2, system call 110 3, malloc 2, free 2, rte_malloc 1, rte_free 1, "
            "pthread_mutex 1, pthread_rwlock 1");
  EXPECT_EQ(counts.system_calls, 5U);
  EXPECT_EQ(counts.allocations, 6U);
  EXPECT_EQ(counts.locks, 2U);
}

TEST_F(CoreCalls, OtherThreadsAreNotCounted) {
  begin_counting();
  use_memory();
  syscall(SYS_getpid);
  EXPECT_EQ(end_counting().names, "");
}

class RingCoreCalls : public CoreCalls {
 protected:
  static CoreCallsRig::Ends ends_of(const Cable& cable, CoreCallsRig& rig) {
    auto box = dpdk::Port::adopt(cable.box_port(), {.name = "box"}, rig.box_pool());
    TALLY_CHECK(box.has_value(), "the box takes its end of the cable");
    return {.box = std::move(*box), .members = ethdev_end(cable.worker_port(), rig.members_pool())};
  }
};

TEST_F(RingCoreCalls, AMillionPacketsTakeNoCallNoAllocationNoLock) {
  CoreCallsRig rig;
  const Cable cable({.name = "calls", .size = kDescriptors}, rig.members_pool());
  expect_quiet(rig, ends_of(cable, rig));
}

TEST_F(RingCoreCalls, NorDoMulticastResults) {
  CoreCallsRig rig(1, ResultsMode::kMulticast);
  const Cable cable({.name = "calls", .size = kDescriptors}, rig.members_pool());
  expect_quiet(rig, ends_of(cable, rig), kPackets / 20);
}

// Fewer packets: three threads that never sleep take turns where there are two CPUs.
TEST_F(RingCoreCalls, NorDoesTheWayToAnotherCoreAndBack) {
  constexpr std::uint64_t kHandedOver = kPackets / 40;
  CoreCallsRig rig(2);
  const Cable cable({.name = "calls", .size = kDescriptors}, rig.members_pool());
  expect_quiet(rig, ends_of(cable, rig), 2 * kHandedOver);
  if (IsSkipped()) return;
  EXPECT_GE(rig.plane().core(0).statistics.handed_over.get(), kHandedOver);
}

TEST_F(CoreCalls, AMillionPacketsOverMemifTakeNoCallNoAllocationNoLock) {
  const bench::Scratch scratch;
  // The driver keeps one socket per name and process: the ends use two names of one file.
  const auto end = [&](const std::string& role, const std::string& path) {
    return dpdk::PortOptions{.name = role,
                             .device = "net_memif" + std::string(role == "server" ? "0" : "1") +
                                       ",role=" + role + ",id=0,socket=" + scratch.path() + "/" + path +
                                       ",socket-abstract=no,bsize=2048",
                             .descriptors = kDescriptors};
  };
  CoreCallsRig rig;
  auto box = dpdk::Port::open(end("server", "memif.sock"), rig.box_pool());
  ASSERT_TRUE(box) << box.error().text();
  auto members = dpdk::Port::open(end("client", "./memif.sock"), rig.members_pool());
  ASSERT_TRUE(members) << members.error().text();
  for (int i = 0; i < 5000 && !(members->link_up() && box->link_up()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(members->link_up() && box->link_up());
  expect_quiet(rig, {.box = std::move(*box), .members = port_end(std::move(*members), rig.members_pool())});
}

}  // namespace
}  // namespace tally::e2e

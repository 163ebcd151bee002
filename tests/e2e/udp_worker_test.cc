// Workers over sockets of the kernel, as a program has them: libtally, and a box at the ports of tallyd. In a
// network namespace of their own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <functional>
#include <optional>
#include <thread>

#include "own_network.h"
#include "socket_box.h"
#include "tally/worker.h"

namespace tally::e2e {
namespace {

using testing::HasSubstr;

class UdpWorkers : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_own_network().empty()) GTEST_SKIP() << why_no_own_network();
  }
  void start(const SocketBoxOptions& options) {
    box_ = std::make_unique<SocketBox>(options);
    world_ = options.workers;
  }
  void each_rank(const std::function<void(std::uint16_t)>& body) const {
    std::vector<std::thread> threads;
    for (std::uint16_t rank = 0; rank < world_; ++rank) threads.emplace_back([&body, rank] { body(rank); });
    for (auto& thread : threads) thread.join();
  }
  void join(const std::function<void(WorkerOptions&)>& change = [](WorkerOptions& /*unused*/) {}) {
    workers_.resize(world_);
    each_rank([&](std::uint16_t rank) {
      WorkerOptions options = box_->worker(rank);
      change(options);
      auto joined = Worker::join(options);
      if (joined) workers_[rank].emplace(std::move(*joined));
      EXPECT_TRUE(joined) << joined.error().text();
    });
    for (const auto& worker : workers_) ASSERT_TRUE(worker);
  }
  // Integers and floats whose sums everybody knows, `count` of each.
  void reduce(std::size_t count) {
    each_rank([&](std::uint16_t rank) {
      std::vector<std::int32_t> integers(count);
      std::vector<float> floats(count);
      for (std::size_t i = 0; i < count; ++i) {
        integers[i] = static_cast<std::int32_t>(i * (rank + 1U));
        floats[i] = static_cast<float>(i % 1024) * static_cast<float>(rank + 1);
      }
      const Operation first = workers_[rank]->allreduce_async(std::span(integers));
      const Operation second = workers_[rank]->allreduce_async(std::span(floats));
      for (const Operation& each : {first, second}) {
        const auto done = each.wait();
        ASSERT_TRUE(done) << done.error().text();
      }
      const std::uint32_t ranks = world_ * (world_ + 1U) / 2;
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count; ++i) {
        wrong += integers[i] == static_cast<std::int32_t>(i * ranks) ? 0U : 1U;
        const float sum = static_cast<float>(i % 1024) * static_cast<float>(ranks);
        wrong += std::abs(floats[i] - sum) <= 1.0e-3F ? 0U : 1U;
      }
      EXPECT_EQ(wrong, 0U) << "rank " << rank;
    });
  }
  void leave() {
    each_rank([&](std::uint16_t rank) {
      const auto left = workers_[rank]->leave();
      EXPECT_TRUE(left) << left.error().text();
    });
  }

  std::unique_ptr<SocketBox> box_;
  std::uint16_t world_ = 0;
  std::vector<std::optional<Worker>> workers_;
};

TEST_F(UdpWorkers, NeedBoxAndJobOnly) {
  start({});
  join();
  EXPECT_EQ(workers_[0]->membership()->elements, 352);
  reduce(20'000);
  leave();
}

TEST_F(UdpWorkers, OverIpv6) {
  start({.address = "::1"});
  join();
  EXPECT_EQ(workers_[0]->membership()->elements, 336);
  reduce(20'000);
  leave();
}

TEST_F(UdpWorkers, EightInOneProcessOnTwoShards) {
  start({.workers = 8, .cores = 2});
  join();
  EXPECT_EQ(workers_[0]->membership()->shards, 2U);
  reduce(10'000);
  leave();
}

TEST_F(UdpWorkers, TakeResultsByMulticastEachOfThem) {
  start({.workers = 4, .multicast = true});
  join();
  EXPECT_TRUE(workers_[0]->membership()->multicast);
  reduce(10'000);
  // They came by multicast: else each of them would have been asked for, and come alone. On a busy machine some
  // are asked for although they are on their way.
  for (auto& worker : workers_) EXPECT_LT(worker->statistics().queries, worker->statistics().results / 4);
  leave();
}

TEST_F(UdpWorkers, WithBurstsCutByTheKernel) {
  start({.workers = 2, .cores = 2});
  join([](WorkerOptions& options) { options.transport = "udp:gso=on"; });
  reduce(50'000);
  leave();
}

TEST_F(UdpWorkers, WhoPollReduceToo) {
  start({});
  join([](WorkerOptions& options) { options.poll = true; });
  reduce(5'000);
  leave();
}

TEST_F(UdpWorkers, GoOnWhenTheBoxComesBack) {
  start({});
  join();
  reduce(1000);
  box_->go_away();
  std::thread reducing([&] { reduce(5000); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // some 'port unreachable'; more is no harm
  box_->come_back();
  reducing.join();
  leave();
}

TEST_F(UdpWorkers, GoOnWhenTheInterfaceComesBack) {
  start({});
  join();
  EXPECT_TRUE(set_loopback(false));
  std::thread reducing([&] { reduce(20'000); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(set_loopback(true));
  reducing.join();
  leave();
}

TEST_F(UdpWorkers, AreToldWhyNobodyAnswers) {
  WorkerOptions options;
  options.job = "resnet";
  options.box = "127.0.0.9";  // this machine, but no box
  options.join_timeout = std::chrono::milliseconds(500);
  const auto joined = Worker::join(options);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kUnreachable);
  EXPECT_THAT(joined.error().text(),
              HasSubstr("Connection refused (the machine at 127.0.0.9 is there, but no "
                        "box listens on it"));
}

TEST(UdpLibraries, NothingOfDpdkIsLoaded) {
  std::vector<std::string> libraries;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t /*size*/, void* to) {
        static_cast<std::vector<std::string>*>(to)->emplace_back(info->dlpi_name);
        return 0;
      },
      &libraries);
  EXPECT_THAT(libraries, testing::Contains(HasSubstr("libtally.so")));
  EXPECT_THAT(libraries, testing::Not(testing::Contains(HasSubstr("librte_"))));
}

}  // namespace
}  // namespace tally::e2e

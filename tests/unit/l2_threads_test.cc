// The table of hosts between threads. ThreadSanitizer looks on.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "l2/mac_table.h"
#include "rng.h"

namespace tally {
namespace {

constexpr std::uint32_t kHosts = 64;

Mac host(std::uint32_t n) { return {2, 2, 0, 0, 0, static_cast<std::uint8_t>(n)}; }

// Each thread is a core that hears all hosts, which stay where they are: whatever is lost between the
// threads, nobody is ever found behind a wrong port.
TEST(MacTableThreads, NobodyIsEverBehindAWrongPort) {
  l2::MacTable table;
  std::atomic<std::uint64_t> wrong = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      for (std::uint32_t i = 0; i < 20'000; ++i) {
        const l2::Seconds now = i / 20 + t;  // their clocks differ a little, and hosts age meanwhile
        const auto n = static_cast<std::uint32_t>(rng.below(kHosts));
        table.age(now);
        table.learn(host(n), PortIndex{static_cast<std::uint16_t>(n % 4)}, now);
        const auto m = static_cast<std::uint32_t>(rng.below(kHosts));
        const auto port = table.find(host(m), now);
        if (port && raw(*port) != m % 4) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_LE(table.size(1'000), kHosts) << "nobody is there twice, once heard again";
}

// All hosts move at once, and both cores hear them. Once each was heard again, by either core, it is found
// where it is, whatever became of the updates of both.
TEST(MacTableThreads, WhoMovedIsFoundOnceItIsHeardAgain) {
  l2::MacTable table;
  for (std::uint16_t round = 0; round < 50; ++round) {
    const PortIndex before{static_cast<std::uint16_t>(round % 8)};
    const PortIndex after{static_cast<std::uint16_t>((round + 1) % 8)};
    const auto hear_all = [&](PortIndex port) {
      table.age(round);
      for (std::uint32_t n = 0; n < kHosts; ++n) table.learn(host(n), port, round);
    };
    std::thread late([&] { hear_all(before); });
    std::thread early([&] { hear_all(after); });
    late.join();
    early.join();
    hear_all(after);
    for (std::uint32_t n = 0; n < kHosts; ++n) EXPECT_EQ(table.find(host(n), round), after);
    EXPECT_EQ(table.size(round), kHosts);
  }
}

}  // namespace
}  // namespace tally

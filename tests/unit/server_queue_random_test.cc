// The queue towards external servers against a model of it that is slow and plain: random arrivals, ports
// that take some or nothing, overflow. Every packet leaves once, one way or the other.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "rng.h"
#include "server/server_queue.h"

namespace tally {
namespace {

struct Waiting {
  std::uint32_t packet = 0;
  std::uint16_t job = 0;
  std::uint32_t bytes = 0;
};
struct Turn {
  std::uint16_t job = 0;
  std::uint32_t credit = 0;
};

// As QueueOrder says, with lists that are searched.
class Model {
 public:
  explicit Model(const server::ServerQueueOptions& options) : options_(options) {}

  std::optional<std::uint32_t> push(const Waiting& w, std::uint8_t priority) {
    Level& level = levels_[class_of(priority)];
    std::optional<std::uint32_t> victim;
    if (size() == options_.capacity) {
      const auto lowest = std::ranges::find_if(levels_, [](const Level& l) { return l.size() != 0; });
      if (&level < &*lowest) return w.packet;
      const auto most = longest(*lowest);
      if (&level == &*lowest && (!most || level.packets[*most] < level.packets[w.job] + 2)) return w.packet;
      victim = remove(*lowest, most);
    }
    if (level.packets[w.job]++ == 0) level.turns.push_back({w.job, options_.quantum});
    level.waiting.push_back(w);
    return victim;
  }

  std::vector<std::uint32_t> next(std::size_t n) {
    std::vector<std::uint32_t> all;
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
      for (std::size_t i = 0; all.size() < n && (i < level->named.size() || name(*level)); ++i)
        all.push_back(level->named[i]);
    }
    return all;
  }
  void sent(std::size_t n) {
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level)
      for (; n != 0 && !level->named.empty(); --n) level->named.pop_front();
  }
  [[nodiscard]] std::size_t size() const {
    std::size_t n = 0;
    for (const Level& l : levels_) n += l.size();
    return n;
  }

 private:
  struct Level {
    std::deque<std::uint32_t> named;
    std::vector<Waiting> waiting;  // in order of arrival
    std::deque<Turn> turns;
    std::array<std::size_t, kMaxJobs + 1> packets{};  // that wait, by job
    [[nodiscard]] std::size_t size() const { return named.size() + waiting.size(); }
  };

  static std::optional<std::uint16_t> longest(const Level& level) {
    std::optional<std::uint16_t> most;
    for (const Turn& t : level.turns)
      if (!most || level.packets[t.job] > level.packets[*most]) most = t.job;
    return most;
  }
  static void took_one_of(Level& level, std::uint16_t job) {
    if (--level.packets[job] == 0) std::erase_if(level.turns, [&](const Turn& t) { return t.job == job; });
  }
  static std::uint32_t remove(Level& level, std::optional<std::uint16_t> job) {
    if (!job) {
      const std::uint32_t packet = level.named.back();
      level.named.pop_back();
      return packet;
    }
    const auto newest = std::ranges::find_if(level.waiting.rbegin(), level.waiting.rend(),
                                             [&](const Waiting& w) { return w.job == *job; });
    const std::uint32_t packet = newest->packet;
    level.waiting.erase(std::next(newest).base());
    took_one_of(level, *job);
    return packet;
  }
  bool name(Level& level) const {
    while (!level.turns.empty()) {
      const Turn turn = level.turns.front();
      const auto oldest =
          std::ranges::find_if(level.waiting, [&](const Waiting& w) { return w.job == turn.job; });
      if (turn.credit >= oldest->bytes) {
        level.turns.front().credit -= oldest->bytes;
        level.named.push_back(oldest->packet);
        level.waiting.erase(oldest);
        took_one_of(level, turn.job);
        return true;
      }
      level.turns.pop_front();
      level.turns.push_back({turn.job, turn.credit + options_.quantum});
    }
    return false;
  }

  server::ServerQueueOptions options_;
  std::array<Level, 4> levels_;
};

struct Shape {
  server::ServerQueueOptions options;
  std::uint64_t jobs = 1;
  double load = 1;  // arrivals for each departure
};

class ServerQueueRandom : public testing::TestWithParam<Shape> {};

TEST_P(ServerQueueRandom, NothingIsLostOrDoubledAndTheOrderIsTheModels) {
  const Shape& shape = GetParam();
  constexpr std::uint32_t kOperations = 100'000;
  Rng rng(shape.jobs * 1'000 + shape.options.capacity);
  server::ServerQueue<std::uint32_t> queue(shape.options);
  Model model(shape.options);
  std::vector<std::uint8_t> left;  // how often, by packet
  std::uint64_t refused = 0;
  for (std::uint32_t i = 0; i < kOperations; ++i) {
    if (rng.unit() * (1 + shape.load) < shape.load) {
      const auto packet = static_cast<std::uint32_t>(left.size());
      const auto job = static_cast<std::uint16_t>(1 + rng.below(1 + rng.below(shape.jobs)));
      const auto priority = static_cast<std::uint8_t>(rng.below(2) == 0 ? 100 : rng.below(255));
      const auto bytes = static_cast<std::uint32_t>(rng.between(98, 9'018));
      left.push_back(0);
      const auto away = queue.push(packet, JobId{job}, priority, bytes);
      ASSERT_EQ(away, model.push({packet, job, bytes}, priority)) << "operation " << i;
      if (away) {
        ++left[*away];
        ++refused;
      }
    } else {
      std::array<std::uint32_t, 8> named{};
      const std::size_t most = rng.between(1, named.size());
      const std::size_t n = queue.next(std::span(named).first(most));
      ASSERT_EQ(std::vector(named.begin(), named.begin() + static_cast<std::ptrdiff_t>(n)), model.next(most))
          << "operation " << i;
      // A port that takes all, some, or nothing.
      const std::size_t taken = std::min<std::size_t>(n, rng.below(3) == 0 ? 0 : rng.between(1, 8));
      queue.sent(taken);
      model.sent(taken);
      for (std::size_t k = 0; k < taken; ++k) ++left[named[k]];
    }
    ASSERT_EQ(queue.size(), model.size());
    ASSERT_LE(queue.size(), shape.options.capacity);
  }
  EXPECT_GT(refused, 0U);
  std::array<std::uint32_t, 8> named{};
  while (const std::size_t n = queue.next(named)) {
    queue.sent(n);
    for (std::size_t k = 0; k < n; ++k) ++left[named[k]];
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(left, 1)), left.size());
}

INSTANTIATE_TEST_SUITE_P(Shapes, ServerQueueRandom,
                         testing::Values(Shape{{.capacity = 1}, 3, 2},
                                         Shape{{.capacity = 5, .quantum = 1'000}, 4, 3},
                                         Shape{{.capacity = 64, .quantum = 9'018}, 8, 4},
                                         Shape{{.capacity = 200, .quantum = 2'000}, 1, 5},
                                         Shape{{.capacity = 60, .quantum = 2'000}, 300, 6}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.jobs) + "JobsIn" +
                                  std::to_string(tested.param.options.capacity);
                         });

}  // namespace
}  // namespace tally

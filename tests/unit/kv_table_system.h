#pragma once
// A system whose servers have tables, in one process, and a box of the test; and what is pushed to it.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kv/table_server.h"
#include "kv/table_worker.h"
#include "kv_system.h"

namespace tally::kv {

// Adds what all workers give, in the order of their calls, and answers on a thread of its own, a while later and to each by
// itself. break_off(): it fails from now on.
class TestBox {
 public:
  explicit TestBox(int workers);
  TestBox(const TestBox&) = delete;
  TestBox& operator=(const TestBox&) = delete;
  ~TestBox();

  [[nodiscard]] std::shared_ptr<HotPath> path(int rank) { return paths_[static_cast<std::size_t>(rank)]; }
  void break_off() { break_off_after(0); }
  // `sums` more are answered, the last of them to worker 0 alone.
  void break_off_after(int sums, const std::string& why = "the box is lost");
  [[nodiscard]] int sums() const { return sums_; }

 private:
  using Done = std::function<void(std::optional<Failure>)>;
  struct Call {
    std::shared_ptr<HotSums> what;
    Done done;
  };
  class Path;

  [[nodiscard]] bool complete() const;
  [[nodiscard]] bool any() const;
  void run();
  static void add(std::vector<Call>& round);

  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::vector<std::deque<Call>> calls_;
  std::vector<std::shared_ptr<HotPath>> paths_{};
  int left_ = -1;  // no end
  std::string why_{};
  bool ended_ = false;
  std::atomic<int> sums_ = 0;
  std::thread thread_{};
};

struct Tables {
  Tables(int workers, int servers, std::size_t memory = 0, const NodeOptions& options = {});
  [[nodiscard]] std::unique_ptr<TableCalls> table(int rank, const TableOptions& options) {
    return make_table(system.worker(rank), options, box.path(rank));
  }
  void kill_server(int rank);
  // What is at the servers when nothing is hot.
  [[nodiscard]] std::vector<float> rows(int rank, const std::vector<Key>& keys, TableOptions options);

  System system;
  TestBox box;
  std::vector<std::unique_ptr<TableServer>> servers_;
};

void wait_until(const std::function<bool()>& condition);

// Random pushes of whole numbers to keys all over the range, some of which come far more often; which they are moves on
// slowly. Of three workers each makes a number of them of its own; worker 2 is slow, and stops until the others have made
// 200 without it.
class UnevenPushes {
 public:
  static constexpr int kWorkers = 3;
  // Those of a worker; how many they were, when all are through.
  int push(TableCalls& table, int rank);
  [[nodiscard]] static std::vector<Key> keys();
  [[nodiscard]] std::vector<float> rows();  // of keys(): what all have pushed

 private:
  void push_once(TableCalls& table, std::mt19937_64& random, int pushes);

  std::atomic<int> by_the_others_ = 0;
  std::atomic<int> through_ = 0;
  std::mutex mutex_{};
  std::map<Key, float> rows_{};
};

}  // namespace tally::kv

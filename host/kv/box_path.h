#pragma once
// Sums of all workers through a box: what of the requests takes this way, and how, and the hot rows of tables. The seam of
// the key-value interface to the data plane; the rest goes to the servers.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

#include "kv/hot_rows.h"
#include "tally/kv_core.h"
#include "tally/worker.h"

namespace tally::kv {

class BoxPath final : public HotPath {
 public:
  // Joins the job of WorkerOptions::from_environment() as this rank of so many. Throws.
  [[nodiscard]] static std::unique_ptr<BoxPath> join(int rank, int workers);

  // Whether a request takes this way. Pure: all workers must come to the same answer.
  [[nodiscard]] static bool takes(const DenseRequest& request) noexcept;

  using Done = std::function<void(std::optional<Failure>)>;
  // Sums run in the order of the calls, which is the same at all workers. That all mean the same keys and lens is found out
  // before the first sum of them; who differs fails, at all workers. done: on a thread that must not wait.
  void sum(DenseRequest request, Done done);
  // In the same order as those. Their words say whether all mean the same.
  void sum_hot(std::shared_ptr<HotSums> what, Done done) override;
  void give_up(const std::string& why) override;
  // For a table, as long as it has it. alone: its sums come when they come (table_progress.h), so those of others cannot be in
  // the same order at all workers, and there are none. nullptr: others have it; or the job is one of racks
  // (docs/hot_keys.md, Limits), or over.
  [[nodiscard]] static std::shared_ptr<HotPath> lend(const std::shared_ptr<BoxPath>& box, bool alone);
  [[nodiscard]] std::uint64_t sums() const;

  // After the last sum: waits for the other workers.
  void leave();

 private:
  explicit BoxPath(Worker worker, int workers) : workers_(workers), worker_(std::move(worker)) {}
  struct Waiting {
    DenseRequest request;
    std::uint64_t name = 0;  // of keys, lens and type
    Done done{};
    std::shared_ptr<HotSums> hot{};  // instead of the request
  };

  [[nodiscard]] bool can_sum_hot() const;
  void pump();  // under the mutex
  void issue(Waiting waiting);
  void issue_hot(Waiting waiting);
  void agreed(const Result<OperationStats>& result);

  mutable std::mutex mutex_{};
  std::deque<Waiting> waiting_{};
  int tables_ = 0;       // that have it
  bool alone_ = false;   // one of them has it to itself
  bool asking_ = false;  // whether all mean what is first
  std::unordered_set<std::uint64_t> known_{};
  std::uint64_t sums_ = 0;
  const int workers_;
  std::vector<std::int32_t> question_{};
  Worker worker_;  // the last member: its thread uses the others
};

[[nodiscard]] std::uint64_t name_of(const DenseRequest& request) noexcept;

}  // namespace tally::kv

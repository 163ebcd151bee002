#pragma once
// An asynchronous table with hot keys at a worker. A thread takes part in every round that the clock calls (table_clock.h),
// with what the program has pushed by then, or with nothing: so others wait for this worker's library and never for its
// program. What a push is to the servers and to the box is found out when its round is called, by the hot keys of that
// round. Pulls come between rounds.

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>

#include "kv/inbox.h"
#include "kv/table_worker.h"

namespace tally::kv {

class TableProgress final : public TableCalls {
 public:
  // Of a table that has an age and may have hot keys. box: there is one.
  TableProgress(Node& node, const TableOptions& options, std::shared_ptr<HotPath> box);
  ~TableProgress() override;

  void pull(std::span<const Key> keys, std::span<float> rows) override;
  void push(std::span<const Key> keys, std::span<const float> gradients) override;
  void close() override;
  [[nodiscard]] const TableOptions& options() const noexcept override { return table_.options(); }
  [[nodiscard]] TableStatistics statistics() const override;

 private:
  // A call of the program, and what came of it. No exception goes from thread to thread.
  using Waits = std::shared_ptr<std::promise<std::optional<Failure>>>;
  struct Push {
    std::span<const Key> keys{};
    std::span<const float> gradients{};
    Waits call{};  // nullptr: the program has pushed nothing
  };

  // Returns when the call is over. begin: on the thread.
  void wait_for(const std::function<void(const Waits&)>& begin);

  // On the thread.
  void ask();
  void hear(std::uint64_t round);
  void take_part();
  // What ends the table is thrown by the calls that wait, or by the next one. false: it has.
  bool or_fail(const std::function<void()>& work);
  void fail(const Failure& failure);

  TableWorker table_;
  Push push_{};
  Waits closing_{};
  std::uint64_t next_ = 0;               // the round behind the last one with a push
  std::atomic<std::uint64_t> late_ = 0;  // pushes that were in a later one
  bool heard_ = false;                   // a call has thrown what ended the table
  Inbox inbox_;
  std::unique_ptr<WorkerCore> clock_;  // the last member: its thread uses the others
};

}  // namespace tally::kv

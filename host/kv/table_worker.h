#pragma once
// A Table at work: rounds over servers and box at a time, what moves when the hot keys change, and how it ends. One thread.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/hot_rows.h"
#include "kv/table_message.h"
#include "tally/kv_table.h"

namespace tally::kv {

class TableWorker {
 public:
  // box: nullptr: there is none.
  TableWorker(Node& node, const TableOptions& options, std::shared_ptr<HotPath> box);
  TableWorker(const TableWorker&) = delete;
  TableWorker& operator=(const TableWorker&) = delete;
  ~TableWorker();

  // As Table's.
  void pull(std::span<const Key> keys, std::span<float> rows);
  void push(std::span<const Key> keys, std::span<const float> gradients);
  void close();
  [[nodiscard]] const TableOptions& options() const noexcept { return options_; }
  [[nodiscard]] TableStatistics statistics() const;

 private:
  class Flight;

  void check(std::span<const Key> keys, std::size_t values, const char* what) const;
  void check_summable(std::span<const float> gradients) const;
  // What call does is done for good, or the table is over: the others are told, and what it throws is thrown.
  void or_leave(const std::function<void()>& call);
  void leave(const std::string& why) noexcept;
  void change(const HotRows::Change& change);

  // Asynchronous: each server has its own rounds.
  void go_on_behind(const std::vector<Reply>& answers);

  [[nodiscard]] TableMessage message(TableAct act) const;
  [[nodiscard]] static Part part_of(int server, const TableMessage& message);
  // Each server's part of the keys; to_all: of a server without keys, too.
  [[nodiscard]] std::vector<Part> parts_of(const TableMessage& whole, bool to_all) const;
  int send(std::vector<Part> parts, const std::shared_ptr<Flight>& flight);
  // So many rows at a time, each answered before the next are sent. into: of pulls and fetches.
  void exchange(TableAct act, std::span<const Key> keys, std::span<const float> rows, float* into);

  const TableOptions options_;
  const std::size_t most_rows_;  // in a message
  const std::uint32_t rank_, workers_;
  const bool is_asynchronous_;
  const std::shared_ptr<HotPath> box_;   // nullptr: all keys are cold
  std::optional<HotRows> hot_{};         // from the first push on
  std::vector<std::uint64_t> rounds_{};  // asynchronous: that each server has ended, by this worker's pushes
  TableStatistics statistics_{};
  std::optional<Failure> over_{};
  bool closed_ = false;
  std::shared_ptr<Flight> flight_;
  std::shared_ptr<std::atomic<bool>> summed_{};  // the newest sum through the box is over
  std::unique_ptr<WorkerCore> core_;             // the last member: its thread uses the others
};

}  // namespace tally::kv

#pragma once
// A Table at work: rounds over servers and box at a time, what moves when the hot keys change, and how it ends. One thread;
// of an asynchronous table with hot keys it is the table's own (table_progress.h).

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/hot_rows.h"
#include "kv/table_message.h"
#include "tally/kv_table.h"

namespace tally::kv {

// What a Table calls.
class TableCalls {
 public:
  TableCalls() = default;
  TableCalls(const TableCalls&) = delete;
  TableCalls& operator=(const TableCalls&) = delete;
  virtual ~TableCalls() = default;

  virtual void pull(std::span<const Key> keys, std::span<float> rows) = 0;
  virtual void push(std::span<const Key> keys, std::span<const float> gradients) = 0;
  virtual void close() = 0;
  [[nodiscard]] virtual const TableOptions& options() const noexcept = 0;
  [[nodiscard]] virtual TableStatistics statistics() const = 0;
};

// Whether such a table uses a box, if there is one.
[[nodiscard]] bool may_have_hot_keys(const TableOptions& options, int workers) noexcept;
// box: nullptr: there is none.
[[nodiscard]] std::unique_ptr<TableCalls> make_table(Node& node, const TableOptions& options,
                                                     std::shared_ptr<HotPath> box);

class TableWorker final : public TableCalls {
 public:
  TableWorker(Node& node, const TableOptions& options, std::shared_ptr<HotPath> box);
  ~TableWorker() override;

  void pull(std::span<const Key> keys, std::span<float> rows) override;
  void push(std::span<const Key> keys, std::span<const float> gradients) override;
  void close() override;
  [[nodiscard]] const TableOptions& options() const noexcept override { return options_; }
  [[nodiscard]] TableStatistics statistics() const override;  // any thread

  // Of push: what it throws before anything has happened (any thread), and the rest.
  void check_push(std::span<const Key> keys, std::span<const float> gradients) const;
  void take_part(std::span<const Key> keys, std::span<const float> gradients);
  // What call does is done for good, or the table is over: the others are told, and what it throws is thrown.
  void or_leave(const std::function<void()>& call);
  [[nodiscard]] bool is_over() const noexcept { return over_.has_value() || closed_; }
  [[nodiscard]] const std::optional<Failure>& failure() const noexcept { return over_; }
  // What the table's clock is asked (table_clock.h), and what a server says to it, or to a push.
  [[nodiscard]] Part question(TableAct act) const { return part_of(0, message(act)); }
  [[nodiscard]] static std::uint64_t round_in(const Reply& answer);

 private:
  class Flight;

  void check(std::span<const Key> keys, std::size_t values, const char* what) const;
  void check_summable(std::span<const float> gradients) const;
  void check_room(std::span<const Key> keys) const;
  // for_all: the table has failed here, so it is over at all workers (of one whose rounds are of all it is in any case).
  void leave(const std::string& why, bool for_all) noexcept;
  void publish();
  void change(const HotRows::Change& change);

  // Asynchronous, and all keys cold: each server has its own rounds.
  void go_on_behind(const std::vector<Reply>& answers);

  [[nodiscard]] TableMessage message(TableAct act) const;
  [[nodiscard]] static Part part_of(int server, const TableMessage& message);
  // Each server's part of the keys; to_all: of a server without keys, too.
  [[nodiscard]] std::vector<Part> parts_of(const TableMessage& whole, bool to_all) const;
  int send(std::vector<Part> parts, const std::shared_ptr<Flight>& flight);
  // So many rows at a time, each answered before the next are sent. into: of pulls and fetches.
  void exchange(TableAct act, std::span<const Key> keys, std::span<const float> rows, float* into);

  const TableOptions options_;
  const std::size_t most_rows_;   // in a message that moves some
  const std::size_t most_bytes_;  // of a push to a server
  const std::uint32_t rank_, workers_;
  std::shared_ptr<HotPath> box_;  // nullptr: all keys are cold, or the table is over
  const TableTerms terms_;
  std::optional<HotRows> hot_{};         // from the first push on
  std::vector<std::uint64_t> rounds_{};  // likewise: that each server has ended, by this worker's pushes
  TableStatistics statistics_{};
  mutable std::mutex mutex_{};
  TableStatistics published_{};  // what of them other threads see
  std::optional<Failure> over_{};
  bool closed_ = false;
  std::shared_ptr<Flight> flight_;
  std::uint64_t life_ = 0;            // greater than that of each Table before it in this process
  std::unique_ptr<WorkerCore> core_;  // the last member: its thread uses the others
};

}  // namespace tally::kv

#pragma once
// A table of rows by key, which all workers push gradients to in rounds (docs/kv.md, Tables): an embedding table, or any
// sparse model. Rows are at the servers; those of keys that most workers touch are kept at every worker while they are
// hot, and what is pushed to them is summed in the box.
//
//   tally::kv::Table table({.width = 16, .rule = tally::kv::Rule::kSgd, .rate = 0.1F});
//   table.pull(keys, rows);           // keys unique and ascending; a row that nobody pushed to is zeros
//   table.push(keys, gradients);      // every worker, once in a round, if only without keys
//   table.close();                    // all workers: hot rows go back to their servers
//
// Every call waits; a push for all workers, unless the table is asynchronous. One thread for each Table, and with a box the
// calls of all Tables and PushPulls of a process come in the same order at all workers. What is wrong is thrown as a Failure.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tally/kv_node.h"

namespace tally::kv {

// What becomes of a row when a round ends, with the sum of what all workers pushed to it.
enum class Rule : std::uint8_t {
  kSum,  // row += sum
  kSgd,  // row -= rate * sum
};

// The same at all workers.
struct TableOptions {
  std::size_t width = 1;  // values in a row, 1..4096
  Rule rule = Rule::kSum;
  float rate = 0.01F;  // of kSgd
  // Keys that are hot at a time, at most, 0..1,048,576: 30,000 if it says nothing, and of an asynchronous table 0. Without a
  // box none are.
  std::optional<std::size_t> most_hot{};
  std::uint64_t every = 64;  // rounds from one choice of the hot keys to the next, at least 16
  int number = 0;            // which table of this system it is, 0..65535
  // Not 0, at most an hour: the table is asynchronous. A round ends so long after its first push, or when `least` workers have
  // pushed (0: all); what comes later is in the next one. Without hot keys each server ends its rounds by itself, and a
  // worker that is lost or leaves does not end the table for the others. With hot keys (most_hot) a thread of the library
  // takes part in each round, whether the program has pushed or not, and the box sums nothing else until it is closed.
  std::chrono::milliseconds age{0};
  int least = 0;  // of an asynchronous table: 0..all workers
};

// Of one worker, since its Table began.
struct TableStatistics {
  std::uint64_t rounds = 0;      // that have ended here
  std::uint64_t hot_pairs = 0;   // keys that it pushed, with their rows, by way of the box
  std::uint64_t cold_pairs = 0;  // ... by way of the servers
  std::uint64_t hot_keys = 0;    // now
  std::uint64_t sets = 0;        // of hot keys that came into force
  std::uint64_t moves = 0;       // rows that came from a server or left for one
  // Pushes that are in a later round than the one behind this worker's last. Of asynchronous tables.
  std::uint64_t late = 0;
};

class TableCalls;

class Table {
 public:
  // The node has started.
  explicit Table(const TableOptions& options);  // of the process's own
  Table(Node& node, const TableOptions& options);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  // Without close() before: this worker leaves, rounds of the others fail, and every worker brings all hot rows back. An
  // asynchronous table without hot keys goes on for the others.
  ~Table();

  // Rows as they are after the last round that ended here, keys.size() x width, by key. Of an asynchronous table without hot
  // keys: after the last that ended at the server of each.
  void pull(std::span<const Key> keys, std::span<float> rows);
  // gradients: as rows; finite, and of magnitudes up to 2^126. Returns when the round has ended: the rows have what all workers
  // pushed in it. (Of an asynchronous table: when at each server a round with this push has.) After a failure (of a worker,
  // a server, the box) the table is over at all workers: what was committed is back at the servers that are left, and
  // every further call throws the same; make another Table.
  void push(std::span<const Key> keys, std::span<const float> gradients);
  void close();  // returns when all workers are here. After it only the destruction; again is fine

  [[nodiscard]] const TableOptions& options() const noexcept;
  [[nodiscard]] TableStatistics statistics() const;  // any thread

 private:
  std::unique_ptr<TableCalls> impl_;
};

}  // namespace tally::kv

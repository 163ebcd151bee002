#pragma once
// The tables of a server, whichever its workers ask for: beside the KVServer of the same process, under an app of its own.

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "kv/table_state.h"
#include "tally/kv_core.h"

namespace tally::kv {

struct TableServerStatistics {
  std::uint64_t tables = 0;
  std::uint64_t rounds = 0;  // of all
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;  // of rows and what finds them, and of pushes that wait for others'
};

class TableServer {
 public:
  // The node has started, or will. most_bytes: of all tables, as in the statistics; 0: no bound.
  TableServer(Node& node, std::size_t most_bytes);
  TableServer(const TableServer&) = delete;
  TableServer& operator=(const TableServer&) = delete;

  [[nodiscard]] TableServerStatistics statistics() const;  // any thread

 private:
  void take(const Arrival& arrival);
  void publish();
  void look_at_the_time();
  void give(std::vector<TableAnswer> answers);

  const std::size_t most_bytes_;
  std::map<int, TableState> tables_{};
  std::vector<int> lost_{};  // workers
  std::atomic<std::uint64_t> table_count_{0}, rounds_{0}, rows_{0}, bytes_{0};
  ServerCore core_;  // the last member: its thread uses the others
};

}  // namespace tally::kv

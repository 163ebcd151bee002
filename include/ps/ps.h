#pragma once
// For programs written for PS-lite: its names are those of tally/kv.h. docs/kv.md says what is not here.

#include <functional>
#include <vector>

#include "tally/kv.h"

// NOLINTBEGIN(readability-identifier-naming, readability-redundant-member-init): PS-lite's names.
namespace ps {

using tally::kv::Barrier;
using tally::kv::Finalize;
using tally::kv::FindRange;
using tally::kv::IsScheduler;
using tally::kv::IsServer;
using tally::kv::IsWorker;
using tally::kv::Key;
using tally::kv::kMaxKey;
using tally::kv::kScheduler;
using tally::kv::kServerGroup;
using tally::kv::KVMeta;
using tally::kv::KVPairs;
using tally::kv::KVServer;
using tally::kv::KVServerDefaultHandle;
using tally::kv::KVWorker;
using tally::kv::kWorkerGroup;
using tally::kv::MyRank;
using tally::kv::NumServers;
using tally::kv::NumWorkers;
using tally::kv::Range;
using tally::kv::RegisterExitCallback;
using tally::kv::SArray;
using tally::kv::Start;

// What programs ask of it directly.
class Postoffice {
 public:
  static Postoffice* Get() {
    static Postoffice office;
    return &office;
  }
  void Barrier(int customer_id, int groups) { tally::kv::Barrier(customer_id, groups); }
  [[nodiscard]] const std::vector<Range>& GetServerKeyRanges() const { return tally::kv::RangesOf(); }
  [[nodiscard]] int num_workers() const { return NumWorkers(); }
  [[nodiscard]] int num_servers() const { return NumServers(); }
  [[nodiscard]] int my_rank() const { return MyRank(); }
  [[nodiscard]] bool is_worker() const { return IsWorker(); }
  [[nodiscard]] bool is_server() const { return IsServer(); }
  [[nodiscard]] bool is_scheduler() const { return IsScheduler(); }
  static int WorkerRankToID(int rank) { return 9 + 2 * rank; }
  static int ServerRankToID(int rank) { return 8 + 2 * rank; }
  static int IDtoRank(int id) { return id < 8 ? 0 : (id - 8) / 2; }
};

}  // namespace ps
// NOLINTEND(readability-identifier-naming, readability-redundant-member-init)

#pragma once
// A worker process: production engine, a host stack that only wraps and unwraps, and a program that runs the
// workload's plan and checks every sum.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agreement.h"
#include "engine/sparse_rows.h"
#include "engine/worker_engine.h"
#include "frames.h"
#include "host_stack.h"
#include "jobs/binding.h"
#include "network.h"
#include "schedule.h"
#include "workload.h"

namespace tally::sim {

struct WorkerOptions {
  std::size_t index = 0;  // of its link in the network
  std::string job;
  std::string token;
  Rank rank{};
  std::uint16_t world = 1;
  std::uint16_t elements = 32;
  jobs::Binding binding;
  std::vector<jobs::Box> boxes;  // that it can reach; it joins the first. Empty: test_box() alone
  std::uint8_t priority = kGreatestPriority;
  std::uint32_t in_flight = 2;  // operations submitted at once
  bool early = false;           // submits before it has joined
  bool leaves = false;          // leaves when its plan is done
  bool checks_values = true;    // false: only that operations complete (benchmarks)
  bool stragglers = false;      // the job's sums may lack ranks
  bool sparse = true;           // as EngineOptions
  TimeNs rto_floor = engine::kPollRtoFloor;
  TimeNs backlog = kNever;  // what may wait for the wire, as udp's option: the rest waits in the engine
};

class WorkerNode final : public HostProcess {
 public:
  // Returns when the wire has taken it.
  using Send = std::function<TimeNs(std::size_t index, Bytes frame)>;
  using Alarm = std::function<void(std::string)>;

  // agreement: of all members of the job.
  WorkerNode(Schedule& schedule, std::uint64_t seed, WorkerOptions options, const Workload& workload,
             Agreement& agreement, Send send, Alarm alarm);

  void crash();          // the process is gone
  void start();          // as a new process
  void program_again();  // a closed worker's program joins again
  void resume_service() { service(); }

  [[nodiscard]] bool alive() const noexcept override { return engine_ != nullptr; }
  [[nodiscard]] bool closed() const noexcept {
    return engine_ != nullptr && engine_->state() == engine::EngineState::kClosed;
  }
  [[nodiscard]] bool engine_running() const noexcept {
    return alive() && engine_->state() == engine::EngineState::kRunning;
  }
  // For its first epoch, or the first since it closed.
  [[nodiscard]] bool waits_to_join() const noexcept {
    return alive() && engine_->state() == engine::EngineState::kJoining && !engine_->membership();
  }
  // Waits for results.
  [[nodiscard]] bool busy() const noexcept { return alive() && engine_->pending_operations() != 0; }
  [[nodiscard]] bool left() const noexcept { return leaving_ && closed(); }
  // All operations of the present generation's plan completed and were right.
  [[nodiscard]] bool plan_done() const noexcept { return completed_ == workload_.operations(); }
  [[nodiscard]] Generation generation() const noexcept { return generation_; }
  [[nodiscard]] const engine::WorkerEngine& engine() const noexcept { return *engine_; }
  [[nodiscard]] std::uint64_t instance() const noexcept { return instance_; }
  [[nodiscard]] engine::WorkerEngine& engine() noexcept { return *engine_; }
  [[nodiscard]] const WorkerOptions& options() const noexcept { return options_; }
  // Operations finished since the start, in every generation: right ones, and those that failed with an
  // error.
  [[nodiscard]] std::uint64_t right() const noexcept { return right_; }
  [[nodiscard]] std::uint64_t failed() const noexcept { return failed_; }
  [[nodiscard]] const std::string& last_error() const noexcept { return last_error_; }
  // How an operation ended that a test submitted to engine() itself; nullptr: not yet, or by a process that
  // crashed.
  [[nodiscard]] const Result<OperationStats>* outcome(engine::OperationId id) const {
    const auto it = outcomes_.find(id);
    return it == outcomes_.end() ? nullptr : &it->second;
  }
  [[nodiscard]] std::string describe() const;

 private:
  struct Running {
    std::uint32_t k = 0;
    Generation generation{};
    PlannedOperation plan;
    std::vector<std::int32_t> ints;
    std::vector<float> floats;
    std::vector<std::int32_t> int_out;
    std::vector<float> float_out;
    // Of an operation of rows: which it has, and what it collects of the sum if it does not want the table.
    std::vector<std::uint32_t> ids;
    std::optional<engine::RowCollector> collector;
  };

  void take(std::span<const std::byte> datagram, const Ipv6& source) override;
  void service() override;
  void submit();
  void submit_one();
  template <class T>
  Result<engine::OperationId> submit_rows(Running& op, std::vector<T>& values, std::vector<T>& out);
  void finish(engine::Completion completion);
  void check(const Running& op, const OperationStats& stats);
  void check_named(const Running& op, const OperationStats& stats);
  [[nodiscard]] std::optional<std::size_t> box_of(const Ipv6& source) const;
  [[nodiscard]] const jobs::Box& box_for(std::size_t box) const;

  Rng rng_;
  std::uint64_t instance_ = 0;  // of the process that runs, or ran last
  WorkerOptions options_;
  const Workload& workload_;
  Agreement& agreement_;
  Send send_;
  Alarm alarm_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  std::map<engine::OperationId, std::unique_ptr<Running>> running_;
  std::map<engine::OperationId, Result<OperationStats>> outcomes_;
  Generation generation_{};
  std::uint32_t submitted_ = 0;
  std::uint32_t completed_ = 0;
  std::uint64_t right_ = 0;
  std::uint64_t failed_ = 0;
  std::string last_error_;
  bool leaving_ = false;
  TimeNs wire_free_ = 0;
};

}  // namespace tally::sim

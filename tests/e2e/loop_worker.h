#pragma once
// A worker without its network: the production engine, and a program that runs the workload's plan and checks
// the bits of every sum.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/worker_engine.h"
#include "jobs/binding.h"
#include "workload.h"

namespace tally::e2e {

class LoopWorker {
 public:
  LoopWorker(const engine::EngineOptions& options, const jobs::Binding& self, const sim::Workload& workload);

  // What arrived on its port. False: not for this worker.
  bool take(std::span<const std::byte> frame, TimeNs now);
  // Lets the program see what is finished and submit what comes next.
  void work(TimeNs now);

  [[nodiscard]] engine::WorkerEngine& engine() noexcept { return *engine_; }
  [[nodiscard]] const engine::WorkerEngine& engine() const noexcept { return *engine_; }
  [[nodiscard]] const jobs::Binding& self() const noexcept { return self_; }
  [[nodiscard]] std::uint32_t completed() const noexcept { return completed_; }
  // All operations completed, and the worker left.
  [[nodiscard]] bool done() const noexcept;
  [[nodiscard]] const std::vector<std::string>& wrong() const noexcept { return wrong_; }
  // Of the bits of all sums, in the order of the operations.
  [[nodiscard]] std::uint64_t digest() const noexcept { return digest_; }

  // Whenever the job ends before the work does, the program joins again and starts anew.
  void start_over_when_aborted() noexcept { persistent_ = true; }
  // Submits nothing more, or goes on.
  void hold(bool held) noexcept { held_ = held; }
  // Operation k is a barrier, whatever the plan says: the program is another than the other ranks'.
  void differ_at(std::uint32_t k) noexcept { differs_at_ = k; }

 private:
  struct Running {
    std::uint32_t k = 0;
    sim::PlannedOperation plan;
    std::vector<std::int32_t> ints;
    std::vector<float> floats;
  };
  void start_over(TimeNs now);
  void submit(TimeNs now);
  void finish(const engine::Completion& completion);
  void check(const Running& op, const engine::Completion& completion);
  void check_named(const Running& op, const OperationStats& stats);
  void note(const Running& op);

  engine::EngineOptions options_;
  jobs::Binding self_;
  const sim::Workload& workload_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  std::map<engine::OperationId, std::unique_ptr<Running>> running_;
  std::uint32_t submitted_ = 0;
  std::uint32_t completed_ = 0;
  bool leaving_ = false;
  bool persistent_ = false;
  bool held_ = false;
  std::uint32_t differs_at_ = ~0U;
  std::uint64_t digest_ = 0;
  std::vector<std::string> wrong_;
};

}  // namespace tally::e2e

#pragma once
// What stands behind a Worker: its progress thread and what that publishes.

#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "api/operation.h"
#include "api/progress.h"

namespace tally {

class WorkerImpl {
 public:
  // The thread runs, the engine joins.
  [[nodiscard]] static Result<std::unique_ptr<WorkerImpl>> start(const WorkerOptions& options);
  WorkerImpl(const WorkerImpl&) = delete;
  WorkerImpl& operator=(const WorkerImpl&) = delete;
  // As ~Worker says, also on the progress thread and in the child of a fork.
  ~WorkerImpl();

  // Until the job runs, the worker is closed, or `options.join_timeout`.
  [[nodiscard]] Result<void> wait_joined(const WorkerOptions& options);

  template <class Spans>
  [[nodiscard]] Operation reduce(Spans spans, const ReduceOptions& options);
  void abort(std::string_view reason);
  [[nodiscard]] Result<void> leave(std::chrono::milliseconds timeout);

  [[nodiscard]] const WorkerView& view() const noexcept { return *view_; }

 private:
  WorkerImpl(std::shared_ptr<WorkerView> view, std::shared_ptr<Progress> progress) noexcept;
  [[nodiscard]] std::optional<Error> objection(const ReduceOptions& options) const;
  void leave_behind();

  std::shared_ptr<WorkerView> view_;
  std::shared_ptr<Progress> progress_;  // the thread's too: it may outlive this
  std::thread thread_;
};

}  // namespace tally

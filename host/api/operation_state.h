#pragma once
// What an Operation's handles share with the progress thread.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "tally/worker.h"
#include "worker_view.h"

namespace tally {

struct OperationState {
  OperationState(std::shared_ptr<const WorkerView> worker,
                 std::function<void(const Result<OperationStats>&)> when_done)
      : view(std::move(worker)), callback(std::move(when_done)) {}

  // Once. Calls the callback, and only then is the operation done for everybody else.
  void finish(Result<OperationStats> outcome);

  const std::shared_ptr<const WorkerView> view;
  std::function<void(const Result<OperationStats>&)> callback;  // empty after finish()
  std::atomic<bool> done = false;
  std::mutex mutex;
  std::condition_variable finished;
  std::optional<Result<OperationStats>> result;  // set before `done`, constant from then on
};

}  // namespace tally

#include <string>

#include "operation_state.h"
#include "worker_join.h"

namespace tally {

void OperationState::finish(Result<OperationStats> outcome) {
  if (callback) {
    const auto call = std::move(callback);
    callback = nullptr;
    call(outcome);
  }
  {
    const std::lock_guard lock(mutex);
    result = std::move(outcome);
    done.store(true, std::memory_order_release);
  }
  finished.notify_all();  // who wakes finds the mutex free
}

Operation::Operation(std::shared_ptr<OperationState> state) noexcept : state_(std::move(state)) {}

bool Operation::done() const noexcept {
  return state_ == nullptr || state_->done.load(std::memory_order_acquire) || state_->view->foreign();
}

Result<OperationStats> Operation::wait(std::chrono::milliseconds timeout) const {
  // A reference of its own: in the child of a fork nobody may destroy what a thread of the parent waited on.
  const std::shared_ptr<OperationState> state = state_;
  if (state == nullptr) return fail(ErrorCode::kInvalidArgument, "wait: this Operation was moved from");
  if (state->view->foreign()) return tl::unexpected(state->view->foreign_error());
  if (state->done.load(std::memory_order_acquire)) return *state->result;
  if (state->view->on_progress_thread())
    return fail(
        ErrorCode::kInvalidArgument,
        "wait: called in a callback; the progress thread cannot wait for itself, use ReduceOptions::done");
  {
    std::unique_lock lock(state->mutex);
    if (state->finished.wait_until(lock, moment_after(timeout), [&] { return state->result.has_value(); }))
      return *state->result;
  }
  const std::string ranks = name_ranks(state->view->missing());
  return fail(ErrorCode::kTimeout,
              "the operation is not done after " + std::to_string(timeout.count()) + " ms and goes on; " +
                  (ranks.empty() ? "the box has not said who is missing" : "waiting for " + ranks));
}

}  // namespace tally

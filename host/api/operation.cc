#include "api/operation.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>

#include "engine/worker_join.h"

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
    done.store(true);  // in one order with the descriptor: who has just asked for that sees this, or is told
  }
  finished.notify_all();  // who wakes finds the mutex free
  view->note_done();
}

Operation::Operation(std::shared_ptr<OperationState> state) noexcept : state_(std::move(state)) {}

bool Operation::done() const noexcept {
  return state_ == nullptr || state_->done.load() || state_->view->foreign();
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
  const std::string ranks = state->view->missing();
  return fail(ErrorCode::kTimeout,
              "the operation is not done after " + std::to_string(timeout.count()) + " ms and goes on; " +
                  (ranks.empty() ? "the box has not said who is missing" : "waiting for " + ranks));
}

namespace {

thread_local const WorkerView* progress_thread_of = nullptr;

}  // namespace

WorkerView::WorkerView() : process_(getpid()) {}

bool WorkerView::foreign() const noexcept { return getpid() != process_; }

Error WorkerView::foreign_error() const {
  return {ErrorCode::kClosed,
          "this Worker belongs to process " + std::to_string(process_) + "; join in the child"};
}

void WorkerView::enter_progress_thread() const noexcept { progress_thread_of = this; }
bool WorkerView::on_progress_thread() const noexcept { return progress_thread_of == this; }

WorkerView::Content WorkerView::content() const {
  const std::lock_guard lock(mutex_);
  return content_;
}

std::optional<Error> WorkerView::closed() const {
  const std::lock_guard lock(mutex_);
  return content_.closed;
}

int WorkerView::event_fd() const {
  const std::lock_guard lock(mutex_);
  if (event_fd_.get() < 0) event_fd_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  event_.store(event_fd_.get());
  return event_fd_.get();
}

void WorkerView::note_done() const noexcept {
  // Of a full counter, which is readable too, nothing is lost.
  if (const int fd = event_.load(); fd >= 0) (void)!eventfd_write(fd, 1);
}

std::string WorkerView::missing() const {
  const std::lock_guard lock(mutex_);
  return engine::name_ranks(content_.missing, content_.first_rank);
}

std::chrono::steady_clock::time_point moment_after(std::chrono::milliseconds timeout) {
  // A year is for ever; the clock's own maximum overflows in conversions below us.
  constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);
  return std::chrono::steady_clock::now() + std::clamp(timeout, std::chrono::milliseconds::zero(), kForever);
}

}  // namespace tally

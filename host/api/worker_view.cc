#include "worker_view.h"

#include <unistd.h>

#include <algorithm>
#include <string>

namespace tally {
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

std::uint64_t WorkerView::missing() const {
  const std::lock_guard lock(mutex_);
  return content_.missing;
}

std::chrono::steady_clock::time_point moment_after(std::chrono::milliseconds timeout) {
  // A year is for ever; the clock's own maximum overflows in conversions below us.
  constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);
  return std::chrono::steady_clock::now() + std::clamp(timeout, std::chrono::milliseconds::zero(), kForever);
}

}  // namespace tally

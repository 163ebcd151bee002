#pragma once

#include <sys/types.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tally/engine_statistics.h"
#include "tally/error.h"
#include "tally/unique_fd.h"
#include "tally/worker.h"

namespace tally {

// What a Worker's progress thread lets others see. It publishes copies; nobody looks into the engine.

class WorkerView {
 public:
  struct Content {
    EngineStatistics statistics{};
    std::optional<WorkerMembership> membership{};
    std::uint64_t missing = 0;     // ranks that progress waits for, as far as the box said
    std::uint32_t first_rank = 0;  // what the program calls rank 0 of it
    std::uint64_t datagrams = 0;   // received, refused ones included
    std::string trouble{};         // what the transport says of the path
    std::optional<Error> closed{};
    bool told = false;  // closed, and the box knows or was told often enough
  };

  WorkerView();

  // Whether this process is a child of the one that joined: then nothing else here may be called, for a
  // thread that does not exist in the child may hold the mutex.
  [[nodiscard]] bool foreign() const noexcept;
  [[nodiscard]] Error foreign_error() const;  // kClosed

  // The progress thread, once, first.
  void enter_progress_thread() const noexcept;
  [[nodiscard]] bool on_progress_thread() const noexcept;

  // Progress thread: change(content) under the mutex. `important`: wakes those who wait.
  template <class Change>
  void publish(bool important, Change change) {
    {
      const std::lock_guard lock(mutex_);
      change(content_);
    }
    if (important) changed_.notify_all();
  }

  [[nodiscard]] Content content() const;
  [[nodiscard]] std::optional<Error> closed() const;
  // "rank 3" that progress waits for; empty: the box has not said.
  [[nodiscard]] std::string missing() const;

  // As Worker::event_fd().
  [[nodiscard]] int event_fd() const;
  // An operation is done.
  void note_done() const noexcept;

  // Until condition(content) or `deadline`; returns whether the condition holds.
  template <class Condition>
  bool wait_until(std::chrono::steady_clock::time_point deadline, Condition condition) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return condition(content_); });
  }

 private:
  const pid_t process_;
  mutable UniqueFd event_fd_;            // set once, under the mutex
  mutable std::atomic<int> event_ = -1;  // the same, for the progress thread
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Content content_;
};

// The moment `timeout` from now, without overflow; for a negative one now.
[[nodiscard]] std::chrono::steady_clock::time_point moment_after(std::chrono::milliseconds timeout);

// What an Operation's handles share with the progress thread.

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

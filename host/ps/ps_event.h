#pragma once
// What people should hear of a job, in order. Bounded: an event that finds the log full is counted, not kept.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace tally {

enum class PsEventKind : std::uint8_t {
  kRunning,   // a new epoch was entered
  kRefused,   // the box refused the JOIN, and did not so before in these words
  kCalled,    // the box no longer knows the epoch: joins again
  kAborted,   // the job was aborted: joins again, for the next generation
  kSilent,    // no answer of the box for a lease: joins again
  kMismatch,  // ranks issue different operations: it aborts the job
};

struct PsEvent {
  std::size_t job = 0;  // index in PsOptions::jobs
  PsEventKind kind{};
  std::string text;  // a sentence without the job's name
};

class PsEventLog {
 public:
  void add(PsEvent event) {
    if (events_.size() < kRoom)
      events_.push_back(std::move(event));
    else
      ++lost_;
  }
  [[nodiscard]] std::optional<PsEvent> next() {
    if (events_.empty()) return std::nullopt;
    std::optional<PsEvent> first(std::move(events_.front()));
    events_.pop_front();
    return first;
  }
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }

 private:
  static constexpr std::size_t kRoom = 256;
  std::deque<PsEvent> events_;
  std::uint64_t lost_ = 0;
};

}  // namespace tally

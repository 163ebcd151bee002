#pragma once
// The demo itself: starts the switch and the workers, watches them, compares what they report, and ends them
// all whatever happens.

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "box_report.h"
#include "demo_config.h"
#include "demo_directory.h"
#include "demo_job.h"
#include "demo_options.h"
#include "progress_line.h"
#include "ready_socket.h"
#include "slot_use.h"
#include "supervisor.h"

namespace tally {

class DemoRun {
 public:
  explicit DemoRun(const DemoOptions& options) : options_(options) {}
  // Returns the exit code.
  [[nodiscard]] int run();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kTurn{100};
  struct Rank {
    Supervisor::Child* child = nullptr;
    std::size_t job = 0;
    std::uint16_t rank = 0;
    std::vector<std::byte> received{};  // of a record that is not complete yet
  };

  Result<void> begin();
  Result<std::string> dumped_config();
  Result<void> start_box();
  // midway: of the jobs that come midway, else of the others.
  Result<void> start_workers(bool midway);
  Result<void> start_worker(std::size_t job, std::uint16_t rank, std::size_t port);
  void introduce() const;
  void watch();
  void follow_midway();
  void tell_midway();
  void take_records(Rank& rank, std::span<const std::byte> bytes);
  void worker_ended(const Rank& rank);
  void box_line(Supervisor::Stream stream, std::string_view line);
  void fail(const std::string& what);
  void show_box_log() const;
  void end_all();
  void conclude() const;
  [[nodiscard]] bool workers_running() const;
  [[nodiscard]] bool all_right() const;

  const DemoOptions& options_;
  std::optional<DemoDirectory> directory_{};
  std::optional<ReadySocket> ready_{};
  std::unique_ptr<Supervisor> supervisor_{};  // after directory_: children end before it is removed
  DemoConfig config_{};
  Supervisor::Child* box_ = nullptr;
  std::vector<DemoJob> jobs_{};
  std::deque<Rank> ranks_{};
  ProgressLine progress_{};
  enum class Midway : std::uint8_t { kNotYet, kHere, kGone } midway_ = Midway::kNotYet;
  bool asked_ = false;                      // the switch, for its counters; it has not answered yet
  std::optional<SlotUse> others_before_{};  // what came midway
  std::deque<std::string> box_log_{};       // its newest lines
  BoxReport box_report_{};
  bool ending_ = false;  // from now on the end of a child is no news
  bool failed_ = false;
  Clock::time_point give_up_{};    // once failed
  Clock::time_point last_news_{};  // from a worker
};

}  // namespace tally

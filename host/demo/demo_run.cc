// The demo while it runs: news of the workers, failures, the end.
#include "demo_run.h"

#include <cstdio>
#include <cstring>
#include <utility>

namespace tally {
namespace {

using std::chrono::seconds;

// After a failure the others may say what they see; a lease is 10 s, and a dead rank is told a second later.
constexpr seconds kLastWords{15};
constexpr seconds kSilence{150};  // longer than a worker waits for a tensor
constexpr seconds kEndPatience{5};
constexpr std::size_t kKeptLines = 15;

}  // namespace

int DemoRun::run() {
  if (const auto begun = begin(); !begun) {
    if (supervisor_ == nullptr || supervisor_->interrupts() == 0) fail(begun.error().text());
  } else {
    watch();
  }
  if (supervisor_ == nullptr) return 1;
  end_all();
  if (supervisor_->interrupts() > 0) {
    std::fputs("tally-demo: interrupted; all its processes have ended\n", stderr);
    return 128 + supervisor_->interrupt_signal();
  }
  conclude();
  return all_right() ? 0 : 1;
}

void DemoRun::watch() {
  last_news_ = Clock::now();
  std::vector<ProgressPart> parts;
  while ((workers_running() || (midway_ == Midway::kNotYet && !failed_)) && supervisor_->interrupts() == 0) {
    parts.clear();
    for (const auto& job : jobs_) parts.push_back({std::string(job.model().job), job.share()});
    progress_.show(parts);
    supervisor_->turn(kTurn);
    follow_midway();
    const auto now = Clock::now();
    if (failed_ && now > give_up_) break;
    if (!failed_ && now - last_news_ > kSilence)
      fail("no worker has summed anything for " + std::to_string(kSilence.count()) + " s");
  }
  progress_.clear();
}

void DemoRun::take_records(Rank& rank, std::span<const std::byte> bytes) {
  last_news_ = Clock::now();
  rank.received.insert(rank.received.end(), bytes.begin(), bytes.end());
  std::size_t at = 0;
  for (; rank.received.size() - at >= sizeof(DemoRecord); at += sizeof(DemoRecord)) {
    DemoRecord record;
    std::memcpy(&record, rank.received.data() + at, sizeof record);
    const std::string complaint = jobs_[rank.job].take(rank.rank, record, last_news_);
    if (complaint.empty()) continue;
    progress_.clear();
    std::fprintf(stderr, "tally-demo: %s\n", complaint.c_str());
  }
  rank.received.erase(rank.received.begin(), rank.received.begin() + static_cast<std::ptrdiff_t>(at));
}

void DemoRun::worker_ended(const Rank& rank) {
  if (ending_) return;
  const auto& process = rank.child->process;
  if (process.code() != 0 || !jobs_[rank.job].finished(rank.rank))
    fail("worker " + process.name() + " " + process.how_it_ended());
}

void DemoRun::box_line(Supervisor::Stream stream, std::string_view line) {
  if (stream == Supervisor::Stream::kOut) {
    if (box_report_.take(line) && asked_) tell_midway();
    return;
  }
  box_log_.emplace_back(line);
  if (box_log_.size() > kKeptLines) box_log_.pop_front();
  if (!options_.verbose) return;
  progress_.clear();
  std::fprintf(stderr, "tallyd: %.*s\n", static_cast<int>(line.size()), line.data());
}

void DemoRun::fail(const std::string& what) {
  progress_.clear();
  std::fprintf(stderr, "tally-demo: %s\n", what.c_str());
  if (!failed_) give_up_ = Clock::now() + kLastWords;
  failed_ = true;
}

void DemoRun::show_box_log() const {
  if (options_.verbose) return;  // it was shown already
  for (const auto& line : box_log_) std::fprintf(stderr, "tallyd: %s\n", line.c_str());
}

void DemoRun::end_all() {
  ending_ = true;
  std::vector<Supervisor::Child*> workers;
  for (const auto& rank : ranks_) workers.push_back(rank.child);
  supervisor_->end(workers, kEndPatience);
  if (box_ == nullptr) return;
  const bool was_running = box_->process.running();
  supervisor_->end(std::vector{box_}, kEndPatience);
  while (!box_->told) supervisor_->turn(kTurn);
  if (was_running && box_->process.code() != 0 && supervisor_->interrupts() == 0) {
    fail("at the end tallyd " + box_->process.how_it_ended());
    show_box_log();
  }
}

bool DemoRun::workers_running() const {
  for (const auto& rank : ranks_) {
    if (!rank.child->told) return true;
  }
  return false;
}

bool DemoRun::all_right() const {
  for (const auto& job : jobs_) {
    if (!job.finished() || job.wrong() > 0) return false;
  }
  return !failed_ && !jobs_.empty();
}

}  // namespace tally

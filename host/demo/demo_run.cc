#include "demo_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "error_bound.h"
#include "numbers.h"

namespace tally {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kTurn{100};
constexpr seconds kConfigPatience{10};
constexpr seconds kReadyPatience{60};
// After a failure the others may say what they see; a lease is 10 s, and a dead rank is told a second later.
constexpr seconds kLastWords{15};
constexpr seconds kSilence{150};  // longer than a worker waits for a tensor
constexpr seconds kEndPatience{5};
constexpr std::size_t kKeptLines = 15;

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::string box_program(const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  const auto beside = std::filesystem::path(own_program()).parent_path() / "tallyd";
  return std::filesystem::exists(beside) ? beside.string() : "tallyd";
}

std::string temporary() {
  const char* const directory = std::getenv("TMPDIR");
  return directory != nullptr && *directory != '\0' ? directory : "/tmp";
}

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

Result<void> DemoRun::begin() {
  auto supervisor = Supervisor::create();
  if (!supervisor) return tl::unexpected<Error>(supervisor.error());
  supervisor_ = std::move(*supervisor);
  DemoDirectory::sweep(temporary());
  auto directory = DemoDirectory::create(temporary());
  if (!directory) return tl::unexpected<Error>(directory.error());
  directory_.emplace(std::move(*directory));
  const auto dumped = dumped_config();
  if (!dumped) return tl::unexpected<Error>(dumped.error());
  auto config = make_demo_config(*dumped, directory_->path() + "/memif.sock", options_.loss);
  if (!config) return tl::unexpected<Error>(config.error());
  config_ = std::move(*config);
  for (const auto& job : config_.jobs)
    jobs_.emplace_back(*find_model(job.name), job.workers, options_.iterations);
  introduce();
  if (auto started = start_box(); !started) return started;
  return start_workers();
}

Result<std::string> DemoRun::dumped_config() {
  std::string out;
  std::string complaints;
  auto child = supervisor_->start(
      {.name = "tallyd --dump-config",
       .command = {box_program(options_.tallyd), "--config", options_.config, "--dump-config"}});
  if (!child) return tl::unexpected<Error>(child.error());
  (*child)->on_line = [&](Supervisor::Stream stream, std::string_view line) {
    (stream == Supervisor::Stream::kOut ? out : complaints).append(line).append("\n");
  };
  const auto until = Clock::now() + kConfigPatience;
  while (!(*child)->told && Clock::now() < until && supervisor_->interrupts() == 0) supervisor_->turn(kTurn);
  (*child)->on_line = nullptr;
  if (!(*child)->told) return tally::fail(ErrorCode::kTimeout, "tallyd --dump-config does not end");
  std::fputs(complaints.c_str(), stderr);
  if ((*child)->process.code() != 0) {
    return tally::fail(ErrorCode::kInvalidArgument,
                       "tallyd --dump-config " + (*child)->process.how_it_ended() + "; its words are above");
  }
  return out;
}

void DemoRun::introduce() const {
  std::size_t workers = 0;
  for (const auto& job : jobs_) workers += job.world();
  std::printf(
      "One switch (tallyd), %zu jobs, %zu workers; each worker is a process with a port of its own "
      "(memif)%s%s.\n",
      jobs_.size(), workers, options_.loss.empty() ? "" : "; every port loses ",
      options_.loss.empty() ? "" : (options_.loss + " of its frames each way").c_str());
  for (const auto& job : jobs_) {
    std::printf("  %-8s  %u x %s: %zu tensors, %s parameters, float32; iterations: %u\n",
                std::string(job.model().job).c_str(), job.world(), std::string(job.model().title).c_str(),
                job.model().tensors.size(), with_commas(job.model().parameters()).c_str(), job.iterations());
  }
  std::string bound = bound_text(jobs_.front().world());
  bound.insert(bound.find('\n') + 1, "  ");
  std::printf("Each worker checks every sum y against the float64 sum of all ranks' values x:\n  %s\n",
              bound.c_str());
  std::printf("The ranks' results are compared by the CRC32C of their bits. #wrong counts both.\n\n");
  std::fflush(stdout);
}

Result<void> DemoRun::start_box() {
  if (auto done = directory_->write("tallyd.yaml", config_.text); !done) return done;
  auto ready = ReadySocket::create(directory_->path() + "/ready.sock");
  if (!ready) return tl::unexpected<Error>(ready.error());
  ready_.emplace(std::move(*ready));
  // Whoever has workers left at the end has lost them, so there is nothing to wait for.
  auto box = supervisor_->start(
      {.name = "tallyd",
       .command = {box_program(options_.tallyd), "--config", directory_->path() + "/tallyd.yaml", "--drain",
                   "1"},
       .environment = {{"NOTIFY_SOCKET", ready_->path()},
                       {"WATCHDOG_USEC", ""},
                       {"WATCHDOG_PID", ""},
                       {"RUNTIME_DIRECTORY", directory_->path()}},  // where DPDK makes directories
       .death_signal = SIGTERM});
  if (!box) return tl::unexpected<Error>(box.error());
  box_ = *box;
  box_->on_line = [this](Supervisor::Stream stream, std::string_view line) { box_line(stream, line); };
  box_->on_end = [this] {
    if (ending_) return;
    fail("the switch, tallyd, " + box_->process.how_it_ended());
    show_box_log();
  };
  const auto until = Clock::now() + kReadyPatience;
  while (!ready_->ready()) {
    supervisor_->turn(kTurn, ready_->fd());
    if (supervisor_->interrupts() > 0) return tally::fail(ErrorCode::kClosed, "interrupted");
    if (box_->told) return tally::fail(ErrorCode::kSystem, "without the switch there is no demo");
    if (Clock::now() > until) {
      show_box_log();
      return tally::fail(ErrorCode::kTimeout, "tallyd does not get ready");
    }
  }
  return {};
}

Result<void> DemoRun::start_workers() {
  for (std::size_t job = 0; job < jobs_.size(); ++job) {
    for (std::uint16_t rank = 0; rank < jobs_[job].world(); ++rank) {
      if (auto started = start_worker(job, rank); !started) return started;
    }
  }
  return {};
}

Result<void> DemoRun::start_worker(std::size_t job, std::uint16_t rank) {
  const std::size_t port = ranks_.size();
  const auto& of_job = config_.jobs[job];
  auto child = supervisor_->start(
      {.name = of_job.name + " rank " + std::to_string(rank),
       .command = {own_program(), "worker", "--iterations", std::to_string(options_.iterations), "--seed",
                   std::to_string(options_.seed)},
       .environment = {{"TALLY_JOB", of_job.name},
                       {"TALLY_TOKEN", ""},
                       {"TALLY_TOKEN_FILE", of_job.token_file},
                       {"TALLY_RANK", std::to_string(rank)},
                       {"TALLY_WORLD", std::to_string(of_job.workers)},
                       {"TALLY_SWITCH", config_.box},
                       {"TALLY_TRANSPORT", config_.transports[port]},
                       {"TALLY_ADDRESS", config_.addresses[port]},
                       {"TALLY_MTU", std::to_string(config_.mtus[port])},
                       {"TALLY_ELEMENTS", ""},
                       {"TALLY_CONFIG", ""},
                       {"NOTIFY_SOCKET", ""},
                       {"RUNTIME_DIRECTORY", directory_->path()}},
       .extra_fd = kRecordsFd});
  if (!child) return tl::unexpected<Error>(child.error());
  Rank& one = ranks_.emplace_back(Rank{.child = *child, .job = job, .rank = rank});
  one.child->on_extra = [this, &one](std::span<const std::byte> bytes) { take_records(one, bytes); };
  one.child->on_line = [this, &one](Supervisor::Stream, std::string_view line) {
    progress_.clear();
    std::fprintf(stderr, "%s: %.*s\n", one.child->process.name().c_str(), static_cast<int>(line.size()),
                 line.data());
  };
  one.child->on_end = [this, &one] { worker_ended(one); };
  return {};
}

void DemoRun::watch() {
  last_news_ = Clock::now();
  std::vector<ProgressPart> parts;
  while (workers_running() && supervisor_->interrupts() == 0) {
    parts.clear();
    for (const auto& job : jobs_) parts.push_back({std::string(job.model().job), job.share()});
    progress_.show(parts);
    supervisor_->turn(kTurn);
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
    box_counters_.append(line).append("\n");
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

void DemoRun::conclude() const {
  const bool finished =
      std::all_of(jobs_.begin(), jobs_.end(), [](const DemoJob& j) { return j.finished(); });
  if (finished && !jobs_.empty()) {
    std::printf("%s\n", demo_table(jobs_).c_str());
    std::printf(
        "bytes: of one iteration, summed over %u workers. time: wall clock. reducing: of it while sums were "
        "under way.\nalgbw: bytes of all iterations / reducing. verifying: CPU time of a worker for its "
        "values and its checks.\n\n",
        jobs_.front().world());
  }
  for (const auto& job : jobs_) {
    if (!job.finished())
      std::printf("%s: not finished, %s %% done, #wrong %s so far\n", std::string(job.model().job).c_str(),
                  fixed(100 * job.share(), 1).c_str(), std::to_string(job.wrong()).c_str());
  }
  if (!box_counters_.empty()) std::printf("The switch's own counters:\n%s\n", box_counters_.c_str());
  if (!all_right()) {
    std::printf("FAILED; the reasons are above.\n");
    return;
  }
  double largest = 0;
  std::uint64_t compared = 0;
  for (const auto& job : jobs_) {
    largest = std::max(largest, job.largest_error());
    compared += job.compared();
  }
  std::printf("All sums right: %s results, the largest error %s of its bound, all ranks the same bits.\n",
              with_commas(compared).c_str(), fixed(std::floor(largest * 1000) / 1000, 3).c_str());
}

}  // namespace tally

// How the demo starts: a configuration from tallyd itself, the switch, then the workers of the jobs that are
// there from the beginning.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "demo_run.h"

namespace tally {
namespace {

constexpr std::chrono::seconds kConfigPatience{10};
constexpr std::chrono::seconds kReadyPatience{60};

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
  const std::string socket = directory_->path() + "/memif.sock";
  auto config =
      make_demo_config(*dumped, {.socket = socket, .loss = options_.loss, .driver = options_.driver});
  if (!config) return tl::unexpected<Error>(config.error());
  config_ = std::move(*config);
  for (const auto& job : config_.jobs)
    jobs_.emplace_back(*find_model(job.name), job.workers, options_.iterations * find_model(job.name)->times);
  introduce();
  if (auto started = start_box(); !started) return started;
  return start_workers(false);
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

Result<void> DemoRun::start_workers(bool midway) {
  std::size_t port = 0;  // in the order of the configuration, whenever they start
  for (std::size_t job = 0; job < jobs_.size(); ++job) {
    for (std::uint16_t rank = 0; rank < jobs_[job].world(); ++rank, ++port) {
      if (jobs_[job].model().comes_midway != midway) continue;
      if (auto started = start_worker(job, rank, port); !started) return started;
    }
  }
  return {};
}

Result<void> DemoRun::start_worker(std::size_t job, std::uint16_t rank, std::size_t port) {
  const auto& of_job = config_.jobs[job];
  const bool kernel = !options_.driver.empty();
  if (kernel && port >= options_.hosts.size())
    return tally::fail(ErrorCode::kInvalidArgument,
                       "--hosts names " + std::to_string(options_.hosts.size()) +
                           " namespaces; there are more workers, and each needs one");
  auto child = supervisor_->start(
      {.name = of_job.name + " rank " + std::to_string(rank),
       .command = {own_program(), "worker", "--iterations", std::to_string(jobs_[job].iterations()), "--seed",
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
                       {"TALLY_PRIORITY", ""},
                       {"TALLY_CONFIG", ""},
                       {"NOTIFY_SOCKET", ""},
                       {"RUNTIME_DIRECTORY", directory_->path()}},
       .network_namespace = kernel ? options_.hosts[port] : std::string(),
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

}  // namespace tally

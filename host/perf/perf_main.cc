// tally-perf: the allreduce benchmark of a job's workers; one process per rank.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <utility>

#include "interrupt_watch.h"
#include "perf_options.h"
#include "perf_report.h"
#include "perf_run.h"
#include "result_file.h"
#include "tally/worker.h"

namespace tally {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int complain(const Error& error, int code) {
  std::fprintf(stderr, "tally-perf: %s\n", error.text().c_str());
  return code;
}

PerfSetting setting_of(const WorkerOptions& worker, const WorkerMembership& membership) {
  return {.machine = read_machine(),
          .job = worker.job,
          .transport = worker.transport,
          .rank = membership.rank,
          .world = membership.world,
          .elements = membership.elements,
          .window = membership.window,
          .ipv6 = worker.box.find(':') != std::string::npos,
          .poll = worker.poll};
}

int measure_all(Worker& worker, const WorkerOptions& how, const PerfOptions& options) {
  const auto membership = worker.membership();
  if (!membership) return complain(worker.why_closed().value_or(Error{}), kFailed);
  const PerfSetting setting = setting_of(how, *membership);
  const bool prints = options.all_ranks || how.rank == 0;
  if (prints) std::fputs(perf_head(options, setting).c_str(), stdout);
  PerfRun run(worker, options, *membership);
  std::vector<PerfRow> rows;
  std::uint64_t wrong = 0;
  for (const auto bytes : perf_sizes(options)) {
    auto row = run.measure(bytes);
    if (!row) return complain(row.error(), kFailed);
    wrong += row->wrong;
    rows.push_back(*row);
    if (prints) std::fputs(perf_line(options, setting, rows.back()).c_str(), stdout);
    std::fflush(stdout);
  }
  if (const auto left = worker.leave(); !left) return complain(left.error(), kFailed);
  bool written = true;
  if (how.rank == 0) {
    written = write_result_file("tally-perf", options.json, perf_json(options, setting, rows)) && written;
    written = write_result_file("tally-perf", options.csv, perf_csv(options, setting, rows)) && written;
  }
  if (wrong > 0) std::fprintf(stderr, "tally-perf: rank %d: %lu elements were WRONG\n", how.rank, wrong);
  return written && wrong == 0 ? 0 : kFailed;
}

int run(int argc, char** argv) {
  auto parsed = parse_perf_options(argc, argv);
  if (!parsed) {
    complain(parsed.error(), kUsage);
    std::fputs("Try 'tally-perf --help'.\n", stderr);
    return kUsage;
  }
  if (const auto* help = std::get_if<PerfHelp>(&*parsed)) {
    std::fputs(help->text.c_str(), stdout);
    return 0;
  }
  const auto how = WorkerOptions::from_environment();
  if (!how) return complain(how.error(), kUsage);

  std::atomic<Worker*> joined = nullptr;
  InterruptWatch watch([&joined, rank = how->rank](int signal) {
    if (Worker* const worker = joined.exchange(nullptr))
      worker->abort("rank " + std::to_string(rank) + " was interrupted");  // the others need not wait
    else
      _exit(128 + signal);
  });
  auto worker = Worker::join(*how);
  if (!worker) return complain(worker.error(), kFailed);
  joined = &*worker;
  const int code = measure_all(*worker, *how, std::get<PerfOptions>(*parsed));
  joined = nullptr;
  return watch.signal() != 0 ? 128 + watch.signal() : code;
}

}  // namespace
}  // namespace tally

int main(int argc, char** argv) {
  try {
    return tally::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tally-perf: %s\n", e.what());
    return 1;
  }
}

// tally-bench: how fast a box sums.

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "load_options.h"
#include "load_report.h"
#include "load_session.h"
#include "perf/interrupt_watch.h"
#include "perf/perf_report.h"
#include "step_profile.h"

namespace tally::bench {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kNoRate = 3;

int complain(const Error& error, int code) {
  std::fprintf(stderr, "tally-bench: %s\n", error.text().c_str());
  return code;
}

int measure(const LoadOptions& options, const std::atomic<bool>& interrupted) {
  LoadSetting setting;
  std::vector<LoadFigures> runs;
  std::optional<StepFigures> profile;
  const LoadListener listener{.begin =
                                  [&](const LoadSetting& s) {
                                    setting = s;
                                    std::fputs(load_head(setting).c_str(), stdout);
                                    std::fflush(stdout);
                                  },
                              .run =
                                  [&](const LoadFigures& f) {
                                    runs.push_back(f);
                                    std::fputs(load_line(setting, f).c_str(), stdout);
                                    std::fflush(stdout);
                                  },
                              .steps = [&](const StepFigures& f) { profile = f; }};
  const auto outcome = options.ports.empty() ? measure_memory(options, listener, interrupted)
                                             : measure_box(options, listener, interrupted);
  if (!outcome)
    return complain(outcome.error(), outcome.error().code == ErrorCode::kInvalidArgument ? kUsage : kFailed);
  if (profile) std::printf("\n%s", step_table(*profile).c_str());
  const bool json = perf::write_result_file("tally-bench", options.json,
                                            load_json(setting, runs, profile ? &*profile : nullptr));
  const bool csv = perf::write_result_file("tally-bench", options.csv, load_csv(setting, runs));
  const bool steps =
      !profile || perf::write_result_file("tally-bench", options.profile_csv, step_csv(*profile));
  if (!json || !csv || !steps) return kFailed;
  if (const std::uint64_t damaged = damaged_results(runs); damaged > 0 && !options.allow_damage) {
    std::fprintf(
        stderr,
        "tally-bench: DAMAGED RESULTS: %llu arrived with values that do not fit their sums, and were "
        "asked for again. Box, path or memory damage frames; --allow-damage if they were told to\n",
        static_cast<unsigned long long>(damaged));
    return kFailed;
  }
  if (*outcome == LoadOutcome::kGood) return 0;
  std::fprintf(stderr, "tally-bench: %s\n",
               *outcome == LoadOutcome::kDisturbed ? disturbed_text().c_str() : no_rate_text(runs).c_str());
  return kNoRate;
}

int run(int argc, char** argv) {
  const auto parsed = parse_load_options(argc, argv);
  if (!parsed) {
    complain(parsed.error(), kUsage);
    std::fputs("Try 'tally-bench --help'.\n", stderr);
    return kUsage;
  }
  if (const auto* help = std::get_if<LoadHelp>(&*parsed)) {
    std::fputs(help->text.c_str(), stdout);
    return 0;
  }
  std::atomic<bool> interrupted = false;
  perf::InterruptWatch watch([&interrupted](int signal) {
    if (interrupted.exchange(true)) _exit(128 + signal);  // the second one
  });
  const int code = measure(std::get<LoadOptions>(*parsed), interrupted);
  return watch.signal() != 0 ? 128 + watch.signal() : code;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  try {
    return tally::bench::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tally-bench: %s\n", e.what());
    return 1;
  }
}

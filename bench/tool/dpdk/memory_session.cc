// The data plane by itself: the rig of the loop benchmark, beside what its port and its additions cost alone,
// and its latency at a rate.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "load_machine.h"
#include "load_session.h"
#include "loop_rig.h"
#include "paced_port.h"
#include "profiled_rounds.h"
#include "scratch.h"
#include "session_parts.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>

namespace tally::bench {
namespace {

constexpr double kTurnsOfARound = 2;  // the first one warms up

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

RigOptions rig_of(const LoadOptions& options, RigOptions::Runs runs) {
  return {.job = {.world = static_cast<std::uint8_t>(options.workers),
                  .elements = options.elements,
                  .results = options.multicast ? ResultsMode::kMulticast : ResultsMode::kUnicast},
          .runs = runs};
}

LoadFigures median_of(const char* name, std::vector<std::pair<double, std::uint64_t>>& rounds) {
  std::ranges::sort(rounds, {}, [](const auto& r) { return r.first / static_cast<double>(r.second); });
  const auto [seconds, operations] = rounds[rounds.size() / 2];
  LoadFigures f{.name = name, .seconds = seconds, .sent = operations};
  f.cycles_per_packet = seconds * static_cast<double>(rte_get_tsc_hz()) / static_cast<double>(operations);
  return f;
}

class MemorySession {
 public:
  MemorySession(const LoadOptions& options, const LoadListener& listener,
                const std::atomic<bool>& interrupted)
      : options_(options),
        listener_(listener),
        interrupted_(interrupted),
        add_(rig_of(options, RigOptions::Runs::kRawAdd), "add", scratch_.path()),
        port_(rig_of(options, RigOptions::Runs::kPortAlone), "port", scratch_.path()),
        loop_(rig_of(options, RigOptions::Runs::kDataPlane), "loop", scratch_.path()) {
    if (options.profile)
      profiled_ = std::make_unique<ProfiledRounds>(rig_of(options, RigOptions::Runs::kDataPlane), "steps",
                                                   scratch_.path());
  }

  // Nothing can be cut short between two turns of the ring, so one round must fit into --seconds.
  [[nodiscard]] Result<void> fits() const {
    if (options_.rate.kind != LoadRate::Kind::kFixed) return {};
    const double least = kTurnsOfARound * static_cast<double>(loop_.ring_frames()) / options_.seconds;
    if (options_.rate.per_s >= least) return {};
    return fail(ErrorCode::kInvalidArgument,
                "two turns of the ring, " + std::to_string(loop_.ring_frames()) +
                    " frames each, take longer than --seconds at this rate: ask for " +
                    std::to_string(static_cast<std::uint64_t>(std::ceil(least))) + " or more",
                "--rate");
  }

  Result<LoadOutcome> measure() {
    const auto most = alone();
    if (!most) return tl::unexpected(most.error());
    const bool fixed = options_.rate.kind == LoadRate::Kind::kFixed;
    return at_rate(fixed ? "rate" : "50 % load", fixed ? options_.rate.per_s : *most / 2);
  }

 private:
  // In turn, for comparisons. The rate of the loop.
  Result<double> alone() {
    std::vector<std::pair<double, std::uint64_t>> add, port, loop;
    const auto start = SteadyClock::now();
    do {
      if (interrupted_) return fail(ErrorCode::kClosed, "interrupted");
      add.push_back(undisturbed(add_));
      port.push_back(undisturbed(port_));
      loop.push_back(undisturbed(loop_));
      if (profiled_ != nullptr) static_cast<void>(undisturbed(*profiled_));
    } while (seconds_since(start) < options_.warm_up_s + options_.seconds);
    // The first rounds warm up.
    for (auto* rounds : {&add, &port, &loop})
      if (rounds->size() > 4) rounds->erase(rounds->begin(), rounds->begin() + 2);
    listener_.run(median_of("raw add", add));
    listener_.run(median_of("port alone", port));
    LoadFigures f = median_of("max", loop);
    f.received = options_.multicast ? f.sent / options_.workers : f.sent;  // as the rig has checked
    f.busy = 1;
    listener_.run(f);
    if (profiled_ != nullptr) listener_.steps(profiled_->figures(1e9 / f.sent_per_s()));
    return f.sent_per_s();
  }

  Result<LoadOutcome> at_rate(const char* name, double rate) {
    static_cast<void>(loop_.round());  // at full speed: a round at the rate may take all of --seconds
    PacedPort port(loop_.ethdev(), loop_.ring_frames(), options_.workers, rate, interrupted_);
    const io::CoreStatistics& core = loop_.plane()->statistics(0);
    const std::uint64_t frames = core.frames_in.get(), out = core.frames_out.get(),
                        busy = core.busy_cycles.get();
    const auto start = SteadyClock::now();
    do {
      if (interrupted_) return fail(ErrorCode::kClosed, "interrupted");
      static_cast<void>(loop_.round());
    } while (seconds_since(start) < options_.seconds);
    const LatencyHistogram& h = port.latency();
    LoadFigures f{
        .name = name,
        .asked = rate,
        .seconds = static_cast<double>(port.arriving()) / 1e9,
        .sent = core.frames_in.get() - frames,
        .received = core.frames_out.get() - out,
        .latency = {h.count(), h.percentile(0.5), h.percentile(0.99), h.percentile(0.999), h.max()}};
    const auto cycles = static_cast<double>(core.busy_cycles.get() - busy);
    f.busy = std::min(1.0, cycles / static_cast<double>(rte_get_tsc_hz()) / f.seconds);
    f.cycles_per_packet = cycles / static_cast<double>(f.sent);
    listener_.run(f);
    return LoadOutcome::kGood;
  }

  const LoadOptions& options_;
  const LoadListener& listener_;
  const std::atomic<bool>& interrupted_;
  Scratch scratch_;
  LoopRig add_, port_, loop_;
  std::unique_ptr<ProfiledRounds> profiled_;  // null: not asked for
};

}  // namespace

Result<LoadOutcome> measure_memory(const LoadOptions& options, const LoadListener& listener,
                                   const std::atomic<bool>& interrupted) {
  const auto eal = start_load_eal("tally-bench", {}, options.memory_mib, true);
  if (!eal) return tl::unexpected(eal.error());
  if (auto pinned = pin_to(options.cpu); !pinned) return tl::unexpected(pinned.error());
  LoadSetting setting = common_setting(options, eal->hugepages());
  setting.job = "in this process";
  setting.checked = LoadSetting::Checked::kHeaders;
  setting.window = kBenchWindow;
  setting.mtu =
      static_cast<std::uint16_t>(Traffic::kHeaders + 4U * options.elements - sizeof(EthernetHeader));
  if (!eal->hugepages())
    setting.warnings.emplace_back("no hugepages: every frame costs a walk of the page table");
  MemorySession session(options, listener, interrupted);
  if (auto fits = session.fits(); !fits) return tl::unexpected(fits.error());
  listener.begin(setting);
  return session.measure();
}

}  // namespace tally::bench

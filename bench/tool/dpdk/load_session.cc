#include "load_session.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "load_frames.h"
#include "load_generator.h"
#include "load_port.h"
#include "load_rate.h"
#include "random/random.h"

#include <rte_version.h>

namespace tally::bench {

LoadSetting common_setting(const LoadOptions& options, bool hugepages) {
  LoadSetting s{.machine = perf::read_machine(),
                .dpdk = rte_version(),
                .ports = "in-memory port",
                .workers = options.workers,
                .elements = options.elements,
                .mtu = options.mtu,
                .multicast = options.multicast,
                .format = options.format,
                .hugepages = hugepages,
                .cpu = options.cpu ? *options.cpu : -1,
                .ceiling = options.ceiling,
                .deadline_ms = static_cast<double>(options.deadline) / 1e6};
  if (s.machine.cores < 2 && !options.ports.empty())
    s.warnings.emplace_back("generator and box share the only CPU: the figures say nothing of the box");
  if (!options.cpu) s.warnings.emplace_back("this thread runs where the kernel puts it (--cpu)");
  return s;
}

// A running tallyd, measured from outside.

namespace {

LoadSetting setting_of(const LoadOptions& options, const LoadGenerator& generator, bool hugepages) {
  const engine::Membership& job = generator.membership();
  LoadSetting s = common_setting(options, hugepages);
  if (!options.echo) s.job = options.job;
  if (options.echo) s.checked = LoadSetting::Checked::kNothing;
  s.ports.clear();
  for (const auto& port : generator.ports()) s.ports += (s.ports.empty() ? "" : " ") + port->name();
  s.elements = static_cast<std::uint16_t>(job.elements);
  s.window = job.window;
  s.multicast = job.results == ResultsMode::kMulticast;
  s.ipv6 = options.box.find(':') != std::string::npos;
  for (const auto& port : generator.ports())
    s.line_rate += options.line_rate > 0 ? options.line_rate : port->line_rate();
  if (options.box_pid && options.cpu && shares_cpu(*options.box_pid, *options.cpu))
    s.warnings.push_back("a data core of the box has the generator's CPU " + std::to_string(*options.cpu));
  if (job.elements < options.elements)
    s.warnings.push_back("the job has at most " + std::to_string(job.elements) +
                         " elements per packet, not " + std::to_string(options.elements));
  return s;
}

TrialOutcome outcome_of(const LoadFigures& f) noexcept {
  if (f.disturbed()) return TrialOutcome::kDisturbed;
  return f.carried() ? TrialOutcome::kCarried : TrialOutcome::kNotCarried;
}

class BoxSession {
 public:
  BoxSession(const LoadOptions& options, const LoadListener& listener, LoadGenerator& generator) noexcept
      : options_(options), listener_(listener), generator_(generator) {}

  Result<LoadOutcome> measure() {
    if (options_.rate.kind == LoadRate::Kind::kSearch) return search();
    const bool fixed = options_.rate.kind == LoadRate::Kind::kFixed;
    if (auto f = run(fixed ? "rate" : "max", options_.rate.per_s, options_.seconds); !f)
      return tl::unexpected(f.error());
    return LoadOutcome::kGood;
  }

 private:
  Result<LoadFigures> run(const char* name, double rate, double seconds) {
    auto f = generator_.run(rate, options_.warm_up_s, seconds);
    if (!f) return f;
    f->name = name;
    listener_.run(*f);
    return f;
  }

  Result<LoadOutcome> search() {
    auto most = run("max", 0, options_.trial_s);
    if (!most) return tl::unexpected(most.error());
    RateSearch search(most->sent_per_s(), options_.resolution);
    while (const auto rate = search.trial()) {
      const auto f = run("trial", *rate, options_.trial_s);
      if (!f) return tl::unexpected(f.error());
      search.trial_was(outcome_of(*f));
    }
    while (const auto rate = search.final_rate()) {
      const auto f = run("final", *rate, options_.seconds);
      if (!f) return tl::unexpected(f.error());
      search.final_was(outcome_of(*f));
    }
    if (search.gave_up()) return LoadOutcome::kDisturbed;
    return search.found() ? LoadOutcome::kGood : LoadOutcome::kNoRate;
  }

  const LoadOptions& options_;
  const LoadListener& listener_;
  LoadGenerator& generator_;
};

}  // namespace

Result<LoadOutcome> measure_box(const LoadOptions& options, const LoadListener& listener,
                                const std::atomic<bool>& interrupted) {
  const std::uint64_t seed = random::word();
  auto places = worker_places(options.box, options.address, options.workers, seed);
  if (!places) return tl::unexpected(places.error());
  const auto devices = parse_load_devices(options.ports, options.mtu);
  if (!devices) return tl::unexpected(devices.error());
  const auto eal = start_load_eal("tally-bench", *devices, options.memory_mib);
  if (!eal) return tl::unexpected(eal.error());
  if (auto pinned = pin_to(options.cpu); !pinned) return tl::unexpected(pinned.error());
  std::vector<std::unique_ptr<LoadPort>> ports;
  for (const dpdk_transport::WorkerDevice& device : *devices) {
    auto port = LoadPort::open(device, options.mtu, ports.size());
    if (!port) return tl::unexpected(port.error());
    ports.push_back(std::move(*port));
  }
  LoadGenerator generator({.job = options.job,
                           .token = options.token,
                           .addresses = std::move(*places),
                           .elements = options.elements,
                           .lower = !options.elements_given,
                           .format = options.format,
                           .mtu = options.mtu,
                           .join_timeout = options.join_timeout,
                           .deadline = options.deadline,
                           .seed = seed,
                           .echo_window = options.echo ? options.window : 0,
                           .box_pid = options.box_pid},
                          std::move(ports), interrupted);
  Result<LoadOutcome> outcome = LoadOutcome::kGood;
  if (auto joined = generator.join(); !joined) {
    outcome = tl::unexpected(joined.error());
  } else {
    listener.begin(setting_of(options, generator, eal->hugepages()));
    outcome = BoxSession(options, listener, generator).measure();
  }
  generator.leave();
  while (options.hold && outcome && std::getchar() != EOF) {
  }
  return outcome;
}

}  // namespace tally::bench

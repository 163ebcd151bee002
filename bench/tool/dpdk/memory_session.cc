// The data plane by itself: the rig of the loop benchmark, beside what its port and its additions cost alone,
// and its latency at a rate.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/core_time.h"
#include "latency_histogram.h"
#include "load_port.h"
#include "load_session.h"
#include "loop_rig.h"
#include "memory_port.h"
#include "pipeline/reply.h"
#include "start.h"
#include "tally/time.h"
#include "traffic.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

namespace tally::bench {
namespace {

// Arrivals at the in-memory port at a rate, as from a link, and how long each result takes. Stands in front
// of the burst functions of a MemoryPort: a frame is there from the moment on at which it would have arrived,
// however late the data core asks for it.
class PacedPort {
 public:
  // ethdev: with a MemoryPort in place, whose ring holds `frames`, of a job of `world` members whose last one
  // is the last to contribute. hurry: any thread may set it; all frames are there at once from then on. One
  // thread; the MemoryPort outlives this.
  PacedPort(std::uint16_t ethdev, std::uint64_t frames, std::uint16_t world, double rate,
            const std::atomic<bool>& hurry);
  PacedPort(const PacedPort&) = delete;
  PacedPort& operator=(const PacedPort&) = delete;

  // From the arrival of a chunk's last contribution to the transmission of each of its results.
  [[nodiscard]] LatencyHistogram& latency() noexcept { return latency_; }
  // In which frames were arriving: between two turns of the ring nothing does.
  [[nodiscard]] TimeNs arriving() const noexcept { return arriving_; }

 private:
  std::uint16_t receive(rte_mbuf** frames, std::uint16_t count) noexcept;
  std::uint16_t transmit(rte_mbuf** frames, std::uint16_t count) noexcept;

  static constexpr std::size_t kUnderWay = 8192;  // chunks, as Traffic's

  std::uint64_t ring_;
  std::uint16_t last_rank_;
  double ns_per_frame_;
  const std::atomic<bool>& hurry_;
  io::CoreClock clock_;
  TimeNs start_ = 0;         // of this turn of the ring
  std::uint64_t taken_ = 0;  // of it
  std::vector<TimeNs> complete_;
  TimeNs arriving_ = 0;
  LatencyHistogram latency_;
  BurstDetour detour_;  // last: frames come from then on
};

constexpr std::size_t kDatagram = Traffic::kHeaders - kHeaderBytes;

PacedPort::PacedPort(std::uint16_t ethdev, std::uint64_t frames, std::uint16_t world, double rate,
                     const std::atomic<bool>& hurry)
    : ring_(frames),
      last_rank_(static_cast<std::uint16_t>(world - 1)),
      ns_per_frame_(1e9 / rate),
      hurry_(hurry),
      taken_(frames),
      complete_(kUnderWay),
      detour_(
          ethdev,
          [](void* port, rte_mbuf** m, std::uint16_t count) {
            return static_cast<PacedPort*>(port)->receive(m, count);
          },
          [](void* port, rte_mbuf** m, std::uint16_t count) {
            return static_cast<PacedPort*>(port)->transmit(m, count);
          },
          this) {}

std::uint16_t PacedPort::receive(rte_mbuf** frames, std::uint16_t count) noexcept {
  const TimeNs now = clock_.now();
  if (taken_ == ring_) {  // a new turn of the ring was prepared meanwhile
    taken_ = 0;
    start_ = now;
  }
  const bool hurry = hurry_.load(std::memory_order_relaxed);
  const auto arrived =
      hurry ? ring_ : static_cast<std::uint64_t>(static_cast<double>(now - start_) / ns_per_frame_);
  if (arrived <= taken_) return 0;
  const std::uint64_t there = std::min(arrived, ring_) - taken_;
  count = detour_.receive(frames, static_cast<std::uint16_t>(std::min<std::uint64_t>(count, there)));
  for (std::uint16_t i = 0; i < count; ++i) {
    const Header h = pipeline::header_at(rte_pktmbuf_mtod(frames[i], const std::byte*) + kDatagram);
    if (h.rank.host() != last_rank_) continue;
    complete_[raw(h.chunk_id()) % kUnderWay] =
        start_ + static_cast<TimeNs>(static_cast<double>(taken_ + i + 1) * ns_per_frame_);
  }
  taken_ += count;
  if (taken_ == ring_) arriving_ += now - start_;
  return count;
}

std::uint16_t PacedPort::transmit(rte_mbuf** frames, std::uint16_t count) noexcept {
  const TimeNs now = clock_.now();
  for (std::uint16_t i = 0; i < count; ++i) {
    const rte_mbuf* const m = frames[i];
    const std::byte* const datagram = m->nb_segs == 1 ? rte_pktmbuf_mtod(m, const std::byte*) + kDatagram
                                                      : rte_pktmbuf_mtod(m->next, const std::byte*);
    const TimeNs complete = complete_[raw(pipeline::header_at(datagram).chunk_id()) % kUnderWay];
    if (complete != 0) latency_.record(now > complete ? now - complete : 0);
  }
  return detour_.transmit(frames, count);
}

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
    const io::CoreStatistics& core = loop_.plane()->core(0).statistics;
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

#include "virtual_rack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "jobs.h"
#include "tally/mix64.h"

namespace tally::bench {
namespace {

constexpr TimeNs kGiveUp = 1'000 * kSecond;
constexpr std::size_t kUdpOffset = 34;

}  // namespace

Rack::Rack(const RackOptions& options, std::function<void(std::uint32_t)> heard)
    : options_(options),
      heard_(std::move(heard)),
      clock_(kGiveUp),
      workload_(options.seed, 0, 1),
      lines_(clock_.schedule(), beside(options.beside), options.hop) {
  make_box();
  make_workers();
}

void Rack::make_box() {
  members::NativeConfig config;
  config.name = "job";
  config.workers = static_cast<std::uint16_t>(options_.workers);
  config.elements = options_.elements;
  config.window = options_.window;
  sim::SwitchOptions options;
  options.cores = options_.box_cores;
  options.watched = false;
  options.slot_lines = 2 * options_.window * jobs::entry_lines(options_.elements);
  options.jobs = {config};
  box_ = std::make_unique<sim::SwitchNode>(
      clock_.schedule(), mix64(options_.seed), options,
      [this](const jobs::Binding& to, Bytes frame) {
        const std::uint32_t worker = raw(to.port);
        const std::array way{Lines::Hop{down(worker), wire_ns(static_cast<double>(frame.size() + kFraming))}};
        lines_.send(way, [this, worker, frame = std::move(frame)] {
          workers_[worker]->receive(frame);
          heard_(worker);
        });
      },
      [this](std::string what) { clock_.alarm(std::move(what)); });
}

void Rack::make_workers() {
  for (std::uint32_t w = 0; w < options_.workers; ++w) {
    sim::WorkerOptions options;
    options.index = w;
    options.job = "job";
    options.rank = Rank{static_cast<std::uint16_t>(w)};
    options.world = static_cast<std::uint16_t>(options_.workers);
    options.elements = options_.elements;
    options.binding = test_binding(1, static_cast<std::uint16_t>(w));
    options.binding.port = PortIndex{static_cast<std::uint16_t>(w)};
    options.rto_floor = engine::kAdaptiveRtoFloor;
    options.backlog = backlog();
    workers_.push_back(std::make_unique<sim::WorkerNode>(
        clock_.schedule(), mix64(options_.seed + 100 + w), options, workload_, agreement_,
        [this](std::size_t from, Bytes frame) {
          return to_box(static_cast<std::uint32_t>(from), std::move(frame));
        },
        [this](std::string what) { clock_.alarm(std::move(what)); }));
  }
}

// To the core that its UDP port names.
TimeNs Rack::to_box(std::uint32_t from, Bytes frame) {
  Be<std::uint16_t> port;
  std::memcpy(&port, frame.data() + kUdpOffset + 2, sizeof port);
  const std::size_t shard = static_cast<std::uint16_t>(port.host() - kBasePort) % options_.box_cores;
  const auto bytes = static_cast<double>(frame.size());
  const std::array way{Lines::Hop{up(from), wire_ns(bytes + kFraming)},
                       Lines::Hop{core(shard), options_.box_packet_ns + options_.box_byte_ns * bytes}};
  return lines_.send(way, [this, from, frame = std::move(frame)] {
    box_->receive(frame, PortIndex{static_cast<std::uint16_t>(from)}, true);
  });
}

Result<void> Rack::join() {
  for (auto& worker : workers_) worker->start();
  const auto all_run = [this] {
    return std::all_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->engine_running(); });
  };
  if (!clock_.until(all_run)) return clock_.stuck("they do not all join");
  return {};
}

Result<TimeNs> Rack::finish(std::span<const engine::OperationId> ids, TimeNs begin) {
  for (auto& worker : workers_) worker->resume_service();
  const auto done = [&] {
    for (std::size_t w = 0; w < ids.size(); ++w)
      if (workers_[w]->outcome(ids[w]) == nullptr) return false;
    return true;
  };
  if (!clock_.until(done)) return clock_.stuck("a sum does not end");
  TimeNs end = begin;
  for (std::size_t w = 0; w < ids.size(); ++w) {
    const Result<OperationStats>& of = *workers_[w]->outcome(ids[w]);
    if (!of) return tl::unexpected<Error>(of.error());
    end = std::max(end, of->finished);
  }
  return end - begin;
}

std::uint64_t Rack::sent_again() const {
  std::uint64_t again = 0;
  for (const auto& worker : workers_) again += worker->engine().statistics().retransmissions;
  return again;
}

}  // namespace tally::bench

#include "routed_run.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "clock.h"
#include "host_stack.h"
#include "jobs.h"
#include "packets.h"
#include "planning/published.h"
#include "server_node.h"
#include "switch_node.h"
#include "tally/mix64.h"
#include "worker_node.h"

namespace tally::routes {
namespace {

constexpr std::uint16_t kElements = experiment::kElements;

// What all ranks have in common, and what is the rank's own; sums stay exact.
constexpr std::uint32_t common(std::uint32_t i, std::uint32_t salt) { return (i * 2654435761U + salt) >> 12; }
constexpr std::uint32_t own(std::uint32_t i) { return i & 0x3FF; }

jobs::Binding server_binding(std::size_t i, std::size_t endpoint) {
  jobs::Binding b;
  b.address = mapped({10, 0, 200, static_cast<std::uint8_t>(i + 1)});
  b.mac = {2, 5, 0, 0, 0, static_cast<std::uint8_t>(i)};
  b.udp_port = 50'000;
  b.port = PortIndex{static_cast<std::uint16_t>(endpoint)};
  return b;
}

class Run {
 public:
  Run(const planner::Topology& topology, planner::Ways& ways, const planner::Job& job, const Laid& laid,
      const Conditions& conditions)
      : topology_(topology),
        job_(job),
        conditions_(conditions),
        workload_(conditions.seed, 0, 1),
        clock_(conditions.give_up),
        fabric_(clock_.schedule(), topology, ways, laid.spread,
                {conditions.hop, conditions.results, conditions.spreading}) {}

  Result<Measured> go(const Laid& laid) {
    if (const auto told = tell(laid); !told) return tl::unexpected<Error>(told.error());
    make_ends();
    make_boxes();
    make_hosts();
    fabric_.connect([this](const End& to, const Bytes& frame) { arrive(to, frame); });
    for (auto& worker : workers_) worker->start();
    for (auto& server : servers_) server->start();
    const auto all_run = [this] {
      return std::all_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->engine_running(); });
    };
    if (!clock_.until(all_run)) return clock_.stuck("they do not all join");
    if (const auto warm = operation(kWarmUp); !warm) return tl::unexpected<Error>(warm.error());
    fabric_.forget();
    return operation(conditions_.chunks);
  }

 private:
  Result<void> tell(const Laid& laid) {
    for (Index box = 0; box < topology_.boxes().size(); ++box)
      addresses_.push_back(mapped(test_box(static_cast<std::uint8_t>(box)).ipv4));
    std::vector<Index> racks;
    for (const Index host : job_.workers) racks.push_back(topology_.hosts()[host].rack);
    auto plan = planning::published(topology_, laid.tables,
                                    {addresses_, racks, static_cast<std::uint8_t>(job_.servers.size())});
    if (!plan) return tl::unexpected<Error>(plan.error());
    plan_ = std::move(*plan);
    return {};
  }

  void make_ends() {
    const auto host = [this](End::Kind kind, std::size_t number, Index at) {
      const planner::Host& it = topology_.hosts()[at];
      return End{.kind = kind, .number = number, .at = it.rack, .up = it.up, .down = it.down};
    };
    for (std::size_t w = 0; w < job_.workers.size(); ++w)
      endpoints_.push_back(host(End::Kind::kWorker, w, job_.workers[w]));
    for (std::size_t s = 0; s < job_.servers.size(); ++s) {
      endpoints_.push_back(host(End::Kind::kServer, s, topology_.servers()[job_.servers[s]].host));
      endpoints_.back().index = job_.servers[s];
    }
    for (Index box = 0; box < topology_.boxes().size(); ++box)
      boxes_at_.push_back(
          {.kind = End::Kind::kBox, .number = box, .at = topology_.boxes()[box].at, .index = box});
  }

  // Their bindings say the number of the endpoint where they would name a port.
  void make_boxes() {
    members::NativeConfig config;
    config.name = "job";
    config.workers = static_cast<std::uint16_t>(job_.workers.size());
    config.elements = kElements;
    config.window = conditions_.window;
    config.discipline = Discipline::kShared;
    config.server = ServerKind::kExternal;
    config.servers = static_cast<std::uint8_t>(job_.servers.size());
    config.boxes.emplace();
    config.boxes->addresses = addresses_;
    for (std::size_t i = 0; i < boxes_at_.size(); ++i) {
      sim::SwitchOptions options;
      options.self = test_box(static_cast<std::uint8_t>(i));
      options.watched = false;
      options.shared_entries = conditions_.window;
      options.shared_elements = kElements;
      options.plans = [this](const members::PlanRequest& request) {
        if (!members::fits(plan_, request)) clock_.alarm("the plan does not fit what is asked for");
        return plan_;
      };
      config.boxes->here = static_cast<BoxIndex>(i);
      options.jobs = {config};
      boxes_.push_back(std::make_unique<sim::SwitchNode>(
          clock_.schedule(), mix64(conditions_.seed + 1'000 + i), options,
          [this, i](const jobs::Binding& to, Bytes frame) {
            fabric_.send(boxes_at_[i], endpoints_.at(raw(to.port)), std::move(frame), false);
          },
          [this](std::string what) { clock_.alarm(std::move(what)); }));
      known_.push_back(options.self);
    }
  }

  void make_hosts() {
    const auto send = [this](std::size_t from, Bytes frame) {
      const Ipv6 to = sim::destination_of(frame);
      const auto box =
          static_cast<std::size_t>(std::find(addresses_.begin(), addresses_.end(), to) - addresses_.begin());
      const bool sums = is_summed(frame);
      return fabric_.send(endpoints_[from], boxes_at_.at(box), std::move(frame), sums);
    };
    const auto alarm_here = [this](std::string what) { clock_.alarm(std::move(what)); };
    for (std::size_t w = 0; w < job_.workers.size(); ++w) {
      sim::WorkerOptions options;
      options.index = w;
      options.job = "job";
      options.rank = Rank{static_cast<std::uint16_t>(w)};
      options.world = static_cast<std::uint16_t>(job_.workers.size());
      options.elements = kElements;
      options.binding = test_binding(1, static_cast<std::uint16_t>(w));
      options.binding.port = PortIndex{static_cast<std::uint16_t>(w)};
      options.boxes = known_;
      options.rto_floor = conditions_.rto_floor;
      options.backlog = 16 * 7'300;  // the least that a transport lets wait, full packets at 10 Gbit/s
      workers_.push_back(std::make_unique<sim::WorkerNode>(clock_.schedule(),
                                                           mix64(conditions_.seed + 100 + w), options,
                                                           workload_, agreement_, send, alarm_here));
    }
    for (std::size_t s = 0; s < job_.servers.size(); ++s) {
      sim::ServerOptions options;
      options.index = job_.workers.size() + s;
      options.jobs.push_back({"job", "", static_cast<std::uint8_t>(s)});
      options.elements = kElements;
      options.states = 4 * conditions_.window;
      options.binding = server_binding(s, options.index);
      options.boxes = known_;
      servers_.push_back(std::make_unique<sim::ServerNode>(
          clock_.schedule(), mix64(conditions_.seed + 200 + s), options, send, alarm_here));
    }
  }

  // Contributions that the plan has the box add up take of its rate.
  [[nodiscard]] bool is_summed(const Bytes& frame) const {
    const Header header = header_of(std::span{frame}.subspan(experiment::kOuterBytes));
    return header.type == PacketType::kContribute && !plan_.route(header.rank_id(), header.chunk_id()).direct;
  }

  void arrive(const End& to, const Bytes& frame) {
    switch (to.kind) {
      case End::Kind::kBox:
        return boxes_[to.number]->receive(frame, port_of(sim::source_of(frame)), true);
      case End::Kind::kWorker:
        return workers_[to.number]->receive(frame);
      case End::Kind::kServer:
        return servers_[to.number]->receive(frame);
    }
  }

  [[nodiscard]] PortIndex port_of(const Ipv6& source) const {
    for (const auto& worker : workers_)
      if (worker->options().binding.address == source) return worker->options().binding.port;
    for (const auto& server : servers_)
      if (server->options().binding.address == source) return server->options().binding.port;
    return PortIndex{0};
  }

  // All workers begin at once.
  Result<Measured> operation(std::uint32_t chunks) {
    const std::uint32_t salt = chunks * 0x9E37U;
    const TimeNs begin = clock_.now();
    std::vector<std::vector<std::int32_t>> values(workers_.size());
    std::vector<engine::OperationId> ids;
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      values[w].resize(std::size_t{chunks} * kElements);
      for (std::uint32_t i = 0; i < values[w].size(); ++i)
        values[w][i] = static_cast<std::int32_t>(common(i, salt) + static_cast<std::uint32_t>(w) * own(i));
      const auto id = workers_[w]->engine().allreduce(std::span{values[w]}, begin);
      if (!id) return tl::unexpected<Error>(id.error());
      ids.push_back(*id);
    }
    for (auto& worker : workers_) worker->resume_service();
    const auto done = [&] {
      for (std::size_t w = 0; w < workers_.size(); ++w)
        if (workers_[w]->outcome(ids[w]) == nullptr) return false;
      return true;
    };
    if (!clock_.until(done)) return clock_.stuck("an operation does not end");
    Measured out;
    const auto n = static_cast<std::uint32_t>(workers_.size());
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      const Result<OperationStats>& result = *workers_[w]->outcome(ids[w]);
      if (!result) return tl::unexpected<Error>(result.error());
      out.time = std::max(out.time, result->finished - begin);
      for (std::uint32_t i = 0; i < values[w].size(); ++i)
        out.wrong +=
            values[w][i] != static_cast<std::int32_t>(n * common(i, salt) + n * (n - 1) / 2 * own(i)) ? 1 : 0;
    }
    out.rate = 8.0 * experiment::kFullPacketBytes * chunks / static_cast<double>(out.time);
    count(out);
    return out;
  }

  void count(Measured& out) {
    for (const auto& worker : workers_) {
      const EngineStatistics& s = worker->engine().statistics();
      out.again += s.retransmissions;
      out.early += s.early;
      out.queries += s.queries;
    }
    for (const auto& server : servers_) out.flushes += server->counted().flushes + server->counted().resends;
    for (const auto& box : boxes_) out.denied += box->shared_counters(JobId{1}).denied;
    const planner::Rates rates = topology_.rates();
    for (std::size_t r = 0; r < rates.size(); ++r) {
      const Fabric::Use& use = fabric_.uses()[r];
      out.waited = std::max(out.waited, use.waited / 1e3);
      if (rates[r] > 0)
        out.fullest = std::max(out.fullest, use.bits / rates[r] / static_cast<double>(out.time));
    }
    out.events = clock_.schedule().events();
  }

  const planner::Topology& topology_;
  const planner::Job& job_;
  Conditions conditions_;
  sim::Workload workload_;
  bench::Clock clock_;
  sim::Agreement agreement_;
  Fabric fabric_;
  Plan plan_;
  std::vector<Ipv6> addresses_;   // of boxes
  std::vector<jobs::Box> known_;  // likewise
  std::vector<End> endpoints_;    // workers, then servers
  std::vector<End> boxes_at_;
  std::vector<std::unique_ptr<sim::SwitchNode>> boxes_;
  std::vector<std::unique_ptr<sim::WorkerNode>> workers_;
  std::vector<std::unique_ptr<sim::ServerNode>> servers_;
};

}  // namespace

Result<Measured> run(const planner::Topology& topology, planner::Ways& ways, const planner::Job& job,
                     const Laid& laid, const Conditions& conditions) {
  return Run(topology, ways, job, laid, conditions).go(laid);
}

}  // namespace tally::routes

#include "daemon/box_start.h"

#include <sys/sysinfo.h>
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "config/checks.h"
#include "config/impair_section.h"
#include "config/units.h"
#include "dpdk/flow_rules.h"
#include "kernels/kernels.h"
#include "random/random.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

// What drivers call an error and is none here. memif and tap complain of a service for secondary processes
// that EAL has switched off, as we asked it to; tap of the flow rules that its interface has no queueing for.
constexpr std::array<std::string_view, 6> kNoise{
    "Failed to register mp action callback", "Failed to send start req to secondary",
    "Specified qdisc kind is unknown",       "qdisc_create_multiq(): Could not add multiq qdisc",
    "failed to create multiq qdisc",         "Disabling rte flow support"};

void log_dpdk(const LogSink& log, std::uint32_t level, std::string_view line) {
  const bool noise = std::ranges::any_of(
      kNoise, [&](std::string_view words) { return line.find(words) != std::string_view::npos; });
  log(noise ? LogLevel::kDebug : level_of_dpdk(level), line);
}

}  // namespace

Result<void> check_memory(const config::DataplaneSection& dataplane) {
  struct sysinfo machine {};
  if (dataplane.memory <= dpdk::hugepages_of().free_bytes || sysinfo(&machine) != 0) return {};
  const std::uint64_t all = std::uint64_t{machine.totalram} * machine.mem_unit;
  if (dataplane.memory < all) return {};
  return fail(ErrorCode::kInvalidArgument,
              config::size_text(dataplane.memory) + " is more than the " + config::rough_size(all) +
                  " of this machine: lower it (the demo takes 256MiB)",
              "dataplane.memory");
}

namespace {

Result<std::vector<io::BoxPort>> open_ports(const config::Config& config,
                                            const std::vector<rte_mempool*>& frames) {
  std::vector<io::BoxPort> ports;
  ports.reserve(config.ports.size());
  for (const config::PortSection& section : config.ports) {
    auto port = dpdk::Port::open(port_options(config, section), frames[ports.size()]);
    if (!port) return tl::unexpected<Error>(std::move(port.error()));
    ports.push_back({std::move(*port), impair_options(section)});
  }
  return ports;
}

}  // namespace

Result<StartedBox> StartedBox::start(const config::Config& config, const LogSink& log) {
  if (auto fits = check_memory(config.dataplane); !fits)
    return tl::unexpected<Error>(std::move(fits.error()));
  auto eal = dpdk::Eal::start(
      eal_options(config), [log](std::uint32_t level, std::string_view line) { log_dpdk(log, level, line); });
  if (!eal) return tl::unexpected<Error>(std::move(eal.error()));
  auto owned_eal = std::make_unique<dpdk::Eal>(std::move(*eal));

  io::DataPlaneOptions options = plane_options(config);
  options.key = random::word();
  dpdk::PoolDemand demand = pool_demand(config, options);
  for (std::size_t c = 0; c < demand.cores.size(); ++c) demand.cores[c] = dpdk::Eal::node(c);
  const dpdk::PoolPlans plans = dpdk::plan_pools(demand);
  for (const auto* all : {&plans.frames, &plans.heads})
    for (const dpdk::PoolPlan& plan : *all) log(LogLevel::kDebug, "packet buffers " + dpdk::explain(plan));
  auto pools = dpdk::make_pools(plans, "tally");
  if (!pools) return tl::unexpected<Error>(std::move(pools.error()));
  auto ports = open_ports(config, pools->frames);
  if (!ports) return tl::unexpected<Error>(std::move(ports.error()));
  steer_ports(config, *ports, log);
  auto plane = io::DataPlane::create(options, std::move(*pools), std::move(*ports), kernels::best_kernels());
  if (!plane) return tl::unexpected<Error>(std::move(plane.error()));
  StartedBox box(std::move(owned_eal), std::move(*plane));
  if (auto started = box.plane().start(); !started) return tl::unexpected<Error>(std::move(started.error()));
  return box;
}

StartedBox::~StartedBox() {
  if (plane_ != nullptr) plane_->stop();
}

Result<members::MembershipEngine> start_members(const config::Config& config, members::PlanSource plans) {
  members::MembershipOptions options = config::member_options(config);
  options.plans = std::move(plans);
  options.calendar = unix_now() - steady_now();
  members::MembershipEngine engine(options, random::word);
  for (const config::JobConfig& job : config.jobs) {
    if (auto id = engine.declare(job); !id) return tl::unexpected<Error>(std::move(id.error()));
  }
  return engine;
}

namespace {

// What the workers behind a port may have in flight. Nobody says how many there are: behind a port of an inline box
// too there may be a switch, with all of them. What that costs is bounded (device::kMostForBursts).
std::uint32_t burst_of(const config::Config& config) {
  std::uint32_t all = 0;
  for (const config::JobConfig& job : config.jobs) {
    const std::uint32_t each = jobs::with_dialect(job, [](const auto& any) { return any.in_flight(); });
    all += each * members::common_of(job).workers;
  }
  return all;
}

}  // namespace

dpdk::EalOptions eal_options(const config::Config& config) {
  dpdk::EalOptions options{.instance = config.instance,
                           .cores = config.dataplane.cores,
                           .memory_bytes = config.dataplane.memory,
                           .hugepages = config.dataplane.hugepages,
                           .extra = config.dataplane.eal};
  for (const config::PortSection& port : config.ports) {
    if (port.device.kind == device::DeviceKind::kPci) options.pci.push_back(port.device.text);
  }
  return options;
}

dpdk::PortOptions port_options(const config::Config& config, const config::PortSection& port) {
  return {.name = port.name,
          .device = port.device.text,
          .pci = port.device.kind == device::DeviceKind::kPci,
          .mtu = port.mtu,
          .receive_queues = port.queues,
          .transmit_queues = static_cast<std::uint16_t>(config.dataplane.cores.size()),
          .burst = burst_of(config),
          .checksum = port.trusted};
}

impair::PortImpairment impair_options(const config::PortSection& port) noexcept {
  return config::impairment_of(port.impair);
}

dpdk::PoolDemand pool_demand(const config::Config& config, const io::DataPlaneOptions& plane) {
  // The first job with external servers may come with a reload, and the mempools are made once.
  dpdk::PoolDemand demand{.cores = std::vector<int>(plane.cores, dpdk::kAnyNode),
                          .servers = plane.shared_entries != 0,
                          .hand_over = plane.hand_over};
  for (const config::PortSection& port : config.ports) {
    const dpdk::PortOptions options = port_options(config, port);
    const impair::PortImpairment impair = impair_options(port);
    dpdk::PortNeeds& needs = demand.ports.emplace_back(dpdk::Port::needs_of(options));
    needs.impaired_in = impair::most_kept(impair.in) * options.receive_queues;
    needs.impaired_out = impair::most_kept(impair.out) * options.transmit_queues;
  }
  return demand;
}

io::DataPlaneOptions plane_options(const config::Config& config) {
  const config::DataplaneSection& d = config.dataplane;
  jobs::Box box{.mac = config::box_mac(config)};
  if (config.box.ipv4) box.ipv4 = config.box.ipv4->address;
  if (config.box.ipv6) box.ipv6 = config.box.ipv6->address;
  return {.box = box,
          .mode = config.box.one_arm ? l2::BoxMode::kOneArm : l2::BoxMode::kInline,
          .cores = static_cast<std::uint8_t>(d.cores.size()),
          .idle = d.poll ? io::IdlePolicy::kPoll : io::IdlePolicy::kAdaptive,
          .staged = d.staged,
          .slot_lines = static_cast<std::uint32_t>(config::slot_lines_per_core(d)),
          .shared_entries = config::shared_entries_per_core(d),
          .shared_elements = d.shared.elements,
          .server_lines = static_cast<std::uint32_t>(config::server_lines_per_core(d))};
}

std::string summary(const config::Config& config) {
  std::size_t jobs = 0;
  std::size_t workers = 0;
  std::size_t sessions = 0;
  std::size_t members = 0;
  for (const config::JobConfig& job : config.jobs) {
    const bool native = std::holds_alternative<config::NativeConfig>(job);
    ++(native ? jobs : sessions);
    (native ? workers : members) += members::common_of(job).workers;
  }
  return "instance " + config.instance + ": " + text::counted(config.dataplane.cores.size(), "data core") +
         (config.dataplane.cores.size() == 1 ? " (CPU " : " (CPUs ") + text::listed(config.dataplane.cores) +
         "), " + text::counted(config.ports.size(), "port") + ", " + text::counted(jobs, "job") + " of " +
         text::counted(workers, "worker") +
         (sessions == 0
              ? ""
              : ", " + text::counted(sessions, "session") + " of " + text::counted(members, "member"));
}

namespace {

dpdk::FlowOptions flow_options(const config::Config& config, const dpdk::PortTraits& port) {
  dpdk::FlowOptions options{.shards = static_cast<std::uint32_t>(config.dataplane.cores.size()),
                            .queues = port.receive_queues};
  if (config.box.ipv4) options.ipv4 = config.box.ipv4->address;
  if (config.box.ipv6) options.ipv6 = config.box.ipv6->address;
  return options;
}

std::string brings(const dpdk::FlowOptions& options, const char* what) {
  const std::string chunks = std::string("the card brings ") + what;
  if (options.queues >= options.shards) return chunks + " to the core that owns it";
  return chunks + " to a queue; " + std::to_string(options.shards) + " shards share " +
         std::to_string(options.queues) +
         " of them, and what comes to another core than its own is handed over between the cores";
}

}  // namespace

void steer_ports(const config::Config& config, std::span<const io::BoxPort> ports, const LogSink& log) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const dpdk::Port& port = ports[i].port;
    dpdk::FlowOptions options = flow_options(config, port.traits());
    if (dpdk::flow_rules(options).empty()) continue;
    // Drivers differ in what they take; the log says which form it was.
    struct Form {
      bool vlan;
      bool ether_type;
      const char* what;
      const char* besides;
    };
    constexpr std::array<Form, 3> kForms{
        {{true, true, "each chunk", ""},
         {false, true, "each chunk without a VLAN tag", "; tagged ones are handed over between the cores"},
         {false, false, "each chunk",
          "; the rules name no EtherType, which its driver does not take, so what becomes of tagged ones is "
          "the card's affair"}}};
    const std::string name = "port " + port.name() + ": ";
    std::string refused;
    const bool steered = std::ranges::any_of(kForms, [&](const Form& form) {
      options.vlan = form.vlan;
      options.ether_type = form.ether_type;
      const auto applied = dpdk::apply_flow_rules(port.traits().id, dpdk::flow_rules(options));
      if (applied) log(LogLevel::kInfo, name + brings(options, form.what) + form.besides);
      if (!applied && refused.empty()) refused = applied.error().what;
      return applied.has_value();
    });
    const bool card = config.ports[i].device.kind == device::DeviceKind::kPci;
    if (!steered) log(card ? LogLevel::kWarning : LogLevel::kInfo, name + refused);
  }
}

}  // namespace tally::daemon

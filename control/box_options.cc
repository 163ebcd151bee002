#include "box_options.h"

#include <algorithm>

#include "checks.h"
#include "impairment_of.h"
#include "to_members.h"

namespace tally {
namespace {

constexpr std::uint16_t kFrameOverhead = 18;  // Ethernet and one VLAN tag

std::string counted(std::size_t n, const std::string& word) {
  return std::to_string(n) + " " + word + (n == 1 ? "" : "s");
}

// What the workers behind a port may have in flight: of a switch's port all of them, else at least one.
std::uint32_t burst_of(const Config& config) {
  std::uint32_t all = 0;
  std::uint32_t one = 0;
  for (const JobSection& job : config.jobs) {
    const std::uint32_t each = is_session(job) ? job.slots : job.window;
    all += each * job.workers;
    one = std::max(one, each);
  }
  return config.box.mode == BoxSection::Mode::kOneArm ? all : one;
}

}  // namespace

EalOptions eal_options(const Config& config) {
  EalOptions options{.instance = config.instance,
                     .cores = config.dataplane.cores,
                     .memory_bytes = config.dataplane.memory,
                     .extra = config.dataplane.eal};
  switch (config.dataplane.hugepages) {
    case DataplaneSection::Hugepages::kAuto:
      options.hugepages = EalOptions::Hugepages::kAuto;
      break;
    case DataplaneSection::Hugepages::kOn:
      options.hugepages = EalOptions::Hugepages::kOn;
      break;
    case DataplaneSection::Hugepages::kOff:
      options.hugepages = EalOptions::Hugepages::kOff;
      break;
  }
  for (const PortSection& port : config.ports) {
    if (port.device.kind == DeviceKind::kPci) options.pci.push_back(port.device.text);
  }
  return options;
}

PortOptions port_options(const Config& config, const PortSection& port) {
  return {.name = port.name,
          .device = port.device.text,
          .pci = port.device.kind == DeviceKind::kPci,
          .mtu = port.mtu,
          .receive_queues = port.queues,
          .transmit_queues = static_cast<std::uint16_t>(config.dataplane.cores.size()),
          .burst = burst_of(config),
          .checksum = port.checksum == PortSection::Checksum::kPort};
}

PortImpairment impair_options(const PortSection& port) noexcept { return impairment_of(port.impair); }

PoolDemand pool_demand(const Config& config) {
  PoolDemand demand{.ports = static_cast<std::uint32_t>(config.ports.size()),
                    .cores = static_cast<std::uint32_t>(config.dataplane.cores.size())};
  for (const PortSection& port : config.ports) {
    const PortOptions options = port_options(config, port);
    const PortNeeds needs = Port::needs_of(options);
    demand.receive_descriptors += needs.receive_mbufs;
    demand.transmit_descriptors += needs.transmit_mbufs;
    demand.umem_mbufs += needs.umem_mbufs;
    demand.least_room = std::max(demand.least_room, needs.least_room);
    const PortImpairment impair = impair_options(port);
    demand.impaired_in += most_kept(impair.in) * options.receive_queues;
    demand.impaired_out += most_kept(impair.out) * options.transmit_queues;
    demand.nic |= options.pci;
    demand.frame_bytes = std::max(demand.frame_bytes, static_cast<std::uint16_t>(port.mtu + kFrameOverhead));
  }
  // The first job with external servers may come with a reload, and the mempools are made once.
  demand.servers = shared_entries_per_core(config.dataplane) != 0;
  return demand;
}

DataPlaneOptions plane_options(const Config& config) {
  const DataplaneSection& d = config.dataplane;
  Box box{.mac = box_mac(config)};
  if (config.box.ipv4) box.ipv4 = config.box.ipv4->address;
  if (config.box.ipv6) box.ipv6 = config.box.ipv6->address;
  return {.box = box,
          .mode = config.box.mode == BoxSection::Mode::kOneArm ? BoxMode::kOneArm : BoxMode::kInline,
          .cores = static_cast<std::uint8_t>(d.cores.size()),
          .idle = d.idle == DataplaneSection::Idle::kPoll ? IdlePolicy::kPoll : IdlePolicy::kAdaptive,
          .staged = d.execution == DataplaneSection::Execution::kStaged,
          .slot_lines = static_cast<std::uint32_t>(slot_lines_per_core(d)),
          .shared_entries = shared_entries_per_core(d),
          .shared_elements = d.shared.elements,
          .server_lines = static_cast<std::uint32_t>(server_lines_per_core(d))};
}

LogLevel log_level(const Config& config) noexcept {
  switch (config.log.level) {
    case LogSection::Level::kTrace:
      return LogLevel::kTrace;
    case LogSection::Level::kDebug:
      return LogLevel::kDebug;
    case LogSection::Level::kInfo:
      return LogLevel::kInfo;
    case LogSection::Level::kWarning:
      return LogLevel::kWarning;
    case LogSection::Level::kError:
      break;
  }
  return LogLevel::kError;
}

std::string summary(const Config& config) {
  std::string cpus;
  for (const auto cpu : config.dataplane.cores) cpus += (cpus.empty() ? "" : ", ") + std::to_string(cpu);
  std::size_t workers = 0;
  std::size_t sessions = 0;
  std::size_t members = 0;
  for (const JobSection& job : config.jobs) {
    sessions += is_session(job) ? 1 : 0;
    (is_session(job) ? members : workers) += job.workers;
  }
  return "instance " + config.instance + ": " + counted(config.dataplane.cores.size(), "data core") +
         (config.dataplane.cores.size() == 1 ? " (CPU " : " (CPUs ") + cpus + "), " +
         counted(config.ports.size(), "port") + ", " + counted(config.jobs.size() - sessions, "job") +
         " of " + counted(workers, "worker") +
         (sessions == 0 ? "" : ", " + counted(sessions, "session") + " of " + counted(members, "member"));
}

}  // namespace tally

#include "steering.h"

#include <string>

#include "flow_rules.h"

namespace tally {
namespace {

FlowOptions flow_options(const Config& config, const PortTraits& port) {
  FlowOptions options{.shards = static_cast<std::uint32_t>(config.dataplane.cores.size()),
                      .queues = port.receive_queues};
  if (config.box.ipv4) options.ipv4 = config.box.ipv4->address;
  if (config.box.ipv6) options.ipv6 = config.box.ipv6->address;
  return options;
}

std::string brings(const FlowOptions& options, const char* what) {
  const std::string chunks = std::string("the card brings ") + what;
  if (options.queues >= options.shards) return chunks + " to the core that owns it";
  return chunks + " to a queue; " + std::to_string(options.shards) + " shards share " +
         std::to_string(options.queues) +
         " of them, and what comes to another core than its own is handed over between the cores";
}

}  // namespace

void steer_ports(const Config& config, std::span<const BoxPort> ports, const LogSink& log) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const Port& port = ports[i].port;
    FlowOptions options = flow_options(config, port.traits());
    options.vlan = true;
    const auto rules = flow_rules(options);
    if (rules.empty()) continue;
    const std::string name = "port " + port.name() + ": ";
    if (apply_flow_rules(port.traits().id, rules)) {
      log(LogLevel::kInfo, name + brings(options, "each chunk"));
      continue;
    }
    options.vlan = false;
    const auto untagged = apply_flow_rules(port.traits().id, flow_rules(options));
    const bool card = config.ports[i].device.kind == DeviceKind::kPci;
    log(untagged || !card ? LogLevel::kInfo : LogLevel::kWarning,
        name + (untagged ? brings(options, "each chunk without a VLAN tag") +
                               "; tagged ones are handed over between the cores"
                         : untagged.error().what));
  }
}

}  // namespace tally

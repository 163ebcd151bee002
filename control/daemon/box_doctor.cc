#include "daemon/box_doctor.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "config/load_config.h"
#include "device/interface_advice.h"
#include "device/kernel_device.h"
#include "dpdk/probed_device.h"

namespace tally::daemon {
namespace {

// "interface eth0 is down: ip link set eth0 up", as advise() says it.
doctor::Finding finding_of(const std::string& advice, bool problem) {
  const std::size_t at = std::max(advice.rfind(": "), advice.rfind("; "));
  const bool has_command = at != std::string::npos;
  return {problem, has_command ? advice.substr(0, at) : advice,
          problem ? "The port on it cannot work." : "Frames of its port are lost or answered by others.",
          has_command ? advice.substr(at + 2) : std::string()};
}

void examine_ports(const config::Config& config, std::vector<doctor::Finding>& findings) {
  const std::vector<std::string> present = dpdk::interfaces_present();
  for (const config::PortSection& port : config.ports) {
    if (!device::is_kernel(port.device.kind)) continue;
    const device::KernelDevice device =
        device::examine_kernel_device(port.device.text, port.mtu, port.queues, 0);
    if (device.interface.empty()) continue;
    const device::InterfaceFacts facts = dpdk::facts_of(device.interface);
    const device::InterfaceAdvice advice = device::advise(device, port.mtu, facts, present);
    if (!facts.exists)
      findings.push_back({true, advice.error, "The port on it cannot work.", "ip link"});
    else if (!advice.error.empty())
      findings.push_back(finding_of(advice.error, true));
    for (const std::string& warning : advice.warnings) findings.push_back(finding_of(warning, false));
  }
}

}  // namespace

std::vector<doctor::Finding> examine_box(const config::Config& config) {
  doctor::Wish wish{.cores = config.dataplane.cores,
                    .memory = config.dataplane.memory,
                    .hugepages = config.dataplane.hugepages};
  for (const config::PortSection& port : config.ports) {
    wish.af_xdp = wish.af_xdp || port.device.kind == device::DeviceKind::kAfXdp;
    if (port.device.kind == device::DeviceKind::kPci) wish.pci.push_back(port.device.name);
  }
  const std::string socket = config::control_socket_path(config);
  if (!socket.empty()) wish.socket_directory = std::filesystem::path(socket).parent_path();
  std::vector<doctor::Finding> findings = doctor::examine(doctor::Machine::here(), wish);
  examine_ports(config, findings);
  std::stable_partition(findings.begin(), findings.end(), [](const doctor::Finding& f) { return f.problem; });
  return findings;
}

}  // namespace tally::daemon

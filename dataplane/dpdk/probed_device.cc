#include "probed_device.h"

#include <algorithm>
#include <set>
#include <utility>

#include "eal_log.h"
#include "interrupt_thread.h"
#include "kernel_port.h"
#include "known_devices.h"
#include "memif_device.h"

#include <rte_dev.h>
#include <rte_ethdev.h>

namespace tally {
namespace {

constexpr std::uint32_t kEthernetBytes = 18;  // header and one VLAN tag

std::string_view device_name(std::string_view device) { return device.substr(0, device.find(',')); }

// Names of memif servers that were closed; their devices stay (Port::close).
std::set<std::string>& parked() {
  static std::set<std::string> names;
  return names;
}

bool taken(const std::string& name) {
  std::uint16_t id = 0;
  return rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0;
}

// The next name that means the same driver.
std::string free_name(const std::string& name) {
  std::string other = name;
  for (unsigned n = 1; parked().contains(other); ++n) other = name + '.' + std::to_string(n);
  return other;
}

// A memif server's driver listens where only the door finds it.
Result<void> add_door(ProbedDevice& p, const MemifDevice& memif) {
  if (!memif.server) return {};
  auto door = MemifDoor::open(memif);
  if (!door) return tl::unexpected<Error>(std::move(door.error()));
  p.door = std::move(*door);
  if (p.door->has(memif.id))
    return fail(ErrorCode::kInvalidArgument,
                "another port has id=" + std::to_string(memif.id) + " at this socket", p.name);
  for (const std::string_view key : {",socket=", ",socket-abstract="}) {
    const std::size_t at = p.device.find(key);
    if (at == std::string::npos) continue;
    p.device.erase(at, std::min(p.device.find(',', at + 1), p.device.size()) - at);
  }
  p.device += ",socket=" + p.door->driver_socket() + ",socket-abstract=yes";
  return {};
}

}  // namespace

std::uint32_t frame_bytes(const PortOptions& options) noexcept { return options.mtu + kEthernetBytes; }

void park_device(std::string_view device) { parked().emplace(device_name(device)); }

Result<ProbedDevice> prepare_device(const PortOptions& options) {
  ProbedDevice p{.name = std::string(device_name(options.device)), .device = options.device};
  if (options.pci) return p;
  if (const std::string why = why_not_virtual(p.name); !why.empty())
    return fail(ErrorCode::kInvalidArgument, why, p.name);
  const std::string given = std::exchange(p.name, free_name(p.name));
  if (taken(p.name))
    return fail(ErrorCode::kInvalidArgument, "another port has this device; give each its own number", given);
  if (!is_memif(options.device)) {
    if (auto done = prepare_kernel_port(options, p); !done)
      return tl::unexpected<Error>(std::move(done.error()));
    return p;
  }
  const auto memif = parse_memif(options.device, options.descriptors, frame_bytes(options));
  if (!memif) return tl::unexpected<Error>(memif.error());
  p.memif = true;
  p.id = memif->id;
  p.device = p.name + memif->device.substr(given.size());
  if (auto done = add_door(p, *memif); !done) return tl::unexpected<Error>(std::move(done.error()));
  return p;
}

Result<std::uint16_t> probe_device(const PortOptions& options, const ProbedDevice& p) {
  std::uint16_t id = 0;
  const HeardErrors heard;
  // A PCI device of EAL's list was probed when EAL started.
  if (options.pci && rte_eth_dev_get_port_by_name(p.name.c_str(), &id) == 0) return id;
  if (p.memif) note_memif();
  const int code = rte_dev_probe(p.device.c_str());
  if (code == 0 && rte_eth_dev_get_port_by_name(p.name.c_str(), &id) == 0) return id;
  std::string what = "DPDK does not open the device" + heard.text() + missing_rights(p.kernel);
  if (options.pci)
    what += "; network devices here: " + pci_devices() + "; a NIC is bound with dpdk-devbind.py";
  return tl::unexpected<Error>(Error{.code = ErrorCode::kSystem,
                                     .what = std::move(what),
                                     .where = p.device,
                                     .sys_errno = code < 0 ? -code : 0});
}

}  // namespace tally

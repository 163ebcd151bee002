#include "config/port_device.h"

#include <sys/un.h>
#include <algorithm>
#include <array>

#include "config/cidr.h"
#include "config/diagnostic.h"
#include "config/units.h"

namespace tally::config {
namespace {

struct Driver {
  std::string_view prefix;
  DeviceKind kind;
  std::string_view arguments;  // space separated; empty: none
};

// Arguments as in DPDK 22.11.
constexpr std::array kDrivers{
    Driver{"net_memif", DeviceKind::kMemif, kMemifArguments},
    Driver{"net_ring", DeviceKind::kRing, "nodeaction"},
    Driver{"net_null", DeviceKind::kNull, "size copy no-rx"},
    Driver{"net_af_packet", DeviceKind::kAfPacket, "iface qpairs blocksz framesz framecnt qdisc_bypass"},
    Driver{"net_af_xdp", DeviceKind::kAfXdp,
           "iface start_queue queue_count shared_umem xdp_prog busy_budget force_copy"},
    Driver{"net_tap", DeviceKind::kTap, "iface mac remote"},
    Driver{"net_pcap", DeviceKind::kPcap,
           "rx_pcap tx_pcap rx_iface rx_iface_in tx_iface iface phy_mac infinite_rx"},
};

constexpr std::string_view kChoices =
    "write net_memif, net_af_packet, net_af_xdp, net_tap, net_pcap, net_ring or net_null and a number, or a "
    "PCI address such as 0000:3b:00.0";

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// [DDDD:]BB:DD.F -> DDDD:bb:dd.f; empty if it is none.
std::string pci_address(std::string_view name) {
  std::string full(name);
  std::transform(full.begin(), full.end(), full.begin(),
                 [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (full.size() == 7) full = "0000:" + full;
  constexpr std::string_view kShape = "hhhh:hh:hh.f";
  if (full.size() != kShape.size()) return {};
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool good = kShape[i] == 'h'   ? is_hex(full[i])
                      : kShape[i] == 'f' ? full[i] >= '0' && full[i] <= '7'
                                         : full[i] == kShape[i];
    if (!good) return {};
  }
  return full;
}

std::vector<std::string> words(std::string_view list) {
  std::vector<std::string> out;
  while (!list.empty()) {
    const auto end = std::min(list.find(' '), list.size());
    out.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

std::vector<std::string> driver_names() {
  std::vector<std::string> out;
  out.reserve(kDrivers.size());
  for (const auto& driver : kDrivers) out.emplace_back(driver.prefix);
  return out;
}

Complaint unknown_device(const std::string& name) {
  const std::string without_number = name.substr(0, name.find_last_not_of("0123456789") + 1);
  if (name.starts_with("eth_")) {
    return {shown(name) + " is an old name", "drivers of DPDK begin with net_: net_" + name.substr(4)};
  }
  const std::string near = nearest(without_number, driver_names());
  return {shown(name) + " is neither a PCI address nor a device this version knows",
          near.empty() ? std::string(kChoices) : "did you mean " + near + "? " + std::string(kChoices)};
}

// key=value,key=value behind the name.
void split_arguments(PortDevice& device, std::size_t from, std::vector<Complaint>& complaints) {
  for (std::size_t at = from; at < device.text.size();) {
    const std::size_t begin = at + 1;  // behind the comma
    at = std::min(device.text.find(',', begin), device.text.size());
    const std::string part = device.text.substr(begin, at - begin);
    const auto equals = part.find('=');
    const auto offset = static_cast<std::uint32_t>(begin);
    if (part.find(' ') != std::string::npos) {
      complaints.push_back({shown(part) + " contains a space", "write the device without spaces", offset});
    } else if (equals == std::string::npos || equals == 0 || equals + 1 == part.size()) {
      complaints.push_back({shown(part) + " is not an argument of a device", "write key=value", offset});
    } else if (device.find(part.substr(0, equals)) != nullptr) {
      complaints.push_back(
          {shown(part.substr(0, equals)) + " stands twice in the device", "keep one", offset});
    } else {
      device.arguments.push_back({part.substr(0, equals), part.substr(equals + 1), offset});
    }
  }
}

void check_argument_names(const PortDevice& device, const Driver& driver,
                          std::vector<Complaint>& complaints) {
  const auto known = words(driver.arguments);
  for (const auto& argument : device.arguments) {
    if (std::find(known.begin(), known.end(), argument.key) != known.end()) continue;
    const std::string near = nearest(argument.key, known);
    std::string help = near.empty() ? "" : "did you mean " + near + "? ";
    help += std::string(driver.prefix) + " takes:";
    for (const auto& key : known) help += " " + key;
    complaints.push_back(
        {std::string(driver.prefix) + " has no argument " + shown(argument.key), help, argument.offset});
  }
}

}  // namespace

const DeviceArgument* PortDevice::find(std::string_view key) const noexcept {
  const auto at = std::find_if(arguments.begin(), arguments.end(),
                               [key](const DeviceArgument& a) { return a.key == key; });
  return at == arguments.end() ? nullptr : &*at;
}

std::string PortDevice::value_or(std::string_view key, std::string_view otherwise) const {
  const DeviceArgument* const argument = find(key);
  return argument == nullptr ? std::string(otherwise) : argument->value;
}

PortDevice parse_device(const std::string& text, std::vector<Complaint>& complaints) {
  PortDevice device;
  device.text = text;
  const auto comma = std::min(text.find(','), text.size());
  device.name = text.substr(0, comma);
  if (const std::string pci = pci_address(device.name); !pci.empty()) {
    device.kind = DeviceKind::kPci;
    device.name = pci;
    split_arguments(device, comma, complaints);  // which ones a NIC takes, its driver knows
    return device;
  }
  const auto driver = std::find_if(kDrivers.begin(), kDrivers.end(), [&](const Driver& d) {
    return device.name.starts_with(d.prefix) &&
           device.name.find_first_not_of("0123456789", d.prefix.size()) == std::string::npos;
  });
  if (driver == kDrivers.end()) {
    complaints.push_back(unknown_device(device.name));
    return device;
  }
  device.kind = driver->kind;
  split_arguments(device, comma, complaints);
  check_argument_names(device, *driver, complaints);
  if (device.kind == DeviceKind::kMemif) check_memif(device, complaints);
  return device;
}

namespace {

class MemifCheck {
 public:
  MemifCheck(const PortDevice& device, std::vector<Complaint>& complaints)
      : device_(device), complaints_(complaints) {}

  void number(std::string_view key, std::uint64_t lowest, std::uint64_t highest) {
    const DeviceArgument* const a = device_.find(key);
    if (a == nullptr) return;
    const auto value = parse_unsigned(a->value);
    if (value && *value >= lowest && *value <= highest) return;
    add(a, std::string(key) + " is " + shown(a->value),
        "write a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
  }

  void yes_or_no(std::string_view key) {
    const DeviceArgument* const a = device_.find(key);
    if (a == nullptr || a->value == "yes" || a->value == "no") return;
    add(a, std::string(key) + " is " + shown(a->value), "write yes or no");
  }

  // A client would connect once, when the port starts, and never again.
  void role() {
    const DeviceArgument* const a = device_.find("role");
    if (a != nullptr && a->value == "server") return;
    add(a, a == nullptr ? "role is missing, and memif takes client then" : "role is " + shown(a->value),
        "the box is the server, its workers are the clients: write role=server");
  }

  void socket() {
    const DeviceArgument* const a = device_.find("socket");
    if (a == nullptr) return;
    // A path ends in a NUL byte; an abstract name begins with one too.
    const std::size_t longest = sizeof(sockaddr_un::sun_path) - (is_abstract() ? 2 : 1);
    if (!is_abstract() && !a->value.starts_with('/')) {
      add(a, "socket " + shown(a->value) + " is not an absolute path",
          "begin it with /, such as /run/tally/rack1.sock");
    } else if (a->value.size() > longest) {
      add(a, "the socket has " + std::to_string(a->value.size()) + " bytes",
          "a Unix socket's name has at most " + std::to_string(longest) + "; choose a shorter one");
    }
  }

  void secret() {
    const DeviceArgument* const a = device_.find("secret");
    if (a != nullptr && a->value.size() > 23) add(a, "secret is too long", "memif takes at most 23 bytes");
  }

  void mac() {
    const DeviceArgument* const a = device_.find("mac");
    if (a == nullptr) return;
    if (const auto parsed = parse_mac(a->value); !parsed) add(a, parsed.error().message, parsed.error().help);
  }

  void zero_copy() {
    const DeviceArgument* const a = device_.find("zero-copy");
    if (a == nullptr || a->value != "yes") return;
    add(a, "zero-copy=yes does nothing with role=server", "remove it");
  }

 private:
  [[nodiscard]] bool is_abstract() const { return device_.value_or("socket-abstract", "yes") == "yes"; }

  void add(const DeviceArgument* argument, std::string message, std::string help) {
    complaints_.push_back({std::move(message), std::move(help), argument == nullptr ? 0 : argument->offset});
  }

  const PortDevice& device_;
  std::vector<Complaint>& complaints_;
};

}  // namespace

void check_memif(const PortDevice& device, std::vector<Complaint>& complaints) {
  MemifCheck check(device, complaints);
  check.role();
  check.number("id", 0, 0xFFFFFFFF);
  check.number("bsize", 1, 65'535);
  check.number("rsize", 1, 14);
  check.yes_or_no("socket-abstract");
  check.yes_or_no("zero-copy");
  check.socket();
  check.secret();
  check.mac();
  check.zero_copy();
}

}  // namespace tally::config

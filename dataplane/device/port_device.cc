#include "device/port_device.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace tally::device {
namespace {

struct Driver {
  std::string_view prefix;
  DeviceKind kind;
  std::string_view arguments;  // space separated
};

// Arguments as in DPDK 22.11.
constexpr std::array kDrivers{
    Driver{"net_memif", DeviceKind::kMemif,
           "role id socket socket-abstract bsize rsize mac secret zero-copy"},
    Driver{"net_ring", DeviceKind::kRing, "nodeaction"},
    Driver{"net_null", DeviceKind::kNull, "size copy no-rx"},
    Driver{"net_af_packet", DeviceKind::kAfPacket, "iface qpairs blocksz framesz framecnt qdisc_bypass"},
    Driver{"net_af_xdp", DeviceKind::kAfXdp,
           "iface start_queue queue_count shared_umem xdp_prog busy_budget force_copy"},
    Driver{"net_tap", DeviceKind::kTap, "iface mac remote"},
    Driver{"net_pcap", DeviceKind::kPcap,
           "rx_pcap tx_pcap rx_iface rx_iface_in tx_iface iface phy_mac infinite_rx"},
};

constexpr std::size_t kLongestInterface = 15;  // IFNAMSIZ with its NUL byte

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

std::string quoted(std::string_view text) { return std::string("'").append(text).append("'"); }

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

// net_tap, net_tap0; not net_tapestry.
const Driver* driver_of(std::string_view name) {
  const auto* const at = std::ranges::find_if(kDrivers, [&](const Driver& d) {
    return name.starts_with(d.prefix) &&
           name.find_first_not_of("0123456789", d.prefix.size()) == std::string_view::npos;
  });
  return at == kDrivers.end() ? nullptr : at;
}

DeviceComplaint unknown_device(const std::string& name) {
  if (name.starts_with("eth_"))
    return {"", quoted(name) + " is an old name", "drivers of DPDK begin with net_: net_" + name.substr(4)};
  return {"", quoted(name) + " is neither a PCI address nor a device this version knows",
          "write net_memif, net_af_packet, net_af_xdp, net_tap, net_pcap, net_ring or net_null and a number, "
          "or a PCI address such as 0000:3b:00.0"};
}

// key=value,key=value behind the name.
void split_arguments(PortDevice& device, std::size_t from, DeviceComplaints& complaints) {
  for (std::size_t at = from; at < device.text.size();) {
    const std::size_t begin = at + 1;  // behind the comma
    at = std::min(device.text.find(',', begin), device.text.size());
    const std::string part = device.text.substr(begin, at - begin);
    const auto equals = part.find('=');
    const auto offset = static_cast<std::uint32_t>(begin);
    if (part.find(' ') != std::string::npos) {
      complaints.push_back(
          {"", quoted(part) + " contains a space", "write the device without spaces", offset});
    } else if (equals == std::string::npos || equals == 0 || equals + 1 == part.size()) {
      complaints.push_back({"", quoted(part) + " is not an argument of a device", "write key=value", offset});
    } else if (device.has(part.substr(0, equals))) {
      complaints.push_back(
          {"", quoted(part.substr(0, equals)) + " stands twice in the device", "keep one", offset});
    } else {
      device.arguments.push_back({part.substr(0, equals), part.substr(equals + 1), offset});
    }
  }
}

void check_argument_names(const PortDevice& device, DeviceComplaints& complaints) {
  const Driver* const driver = driver_of(device.name);
  if (driver == nullptr) return;
  const auto known = arguments_of(driver->kind);
  for (const DeviceArgument& argument : device.arguments) {
    if (std::ranges::find(known, argument.key) != known.end()) continue;
    device.complain(complaints, argument.key,
                    std::string(driver->prefix) + " has no argument " + quoted(argument.key),
                    std::string(driver->prefix) + " takes: " + std::string(driver->arguments));
  }
}

}  // namespace

const DeviceArgument* PortDevice::find(std::string_view key) const noexcept {
  const auto at = std::ranges::find(arguments, key, &DeviceArgument::key);
  return at == arguments.end() ? nullptr : &*at;
}

std::optional<std::uint32_t> PortDevice::number(std::string_view key, std::uint32_t lowest,
                                                std::uint32_t highest, std::uint32_t otherwise,
                                                DeviceComplaints& complaints) const {
  const DeviceArgument* const argument = find(key);
  if (argument == nullptr) return otherwise;
  const std::string& value = argument->value;
  std::uint32_t n = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, n);
  if (error == std::errc{} && end == last && n >= lowest && n <= highest) return n;
  const std::string range =
      lowest == highest ? "write " + std::to_string(lowest) + ", or leave it out"
      : lowest == 0 && highest == 1
          ? "write 0 or 1"
          : "write a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
  complain(complaints, key, std::string(key) + " is " + quoted(value), range);
  return std::nullopt;
}

std::string PortDevice::interface(std::string_view key, DeviceComplaints& complaints) const {
  const DeviceArgument* const argument = find(key);
  if (argument == nullptr) return {};
  const std::string& value = argument->value;
  if (value.size() > kLongestInterface || value.find_first_of("/ :") != std::string::npos || value == "." ||
      value == "..") {
    complain(complaints, key, quoted(value) + " cannot be the name of a network interface",
             "a name has 1 to 15 bytes, without space, / and :; `ip link` lists those here");
    return {};
  }
  if (value == "lo") {
    complain(complaints, key, "lo is the loopback interface, which no other host can reach",
             "name an interface that leads to workers, such as iface=eth1; workers on this host take "
             "net_memif, or a "
             "veth pair");
    return {};
  }
  return value;
}

void PortDevice::remove(std::string_view key) {
  std::erase_if(arguments, [&](const DeviceArgument& a) { return a.key == key; });
}

std::string PortDevice::for_driver() const {
  std::string out = name;
  for (const DeviceArgument& a : arguments) out.append(",").append(a.key).append("=").append(a.value);
  return out;
}

void PortDevice::complain(DeviceComplaints& complaints, std::string_view about, std::string message,
                          std::string help) const {
  const DeviceArgument* const argument = find(about);
  complaints.push_back(
      {std::string(about), std::move(message), std::move(help), argument == nullptr ? 0 : argument->offset});
}

PortDevice parse_device(std::string_view text, DeviceComplaints& complaints) {
  PortDevice device{.text = std::string(text)};
  const std::size_t comma = std::min(text.find(','), text.size());
  device.name = text.substr(0, comma);
  device.kind = kind_of(text);
  if (device.kind == DeviceKind::kPci) device.name = pci_address(device.name);
  if (device.kind == DeviceKind::kOther) complaints.push_back(unknown_device(device.name));
  split_arguments(device, comma, complaints);
  check_argument_names(device, complaints);
  return device;
}

DeviceKind kind_of(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(','));
  if (!pci_address(name).empty()) return DeviceKind::kPci;
  const Driver* const driver = driver_of(name);
  return driver == nullptr ? DeviceKind::kOther : driver->kind;
}

std::string driver_of(DeviceKind kind) {
  const auto* const driver = std::ranges::find(kDrivers, kind, &Driver::kind);
  return driver != kDrivers.end() ? std::string(driver->prefix) : kind == DeviceKind::kPci ? "pci" : "other";
}

std::vector<std::string> device_names() {
  std::vector<std::string> out;
  out.reserve(kDrivers.size());
  for (const Driver& driver : kDrivers) out.emplace_back(driver.prefix);
  return out;
}

std::vector<std::string> arguments_of(DeviceKind kind) {
  const auto* const driver = std::ranges::find(kDrivers, kind, &Driver::kind);
  std::vector<std::string> out;
  for (std::string_view rest = driver == kDrivers.end() ? std::string_view() : driver->arguments;
       !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    out.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

}  // namespace tally::device

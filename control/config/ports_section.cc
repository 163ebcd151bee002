#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "config/checks.h"
#include "config/config_schema.h"
#include "device/kernel_device.h"
#include "device/memif_device.h"
#include "tally/mtu.h"
#include "text/text.h"

namespace tally::config {
namespace {

constexpr std::array<Choice<bool>, 2> kChecksum{{{"software", false}, {"port", true}}};

constexpr std::uint32_t kDescriptors = 1024;  // of each queue; no check depends on it

// A complaint about a word that nobody knows, with the one that was meant.
Complaint with_suggestion(const device::PortDevice& device, device::DeviceComplaint& complaint) {
  const bool of_name = device.kind == device::DeviceKind::kOther && complaint.offset == 0;
  const auto known = of_name ? device::device_names() : device::arguments_of(device.kind);
  const std::string word =
      of_name ? device.name.substr(0, device.name.find_last_not_of("0123456789") + 1) : complaint.about;
  const bool unknown = !word.empty() && std::find(known.begin(), known.end(), word) == known.end();
  const std::string near = unknown && !word.starts_with("eth_") ? nearest(word, known) : std::string();
  if (!near.empty()) complaint.help = "did you mean " + near + "? " + complaint.help;
  return {std::move(complaint.message), std::move(complaint.help), complaint.offset};
}

ValueType<device::PortDevice> device_type() {
  const std::string form = "a PCI address, or a virtual device of DPDK such as net_memif0,role=server,...";
  const auto read = [form](const Written& w) -> std::optional<device::PortDevice> {
    if (!expect_scalar(w, form)) return std::nullopt;
    device::DeviceComplaints complaints;
    device::PortDevice device = device::parse_device(w.node.text, complaints);
    if (device.kind == device::DeviceKind::kMemif)
      complaints =
          device::examine_memif_device(w.node.text, device::MemifEnd::kBox, 0, kDescriptors).complaints;
    for (auto& complaint : complaints) report_value(w, with_suggestion(device, complaint), form);
    return complaints.empty() ? std::optional(std::move(device)) : std::nullopt;
  };
  return {form, read, [](const device::PortDevice& device) { return yaml_text(device.text); }};
}

}  // namespace

const Schema<PortSection>& port_schema() {
  static const Schema<PortSection> schema{
      required_key("name", &PortSection::name, name_up_to(kMaxPortNameBytes),
                   "Its name in counters and messages."),
      required_key("device", &PortSection::device, device_type(),
                   "What carries the frames (docs/ports.md). In quotes inside {...}, because of its commas."),
      value_key("mtu", &PortSection::mtu, whole_number_in<std::uint16_t>(kLeastMtu, kGreatestMtu),
                "The largest IP packet, in bytes. memif: bsize must be 18 larger. net_af_xdp: 3438 at most, "
                "tap: 1500."),
      value_key("queues", &PortSection::queues, whole_number_in<std::uint16_t>(1, 64),
                "Receive queues, at most one per data core. net_af_xdp, net_tap and net_pcap have one."),
      value_key("checksum", &PortSection::trusted, one_of(kChecksum),
                "Who verifies what comes in: tallyd, or the NIC where it can (tallyd where it does not)."),
      at_once(section_key("impair", &PortSection::impair, impair_schema())),
  };
  return schema;
}

namespace {

constexpr std::size_t kMaxPorts = 32;  // Debian's RTE_MAX_ETHPORTS

}  // namespace

Position position_of(const Checking& c, const std::string& path, const device::DeviceArgument* argument) {
  Position at = c.places.of(path);
  if (argument == nullptr) return at;
  const std::string_view line = c.report.source().line(at.line);
  const auto begin = line.find(argument->key + "=", c.report.source().byte_of(at));
  return begin == std::string_view::npos ? at : c.report.source().position(at.line, begin);
}

namespace {

void check_count(Checking& c) {
  const auto& ports = c.config.ports;
  if (ports.empty() && c.places.written("ports") && c.places.sound("ports")) {
    c.error("ports", "the box has no port", "add one: - {name: w0, device: \"...\"}");
  }
  if (ports.size() > kMaxPorts) {
    const std::string path = "ports[" + std::to_string(kMaxPorts) + "]";
    c.error(path,
            "there are " + std::to_string(ports.size()) + " ports; DPDK has room for " +
                std::to_string(kMaxPorts),
            "remove the rest, or run a second instance");
  }
}

}  // namespace

std::set<std::string> interfaces_of(const device::PortDevice& device) {
  std::set<std::string> names;
  if (!device::is_kernel(device.kind)) return names;
  for (const char* const key : {"iface", "remote", "rx_iface", "rx_iface_in", "tx_iface"}) {
    if (const device::DeviceArgument* const a = device.find(key); a != nullptr) names.insert(a->value);
  }
  return names;
}

namespace {

void check_names_and_devices(Checking& c) {
  std::map<std::string, Position> names, devices, memif_ids, interfaces;
  for (std::size_t i = 0; i < c.config.ports.size(); ++i) {
    const PortSection& port = c.config.ports[i];
    const std::string name_path = path_of("ports", i, "name");
    const std::string path = path_of("ports", i, "device");
    if (c.places.sound(name_path)) {
      check_unique(c, names, port.name, name_path, c.places.of(name_path), "the name " + port.name);
    }
    if (!c.places.sound(path)) continue;
    check_unique(c, devices, port.device.name, path, c.places.of(path), "the device " + port.device.name);
    for (const std::string& interface : interfaces_of(port.device)) {
      const auto at = std::find_if(port.device.arguments.begin(), port.device.arguments.end(),
                                   [&](const device::DeviceArgument& a) { return a.value == interface; });
      check_unique(c, interfaces, interface, path, position_of(c, path, &*at), "the interface " + interface);
    }
    if (port.device.kind != device::DeviceKind::kMemif) continue;
    const device::MemifDevice memif =
        device::examine_memif_device(port.device.text, device::MemifEnd::kBox, 0, kDescriptors);
    const std::string meeting = "id " + std::to_string(memif.id) + " of " + memif.socket;
    check_unique(c, memif_ids, meeting, path, position_of(c, path, port.device.find("id")), meeting);
  }
}

// What the driver does not take. At the argument, or at the port's own key.
void check_device(Checking& c, std::size_t i) {
  const PortSection& port = c.config.ports[i];
  const std::string device = path_of("ports", i, "device");
  if (!c.places.sound(device)) return;
  const bool memif = port.device.kind == device::DeviceKind::kMemif;
  const std::uint32_t mtu = c.places.sound(path_of("ports", i, "mtu")) ? port.mtu : 0;
  const device::DeviceComplaints complaints =
      memif ? device::examine_memif_device(port.device.text, device::MemifEnd::kBox, mtu, kDescriptors)
                  .complaints
            : device::examine_kernel_device(port.device.text, port.mtu, port.queues, kDescriptors).complaints;
  for (const device::DeviceComplaint& complaint : complaints) {
    const bool own = complaint.about == "mtu" || complaint.about == "queues";
    const std::string path = own ? path_of("ports", i, complaint.about.c_str()) : device;
    if (!c.places.sound(path)) continue;
    const Position at = own && c.places.written(path)
                            ? c.places.of(path)
                            : position_of(c, device, port.device.find(complaint.about));
    c.report.error(at, path, {complaint.message, complaint.help});
  }
  if (memif && !port.device.has("socket-abstract")) {
    c.warning(device, "the socket is abstract: no file, and workers in containers do not see it",
              "add socket-abstract=no, or socket-abstract=yes if that is meant");
  }
}

void check_queues(Checking& c, std::size_t i) {
  const PortSection& port = c.config.ports[i];
  const std::string queues = path_of("ports", i, "queues");
  const std::size_t cores = c.config.dataplane.cores.size();
  if (c.sound({queues, "dataplane.cores"}) && port.queues > cores) {
    c.error(queues,
            std::to_string(port.queues) + " queues, but dataplane.cores has " + text::counted(cores, "core"),
            "a queue is read by one core: write at most " + std::to_string(cores));
  }
}

}  // namespace

void check_ports(Checking& c) {
  check_count(c);
  check_names_and_devices(c);
  for (std::size_t i = 0; i < c.config.ports.size(); ++i) {
    check_device(c, i);
    check_queues(c, i);
    check_impair(c, i);
  }
}

}  // namespace tally::config

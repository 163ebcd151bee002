#include "schemas.h"

namespace tally {
namespace {

constexpr std::array<Choice<PortSection::Checksum>, 2> kChecksum{
    {{"software", PortSection::Checksum::kSoftware}, {"port", PortSection::Checksum::kPort}}};

ValueType<PortDevice> device_type() {
  const std::string form = "a PCI address, or a virtual device of DPDK such as net_memif0,role=server,...";
  const auto read = [form](const YamlNode& node, const std::string& path, PortDevice& out, Reading& reading) {
    if (!expect_scalar(node, path, form, reading)) return false;
    std::vector<Complaint> complaints;
    PortDevice device = parse_device(node.text, complaints);
    for (auto& complaint : complaints) report_value(node, path, std::move(complaint), form, reading);
    if (complaints.empty()) out = std::move(device);
    return complaints.empty();
  };
  return {form, read, [](const PortDevice& device) { return yaml_text(device.text); }};
}

}  // namespace

const Schema<PortSection>& port_schema() {
  static const Schema<PortSection> schema{
      required_key("name", &PortSection::name, name_up_to(kMaxPortNameBytes),
                   "Its name in counters and messages."),
      required_key("device", &PortSection::device, device_type(),
                   "What carries the frames (docs/ports.md). In quotes inside {...}, because of its commas."),
      value_key("mtu", &PortSection::mtu, whole_number_in<std::uint16_t>(kMinMtu, kMaxMtu),
                "The largest IP packet, in bytes. memif: bsize must be 18 larger. net_af_xdp: 3438 at most, "
                "tap: 1500."),
      value_key("queues", &PortSection::queues, whole_number_in<std::uint16_t>(1, 64),
                "Receive queues, at most one per data core. net_af_xdp, net_tap and net_pcap have one."),
      value_key("checksum", &PortSection::checksum, one_of(kChecksum),
                "Who verifies what comes in: tallyd, or the NIC where it can (tallyd where it does not)."),
      section_key("impair", &PortSection::impair, impair_schema()),
  };
  return schema;
}

}  // namespace tally

#include "checks.h"

#include <algorithm>

#include "tally/wire.h"
#include "units.h"

namespace tally {
namespace {

constexpr std::uint16_t kMinMtuIpv6 = 1280;  // RFC 8200

void check_box(Checking& c) {
  const BoxSection& box = c.config.box;
  if (!c.places.sound("box.ipv4") || !c.places.sound("box.ipv6")) return;
  if (!box.ipv4 && !box.ipv6 && c.places.written("box")) {
    c.report.error(c.places.of("box"), "box",
                   {"the box has no address", "write ipv4: 10.0.0.1/24 or ipv6: fd00::1/64"});
  }
  if (!box.ipv6) return;
  for (std::size_t i = 0; i < c.config.ports.size(); ++i) {
    const std::string path = path_of("ports", i, "mtu");
    if (!c.places.sound(path) || c.config.ports[i].mtu >= kMinMtuIpv6) continue;
    c.report.error(c.places.of(path), path,
                   {"IPv6 needs an mtu of at least 1280", "raise it, or remove box.ipv6"});
  }
}

void check_memory(Checking& c) {
  const DataplaneSection& d = c.config.dataplane;
  if (!c.places.sound("dataplane.slots") || !c.places.sound("dataplane.memory") || d.slots <= d.memory)
    return;
  const char* const path = c.places.written("dataplane.slots") ? "dataplane.slots" : "dataplane.memory";
  c.report.error(
      c.places.of(path), path,
      {"slots (" + size_text(d.slots) + ") are part of memory (" + size_text(d.memory) + ") and exceed it",
       "raise memory or lower slots"});
}

void check_socket(Checking& c) {
  const std::string usual = "/run/tally/" + c.config.instance + ".sock";
  if (!c.places.sound("control.socket") || !c.places.sound("instance") || c.config.control.socket == usual)
    return;
  c.report.error(
      c.places.of("control.socket"), "control.socket",
      {c.config.control.socket + " is not in this version", "write " + usual + ", or leave the key out"});
}

// The default suits MTU 1500 and IPv4; elsewhere it is lowered rather than refused.
void lower_default_elements(Checking& c) {
  std::uint32_t mtu = 0;
  for (const auto& port : c.config.ports) mtu = std::max<std::uint32_t>(mtu, port.mtu);
  const std::uint16_t most =
      most_elements(mtu, c.config.box.ipv4.has_value() || !c.config.box.ipv6.has_value());
  if (c.config.ports.empty() || most == 0) return;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    auto& elements = c.config.jobs[i].elements;
    if (!c.places.written(path_of("jobs", i, "elements"))) elements = std::min(elements, most);
  }
}

}  // namespace

std::string path_of(const char* list, std::size_t index, const char* key) {
  return std::string(list) + "[" + std::to_string(index) + "]." + key;
}

std::uint16_t most_elements(std::uint32_t mtu, bool ipv4) noexcept {
  const std::size_t headers =
      (ipv4 ? sizeof(Ipv4Header) : sizeof(Ipv6Header)) + sizeof(UdpHeader) + kHeaderBytes;
  if (mtu < headers) return 0;
  const auto values = static_cast<std::uint32_t>((mtu - headers) / 4) / kElementGranule * kElementGranule;
  return static_cast<std::uint16_t>(std::min(values, kMaxElements));
}

std::uint64_t slot_lines_per_core(const DataplaneSection& dataplane) noexcept {
  return dataplane.slots / 64 / std::max<std::size_t>(dataplane.cores.size(), 1);
}

void complete_defaults(Checking& c) {
  if (c.config.control.socket.empty()) c.config.control.socket = "/run/tally/" + c.config.instance + ".sock";
  lower_default_elements(c);
}

void check_config(Checking& c) {
  check_box(c);
  check_memory(c);
  check_socket(c);
  check_ports(c);
  check_jobs(c);
  check_slots(c);
  check_profile(c);
}

}  // namespace tally

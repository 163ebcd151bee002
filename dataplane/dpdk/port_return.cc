// How a port outlives its network interface. The driver af_packet binds sockets and rings of the kernel to an
// interface by its number when the device is probed; when the interface goes, those are dead for ever, also for
// an interface that is made anew under the same name. So the device is removed and probed again, while data cores
// run. Who may touch what, in order:
//
//   1. control  sees that the name means another number than the device was opened with, and shuts the gate
//               (port_gate.h). It does not wait. Bursts of data threads that come later move nothing: what is
//               received is nothing, what is sent goes back to its mempool as `refused`, as with any port that
//               takes no frames; frames for external servers wait in their bounded queue.
//   2. data     threads that are inside finish their burst on the dead rings, which is harmless: the memory is
//               still mapped, and the kernel says ENETDOWN or ENXIO. The thread that leaves releases the gate.
//   3. control  finds the gate empty at some later look: now it alone has the device, and all that data threads
//               did to it is visible (both sides of the gate are sequentially consistent). The driver copies
//               frames and keeps no mbuf, so none goes with the device.
//   4. control  waits for the interface, removes the device and probes it again.
//   5. control  opens the gate. A data thread that sees it open sees the new device.
//
// Data cores know a port by its number in ethdev, which must not change. ethdev gives the lowest number that is
// free. That is the removed device's own, unless another port lost its device as well and could not be opened
// again; then devices under other names fill those numbers for the moment.
//
// af_xdp keeps 2,048 mbufs in rings that it shares with the kernel, and DPDK 22.11 loses them with the device: such
// a port stays down, and says that it takes a restart.

#include <rte_dev.h>
#include <rte_ethdev.h>

#include <cstdint>
#include <fstream>
#include <utility>

#include "dpdk/port.h"
#include "dpdk/port_gate.h"
#include "dpdk/threads.h"

namespace tally::dpdk {
namespace {

constexpr TimeNs kRetry = kSecond;

void remove_of_ethdev(std::uint16_t id) noexcept {
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(id, &info) == 0) rte_dev_remove(info.device);
}

}  // namespace

PortLink Port::link() const {
  PortLink link{.openings = openings_};
  if (interface_.empty()) {
    rte_eth_link state{};
    link.up = rte_eth_link_get_nowait(traits_.id, &state) == 0 && state.link_status == RTE_ETH_LINK_UP;
    if (!link.up && kind_ == device::DeviceKind::kPci) link.why = "the card sees no link";
    return link;
  }
  const InterfaceState now = state_of(interface_);
  const std::string name = "interface " + interface_;
  if (now.index == 0)
    link.why = name + " is gone";
  else if (now.index != index_)
    link.why = name + " is there again, but not the port: " +
               (!follows()         ? "its driver opens an interface once; restart tallyd"
                : trouble_.empty() ? "it is being opened"
                                   : trouble_);
  else if (!now.up)
    link.why = name + " is down";
  else if (!now.carrier)
    link.why = name + " has no carrier: its other end is down or gone";
  link.up = link.why.empty();
  return link;
}

std::uint64_t Port::rate() const {
  constexpr std::uint64_t kMega = 1'000'000;
  if (!interface_.empty()) {
    // Virtual links say what their driver made up, or -1; that is theirs to know.
    std::int64_t megabits = 0;
    std::ifstream("/sys/class/net/" + interface_ + "/speed") >> megabits;
    return megabits > 0 ? static_cast<std::uint64_t>(megabits) * kMega : 0;
  }
  rte_eth_link state{};
  if (kind_ != device::DeviceKind::kPci || rte_eth_link_get_nowait(traits_.id, &state) != 0) return 0;
  const bool known = state.link_status == RTE_ETH_LINK_UP && state.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
  return known ? state.link_speed * kMega : 0;
}

PortLink Port::follow(TimeNs now) {
  if (!follows()) return link();
  const unsigned index = state_of(interface_).index;
  PortGate& gate = PortGate::of(traits_.id);
  if (index_ != 0 && index != index_) {
    gate.shut();
    index_ = 0;
    trouble_.clear();
    retry_ = now;
  }
  if (index_ == 0 && index != 0 && now >= retry_ && gate.empty()) {
    if (auto done = open_again(); done) {
      ++openings_;
      gate.open();
    } else {
      trouble_ = done.error().what;
      retry_ = now + kRetry;
    }
  }
  return link();
}

Result<void> Port::open_again() {
  const std::lock_guard lock(one_at_a_time());
  ProbedDevice device{.name = options_.device.substr(0, options_.device.find(',')), .kind = kind_};
  // What is wrong with the interface is found before anything is touched.
  if (auto good = prepare_kernel_port(options_, device); !good) return good;
  if (open_) {
    former_ = statistics();
    remove_device();
  }
  if (auto probed = probe_again(device); !probed) return probed;
  auto started = set_up(options_, traits_.frames);
  if (started) started = start();
  if (!started) {
    remove_device();
    return started;
  }
  index_ = device.index;
  return {};
}

Result<void> Port::probe_again(const ProbedDevice& device) {
  std::vector<std::uint16_t> others;  // devices that got numbers of other ports
  Result<void> result;
  while (!open_ && result) {
    ProbedDevice again = device;
    again.name = free_device_name(device.name);
    again.device = again.name + device.device.substr(device.name.size());
    const auto id = probe_device(options_, again);
    if (!id)
      result = tl::unexpected<Error>(id.error());
    else if (*id < traits_.id)
      others.push_back(*id);
    else if (*id == traits_.id)
      open_ = true;
    else {
      others.push_back(*id);
      result = tl::unexpected<Error>(error("its number in DPDK belongs to another port"));
    }
    if (open_) device_ = again.device;
  }
  for (const std::uint16_t id : others) remove_of_ethdev(id);
  return result;
}

}  // namespace tally::dpdk

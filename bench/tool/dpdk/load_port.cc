#include "load_port.h"

#include <algorithm>

#include "tally/mix64.h"
#include "tally/net.h"

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

namespace tally::bench {
namespace {

constexpr TimeNs kLinkPeriod = 10 * kMillisecond;

Result<dpdk::Mempool> pool_for(const dpdk::PortNeeds& needs, std::uint16_t mtu, const std::string& name) {
  constexpr std::uint32_t kBursts = 128;  // in hand, and of control
  const std::uint32_t mbufs = needs.receive_mbufs + needs.umem_mbufs + dpdk::kPoolCache * 3 / 2 + kBursts;
  const auto room =
      static_cast<std::uint16_t>(std::max<std::uint32_t>(load_frame_bytes(mtu), needs.least_room));
  if (needs.umem_mbufs != 0) return dpdk::make_pool(name, mbufs, room, SOCKET_ID_ANY, true);
  dpdk::Mempool pool(rte_pktmbuf_pool_create(name.c_str(), mbufs, dpdk::kPoolCache, 0,
                                             static_cast<std::uint16_t>(dpdk::kHeadRoom + room),
                                             SOCKET_ID_ANY));
  if (pool != nullptr) return pool;
  return fail(ErrorCode::kSystem,
              "no memory for " + std::to_string(mbufs) + " packets (" + rte_strerror(rte_errno) +
                  "): use fewer ports, fewer queues=, or a larger --memory",
              "--port");
}

}  // namespace

std::uint16_t load_frame_bytes(std::uint16_t mtu) noexcept {
  return static_cast<std::uint16_t>(mtu + sizeof(EthernetHeader) + sizeof(VlanTag));
}

Result<std::unique_ptr<LoadPort>> LoadPort::open(const dpdk_transport::WorkerDevice& device,
                                                 std::uint16_t mtu, std::size_t number) {
  std::unique_ptr<LoadPort> made(new LoadPort);
  made->name_ = device.name;
  made->card_ = device.pci;
  std::string private_name;
  if (device.memif) {
    auto relay = dpdk_transport::MemifRelay::create(device.socket, device.abstract_socket);
    if (!relay) return tl::unexpected(relay.error());
    made->relay_ = std::move(*relay);
    private_name = made->relay_->private_name();
  }
  dpdk::PortOptions options;
  options.name = device.name;
  options.device = device.driver_string(private_name);
  options.pci = device.pci;
  options.mtu = mtu;
  options.receive_queues = options.transmit_queues = device.queues;
  const dpdk::PortNeeds needs = dpdk::Port::needs_of(options);
  auto pool = pool_for(needs, mtu, "load-" + std::to_string(number));
  if (!pool) return tl::unexpected(pool.error());
  made->pool_ = std::move(*pool);
  made->transmit_descriptors_ = std::uint32_t{dpdk::Port::descriptors_of(options)} * options.transmit_queues;
  auto port = dpdk::Port::open(options, made->pool_.get());
  if (!port) return tl::unexpected(port.error());
  made->port_.emplace(std::move(*port));
  const std::uint16_t granted = std::min(made->queues(), made->transmit_queues());
  if (granted < device.queues)
    return fail(ErrorCode::kInvalidArgument,
                device.name + " has " + std::to_string(granted) +
                    " queues each way here: queues=" + std::to_string(device.queues) + " is too many",
                "--port");
  if (made->relay_ == nullptr) return made;
  auto link = dpdk_transport::MemifLink::create(*made->relay_, *made->port_, mix64(number + 1));
  if (!link) return tl::unexpected(link.error());
  made->link_ = std::move(*link);
  return made;
}

void LoadPort::maintain(TimeNs now) {
  if (link_ != nullptr) {
    link_->step(now);
    up_ = link_->up();
  } else if (now >= due_) {
    up_ = port_->link_up();
    due_ = now + kLinkPeriod;
  }
}

double LoadPort::line_rate() const noexcept {
  rte_eth_link link{};
  if (!card_ || rte_eth_link_get_nowait(id(), &link) != 0 || link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN)
    return 0;
  return link.link_speed / 1e3;
}

std::string LoadPort::why_down() const {
  if (link_ != nullptr && !link_->why_down().empty()) return link_->why_down();
  return "its link is down";
}

}  // namespace tally::bench

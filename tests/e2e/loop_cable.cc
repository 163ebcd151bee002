#include "loop_cable.h"

#include <array>
#include <span>

#include "tally/check.h"

#include <rte_dev.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>

namespace tally::e2e {
namespace {

struct Disguise {
  bool no_segments = false;
  bool copies = false;
};
std::array<Disguise, RTE_MAX_ETHPORTS> disguises;

std::vector<CableRing> make_rings(const std::string& name, std::uint16_t count, unsigned size) {
  std::vector<CableRing> rings;
  for (std::uint16_t q = 0; q < count; ++q) {
    rings.emplace_back(rte_ring_create((name + std::to_string(q)).c_str(), size, SOCKET_ID_ANY,
                                       RING_F_SP_ENQ | RING_F_SC_DEQ));
    TALLY_CHECK(rings.back() != nullptr, "EAL's memory holds every ring of the test");
  }
  return rings;
}

std::uint16_t make_port(const std::string& name, const std::vector<CableRing>& in,
                        const std::vector<CableRing>& out) {
  std::vector<rte_ring*> in_rings;
  std::vector<rte_ring*> out_rings;
  for (const auto& ring : in) in_rings.push_back(ring.get());
  for (const auto& ring : out) out_rings.push_back(ring.get());
  const int port = rte_eth_from_rings(name.c_str(), in_rings.data(), static_cast<unsigned>(in.size()),
                                      out_rings.data(), static_cast<unsigned>(out.size()), 0);
  TALLY_CHECK(port >= 0, "a net_ring port is made");
  return static_cast<std::uint16_t>(port);
}

void start_worker_port(std::uint16_t port, const CableOptions& o, rte_mempool* pool) {
  const rte_eth_conf conf{};
  TALLY_CHECK(rte_eth_dev_configure(port, o.down, o.up, &conf) == 0, "the port takes its settings");
  for (std::uint16_t q = 0; q < o.down; ++q)
    TALLY_CHECK(rte_eth_rx_queue_setup(port, q, 0, 0, nullptr, pool) == 0, "a receive queue is set up");
  for (std::uint16_t q = 0; q < o.up; ++q)
    TALLY_CHECK(rte_eth_tx_queue_setup(port, q, 0, 0, nullptr) == 0, "a transmit queue is set up");
  TALLY_CHECK(rte_eth_dev_start(port) == 0, "the port starts");
}

// Not only closed: the device keeps its name, and the next test's port of that name would be refused.
void remove_port(std::uint16_t port) {
  rte_eth_dev_info info{};
  if (rte_eth_dev_is_valid_port(port) == 0) return;
  rte_eth_dev_stop(port);
  if (rte_eth_dev_info_get(port, &info) == 0) rte_dev_remove(info.device);
}

}  // namespace

Cable::Cable(const CableOptions& options, rte_mempool* pool)
    : options_(options),
      up_(make_rings(options.name + "_up", options.up, options.size)),
      down_(make_rings(options.name + "_down", options.down, options.size)),
      worker_port_(make_port(options.name + "_worker", down_, up_)),
      box_port_(make_port(options.name + "_box", up_, down_)) {
  start_worker_port(worker_port_, options, pool);
  disguises.at(box_port_) = {.no_segments = !options.segments, .copies = options.copies};
}

Cable::~Cable() {
  disguises.at(box_port_) = {};
  remove_port(worker_port_);
  remove_port(box_port_);
}

}  // namespace tally::e2e

// The linker puts this in front of DPDK's function (-Wl,--wrap), for the code under test too.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
extern "C" int __real_rte_eth_dev_info_get(uint16_t port, rte_eth_dev_info* info);
extern "C" int __wrap_rte_eth_dev_info_get(uint16_t port, rte_eth_dev_info* info) {
  const int result = __real_rte_eth_dev_info_get(port, info);
  const auto& disguise = tally::e2e::disguises.at(port);
  if (disguise.no_segments) info->tx_offload_capa &= ~std::uint64_t{RTE_ETH_TX_OFFLOAD_MULTI_SEGS};
  if (disguise.copies) info->driver_name = "net_copying";
  return result;
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

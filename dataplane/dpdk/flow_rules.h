#pragma once
// Steering in hardware: rte_flow rules that bring each shard's packets to the queue of the core that owns the
// shard. Everything else, control packets included, needs no rule: without RSS a port puts it into queue 0.
// A port without rules works too; its packets are handed over between the cores.
//
// flow_rules() is pure. Virtual devices have no rte_flow, so on a machine without such a NIC nothing but
// flow_rules() and the refusal can be tested.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tally/error.h"
#include "tally/net.h"

#include <rte_flow.h>

namespace tally::dpdk {

// One header of a pattern: the bits of `spec` that are set in `mask` must be equal. The bytes begin with the
// header on the wire (VLAN: the TCI and the inner type; Ethernet: the type is the first one); what rte_flow's
// structures have behind it, flags of their own, stays zero.
struct FlowItem {
  rte_flow_item_type type = RTE_FLOW_ITEM_TYPE_ETH;
  bool any = false;  // no spec and no mask at all
  alignas(8) std::array<std::byte, 64> spec{};
  alignas(8) std::array<std::byte, 64> mask{};
};

struct FlowRule {
  std::vector<FlowItem> pattern{};
  std::uint16_t queue = 0;
};

struct FlowOptions {
  Ipv4 ipv4{};  // of the box; all zero: none
  Ipv6 ipv6{};
  std::uint32_t shards = 1;  // 1..kMaxShards
  std::uint16_t queues = 1;  // receive queues of the port; shard s goes to queue s mod queues
  bool vlan = false;         // also packets with one tag, of any id
  // false: whatever Ethernet header, and its type left to what the IP header says. Drivers differ: some take
  // an EtherType beside addresses and ports in newer versions only, or not with IPv6 (DPDK's net/ice). Tags
  // are then the card's affair.
  bool ether_type = true;
};

// No rule for shard 0: its port is the one of control packets and its queue 0 takes the rest anyway.
[[nodiscard]] std::vector<FlowRule> flow_rules(const FlowOptions& options);

// Applies all rules to a started port, or none. The error says what the driver said; the port stays usable.
// Whether the rules outlive Port::restart() depends on the driver: apply them again.
[[nodiscard]] Result<void> apply_flow_rules(std::uint16_t port, const std::vector<FlowRule>& rules);

}  // namespace tally::dpdk

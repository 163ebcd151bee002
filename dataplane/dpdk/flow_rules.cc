#include "dpdk/flow_rules.h"

#include <algorithm>
#include <cstring>

#include "tally/wire.h"

#include <rte_errno.h>

namespace tally::dpdk {
namespace {

static_assert(std::max({sizeof(rte_flow_item_eth), sizeof(rte_flow_item_vlan), sizeof(rte_flow_item_ipv4),
                        sizeof(rte_flow_item_ipv6), sizeof(rte_flow_item_udp)}) <= sizeof(FlowItem::spec));

template <class Header>
FlowItem item(rte_flow_item_type type, const Header& spec, const Header& mask) {
  FlowItem i{.type = type};
  std::memcpy(i.spec.data(), &spec, sizeof(Header));
  std::memcpy(i.mask.data(), &mask, sizeof(Header));
  return i;
}

const Be<std::uint16_t> kAll{0xFFFF};
const Be<std::uint16_t> kNone{0};

void add_link_layer(std::vector<FlowItem>& pattern, bool tagged, std::uint16_t ether_type) {
  const EthernetHeader spec{.type = Be<std::uint16_t>{tagged ? kEtherVlan : ether_type}};
  pattern.push_back(item(RTE_FLOW_ITEM_TYPE_ETH, spec, EthernetHeader{.type = kAll}));
  if (!tagged) return;
  pattern.push_back(item(RTE_FLOW_ITEM_TYPE_VLAN,
                         VlanTag{.tci = kNone, .type = Be<std::uint16_t>{ether_type}},
                         VlanTag{.tci = kNone, .type = kAll}));
}

FlowItem ipv4_item(const Ipv4& box) {
  const Ipv4Header spec{.version_ihl = 0, .ttl = 0, .protocol = kProtocolUdp, .destination = box};
  Ipv4Header mask{.version_ihl = 0, .ttl = 0, .protocol = 0xFF};
  mask.destination.fill(0xFF);
  return item(RTE_FLOW_ITEM_TYPE_IPV4, spec, mask);
}

FlowItem ipv6_item(const Ipv6& box) {
  constexpr Be<std::uint32_t> kAny{0};
  const Ipv6Header spec{
      .version_class_flow = kAny, .next_header = kProtocolUdp, .hop_limit = 0, .destination = box};
  Ipv6Header mask{.version_class_flow = kAny, .next_header = 0xFF, .hop_limit = 0};
  mask.destination.fill(0xFF);
  return item(RTE_FLOW_ITEM_TYPE_IPV6, spec, mask);
}

FlowItem udp_item(std::uint32_t shard) {
  const auto port = static_cast<std::uint16_t>(kBasePort + shard);
  return item(RTE_FLOW_ITEM_TYPE_UDP, UdpHeader{.destination = Be<std::uint16_t>{port}},
              UdpHeader{.destination = kAll});
}

tl::unexpected<Error> refused(const rte_flow_error& error, int code, std::size_t rule) {
  const std::string said = error.message != nullptr ? error.message : rte_strerror(code);
  return fail(ErrorCode::kRefused, "the driver does not take flow rule " + std::to_string(rule) + ": " +
                                       said + "; packets are handed over between the cores instead");
}

}  // namespace

std::vector<FlowRule> flow_rules(const FlowOptions& options) {
  std::vector<FlowRule> rules;
  const auto add = [&](std::uint32_t shard, bool tagged, std::uint16_t ether_type, const FlowItem& ip) {
    FlowRule rule{.queue = static_cast<std::uint16_t>(shard % options.queues)};
    if (options.ether_type) {
      add_link_layer(rule.pattern, tagged, ether_type);
    } else {
      rule.pattern.push_back({.type = RTE_FLOW_ITEM_TYPE_ETH, .any = true});
    }
    rule.pattern.push_back(ip);
    rule.pattern.push_back(udp_item(shard));
    rules.push_back(std::move(rule));
  };
  if (options.queues < 2) return rules;
  for (std::uint32_t shard = 1; shard < options.shards; ++shard) {
    for (const bool tagged : {false, true}) {
      if (tagged && !(options.vlan && options.ether_type)) continue;
      if (options.ipv4 != Ipv4{}) add(shard, tagged, kEtherIpv4, ipv4_item(options.ipv4));
      if (options.ipv6 != Ipv6{}) add(shard, tagged, kEtherIpv6, ipv6_item(options.ipv6));
    }
  }
  return rules;
}

Result<void> apply_flow_rules(std::uint16_t port, const std::vector<FlowRule>& rules) {
  const rte_flow_attr ingress{.ingress = 1};
  std::vector<rte_flow*> made;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const FlowRule& rule = rules[i];
    std::vector<rte_flow_item> pattern;
    for (const FlowItem& item : rule.pattern)
      pattern.push_back({.type = item.type,
                         .spec = item.any ? nullptr : item.spec.data(),
                         .last = nullptr,
                         .mask = item.any ? nullptr : item.mask.data()});
    pattern.push_back({.type = RTE_FLOW_ITEM_TYPE_END});
    const rte_flow_action_queue queue{.index = rule.queue};
    const std::array<rte_flow_action, 2> actions{
        {{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &queue}, {.type = RTE_FLOW_ACTION_TYPE_END}}};
    rte_flow_error error{};
    rte_flow* flow = nullptr;
    if (rte_flow_validate(port, &ingress, pattern.data(), actions.data(), &error) == 0)
      flow = rte_flow_create(port, &ingress, pattern.data(), actions.data(), &error);
    if (flow != nullptr) {
      made.push_back(flow);
      continue;
    }
    const int code = rte_errno;
    rte_flow_error ignored{};
    for (rte_flow* earlier : made) rte_flow_destroy(port, earlier, &ignored);
    return refused(error, code, i);
  }
  return {};
}

}  // namespace tally::dpdk

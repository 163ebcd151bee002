// The rules byte by byte: no NIC here could check them.

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "dpdk/flow_rules.h"

namespace tally {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::initializer_list<int> values) {
  Bytes b;
  for (const int v : values) b.push_back(static_cast<std::byte>(v));
  return b;
}

// `n` zero bytes with some of them set from `at` on.
Bytes at(std::size_t n, std::size_t from, std::initializer_list<int> values) {
  Bytes b(n);
  for (const int v : values) b.at(from++) = static_cast<std::byte>(v);
  return b;
}

// The header, and nothing behind it.
void expect_item(const dpdk::FlowItem& item, rte_flow_item_type type, Bytes spec, Bytes mask) {
  EXPECT_EQ(item.type, type);
  spec.resize(item.spec.size());
  mask.resize(item.mask.size());
  EXPECT_TRUE(std::ranges::equal(item.spec, spec));
  EXPECT_TRUE(std::ranges::equal(item.mask, mask));
}

TEST(FlowRules, Ipv4ByteByByte) {
  const auto rules = dpdk::flow_rules({.ipv4 = {10, 1, 2, 3}, .shards = 3, .queues = 3});
  ASSERT_EQ(rules.size(), 2U);
  for (std::uint16_t shard = 1; shard <= 2; ++shard) {
    const dpdk::FlowRule& rule = rules[shard - 1];
    EXPECT_EQ(rule.queue, shard);
    ASSERT_EQ(rule.pattern.size(), 3U);
    expect_item(rule.pattern[0], RTE_FLOW_ITEM_TYPE_ETH, at(14, 12, {0x08, 0x00}), at(14, 12, {0xFF, 0xFF}));
    Bytes ip = at(20, 16, {10, 1, 2, 3});
    Bytes mask = at(20, 16, {0xFF, 0xFF, 0xFF, 0xFF});
    ip[9] = std::byte{17};
    mask[9] = std::byte{0xFF};
    expect_item(rule.pattern[1], RTE_FLOW_ITEM_TYPE_IPV4, ip, mask);
    expect_item(rule.pattern[2], RTE_FLOW_ITEM_TYPE_UDP, bytes({0, 0, 0xBF, shard, 0, 0, 0, 0}),
                bytes({0, 0, 0xFF, 0xFF, 0, 0, 0, 0}));
  }
}

TEST(FlowRules, Ipv6ByteByByte) {
  const Ipv6 box{0xfd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  const auto rules = dpdk::flow_rules({.ipv6 = box, .shards = 2, .queues = 2});
  ASSERT_EQ(rules.size(), 1U);
  ASSERT_EQ(rules[0].pattern.size(), 3U);
  expect_item(rules[0].pattern[0], RTE_FLOW_ITEM_TYPE_ETH, at(14, 12, {0x86, 0xDD}),
              at(14, 12, {0xFF, 0xFF}));
  Bytes ip = at(40, 24, {0xfd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
  Bytes mask(40);
  for (std::size_t i = 24; i < 40; ++i) mask[i] = std::byte{0xFF};
  ip[6] = std::byte{17};
  mask[6] = std::byte{0xFF};
  expect_item(rules[0].pattern[1], RTE_FLOW_ITEM_TYPE_IPV6, ip, mask);
  expect_item(rules[0].pattern[2], RTE_FLOW_ITEM_TYPE_UDP, bytes({0, 0, 0xBF, 1, 0, 0, 0, 0}),
              bytes({0, 0, 0xFF, 0xFF, 0, 0, 0, 0}));
}

TEST(FlowRules, ATagOfAnyIdByteByByte) {
  const auto rules = dpdk::flow_rules({.ipv4 = {10, 0, 0, 1}, .shards = 2, .queues = 2, .vlan = true});
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].pattern.size(), 3U) << "untagged frames too";
  ASSERT_EQ(rules[1].pattern.size(), 4U);
  expect_item(rules[1].pattern[0], RTE_FLOW_ITEM_TYPE_ETH, at(14, 12, {0x81, 0x00}),
              at(14, 12, {0xFF, 0xFF}));
  expect_item(rules[1].pattern[1], RTE_FLOW_ITEM_TYPE_VLAN, bytes({0, 0, 0x08, 0x00}),
              bytes({0, 0, 0xFF, 0xFF}));
  EXPECT_EQ(rules[1].pattern[2].type, RTE_FLOW_ITEM_TYPE_IPV4);
  EXPECT_EQ(rules[1].pattern[3].type, RTE_FLOW_ITEM_TYPE_UDP);
}

// For drivers that take no EtherType beside addresses.
TEST(FlowRules, WithoutAnEtherTypeTheEthernetItemIsEmptyAndTagsAreNotNamed) {
  dpdk::FlowOptions options{
      .ipv4 = {10, 0, 0, 1}, .shards = 2, .queues = 2, .vlan = true, .ether_type = false};
  options.ipv6[15] = 1;
  const auto rules = dpdk::flow_rules(options);
  ASSERT_EQ(rules.size(), 2U) << "one for each address";
  for (const dpdk::FlowRule& rule : rules) {
    ASSERT_EQ(rule.pattern.size(), 3U);
    EXPECT_EQ(rule.pattern[0].type, RTE_FLOW_ITEM_TYPE_ETH);
    EXPECT_TRUE(rule.pattern[0].any);
    EXPECT_FALSE(rule.pattern[1].any);
    EXPECT_FALSE(rule.pattern[2].any);
  }
  EXPECT_EQ(rules[0].pattern[1].type, RTE_FLOW_ITEM_TYPE_IPV4);
  EXPECT_EQ(rules[1].pattern[1].type, RTE_FLOW_ITEM_TYPE_IPV6);
}

TEST(FlowRules, BothAddressFamiliesOfEveryShardButTheFirst) {
  dpdk::FlowOptions options{.ipv4 = {10, 0, 0, 1}, .shards = 64, .queues = 64, .vlan = true};
  options.ipv6[15] = 1;
  const auto rules = dpdk::flow_rules(options);
  EXPECT_EQ(rules.size(), 63U * 4);
  for (const dpdk::FlowRule& rule : rules) {
    EXPECT_NE(rule.queue, 0) << "control packets and everything unknown stay in queue 0";
    EXPECT_EQ(rule.pattern.back().spec[3], static_cast<std::byte>(rule.queue));
  }
}

TEST(FlowRules, FewerQueuesThanShardsShareThem) {
  const auto rules = dpdk::flow_rules({.ipv4 = {10, 0, 0, 1}, .shards = 4, .queues = 2});
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[0].queue, 1);
  EXPECT_EQ(rules[1].queue, 0);
  EXPECT_EQ(rules[2].queue, 1);
}

TEST(FlowRules, NothingToSteerNeedsNoRule) {
  EXPECT_TRUE(dpdk::flow_rules({.ipv4 = {10, 0, 0, 1}, .shards = 4, .queues = 1}).empty());
  EXPECT_TRUE(dpdk::flow_rules({.ipv4 = {10, 0, 0, 1}, .shards = 1, .queues = 4}).empty());
  EXPECT_TRUE(dpdk::flow_rules({.shards = 4, .queues = 4}).empty()) << "a box without an address";
}

}  // namespace
}  // namespace tally

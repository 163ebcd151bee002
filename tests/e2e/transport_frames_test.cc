// Transport 'dpdk' against a box at the other end of a memif in the same process: what goes out, what is
// taken.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <set>
#include <thread>

#include "pool_audit.h"
#include "transport_harness.h"

#include <rte_ethdev.h>
#include <rte_mempool.h>

namespace tally::e2e {
namespace {

using testing::HasSubstr;

// One worker and one box, up; the audit of all mbufs at the end.
class TransportFrames : public testing::Test {
 protected:
  void connect(const WorkerSetup& changes = {}, const std::string& more = {}, bool ipv6 = false,
               std::uint16_t queues = 1) {
    WorkerSetup setup = changes;
    setup.device = directory_.client(0, more);
    box_ = std::make_unique<FakeBox>(directory_.server(), ipv6, setup.mtu, queues);
    auto opened = setup.open();
    ASSERT_TRUE(opened) << opened.error().text();
    worker_ = std::move(*opened);
    ASSERT_TRUE(worker_->attach());
    ASSERT_TRUE(bring_up(*worker_, box_.get())) << worker_->describe();
  }
  void TearDown() override {
    if (worker_ == nullptr) return;
    // Every mbuf is in the pool, or in the stock that the transport keeps for lend().
    static_cast<void>(box_->poll());
    static_cast<void>(take_all(*worker_));
    EXPECT_EQ(worker_->lend(dpdk_transport::DpdkTransport::kBurst, 100).size(),
              dpdk_transport::DpdkTransport::kBurst);
    EXPECT_EQ(rte_mempool_in_use_count(worker_->pool()), dpdk_transport::DpdkTransport::kBurst);
    worker_->send(0);
    worker_.reset();
    box_->settle();
  }
  [[nodiscard]] engine::Membership membership() const {
    engine::Membership m;
    m.box_mac = FakeBox::kMac;
    return m;
  }
  [[nodiscard]] jobs::Binding worker_binding() const {
    jobs::Binding b;
    b.address = worker_->address().own;
    b.mac = worker_->address().mac;
    b.udp_port = worker_->address().udp_port;
    return b;
  }
  // What the worker takes of a frame that the box sent; the box's ring is empty again afterwards.
  [[nodiscard]] std::size_t taken_of(std::span<const std::byte> frame) {
    EXPECT_TRUE(box_->send_frame(frame));
    return take_all(*worker_).size();
  }

  SocketDirectory directory_;
  std::unique_ptr<FakeBox> box_;
  std::unique_ptr<dpdk_transport::DpdkTransport> worker_;
};

TEST_F(TransportFrames, CarryContentBothWays) {
  connect();
  std::uint32_t seed = 1;
  for (const std::size_t bytes : {56UL, 57UL, 120UL, 1000UL, 56UL + 4 * 352}) {
    const auto sent = datagram(seed++, bytes);
    ASSERT_TRUE(send_one(*worker_, sent));
    const auto arrived = box_->poll();
    ASSERT_EQ(arrived.size(), 1U);
    EXPECT_EQ(arrived[0].payload, sent);
    EXPECT_EQ(arrived[0].source, worker_binding());
    EXPECT_EQ(arrived[0].port, 0xBF00);
    const auto answer = datagram(seed++, bytes);
    ASSERT_TRUE(box_->send(arrived[0].source, answer));
    EXPECT_THAT(take_all(*worker_), testing::ElementsAre(answer));
  }
  EXPECT_EQ(worker_->counters().received.get(), 5U);
  EXPECT_EQ(worker_->counters().sent.get(), 5U);
  EXPECT_EQ(worker_->counters().foreign.get(), 0U);
  EXPECT_EQ(worker_->most_elements(), 352);
}

TEST_F(TransportFrames, SendABurstAtOnce) {
  connect();
  const auto room = worker_->lend(1000, 200);
  ASSERT_EQ(room.size(), dpdk_transport::DpdkTransport::kBurst);
  std::vector<std::vector<std::byte>> sent;
  for (std::size_t i = 0; i < room.size(); ++i) {
    sent.push_back(datagram(static_cast<std::uint32_t>(i), 100 + i));
    std::copy(sent.back().begin(), sent.back().end(), room[i].room.begin());
    room[i].bytes = sent.back().size();
  }
  worker_->send(room.size());
  const auto arrived = box_->poll();
  ASSERT_EQ(arrived.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(arrived[i].payload, sent[i]);
}

TEST_F(TransportFrames, WhatWasNotFilledIsLentAgain) {
  connect();
  const auto first = worker_->lend(8, 100);
  ASSERT_EQ(first.size(), 8U);
  const std::set<std::byte*> before = {first[2].room.data(), first[7].room.data()};
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto bytes = datagram(i, 100);
    std::copy(bytes.begin(), bytes.end(), first[i].room.begin());
    first[i].bytes = bytes.size();
  }
  worker_->send(2);
  EXPECT_EQ(box_->poll().size(), 2U);
  const auto second = worker_->lend(6, 1400);
  ASSERT_EQ(second.size(), 6U);
  EXPECT_EQ((std::set<std::byte*>{second[0].room.data(), second[5].room.data()}), before);
  worker_->send(0);
  EXPECT_EQ(rte_mempool_in_use_count(worker_->pool()), 6U);
  EXPECT_TRUE(worker_->lend(1, 1473).empty()) << "more than the MTU carries";
  EXPECT_EQ(worker_->lend(1, 1472).size(), 1U);
}

TEST_F(TransportFrames, JoinIsABroadcastAndTheRestGoesToTheBox) {
  connect();
  ASSERT_TRUE(send_one(*worker_, datagram(1, 100)));
  EXPECT_EQ(box_->poll().at(0).destination, kBroadcastMac) << "the box's MAC is not known yet";
  worker_->joined(membership());
  ASSERT_TRUE(send_one(*worker_, datagram(2, 100)));
  EXPECT_EQ(box_->poll().at(0).destination, FakeBox::kMac);
  ASSERT_TRUE(send_one(*worker_, datagram(3, 100, PacketType::kJoin)));
  EXPECT_EQ(box_->poll().at(0).destination, kBroadcastMac);
}

TEST_F(TransportFrames, EachBoxIsSentToByItsAddressAndMacAndToldApart) {
  connect();
  const Mac other_mac{0x02, 0xB0, 0x0C, 0, 0, 2};
  Ipv6 other = worker_->address().box;
  other[15] += 100;
  ASSERT_TRUE(worker_->set_boxes(std::array{BoxAddress{}, BoxAddress{other}}));
  worker_->joined(membership());
  const auto sent = [&](std::size_t to, PacketType type) {
    const auto bytes = datagram(1, 100, type);
    const auto room = worker_->lend(1, bytes.size());
    EXPECT_EQ(room.size(), 1U);
    std::copy(bytes.begin(), bytes.end(), room[0].room.begin());
    room[0].bytes = bytes.size();
    room[0].destination_port = kBasePort;
    room[0].box = static_cast<std::uint16_t>(to);
    worker_->send(1);
    return box_->poll().at(0);
  };
  const auto last_of_ip = [](const FakeBox::Arrived& a) {
    return std::to_integer<std::uint8_t>(a.frame.at(33));
  };
  EXPECT_EQ(sent(0, PacketType::kContribute).destination, FakeBox::kMac);
  const auto unknown = sent(1, PacketType::kContribute);
  EXPECT_EQ(unknown.destination, kBroadcastMac) << "its MAC is not known yet";
  EXPECT_EQ(last_of_ip(unknown), other[15]);
  ASSERT_TRUE(worker_->set_boxes(std::array{BoxAddress{}, BoxAddress{other, other_mac}}));
  EXPECT_EQ(sent(1, PacketType::kContribute).destination, other_mac);
  EXPECT_EQ(sent(1, PacketType::kEnlist).destination, kBroadcastMac);
  EXPECT_EQ(sent(0, PacketType::kContribute).destination, FakeBox::kMac) << "the first one's stays";
  EXPECT_EQ(last_of_ip(sent(0, PacketType::kContribute)), worker_->address().box[15]);

  std::vector<std::size_t> from;
  const DatagramSink sink = [&](std::span<const std::byte>, std::size_t box) { from.push_back(box); };
  auto frame = box_->frame_for(worker_binding(), datagram(1, 120));
  ASSERT_TRUE(box_->send_frame(frame));
  frame[29] = std::byte{other[15]};
  ASSERT_TRUE(box_->send_frame(frame));
  frame[29] ^= std::byte{1};  // nobody's
  ASSERT_TRUE(box_->send_frame(frame));
  const std::uint64_t foreign = worker_->counters().foreign.get();
  while (worker_->receive(sink) != 0) continue;
  EXPECT_EQ(from, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(worker_->counters().foreign.get(), foreign + 1);

  Ipv6 far = other;
  far[13] ^= 1;
  const auto refused = worker_->set_boxes(std::array{BoxAddress{}, BoxAddress{far}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("is not in this worker's network"));
  EXPECT_EQ(sent(1, PacketType::kContribute).destination, other_mac) << "the list stays what it was";
}

TEST_F(TransportFrames, IgnoreWhatIsNotForUs) {
  connect();
  const auto good = box_->frame_for(worker_binding(), datagram(1, 120));
  EXPECT_EQ(taken_of(good), 1U);
  struct Spoilt {
    const char* what;
    std::size_t at;
    std::uint8_t flip;
  };
  const std::vector<Spoilt> table{
      {"destination MAC", 5, 1},    {"Ethernet type", 12, 1},
      {"IP version", 14, 0x10},     {"IP options", 14, 1},
      {"total length", 17, 8},      {"total length above the frame", 16, 4},
      {"more fragments", 20, 0x20}, {"fragment offset", 21, 1},
      {"protocol", 23, 1},          {"source is not the box", 29, 1},
      {"destination IP", 33, 1},    {"UDP port", 37, 1},
      {"UDP length", 39, 1},
  };
  std::uint64_t foreign = 0;
  for (const Spoilt& s : table) {
    auto frame = good;
    frame[s.at] ^= std::byte{s.flip};
    EXPECT_EQ(taken_of(frame), 0U) << s.what;
    EXPECT_EQ(worker_->counters().foreign.get(), ++foreign) << s.what;
  }
  for (const std::size_t length : {14UL, 20UL, 33UL, 34UL, 41UL}) {
    EXPECT_EQ(taken_of(std::span{good}.first(length)), 0U) << length << " bytes";
    EXPECT_EQ(worker_->counters().foreign.get(), ++foreign);
  }
  EXPECT_EQ(taken_of(good), 1U);
}

TEST_F(TransportFrames, TakeMulticastResultsOfTheirGroupOnly) {
  connect();
  jobs::Binding group;
  group.address = mapped({239, 192, 3, 4});
  group.mac = jobs::multicast_mac(group.address);
  group.udp_port = kMulticastPort;
  const auto result = box_->frame_for(group, datagram(1, 120));
  EXPECT_EQ(taken_of(result), 0U) << "unicast results";
  engine::Membership m = membership();
  m.results = ResultsMode::kMulticast;
  m.group = group.address;
  m.group_port = group.udp_port;
  worker_->joined(m);
  EXPECT_EQ(taken_of(result), 1U);
  EXPECT_EQ(taken_of(box_->frame_for(worker_binding(), datagram(2, 120))), 1U) << "repairs stay unicast";
  group.address[15] ^= 1;
  EXPECT_EQ(taken_of(box_->frame_for(group, datagram(3, 120))), 0U) << "another group with this MAC";
  worker_->joined(membership());
  EXPECT_EQ(taken_of(result), 0U);
}

TEST_F(TransportFrames, CarryIpv6) {
  connect({.box = "fd00::1", .address = "fd00::11/64"}, {}, true);
  EXPECT_EQ(worker_->most_elements(), 336);
  const auto sent = datagram(1, 56 + 4 * 336);
  ASSERT_TRUE(send_one(*worker_, sent));
  const auto arrived = box_->poll();
  ASSERT_EQ(arrived.size(), 1U);
  EXPECT_EQ(arrived[0].payload, sent);
  EXPECT_EQ(arrived[0].source, worker_binding());
  ASSERT_TRUE(box_->send(arrived[0].source, sent));
  EXPECT_THAT(take_all(*worker_), testing::ElementsAre(sent));
  auto spoilt = box_->frame_for(worker_binding(), sent);
  spoilt[53] ^= std::byte{1};
  EXPECT_EQ(taken_of(spoilt), 0U) << "another destination address";
}

TEST_F(TransportFrames, CarryJumboFrames) {
  connect({.mtu = 9000}, ",bsize=9216");
  EXPECT_EQ(worker_->most_elements(), kMaxElements);
  const auto sent = datagram(1, kMaxDatagramBytes);
  ASSERT_TRUE(send_one(*worker_, sent));
  const auto arrived = box_->poll();
  ASSERT_EQ(arrived.size(), 1U);
  EXPECT_EQ(arrived[0].payload, sent);
  ASSERT_TRUE(box_->send(arrived[0].source, sent));
  EXPECT_THAT(take_all(*worker_), testing::ElementsAre(sent));
}

TEST_F(TransportFrames, GoToTheQueueOfTheirShard) {
  connect({}, ",queues=2", false, 2);
  for (std::uint16_t shard = 0; shard < 5; ++shard) {
    ASSERT_TRUE(send_one(*worker_, datagram(shard, 100), static_cast<std::uint16_t>(0xBF00 + shard)));
    const auto arrived = box_->poll();
    ASSERT_EQ(arrived.size(), 1U);
    EXPECT_EQ(arrived[0].queue, shard % 2);
    EXPECT_EQ(arrived[0].port, 0xBF00 + shard);
  }
  ASSERT_TRUE(box_->send(worker_binding(), datagram(7, 100), 0));
  ASSERT_TRUE(box_->send(worker_binding(), datagram(8, 100), 1));
  EXPECT_EQ(take_all(*worker_).size(), 2U);
}

TEST_F(TransportFrames, AFullRingLosesFramesButNoMbufs) {
  connect();
  const auto bytes = datagram(1, 1000);
  unsigned taken = 0;
  while (send_one(*worker_, bytes)) ++taken;
  EXPECT_EQ(worker_->counters().mbufs.refused.get(), 1U);
  EXPECT_EQ(worker_->counters().sent.get() + 1, taken);
  EXPECT_TRUE(worker_->lend(1, 100).empty()) << "held back until the next turn";
  EXPECT_EQ(box_->poll().size(), taken - 1);
  EXPECT_TRUE(take_all(*worker_).empty());
  EXPECT_TRUE(send_one(*worker_, bytes));
  EXPECT_EQ(box_->poll().size(), 1U);
}

TEST_F(TransportFrames, AnEmptyPoolLendsLessAndIsCounted) {
  connect();
  std::vector<rte_mbuf*> all;
  dpdk::MbufCounters ignored;
  while (rte_mbuf* m = dpdk::allocate(worker_->pool(), ignored)) all.push_back(m);
  EXPECT_TRUE(worker_->lend(4, 100).empty());
  EXPECT_EQ(worker_->counters().mbufs.no_mbuf.get(), 1U);
  ASSERT_TRUE(box_->send(worker_binding(), datagram(1, 100)));
  EXPECT_TRUE(take_all(*worker_).empty()) << "stays in the ring";
  for (std::size_t i = 0; i < 3; ++i) {
    dpdk::drop(all.back());
    all.pop_back();
  }
  EXPECT_EQ(take_all(*worker_).size(), 1U);
  EXPECT_EQ(worker_->lend(4, 100).size(), 3U);
  worker_->send(0);
  for (rte_mbuf* m : all) dpdk::drop(m);
}

TEST_F(TransportFrames, DescribeTellsDeviceMtuQueuesLinkAndMemory) {
  connect();
  const std::string up = worker_->describe();
  EXPECT_THAT(up, HasSubstr("net_memif"));
  EXPECT_THAT(up, HasSubstr("MTU 1500, 1 receive and 1 transmit queues, link up, "));
  EXPECT_THAT(up, HasSubstr("hugepages"));
}

// A program may make and end workers for ever: DPDK knows 128 threads at a time.
TEST_F(TransportFrames, AProgressThreadIsForgottenWhenItEnds) {
  connect();
  for (int i = 0; i < 300; ++i) {
    bool attached = false;
    std::thread([&] { attached = worker_->attach().has_value(); }).join();
    ASSERT_TRUE(attached) << i;
  }
}

TEST(TransportDevices, SeveralWorkersInOneProcessTalkToTheirOwnBox) {
  const SocketDirectory directory;
  const SocketDirectory other;
  FakeBox first_box(directory.server());
  FakeBox second_box(other.server());
  auto first = WorkerSetup{.device = directory.client()}.open();
  auto second = WorkerSetup{.device = other.client(), .address = "10.0.0.12/24"}.open();
  ASSERT_TRUE(first) << first.error().text();
  ASSERT_TRUE(second) << second.error().text();
  EXPECT_NE((*first)->address().mac, (*second)->address().mac);
  ASSERT_TRUE(bring_up(**first, &first_box));
  ASSERT_TRUE(bring_up(**second, &second_box));
  ASSERT_TRUE(send_one(**first, datagram(1, 100)));
  ASSERT_TRUE(send_one(**second, datagram(2, 100)));
  EXPECT_EQ(first_box.poll().at(0).payload, datagram(1, 100));
  EXPECT_EQ(second_box.poll().at(0).payload, datagram(2, 100));
  first->reset();
  first_box.settle();
  ASSERT_TRUE(send_one(**second, datagram(3, 100))) << "the other one's end is none of its business";
  EXPECT_EQ(second_box.poll().size(), 1U);
  second->reset();
  second_box.settle();
}

TEST(TransportDevices, AreOpenedOnceAndCanBeOpenedAgain) {
  const SocketDirectory directory;
  const WorkerSetup setup{.device = directory.client(0)};
  auto first = setup.open();
  ASSERT_TRUE(first) << first.error().text();
  const auto second = setup.open();
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().text(), HasSubstr("net_memif"));
  first->reset();
  EXPECT_TRUE(setup.open()) << "a closed device leaves nothing behind";
}

TEST(TransportDevices, AnUnknownDriverIsNamed) {
  const auto opened = WorkerSetup{.device = "net_nonsense0"}.open();
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().text(), HasSubstr("net_nonsense0"));
}

// net_ring sends to itself: what the test puts into the ring, the transport receives. A frame in three
// segments.
TEST(TransportDevices, SegmentsAreReadAsOneDatagram) {
  auto opened = WorkerSetup{.device = "net_ring77"}.open();
  ASSERT_TRUE(opened) << opened.error().text();
  dpdk_transport::DpdkTransport& worker = **opened;
  ASSERT_TRUE(turn_until(worker, [&] { return worker.up(); }));
  std::uint16_t port = 0;
  ASSERT_EQ(rte_eth_dev_get_port_by_name("net_ring77", &port), 0);
  const SocketDirectory directory;
  const FakeBox box(directory.server());  // for its frames only
  jobs::Binding to;
  to.address = worker.address().own;
  to.mac = worker.address().mac;
  to.udp_port = worker.address().udp_port;
  const auto payload = datagram(5, 700);
  const auto frame = box.frame_for(to, payload);
  dpdk::MbufCounters counters;
  rte_mbuf* whole = nullptr;
  std::size_t at = 0;
  for (const std::size_t part : {30UL, 400UL, frame.size() - 430}) {
    rte_mbuf* m = dpdk::allocate(worker.pool(), counters);
    ASSERT_NE(m, nullptr);
    std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(part)), frame.data() + at, part);
    at += part;
    if (whole == nullptr) {
      whole = m;
    } else {
      ASSERT_EQ(rte_pktmbuf_chain(whole, m), 0);
    }
  }
  ASSERT_EQ(dpdk::send(port, 0, {&whole, 1}, counters), 1U);
  EXPECT_THAT(take_all(worker), testing::ElementsAre(payload));
  EXPECT_EQ(audit(worker.pool()), "");
}

// DPDK's threads and memory are the parent's.
TEST(TransportFork, AChildIsRefusedAndSaysWhy) {
  const SocketDirectory directory;
  auto worker = WorkerSetup{.device = directory.client(0)}.open();
  ASSERT_TRUE(worker) << worker.error().text();
  const pid_t child = fork();
  if (child == 0) {
    const auto refused = WorkerSetup{.device = directory.client(1)}.open();
    const bool right = !refused && refused.error().text().find("fork()") != std::string::npos;
    _exit(right ? 42 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

}  // namespace
}  // namespace tally::e2e

// Transport 'udp' against plain sockets in a network namespace of its own: what goes out, what is taken, and
// what becomes of errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <tuple>

#include "api/transport.h"
#include "own_network.h"
#include "tally/mtu.h"
#include "udp/udp_socket.h"
#include "udp/udp_transport.h"

namespace tally::e2e {
namespace {

using testing::HasSubstr;
using Payload = std::vector<std::byte>;

constexpr TimeNs kPatience = 20 * kSecond;  // a bound, never an expectation

Payload payload(std::uint32_t seed, std::size_t bytes) {
  Payload made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(seed * 131 + i * 7 + i / 251);
  return made;
}

udp::UdpSocket bound(const udp::UdpAddress& at) {
  auto socket = udp::UdpSocket::open(at.family());
  EXPECT_TRUE(socket);
  EXPECT_EQ(socket->bind(at), 0) << at.text();
  static_cast<void>(socket->grow_buffers(std::size_t{1} << 20));
  return std::move(*socket);
}

class UdpTransports : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_own_network().empty()) GTEST_SKIP() << why_no_own_network();
  }
  [[nodiscard]] static Result<std::unique_ptr<udp::UdpTransport>> try_open(TransportOptions options = {}) {
    if (options.box.empty()) options.box = "127.0.0.1";
    return udp::UdpTransport::open(options);
  }
  [[nodiscard]] static std::unique_ptr<udp::UdpTransport> open(const TransportOptions& options = {}) {
    auto opened = try_open(options);
    EXPECT_TRUE(opened) << opened.error().text();
    return opened ? std::move(*opened) : nullptr;
  }
  [[nodiscard]] static udp::UdpSocket box(std::uint16_t shard = 0, const char* address = "127.0.0.1") {
    udp::UdpAddress at = *udp::parse_address(address);
    at.set_port(static_cast<std::uint16_t>(kBasePort + shard));
    return bound(at);
  }
  static void send(udp::UdpTransport& from, const std::vector<Payload>& all, std::uint16_t shards = 1) {
    std::size_t most = 0;
    for (const Payload& each : all) most = std::max(most, each.size());
    const auto room = from.lend(all.size(), most);
    ASSERT_EQ(room.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::copy(all[i].begin(), all[i].end(), room[i].room.begin());
      room[i].bytes = all[i].size();
      room[i].destination_port = static_cast<std::uint16_t>(kBasePort + i % shards);
    }
    from.send(all.size());
  }
  // What arrives at a plain socket, `count` or more.
  [[nodiscard]] static std::vector<Payload> arrivals(const udp::UdpSocket& at, std::size_t count) {
    std::vector<Payload> all;
    pollfd readable{at.fd(), POLLIN, 0};
    while (all.size() < count && ::poll(&readable, 1, 20'000) > 0) {
      Payload one(10'000);
      const ssize_t got = recv(at.fd(), one.data(), one.size(), 0);
      if (got < 0) break;
      one.resize(static_cast<std::size_t>(got));
      all.push_back(std::move(one));
    }
    return all;
  }
  static bool send_to(const udp::UdpSocket& from, udp::UdpAddress to, const Payload& bytes) {
    return sendto(from.fd(), bytes.data(), bytes.size(), 0, to.raw(), to.size()) ==
           static_cast<ssize_t>(bytes.size());
  }
  // What the transport hands up until there are `count`, or nothing has come for a moment.
  [[nodiscard]] static std::vector<Payload> taken(udp::UdpTransport& by, std::size_t count) {
    std::vector<Payload> all;
    const DatagramSink sink = [&](std::span<const std::byte> bytes) {
      all.emplace_back(bytes.begin(), bytes.end());
    };
    const TimeNs end = steady_now() + kPatience;
    while (all.size() < count && steady_now() < end) {
      if (by.receive(sink) == 0) by.wait(steady_now(), steady_now() + kMillisecond);
    }
    while (by.receive(sink) != 0) continue;  // more than was asked for is a finding, too
    return all;
  }
  [[nodiscard]] static engine::Membership multicast(std::uint8_t last) {
    engine::Membership m;
    m.results = ResultsMode::kMulticast;
    m.group = mapped({239, 192, 0, last});
    m.group_port = kMulticastPort;
    return m;
  }
};

TEST_F(UdpTransports, CarryContentBothWaysAndOnAllShards) {
  const udp::UdpSocket first = box(0);
  const udp::UdpSocket second = box(1);
  const auto worker = open();
  EXPECT_EQ(worker->most_elements(), 352);
  const std::vector<Payload> sent{payload(1, 1464), payload(2, 56), payload(3, 1464), payload(4, 200)};
  send(*worker, sent, 2);
  EXPECT_THAT(arrivals(first, 2), testing::ElementsAre(sent[0], sent[2]));
  EXPECT_THAT(arrivals(second, 2), testing::ElementsAre(sent[1], sent[3]));
  for (const udp::UdpSocket* from : {&first, &second})
    ASSERT_TRUE(send_to(*from, worker->address(), sent[0]));
  EXPECT_THAT(taken(*worker, 2), testing::ElementsAre(sent[0], sent[0]));
  EXPECT_EQ(worker->trouble(), "");
}

TEST_F(UdpTransports, SegmentedBurstsArriveAsTheyWere) {
  const udp::UdpSocket first = box(0);
  const udp::UdpSocket second = box(1);
  const auto worker = open({.device = "gso=on"});
  std::vector<Payload> sent;
  for (std::uint32_t i = 0; i < 32; ++i) sent.push_back(payload(i, i == 30 ? 120 : 1464));
  send(*worker, sent, 2);
  std::vector<Payload> even;
  std::vector<Payload> odd;
  for (std::uint32_t i = 0; i < 32; ++i) (i % 2 == 0 ? even : odd).push_back(sent[i]);
  EXPECT_EQ(arrivals(first, 16), even);
  EXPECT_EQ(arrivals(second, 16), odd);
  EXPECT_EQ(worker->sender().counters().sent.get(), 32U);
}

TEST_F(UdpTransports, LeftToThemselvesSegmentOnlyWhereTheKernelCuts) {
  // The loopback interface takes messages uncut, like one end of a veth, whose other end a box may have.
  EXPECT_EQ(udp::takes_uncut_udp("lo"), std::optional<bool>(true));
  EXPECT_EQ(udp::takes_uncut_udp("no-such-one"), std::nullopt);
  EXPECT_FALSE(open()->sender().segmented());
  const auto forced = open({.device = "gso=on"});
  EXPECT_TRUE(forced->sender().segmented());
  EXPECT_THAT(forced->describe(), HasSubstr(", GSO (lo may pass bursts on uncut"));
}

TEST_F(UdpTransports, TakeFromTheBoxOnly) {
  const udp::UdpSocket real = box();
  const auto worker = open();
  udp::UdpAddress elsewhere = *udp::parse_address("127.0.0.2");
  elsewhere.set_port(kBasePort);
  udp::UdpAddress other_port = *udp::parse_address("127.0.0.1");
  other_port.set_port(kBasePort + 64);
  ASSERT_TRUE(send_to(bound(elsewhere), worker->address(), payload(1, 60)));
  ASSERT_TRUE(send_to(bound(other_port), worker->address(), payload(2, 60)));
  ASSERT_TRUE(send_to(real, worker->address(), payload(3, 1500)));  // longer than the MTU carries
  ASSERT_TRUE(send_to(real, worker->address(), payload(4, 60)));
  EXPECT_THAT(taken(*worker, 1), testing::ElementsAre(payload(4, 60)));
  EXPECT_EQ(worker->receiver().counters().foreign.get(), 2U);
  EXPECT_EQ(worker->receiver().counters().too_long.get(), 1U);
}

// With and without segments; an IPv4 and an IPv6 path.
TEST_F(UdpTransports, SeveralBoxesGetWhatIsTheirsAndAreToldApart) {
  if (std::system("ip addr add fd88::1/128 dev lo nodad 2>/dev/null; ip addr add fd88::2/128 dev lo nodad") !=
      0)
    GTEST_SKIP() << "ip adds no address here";
  using Pair = std::array<const char*, 2>;
  for (const Pair& names : {Pair{"127.0.0.1", "127.0.0.2"}, Pair{"fd88::1", "fd88::2"}}) {
    for (const char* const device : {"gso=off", "gso=on"}) {
      const udp::UdpSocket first = box(0, names[0]);
      const udp::UdpSocket second = box(0, names[1]);
      const auto worker = open({.device = device, .box = names[0]});
      ASSERT_TRUE(send_to(second, worker->address(), payload(9, 60)));
      const std::array boxes{BoxAddress{}, BoxAddress{udp::parse_address(names[1])->ip()}};
      const auto set = worker->set_boxes(boxes);
      ASSERT_TRUE(set) << set.error().text();
      EXPECT_THAT(taken(*worker, 1), testing::ElementsAre(payload(9, 60))) << "it is one of them now";
      const auto room = worker->lend(8, 1000);
      ASSERT_EQ(room.size(), 8U);
      for (std::uint32_t i = 0; i < 8; ++i) {
        const Payload one = payload(i, 1000);
        std::copy(one.begin(), one.end(), room[i].room.begin());
        room[i].bytes = one.size();
        room[i].destination_port = kBasePort;
        room[i].box = static_cast<std::uint16_t>(i % 2);
      }
      worker->send(8);
      EXPECT_THAT(arrivals(first, 4), testing::ElementsAre(payload(0, 1000), payload(2, 1000),
                                                           payload(4, 1000), payload(6, 1000)));
      EXPECT_THAT(arrivals(second, 4), testing::ElementsAre(payload(1, 1000), payload(3, 1000),
                                                            payload(5, 1000), payload(7, 1000)));
      ASSERT_TRUE(send_to(second, worker->address(), payload(20, 60)));
      ASSERT_TRUE(send_to(first, worker->address(), payload(21, 60)));
      std::vector<std::size_t> from;
      const DatagramSink sink = [&](std::span<const std::byte>, std::size_t which) { from.push_back(which); };
      const TimeNs end = steady_now() + kPatience;
      while (from.size() < 2 && steady_now() < end)
        if (worker->receive(sink) == 0) worker->wait(steady_now(), steady_now() + kMillisecond);
      EXPECT_THAT(from, testing::UnorderedElementsAre(1U, 0U));
      // Back to one: the other is a stranger.
      ASSERT_TRUE(worker->set_boxes(std::span(boxes).first(1)));
      const std::uint64_t foreign = worker->receiver().counters().foreign.get();
      ASSERT_TRUE(send_to(second, worker->address(), payload(22, 60)));
      ASSERT_TRUE(send_to(first, worker->address(), payload(23, 60)));
      EXPECT_THAT(taken(*worker, 1), testing::ElementsAre(payload(23, 60)));
      EXPECT_EQ(worker->receiver().counters().foreign.get(), foreign + 1);
    }
  }
}

TEST_F(UdpTransports, ABoxThatCannotBeReachedThisWayIsNamedAndTheListStays) {
  const udp::UdpSocket real = box();
  const auto worker = open();
  const std::array other_family{BoxAddress{}, BoxAddress{udp::parse_address("fd88::9")->ip()}};
  const auto wrong = worker->set_boxes(other_family);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().what,
              HasSubstr("fd88::9, another box of the job, and 127.0.0.1 are not both IPv4"));
  const std::array no_route{BoxAddress{}, BoxAddress{mapped({203, 0, 113, 9})}};
  const auto none = worker->set_boxes(no_route);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().what, HasSubstr("203.0.113.9"));
  // What names a box that is not in the list goes nowhere, and what is behind it goes.
  const auto room = worker->lend(2, 60);
  ASSERT_EQ(room.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const Payload one = payload(static_cast<std::uint32_t>(i), 60);
    std::copy(one.begin(), one.end(), room[i].room.begin());
    room[i].bytes = one.size();
    room[i].destination_port = kBasePort;
    room[i].box = static_cast<std::uint16_t>(1 - i);
  }
  worker->send(2);
  EXPECT_THAT(arrivals(real, 1), testing::ElementsAre(payload(1, 60)));
  EXPECT_EQ(worker->sender().counters().refused.get(), 1U);
}

TEST_F(UdpTransports, EveryWorkerOfTheMachineGetsWhatTheGroupGets) {
  const udp::UdpSocket real = box();
  const ip_mreqn loopback{{}, {}, 1};
  ASSERT_EQ(setsockopt(real.fd(), IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof loopback), 0);
  const auto one = open();
  const auto two = open();
  const udp::UdpAddress group(mapped({239, 192, 0, 1}), kMulticastPort);
  const udp::UdpAddress other(mapped({239, 192, 0, 2}), kMulticastPort);
  ASSERT_TRUE(send_to(real, group, payload(1, 60)));  // before they are in it
  one->joined(multicast(1));
  two->joined(multicast(1));
  EXPECT_THAT(one->describe(), HasSubstr("group 239.192.0.1:49151"));
  ASSERT_TRUE(send_to(real, group, payload(2, 60)));
  ASSERT_TRUE(send_to(real, other, payload(3, 60)));
  for (const auto& each : {one.get(), two.get()}) {
    EXPECT_THAT(taken(*each, 1), testing::ElementsAre(payload(2, 60))) << "once, and of this group only";
    ASSERT_TRUE(send_to(real, each->address(), payload(4, 60)));
    EXPECT_THAT(taken(*each, 1), testing::ElementsAre(payload(4, 60))) << "repairs stay unicast";
  }
  one->joined(multicast(2));
  two->joined(engine::Membership{});
  ASSERT_TRUE(send_to(real, group, payload(5, 60)));
  ASSERT_TRUE(send_to(real, other, payload(6, 60)));
  EXPECT_THAT(taken(*one, 1), testing::ElementsAre(payload(6, 60)));
  ASSERT_TRUE(send_to(real, two->address(), payload(7, 60)));
  EXPECT_THAT(taken(*two, 1), testing::ElementsAre(payload(7, 60)));
}

// A switch that snoops passes a group on to those whose kernel has reported it; what we send first makes
// results.
TEST_F(UdpTransports, NothingLeavesBeforeTheKernelHasReportedTheGroup) {
  const auto worker = open();
  // What it lent before `then` would be too early. The clock is read afterwards, so a pause here does no
  // harm.
  const auto lends_only_after = [&worker](TimeNs then) {
    while (worker->lend(1, 60).empty()) {
      if (steady_now() > then + kPatience) return false;
    }
    return steady_now() >= then;
  };
  EXPECT_GE(udp::report_delay(), 4 * kMillisecond) << "two to three ticks, and a tick is 1 ms or more";
  const TimeNs begun = steady_now();
  worker->joined(multicast(1));
  const TimeNs reported = worker->reported_at();
  EXPECT_GE(reported, begun + udp::report_delay());
  worker->joined(multicast(1));  // a new epoch
  EXPECT_EQ(worker->reported_at(), reported);
  EXPECT_TRUE(lends_only_after(reported));

  worker->joined(multicast(1));
  EXPECT_EQ(worker->reported_at(), 0U) << "the switch knows of it already";
  worker->joined(multicast(2));
  EXPECT_GT(worker->reported_at(), reported);
  worker->joined(engine::Membership{});
  EXPECT_EQ(worker->reported_at(), 0U) << "results by unicast";
}

TEST_F(UdpTransports, TheInterfaceIsTheOneThatLeadsToTheBoxWhereverTheAddressIs) {
  const auto ip = [](const std::string& words) {
    return std::system(("ip " + words + " 2>/dev/null").c_str()) == 0;
  };
  if (!ip("link add fuA type veth peer name fuB")) GTEST_SKIP() << "ip makes no veth here";
  for (const char* const words :
       {"link set fuA up", "link set fuB up", "addr add 10.9.0.2/24 dev fuA", "addr add 10.77.0.5/32 dev lo",
        "addr add fd09::2/64 dev fuA nodad", "addr add fd77::5/128 dev lo nodad"})
    ASSERT_TRUE(ip(words)) << words;
  for (const char* const own : {"", "10.77.0.5"}) {
    const auto worker = open({.box = "10.9.0.1", .address = own});
    EXPECT_THAT(worker->describe(), HasSubstr(" on fuA, "));
    worker->joined(multicast(1));
    EXPECT_EQ(worker->group().address().interface, if_nametoindex("fuA"));
  }
  EXPECT_THAT(open({.box = "fd09::1", .address = "fd77::5"})->describe(), HasSubstr(" on fuA, "));
  ASSERT_TRUE(ip("link del fuA"));
  ASSERT_TRUE(ip("addr del 10.77.0.5/32 dev lo"));
  ASSERT_TRUE(ip("addr del fd77::5/128 dev lo"));
}

TEST_F(UdpTransports, AnswersOfThePathAreCountedAndSaidAndEndNothing) {
  const auto worker = open();
  for (int i = 0; i < 4; ++i) {
    send(*worker, {payload(1, 60), payload(2, 60)});
    EXPECT_TRUE(taken(*worker, 0).empty());
  }
  EXPECT_GE(worker->errors().count(), 1U);
  EXPECT_THAT(worker->trouble(), HasSubstr("Connection refused"));
  // Errors that wait would end every wait at once: this one lasts until the datagram.
  const udp::UdpSocket real = box();
  send(*worker, {payload(3, 60)});
  ASSERT_TRUE(send_to(real, worker->address(), payload(4, 60)));
  EXPECT_THAT(taken(*worker, 1), testing::ElementsAre(payload(4, 60)));
  EXPECT_THAT(arrivals(real, 1), testing::ElementsAre(payload(3, 60)));
}

TEST_F(UdpTransports, WhatIsTooLongIsNotFragmented) {
  const udp::UdpSocket real = box();
  const auto worker = open();
  ASSERT_TRUE(set_loopback_mtu(1000));
  send(*worker, {payload(1, 1464), payload(2, 60)});
  EXPECT_THAT(arrivals(real, 1), testing::ElementsAre(payload(2, 60)));
  EXPECT_EQ(worker->sender().counters().too_long.get(), 1U);
  EXPECT_TRUE(taken(*worker, 0).empty());
  EXPECT_THAT(worker->trouble(), HasSubstr("lower TALLY_MTU"));
  const auto later = open();
  EXPECT_EQ(later->most_elements(), 224) << "the route's MTU is below TALLY_MTU";
  ASSERT_TRUE(set_loopback_mtu(kLeastMtu));
  EXPECT_EQ(open()->most_elements(), 128);
  ASSERT_TRUE(set_loopback_mtu(kLeastMtu - 1));
  const auto refused = try_open();
  ASSERT_TRUE(set_loopback_mtu(65'536));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text(), "TALLY_MTU: 615: the path to the box must carry 616 bytes or more");
}

TEST_F(UdpTransports, ADatagramThatIsTooLongIsOneErrorEachTime) {
  const udp::UdpSocket real = box();
  for (const char* const device : {"gso=off", "gso=on"}) {
    const auto worker = open({.device = device});
    ASSERT_TRUE(set_loopback_mtu(1000));
    send(*worker, {payload(1, 1464)});
    EXPECT_TRUE(taken(*worker, 0).empty());
    EXPECT_THAT(worker->trouble(), HasSubstr("1 error of the path, the last: Message too long")) << device;
    ASSERT_TRUE(set_loopback_mtu(65'536));
  }
}

// As WhatIsTooLongIsNotFragmented, with bursts that are one message to the kernel.
TEST_F(UdpTransports, ASegmentedBurstThatIsTooLongIsSaidAndItsShortDatagramArrives) {
  const udp::UdpSocket real = box();
  const auto worker = open({.device = "gso=on"});
  ASSERT_TRUE(set_loopback_mtu(1000));
  send(*worker, {payload(1, 1464), payload(2, 1464), payload(3, 60)});
  EXPECT_EQ(worker->sender().counters().too_long.get(), 2U);
  EXPECT_TRUE(taken(*worker, 0).empty());
  ASSERT_TRUE(set_loopback_mtu(65'536));
  EXPECT_THAT(worker->trouble(), HasSubstr("2 errors of the path, the last: Message too long"));
  EXPECT_THAT(worker->trouble(), HasSubstr("lower TALLY_MTU"));
  ASSERT_TRUE(worker->sender().segmented()) << "segmenting is not what failed";
  EXPECT_THAT(arrivals(real, 1), testing::ElementsAre(payload(3, 60)));
}

TEST_F(UdpTransports, SegmentingEndsWhereTheKernelTakesOneDatagramButNotSeveral) {
  const udp::UdpSocket real = box();
  const udp::UdpSocket socket = bound(*udp::parse_address("127.0.0.1"));
  ASSERT_EQ(socket.set(SOL_SOCKET, SO_NO_CHECK, 1), 0);  // the kernel segments nothing without checksums
  udp::UdpAddress to = *udp::parse_address("127.0.0.1");
  to.set_port(kBasePort);
  udp::PathErrors errors;
  udp::UdpSender sender(socket.fd(), to, 1472, true, errors);
  const auto room = sender.lend(4, 1464);
  ASSERT_EQ(room.size(), 4U);
  for (Outbound& each : room) each.bytes = 1464;
  sender.send(4);
  EXPECT_EQ(arrivals(real, 4).size(), 4U);
  EXPECT_FALSE(sender.segmented());
  EXPECT_TRUE(sender.segmentation_refused());
  EXPECT_EQ(sender.counters().refused.get(), 0U);
}

// While it lives, the interface has this queue.
class LoQueue {
 public:
  explicit LoQueue(const std::string& words) : works_(tc("qdisc add dev lo root " + words)) {}
  LoQueue(const LoQueue&) = delete;
  LoQueue& operator=(const LoQueue&) = delete;
  ~LoQueue() { tc("qdisc del dev lo root"); }
  [[nodiscard]] bool works() const { return works_; }

 private:
  static bool tc(const std::string& words) {
    return std::system(("tc " + words + " 2>/dev/null").c_str()) == 0;
  }
  const bool works_;
};
const char* const kNoRoom = "pfifo limit 0";

TEST_F(UdpTransports, ABurstWaitsForTheWireAndNotTheWindow) {
  const LoQueue slow("tbf rate 8kbit burst 2kb limit 10mb");  // a datagram takes longer than the test
  if (!slow.works()) GTEST_SKIP() << "tc makes no token bucket here";
  for (const auto& [device, least, most] : {std::tuple{"", 32U, 64U}, std::tuple{"backlog=16", 16U, 48U}}) {
    const auto worker = open({.device = device});
    engine::Membership with_window;
    with_window.window = 1024;
    worker->joined(with_window);
    for (int burst = 0; burst < 32; ++burst) {
      if (worker->lend(32, 1464).empty()) break;
      send(*worker, std::vector<Payload>(32, payload(1, 1464)));
    }
    EXPECT_EQ(worker->sender().waits(), udp::UdpSender::Waits::kSocket) << device;
    EXPECT_GE(worker->sender().counters().sent.get(), least) << device;
    EXPECT_LT(worker->sender().counters().sent.get(), most) << device;
  }
}

TEST_F(UdpTransports, WhatTheQueueDropsIsLostAndHoldsNothingBack) {
  const udp::UdpSocket real = box();
  const auto worker = open();
  {
    const LoQueue dropping(kNoRoom);
    if (!dropping.works()) GTEST_SKIP() << "tc sets no queue here";
    send(*worker, {payload(1, 1464), payload(2, 1464)});
    EXPECT_EQ(worker->sender().waits(), udp::UdpSender::Waits::kQueue) << "it may be full for a moment only";
    const TimeNs end = steady_now() + kPatience;
    while (worker->sender().counters().refused.get() < 2 && steady_now() < end) {
      EXPECT_TRUE(taken(*worker, 0).empty());
      worker->wait(steady_now(), steady_now() + kMillisecond);
    }
    EXPECT_EQ(worker->sender().counters().refused.get(), 2U);
    EXPECT_THAT(
        worker->trouble(),
        HasSubstr("2 errors of the path, the last: No buffer space available (the interface's queue or a "
                  "policy drops it: tc -s qdisc show dev lo)"));
    send(*worker, {payload(3, 60)});
    EXPECT_EQ(worker->sender().waits(), udp::UdpSender::Waits::kNothing) << "it has waited enough";
  }
  send(*worker, {payload(4, 60)});
  EXPECT_THAT(arrivals(real, 1), testing::ElementsAre(payload(4, 60)));
}

TEST_F(UdpTransports, SegmentingDoesNotEndWhenTheDatagramAloneIsRefusedToo) {
  const udp::UdpSocket socket = bound(*udp::parse_address("127.0.0.1"));
  ASSERT_EQ(socket.set(SOL_SOCKET, SO_NO_CHECK, 1), 0);  // EINVAL, as for a path that is too narrow in 6.1
  udp::PathErrors errors;
  udp::UdpAddress to = *udp::parse_address("127.0.0.1");
  to.set_port(kBasePort);
  udp::UdpSender sender(socket.fd(), to, 1472, true, errors);
  const LoQueue dropping(kNoRoom);
  if (!dropping.works()) GTEST_SKIP() << "tc sets no queue here";
  const auto room = sender.lend(2, 1464);
  for (Outbound& each : room) each.bytes = 1464;
  sender.send(2);
  const TimeNs end = steady_now() + kPatience;
  while (!sender.flush() && steady_now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(sender.counters().refused.get(), 2U);
  EXPECT_TRUE(sender.segmented());
}

TEST_F(UdpTransports, WakeEndsTheWaitUnderWayAndTheNextOne) {
  const auto worker = open();
  const TimeNs began = steady_now();
  worker->wake();
  worker->wait(began, began + kPatience);
  std::thread waker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    worker->wake();
  });
  worker->wait(steady_now(), steady_now() + kPatience);
  waker.join();
  EXPECT_LT(steady_now() - began, kPatience);
}

TEST_F(UdpTransports, TheSameIdentityComesFromTheSamePort) {
  const std::uint16_t port = open({.identity = 7})->address().port();
  EXPECT_GE(port, 49'152);
  const auto again = open({.identity = 7});
  EXPECT_EQ(again->address().port(), port);
  EXPECT_NE(open({.identity = 7})->address().port(), port) << "another process has it";
  EXPECT_EQ(open({.device = "port=20000"})->address().port(), 20'000);
  const std::string taken = "port=" + std::to_string(port);
  const auto refused = try_open({.device = taken});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("another process has it"));
}

TEST_F(UdpTransports, SayWhatTheKernelGranted) {
  EXPECT_THAT(open({.device = "buffer=1MiB"})->describe(),
              testing::AllOf(HasSubstr("on lo, MTU 1500 (the route carries 6553"),
                             testing::ContainsRegex("receive buffer (1024 KiB|[0-9]+ KiB of 1024 KiB wanted "
                                                    ".sysctl -w net.core.rmem_max=1048576)")));
  const auto nowhere = try_open({.box = "203.0.113.1"});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().text(),
            "TALLY_SWITCH: there is no way from here to the box 203.0.113.1 (see: ip route get 203.0.113.1): "
            "Network is unreachable");
}

}  // namespace
}  // namespace tally::e2e

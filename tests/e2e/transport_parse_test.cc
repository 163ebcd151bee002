// What a person may get wrong in TALLY_TRANSPORT, TALLY_SWITCH, TALLY_ADDRESS and TALLY_MTU; the idle policy.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "dpdk_transport/idle_wait.h"
#include "dpdk_transport/worker_address.h"
#include "dpdk_transport/worker_eal.h"
#include "tally/mtu.h"
#include "transport_harness.h"

namespace tally::e2e {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kMtu = 1500;

struct Mistake {
  std::string device;
  std::string told;
};

TEST(TransportDevice, NamesEveryMistake) {
  const std::vector<Mistake> mistakes{
      {"memif0,socket=/tmp/x", "is no device"},
      {"", "is no device"},
      {"net_memif0,role=server,socket=/tmp/x", "the box is the server"},
      {"net_memif0,role=boss", "role is 'boss'"},
      {"net_memif0,sockett=/tmp/x", "net_memif has no argument 'sockett'"},
      {"net_memif0,socket=/tmp/x,socket-abstract=maybe", "yes or no"},
      {"net_memif0,socket=/no/such/place/x,socket-abstract=no", "there is no directory '/no/such/place'"},
      {"net_memif0,socket=x,socket-abstract=no", "with its whole path"},
      {"net_memif0,socket=" + std::string(108, 's'), "at most 106"},
      {"net_memif0,socket=/tmp/x,id=one", "id is 'one': write a whole number"},
      {"net_memif0,socket=/tmp/x,rsize=15", "from 1 to 14"},
      {"net_memif0,socket=/tmp/x,bsize=1024", "a frame of mtu 1500 has 1518 bytes"},
      {"net_memif0,socket=/tmp/x,zero-copy=yes", "not in this version"},
      {"net_memif0,socket=/tmp/x,queues=0", "from 1 to 64"},
      {"net_memif0,socket=/tmp/x,queues=65", "from 1 to 64"},
      {"net_memif0,socket=/tmp/x,", "write key=value"},
      {"net_memif0,socket=/tmp/x,abstract", "'abstract' is not an argument of a device"},
  };
  for (const Mistake& m : mistakes) {
    const auto parsed = dpdk_transport::parse_worker_device(m.device, kMtu);
    ASSERT_FALSE(parsed) << m.device;
    EXPECT_THAT(parsed.error().text(), HasSubstr(m.told)) << m.device;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(TransportDevice, GivesTheDriverThePrivateSocket) {
  const auto small = dpdk_transport::parse_worker_device(
      "net_memif3,role=client,id=7,socket=/tmp/x,socket-abstract=no,queues=2", kMtu);
  ASSERT_TRUE(small) << small.error().text();
  EXPECT_TRUE(small->memif);
  EXPECT_EQ(small->queues, 2);
  EXPECT_EQ(small->socket, "/tmp/x");
  EXPECT_FALSE(small->abstract_socket);
  EXPECT_EQ(small->driver_string("mine"), "net_memif3,role=client,socket-abstract=yes,socket=mine,id=7");
  const auto abstract = dpdk_transport::parse_worker_device("net_memif3,socket=name,bsize=9300", 9000);
  ASSERT_TRUE(abstract);
  EXPECT_TRUE(abstract->abstract_socket);
  EXPECT_THAT(abstract->driver_string("mine"), HasSubstr("socket=mine,bsize=9300"));
  const auto card = dpdk_transport::parse_worker_device("0000:3b:00.0,queues=4,some=thing", kMtu);
  ASSERT_TRUE(card);
  EXPECT_TRUE(card->pci);
  EXPECT_EQ(card->queues, 4);
  EXPECT_EQ(card->driver_string(""), "0000:3b:00.0,some=thing");
}

TEST(TransportAddress, NamesEveryMistake) {
  struct Case {
    std::string box, address, where, told;
  };
  const std::vector<Case> cases{
      {"", "10.0.0.11/24", "TALLY_SWITCH", "not an IP address"},
      {"box", "10.0.0.11/24", "TALLY_SWITCH", "not an IP address"},
      {"10.0.0.1/24", "10.0.0.11/24", "TALLY_SWITCH", "not an IP address"},
      {"10.0.0.1", "", "TALLY_ADDRESS", "for example 10.0.0.11/24"},
      {"10.0.0.1", "10.0.0.11", "TALLY_ADDRESS", "for example 10.0.0.11/24"},
      {"10.0.0.1", "10.0.0.11/33", "TALLY_ADDRESS", "1 to 32"},
      {"10.0.0.1", "10.0.0.11/0", "TALLY_ADDRESS", "1 to 32"},
      {"10.0.0.1", "10.0.0.11/2x", "TALLY_ADDRESS", "1 to 32"},
      {"10.0.0.1", "10.0.1.11/24", "TALLY_ADDRESS", "not in the network"},
      {"10.0.0.1", "fd00::11/64", "TALLY_ADDRESS", "not in the network"},
      {"fd00::1", "fd00:0:0:1::11/64", "TALLY_ADDRESS", "not in the network"},
      {"10.0.0.1", "10.0.0.1/24", "TALLY_ADDRESS", "box's own"},
      {"10.0.0.1", "10.0.0.0/24", "TALLY_ADDRESS", "network's"},
      {"10.0.0.1", "10.0.0.255/24", "TALLY_ADDRESS", "broadcast"},
  };
  for (const Case& c : cases) {
    const auto made = dpdk_transport::make_worker_address(c.box, c.address, 1);
    ASSERT_FALSE(made) << c.box << " " << c.address;
    EXPECT_EQ(made.error().where, c.where);
    EXPECT_THAT(made.error().what, HasSubstr(c.told)) << c.address;
  }
}

TEST(TransportAddress, MakesALocalMacAndAPortOutsideTheBoxs) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const auto made = dpdk_transport::make_worker_address("10.0.0.1", "10.0.0.11/24", seed);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->mac[0], 0x02);
    EXPECT_GE(made->udp_port, 49152);
  }
  EXPECT_TRUE(dpdk_transport::make_worker_address("10.0.0.0", "10.0.0.1/31", 1))
      << "RFC 3021: both ends are hosts";
  EXPECT_TRUE(dpdk_transport::make_worker_address("fd00::3", "fd00::2/127", 1));
  EXPECT_EQ(jobs::multicast_mac(mapped({239, 192, 1, 2})), (Mac{0x01, 0x00, 0x5e, 0x40, 1, 2}));
}

TEST(TransportOpen, RefusesAnImpossibleMtu) {
  WorkerSetup setup{.device = "net_memif0,socket=x"};
  for (const int mtu : {0, 615, 9199, 65535}) {
    setup.mtu = static_cast<std::uint16_t>(mtu);
    const auto opened = setup.open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().where, "TALLY_MTU");
  }
}

TEST(TransportOpen, TakesTheLeastAndTheGreatestMtu) {
  for (const std::uint16_t mtu : {kLeastMtu, kGreatestMtu}) {
    const auto opened = WorkerSetup{.device = "net_memif0,socket=x", .address = "", .mtu = mtu}.open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().where, "TALLY_ADDRESS") << "what is looked at next";
  }
}

TEST(NapPolicy, YieldsThenNapsLongerAndLongerUntilSomethingHappens) {
  dpdk_transport::NapPolicy idle;
  for (unsigned i = 0; i < dpdk_transport::NapPolicy::kYields; ++i) {
    EXPECT_EQ(idle.next_nap(i), 0U);
    idle.waited();
  }
  EXPECT_EQ(idle.next_nap(100), dpdk_transport::NapLengths{}.first);
  TimeNs before = 0;
  for (int i = 0; i < 8; ++i) {
    EXPECT_GE(idle.next_nap(200), before);
    before = idle.next_nap(200);
    idle.waited();
  }
  EXPECT_EQ(before, dpdk_transport::NapLengths{}.longest);
  idle.busy();
  EXPECT_EQ(idle.next_nap(300), 0U);
}

TEST(NapPolicy, NapsOnlyForAWhileAfterAYieldThatCameBackLate) {
  dpdk_transport::NapPolicy idle;
  idle.yielded(kSecond, dpdk_transport::NapPolicy::kLateYield - 1);
  EXPECT_EQ(idle.next_nap(kSecond), 0U);
  idle.yielded(kSecond, dpdk_transport::NapPolicy::kLateYield);
  const TimeNs end = kSecond + dpdk_transport::NapPolicy::kNoYieldFor;
  EXPECT_EQ(idle.next_nap(kSecond), dpdk_transport::NapLengths{}.first);
  idle.waited();
  EXPECT_EQ(idle.next_nap(end - 1), 2 * dpdk_transport::NapLengths{}.first) << "they grow as others do";
  idle.busy();
  EXPECT_EQ(idle.next_nap(end - 1), dpdk_transport::NapLengths{}.first) << "traffic alone does not end it";
  EXPECT_EQ(idle.next_nap(end), 0U);
}

TEST(IdleWaiting, PollNeverWaits) {
  dpdk_transport::IdleWait idle(true);
  for (unsigned i = 0; i < 2 * dpdk_transport::NapPolicy::kYields; ++i) idle.wait(kNever);
  EXPECT_EQ(idle.policy().rounds(), 0U);
}

// A wake() between two waits must end the second one, or a submission would wait for a nap to end.
TEST(IdleWaiting, AWakeBeforeTheWaitIsNotLost) {
  dpdk_transport::IdleWait idle(false);
  while (idle.policy().rounds() <= dpdk_transport::NapPolicy::kYields) idle.wait(kNever);
  idle.wake();
  idle.wait(kNever);
  EXPECT_EQ(idle.policy().rounds(), 0U) << "woken counts as busy";
  idle.wait(kNever);
  EXPECT_EQ(idle.policy().rounds(), 1U) << "one wake() ends one wait()";
}

// Naps are so long that only a wake() ends one; a lost one is seen when the first nap is over.
TEST(IdleWaiting, AWakeFromAnotherThreadEndsTheNap) {
  dpdk_transport::IdleWait idle(false, {.first = 20 * kSecond, .longest = 20 * kSecond});
  std::atomic<bool> waits = false;
  std::jthread waker([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!waits.exchange(false)) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // by then it naps, nearly always
      idle.wake();
    }
  });
  for (int i = 0; i < 50; ++i) {
    waits = true;
    do {
      ASSERT_TRUE(idle.wait(kNever)) << "wake() " << i << " was lost";
    } while (idle.policy().rounds() != 0);
  }
}

}  // namespace
}  // namespace tally::e2e

// The habits of a stock client's thread, one by one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "client_rack.h"
#include "stock_thread.h"

namespace tally::stock {
namespace {

using testing::ElementsAre;

constexpr std::uint16_t kThreadPayload = 128;  // 32 values
constexpr std::size_t kFrame = kHeads + kThreadPayload;
constexpr TimeNs kNow = kSecond;

StockOptions options_of(std::uint16_t window, std::uint16_t threads = 1) {
  return {.addresses = rack_members(1)[0], .payload = kThreadPayload, .threads = threads, .window = window};
}

struct Sent {
  std::vector<std::byte> bytes = std::vector<std::byte>(kFrame);

  [[nodiscard]] FrameHeads heads() const { return heads_of(bytes); }
  [[nodiscard]] unsigned slot() const { return heads().switchml.pool_index.host() & kSlotMask; }
  [[nodiscard]] unsigned set() const { return heads().switchml.pool_index.host() >> 15; }
  [[nodiscard]] std::uint32_t packet() const { return tsi_of(heads().switchml); }
};

// What a switch makes of a request whose sender is alone, such as a session of one.
Sent reply_to(const Sent& request) {
  Sent reply = request;
  FrameHeads h = request.heads();
  std::swap(h.ethernet.source, h.ethernet.destination);
  std::swap(h.ip.source, h.ip.destination);
  std::swap(h.udp.source, h.udp.destination);
  h.ip.ttl = 64;
  set_heads(reply.bytes, h);
  return reply;
}

class StockThreadTest : public testing::Test {
 protected:
  // An operation of `packets` packets, the last one half full.
  void begin(StockThread& thread, std::size_t packets, std::uint32_t job) {
    values_.assign(packets * 32 - 16, 3);
    thread.begin({.integers = values_}, job);
  }
  static std::vector<Sent> first_window(StockThread& thread) {
    std::vector<Sent> all;
    for (Sent sent; thread.first(sent.bytes, kNow);) all.push_back(sent);
    return all;
  }
  // Answers everything until the operation has ended; all requests in order.
  static std::vector<Sent> finish(StockThread& thread) {
    std::vector<Sent> all = first_window(thread);
    for (std::size_t i = 0; i < all.size(); ++i) {
      Sent frame = reply_to(all[i]);
      if (thread.receive(frame.bytes, kNow)) all.push_back(frame);
    }
    EXPECT_TRUE(thread.done());
    return all;
  }
  std::vector<std::int32_t> values_;
};

TEST_F(StockThreadTest, AFirstRequestIsMadeForACardThatCompletesChecksums) {
  StockThread thread(options_of(4), 2);
  begin(thread, 1, 0x107);
  const Sent sent = first_window(thread).at(0);
  const FrameHeads h = sent.heads();
  EXPECT_EQ(h.ethernet.destination, kRackSwitchMac);
  EXPECT_EQ(h.ip.ttl, 128);
  EXPECT_EQ(h.ip.checksum.host(), 0);
  EXPECT_EQ(h.ip.total_length.host(), 20 + 8 + 10 + 128);
  EXPECT_EQ(h.udp.source.host(), 4002);
  EXPECT_EQ(h.udp.destination.host(), 48864);
  // 10.0.0.1 + 10.0.0.254 + 17 + 146, in words of 16 bits, not inverted.
  EXPECT_EQ(h.udp.checksum.host(), 0x0a00 + 0x0001 + 0x0a00 + 0x00fe + 17 + 146);
  EXPECT_EQ(h.switchml.type_size, 0x10);
  EXPECT_EQ(h.switchml.job, 7);
}

TEST_F(StockThreadTest, PacketNumbersAreLittleEndian) {
  StockThread thread(options_of(300), 0);
  begin(thread, 259, 0);
  EXPECT_THAT(first_window(thread).back().heads().switchml.tsi, ElementsAre(2, 1, 0, 0));
}

TEST_F(StockThreadTest, ThreadsSkipHalfOfTheirSlots) {
  for (const std::uint16_t number : std::vector<std::uint16_t>{0, 1, 3}) {
    StockThread thread(options_of(4, 4), number);
    begin(thread, 11, 0);
    std::vector<unsigned> slots, sets;
    for (const Sent& sent : finish(thread)) {
      slots.push_back(sent.slot() - 8U * number);
      sets.push_back(sent.set());
    }
    EXPECT_THAT(slots, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2));
    EXPECT_THAT(sets, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0));
  }
}

TEST_F(StockThreadTest, ThePoolSequenceGoesOnAcrossOperations) {
  StockThread thread(options_of(4), 0);
  begin(thread, 6, 0);
  static_cast<void>(finish(thread));
  begin(thread, 3, 1);
  std::vector<unsigned> slots, sets;
  std::vector<std::uint32_t> packets;
  for (const Sent& sent : finish(thread)) {
    slots.push_back(sent.slot());
    sets.push_back(sent.set());
    packets.push_back(sent.packet());
    EXPECT_EQ(sent.heads().switchml.job, 1);
  }
  EXPECT_THAT(slots, ElementsAre(2, 3, 0));
  EXPECT_THAT(sets, ElementsAre(1, 1, 0));
  EXPECT_THAT(packets, ElementsAre(0, 1, 2));
}

TEST_F(StockThreadTest, AReplyBecomesTheNextRequestInPlace) {
  StockThread thread(options_of(2), 0);
  begin(thread, 4, 5);
  Sent frame = reply_to(first_window(thread).at(1));
  FrameHeads h = frame.heads();
  h.ip.tos = 0xb8;
  h.ip.id = Be<std::uint16_t>{777};
  h.ip.fragment = Be<std::uint16_t>{0x4000};
  h.ip.total_length = Be<std::uint16_t>{999};
  h.udp.length = Be<std::uint16_t>{888};
  h.switchml.type_size = 0x13;
  h.switchml.e1 = 101;
  set_heads(frame.bytes, h);
  frame.bytes.push_back(std::byte{1});  // a frame that grew stays grown
  ASSERT_TRUE(thread.receive(frame.bytes, kNow));
  const FrameHeads next = frame.heads();
  EXPECT_EQ(next.ip.ttl, 64);
  EXPECT_EQ(next.ip.tos, 0xb8);
  EXPECT_EQ(next.ip.id.host(), 777);
  EXPECT_EQ(next.ip.fragment.host(), 0x4000);
  EXPECT_EQ(next.ip.total_length.host(), 999);
  EXPECT_EQ(next.udp.length.host(), 888);
  EXPECT_EQ(next.switchml.type_size, 0x13);
  EXPECT_EQ(next.switchml.job, 5);
  EXPECT_EQ(next.switchml.e1, 101);
  EXPECT_EQ(next.ip.checksum.host(), 0);
  EXPECT_EQ(next.ethernet.source, rack_members(1)[0].mac);
  EXPECT_EQ(next.ip.destination, kRackSwitchIpv4);
  EXPECT_EQ(next.udp.destination.host(), 48864);
  EXPECT_EQ(frame.packet(), 3U);
  EXPECT_EQ(frame.set(), 1U);
}

TEST_F(StockThreadTest, AnUnansweredPacketIsSentAgainAndAgain) {
  StockThread thread(options_of(2), 0);
  begin(thread, 3, 0);
  const std::vector<Sent> first = first_window(thread);
  Sent again;
  EXPECT_FALSE(
      thread.resend(again.bytes, kNow + 2 * kMillisecond - 1));  // a first window waits two timeouts here
  ASSERT_TRUE(thread.resend(again.bytes, kNow + 2 * kMillisecond));
  EXPECT_EQ(again.bytes, first[0].bytes);
  ASSERT_TRUE(thread.resend(again.bytes, kNow + 2 * kMillisecond));
  EXPECT_EQ(again.bytes, first[1].bytes);
  EXPECT_FALSE(thread.resend(again.bytes, kNow + 2 * kMillisecond));
  EXPECT_FALSE(thread.resend(again.bytes, kNow + 3 * kMillisecond - 1));
  EXPECT_TRUE(thread.resend(again.bytes, kNow + 3 * kMillisecond));
  Sent reply = reply_to(first[0]);
  ASSERT_TRUE(thread.receive(reply.bytes, kNow + 3 * kMillisecond));
  ASSERT_TRUE(thread.resend(again.bytes, kNow + 3 * kMillisecond));
  EXPECT_EQ(again.packet(), 1U);
  ASSERT_TRUE(thread.resend(again.bytes, kNow + 4 * kMillisecond));
  EXPECT_TRUE(
      std::ranges::equal(std::span(again.bytes).subspan(kHeads), std::span(reply.bytes).subspan(kHeads)));
  EXPECT_EQ(thread.counters().stale, 0U);
}

TEST_F(StockThreadTest, TheTimeoutDoublesAfterMany) {
  StockOptions options = options_of(1);
  options.timeouts_to_double = 2;
  StockThread thread(options, 0);
  begin(thread, 1, 0);
  static_cast<void>(first_window(thread));
  Sent again;
  TimeNs now = kNow;
  for (const TimeNs wait : std::array<TimeNs, 5>{1, 1, 2, 2, 4}) {
    now += wait * kMillisecond;
    EXPECT_FALSE(thread.resend(again.bytes, now - 1));
    EXPECT_TRUE(thread.resend(again.bytes, now));
  }
}

// Fewer packets than the window: a reply stops the timer of a successor that there is none of, and its own
// runs on.
TEST_F(StockThreadTest, TimersOfASmallOperationSendStalePacketsInTheNextOne) {
  StockThread thread(options_of(8), 0);
  begin(thread, 3, 20);
  const std::vector<Sent> old = finish(thread);
  Sent again;
  EXPECT_FALSE(thread.resend(again.bytes, kNow + kSecond));  // not while nothing runs
  begin(thread, 1, 21);
  Sent fresh;
  ASSERT_TRUE(thread.first(fresh.bytes, kNow + kSecond));
  for (const std::size_t stale : {1U, 2U}) {  // the timer of packet 0 is in use again
    ASSERT_TRUE(thread.resend(again.bytes, kNow + kSecond));
    EXPECT_EQ(again.heads().switchml.job, 20);
    EXPECT_EQ(again.packet(), stale);
    EXPECT_EQ(again.slot(), old[stale].slot());
    EXPECT_NE(again.bytes, old[stale].bytes);  // its values are whatever is there now
  }
  EXPECT_FALSE(thread.resend(again.bytes, kNow + kSecond));
  EXPECT_EQ(thread.counters().stale, 2U);
}

TEST_F(StockThreadTest, RepliesOfAnotherOperationArePassedOver) {
  StockThread thread(options_of(4), 0);
  begin(thread, 2, 1);
  const std::vector<Sent> old = finish(thread);
  begin(thread, 2, 2);
  static_cast<void>(first_window(thread));
  Sent late = reply_to(old[0]);
  EXPECT_FALSE(thread.receive(late.bytes, kNow));
  EXPECT_FALSE(thread.done());
  EXPECT_EQ(thread.counters().others, 1U);
}

TEST_F(StockThreadTest, RepeatedRepliesArePassedOverIfGuarded) {
  StockThread thread(options_of(2), 0);
  begin(thread, 4, 0);
  const Sent request = first_window(thread).at(1);
  Sent reply = reply_to(request), repeated = reply;
  EXPECT_TRUE(thread.receive(reply.bytes, kNow));
  EXPECT_FALSE(thread.receive(repeated.bytes, kNow));
  EXPECT_EQ(thread.counters().duplicates, 1U);
  EXPECT_EQ(thread.counters().answered, 1U);
}

TEST_F(StockThreadTest, RepeatedRepliesCountAsNewOnesAsObserved) {
  StockOptions options = options_of(2);
  options.guard = DuplicateGuard::kObserved;
  StockThread thread(options, 0);
  begin(thread, 4, 0);
  const std::vector<Sent> first = first_window(thread);
  for (int copy = 0; copy < 2; ++copy) {
    Sent reply = reply_to(first[1]);
    EXPECT_TRUE(thread.receive(reply.bytes, kNow)) << "it sends the successor again";
  }
  EXPECT_EQ(thread.counters().taken_twice, 1U);
  Sent reply = reply_to(first[0]);
  EXPECT_TRUE(thread.receive(reply.bytes, kNow));
  Sent repeated = reply_to(first[0]);
  EXPECT_FALSE(thread.receive(repeated.bytes, kNow)) << "every 64th is seen";
}

TEST_F(StockThreadTest, WhatWouldReadBeyondMemoryIsCounted) {
  StockThread thread(options_of(2), 0);
  begin(thread, 2, 0);
  Sent reply = reply_to(first_window(thread).at(0));
  EXPECT_FALSE(thread.receive(std::span(reply.bytes).first(kFrame - 1), kNow));
  FrameHeads h = reply.heads();
  set_tsi(h.switchml, 2);
  set_heads(reply.bytes, h);
  EXPECT_FALSE(thread.receive(reply.bytes, kNow));
  EXPECT_EQ(thread.counters().malformed, 2U);
}

TEST(StockClientTest, ThreadsShareTheOperationAndHavePortsOfTheirOwn) {
  StockClient client(options_of(4, 3));
  std::vector<std::int32_t> values(32 * 3 + 2, 1);
  client.begin({.integers = values});
  std::vector<std::uint16_t> ports;
  for (StockThread& thread : client.threads()) {
    Sent sent;
    while (thread.first(sent.bytes, kNow)) {
      ports.push_back(sent.heads().udp.source.host());
      Sent reply = reply_to(sent);
      EXPECT_EQ(client.thread_for(reply.bytes), &thread);
      static_cast<void>(thread.receive(reply.bytes, kNow));
    }
  }
  EXPECT_THAT(ports, ElementsAre(4000, 4001, 4002, 4002));
  EXPECT_TRUE(client.done());
}

TEST(StockClientTest, FramesForOthersHaveNoThread) {
  StockClient client(options_of(4));
  std::vector<std::byte> frame(kFrame);
  FrameHeads h = fresh_heads(rack_members(1)[0], 0, kThreadPayload);
  set_heads(frame, h);
  EXPECT_EQ(client.thread_for(frame), nullptr) << "the switch's";
  h.ethernet.destination = rack_members(1)[0].mac;
  h.udp.destination = Be<std::uint16_t>{4001};
  set_heads(frame, h);
  EXPECT_EQ(client.thread_for(frame), nullptr) << "a thread that it has not";
  h.udp.destination = Be<std::uint16_t>{4000};
  set_heads(frame, h);
  EXPECT_NE(client.thread_for(frame), nullptr);
  EXPECT_EQ(client.thread_for(std::span(frame).first(kHeads - 1)), nullptr);
}

}  // namespace
}  // namespace tally::stock

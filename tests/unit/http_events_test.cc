// What two threads hand to each other, and the memory of events.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "http/event_history.h"
#include "http_bed.h"

namespace tally::http_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> texts(const std::vector<http::Frame>& frames) {
  std::vector<std::string> all;
  all.reserve(frames.size());
  for (const http::Frame& frame : frames) all.push_back(*frame);
  return all;
}

std::string event(int number) {
  return "id: L-" + std::to_string(number) + "\nevent: event\ndata: e" + std::to_string(number) + "\n\n";
}
std::string gap(int missed) { return "event: gap\ndata: {\"missed\":" + std::to_string(missed) + "}\n\n"; }

TEST(HttpHistory, WhoBeginsIsToldAllThatIsRemembered) {
  http::EventHistory history("L", 3);
  EXPECT_THAT(history.since(std::nullopt), IsEmpty());
  for (int i = 5; i <= 9; ++i)
    EXPECT_THAT(texts(history.add(static_cast<std::uint64_t>(i), "e" + std::to_string(i))),
                ElementsAre(event(i)));
  EXPECT_THAT(texts(history.since(std::nullopt)), ElementsAre(event(7), event(8), event(9)));
}

TEST(HttpHistory, WhoComesBackHasNoGapAndNoRepeat) {
  http::EventHistory history("L", 3);
  for (int i = 1; i <= 9; ++i) (void)history.add(static_cast<std::uint64_t>(i), "e" + std::to_string(i));
  EXPECT_THAT(texts(history.since("L-8")), ElementsAre(event(9)));
  EXPECT_THAT(texts(history.since("L-9")), IsEmpty());
  EXPECT_THAT(texts(history.since("L-6")), ElementsAre(event(7), event(8), event(9)));
  EXPECT_THAT(texts(history.since("L-4")), ElementsAre(gap(2), event(7), event(8), event(9)));
}

TEST(HttpHistory, AnEventOfAnotherLifeIsNotTakenForOneOfThis) {
  http::EventHistory history("L", 3);
  for (int i = 1; i <= 5; ++i) (void)history.add(static_cast<std::uint64_t>(i), "e" + std::to_string(i));
  for (const char* id : {"K-4", "4", "L-", "L", "", "L-99", "L--4", "L-18446744073709551615", "L-x"})
    EXPECT_THAT(texts(history.since(id)), ElementsAre(gap(2), event(3), event(4), event(5))) << id;
}

TEST(HttpHistory, NumbersThatAreMissingAreAGapForThoseWhoListenAndThoseWhoComeBack) {
  http::EventHistory history("L", 3);
  (void)history.add(1, "e1");
  EXPECT_THAT(texts(history.add(4, "e4")), ElementsAre(gap(2), event(4)));
  EXPECT_THAT(texts(history.since("L-1")), ElementsAre(gap(2), event(4)));
  EXPECT_THAT(texts(history.since(std::nullopt)), ElementsAre(event(1), gap(2), event(4)));
}

TEST(HttpExchange, SnapshotsAreMadeForThoseWhoAskAndNotMoreThanFiveASecond) {
  http::Exchange exchange;
  TimeNs now = 100 * kSecond;
  EXPECT_FALSE(exchange.take_wish(now));
  exchange.ask(now);
  EXPECT_TRUE(exchange.take_wish(now));
  EXPECT_FALSE(exchange.take_wish(now)) << "one for each wish";
  exchange.publish(std::make_shared<const api::Snapshot>(), now);
  int made = 0;
  for (const TimeNs end = now + kSecond; now < end; now += kMillisecond) {
    exchange.ask(now);
    if (exchange.take_wish(now)) ++made;
  }
  EXPECT_LE(made, 5);
  EXPECT_GE(made, 4);
}

TEST(HttpExchange, AWishThatIsTooEarlyIsKeptAndOneOfTheGoneIsNot) {
  http::Exchange exchange;
  const TimeNs now = 100 * kSecond;
  exchange.ask(now);
  ASSERT_TRUE(exchange.take_wish(now));
  exchange.ask(now + kMillisecond);
  EXPECT_FALSE(exchange.take_wish(now + kMillisecond));
  EXPECT_TRUE(exchange.take_wish(now + 200 * kMillisecond));
  exchange.ask(now + kSecond);
  EXPECT_FALSE(exchange.take_wish(now + 4 * kSecond)) << "nobody waits any more";
}

TEST(HttpExchange, NumbersGrowByOneAndEventsThatNobodyTakesAreBounded) {
  http::Exchange exchange;
  EXPECT_EQ(exchange.newest(), nullptr);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    exchange.publish(std::make_shared<const api::Snapshot>(), i);
    EXPECT_EQ(exchange.newest()->number, i);
  }
  for (std::uint64_t i = 1; i <= http::Exchange::kMostWaiting + 7; ++i) exchange.tell(i, "e");
  const auto events = exchange.take_events();
  ASSERT_EQ(events.size(), http::Exchange::kMostWaiting);
  EXPECT_EQ(events.front().number, 8U);
  EXPECT_THAT(exchange.take_events(), IsEmpty());
}

}  // namespace
}  // namespace tally::http_test

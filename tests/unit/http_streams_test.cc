// Event streams: what they are sent, who is cut, how they end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http_bed.h"

namespace tally::http_test {
namespace {

using http::Refusal;
using testing::HasSubstr;
using testing::StartsWith;

// The frames of a stream, without the chunks in which they came.
std::string frames_of(const Guest& one) {
  std::string in = one.body(), out;
  while (true) {
    const std::size_t end = in.find("\r\n");
    if (end == std::string::npos) return out;
    const std::size_t size = std::stoul(in.substr(0, end), nullptr, 16);
    out += in.substr(end + 2, size);
    if (size == 0) return out + "[end]";
    in.erase(0, std::min(in.size(), end + 2 + size + 2));
  }
}

std::vector<Json> boxes_of(const Guest& one) {
  std::vector<Json> all;
  const std::string frames = frames_of(one);
  constexpr std::string_view kHead = "event: box\ndata: ";
  for (std::size_t at = frames.find(kHead); at != std::string::npos; at = frames.find(kHead, at + 1)) {
    const std::size_t from = at + kHead.size(), end = frames.find('\n', from);
    if (end != std::string::npos) all.push_back(Json::parse(frames.substr(from, end - from)));
  }
  return all;
}

struct HttpStreams : Http {
  Guest follower(const std::string& more = "") {
    Guest one = guest();
    one.get("/events", more);
    run();
    one.hear();
    return one;
  }
};

TEST_F(HttpStreams, BeginWithWhoItIsThenTheBoxThenWhatHappened) {
  begin();
  exchange.tell(1, R"({"number":1})");
  exchange.tell(2, R"({"number":2})");
  run();
  Guest one = follower();
  EXPECT_THAT(one.heard, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(one.heard, HasSubstr("Content-Type: text/event-stream"));
  const std::string frames = frames_of(one);
  EXPECT_THAT(frames,
              StartsWith("event: hello\ndata: {\"instance\":\"rack1\",\"version\":\"0.1.0\"}\n\nevent: "
                         "box\ndata: {\"snapshot\":1,"));
  EXPECT_LT(frames.find("event: box"), frames.find("event: event\ndata: {\"number\":1}\n\n"));
  EXPECT_LT(frames.find("{\"number\":1}"), frames.find("{\"number\":2}"));
  exchange.tell(3, R"({"number":3})");
  run();
  one.hear();
  EXPECT_THAT(frames_of(one), HasSubstr("-3\nevent: event\ndata: {\"number\":3}\n\n"));
}

TEST_F(HttpStreams, TheBoxComesAboutOnceASecondAndIsTheOneOfTheApi) {
  begin();
  Guest one = follower();
  for (int i = 0; i < 50; ++i) pass(100 * kMillisecond);
  one.hear();
  const auto boxes = boxes_of(one);
  EXPECT_GE(boxes.size(), 5U);
  EXPECT_LE(boxes.size(), 7U);
  for (std::size_t i = 1; i < boxes.size(); ++i) EXPECT_GT(boxes[i]["snapshot"], boxes[i - 1]["snapshot"]);
  const Guest another = follower();  // begins with the newest
  const Json of_api = Json::parse(asked("/api/v1/box").body());
  EXPECT_EQ(of_api["snapshot"], exchange.newest()->number);
  EXPECT_EQ(boxes_of(another).back(), of_api);
}

TEST_F(HttpStreams, WhoComesBackGoesOnWhereItWas) {
  begin();
  for (std::uint64_t i = 1; i <= 250; ++i) exchange.tell(i, "{\"number\":" + std::to_string(i) + "}");
  run();
  Guest one = follower();
  const std::string frames = frames_of(one);
  EXPECT_EQ(frames.find("{\"number\":50}"), std::string::npos);
  EXPECT_THAT(frames, HasSubstr("{\"number\":51}"));
  EXPECT_EQ(frames.find("event: gap"), std::string::npos);
  const std::size_t id = frames.rfind("id: ") + 4;
  std::string last = frames.substr(id, frames.find('\n', id) - id);
  exchange.tell(251, R"({"number":251})");
  Guest again = follower("Last-Event-ID: " + last + "\r\n");
  EXPECT_EQ(frames_of(again).find("{\"number\":250}"), std::string::npos);
  EXPECT_THAT(frames_of(again), HasSubstr("{\"number\":251}"));
  last.replace(last.find('-'), std::string::npos, "-10");
  Guest late = follower("Last-Event-ID: " + last + "\r\n");
  EXPECT_THAT(frames_of(late), HasSubstr("event: gap\ndata: {\"missed\":41}\n\n"));
}

TEST_F(HttpStreams, ACommentKeepsThemOpen) {
  begin();
  Guest one = follower();
  pass(15 * kSecond);
  one.hear();
  EXPECT_THAT(frames_of(one), HasSubstr("\n\n: "));
}

TEST_F(HttpStreams, MoreThan64AreAskedToComeBack) {
  begin();
  std::vector<Guest> all;
  for (int i = 0; i < 64; ++i) all.push_back(follower());
  EXPECT_EQ(shell->counts().streams, 64U);
  EXPECT_TRUE(exchange.followed());
  Guest beyond = follower();
  EXPECT_EQ(beyond.status(), 503);
  EXPECT_THAT(beyond.heard, HasSubstr("Retry-After: "));
  EXPECT_EQ(refused(Refusal::kStreams), 1U);
  all.clear();
  pass(kSecond);
  pass(kSecond);
  EXPECT_EQ(shell->counts().streams, 0U);
  EXPECT_FALSE(exchange.followed());
  EXPECT_EQ(follower().status(), 200);
}

TEST_F(HttpStreams, WhoReadsNothingIsCutAfterABoundedAmount) {
  for (int i = 0; i < 300; ++i) box.jobs.push_back(box.jobs[0]);
  begin();
  Guest reads = follower();
  Guest sleeps = follower();
  for (int second = 0; second < 35; ++second) {
    now += kSecond;
    // A reader takes what comes as it comes: a socket holds less than one box of 300 jobs.
    for (int turn = 0; turn < 24; ++turn) {
      run(1);
      reads.hear();
    }
  }
  EXPECT_EQ(refused(Refusal::kUnread), 1U);
  EXPECT_EQ(shell->counts().streams, 1U);
  EXPECT_GE(boxes_of(reads).size(), 20U) << "the one beside it has lost nothing";
  EXPECT_LT(shell->counts().kept_bytes, std::uint64_t{4} << 20U);
}

// A box may be larger than what may wait beside it, and take longer to read than the next one takes to come.
TEST_F(HttpStreams, WhoReadsALargeBoxSlowlyMissesOnlyTheBoxesMeanwhile) {
  for (int i = 0; i < 300; ++i) box.jobs.push_back(box.jobs[0]);
  begin({.unsent = 64 << 10U});
  Guest slow = follower();
  for (std::uint64_t second = 1; second <= 60; ++second) {
    exchange.tell(second, "{\"number\":" + std::to_string(second) + "}");
    now += kSecond;
    run(2);
    slow.hear(32 << 10U);
  }
  EXPECT_EQ(shell->counts().streams, 1U);
  EXPECT_EQ(refused(Refusal::kUnread), 0U);
  for (int turn = 0; turn < 60; ++turn) {
    run(1);
    slow.hear();
  }
  const std::vector<Json> boxes = boxes_of(slow);
  ASSERT_GE(boxes.size(), 3U);
  EXPECT_GT(boxes.back().dump().size(), std::size_t{64} << 10U);
  EXPECT_LT(boxes.size(), 30U);
  const std::string frames = frames_of(slow);
  for (std::uint64_t event = 1; event <= 60; ++event)
    EXPECT_THAT(frames, HasSubstr("{\"number\":" + std::to_string(event) + "}"));
}

TEST_F(HttpStreams, ManyFollowersCostOneText) {
  for (int i = 0; i < 200; ++i) box.jobs.push_back(box.jobs[0]);
  begin();
  std::vector<Guest> all;
  for (int i = 0; i < 40; ++i) all.push_back(follower());
  pass(kSecond);
  for (Guest& one : all) one.hear();
  run();
  EXPECT_LT(shell->counts().kept_bytes, std::uint64_t{1} << 20U);
}

TEST_F(HttpStreams, SeeTheEndOfTheDaemon) {
  begin();
  Guest one = follower(), idle = guest();
  run();
  shell->begin_to_end();
  run();
  one.hear();
  idle.hear();
  EXPECT_THAT(frames_of(one), testing::EndsWith("[end]"));
  EXPECT_TRUE(idle.ended);
  EXPECT_EQ(shell->counts().streams, 0U);
  run();
  EXPECT_EQ(shell->counts().connections, 0U);
}

TEST_F(HttpStreams, AServerThatGoesWithClientsOfAllKindsLeavesNothing) {
  begin();
  Guest one = follower(), idle = guest(), half = guest(), waits = guest();
  (void)half.say("GET / HT");
  pass(kSecond);
  stuck = true;
  now += kSecond;
  waits.get("/metrics");
  shell->turn(0);
  shell.reset();
  for (Guest* each : {&one, &idle, &half, &waits}) {
    each->hear();
    EXPECT_TRUE(each->ended);
  }
}

}  // namespace
}  // namespace tally::http_test

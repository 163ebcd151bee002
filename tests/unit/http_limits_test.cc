// What a client of HTTP can hold, and for how long.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "http_bed.h"

namespace tally::http_test {
namespace {

using http::Refusal;
using testing::HasSubstr;
using testing::StartsWith;

constexpr http::Limits kUsual{};

TEST_F(Http, AnswersAndKeepsTheConnection) {
  begin();
  Guest one = guest();
  for (int i = 0; i < 3; ++i) {
    one.forget();
    one.get("/api/v1/ports");
    run();
    EXPECT_THAT(one.hear(), StartsWith("HTTP/1.1 200 OK"));
    EXPECT_EQ(Json::parse(one.body())["ports"].size(), 2U);
  }
  EXPECT_FALSE(one.ended);
}

TEST_F(Http, EveryPathAnswersWithTheHeadersThatKeepBrowsersInBounds) {
  begin();
  for (const http::Path& path : http::paths()) {
    if (path.id == http::PathId::kEvents) continue;
    const Guest one = asked(std::string(path.path));
    EXPECT_EQ(one.status(), 200) << path.path;
    EXPECT_THAT(one.heard, HasSubstr("Cache-Control: no-store")) << path.path;
    EXPECT_THAT(one.heard, HasSubstr("X-Content-Type-Options: nosniff")) << path.path;
    EXPECT_THAT(one.heard,
                HasSubstr("Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
                          "script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
                          "form-action 'none'; frame-ancestors 'none'\r\n"))
        << path.path;
  }
}

TEST_F(Http, HeadIsGetWithoutTheBody) {
  begin();
  Guest one = guest();
  EXPECT_TRUE(one.say("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  run();
  EXPECT_THAT(one.hear(), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(one.body(), "");
  EXPECT_THAT(one.heard, HasSubstr("Content-Length: "));
  one.forget();
  EXPECT_TRUE(one.say("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  run();
  EXPECT_THAT(one.hear(), HasSubstr("text/event-stream"));
  EXPECT_EQ(shell->counts().streams, 0U);
}

TEST_F(Http, WhatIsRefusedSaysWhy) {
  begin();
  const auto answer = [&](const std::string& request) {
    Guest one = guest();
    EXPECT_TRUE(one.say(request));
    run();
    return one.hear();
  };
  EXPECT_THAT(answer("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab"),
              testing::AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD"),
                             HasSubstr("nothing can be changed")));
  EXPECT_THAT(answer("OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(answer("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              testing::AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("/api/v1/jobs"), HasSubstr("/healthz")));
  EXPECT_THAT(answer("GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
              testing::AllOf(StartsWith("HTTP/1.1 403"), HasSubstr("a page of somebody else")));
  EXPECT_THAT(answer("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(answer("GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200"))
      << "a Unix socket has no name";
  EXPECT_EQ(refused(Refusal::kMethod), 2U);
  EXPECT_EQ(refused(Refusal::kHost), 2U);
  EXPECT_EQ(made_answers, 1);
}

// The announcement of a body is refused before any of it comes, however large it is said to be.
TEST_F(Http, ABodyIsRefusedAtOnceAndTakesNoMemory) {
  begin();
  for (const char* header : {"Content-Length: 109951162777600", "Content-Length: 5",
                             "Transfer-Encoding: chunked", "Content-Length: 5\r\nExpect: 100-continue"}) {
    Guest one = guest();
    EXPECT_TRUE(one.say("GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + std::string(header) + "\r\n\r\n"));
    run();
    EXPECT_THAT(one.hear(), StartsWith("HTTP/1.1 413")) << header;
    for (int i = 0; i < 64 && one.say(std::string(65'536, 'x')); ++i) run();
    run();
    one.hear();
    EXPECT_TRUE(one.ended) << header;
  }
  EXPECT_EQ(refused(Refusal::kBody), 4U);
  EXPECT_EQ(shell->counts().connections, 0U);
}

TEST_F(Http, ARequestOfMoreThan8KiBIsRefused) {
  begin();
  const auto status = [&](std::size_t bytes) {
    Guest one = guest();
    one.get("/healthz", "X-Long: " + std::string(bytes, 'x') + "\r\n");
    run(100);
    one.hear();
    return one.status();
  };
  EXPECT_EQ(status(7'000), 200);
  EXPECT_EQ(status(8'300), 431);
  EXPECT_GE(status(40'000), 400);
  EXPECT_GE(refused(Refusal::kMalformed), 2U);
}

TEST_F(Http, NonsenseIsClosedAndCounted) {
  begin();
  for (const char* text :
       {"GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02", "\x16\x03\x01\x02\xfc\x03\x03\r\n\r\n", "GET\r\n\r\n",
        "GET / HTTP/1.1\r\nbroken\r\n\r\n"}) {
    Guest one = guest();
    (void)one.say(text);
    one.shut_for_writing();
    run();
    one.hear();
    // A half-closed beginning of a line waits for the deadline of requests.
    if (std::string_view(text).find('\n') == std::string_view::npos) pass(kUsual.idle);
    one.hear();
    EXPECT_TRUE(one.ended) << text;
  }
  EXPECT_EQ(shell->counts().connections, 0U);
  EXPECT_EQ(refused(http::Refusal::kMalformed), 1U) << "nobody hears of what had no good first line";
}

TEST_F(Http, WhoSaysNothingIsClosedAfter10Seconds) {
  begin();
  Guest silent = guest(), after = guest();
  after.get("/healthz");
  run();
  pass(kUsual.idle / 2);
  EXPECT_EQ(shell->counts().connections, 2U);
  pass(kUsual.idle / 2 + kMillisecond);
  silent.hear();
  after.hear();
  EXPECT_TRUE(silent.ended);
  EXPECT_TRUE(after.ended);
  EXPECT_EQ(refused(Refusal::kIdle), 2U);
}

TEST_F(Http, BytesThatTrickleDoNotExtendTheTimeOfARequest) {
  begin();
  Guest slow = guest();
  EXPECT_TRUE(slow.say("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "));
  for (int second = 1; second <= 11; ++second) {
    slow.say("x");
    pass(kSecond);
  }
  EXPECT_EQ(slow.hear(), "");
  EXPECT_TRUE(slow.ended);
  EXPECT_EQ(refused(Refusal::kIdle), 1U);
}

TEST_F(Http, ManyHalfSentRequestsDelayNobody) {
  begin();
  std::vector<Guest> crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.push_back(guest());
    if (i % 10 == 0) (void)crowd.back().say("GET /metrics HT");
  }
  run();
  EXPECT_EQ(asked("/metrics").status(), 200);
}

TEST_F(Http, MoreThan512ConnectionsAreSentAwayAndCounted) {
  http::Limits few;
  few.connections = 5;
  begin(few);
  std::vector<Guest> crowd;
  for (int i = 0; i < 5; ++i) crowd.push_back(guest());
  run();
  Guest beyond = guest();
  run();
  EXPECT_THAT(beyond.hear(), testing::AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("Retry-After: ")));
  EXPECT_TRUE(beyond.ended);
  EXPECT_EQ(refused(Refusal::kConnections), 1U);
  crowd.pop_back();
  run();
  EXPECT_EQ(asked("/healthz").status(), 200);
}

TEST_F(Http, AReaderThatTakesTooLongIsCut) {
  box.jobs.resize(1);
  for (int i = 0; i < 2'000; ++i) box.jobs.push_back(box.jobs[0]);
  begin();
  Guest slow = guest();
  slow.get("/api/v1/jobs");
  run();
  slow.hear(1'000);
  pass(kUsual.answer - kMillisecond);
  slow.hear(1'000);
  EXPECT_EQ(shell->counts().connections, 1U);
  EXPECT_GT(shell->counts().kept_bytes, 100'000U);
  pass(2 * kMillisecond);
  EXPECT_EQ(refused(Refusal::kSlow), 1U);
  EXPECT_EQ(shell->counts().connections, 0U);
}

TEST_F(Http, OneAnswerIsMadeForAllWhoAskWithinASnapshot) {
  begin();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(asked("/metrics").status(), 200);
  EXPECT_EQ(made_answers, 1);
  EXPECT_EQ(exchange.newest()->number, 1U);
  pass(kSecond);
  EXPECT_EQ(asked("/metrics").status(), 200);
  EXPECT_EQ(made_answers, 2);
}

TEST_F(Http, WhatSlowReadersKeepIsBounded) {
  for (int i = 0; i < 500; ++i) box.jobs.push_back(box.jobs[0]);
  http::Limits limits;
  limits.kept = 1 << 20U;
  begin(limits);
  std::vector<Guest> readers;
  for (int i = 0; i < 20; ++i) {
    readers.push_back(guest());
    readers.back().get("/api/v1/jobs");
    pass(300 * kMillisecond);
  }
  run(40);
  EXPECT_LE(shell->counts().kept_bytes, limits.kept);
  EXPECT_GT(refused(Refusal::kSlow), 0U);
  EXPECT_FALSE(readers.back().ended);
  EXPECT_EQ(asked("/healthz").status(), 200);
}

TEST_F(Http, AControlThreadThatDoesNotAnswerIsSaidSo) {
  begin();
  stuck = true;
  Guest one = guest();
  one.get("/readyz");
  run();
  EXPECT_EQ(one.hear(), "");
  EXPECT_EQ(asked("/healthz").status(), 200) << "the process lives";
  pass(kUsual.patience);
  EXPECT_THAT(one.hear(),
              testing::AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("control thread does not answer")));
  EXPECT_EQ(refused(Refusal::kNoSnapshot), 1U);
  stuck = false;
  EXPECT_EQ(asked("/readyz").status(), 200);
}

// The next turn may come only when there is a snapshot.
TEST_F(Http, TheTurnThatTakesARequestAsksForItsSnapshot) {
  begin();
  Guest one = guest();
  shell->turn(0);
  one.get("/metrics");
  for (int turns = 0; turns < 3 && shell->counts().requests == 0; ++turns) {
    shell->turn(0);
    if (exchange.take_wish(now)) return;
  }
  FAIL() << "it waits, and nobody knows";
}

TEST_F(Http, WhoWaitsForASnapshotAndGoesLeavesNothing) {
  begin();
  stuck = true;
  {
    Guest one = guest();
    one.get("/metrics");
    run();
  }
  pass(kUsual.patience);
  run();
  EXPECT_EQ(shell->counts().connections, 0U);
}

TEST_F(Http, NoExceptionGetsThroughC) {
  begin();
  defect = true;
  const Guest one = asked("/metrics");
  EXPECT_EQ(one.status(), 500);
  EXPECT_THAT(one.heard, HasSubstr("defect"));
  EXPECT_EQ(refused(Refusal::kFailed), 1U);
  defect = false;
  EXPECT_EQ(asked("/metrics").status(), 200);
}

// Without a descriptor accept() fails for ever: who comes is closed, nobody spins, and later all is well again.
TEST_F(Http, WithoutDescriptorsACrowdIsClosedAndLaterServed) {
  std::uint16_t port = 0;
  UniqueFd listener;
  for (std::uint16_t at = 21'000; !listener && at < 31'000; ++at) {
    if (auto made = http::listen_at(*config::parse_http_address("127.0.0.1:" + std::to_string(at)))) {
      listener = std::move(*made);
      port = at;
    }
  }
  begin({}, std::move(listener));
  const auto visit = [&] {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return Guest(std::move(socket));
  };
  std::vector<Guest> crowd;
  for (int i = 0; i < 10; ++i) crowd.push_back(visit());
  std::vector<UniqueFd> taken;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{256, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (;;) {
    UniqueFd one(::dup(0));
    if (!one) break;
    taken.push_back(std::move(one));
  }
  run();
  EXPECT_EQ(refused(Refusal::kDescriptors), 10U);
  for (Guest& one : crowd) {
    one.hear();
    EXPECT_TRUE(one.ended);
  }
  taken.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  Guest late = visit();
  late.get("/healthz");
  pass(kSecond);
  late.hear();
  EXPECT_EQ(late.status(), 200);
}

}  // namespace
}  // namespace tally::http_test

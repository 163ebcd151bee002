// The HTTP thread beside a control thread: requests, events and the end, with real time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "http_bed.h"

namespace tally::http_test {
namespace {

using testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(60);

struct HttpThread : testing::Test {
  HttpThread() {
    for (; !listener && port < 32'000; ++port) {
      auto made = http::listen_at(*config::parse_http_address("127.0.0.1:" + std::to_string(port)));
      if (made) listener = std::move(*made);
    }
    --port;
    auto made = http::HttpServer::start(
        {.exchange = exchange, .version = "0.1.0", .instance = "rack1", .listener = std::move(listener)}, {});
    EXPECT_TRUE(made);
    server = std::move(*made);
    control = std::thread([this] {
      std::uint64_t number = 0;
      while (!over) {
        const TimeNs now = steady_now();
        api::Snapshot box = control_api_test::make_snapshot();
        if (exchange.take_wish(now))
          exchange.publish(std::make_shared<const api::Snapshot>(std::move(box)), now);
        ++number;
        exchange.tell(number, "{\"number\":" + std::to_string(number) + "}");
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
  ~HttpThread() override {
    over = true;
    control.join();
  }
  Guest visit() const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    return Guest(std::move(socket));
  }
  template <class Condition>
  static bool wait_for(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  std::uint16_t port = 22'000;
  UniqueFd listener;
  http::Exchange exchange;
  std::unique_ptr<http::HttpServer> server;
  std::atomic<bool> over = false;
  std::thread control;
};

TEST_F(HttpThread, ServesSeveralAtOnceWhileEventsCome) {
  std::vector<Guest> streams;
  for (int i = 0; i < 8; ++i) {
    streams.push_back(visit());
    streams.back().get("/events");
  }
  for (int i = 0; i < 20; ++i) {
    Guest one = visit();
    one.get(i % 2 == 0 ? "/metrics" : "/api/v1/box", "Connection: close\r\n");
    ASSERT_TRUE(wait_for([&] { return one.hear(), one.ended; }));
    EXPECT_EQ(one.status(), 200);
    for (Guest& stream : streams) stream.hear();  // who does not read is not told of the end
  }
  for (Guest& one : streams)
    EXPECT_TRUE(wait_for([&] { return one.hear().find("event: event") != std::string::npos; }));
  for (Guest& stream : streams) stream.hear();
  server.reset();
  for (Guest& one : streams) {
    ASSERT_TRUE(wait_for([&] { return one.hear(), one.ended; }));
    EXPECT_THAT(one.heard, testing::EndsWith("0\r\n\r\n")) << "they see the end";
  }
}

TEST_F(HttpThread, EndsSoonThoughSomebodyDoesNotRead) {
  Guest sleeps = visit();
  sleeps.get("/events");
  ASSERT_TRUE(wait_for([&] { return !sleeps.hear(1).empty(); }));
  const auto begun = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kPatience);
}

TEST_F(HttpThread, AskedByAForeignNameItSaysNothingOfTheBox) {
  Guest one = visit();
  EXPECT_TRUE(one.say("GET /api/v1/box HTTP/1.1\r\nHost: evil.example:9464\r\n\r\n"));
  ASSERT_TRUE(wait_for([&] { return one.hear().find("\r\n\r\n") != std::string::npos; }));
  EXPECT_EQ(one.status(), 403);
  EXPECT_EQ(one.heard.find("resnet"), std::string::npos);
}

}  // namespace
}  // namespace tally::http_test

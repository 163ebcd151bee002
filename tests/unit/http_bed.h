#pragma once
// An HTTP server whose turns, clock and control thread the test is, and clients of every kind.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "control_api_scene.h"
#include "http/http_server.h"
#include "http/listen.h"
#include "http/shell.h"

namespace tally::http_test {

using api::Json;

inline const http::Own kOwn{"0.1.0", "rack1", {}};

// One end of a connection.
class Guest {
 public:
  explicit Guest(UniqueFd socket) : socket_(std::move(socket)) {}

  bool say(std::string_view text) const {
    return ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(text.size());
  }
  void get(const std::string& path, const std::string& more = "") const {
    EXPECT_TRUE(say("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n"));
  }
  // Adds what there is, `most` bytes; all that came so far.
  const std::string& hear(std::size_t most = ~std::size_t{0}) {
    std::array<char, 65536> room{};
    while (most != 0) {
      const ssize_t n = ::recv(socket_.get(), room.data(), std::min(most, room.size()), MSG_DONTWAIT);
      if (n < 0 && errno != ECONNRESET) break;
      if (n <= 0) {
        ended = true;
        break;
      }
      heard.append(room.data(), static_cast<std::size_t>(n));
      most -= static_cast<std::size_t>(n);
    }
    return heard;
  }
  [[nodiscard]] int status() const { return heard.size() < 12 ? 0 : std::stoi(heard.substr(9, 3)); }
  [[nodiscard]] std::string body() const {
    const std::size_t end = heard.find("\r\n\r\n");
    return end == std::string::npos ? "" : heard.substr(end + 4);
  }
  void forget() { heard.clear(); }
  void shut_for_writing() const { ::shutdown(socket_.get(), SHUT_WR); }
  void go() { socket_.reset(); }

  std::string heard{};
  bool ended = false;

 private:
  UniqueFd socket_;
};

struct Http : testing::Test {
  void begin(http::Limits limits = {}, UniqueFd listener = UniqueFd()) {
    auto made =
        http::Shell::make({.exchange = exchange,
                           .version = "0.1.0",
                           .instance = "rack1",
                           .listener = std::move(listener),
                           .limits = limits,
                           .now = [this] { return now; },
                           .answer =
                               [this](http::PathId id, const http::Published* of, const http::Own& own) {
                                 ++made_answers;
                                 if (defect) throw std::runtime_error("a defect");
                                 return http::answer_to(id, of, own);
                               }});
    ASSERT_TRUE(made) << made.error().text();
    shell = std::move(*made);
  }
  // A client over a Unix socket.
  Guest guest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    shell->adopt(UniqueFd(ends[0]));
    return Guest(UniqueFd(ends[1]));
  }
  // Until nothing happens any more at this moment. The control thread answers, unless it is stuck.
  void run(int turns = 12) {
    for (int i = 0; i < turns; ++i) {
      if (!stuck && exchange.take_wish(now)) publish();
      shell->turn(0);
    }
  }
  void publish() {
    box.revision = 7;
    exchange.publish(std::make_shared<const api::Snapshot>(box), now);
  }
  void pass(TimeNs time) {
    now += time;
    run();
  }
  std::uint64_t refused(http::Refusal r) const { return shell->counts().of(r); }
  // What a path answers, in a connection of its own.
  Guest asked(const std::string& path) {
    Guest one = guest();
    one.get(path, "Connection: close\r\n");
    run();
    one.hear();
    return one;
  }

  TimeNs now = control_api_test::kNow;
  api::Snapshot box = control_api_test::make_snapshot();
  http::Exchange exchange;
  std::unique_ptr<http::Shell> shell;
  bool stuck = false;
  bool defect = false;
  int made_answers = 0;
};

}  // namespace tally::http_test

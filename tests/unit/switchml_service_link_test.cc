// The link to a tallyd that says what a test wants.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "switchml/box_link.h"
#include "tally/unique_fd.h"

namespace tally::switchml_service {
namespace {

using session_service::BoxTrouble;
using session_service::Json;
using testing::HasSubstr;

// One client at a time; `answers` by method: the members "result" or "error" of the line. A method without: silence.
class FakeTallyd {
 public:
  explicit FakeTallyd(std::map<std::string, Json> answers) : answers_(std::move(answers)) {
    listening_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listening_.get(), 8), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeTallyd() {
    ends_ = true;
    ::shutdown(listening_.get(), SHUT_RDWR);
    thread_.join();
    ::unlink(path.c_str());
  }

  const std::string path = "/tmp/tally-link-test." + std::to_string(getpid());

 private:
  void serve() {
    while (!ends_) {
      const UniqueFd client(::accept(listening_.get(), nullptr, nullptr));
      if (!client) return;
      std::string in;
      std::array<char, 4096> some{};
      for (ssize_t got = 0; (got = ::recv(client.get(), some.data(), some.size(), 0)) > 0;) {
        in.append(some.data(), static_cast<std::size_t>(got));
        for (std::size_t end = 0; (end = in.find('\n')) != std::string::npos; in.erase(0, end + 1))
          answer(client.get(), Json::parse(in.substr(0, end)));
      }
    }
  }
  void answer(int to, const Json& request) {
    const auto found = answers_.find(request["method"].get<std::string>());
    if (found == answers_.end()) return;
    Json line{{"jsonrpc", "2.0"}, {"id", request["id"]}};
    line.update(found->second);
    const std::string text = line.dump() + "\n";
    (void)!::send(to, text.data(), text.size(), MSG_NOSIGNAL);
  }

  std::map<std::string, Json> answers_;
  UniqueFd listening_{};
  std::atomic<bool> ends_ = false;
  std::thread thread_{};
};

BoxLink::Said next_of(BoxLink& link) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < until) {
    auto said = link.take();
    if (!said.empty()) return std::move(said.front());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ADD_FAILURE() << "no answer";
  return BoxLink::Report{};
}

BoxLink::Report look(BoxLink& link) {
  link.order(session_service::Look{});
  return std::get<BoxLink::Report>(next_of(link));
}

const Json kShown = Json::parse(
    R"({"result": {"name": "switchml.a", "dialect": "switchml", "made_by": "job.add", "phase": "running", "contributions": 3,
        "session": {"payload": 256, "slots": 64, "tsi": "packet"},
        "ranks": [{"mac": "02:00:00:00:00:01", "address": "10.0.0.11"}]}})");
const Json kConfig = {
    {"result", {{"yaml", "instance: x\nbox:\n  ipv4: 10.0.0.1/24\n  mac: 02:00:00:00:00:fe\n"}}}};
const Json kList = Json::parse(
    R"({"result": {"jobs": [{"name": "switchml.a", "dialect": "switchml", "phase": "running"},
                            {"name": "switchml.b", "dialect": "native", "phase": "running"},
                            {"name": "other", "dialect": "switchml", "phase": "running"}]}})");

TEST(ServiceLink, ALookBringsTheBoxAndOurSessions) {
  const FakeTallyd tallyd({{"health.get", {{"result", {{"state", "good"}}}}},
                           {"config.show", kConfig},
                           {"job.list", kList},
                           {"job.show", kShown}});
  BoxLink link(tallyd.path, "switchml.", [] {});
  const auto first = look(link);
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_TRUE(first->anew);
  EXPECT_FALSE(first->ending) << "a tallyd that does not know the word";
  EXPECT_EQ(first->box.ipv4, (Ipv4{10, 0, 0, 1}));
  ASSERT_EQ(first->sessions.size(), 1U);
  EXPECT_EQ(first->sessions[0].name, "switchml.a");
  EXPECT_FALSE(look(link)->anew) << "the same connection";
}

TEST(ServiceLink, ATallydThatEndsSaysSo) {
  const FakeTallyd tallyd({{"health.get", {{"result", {{"ending", true}}}}},
                           {"config.show", kConfig},
                           {"job.list", {{"result", {{"jobs", Json::array()}}}}}});
  BoxLink link(tallyd.path, "switchml.", [] {});
  EXPECT_TRUE(look(link)->ending);
}

TEST(ServiceLink, WhoSaysNothingIsAwayAfterTwoSeconds) {
  const FakeTallyd tallyd({});
  BoxLink link(tallyd.path, "switchml.", [] {});
  const auto report = look(link);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, BoxTrouble::Kind::kAway);
  EXPECT_THAT(report.error().text, HasSubstr("does not answer within 2.0 s"));
}

TEST(ServiceLink, WhoIsNotThereIsAway) {
  BoxLink link("/tmp/tally-no-such-socket", "switchml.", [] {});
  EXPECT_EQ(look(link).error().kind, BoxTrouble::Kind::kAway);
}

TEST(ServiceLink, WhatTallydRefusesIsToldByItsKind) {
  struct Case {
    int code;
    const char* message;
    const char* path;
    BoxTrouble::Kind kind;
  };
  for (const Case& one :
       {Case{-32011, "there is a job", "", BoxTrouble::Kind::kExists},
        Case{-32012, "errors", "/slots", BoxTrouble::Kind::kNoRoom},
        Case{-32012, "errors", "/members/0/mac", BoxTrouble::Kind::kUnfit},
        Case{-32001, "not permitted", "", BoxTrouble::Kind::kNotPermitted},
        Case{-32010, "no such job", "", BoxTrouble::Kind::kUnknown},
        Case{-32013, "the box is shutting down; nothing was changed", "", BoxTrouble::Kind::kAway},
        Case{-32015, "the disk is full", "", BoxTrouble::Kind::kRefused},
        Case{-32002, "64 clients already", "", BoxTrouble::Kind::kAway}}) {
    const Json diagnostic = {
        {"severity", "error"}, {"path", one.path}, {"message", "too many"}, {"help", "take fewer"}};
    const Json error = {
        {"code", one.code}, {"message", one.message}, {"data", {{"diagnostics", {diagnostic}}}}};
    const FakeTallyd tallyd({{"job.add", {{"error", error}}}});
    BoxLink link(tallyd.path, "switchml.", [] {});
    link.order(session_service::Add{"switchml.a", Json::object()});
    const auto done = std::get<BoxLink::Done>(next_of(link));
    EXPECT_TRUE(done.add);
    EXPECT_EQ(done.name, "switchml.a");
    ASSERT_FALSE(done.result) << one.message;
    EXPECT_EQ(done.result.error().kind, one.kind) << one.message;
    if (one.code == -32012) {
      EXPECT_THAT(done.result.error().text, HasSubstr("too many; take fewer"));
    }
  }
}

}  // namespace
}  // namespace tally::switchml_service

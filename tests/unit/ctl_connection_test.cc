// What tallyctl makes of a daemon that does not behave as it should, or cannot serve it.

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/connection.h"
#include "tally/unique_fd.h"

namespace tally::ctl_test {
namespace {

using testing::HasSubstr;

// Listens, and takes nobody until it is told to.
class Door {
 public:
  Door() : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(socket_.get(), 1), 0);
  }
  ~Door() { ::unlink(path.c_str()); }

  [[nodiscard]] UniqueFd take() const { return UniqueFd(::accept(socket_.get(), nullptr, nullptr)); }

  std::string path = "/tmp/tallyctl-test." + std::to_string(getpid());

 private:
  UniqueFd socket_;
};

void say(const UniqueFd& to, const std::string& text) {
  ASSERT_EQ(::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

constexpr std::chrono::milliseconds kPatience{5'000};

TEST(CtlConnection, WhoIsSentAwayHearsWhy) {
  const Door door;
  auto connection = client::Connection::open(door.path, kPatience);
  ASSERT_TRUE(connection);
  {
    const UniqueFd daemon = door.take();
    say(daemon, R"({"jsonrpc":"2.0","id":null,"error":{"code":-32002,"message":"64 clients already"}})"
                "\n");
  }
  // The connection is closed before anything is asked.
  const auto answer = connection->call("job.list", ctl::Json::object());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().text, "64 clients already");
}

// As if it were the daemon's fault, that it has a bad file descriptor.
TEST(CtlConnection, WhoMayOpenNoMoreFilesHearsThat) {
  const Door door;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto connection = client::Connection::open(door.path, kPatience);
  const auto found = client::find_socket("", "");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().text, "this process cannot open a socket: Too many open files");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().text, "cannot look into /run/tally: Too many open files");
}

TEST(CtlConnection, WhatIsTooLongIsAnsweredBeforeItIsSent) {
  const Door door;
  auto connection = client::Connection::open(door.path, kPatience);
  ASSERT_TRUE(connection);
  std::thread daemon([&door] {
    const UniqueFd client = door.take();
    std::array<char, 4096> some{};
    EXPECT_GT(::recv(client.get(), some.data(), some.size(), 0), 0);
    say(client, R"({"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"too long"}})"
                "\n");
  });
  const auto answer = connection->call("config.check", {{"text", std::string(4U << 20U, 'x')}});
  daemon.join();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().text, "too long");
}

TEST(CtlConnection, WhoGoesWithoutAWordIsNoDaemon) {
  const Door door;
  auto connection = client::Connection::open(door.path, kPatience);
  ASSERT_TRUE(connection);
  door.take().reset();
  const auto answer = connection->call("job.list", ctl::Json::object());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().fault, client::Fault::kUnreachable);
  EXPECT_THAT(answer.error().text, HasSubstr("has closed the connection"));
}

TEST(CtlConnection, WhoSaysNothingIsNotWaitedForForEver) {
  const Door door;
  auto connection = client::Connection::open(door.path, std::chrono::milliseconds(50));
  ASSERT_TRUE(connection);
  const UniqueFd daemon = door.take();
  EXPECT_THAT(connection->call("job.list", ctl::Json::object()).error().text,
              HasSubstr("does not answer within 0.1 s"));
}

TEST(CtlConnection, AnAnswerOfAnotherKindIsNone) {
  for (const char* const line : {"hello", "[]", "{}", R"({"id":2,"result":{}})", R"({"id":1,"error":"x"})",
                                 R"({"id":1,"error":{"code":"x","message":7}})"}) {
    const auto answer = client::read_answer(line, 1);
    ASSERT_FALSE(answer) << line;
    EXPECT_FALSE(answer.error().text.empty()) << line;
  }
}

}  // namespace
}  // namespace tally::ctl_test

// The server of the control interface, with clients of every kind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "api/events.h"
#include "control_api_scene.h"
#include "daemon/control_server.h"
#include "daemon/control_socket.h"
#include "daemon/event_feed.h"
#include "daemon_control.h"

namespace tally::daemon_test {
namespace {

using testing::HasSubstr;

class Visitor {
 public:
  explicit Visitor(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    connected = ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  // How many bytes were taken.
  std::size_t say(const std::string& text) const {
    const ssize_t n = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    return n < 0 ? 0 : static_cast<std::size_t>(n);
  }
  // What there is.
  std::string heard() {
    std::string text(1 << 16U, '\0');
    const ssize_t n = ::recv(socket_.get(), text.data(), text.size(), 0);
    ended = n == 0 || (n < 0 && errno == ECONNRESET);
    text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return text;
  }
  void half_close() const { ::shutdown(socket_.get(), SHUT_WR); }

  bool connected = false;
  bool ended = false;

 private:
  UniqueFd socket_;
};

struct DaemonControlServer : DaemonControl {
  // Fast enough to be looked at in rounds of the loop, however slow the machine is.
  static constexpr TimeNs kNeverDear = 1'000 * kSecond;

  void serve(daemon::ControlLimits limits = {.dear = kNeverDear}) { serve(limits, box); }
  void serve(daemon::ControlLimits limits, api::Box& of) {
    auto socket = daemon::ControlSocket::listen(path, {});
    ASSERT_TRUE(socket);
    server.emplace(io, std::move(*socket), of, journal.sink(), limits);
  }
  ~DaemonControlServer() override { server.reset(); }
  // Until nothing happens at once.
  void run() {
    for (std::size_t none = 0; none < 3;) none = io.poll() == 0 ? none + 1 : 0;
  }
  // Who is idle is looked for once a second. The time may be over before the loop had its turn: it has one more.
  void run_past_the_idle() {
    io.run_for(std::chrono::milliseconds(1'200));
    run();
  }

  asio::io_context io{1};
  std::optional<daemon::ControlServer> server;
  const std::string ask = R"({"jsonrpc":"2.0","id":1,"method":"api.version"})";
};

TEST_F(DaemonControlServer, AnswersLineByLineInOrder) {
  serve();
  Visitor visitor(path);
  visitor.say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"api.ver");
  run();
  EXPECT_EQ(visitor.heard(), "");
  visitor.say("sion\"}\r\n\nnonsense\n{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"job.list\"}\n");
  run();
  const std::string heard = visitor.heard();
  EXPECT_THAT(heard, HasSubstr(R"("id":1,"result":{"api":1)"));
  EXPECT_LT(heard.find("\"id\":1"), heard.find("-32700"));
  EXPECT_LT(heard.find("-32700"), heard.find("\"id\":3"));
}

TEST_F(DaemonControlServer, TheLastLineMayLackItsEnd) {
  serve();
  Visitor visitor(path);
  visitor.say(ask + "\n" + ask);
  run();
  visitor.half_close();
  run();
  const std::string heard = visitor.heard();
  EXPECT_EQ(std::count(heard.begin(), heard.end(), '\n'), 2) << heard;
  run();
  visitor.heard();
  EXPECT_TRUE(visitor.ended);
  EXPECT_EQ(server->clients(), 0U);
}

TEST_F(DaemonControlServer, ALineWithoutEndIsRefusedAndEndsTheConnection) {
  serve();
  Visitor visitor(path);
  std::string answer;
  for (int i = 0; i < 100 && answer.empty(); ++i) {
    visitor.say(std::string(4'096, 'x'));
    run();
    answer = visitor.heard();
  }
  EXPECT_THAT(answer, HasSubstr("longer than 65536 bytes"));
  EXPECT_EQ(server->clients(), 0U);
}

TEST_F(DaemonControlServer, WhoDoesNotReadIsNotReadEither) {
  serve();
  Visitor visitor(path);
  const std::string line = R"({"jsonrpc":"2.0","id":1,"method":"api.schema"})"
                           "\n";
  std::size_t taken = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::size_t n = visitor.say(line);
    if (n == 0) break;
    taken += n;
    run();
  }
  EXPECT_LT(taken, std::size_t{2} << 20U) << "it goes on reading";
  // Others are served meanwhile.
  Visitor other(path);
  other.say(ask + "\n");
  run();
  EXPECT_THAT(other.heard(), HasSubstr("\"api\":1"));
}

TEST_F(DaemonControlServer, ClientsAreCountedAndTheIdleGo) {
  serve(
      {.clients = 1, .reserved = 1, .dear = kNeverDear, .idle = 10 * kMillisecond});  // we may change things
  Visitor first(path);
  Visitor second(path);
  run();
  Visitor third(path);
  run();
  EXPECT_THAT(third.heard(), HasSubstr("\"code\":-32002,\"message\":\"the daemon serves 2 clients already"));
  EXPECT_EQ(server->clients(), 2U);
  EXPECT_EQ(journal.count("clients at once"), 1U);
  run_past_the_idle();
  EXPECT_EQ(server->clients(), 0U);
  first.heard();
  EXPECT_TRUE(first.ended);
}

TEST_F(DaemonControlServer, OfManyLinesATimerGetsItsTurnInBetween) {
  serve();
  Visitor visitor(path);
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += ask + "\n";
  visitor.say(lines);
  // Each round of the loop serves one request at most.
  std::size_t most = 0;
  for (int round = 0; round < 2'000; ++round) {
    io.poll_one();
    const std::string heard = visitor.heard();
    most = std::max(most, static_cast<std::size_t>(std::count(heard.begin(), heard.end(), '\n')));
  }
  EXPECT_EQ(most, 1U);
}

// Events.

std::string event(int number) {
  return api::event_line({.text = "text of some length, as a line of the log has", .job = "one"},
                         static_cast<std::uint64_t>(number), 0);
}

TEST_F(DaemonControlServer, WhoFollowsIsToldAndOthersAreNot) {
  serve();
  Visitor follower(path);
  Visitor other(path);
  follower.say(R"({"jsonrpc":"2.0","id":1,"method":"event.subscribe"})"
               "\n");
  other.say(ask + "\n");
  run();
  EXPECT_THAT(follower.heard(), HasSubstr(R"("result":{"following":true,)"));
  (void)other.heard();
  EXPECT_EQ(server->followers(), 1U);
  server->tell(event(1));
  server->tell(event(2));
  run();
  EXPECT_EQ(follower.heard(), event(1) + event(2));
  EXPECT_EQ(other.heard(), "");
  // It may go on asking.
  follower.say(ask + "\n");
  run();
  EXPECT_THAT(follower.heard(), HasSubstr("\"api\":1"));
}

TEST_F(DaemonControlServer, ASlowFollowerLosesEventsIsToldHowManyAndHoldsNobody) {
  serve({.dear = kNeverDear, .events = 16});
  Visitor slow(path);
  Visitor quick(path);
  for (Visitor* const one : {&slow, &quick})
    one->say(R"({"jsonrpc":"2.0","id":1,"method":"event.subscribe"})"
             "\n");
  run();
  (void)slow.heard();
  (void)quick.heard();
  constexpr int kEvents = 20'000;  // more than a socket holds
  std::string quick_heard;
  for (int i = 1; i <= kEvents; ++i) {
    server->tell(event(i));
    run();
    quick_heard += quick.heard();
  }
  EXPECT_EQ(std::count(quick_heard.begin(), quick_heard.end(), '\n'), kEvents);
  EXPECT_THAT(quick_heard, testing::Not(HasSubstr("\"lost\"")));
  std::string slow_heard;
  for (std::string part = slow.heard(); !part.empty(); part = slow.heard()) {
    slow_heard += part;
    run();
  }
  std::size_t events = 0;
  std::size_t lost = 0;
  std::istringstream lines(slow_heard);
  for (std::string line; std::getline(lines, line);) {
    const api::Json parameters = api::Json::parse(line)["params"];
    if (parameters["event"] == "lost")
      lost += parameters["count"].get<std::size_t>();
    else
      EXPECT_EQ(parameters["number"], ++events + lost);
  }
  EXPECT_GT(lost, 0U);
  EXPECT_EQ(events + lost, std::size_t{kEvents});
}

TEST_F(DaemonControlServer, AnEventDoesNotFallIntoAnAnswerThatComesInPieces) {
  serve();
  Visitor follower(path);
  follower.say(R"({"jsonrpc":"2.0","id":1,"method":"event.subscribe"})"
               "\n");
  run();
  (void)follower.heard();
  follower.say(R"({"jsonrpc":"2.0","id":2,"method":"stats.get"})"
               "\n");
  std::string heard;
  int told = 0;
  for (int round = 0; round < 200; ++round) {
    io.poll_one();
    server->tell(event(++told));
    heard += follower.heard();
  }
  run();
  for (std::string part = follower.heard(); !part.empty(); part = follower.heard()) {
    heard += part;
    run();
  }
  std::istringstream lines(heard);
  int answers = 0;
  int events = 0;
  for (std::string line; std::getline(lines, line);) {
    const api::Json one = api::Json::parse(line);
    one.contains("result") ? ++answers : ++events;
  }
  EXPECT_EQ(answers, 1);
  EXPECT_EQ(events, told);
}

TEST_F(DaemonControlServer, WhoFollowsMayBeSilentAndWhoGoesIsForgotten) {
  serve({.dear = kNeverDear, .idle = 10 * kMillisecond});
  auto follower = std::make_unique<Visitor>(path);
  follower->say(R"({"jsonrpc":"2.0","id":1,"method":"event.subscribe"})"
                "\n");
  run_past_the_idle();
  EXPECT_EQ(server->followers(), 1U);
  follower.reset();
  run();
  EXPECT_EQ(server->followers(), 0U);
  server->tell(event(1));
}

TEST_F(DaemonControlServer, LinesOfTheLogAreEventsIfTheySayWhatTheyAreAboutOrWarn) {
  serve();
  daemon::EventFeed feed;
  feed.send_to(&*server);
  const daemon::LogSink log = feed.sink();
  Visitor follower(path);
  follower.say(R"({"jsonrpc":"2.0","id":1,"method":"event.subscribe"})"
               "\n");
  run();
  (void)follower.heard();
  log(daemon::LogLevel::kInfo, "nobody cares");
  log(daemon::LogLevel::kInfo, "port w0: link up", {.kind = "port.up", .port = "w0"});
  log(daemon::LogLevel::kWarning, "trouble");
  run();
  const std::string heard = follower.heard();
  EXPECT_EQ(std::count(heard.begin(), heard.end(), '\n'), 2);
  EXPECT_THAT(heard, HasSubstr(R"("number":1,)"));
  EXPECT_THAT(heard, HasSubstr(R"("event":"port.up","level":"info","job":null,"rank":null,"port":"w0")"));
  EXPECT_THAT(
      heard,
      HasSubstr(R"("event":"log","level":"warning","job":null,"rank":null,"port":null,"text":"trouble")"));
}

TEST_F(DaemonControlServer, WhoChangesSomethingIsInTheLog) {
  serve();
  Visitor visitor(path);
  visitor.say(R"({"jsonrpc":"2.0","id":1,"method":"job.set","params":{"name":"one","window":64}})"
              "\n");
  run();
  EXPECT_THAT(visitor.heard(), HasSubstr("\"wanted_window\":64"));
  const std::string who = getuid() == 0 ? "root" : "uid " + std::to_string(getuid());
  EXPECT_EQ(journal.count("control: " + who + ", process " + std::to_string(getpid()) +
                          " (daemon_test): " + "job.set of name 'one', window '64'"),
            1U)
      << journal.all();
}

TEST_F(DaemonControlServer, RequestsTakeHalfOfTheTimeAtMost) {
  struct SlowBox final : control_api_test::NotedBox {
    std::shared_ptr<const api::Snapshot> snapshot() override {
      usleep(5'000);
      return NotedBox::snapshot();
    }
  } slow;
  serve({}, slow);
  Visitor visitor(path);
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += ask + "\n";
  visitor.say(lines);
  const auto begun = std::chrono::steady_clock::now();
  for (std::ptrdiff_t answered = 0; answered < 10;) {
    io.run_for(std::chrono::milliseconds(1));
    const std::string heard = visitor.heard();
    answered += std::count(heard.begin(), heard.end(), '\n');
    ASSERT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(60));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(95));
}

// Answers that wait for the disk.

const std::string kAdd = R"("method":"job.add","params":{"job":{"name":"resnet"}}})"
                         "\n";

TEST_F(DaemonControlServer, WhoWaitsForTheDiskIsAnsweredInOrderToldWhatHappensAndHoldsNobody) {
  control_api_test::LaterBox later;
  serve({.dear = kNeverDear}, later);
  Visitor waits(path);
  Visitor other(path);
  waits.say(R"({"jsonrpc":"2.0","id":5,"method":"event.subscribe"})"
            "\n" +
            (R"({"jsonrpc":"2.0","id":6,)" + kAdd) + R"({"jsonrpc":"2.0",)" + kAdd + ask + "\n");
  run();
  const std::string begun = waits.heard();
  EXPECT_EQ(std::count(begun.begin(), begun.end(), '\n'), 1) << begun;
  other.say(ask + "\n");
  server->tell(event(1));
  run();
  EXPECT_THAT(other.heard(), HasSubstr("\"api\":1"));
  EXPECT_EQ(waits.heard(), event(1));
  ASSERT_TRUE(later.then);
  std::exchange(later.then, {})(api::JobChange{});
  run();
  EXPECT_THAT(waits.heard(), testing::StartsWith(R"({"jsonrpc":"2.0","id":6,"result":)"));
  // The next one is a notification: it is awaited all the same, and not answered.
  ASSERT_TRUE(later.then);
  std::exchange(later.then, {})(api::JobChange{});
  run();
  EXPECT_THAT(waits.heard(), testing::StartsWith(R"({"jsonrpc":"2.0","id":1,"result":{"api":1)"));
}

TEST_F(DaemonControlServer, AnAnswerThatComesLateFindsNobody) {
  control_api_test::LaterBox later;
  for (const bool closed : {false, true}) {
    serve({.dear = kNeverDear, .idle = closed ? 60 * kSecond : kMillisecond}, later);
    Visitor visitor(path);
    visitor.say(R"({"jsonrpc":"2.0","id":6,)" + kAdd);
    run();
    ASSERT_TRUE(later.then);
    if (closed)
      server.reset();
    else
      run_past_the_idle();  // it was silent for too long, and sent away
    std::exchange(later.then, {})(api::JobChange{});
    run();
    EXPECT_EQ(visitor.heard(), "");
    EXPECT_TRUE(visitor.ended);
    server.reset();
    run();
  }
}

TEST_F(DaemonControlServer, ClosesWithClientsInEveryState) {
  serve();
  Visitor idle(path);
  Visitor half(path);
  Visitor full(path);
  half.say("{\"half");
  for (int i = 0; i < 3; ++i) full.say(ask + "\n");
  io.poll_one();
  server.reset();
  EXPECT_FALSE(fs::exists(path));
  run();
  idle.heard();
  EXPECT_TRUE(idle.ended);
}

}  // namespace
}  // namespace tally::daemon_test

// The control interface of a daemon: what it changes in a running membership, and its socket with clients
// of every kind.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "api/events.h"
#include "control_api_scene.h"
#include "daemon/control_box.h"
#include "daemon/control_server.h"
#include "daemon/control_socket.h"
#include "daemon/event_feed.h"
#include "daemon_plane.h"
#include "daemon_reload_bed.h"

namespace tally::daemon_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct DaemonControl : testing::Test {
  DaemonControl() {
    fs::create_directory(directory);
    std::ofstream(file) << kText;
    loop.turn(now);
    plane.obey(now);
  }
  ~DaemonControl() override { fs::remove_all(directory); }

  static members::MembershipEngine engine_of(const config::Config& config) {
    members::MembershipEngine engine(config::member_options(config),
                                     [n = std::uint64_t{7}]() mutable { return n += 977; });
    for (const auto& job : config.jobs) (void)engine.declare(job);
    return engine;
  }

  std::string directory = "/tmp/tally-control." + std::to_string(getpid());
  std::string file = directory + "/box.yaml";
  std::string path = directory + "/control.sock";
  std::string program = directory + "/tallyd";
  config::Config config = config::load_config_text(kText, "box.yaml")->config;
  FakePlane plane{1, 1};
  Journal journal;
  TimeNs now = 10 * kSecond;
  daemon::ControlLoop loop{plane, engine_of(config), journal.sink(), kSecond, now};
  inline static daemon::LogLevel level = daemon::LogLevel::kInfo;
  daemon::Reload reload{config, journal.sink(), [](daemon::LogLevel l) { level = l; }};
  api::TurnTimes turns{};
  int changes = 0;
  bool restarts = false;
  daemon::ControlBox box{{plane,
                          loop,
                          reload,
                          turns,
                          journal.sink(),
                          file,
                          program,
                          {},
                          {},
                          [this] { restarts = true; },
                          [this] { return now; },
                          [this] { ++changes; }}};
  // What comes of job.set, which is of the file's job and so done at once.
  std::string set(const std::string& job, const api::Json& keys) {
    std::string what = "not told";
    box.set_job(job, keys, std::nullopt,
                [&](const auto& done) { what = done ? done->notes.front() : done.error().message; });
    return what;
  }
};

TEST_F(DaemonControl, AWindowIsInForceAndAReloadBringsTheFilesBack) {
  EXPECT_EQ(set("one", {{"window", 64}}), "job 'one' gets a window of 64 instead of 256");
  EXPECT_EQ(changes, 1);
  const auto shown = box.snapshot();
  EXPECT_EQ(shown->jobs.at(0).status.wanted_window, 64U);
  EXPECT_EQ(std::get<config::NativeConfig>(shown->config->jobs[0]).window, 64U);
  EXPECT_EQ(journal.count("job 'one' gets a window of 64 instead of 256"), 1U);
  const api::ReloadReport report = box.reload();
  EXPECT_THAT(report.changed, testing::ElementsAre("job 'one' gets a window of 256 instead of 64"));
  EXPECT_EQ(box.snapshot()->jobs.at(0).status.wanted_window, 256U);
}

TEST_F(DaemonControl, TheLevelOfTheLogChangesAtOnce) {
  box.set_log_level(daemon::LogLevel::kDebug);
  EXPECT_EQ(level, daemon::LogLevel::kDebug);
  EXPECT_EQ(box.snapshot()->config->log.level, daemon::LogLevel::kDebug);
  const api::ReloadReport report = box.reload();
  EXPECT_THAT(report.changed, testing::ElementsAre("log.level is info"));
  EXPECT_EQ(level, daemon::LogLevel::kInfo);
  EXPECT_TRUE(report.restart.empty());
}

TEST_F(DaemonControl, AnotherLevelIsToldWhileEitherLetsTheLinePass) {
  using Level = daemon::LogLevel;
  std::vector<std::string> seen;
  level = config.log.level = Level::kWarning;
  const auto sink = [&](Level of, std::string_view text) {
    if (of >= level) seen.emplace_back(text);
  };
  daemon::Reload quiet{config, sink, [](Level l) { level = l; }};
  quiet.set_level(Level::kInfo);
  quiet.set_level(Level::kError);
  EXPECT_THAT(seen, testing::ElementsAre("log.level is info", "log.level is error"));
  EXPECT_EQ(level, Level::kError);
}

TEST_F(DaemonControl, AReloadTellsWhatTakesARestartAndWhatIsWrong) {
  std::ofstream(file) << with("10.0.0.1", "10.0.0.2");
  EXPECT_THAT(box.reload().restart, testing::ElementsAre("box.ipv4"));
  std::ofstream(file) << "nonsense: 1\n";
  const api::ReloadReport bad = box.reload();
  EXPECT_TRUE(bad.refused);
  EXPECT_FALSE(bad.diagnostics.empty());
  EXPECT_EQ(std::get<config::NativeConfig>(box.snapshot()->config->jobs[0]).name, "one");
}

// Before anything is ended it is known that something will follow.
TEST_F(DaemonControl, ARestartLooksForItsProgramAndItsFileFirst) {
  EXPECT_THAT(box.restart().failed, testing::ElementsAre(HasSubstr(program + ": No such file")));
  std::ofstream(program) << "half an upgrade";
  EXPECT_THAT(box.restart().failed, testing::ElementsAre(HasSubstr(program + ": Permission denied")));
  fs::permissions(program, fs::perms::owner_all);
  std::ofstream(file) << "nonsense: 1\n";
  EXPECT_TRUE(box.restart().refused);
  EXPECT_FALSE(restarts);
  std::ofstream(file) << kText;
  const api::ReloadReport good = box.restart();
  EXPECT_THAT(good.failed, testing::IsEmpty());
  EXPECT_TRUE(restarts);
}

TEST_F(DaemonControl, ARestartDoesNotLoseAJobThatNothingKeeps) {
  std::ofstream(program) << "an upgrade";
  fs::permissions(program, fs::perms::owner_all);
  bool made = false;
  box.add_job({{"name", "made"}, {"workers", 2}, {"token_file", "none"}}, std::nullopt,
              [&](const auto& done) { made = done.has_value(); });
  ASSERT_TRUE(made);
  EXPECT_THAT(box.restart().failed, testing::ElementsAre(HasSubstr("job 'made' would be lost")));
  EXPECT_FALSE(restarts);
}

TEST_F(DaemonControl, WhatHasNobodyInItCannotBeAborted) {
  const auto none = box.abort("one", "because");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text(), HasSubstr("nobody is in it: it is declared"));
  EXPECT_FALSE(box.abort("two", "because"));
}

TEST_F(DaemonControl, ASnapshotIsKeptForAMomentAndNotBeyondAChange) {
  const auto first = box.snapshot();
  EXPECT_EQ(box.snapshot(), first);
  now += 25 * kMillisecond;
  const auto second = box.snapshot();
  EXPECT_NE(second, first);
  (void)set("one", {{"window", 128}});
  EXPECT_NE(box.snapshot(), second);
}

TEST_F(DaemonControl, NothingIsReadAgainWhileItEnds) {
  loop.end(now);
  EXPECT_THAT(box.reload().failed, testing::ElementsAre(HasSubstr("shutting down")));
  EXPECT_TRUE(box.snapshot()->ending);
}

// The socket.

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 0777U : 0;
}

using Access = config::ControlSection::Access;

TEST_F(DaemonControl, TheFileHasItsModeAndGoesWithTheSocket) {
  for (const auto& [access, mode] :
       {std::pair{Access::kOwner, 0600U}, {Access::kGroup, 0660U}, {Access::kEverybody, 0666U}}) {
    const auto socket = daemon::ControlSocket::listen(path, {.access = access});
    ASSERT_TRUE(socket) << socket.error().text();
    EXPECT_EQ(mode_of(path), mode);
  }
  EXPECT_FALSE(fs::exists(path));
}

UniqueFd bound(const std::string& path, int type) {
  UniqueFd socket(::socket(AF_UNIX, type, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return socket;
}

TEST_F(DaemonControl, AStaleSocketIsReplacedAndALiveOneIsNot) {
  const auto first = daemon::ControlSocket::listen(path, {});
  ASSERT_TRUE(first);
  const auto second = daemon::ControlSocket::listen(path, {});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().text(), HasSubstr("is in use by process " + std::to_string(getpid())));
  // As after kill -9: the file is there and nobody listens.
  const std::string stale = directory + "/stale.sock";
  (void)bound(stale, SOCK_STREAM);
  ASSERT_TRUE(fs::exists(stale));
  EXPECT_TRUE(daemon::ControlSocket::listen(stale, {}));
}

// Of memif's type, or one that takes nobody at the moment: not to be connected to, and not stale.
TEST_F(DaemonControl, OnlyASocketThatRefusesIsStale) {
  const std::string datagrams = directory + "/datagrams.sock";
  const UniqueFd other = bound(datagrams, SOCK_DGRAM);
  const auto refused = daemon::ControlSocket::listen(datagrams, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("is in use by somebody (Protocol wrong type"));
  EXPECT_TRUE(fs::exists(datagrams));
}

TEST_F(DaemonControl, AHeldLockOfTheDirectoryHoldsNobodyUp) {
  const UniqueFd lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  ::alarm(60);  // else it would wait for ever
  EXPECT_TRUE(daemon::ControlSocket::listen(path, {}));
  ::alarm(0);
}

TEST_F(DaemonControl, APathThatIsTooLongIsRefused) {
  EXPECT_THAT(daemon::ControlSocket::listen("/tmp/" + std::string(200, 'x'), {}).error().text(),
              HasSubstr("too long a path"));
}

TEST_F(DaemonControl, WhatIsNoSocketStaysAndAMissingDirectoryIsNamed) {
  EXPECT_THAT(daemon::ControlSocket::listen(file, {}).error().text(),
              HasSubstr("is taken by something else"));
  EXPECT_TRUE(fs::exists(file));
  EXPECT_THAT(daemon::ControlSocket::listen(directory + "/no/x.sock", {}).error().text(),
              HasSubstr("mkdir -p " + directory + "/no"));
  EXPECT_THAT(daemon::ControlSocket::listen(path, {.group = "no-such-group"}).error().text(),
              HasSubstr("groupadd"));
}

TEST_F(DaemonControl, AnothersSocketIsNotRemoved) {
  {
    auto first = daemon::ControlSocket::listen(path, {});
    ASSERT_TRUE(first);
    fs::remove(path);
    std::ofstream(path) << "another's";
  }
  EXPECT_TRUE(fs::exists(path));
}

// The server.

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
  io.run_for(std::chrono::milliseconds(1'200));
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
  io.run_for(std::chrono::milliseconds(1'200));
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
      io.run_for(std::chrono::milliseconds(1'200));  // it was silent for too long, and sent away
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

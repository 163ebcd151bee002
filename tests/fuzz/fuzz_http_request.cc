// Any bytes as what a client of HTTP sends, at once or in two parts (the first byte says where it is cut), into the
// real server over a socket pair. Whatever comes: it is answered by HTTP or not at all, never by 500, never with
// something of the box where Host is foreign; the connection is closed when its time is over; and the server then
// answers somebody else.

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "http/shell.h"
#include "tally/check.h"

namespace tally {
namespace {

struct Scene {
  Scene() {
    api::Snapshot made;
    made.config = std::make_shared<const config::Config>();
    made.instance = "fuzzed-box";
    made.jobs.resize(1);
    made.jobs[0].status.name = "job";
    made.jobs[0].status.ranks.resize(2);
    made.cores.resize(1);
    made.ports.resize(1);
    box = std::make_shared<const api::Snapshot>(std::move(made));
    auto begun = http::Shell::make({.exchange = exchange,
                                    .version = "0",
                                    .instance = "fuzzed-box",
                                    .now = [this] { return now; },
                                    .answer = http::answer_to});
    TALLY_CHECK(begun.has_value(), "it begins");
    shell = std::move(*begun);
  }
  UniqueFd visit() const {
    std::array<int, 2> ends{};
    TALLY_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0,
                "sockets");
    shell->adopt(UniqueFd(ends[0]));
    return UniqueFd(ends[1]);
  }
  void run() {
    for (int i = 0; i < 24; ++i) {
      if (exchange.take_wish(now)) exchange.publish(box, now);
      shell->turn(0);
    }
  }

  TimeNs now = 1'000 * kSecond;
  std::shared_ptr<const api::Snapshot> box;
  http::Exchange exchange;
  std::unique_ptr<http::Shell> shell;
};

void hear(const UniqueFd& from, std::string& all) {
  std::array<char, 65536> room{};
  for (ssize_t n = 0; (n = ::recv(from.get(), room.data(), room.size(), MSG_DONTWAIT)) > 0;)
    all.append(room.data(), static_cast<std::size_t>(n));
}

void say(const UniqueFd& to, std::string_view text) {
  (void)!::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace
}  // namespace tally

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally;
  if (size == 0) return 0;
  Scene scene;
  const std::string all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = std::min<std::size_t>(data[0], all.size());
  std::string heard;
  {
    const UniqueFd one = scene.visit();
    for (const std::string_view part :
         {std::string_view(all).substr(0, cut), std::string_view(all).substr(cut)}) {
      say(one, part);
      scene.run();
      hear(one, heard);
    }
    // Longer than an answer, a stream and a request may take: all but a stream that is read is gone.
    scene.now += 31 * kSecond;
    scene.run();
    scene.now += 31 * kSecond;
    scene.run();
    hear(one, heard);
    TALLY_CHECK(scene.shell->counts().connections == scene.shell->counts().streams,
                "who says nothing is closed");
  }
  scene.run();
  scene.now += 2 * kSecond;
  scene.run();
  TALLY_CHECK(scene.shell->counts().connections == 0, "nothing is left of it");
  TALLY_CHECK(heard.empty() || heard.starts_with("HTTP/1."), "an answer is HTTP");
  TALLY_CHECK(scene.shell->counts().of(http::Refusal::kFailed) == 0, "no defect");
  if (heard.starts_with("HTTP/1.1 403"))
    TALLY_CHECK(
        heard.find("fuzzed-box") == std::string::npos || heard.find("HTTP/1.1 200") != std::string::npos,
        "a foreign name is told nothing of the box");
  std::string again;
  const UniqueFd other = scene.visit();
  say(other, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  scene.run();
  hear(other, again);
  TALLY_CHECK(again.starts_with("HTTP/1.1 200"), "the next one is served");
  return 0;
}

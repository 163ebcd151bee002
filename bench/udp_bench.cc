// What the transport 'udp' costs by itself: CPU time of UdpSender and UdpReceiver per datagram, with and
// without GSO.
//
//   tally_udp_bench [--json FILE] [--from ADDRESS [--namespace FILE]] [--to ADDRESS]
//
// Without addresses over loopback. FILE is a network namespace, in which the sending socket is made.

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <span>
#include <string>

#include "command_line.h"
#include "harness.h"
#include "tally/wire.h"
#include "udp/udp_receiver.h"
#include "udp/udp_sender.h"
#include "udp/udp_socket.h"
#include "udp/udp_transport.h"

namespace tally::bench {
namespace {

// Both ends of a path of datagrams in one thread: it sends a few bursts and takes them out again, so that
// nothing is lost and nothing else is in the figures. Where the kernel delivers at once, as veth and loopback
// do, the sender pays for that too.
class UdpPair {
 public:
  static constexpr std::size_t kBytes = 1464;  // 352 elements and the header: what MTU 1500 carries

  struct Spent {  // seconds of CPU
    double sending = 0;
    double receiving = 0;
    std::uint64_t datagrams = 0;
  };

  // Sockets that outlive this. `from` with the box's port, since the receiver takes nothing else.
  UdpPair(int sending, int receiving, const udp::UdpAddress& from, const udp::UdpAddress& to, bool gso)
      : receiving_(receiving),
        port_(to.port()),
        sender_(sending, to, kBytes, gso, errors_),
        receiver_(from, kBytes, errors_) {}

  // Ends the process when a datagram is missing or is not one that was sent.
  [[nodiscard]] Spent round() {
    Spent spent;
    for (int turn = 0; turn < kTurns; ++turn) {
      const double begin = cpu_seconds();
      std::size_t sent = 0;
      for (int burst = 0; burst < kBurstsAtOnce; ++burst) sent += send();
      spent.sending += cpu_seconds() - begin;
      for (std::size_t got = 0; got < sent;) got += receive(spent);
      spent.datagrams += sent;
    }
    return spent;
  }
  [[nodiscard]] bool refused() const { return sender_.segmentation_refused(); }

 private:
  static constexpr int kTurns = 400;       // of a round
  static constexpr int kBurstsAtOnce = 2;  // fit into the least receive buffer, 208 KiB
  static constexpr int kPatienceMs = 2000;

  static double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  std::size_t send() {
    const auto room = sender_.lend(udp::DatagramBatch::kMost, kBytes);
    require(room.size() == udp::DatagramBatch::kMost, "the sender has no room");
    for (Outbound& one : room) {
      one.bytes = kBytes;
      one.destination_port = port_;
    }
    sender_.send(room.size());
    require(sender_.waits() == udp::UdpSender::Waits::kNothing && errors_.count() == 0,
            "the kernel took no datagram");
    return room.size();
  }
  std::size_t receive(Spent& spent) {
    pollfd readable{receiving_, POLLIN, 0};
    require(poll(&readable, 1, kPatienceMs) == 1, "a datagram is missing: is the receive buffer too small?");
    bool whole = true;
    const double begin = cpu_seconds();
    const std::size_t got = receiver_.receive(
        receiving_, [&](std::span<const std::byte> bytes) { whole &= bytes.size() == kBytes; });
    spent.receiving += cpu_seconds() - begin;
    require(whole && receiver_.counters().foreign == 0U, "a datagram is not one that was sent");
    return got;
  }

  const int receiving_;
  const std::uint16_t port_;
  udp::PathErrors errors_;
  udp::UdpSender sender_;
  udp::UdpReceiver receiver_;
};

constexpr int kRounds = 5;

struct Words {
  std::string json;
  std::string from = "127.0.0.1";
  std::string to = "127.0.0.1";
  std::string space;
};

udp::UdpAddress address(const std::string& text, std::uint16_t port) {
  auto parsed = udp::parse_address(text);
  require(parsed.has_value(), "--from and --to take an IP address");
  parsed->set_port(port);
  return *parsed;
}

void enter(const std::string& space) {
  const int fd = ::open(space.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
    std::perror(("cannot enter the network namespace " + space).c_str());
    std::exit(1);
  }
  ::close(fd);
}

udp::UdpSocket bound(const udp::UdpAddress& own) {
  auto socket = udp::UdpSocket::open(own.family());
  if (!socket) {
    std::fprintf(stderr, "%s\n", socket.error().text().c_str());
    std::exit(1);
  }
  static_cast<void>(socket->grow_buffers(udp::UdpSettings::kBuffer));
  if (const int error = socket->bind(own); error != 0) {
    std::fprintf(stderr, "cannot bind to %s: %s\n", own.text().c_str(), strerror(error));
    std::exit(1);
  }
  return std::move(*socket);
}

void print(const Figure& figure) {
  std::printf("  %-34s %8.0f ns of CPU per datagram (%.0f..%.0f), %.2f s per GB\n", figure.name.c_str(),
              figure.median_ns, figure.min_ns, figure.max_ns, figure.median_ns / UdpPair::kBytes);
}

void run(const Words& words) {
  const udp::UdpAddress from = address(words.from, kBasePort);
  const udp::UdpSocket receiving = bound(address(words.to, 0));
  if (!words.space.empty()) enter(words.space);
  const udp::UdpSocket sending = bound(from);
  UdpPair plain(sending.fd(), receiving.fd(), from, receiving.local(), false);
  UdpPair gso(sending.fd(), receiving.fd(), from, receiving.local(), true);
  // A round of one pair yields two figures; the second contender of each reports what the first one spent.
  UdpPair::Spent spent;
  const auto sends = [&spent](UdpPair& pair) {
    return [&] { return spent = pair.round(), std::pair{spent.sending, spent.datagrams}; };
  };
  const auto receives = [&spent] { return std::pair{spent.receiving, spent.datagrams}; };
  std::vector<Contender> contenders{{"send_plain", sends(plain)},
                                    {"receive_plain", receives},
                                    {"send_gso", sends(gso)},
                                    {"receive_gso", receives}};
  nlohmann::json out{
      {"environment", environment()}, {"bytes", UdpPair::kBytes}, {"from", words.from}, {"to", words.to}};
  std::printf("datagrams of %zu bytes from %s to %s, bursts of %zu, medians of %d rounds%s\n",
              UdpPair::kBytes, words.from.c_str(), words.to.c_str(), udp::DatagramBatch::kMost, kRounds,
              words.space.empty() ? "" : ", between namespaces");
  for (const Figure& figure : measure(contenders, kRounds)) {
    print(figure);
    out[figure.name] = {{"cpu_ns", figure.median_ns},
                        {"min_ns", figure.min_ns},
                        {"max_ns", figure.max_ns},
                        {"cpu_s_per_gb", figure.median_ns / UdpPair::kBytes}};
  }
  out["gso_refused"] = gso.refused();
  if (gso.refused()) std::puts("  the kernel refused GSO here: both lines are without it");
  write_json(words.json, out);
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  tally::bench::Words words;
  tally::bench::CommandLine line("CPU time of the transport udp per datagram", "tally_udp_bench");
  line.option("--json", words.json, "Also write the figures to this file");
  line.option("--from", words.from, "Address of the sender (default 127.0.0.1)");
  line.option("--to", words.to, "Address of the receiver (default 127.0.0.1)");
  line.option("--namespace", words.space, "Network namespace of the sender, a file");
  line.parse(argc, argv);
  tally::bench::run(words);
  return 0;
}

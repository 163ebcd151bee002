#pragma once
// Both ends of a path of datagrams in one thread: it sends a few bursts and takes them out again, so that
// nothing is lost and nothing else is in the figures. Where the kernel delivers at once, as veth and loopback
// do, the sender pays for that too.

#include <poll.h>

#include <cstdint>
#include <ctime>
#include <span>

#include "harness.h"
#include "udp/udp_receiver.h"
#include "udp/udp_sender.h"

namespace tally::bench {

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

}  // namespace tally::bench

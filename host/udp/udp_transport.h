#pragma once
// Transport 'udp': a worker's datagrams over sockets of the kernel. Nothing to install, no rights needed.
//
// One socket sends to all shards of all boxes and receives; a second one receives results by multicast, if the job has
// them. Neither is connected: answers come from every shard's port. After joining a group nothing is sent
// until the kernel has reported the membership: a switch that snoops would keep the first results from us,
// a window of them, and a worker that has no result yet repeats after 100 ms only.
//
// Threads: created and destroyed on any thread; everything else but wake() on the progress thread. A child of
// fork() may close its copies, and nothing else.

#include <sys/eventfd.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/transport.h"
#include "tally/error.h"
#include "tally/unique_fd.h"
#include "udp/udp_receiver.h"
#include "udp/udp_route.h"
#include "udp/udp_sender.h"
#include "udp/udp_socket.h"

namespace tally::udp {

// What stands behind `udp:` in TALLY_TRANSPORT: KEY=VALUE, separated by commas. Pure.

enum class Gso : std::uint8_t {
  kOff,
  kOn,
  kAuto,  // where the kernel cuts the message into frames itself, before the interface sees it
};

struct UdpSettings {
  std::uint16_t port = 0;          // port=1024..65535: the socket's own; 0: the transport chooses
  std::size_t buffer = kBuffer;    // buffer=64KiB..1GiB: of the socket, each way
  Gso gso = Gso::kAuto;            // gso=on|off|auto: bursts to one port go to the kernel as one message
  std::uint32_t backlog = 0;       // backlog=16..16384: datagrams that may wait for the wire; 0: chosen
  std::uint32_t busy_poll_us = 0;  // busy-poll=1..1000: the kernel looks into the card's queue so long

  // A window of 1024 results of MTU 1500 fits: the kernel counts about 2.3 KiB for each.
  static constexpr std::size_t kBuffer = std::size_t{4} << 20;
  static constexpr std::size_t kLeastBuffer = std::size_t{64} << 10;
  static constexpr std::size_t kMostBuffer = std::size_t{1} << 30;
  static constexpr std::uint32_t kLeastBacklog = 16;
  static constexpr std::uint32_t kMostBacklog = 16'384;
};

// Errors name the key, its value and what would be right.
[[nodiscard]] Result<UdpSettings> parse_settings(std::string_view text);

// Ends the wait under way of a thread that polls file descriptors, or its next one.

class WakeEvent {
 public:
  WakeEvent() noexcept : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), error_(fd_ ? 0 : errno) {}

  [[nodiscard]] int error() const noexcept { return error_; }  // 0: it was made
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }  // readable: woken
  void wake() const noexcept {                                 // any thread
    static_cast<void>(eventfd_write(fd(), 1));
  }
  void clear() const noexcept {
    eventfd_t count = 0;
    static_cast<void>(eventfd_read(fd(), &count));
  }

 private:
  const UniqueFd fd_;
  const int error_;
};

class UdpTransport final : public Transport {
 public:
  [[nodiscard]] static Result<std::unique_ptr<UdpTransport>> open(const TransportOptions& options);

  [[nodiscard]] Result<void> attach() override { return {}; }
  [[nodiscard]] std::uint16_t most_elements() const noexcept override { return most_elements_; }
  std::size_t receive(const DatagramSink& sink) override;
  [[nodiscard]] std::span<Outbound> lend(std::size_t wanted, std::size_t bytes) override;
  void send(std::size_t filled) override { sender_.send(filled); }
  [[nodiscard]] std::size_t most_bytes() const noexcept override;
  // All boxes have one family, and packets to them one source address and the MTU of the way to the first.
  [[nodiscard]] Result<void> set_boxes(std::span<const BoxAddress> boxes) override;
  void joined(const engine::Membership& membership) override;
  void wait(TimeNs now, TimeNs until) override;
  void wake() noexcept override { event_.wake(); }
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::string trouble() const override;

  [[nodiscard]] UdpAddress address() const noexcept { return socket_.local(); }
  [[nodiscard]] const UdpSender& sender() const noexcept { return sender_; }
  [[nodiscard]] const UdpReceiver& receiver() const noexcept { return receiver_; }
  [[nodiscard]] const GroupSocket& group() const noexcept { return group_; }
  // When the kernel has reported the group, on steady_clock; 0: nothing to wait for.
  [[nodiscard]] TimeNs reported_at() const noexcept { return reported_at_; }
  [[nodiscard]] const PathErrors& errors() const noexcept { return errors_; }

 private:
  struct Parts {
    UdpEnds ends;
    UdpSettings settings;
    UdpRoute route;
    UdpSocket socket;
    UdpSocket::Buffers buffers;
    std::uint16_t mtu = 0;
  };
  explicit UdpTransport(Parts parts);
  [[nodiscard]] bool is_known(const UdpAddress& box) const noexcept;
  void limit_backlog(std::uint32_t datagrams) noexcept;  // 0: by `buffer` alone

  const UdpEnds ends_;
  const UdpSettings settings_;
  const UdpRoute route_;  // when the transport was opened
  const bool uncut_;      // its interface takes messages of several frames, or does not say
  const bool segmented_;  // bursts go to the kernel as one message
  const UdpSocket socket_;
  UdpSocket::Buffers buffers_;
  std::size_t send_wanted_;
  const std::uint16_t mtu_;
  const std::uint16_t most_elements_;
  PathErrors errors_;
  std::vector<UdpAddress> boxes_;
  UdpReceiver receiver_;
  UdpSender sender_;
  SendBacklog backlog_;
  GroupSocket group_;
  std::string group_trouble_;  // why there is no group; empty if there is or need not be
  TimeNs reported_at_ = 0;
  WakeEvent event_;
};

}  // namespace tally::udp

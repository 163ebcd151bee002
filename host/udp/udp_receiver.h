#pragma once
// Takes bursts of datagrams from a socket and hands up those of the box. Progress thread.

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <vector>

#include "api/transport.h"
#include "tally/one_writer.h"
#include "udp/udp_socket.h"

namespace tally::udp {

// One writer: the progress thread.
struct UdpReceiverCounters {
  OneWriter<std::uint64_t> received = 0;  // datagrams handed to the sink
  OneWriter<std::uint64_t> foreign = 0;   // not from the box's address and ports
  OneWriter<std::uint64_t> too_long = 0;  // longer than any that this path carries
};

class UdpReceiver {
 public:
  static constexpr std::size_t kBurst = 32;

  // most_bytes: of a datagram.
  UdpReceiver(const UdpAddress& box, std::size_t most_bytes, PathErrors& errors);
  UdpReceiver(const UdpReceiver&) = delete;
  UdpReceiver& operator=(const UdpReceiver&) = delete;

  // One burst at most. Returns the datagrams handed to `sink`.
  std::size_t receive(int fd, const DatagramSink& sink);
  [[nodiscard]] const UdpReceiverCounters& counters() const noexcept { return counters_; }

 private:
  [[nodiscard]] bool from_box(const UdpAddress& sender) const noexcept;

  const UdpAddress box_;
  const std::size_t stride_;
  PathErrors& errors_;
  std::vector<std::byte> bytes_;
  std::array<iovec, kBurst> rooms_{};
  std::array<UdpAddress, kBurst> senders_{};
  std::array<mmsghdr, kBurst> headers_{};
  UdpReceiverCounters counters_;
};

}  // namespace tally::udp

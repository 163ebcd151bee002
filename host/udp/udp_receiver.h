#pragma once
// Takes bursts of datagrams from a socket and hands up those of the boxes. Progress thread.

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "api/transport.h"
#include "tally/one_writer.h"
#include "udp/udp_socket.h"

namespace tally::udp {

// One writer: the progress thread.
struct UdpReceiverCounters {
  OneWriter<std::uint64_t> received = 0;  // datagrams handed to the sink
  OneWriter<std::uint64_t> foreign = 0;   // not from a box's address and ports
  OneWriter<std::uint64_t> too_long = 0;  // longer than any that this path carries
};

class UdpReceiver {
 public:
  static constexpr std::size_t kBurst = 32;

  // most_bytes: of a datagram.
  UdpReceiver(const UdpAddress& box, std::size_t most_bytes, PathErrors& errors);
  UdpReceiver(const UdpReceiver&) = delete;
  UdpReceiver& operator=(const UdpReceiver&) = delete;

  // From now on, in the order of which sinks are told. One at least.
  void set_boxes(std::span<const UdpAddress> boxes);
  // One burst at most. Returns the datagrams handed to `sink`.
  std::size_t receive(int fd, const DatagramSink& sink);
  [[nodiscard]] const UdpReceiverCounters& counters() const noexcept { return counters_; }

 private:
  // Its place in the list; as many as there are: it is none.
  [[nodiscard]] std::size_t box_of(const UdpAddress& sender) noexcept;

  std::vector<UdpAddress> boxes_;
  std::size_t last_ = 0;  // whose was the last datagram: so is mostly the next
  const std::size_t stride_;
  PathErrors& errors_;
  std::vector<std::byte> bytes_;
  std::array<iovec, kBurst> rooms_{};
  std::array<UdpAddress, kBurst> senders_{};
  std::array<mmsghdr, kBurst> headers_{};
  UdpReceiverCounters counters_;
};

}  // namespace tally::udp

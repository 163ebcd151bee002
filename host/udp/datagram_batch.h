#pragma once
// Datagrams in the form of sendmmsg(): one message each, or, with generic segmentation offload (GSO), one for
// several of one size to one port, which the kernel or the card cuts into frames. Pure: no system call.

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "udp_address.h"

namespace tally {

class DatagramBatch {
 public:
  static constexpr std::size_t kMost = 32;
  // A message becomes one IP packet for a moment.
  static constexpr std::size_t kMostMessageBytes = 65'000;

  explicit DatagramBatch(const UdpAddress& box) noexcept;
  DatagramBatch(const DatagramBatch&) = delete;
  DatagramBatch& operator=(const DatagramBatch&) = delete;

  // Empty again.
  void clear() noexcept;
  // The bytes stay the caller's until they are sent. At most kMost.
  void add(std::span<std::byte> datagram, std::uint16_t port) noexcept;
  // Makes messages of what was added. With `segmented` datagrams of one port come behind each other; those of
  // one port keep their order.
  void build(bool segmented) noexcept;

  [[nodiscard]] bool done() const noexcept { return next_ == messages_; }
  [[nodiscard]] std::span<mmsghdr> left() noexcept { return {headers_.data() + next_, messages_ - next_}; }
  // Of the first message that is left.
  [[nodiscard]] std::size_t datagrams() const noexcept { return headers_[next_].msg_hdr.msg_iovlen; }
  // The first message that is left was sent or given up.
  void advance() noexcept { ++next_; }
  // What is left becomes one message each.
  void split() noexcept;

 private:
  using Control = std::array<std::byte, CMSG_SPACE(sizeof(std::uint16_t))>;
  void sort_by_port() noexcept;
  [[nodiscard]] std::size_t run_from(std::size_t first) const noexcept;
  void make(std::size_t first, bool segmented) noexcept;
  void fill(std::size_t first, std::size_t count) noexcept;

  const UdpAddress box_;
  std::array<iovec, kMost> pieces_{};  // datagrams in the order of sending
  std::array<std::uint16_t, kMost> ports_{};
  std::size_t count_ = 0;
  std::array<mmsghdr, kMost> headers_{};
  std::array<UdpAddress, kMost> names_{};
  struct alignas(cmsghdr) AlignedControl {
    Control bytes{};
  };
  std::array<AlignedControl, kMost> controls_{};
  std::size_t messages_ = 0;
  std::size_t next_ = 0;
};

}  // namespace tally

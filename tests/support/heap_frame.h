#pragma once
// Frames for the pipeline in heap blocks of their exact size, so that AddressSanitizer sees any byte read or
// written beside them.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "frames.h"
#include "pipeline/frame.h"
#include "pipeline/reply.h"

namespace tally {

class HeapFrame {
 public:
  // tail_room: writable bytes behind the frame.
  explicit HeapFrame(std::span<const std::byte> bytes, std::size_t tail_room = 0)
      : data_(std::make_unique<std::byte[]>(bytes.size() + tail_room)),
        length_(bytes.size()),
        capacity_(bytes.size() + tail_room) {
    if (!bytes.empty()) std::memcpy(data_.get(), bytes.data(), bytes.size());
  }
  [[nodiscard]] pipeline::Frame frame(PortIndex port, bool vouched, bool single_segment = true) noexcept {
    return {.data = data_.get(),
            .length = static_cast<std::uint32_t>(length_),
            .capacity = static_cast<std::uint32_t>(capacity_),
            .port = port,
            .single_segment = single_segment,
            .checksum_good = vouched};
  }
  // With the tail room.
  [[nodiscard]] std::span<const std::byte> buffer() const noexcept { return {data_.get(), capacity_}; }

 private:
  std::unique_ptr<std::byte[]> data_;  // NOLINT(modernize-avoid-c-arrays)
  std::size_t length_;
  std::size_t capacity_;
};

inline bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// A member's datagram on its way to the box, over the IP version and VLAN of its binding.
inline Bytes frame_from(const jobs::Binding& member, const jobs::Box& box,
                        std::span<const std::byte> datagram, std::uint16_t destination_port) {
  const bool v4 = is_mapped_ipv4(member.address);
  jobs::Binding to = member;
  to.mac = box.mac;
  to.udp_port = destination_port;
  to.address = v4 ? mapped(box.ipv4) : box.ipv6;
  jobs::Box from{.mac = member.mac, .ipv4 = {}, .ipv6 = member.address};
  std::copy(member.address.begin() + 12, member.address.end(), from.ipv4.begin());
  const std::size_t headers = pipeline::encapsulation_bytes(to);
  Bytes out(headers + datagram.size());
  pipeline::write_encapsulation(std::span{out}.first(headers), to, from, member.udp_port, datagram);
  std::copy(datagram.begin(), datagram.end(), out.begin() + static_cast<std::ptrdiff_t>(headers));
  return out;
}

}  // namespace tally

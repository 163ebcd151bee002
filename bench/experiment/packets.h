#pragma once
// Packets under way: small buffers that are counted, so that one result goes to all workers without copies.
// They carry 16 elements of payload; links charge the time of the full packet that each stands for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "jobs/binding.h"
#include "pipeline/reply.h"
#include "tally/wire.h"

namespace tally::experiment {

inline constexpr std::uint16_t kElements = 16;          // of the packets here
inline constexpr std::uint32_t kModelledBytes = 8'896;  // of values in the packet that one stands for
inline constexpr std::size_t kOuterBytes = 42;          // Ethernet, IPv4, UDP
inline constexpr std::uint32_t kFramingBytes = 24;      // FCS, preamble and gap take their time on the wire

using PacketId = std::uint32_t;

struct alignas(64) Packet {
  std::array<std::byte, 188> bytes{};  // a frame: outer headers, then the datagram
  std::uint16_t datagram_bytes = 0;
  std::uint16_t uses = 0;
  bool marked = false;  // a RESULT of a chunk that met a long queue (ECN)

  [[nodiscard]] std::byte* datagram() noexcept { return bytes.data() + kOuterBytes; }
  [[nodiscard]] std::span<const std::byte> view() const noexcept {
    return std::span{bytes}.subspan(kOuterBytes, datagram_bytes);
  }
  // On the wire, as the full packet that it stands for.
  [[nodiscard]] std::uint32_t wire_bytes() const noexcept {
    constexpr auto kHeaders = static_cast<std::uint32_t>(kOuterBytes + kHeaderBytes + kFramingBytes);
    return kHeaders + (datagram_bytes > kHeaderBytes ? kModelledBytes : 0);
  }
};
static_assert(kOuterBytes + kHeaderBytes + 4 * kElements <= sizeof(Packet::bytes));

// How many bytes of a full packet and its framing go over a wire: the unit of time of scheduling.md.
inline constexpr std::uint32_t kFullPacketBytes = kOuterBytes + kHeaderBytes + kFramingBytes + kModelledBytes;

class Packets {
 public:
  [[nodiscard]] PacketId take() {
    if (free_.empty()) grow();
    const PacketId id = free_.back();
    free_.pop_back();
    (*this)[id].uses = 1;
    (*this)[id].marked = false;
    return id;
  }
  void use(PacketId id, std::uint16_t times) noexcept {
    (*this)[id].uses = static_cast<std::uint16_t>((*this)[id].uses + times);
  }
  void release(PacketId id) {
    if (--(*this)[id].uses == 0) free_.push_back(id);
  }
  [[nodiscard]] Packet& operator[](PacketId id) noexcept { return slabs_[id / kSlab][id % kSlab]; }

 private:
  static constexpr std::uint32_t kSlab = 1024;
  void grow() {
    const auto first = static_cast<PacketId>(slabs_.size() * kSlab);
    slabs_.push_back(std::make_unique<Packet[]>(kSlab));
    for (std::uint32_t i = kSlab; i-- > 0;) free_.push_back(first + i);
  }
  std::vector<std::unique_ptr<Packet[]>> slabs_;
  std::vector<PacketId> free_;
};

// The headers in front of a datagram on its way to the box, but for lengths and port: from `from`.
class OuterHeaders {
 public:
  OuterHeaders(const jobs::Binding& from, const jobs::Box& box);
  // In front of the datagram that is in the packet already.
  void put(Packet& packet, std::uint16_t destination_port) const noexcept;

 private:
  std::array<std::byte, kOuterBytes> bytes_{};
};

}  // namespace tally::experiment

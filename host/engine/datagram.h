#pragma once
// Datagrams in and out: the frame gate that every received one passes, and the seal that every sent one gets.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "kernels/kernels.h"
#include "tally/engine_statistics.h"
#include "tally/wire.h"

namespace tally::engine {

struct Datagram {
  Header header;
  std::span<const std::byte> payload;
};

// Who opens it: each takes the types that the box sends to it.
enum class Opener : std::uint8_t { kWorker, kServer };

// Lengths, version, check, type, flags; of control types the CRC32C of the payload. On success `out` views
// `bytes`. Everything behind the gate still checks job, sender, epoch, cookie and meaning.
[[nodiscard]] std::optional<Refused> open_datagram(std::span<const std::byte> bytes,
                                                   const kernels::Kernels& kernels, Datagram& out,
                                                   Opener opener = Opener::kWorker) noexcept;

// Writes the header with its check in front of the payload that is already in `out`, which must be large
// enough. Returns the bytes of the datagram.
//
// Word by word: the CRC reads words, and what was written a moment ago in smaller pieces is not to be had
// before all stores ahead of it, the payload's, have left for the cache.
inline std::size_t seal(const Header& header, std::size_t payload_bytes, std::span<std::byte> out,
                        const kernels::Kernels& kernels) noexcept {
  const auto put = [&out](std::size_t at, auto value) {
    const Be big(value);
    std::memcpy(out.data() + at, &big, sizeof big);
  };
  const auto of = [](auto part, int shift) { return static_cast<std::uint64_t>(part) << shift; };
  put(0, of(header.version, 56) | of(header.type, 48) | of(header.flags, 40) | of(header.priority, 32) |
             of(header.job.host(), 16) | header.rank.host());
  put(8, of(header.epoch.host(), 32) | header.chunk.host());
  put(16, of(header.slot.host(), 32) | of(header.elements.host(), 16) | of(header.dtype, 8) |
              static_cast<std::uint8_t>(header.exponent));
  put(24, header.contributors.host());
  put(32, header.cookie.host());
  put(40, of(header.sum1.host(), 32) | header.sum2.host());
  put(48, header.total.host());
  put(kCheckedBytes, kernels.crc32c(out.data(), kCheckedBytes));
  return kHeaderBytes + payload_bytes;
}

// The same for a control type: sum1 becomes the CRC32C of the payload.
std::size_t seal_control(Header header, std::size_t payload_bytes, std::span<std::byte> out,
                         const kernels::Kernels& kernels) noexcept;

}  // namespace tally::engine

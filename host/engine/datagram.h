#pragma once
// Datagrams in and out: the frame gate that every received one passes, and the seal that every sent one gets.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels.h"
#include "tally/engine_statistics.h"
#include "tally/wire.h"

namespace tally {

struct Datagram {
  Header header;
  std::span<const std::byte> payload;
};

// Who opens it: each takes the types that the box sends to it.
enum class Opener : std::uint8_t { kWorker, kServer };

// Lengths, version, check, type, flags; of control types the CRC32C of the payload. On success `out` views
// `bytes`. Everything behind the gate still checks job, sender, epoch, cookie and meaning.
[[nodiscard]] std::optional<Refused> open_datagram(std::span<const std::byte> bytes, const Kernels& kernels,
                                                   Datagram& out, Opener opener = Opener::kWorker) noexcept;

// Writes the header with its check in front of the payload that is already in `out`, which must be large
// enough. Returns the bytes of the datagram.
std::size_t seal(Header header, std::size_t payload_bytes, std::span<std::byte> out,
                 const Kernels& kernels) noexcept;

// The same for a control type: sum1 becomes the CRC32C of the payload.
std::size_t seal_control(Header header, std::size_t payload_bytes, std::span<std::byte> out,
                         const Kernels& kernels) noexcept;

}  // namespace tally

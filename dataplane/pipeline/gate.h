#pragma once
// The inner gate: everything that can be said of the 56-byte header without any state.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels.h"
#include "tally/drop.h"
#include "tally/wire.h"

namespace tally {

// The first check that fails, in the order of docs/protocol_box.md, 11.1; nothing if the header is well
// formed and its type is one the box takes from outside. `bytes`: header and payload; at least 56. The
// header's check is verified also when the port vouches for the UDP checksum: exponent and flags have no
// other witness.
[[nodiscard]] std::optional<Drop> refuse_header(const Header& h, const std::byte* datagram,
                                                std::uint32_t bytes, const Kernels& kernels) noexcept;

}  // namespace tally

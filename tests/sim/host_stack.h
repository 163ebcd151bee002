#pragma once
// A host's IP stack, as far as a process of the simulated rack needs one.

#include <cstddef>
#include <span>

#include "frames.h"
#include "jobs/binding.h"
#include "tally/net.h"

namespace tally::sim {

inline constexpr std::size_t kInbox = 256;  // frames a paused process can hold

// The UDP payload of a frame; without data: it is cut short, or not for this address and port, and never
// reaches the program.
[[nodiscard]] std::span<const std::byte> unwrap(const Bytes& frame, const jobs::Binding& self);

// Of a frame that is whole.
[[nodiscard]] Ipv6 source_of(const Bytes& frame);
[[nodiscard]] Ipv6 destination_of(const Bytes& frame);

// Which of the boxes has the address; nullptr: none.
[[nodiscard]] const jobs::Box* box_at(std::span<const jobs::Box> boxes, const Ipv6& address);

}  // namespace tally::sim

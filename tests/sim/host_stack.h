#pragma once
// A host's IP stack, as far as a process of the simulated rack needs one.

#include <cstddef>
#include <span>

#include "frames.h"
#include "jobs/binding.h"

namespace tally::sim {

inline constexpr std::size_t kInbox = 256;  // frames a paused process can hold

// The UDP payload of a frame; without data: it is cut short, or not for this address and port, and never
// reaches the program.
[[nodiscard]] std::span<const std::byte> unwrap(const Bytes& frame, const jobs::Binding& self);

}  // namespace tally::sim

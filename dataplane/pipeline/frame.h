#pragma once
// The outer gate: Ethernet, VLAN, IP and UDP. Tells our packets from the L2 switch's, lengths first.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "jobs/binding.h"
#include "kernels/kernels.h"
#include "tally/counters.h"
#include "tally/wire.h"

namespace tally::pipeline {

// A received frame, lent by the caller. The pipeline rewrites the payload in place and may grow it up to
// `capacity` (a stored result answers a packet without values).
struct Frame {
  std::byte* data = nullptr;   // first byte of the Ethernet header
  std::uint32_t length = 0;    // bytes in this segment
  std::uint32_t capacity = 0;  // bytes from `data` to the end of the buffer
  PortIndex port{};            // ingress
  bool single_segment = true;
  bool checksum_good = false;  // the port vouches for the UDP checksum
};

// What a frame is to the core that received it.
enum class Kind : std::uint8_t {
  kForeign,    // nothing for the pipeline
  kBad,        // refused; why is in `drop`
  kControl,    // for the control thread
  kElsewhere,  // a data packet whose slot another core owns
  // From here on those of which Pipeline runs a program.
  kNative,   // a packet with the header of 56 bytes
  kAbove,    // one of the parent of a racked job
  kSession,  // a packet of the dialect switchml
};

// What the outer gate found. It does not read our own headers: what is kNative here may turn out to be kBad,
// kControl or kElsewhere, and what is kSession kBad or kElsewhere.
struct OpenedFrame {
  Kind kind = Kind::kForeign;  // kForeign, kBad, kNative or kSession
  Drop drop{};                 // kBad
  std::uint32_t payload_bytes = 0;
  std::byte* payload = nullptr;  // the header of 56 bytes (switchml: 10) and what follows
  jobs::Binding source;
};

// Owner: the core that received the frame. Reads only bytes below frame.length.
[[nodiscard]] OpenedFrame open_frame(const Frame& frame, const jobs::Box& box) noexcept;

// The inner gate: everything that can be said of the 56-byte header without any state.

// The first check that fails, in the order of docs/protocol_box.md, 11.1; nothing if the header is well
// formed and its type is one the box takes from outside. `bytes`: header and payload; at least 56. The
// header's check is verified also when the port vouches for the UDP checksum: exponent and flags have no
// other witness.
[[nodiscard]] std::optional<Drop> refuse_header(const Header& h, const std::byte* datagram,
                                                std::uint32_t bytes,
                                                const kernels::Kernels& kernels) noexcept;

}  // namespace tally::pipeline

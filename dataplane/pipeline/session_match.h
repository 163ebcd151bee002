#pragma once
// Gate and match of the dialect switchml: header, sender and slot of a packet, without any register.

#include <cstdint>

#include "frame.h"
#include "job_table.h"
#include "pipeline.h"

namespace tally {

// Continues the parse of a frame that open_frame() found to be of the dialect (kAbsorb). Fills job,
// contribution, verdict and drop; of the contribution what the session's program needs. table: may be null.
void match_session(Parsed& parsed, const OpenedFrame& datagram, const JobTable* table,
                   std::uint8_t core) noexcept;

// The UDP header in front of a datagram.
[[nodiscard]] UdpHeader udp_before(const std::byte* datagram) noexcept;

}  // namespace tally

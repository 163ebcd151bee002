#pragma once
// Packets that leave the pipeline: the 56-byte header of a RESULT, QUERY relay or REJECT, and the Ethernet,
// IP and UDP headers in front of it for one receiver (docs/protocol.md, 2).

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "kernels/kernels.h"
#include "pipeline/decision.h"
#include "tally/net.h"
#include "tally/wire.h"
#include "tally/zero_run.h"

namespace tally::pipeline {

// The header of a datagram, which may lie at any address.
[[nodiscard]] inline Header header_at(const std::byte* datagram) noexcept {
  return wire_at<Header>(datagram);
}

// Rewrites `datagram` into the RESULT of p's chunk. Fields come from p, which holds the entry's. The values
// behind the header are already in place. missing: ranks that it lacks, which makes it INCOMPLETE. before:
// what finish() says of the chunks before it.
void write_result(std::byte* datagram, const jobs::NativeJob& job, const Contribution& p, std::uint8_t flags,
                  const kernels::Kernels& kernels, std::uint64_t missing = 0,
                  std::uint32_t before = 0) noexcept;

// Rewrites `datagram` into the RESULT of several chunks whose sums are zero, p's first: bit i of `chunks` stands for
// that of i x shards behind it. Its bytes: a header, and the exponents behind it if they are not all alike.
[[nodiscard]] std::uint32_t write_zero_run(std::byte* datagram, const jobs::NativeJob& job,
                                           const Contribution& p, std::uint64_t chunks,
                                           const RunExponents& exponents,
                                           const kernels::Kernels& kernels) noexcept;

// The QUERY of p's sender to `peer` for p's chunk, which the box makes in its place.
void write_query(std::byte* datagram, const jobs::NativeJob& job, const Contribution& p, Rank peer,
                 const kernels::Kernels& kernels) noexcept;

// Rewrites `datagram` into the PARTIAL of what p holds: the sum of the ranks p.bit. The values behind the
// header are already in place.
void write_partial(std::byte* datagram, const jobs::NativeJob& job, const Contribution& p,
                   const kernels::Kernels& kernels) noexcept;

// Of racked jobs. The CONTRIBUTE of the rack's sum, which p holds, to the parent; the values behind the header are in
// place. sequence: of the rack at the parent's shard.
void write_above(std::byte* datagram, const jobs::NativeJob& job, const Contribution& p,
                 std::uint32_t sequence, std::uint8_t flags, const kernels::Kernels& kernels) noexcept;
// A QUERY of p's sender for another rack, which the box asks in its rack's place.
void write_query_above(std::byte* datagram, const jobs::NativeJob& job, const Contribution& p,
                       const kernels::Kernels& kernels) noexcept;
// The parent's QUERY, of `rack`, to rank `peer` of ours.
void write_query_below(std::byte* datagram, const jobs::NativeJob& job, const Contribution& p,
                       std::uint32_t rack, Rank peer, const kernels::Kernels& kernels) noexcept;
// The ANSWER to a QUERY of `rack`, of the result that p holds.
void write_answer_above(std::byte* datagram, const jobs::NativeJob& job, const Contribution& p,
                        std::uint32_t rack, const kernels::Kernels& kernels) noexcept;

// A QUERY or any other header whose cookie and check change on its way through the box, and which may get
// flags there.
void relay_header(std::byte* datagram, Cookie cookie, const kernels::Kernels& kernels,
                  std::uint8_t flags = 0) noexcept;

// The REJECT that answers `refused`; `out` holds kHeaderBytes. cookie: the result cookie with kWaiting, whose
// receiver proved who it is; else 0, or anyone could ask for it. contributors: ranks in the chunk, with
// kWaiting.
void write_reject(std::span<std::byte, kHeaderBytes> out, const Header& refused, RejectReason reason,
                  Cookie cookie, std::uint64_t contributors, const kernels::Kernels& kernels) noexcept;

// The NACK to a rank of `job`: which contributions to this shard have not come. missing: bit i stands for
// first + i, bit 0 is set.
struct Nack {
  const jobs::NativeJob* job = nullptr;
  Rank rank{};
  std::uint32_t first = 0;
  std::uint64_t missing = 0;
};
void write_nack(std::span<std::byte, kHeaderBytes> out, const Nack& nack, std::uint8_t shard,
                const kernels::Kernels& kernels) noexcept;

// Bytes of the headers in front of a UDP payload on its way to `to`: 42, 46, 62 or 66.
[[nodiscard]] std::size_t encapsulation_bytes(const jobs::Binding& to) noexcept;

inline constexpr std::uint16_t kDontFragment = 0x4000;

// Those headers from the box to one receiver, made once. What differs from frame to frame is filled in:
// lengths, source port, checksums.
class HeaderTemplate {
 public:
  HeaderTemplate() = default;
  // source_port: 0, or that of all frames. fragment: of the IPv4 header; those of
  // sessions say nothing (docs/switchml.md), fragments of the others would be dropped by name.
  HeaderTemplate(const jobs::Binding& to, const jobs::Box& box, std::uint16_t source_port = 0,
                 std::uint16_t fragment = kDontFragment) noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }  // 42, 46, 62 or 66
  [[nodiscard]] bool ipv6() const noexcept { return ipv6_; }

  // Where the frames go from now on, instead of to.udp_port. IPv4.
  void set_destination_port(std::uint16_t port) noexcept;

  // source_port: 0 if all frames have the same. out: exactly bytes(). payload_sum: internet_sum() of the
  // payload if ipv6(), else not looked at.
  void write(std::byte* out, std::uint16_t source_port, std::uint32_t payload_bytes,
             std::uint32_t payload_sum) const noexcept;

 private:
  std::array<std::byte, kMaxEncapsulation> header_{};  // lengths, checksums and mostly source port 0
  std::uint8_t bytes_ = 0;
  bool ipv6_ = false;
  std::uint32_t sum_ = 0;  // of the IPv4 header, or of IPv6's pseudo header and UDP header, as they are here
};

// The same for one frame: into `out` (exactly encapsulation_bytes(to) bytes), in front of `payload`.
// source_port: kBasePort + shard. fragment: as of HeaderTemplate.
void write_encapsulation(std::span<std::byte> out, const jobs::Binding& to, const jobs::Box& box,
                         std::uint16_t source_port, std::span<const std::byte> payload,
                         std::uint16_t fragment = kDontFragment) noexcept;

}  // namespace tally::pipeline

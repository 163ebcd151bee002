#pragma once
// The frames of one rank: everything that does not change from chunk to chunk is written once. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "box.h"
#include "kernels.h"
#include "tally/net.h"
#include "tally/wire.h"
#include "worker_address.h"
#include "worker_membership.h"

namespace tally::bench {

class ContributionWriter {
 public:
  // address: of the rank. membership: its own. elements: of every contribution.
  ContributionWriter(const WorkerAddress& address, const Membership& membership, std::uint16_t rank,
                     std::uint16_t elements, const Kernels& kernels);

  // Ethernet to UDP: 42 bytes, 62 with IPv6.
  [[nodiscard]] std::size_t encapsulation() const noexcept { return head_bytes_; }
  [[nodiscard]] std::size_t frame_bytes() const noexcept {
    return head_bytes_ + kHeaderBytes + std::size_t{4} * elements_;
  }
  // Headers in front of the values, which are in place; `frame` is frame_bytes() long. sums: of the values.
  void write(std::span<std::byte> frame, Chunk chunk, Sums sums, bool again) const noexcept;

 private:
  WorkerAddress address_;
  Box self_;  // the sender that write_encapsulation() wants
  Membership membership_;
  Header header_;
  std::uint16_t elements_;
  const Kernels& kernels_;
  std::size_t head_bytes_;
  std::array<std::byte, kMaxEncapsulation> head_{};  // IPv4: as for shard 0
};

// Any datagram of a rank, with its payload in place behind encapsulation(): control types.
void encapsulate(const WorkerAddress& from, const Mac& to, std::uint16_t udp_port, std::span<std::byte> head,
                 std::span<const std::byte> datagram) noexcept;
[[nodiscard]] std::size_t encapsulation_of(const WorkerAddress& from) noexcept;

}  // namespace tally::bench

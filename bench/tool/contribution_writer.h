#pragma once
// The frames of one rank: everything that does not change from chunk to chunk is written once. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "contributions.h"
#include "dpdk_transport/worker_address.h"
#include "engine/worker_join.h"
#include "io/headers.h"
#include "kernels/kernels.h"
#include "load_images.h"
#include "tally/net.h"
#include "tally/wire.h"

namespace tally::bench {

class ContributionWriter {
 public:
  // address, vlan: of the rank; kUntagged: no tag. membership: its own. images: outlive it.
  ContributionWriter(const dpdk_transport::WorkerAddress& address, std::uint16_t vlan,
                     const engine::Membership& membership, std::uint16_t rank, const LoadImages& images,
                     const kernels::Kernels& kernels);

  // Ethernet to UDP: 42 bytes, 62 with IPv6, and 4 with a tag.
  [[nodiscard]] std::size_t encapsulation() const noexcept { return heads_.front().bytes(); }
  [[nodiscard]] std::size_t frame_bytes() const noexcept {
    return encapsulation() + kHeaderBytes + std::size_t{4} * images_.elements();
  }
  // Headers in front of the image's values, which are in place; `frame` is frame_bytes() long.
  void write(std::span<std::byte> frame, Chunk chunk, ImageIndex image, bool again) const noexcept;

 private:
  std::uint16_t udp_port_;
  engine::Membership membership_;
  ContributionHeader header_;
  const LoadImages& images_;
  const kernels::Kernels& kernels_;
  std::vector<io::HeaderTemplate> heads_{};  // by shard, which differ in the port they are sent to
};

// Any datagram of a rank, with its payload in place behind encapsulation(): control types.
void encapsulate(const dpdk_transport::WorkerAddress& from, std::uint16_t vlan, const Mac& to,
                 std::span<std::byte> head, std::span<const std::byte> datagram) noexcept;
[[nodiscard]] std::size_t encapsulation_of(const dpdk_transport::WorkerAddress& from,
                                           std::uint16_t vlan) noexcept;

}  // namespace tally::bench

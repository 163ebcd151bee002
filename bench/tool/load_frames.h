#pragma once
// The generator's frames: where they come from, what they carry, and the headers of each. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "contributions.h"
#include "dpdk_transport/worker_address.h"
#include "engine/worker_join.h"
#include "jobs/binding.h"
#include "kernels/kernels.h"
#include "pipeline/reply.h"
#include "tally/error.h"
#include "tally/net.h"
#include "tally/wire.h"

namespace tally::bench {

// What is chosen of them beside addresses and the number of values.
struct LoadFormat {
  Dtype dtype = Dtype::kInt32;
  std::uint16_t vlan = jobs::kUntagged;  // 12-bit id of the tag that every frame has, both ways
};

// What contributions carry: a few payloads made once, so that sending one writes headers only and sending it
// again carries the same values.

using ImageIndex = std::uint16_t;

class LoadImages {
 public:
  static constexpr ImageIndex kImages = 64;

  // words: of each, of 4 bytes, a multiple of 16. Values are -2^24..2^24, of int16 -2^8..2^8: the sum of 64
  // ranks stays inside, and so large are quantised floats of 64 ranks at most (protocol.md, 10).
  LoadImages(std::uint16_t words, Dtype dtype, const kernels::Kernels& kernels);

  [[nodiscard]] std::uint16_t words() const noexcept { return words_; }
  [[nodiscard]] bool halves() const noexcept { return dtype_ == Dtype::kInt16; }
  // As a header has them.
  [[nodiscard]] std::uint16_t elements() const noexcept {
    return static_cast<std::uint16_t>(halves() ? 2 * words_ : words_);
  }
  [[nodiscard]] Dtype dtype() const noexcept { return dtype_; }
  // Of the operation that a contribution belongs to. int32: each is one by itself. Else all are of the
  // middle of the longest operation that there can be, where each carries values and the exponent of later
  // ones.
  [[nodiscard]] std::uint32_t total() const noexcept {
    return dtype_ == Dtype::kInt32 ? elements() : UINT32_MAX / elements() * elements();
  }
  // As on the wire.
  [[nodiscard]] std::span<const std::byte> values(ImageIndex image) const noexcept {
    return std::span{bytes_}.subspan(std::size_t{image} * 4 * words_, std::size_t{4} * words_);
  }
  // Of so many values as an image has.
  [[nodiscard]] kernels::Sums sums_of(const kernels::Kernels& kernels,
                                      const std::byte* values) const noexcept;
  // Without a rank's key.
  [[nodiscard]] kernels::Sums sums(ImageIndex image) const noexcept { return facts_[image].sums; }
  // Of floats: -127, -96..126, another one in most images. int32: kNoExponent.
  [[nodiscard]] std::int8_t exponent(ImageIndex image) const noexcept { return facts_[image].exponent; }
  // internet_sum() of the values.
  [[nodiscard]] std::uint32_t internet_sum(ImageIndex image) const noexcept { return facts_[image].internet; }

 private:
  struct Facts {
    kernels::Sums sums{};
    std::uint32_t internet = 0;
    std::int8_t exponent = kNoExponent;
  };

  std::uint16_t words_;
  Dtype dtype_;
  std::vector<std::byte> bytes_;
  std::vector<Facts> facts_;
};

// The frames of one rank: everything that does not change from chunk to chunk is written once.
class ContributionWriter {
 public:
  // address, vlan: of the rank; kUntagged: no tag. membership: its own. images: outlive it.
  ContributionWriter(const dpdk_transport::WorkerAddress& address, std::uint16_t vlan,
                     const engine::Membership& membership, std::uint16_t rank, const LoadImages& images,
                     const kernels::Kernels& kernels);

  // Ethernet to UDP: 42 bytes, 62 with IPv6, and 4 with a tag.
  [[nodiscard]] std::size_t encapsulation() const noexcept { return heads_.front().bytes(); }
  [[nodiscard]] std::size_t frame_bytes() const noexcept {
    return encapsulation() + kHeaderBytes + std::size_t{4} * images_.words();
  }
  // Headers in front of the image's values, which are in place; `frame` is frame_bytes() long.
  void write(std::span<std::byte> frame, Chunk chunk, ImageIndex image, bool again) noexcept;

 private:
  std::uint16_t udp_port_;
  engine::Membership membership_;
  ContributionHeader header_;
  const LoadImages& images_;
  const kernels::Kernels& kernels_;
  std::vector<pipeline::HeaderTemplate> heads_{};  // by shard, which differ in the port they are sent to
};

// Any datagram of a rank, with its payload in place behind encapsulation(): control types.
void encapsulate(const dpdk_transport::WorkerAddress& from, std::uint16_t vlan, const Mac& to,
                 std::span<std::byte> head, std::span<const std::byte> datagram) noexcept;
[[nodiscard]] std::size_t encapsulation_of(const dpdk_transport::WorkerAddress& from,
                                           std::uint16_t vlan) noexcept;

// Addresses of the ranks: // Rank r has the r-th address from `first` on (CIDR), the box's left out, a MAC
// whose last byte is r, and UDP port `49152 + seed mod 8192 + r`. Errors name --switch or --address.
[[nodiscard]] Result<std::vector<dpdk_transport::WorkerAddress>> worker_places(std::string_view box,
                                                                               std::string_view first,
                                                                               std::uint16_t workers,
                                                                               std::uint64_t seed);

}  // namespace tally::bench

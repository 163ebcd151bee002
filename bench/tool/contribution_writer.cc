#include "contribution_writer.h"

#include <algorithm>

#include "l2/l2_headers.h"
#include "pipeline/reply.h"

namespace tally::bench {
namespace {

// The sender that the box's own header functions want.
jobs::Box box_of(const dpdk_transport::WorkerAddress& address) noexcept {
  jobs::Box box{.mac = address.mac, .ipv4 = {}, .ipv6 = {}};
  if (address.ipv4()) {
    std::copy_n(address.own.begin() + 12, box.ipv4.size(), box.ipv4.begin());
  } else {
    box.ipv6 = address.own;
  }
  return box;
}

jobs::Binding binding_of(const dpdk_transport::WorkerAddress& address, std::uint16_t vlan, const Mac& mac,
                         std::uint16_t udp_port) noexcept {
  jobs::Binding to;
  to.address = address.box;
  to.mac = mac;
  to.vlan = vlan;
  to.udp_port = udp_port;
  return to;
}

}  // namespace

void encapsulate(const dpdk_transport::WorkerAddress& from, std::uint16_t vlan, const Mac& to,
                 std::span<std::byte> head, std::span<const std::byte> datagram) noexcept {
  pipeline::write_encapsulation(head, binding_of(from, vlan, to, kBasePort), box_of(from), from.udp_port,
                                datagram);
}

std::size_t encapsulation_of(const dpdk_transport::WorkerAddress& from, std::uint16_t vlan) noexcept {
  return pipeline::encapsulation_bytes(binding_of(from, vlan, {}, 0));
}

ContributionWriter::ContributionWriter(const dpdk_transport::WorkerAddress& address, std::uint16_t vlan,
                                       const engine::Membership& membership, std::uint16_t rank,
                                       const LoadImages& images, const kernels::Kernels& kernels)
    : udp_port_(address.udp_port),
      membership_(membership),
      header_({.job = membership.job,
               .rank = Rank{rank},
               .epoch = membership.epoch,
               .cookie = membership.cookie,
               .key = membership.key,
               .slots = membership.slot_map(),
               .elements = images.elements(),
               .total = images.total(),
               .dtype = images.dtype(),
               .priority = membership.max_priority}),
      images_(images),
      kernels_(kernels) {
  for (std::uint32_t shard = 0; shard < membership.shards; ++shard) {
    const auto to = static_cast<std::uint16_t>(kBasePort + shard);
    heads_.emplace_back(binding_of(address, vlan, membership.box_mac, to), box_of(address));
  }
}

void ContributionWriter::write(std::span<std::byte> frame, Chunk chunk, ImageIndex image,
                               bool again) const noexcept {
  const io::HeaderTemplate& head = heads_[membership_.shard_of(chunk)];
  const std::span<std::byte> datagram = frame.subspan(head.bytes());
  header_.write(datagram, chunk, images_.sums(image), images_.exponent(image), again ? kFlagRetransmit : 0,
                kernels_);
  // Of the values it was made once: to read them all for each frame is slower than the box.
  const std::uint32_t sum =
      head.ipv6() ? l2::internet_sum(datagram.first(kHeaderBytes)) + images_.internet_sum(image) : 0;
  head.write(frame.data(), udp_port_, static_cast<std::uint32_t>(datagram.size()), sum);
}

}  // namespace tally::bench

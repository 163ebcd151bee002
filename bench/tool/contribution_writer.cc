#include "contribution_writer.h"

#include <algorithm>

#include "engine/datagram.h"
#include "tally/mix64.h"
#include "tally/net.h"

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
    : udp_port_(address.udp_port), membership_(membership), images_(images), kernels_(kernels) {
  header_.type = PacketType::kContribute;
  header_.priority = membership.max_priority;
  header_.job = Be{raw(membership.job)};
  header_.rank = Be{rank};
  header_.epoch = Be{raw(membership.epoch)};
  header_.elements = Be{images.elements()};
  header_.dtype = static_cast<std::uint8_t>(images.dtype());
  header_.contributors = Be{bit_of(Rank{rank})};
  header_.cookie = Be{raw(membership.cookie)};
  header_.total = Be{images.total()};
  for (std::uint32_t shard = 0; shard < membership.shards; ++shard) {
    const auto to = static_cast<std::uint16_t>(kBasePort + shard);
    heads_.emplace_back(binding_of(address, vlan, membership.box_mac, to), box_of(address));
  }
}

void ContributionWriter::write(std::span<std::byte> frame, Chunk chunk, ImageIndex image,
                               bool again) const noexcept {
  const kernels::Sums sums = images_.sums(image);
  Header h = header_;
  h.flags = again ? kFlagRetransmit : 0;
  h.chunk = Be{raw(chunk)};
  h.slot = Be{membership_.slot_of(chunk)};
  h.exponent = images_.exponent(image);
  h.sum1 = Be{sums.sum1 + keyed(membership_.key, chunk)};
  h.sum2 = Be{sums.sum2};
  const pipeline::HeaderTemplate& head = heads_[membership_.shard_of(chunk)];
  const std::span<std::byte> datagram = frame.subspan(head.bytes());
  engine::seal(h, datagram.size() - kHeaderBytes, datagram, kernels_);
  // Of the values it was made once: to read them all for each frame is slower than the box.
  const std::uint32_t sum =
      head.ipv6() ? internet_sum(datagram.first(kHeaderBytes)) + images_.internet_sum(image) : 0;
  head.write(frame.data(), udp_port_, static_cast<std::uint32_t>(datagram.size()), sum);
}

}  // namespace tally::bench

#include "contribution_writer.h"

#include <algorithm>
#include <cstring>

#include "datagram.h"
#include "reply.h"
#include "tally/mix64.h"

namespace tally::bench {
namespace {

constexpr std::size_t kUdpDestination = sizeof(EthernetHeader) + sizeof(Ipv4Header) + 2;

Box box_of(const WorkerAddress& address) noexcept {
  Box box{.mac = address.mac, .ipv4 = {}, .ipv6 = {}};
  if (address.ipv4()) {
    std::copy_n(address.own.begin() + 12, box.ipv4.size(), box.ipv4.begin());
  } else {
    box.ipv6 = address.own;
  }
  return box;
}

Binding binding_of(const WorkerAddress& address, const Mac& mac, std::uint16_t udp_port) noexcept {
  Binding to;
  to.address = address.box;
  to.mac = mac;
  to.udp_port = udp_port;
  return to;
}

}  // namespace

void encapsulate(const WorkerAddress& from, const Mac& to, std::uint16_t udp_port, std::span<std::byte> head,
                 std::span<const std::byte> datagram) noexcept {
  write_encapsulation(head, binding_of(from, to, udp_port), box_of(from), from.udp_port, datagram);
}

std::size_t encapsulation_of(const WorkerAddress& from) noexcept {
  return encapsulation_bytes(binding_of(from, {}, 0));
}

ContributionWriter::ContributionWriter(const WorkerAddress& address, const Membership& membership,
                                       std::uint16_t rank, std::uint16_t elements, const Kernels& kernels)
    : address_(address),
      self_(box_of(address)),
      membership_(membership),
      elements_(elements),
      kernels_(kernels),
      head_bytes_(encapsulation_of(address)) {
  header_.type = PacketType::kContribute;
  header_.priority = membership.max_priority;
  header_.job = Be{raw(membership.job)};
  header_.rank = Be{rank};
  header_.epoch = Be{raw(membership.epoch)};
  header_.elements = Be{elements};
  header_.contributors = Be{bit_of(Rank{rank})};
  header_.cookie = Be{raw(membership.cookie)};
  header_.total = Be<std::uint32_t>{elements};  // each chunk is an operation of its own
  if (!address.ipv4()) return;                  // a checksum over the payload: made for each frame
  const std::array<std::byte, kMaxDatagramBytes> datagram{};
  encapsulate(address, membership.box_mac, kBasePort, std::span{head_}.first(head_bytes_),
              std::span{datagram}.first(kHeaderBytes + std::size_t{4} * elements));
}

void ContributionWriter::write(std::span<std::byte> frame, Chunk chunk, Sums sums,
                               bool again) const noexcept {
  Header h = header_;
  h.flags = again ? kFlagRetransmit : 0;
  h.chunk = Be{raw(chunk)};
  const std::uint32_t slot = membership_.slot_of(chunk);
  h.slot = Be{slot};
  h.sum1 = Be{sums.sum1 + keyed(membership_.key, chunk)};
  h.sum2 = Be{sums.sum2};
  const std::span<std::byte> datagram = frame.subspan(head_bytes_);
  seal(h, datagram.size() - kHeaderBytes, datagram, kernels_);
  const auto udp_port = static_cast<std::uint16_t>(kBasePort + slot % membership_.shards);
  if (!address_.ipv4()) {
    write_encapsulation(frame.first(head_bytes_), binding_of(address_, membership_.box_mac, udp_port), self_,
                        address_.udp_port, datagram);
    return;
  }
  std::memcpy(frame.data(), head_.data(), head_bytes_);
  const Be port{udp_port};
  std::memcpy(frame.data() + kUdpDestination, &port, sizeof port);
}

}  // namespace tally::bench

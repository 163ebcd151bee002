#include "contributions.h"

#include "engine/datagram.h"
#include "tally/net.h"

namespace tally::bench {
namespace {

Contributor contributor_of(const jobs::NativeJob& job, std::uint16_t rank) noexcept {
  return {.job = job.id,
          .rank = Rank{rank},
          .epoch = job.epoch,
          .cookie = job.ranks[rank].cookie,
          .key = job.ranks[rank].key,
          .slots = jobs::slot_map(job),
          .shards = job.shards,
          .elements = job.elements,
          .total = 1'000'000};
}

}  // namespace

ContributionHeader::ContributionHeader(const Contributor& from) noexcept
    : key_(from.key), slots_(from.slots), shards_(from.shards) {
  header_.type = PacketType::kContribute;
  header_.priority = from.priority;
  header_.job = Be{raw(from.job)};
  header_.rank = Be{raw(from.rank)};
  header_.epoch = Be{raw(from.epoch)};
  header_.elements = Be{from.elements};
  header_.dtype = static_cast<std::uint8_t>(from.dtype);
  header_.contributors = Be{bit_of(from.rank)};
  header_.cookie = Be{raw(from.cookie)};
  header_.total = Be{from.total};
}

void ContributionHeader::write(std::span<std::byte> datagram, Chunk chunk, kernels::Sums values,
                               std::int8_t exponent, std::uint8_t flags,
                               const kernels::Kernels& kernels) noexcept {
  Header h = header_;
  h.flags = flags;
  h.chunk = Be{raw(chunk)};
  h.slot = Be{++sequences_[slot_of(slots_, chunk) % shards_]};
  h.exponent = exponent;
  h.sum1 = Be{values.sum1 + keyed(key_, chunk)};
  h.sum2 = Be{values.sum2};
  engine::seal(h, datagram.size() - kHeaderBytes, datagram, kernels);
}

MemberFrames::MemberFrames(const jobs::NativeJob& job, std::uint16_t rank, const jobs::Box& box) noexcept
    : header_(contributor_of(job, rank)) {
  const jobs::Binding& from = job.ranks[rank].binding;
  const auto udp_bytes = static_cast<std::uint16_t>(sizeof(UdpHeader) + kHeaderBytes + 4U * job.elements);
  const EthernetHeader ethernet{box.mac, from.mac, Be{kEtherIpv4}};
  Ipv4Header ip;
  ip.total_length = Be{static_cast<std::uint16_t>(sizeof ip + udp_bytes)};
  std::memcpy(ip.source.data(), from.address.data() + 12, 4);
  ip.destination = box.ipv4;
  const UdpHeader udp{Be{from.udp_port}, Be{kBasePort}, Be{udp_bytes}, {}};
  std::memcpy(outer_.data(), &ethernet, sizeof ethernet);
  std::memcpy(outer_.data() + 14, &ip, sizeof ip);
  std::memcpy(outer_.data() + 34, &udp, sizeof udp);
}

void MemberFrames::write(std::span<std::byte, kHeaders> out, Chunk chunk, kernels::Sums values,
                         const kernels::Kernels& kernels) noexcept {
  constexpr std::int8_t kExponent = 3;
  std::memcpy(out.data(), outer_.data(), outer_.size());
  header_.write(out.subspan(outer_.size()), chunk, values, kExponent, 0, kernels);
}

void write_sums(std::byte* datagram, kernels::Sums values) noexcept {
  Header h;
  h.type = PacketType::kProbe;
  h.sum1 = Be{values.sum1};
  h.sum2 = Be{values.sum2};
  std::memcpy(datagram, &h, sizeof h);
}

kernels::Sums plain_sums(const jobs::NativeJob& job, const Header& header) noexcept {
  kernels::Sums plain{.sum1 = header.sum1.host(), .sum2 = header.sum2.host()};
  if (header.type == PacketType::kResult) plain.sum1 -= keyed(job.key_sum, header.chunk_id());
  if (header.type == PacketType::kContribute)
    plain.sum1 -= keyed(job.ranks[header.rank.host()].key, header.chunk_id());
  return plain;
}

}  // namespace tally::bench

#include "frame_ring.h"

#include <algorithm>
#include <cstring>

#include "pipeline/pool.h"
#include "tally/mix64.h"
#include "tally/net.h"
#include "tally/wire.h"

namespace tally::bench {
namespace {

constexpr std::size_t kRingBytes = std::size_t{4} << 20;
constexpr std::uint32_t kSkewChunks = 4;  // each member is that far behind the one before: 32 packets at 8

}  // namespace

void write_contribution(std::byte* frame, const jobs::Job& job, const jobs::Box& box, std::uint16_t rank,
                        Chunk chunk, kernels::Sums values, std::uint16_t elements,
                        const kernels::Kernels& kernels) {
  const jobs::Member& member = job.ranks[rank];
  Header h;
  h.type = PacketType::kContribute;
  h.job = Be{raw(job.id)};
  h.rank = Be{rank};
  h.epoch = Be{raw(job.epoch)};
  h.chunk = Be{raw(chunk)};
  h.slot = Be{slot_of(jobs::slot_map(job), chunk)};
  h.elements = Be{elements};
  h.exponent = 3;
  h.contributors = Be{bit_of(Rank{rank})};
  h.cookie = Be{raw(member.cookie)};
  h.sum1 = Be{values.sum1 + keyed(member.key, chunk)};
  h.sum2 = Be{values.sum2};
  h.total = Be{std::uint32_t{1'000'000}};
  h.check = Be{kernels.crc32c(reinterpret_cast<const std::byte*>(&h), kCheckedBytes)};

  const auto udp_bytes = static_cast<std::uint16_t>(sizeof(UdpHeader) + kHeaderBytes + 4 * elements);
  const EthernetHeader ethernet{box.mac, member.binding.mac, Be{kEtherIpv4}};
  Ipv4Header ip;
  ip.total_length = Be{static_cast<std::uint16_t>(sizeof ip + udp_bytes)};
  std::memcpy(ip.source.data(), member.binding.address.data() + 12, 4);
  ip.destination = box.ipv4;
  const UdpHeader udp{Be{member.binding.udp_port}, Be{kBasePort}, Be{udp_bytes}, {}};
  std::memcpy(frame, &ethernet, sizeof ethernet);
  std::memcpy(frame + 14, &ip, sizeof ip);
  std::memcpy(frame + 34, &udp, sizeof udp);
  std::memcpy(frame + 42, &h, sizeof h);
}

FrameRing::FrameRing(const jobs::Job& job, const jobs::Box& box, const kernels::Kernels& kernels)
    : kernels_(kernels),
      box_(box),
      frame_bytes_(static_cast<std::uint32_t>(kValuesOffset + 4 * job.elements)),
      stride_((frame_bytes_ + 63) / 64 * 64) {
  const std::size_t frames = kRingBytes / stride_ + 1;
  const std::size_t versions =
      2 * job.window;  // whole turns of the pool, so that a refill meets the same entries
  chunks_ = (frames / job.world + versions) / versions * versions;
  memory_.resize(chunks_ * job.world * stride_ / sizeof(jobs::Line));
  for (std::uint32_t step = 0; step < chunks_ + kSkewChunks * (job.world - 1U); ++step) {
    for (std::uint16_t rank = 0; rank < job.world; ++rank) {
      const std::int64_t chunk = std::int64_t{step} - std::int64_t{kSkewChunks} * rank;
      if (chunk < 0 || chunk >= static_cast<std::int64_t>(chunks_)) continue;
      order_.push_back(sources_.size());
      sources_.push_back({static_cast<std::uint32_t>(chunk), rank});
      entries_.push_back(pipeline::Pool::line_of(Chunk{static_cast<std::uint32_t>(chunk)}, job));
      completes_.push_back(rank + 1 == job.world ? 1 : 0);
    }
  }
  std::uint64_t random = 1;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    for (std::uint32_t k = 0; k < job.elements; ++k) {
      const Be value{static_cast<std::int32_t>(mix64(random++) & 0xFFF)};
      std::memcpy(at(i) + kValuesOffset + 4 * k, &value, sizeof value);
    }
    Header h;  // its sums, for the first refill
    const kernels::Sums sums = kernels_.sums(at(i) + kValuesOffset, job.elements);
    h.sum1 = Be{sums.sum1};
    h.sum2 = Be{sums.sum2};
    h.type = PacketType::kProbe;
    std::memcpy(at(i) + kValuesOffset - kHeaderBytes, &h, sizeof h);
  }
}

// The plain sums follow from the header that lies there: what was sent, or the result that replaced it.
void FrameRing::write_headers(std::size_t i, const jobs::Job& job) {
  const auto [index, rank] = sources_[i];
  std::byte* const datagram = at(i) + kValuesOffset - kHeaderBytes;
  Header old;
  std::memcpy(&old, datagram, sizeof old);
  std::uint32_t plain = old.sum1.host();
  if (old.type == PacketType::kResult) plain -= keyed(job.key_sum, old.chunk_id());
  if (old.type == PacketType::kContribute) plain -= keyed(job.ranks[rank].key, old.chunk_id());

  write_contribution(at(i), job, box_, rank, Chunk{index}, {plain, old.sum2.host()}, job.elements, kernels_);
}

void FrameRing::refill(const jobs::Job& job) {
  for (std::size_t i = 0; i < sources_.size(); ++i) write_headers(i, job);
}

}  // namespace tally::bench

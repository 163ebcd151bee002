#include "io/trace.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tally/net.h"
#include "tally/wire.h"

#include <rte_ring_elem.h>

namespace tally::io {
namespace {

// Of all segments.
std::uint16_t copy_beginning(const rte_mbuf* m, std::span<std::byte> to) noexcept {
  std::size_t done = 0;
  for (const rte_mbuf* part = m; part != nullptr && done < to.size(); part = part->next) {
    const std::size_t n = std::min<std::size_t>(part->data_len, to.size() - done);
    std::memcpy(to.data() + done, dpdk::data_of(part), n);
    done += n;
  }
  return static_cast<std::uint16_t>(done);
}

}  // namespace

std::uint16_t job_of_sent(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t kIpv4 = sizeof(Ipv4Header);
  constexpr std::size_t kIpv6 = sizeof(Ipv6Header);
  if (bytes.size() < sizeof(EthernetHeader)) return 0;
  std::size_t at = sizeof(EthernetHeader);
  std::uint16_t type = wire_at<EthernetHeader>(bytes.data()).type.host();
  if (type == kEtherVlan && bytes.size() >= at + sizeof(VlanTag)) {
    type = wire_at<VlanTag>(bytes.data() + at).type.host();
    at += sizeof(VlanTag);
  }
  at += type == kEtherIpv4 ? kIpv4 : kIpv6;
  if (type != kEtherIpv4 && type != kEtherIpv6) return 0;
  if (bytes.size() < at + sizeof(UdpHeader) + kHeaderBytes) return 0;
  const std::uint16_t source = wire_at<UdpHeader>(bytes.data() + at).source.host();
  if (source < kBasePort || source >= kBasePort + kMaxShards) return 0;
  const auto header = wire_at<Header>(bytes.data() + at + sizeof(UdpHeader));
  return header.version == kWireVersion ? header.job.host() : std::uint16_t{0};
}

std::unique_ptr<TraceTap> TraceTap::make(const TraceFilter& filter, std::uint8_t core, int socket) {
  ThreadRing ring = make_ring(kFrames, sizeof(TracedFrame), Producers::kOne, socket);
  if (ring == nullptr) return nullptr;
  return std::unique_ptr<TraceTap>(new TraceTap(filter, core, std::move(ring)));
}

void TraceTap::keep(std::span<rte_mbuf* const> burst) noexcept {
  if (filter_.way == TraceWay::kOut) return;
  for (std::size_t i = 0; i < burst.size(); ++i) {
    TracedFrame& kept = kept_[i];
    kept.length = burst[i]->pkt_len;
    kept.port = burst[i]->port;
    kept.captured = copy_beginning(burst[i], kept.bytes);
  }
}

void TraceTap::tell(std::size_t frame, const pipeline::Parsed& parsed, const pipeline::Outcome& out,
                    TimeNs now) noexcept {
  if (filter_.way == TraceWay::kOut) return;
  TracedFrame& kept = kept_[frame];
  if (filter_.port && raw(*filter_.port) != kept.port) return;
  kept.job = parsed.job == nullptr ? std::uint16_t{0} : raw(parsed.job->id);
  if (filter_.job && raw(*filter_.job) != kept.job) return;
  const bool dropped = out.verdict == Verdict::kDrop;
  if ((filter_.any_drop || filter_.drop) && !dropped) return;
  if (filter_.drop && *filter_.drop != out.drop) return;
  if (!is_next()) return;
  kept.time = now;
  kept.core = core_;
  kept.owner = out.owner;
  kept.verdict = out.verdict;
  kept.drop = out.drop;
  put(kept);
}

void TraceTap::sent(PortIndex port, std::span<rte_mbuf* const> frames, TimeNs now) noexcept {
  if (filter_.way == TraceWay::kIn || filter_.any_drop || filter_.drop) return;
  if (filter_.port && *filter_.port != port) return;
  for (const rte_mbuf* m : frames) {
    TracedFrame frame{.time = now, .length = m->pkt_len, .port = raw(port), .core = core_, .out = true};
    frame.captured = copy_beginning(m, frame.bytes);
    frame.job = job_of_sent(std::span{frame.bytes}.first(frame.captured));
    if (filter_.job && raw(*filter_.job) != frame.job) continue;
    if (is_next()) put(frame);
  }
}

void TraceTap::put(const TracedFrame& frame) noexcept {
  if (rte_ring_enqueue_elem(ring_.get(), const_cast<TracedFrame*>(&frame), sizeof frame) != 0) ++lost_;
}

bool TraceTap::next(TracedFrame& out) noexcept {
  return rte_ring_dequeue_elem(ring_.get(), &out, sizeof out) == 0;
}

}  // namespace tally::io

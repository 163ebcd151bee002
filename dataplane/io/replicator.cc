#include "io/replicator.h"

#include <bit>

#include "io/core_statistics.h"
#include "io/egress.h"

namespace tally::io {

void Replicator::replicate(rte_mbuf* m, const std::byte* payload, std::uint32_t payload_bytes,
                           std::uint64_t ranks, const jobs::NativeJob& job, const JobHeaders& headers,
                           std::uint16_t source_port) noexcept {
  ++statistics_.results;
  // Nothing has touched this line so far, and whoever frees a frame that is or was shared looks at `next`.
  __builtin_prefetch(&m->next, 1);
  const std::uint32_t sum = headers.ipv6 ? internet_sum({payload, payload_bytes}) : 0;
  const Result result{m, payload, payload_bytes, sum, source_port};
  if (job.results != ResultsMode::kMulticast)
    return send_to_each(result, ranks, headers.members, headers.member_ports);
  // The mbuf itself may go to several ports only if none of them gives it to somebody who writes its fields.
  if (headers.one_frame && (headers.group_ports & ~egress_.sharing_ports()) == 0)
    return send_one_frame(result, job, headers);
  send_to_each(result, job.leaders, headers.groups, headers.group_ports);
}

void Replicator::repeat(rte_mbuf* m, const std::byte* payload, std::uint32_t payload_bytes,
                        std::uint64_t ranks, const JobHeaders& headers, std::uint16_t source_port) noexcept {
  const std::uint32_t sum = headers.ipv6 ? internet_sum({payload, payload_bytes}) : 0;
  send_to_each({m, payload, payload_bytes, sum, source_port}, ranks, headers.members, headers.member_ports);
}

void Replicator::answer_session(rte_mbuf* m, const std::byte* payload, std::uint32_t payload_bytes,
                                std::uint64_t ranks, const JobHeaders& headers,
                                const pipeline::ReturnPaths& paths) noexcept {
  std::uint64_t ports = 0;
  for (std::uint64_t left = ranks; left != 0; left &= left - 1) {
    const auto r = static_cast<unsigned>(std::countr_zero(left));
    returning_[r] = {headers.members[r].header, paths[r].port};
    returning_[r].header.set_destination_port(paths[r].udp_port);
    ports |= bit_of_port(paths[r].port);
  }
  send_to_each({m, payload, payload_bytes, 0, 0}, ranks, returning_, ports);
}

// The same bytes to every port: no mbuf is needed but the one that is here.
void Replicator::send_one_frame(const Result& result, const jobs::NativeJob& job,
                                const JobHeaders& headers) noexcept {
  const auto leaders = static_cast<unsigned>(std::popcount(job.leaders));
  const pipeline::HeaderTemplate& header =
      headers.groups[static_cast<unsigned>(std::countr_zero(job.leaders))].header;
  const auto head = dpdk::reuse(result.m, result.payload, result.payload_bytes, header.bytes());
  header.write(head.data(), result.source_port, result.payload_bytes, result.payload_sum);
  if (leaders > 1) rte_mbuf_refcnt_update(result.m, static_cast<std::int16_t>(leaders - 1));
  statistics_.replicas += leaders;
  for (std::uint64_t left = job.leaders; left != 0; left &= left - 1)
    egress_.push(headers.groups[static_cast<unsigned>(std::countr_zero(left))].port, result.m);
}

void Replicator::send_to_each(const Result& result, std::uint64_t ranks,
                              const std::array<Receiver, kMaxRanks>& receivers,
                              std::uint64_t ports) noexcept {
  const bool chains = !std::has_single_bit(ranks) && (ports & ~egress_.segment_ports()) == 0;
  if (chains && send_chains(result, ranks, receivers)) [[likely]]
    return;
  send_one_by_one(result, ranks, receivers);
}

// All heads at once, and the references counted once: unicast to 8 took 5 to 8 % less than one by one. False:
// there are not enough heads for all.
bool Replicator::send_chains(const Result& result, std::uint64_t ranks,
                             const std::array<Receiver, kMaxRanks>& receivers) noexcept {
  std::array<rte_mbuf*, kMaxRanks> room;
  const auto heads = std::span{room}.first(static_cast<std::size_t>(std::popcount(ranks)));
  if (!dpdk::allocate_all(heads_, heads)) return false;
  static_cast<void>(dpdk::reuse(result.m, result.payload, result.payload_bytes, 0));
  dpdk::refer_all(result.m, heads);
  statistics_.replicas += heads.size();
  for (rte_mbuf* m : heads) {
    const Receiver& to = receivers[static_cast<unsigned>(std::countr_zero(ranks))];
    ranks &= ranks - 1;
    dpdk::lead(m, to.header.bytes(), result.payload_bytes);
    to.header.write(dpdk::data_of(m), result.source_port, result.payload_bytes, result.payload_sum);
    egress_.push(to.port, m);
  }
  return true;
}

// Header and payload by reference, or a copy of both. The last receiver gets the mbuf itself when no
// reference to it is under way, that is with one receiver, and on ports that take no segments.
void Replicator::send_one_by_one(const Result& result, std::uint64_t ranks,
                                 const std::array<Receiver, kMaxRanks>& receivers) noexcept {
  rte_mbuf* m = result.m;
  static_cast<void>(dpdk::reuse(m, result.payload, result.payload_bytes, 0));
  bool referred = false;
  bool short_of_mbufs = false;
  const std::uint64_t from_first = ~std::uint64_t{0} << first_;
  for (std::uint64_t half : {ranks & from_first, ranks & ~from_first}) {
    for (; half != 0; half &= half - 1) {
      const auto r = static_cast<unsigned>(std::countr_zero(half));
      const Receiver& to = receivers[r];
      ranks &= ~(std::uint64_t{1} << r);
      rte_mbuf* frame = m;
      if (ranks != 0 || referred) {
        frame = replica(m, to, referred);
      } else {
        static_cast<void>(dpdk::reuse(m, result.payload, result.payload_bytes, to.header.bytes()));
        m = nullptr;
      }
      if (frame == nullptr) {
        if (!short_of_mbufs) first_ = r;
        short_of_mbufs = true;
        continue;
      }
      to.header.write(dpdk::data_of(frame), result.source_port, result.payload_bytes, result.payload_sum);
      ++statistics_.replicas;
      egress_.push(to.port, frame);
    }
  }
  if (m != nullptr) dpdk::drop(m);
}

rte_mbuf* Replicator::replica(rte_mbuf* body, const Receiver& to, bool& referred) noexcept {
  const std::size_t head = to.header.bytes();
  const dpdk::PortTraits& port = egress_.traits(to.port);
  if (!port.segments) return dpdk::copied_whole(body, head, port.frames, statistics_);
  rte_mbuf* const frame = dpdk::refer(body, head, heads_, statistics_);
  referred |= frame != nullptr;
  return frame;
}

}  // namespace tally::io

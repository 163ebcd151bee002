#include "scalar_server.h"

#include <array>
#include <cstring>
#include <utility>

#include "tally/net.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

namespace tally::bench {
namespace {

constexpr std::size_t kDatagram = 42;  // Ethernet, IPv4, UDP
constexpr std::size_t kValues = kDatagram + kHeaderBytes;
constexpr std::uint16_t kReceiveBurst = 32;

// An empty instruction that a value passes through: the compiler cannot put several of them into one vector.
inline std::uint32_t alone(std::uint32_t value) noexcept {
  asm("" : "+r"(value));
  return value;
}

template <bool kAlone>
inline __attribute__((always_inline)) void add_values(std::uint32_t* __restrict sums,
                                                      const std::byte* __restrict values,
                                                      std::size_t elements) noexcept {
  for (std::size_t k = 0; k < elements; ++k) {
    std::uint32_t big = 0;
    std::memcpy(&big, values + 4 * k, sizeof big);
    const std::uint32_t value = __builtin_bswap32(big);
    sums[k] += kAlone ? alone(value) : value;
  }
}

// The slot is empty for its next chunk afterwards.
template <bool kAlone>
inline __attribute__((always_inline)) void take_sums(std::byte* __restrict values,
                                                     std::uint32_t* __restrict sums,
                                                     std::size_t elements) noexcept {
  for (std::size_t k = 0; k < elements; ++k) {
    const std::uint32_t big = __builtin_bswap32(kAlone ? alone(sums[k]) : sums[k]);
    std::memcpy(values + 4 * k, &big, sizeof big);
    sums[k] = 0;
  }
}

void add_one_by_one(std::uint32_t* sums, const std::byte* values, std::size_t elements) noexcept {
  add_values<true>(sums, values, elements);
}
void take_one_by_one(std::byte* values, std::uint32_t* sums, std::size_t elements) noexcept {
  take_sums<true>(values, sums, elements);
}

void add_sse(std::uint32_t* sums, const std::byte* values, std::size_t elements) noexcept {
  add_values<false>(sums, values, elements);
}
void take_sse(std::byte* values, std::uint32_t* sums, std::size_t elements) noexcept {
  take_sums<false>(values, sums, elements);
}
__attribute__((target("avx2"))) void add_avx2(std::uint32_t* sums, const std::byte* values,
                                              std::size_t elements) noexcept {
  add_values<false>(sums, values, elements);
}
__attribute__((target("avx2"))) void take_avx2(std::byte* values, std::uint32_t* sums,
                                               std::size_t elements) noexcept {
  take_sums<false>(values, sums, elements);
}
__attribute__((target("avx512f,avx512bw"))) void add_avx512(std::uint32_t* sums, const std::byte* values,
                                                            std::size_t elements) noexcept {
  add_values<false>(sums, values, elements);
}
__attribute__((target("avx512f,avx512bw"))) void take_avx512(std::byte* values, std::uint32_t* sums,
                                                             std::size_t elements) noexcept {
  take_sums<false>(values, sums, elements);
}

std::byte* frame_of(const rte_mbuf* m) noexcept { return rte_pktmbuf_mtod(m, std::byte*); }

}  // namespace

ScalarServer::ScalarServer(const jobs::NativeJob& job, const jobs::Box& box, std::uint16_t ethdev,
                           rte_mempool* frames, Loops loops)
    : job_(job),
      box_(box),
      ethdev_(ethdev),
      frames_(frames),
      add_(add_one_by_one),
      take_(take_one_by_one),
      slots_(2 * job.window),
      sums_(2 * job.window * job.elements),
      copies_(job.world) {
  if (loops == Loops::kOneByOne) return;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
  const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  add_ = avx512 ? add_avx512 : avx2 ? add_avx2 : add_sse;
  take_ = avx512 ? take_avx512 : avx2 ? take_avx2 : take_sse;
}

void ScalarServer::turn() noexcept {
  std::array<rte_mbuf*, kReceiveBurst> burst;
  const std::uint16_t n = rte_eth_rx_burst(ethdev_, 0, burst.data(), kReceiveBurst);
  for (std::uint16_t i = 0; i < n; ++i) {
    __builtin_prefetch(frame_of(burst[i]));
    handle(burst[i]);
    rte_pktmbuf_free(burst[i]);
  }
}

bool ScalarServer::parse(const rte_mbuf* m, Header& header) const noexcept {
  const std::byte* const frame = frame_of(m);
  EthernetHeader ethernet;
  Ipv4Header ip;
  UdpHeader udp;
  std::memcpy(&ethernet, frame, sizeof ethernet);
  std::memcpy(&ip, frame + 14, sizeof ip);
  std::memcpy(&udp, frame + 34, sizeof udp);
  std::memcpy(&header, frame + kDatagram, sizeof header);
  header.slot = Be{header.chunk.host() & (job_.window - 1)};
  return m->data_len == kValues + 4U * job_.elements && ethernet.type.host() == kEtherIpv4 &&
         ip.protocol == kProtocolUdp && udp.destination.host() == kBasePort &&
         header.type == PacketType::kContribute && header.rank.host() < job_.world;
}

void ScalarServer::handle(rte_mbuf* m) noexcept {
  Header h;
  if (!parse(m, h)) {
    ++lost_;
    return;
  }
  const bool set = (h.chunk.host() & job_.window) != 0;
  const std::size_t at = h.slot.host() + (set ? job_.window : 0);
  Slot& slot = slots_[at];
  Slot& other = slots_[h.slot.host() + (set ? 0 : job_.window)];
  const std::uint64_t bit = std::uint64_t{1} << h.rank.host();
  other.seen &= ~bit;
  if ((slot.seen & bit) != 0) {
    ++lost_;
    return;
  }
  slot.seen |= bit;
  std::uint32_t* const sums = &sums_[at * job_.elements];
  add_(sums, frame_of(m) + kValues, job_.elements);
  slot.sum1 += h.sum1.host();
  slot.sum2 += h.sum2.host();
  if (++slot.count == job_.world) send_copies(m, h, slot, sums);
}

void ScalarServer::send_copies(rte_mbuf* m, const Header& header, Slot& slot, std::uint32_t* sums) noexcept {
  std::byte* const frame = frame_of(m);
  take_(frame + kValues, sums, job_.elements);
  Header h = header;
  h.type = PacketType::kResult;
  h.contributors = Be{job_.members};
  h.sum1 = Be{slot.sum1};
  h.sum2 = Be{slot.sum2};
  std::memcpy(frame + kDatagram, &h, sizeof h);
  slot.count = slot.sum1 = slot.sum2 = 0;
  EthernetHeader ethernet;
  Ipv4Header ip;
  UdpHeader udp;
  std::memcpy(&ethernet, frame, sizeof ethernet);
  std::memcpy(&ip, frame + 14, sizeof ip);
  std::memcpy(&udp, frame + 34, sizeof udp);
  ethernet.source = box_.mac;
  ip.source = box_.ipv4;
  ip.checksum = {};  // the port's work
  udp.checksum = {};
  std::swap(udp.source, udp.destination);
  std::memcpy(frame + 34, &udp, sizeof udp);
  m->l2_len = sizeof ethernet;
  m->l3_len = sizeof ip;

  if (rte_pktmbuf_alloc_bulk(frames_, copies_.data(), job_.world) != 0) {
    lost_ += job_.world;
    return;
  }
  for (std::uint16_t r = 0; r < job_.world; ++r) {
    rte_mbuf* const copy = copies_[r];
    copy->data_len = m->data_len;
    copy->pkt_len = m->pkt_len;
    copy->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
    std::byte* const to = frame_of(copy);
    __builtin_prefetch(to, 1);
    std::memcpy(to, frame, m->data_len);
    ethernet.destination = job_.ranks[r].binding.mac;
    std::memcpy(ip.destination.data(), job_.ranks[r].binding.address.data() + 12, 4);
    std::memcpy(to, &ethernet, sizeof ethernet);
    std::memcpy(to + 14, &ip, sizeof ip);
  }
  std::uint16_t sent = 0;
  while (sent < job_.world)
    sent = static_cast<std::uint16_t>(
        sent + rte_eth_tx_burst(ethdev_, 0, &copies_[sent], static_cast<std::uint16_t>(job_.world - sent)));
}

}  // namespace tally::bench

#include "memory_port.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "start.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

namespace tally::bench {
namespace {

constexpr std::size_t kLine = 64;

// What ethdev passes to the burst functions, by port and queue.
constexpr std::size_t kMostQueues = 8;
std::array<std::array<void*, kMostQueues>, RTE_MAX_ETHPORTS> queues;

std::byte* frame_at(const rte_mbuf* m) noexcept {
  return static_cast<std::byte*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM;
}

// Where frame_at() will be, without reading the mbuf: our pools have no private area.
void prefetch_frame(const rte_mbuf* m) noexcept {
  const auto* const at = reinterpret_cast<const std::byte*>(m);
  const std::byte* const frame = at + sizeof(rte_mbuf) + RTE_PKTMBUF_HEADROOM;
  __builtin_prefetch(at, 1);
  __builtin_prefetch(frame, 1);
  __builtin_prefetch(frame + kLine, 1);
}

// Frames that are fetched from L3 before the one whose payload is read. Without, receive and free took 15 %
// more.
constexpr std::size_t kPayloadsAhead = 4;

void prefetch_payload(const rte_mbuf* m, std::size_t bytes) noexcept {
  const std::byte* const frame =
      reinterpret_cast<const std::byte*>(m) + sizeof(rte_mbuf) + RTE_PKTMBUF_HEADROOM;
  for (std::size_t at = 2 * kLine; at < bytes; at += kLine) __builtin_prefetch(frame + at);
}

void read_lines(const std::byte* from, std::size_t bytes) noexcept {
  std::uint64_t all = 0;
  for (std::size_t at = 0; at < bytes; at += kLine) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + at, sizeof word);
    all |= word;
  }
  asm volatile("" : : "r"(all));
}

// What this core wrote last is in its L2. A card's DMA leaves frames in L3 (or in memory, where it cannot).
void push_to_l3() {
  constexpr std::size_t kMoreThanL2 = std::size_t{4} << 20;
  static const std::vector<std::byte> other(kMoreThanL2, std::byte{1});
  read_lines(other.data(), other.size());
}

}  // namespace

MemoryPort::MemoryPort(const MemoryPortOptions& options, Traffic& traffic)
    : options_(options),
      traffic_(traffic),
      ring_(options.descriptors),
      prepared_(options.driver == Driver::kCopies ? options.descriptors : 0) {
  if (rte_pktmbuf_alloc_bulk(options_.frames, ring_.data(), options_.descriptors) != 0)
    give_up("the mempool does not fill the receive ring");
  std::shuffle(ring_.begin(), ring_.end(), std::mt19937_64(options_.index + options_.queue + 1));
  auto& burst = rte_eth_fp_ops[options_.ethdev];
  burst.rx_pkt_burst = [](void* queue, rte_mbuf** frames, std::uint16_t count) {
    return static_cast<MemoryPort*>(queue)->receive(frames, count);
  };
  burst.tx_pkt_burst = [](void* queue, rte_mbuf** frames, std::uint16_t count) {
    return static_cast<MemoryPort*>(queue)->transmit(frames, count);
  };
  queues.at(options_.ethdev).at(options_.queue) = this;
  burst.rxq.data = queues[options_.ethdev].data();
  burst.txq.data = queues[options_.ethdev].data();
}

MemoryPort::~MemoryPort() { rte_pktmbuf_free_bulk(ring_.data(), options_.descriptors); }

std::byte* MemoryPort::values(std::size_t i) const noexcept { return frame_at(ring_[i]) + Traffic::kHeaders; }

void MemoryPort::prepare() {
  prepare([this](std::size_t, const std::byte* frame, std::span<std::byte, Traffic::kHeaders> headers) {
    traffic_.next_headers(options_.index, frame, headers);
  });
}

const std::byte* MemoryPort::headers(std::size_t i) const noexcept {
  return options_.driver == Driver::kNic ? frame_at(ring_[i]) : prepared_[i].bytes.data();
}

void MemoryPort::prepare(const NextHeaders& next) {
  const bool in_place = options_.driver == Driver::kNic;
  for (std::size_t i = 0; i < ring_.size(); ++i) {
    std::byte* const frame = frame_at(ring_[i]);
    next(i, frame,
         in_place ? std::span<std::byte, Traffic::kHeaders>(frame, Traffic::kHeaders)
                  : std::span<std::byte, Traffic::kHeaders>(prepared_[i].bytes));
  }
  if (in_place) push_to_l3();
  left_ = ring_.size();
}

void MemoryPort::check_sent() noexcept {
  for (const Sent& sent : sent_) traffic_.check(options_.index, sent.ethernet.data(), sent.datagram);
  sent_.clear();
}

std::uint16_t MemoryPort::receive(rte_mbuf** frames, std::uint16_t count) noexcept {
  if (options_.other != nullptr && received_ > options_.other->load(std::memory_order_acquire) + kPace)
    return 0;
  count = static_cast<std::uint16_t>(std::min({std::size_t{count}, ring_.size() - head_, left_}));
  if (count == 0) return 0;
  rte_mbuf** const oldest = &ring_[head_];
  std::copy_n(oldest, count, frames);
  if (rte_mempool_get_bulk(options_.frames, reinterpret_cast<void**>(oldest), count) != 0) {
    std::copy_n(frames, count, oldest);
    ++starved_;
    return 0;
  }
  const std::size_t first = head_;
  head_ = (head_ + count) % ring_.size();
  received_ += count;
  left_ -= count;
  if (options_.pace != nullptr) options_.pace->store(received_, std::memory_order_release);
  if (options_.driver == Driver::kCopies) copy_in(first, std::span{frames, count});
  const std::uint32_t bytes = traffic_.frame_bytes();
  for (std::uint16_t i = 0; i < count; ++i) {
    rte_mbuf* const m = frames[i];
    m->data_off = RTE_PKTMBUF_HEADROOM;
    m->port = options_.ethdev;
    m->ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD | RTE_MBUF_F_RX_IP_CKSUM_GOOD;
    m->pkt_len = bytes;
    m->data_len = static_cast<std::uint16_t>(bytes);
  }
  return count;
}

void MemoryPort::copy_in(std::size_t first, std::span<rte_mbuf* const> frames) noexcept {
  const std::uint32_t bytes = traffic_.frame_bytes();
  for (const rte_mbuf* const m : frames) prefetch_frame(m);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    // Behind the last frame of the burst come the first ones of the next.
    const std::size_t ahead = i + kPayloadsAhead;
    prefetch_payload(ahead < frames.size() ? frames[ahead] : ring_[(first + ahead) % ring_.size()], bytes);
    std::byte* const frame = frame_at(frames[i]);
    std::memcpy(frame, prepared_[first + i].bytes.data(), Traffic::kHeaders);
    read_lines(frame + Traffic::kHeaders, bytes - Traffic::kHeaders);
  }
}

std::uint16_t MemoryPort::transmit(rte_mbuf** frames, std::uint16_t count) noexcept {
  for (std::uint16_t i = 0; i < count; ++i) {
    const rte_mbuf* const m = frames[i];
    const auto* const start = rte_pktmbuf_mtod(m, const std::byte*);
    if (!options_.check) {
      if (options_.driver == Driver::kCopies) read_lines(start, Traffic::kHeaders);
      continue;
    }
    const std::byte* const datagram = m->nb_segs == 1 ? start + Traffic::kHeaders - kHeaderBytes
                                                      : rte_pktmbuf_mtod(m->next, const std::byte*);
    if (options_.driver == Driver::kCopies) {
      traffic_.check(options_.index, start, datagram);
    } else {
      std::memcpy(sent_.emplace_back(Sent{.datagram = datagram}).ethernet.data(), start,
                  sizeof Sent::ethernet);
    }
  }
  rte_pktmbuf_free_bulk(frames, count);
  return count;
}

BurstDetour::BurstDetour(std::uint16_t ethdev, Burst on_receive, Burst on_transmit, void* to)
    : ethdev_(ethdev),
      receive_behind_(rte_eth_fp_ops[ethdev].rx_pkt_burst),
      transmit_behind_(rte_eth_fp_ops[ethdev].tx_pkt_burst),
      receive_queues_(rte_eth_fp_ops[ethdev].rxq.data),
      transmit_queues_(rte_eth_fp_ops[ethdev].txq.data),
      queues_{to} {
  auto& burst = rte_eth_fp_ops[ethdev];
  burst.rx_pkt_burst = on_receive;
  burst.tx_pkt_burst = on_transmit;
  burst.rxq.data = queues_.data();
  burst.txq.data = queues_.data();
}

BurstDetour::~BurstDetour() {
  auto& burst = rte_eth_fp_ops[ethdev_];
  burst.rx_pkt_burst = receive_behind_;
  burst.tx_pkt_burst = transmit_behind_;
  burst.rxq.data = receive_queues_;
  burst.txq.data = transmit_queues_;
}

}  // namespace tally::bench

#include "loop_host.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "loop_packets.h"
#include "pipeline/reply.h"
#include "tally/check.h"

namespace tally::e2e {
namespace {

constexpr std::size_t kSharedFrames = 16;  // second references held at a time

}  // namespace

LoopWorker& LoopHost::add(std::unique_ptr<LoopWorker> worker) {
  workers_.push_back(std::move(worker));
  return *workers_.back();
}

std::size_t LoopHost::turn(TimeNs now) {
  std::array<rte_mbuf*, 256> room{};
  std::size_t moved = 0;
  for (std::uint16_t q = 0; q < cable_.options().down; ++q) {
    const auto burst = dpdk::receive(cable_.worker_port(), q, std::span{room}.first(options_.receive_burst));
    for (rte_mbuf* m : burst) take(m, now);
    moved += burst.size();
  }
  for (const auto& worker : workers_) {
    worker->work(now);
    moved += transmit(*worker, now);
  }
  return moved;
}

// Before: the host owns `m`. After: the mempools. Only read, since payloads are shared with other hosts; a
// header and a payload in two segments are joined outside.
void LoopHost::take(rte_mbuf* m, TimeNs now) {
  const void* bytes = rte_pktmbuf_read(m, 0, m->pkt_len, line_.data());
  TALLY_CHECK(bytes != nullptr, "a frame is as long as it says");
  chains_ += bytes == line_.data() ? 1 : 0;
  ++received_;
  received_bytes_ += m->pkt_len;
  const auto* const frame = static_cast<const std::byte*>(bytes);
  const bool is_plain = m->pkt_len > 14 && frame[12] == std::byte{0x88} && frame[13] == std::byte{0xB5};
  plain_ += is_plain ? 1 : 0;
  bool wanted = is_plain;
  for (const auto& worker : workers_)
    wanted |= !is_plain && worker->take({static_cast<const std::byte*>(bytes), m->pkt_len}, now);
  if (!wanted) wrong_.emplace_back("a frame that is for nobody here arrived on this port");
  dpdk::drop(m);
}

// The mbuf comes first: without one the engine is not asked, so its datagram waits instead of being lost.
std::size_t LoopHost::transmit(LoopWorker& worker, TimeNs now) {
  std::size_t sent = 0;
  const std::size_t head = pipeline::encapsulation_bytes(worker.self());
  for (std::size_t i = 0; i < options_.transmit_burst && worker.engine().deadline() <= now; ++i) {
    rte_mbuf* m = dpdk::allocate(pool_, mbufs_);
    if (m == nullptr) break;
    std::uint16_t port = 0;
    std::byte* const payload = dpdk::data_of(m) + head;
    const std::size_t bytes = worker.engine().transmit({payload, rte_pktmbuf_tailroom(m) - head}, now, port);
    if (bytes == 0) {
      dpdk::drop(m);
      break;
    }
    wrap_for_box(dpdk::reuse(m, payload, static_cast<std::uint32_t>(bytes), head), worker.self(), port,
                 {payload, bytes});
    ++sent_;
    if (options_.split_every != 0 && sent_ % options_.split_every == 0) m = split(m);
    if (m == nullptr) break;
    if (options_.share_every != 0 && sent_ % options_.share_every == 0) share(m);
    const bool stray = options_.stray_every != 0 && sent_ % options_.stray_every == 0;
    const auto queue = static_cast<std::uint16_t>((port - kBasePort + (stray ? 1 : 0)) % cable_.options().up);
    sent += dpdk::send(cable_.worker_port(), queue, {&m, 1}, mbufs_);
  }
  return sent;
}

void LoopHost::send_raw(std::span<const std::byte> frame, std::uint16_t queue) {
  TALLY_CHECK(try_send_raw(frame, queue), "the host has an mbuf for it");
}

bool LoopHost::try_send_raw(std::span<const std::byte> frame, std::uint16_t queue) {
  rte_mbuf* m = dpdk::allocate(pool_, mbufs_);
  if (m == nullptr) return false;
  TALLY_CHECK(frame.size() <= rte_pktmbuf_tailroom(m), "the host's mbufs are large enough");
  if (!frame.empty()) std::memcpy(dpdk::data_of(m), frame.data(), frame.size());
  m->data_len = static_cast<std::uint16_t>(frame.size());
  m->pkt_len = m->data_len;
  dpdk::send(cable_.worker_port(), queue, {&m, 1}, mbufs_);
  return true;
}

// Before and after: the host owns the frame. nullptr: no mbuf for the second half; the frame is dropped.
rte_mbuf* LoopHost::split(rte_mbuf* m) {
  rte_mbuf* tail = dpdk::allocate(pool_, mbufs_);
  if (tail == nullptr) {
    dpdk::drop(m);
    return nullptr;
  }
  const auto half = static_cast<std::uint16_t>(m->data_len / 2);
  rte_pktmbuf_append(tail, half);
  std::memcpy(dpdk::data_of(tail), dpdk::data_of(m) + m->data_len - half, half);
  rte_pktmbuf_trim(m, half);
  rte_pktmbuf_chain(m, tail);
  return m;
}

// Takes a second reference to a frame about to be sent: from now on read-only at both ends.
void LoopHost::share(rte_mbuf* m) {
  rte_pktmbuf_refcnt_update(m, 1);  // of every segment, as the free that undoes it
  shared_.push_back({m, {dpdk::data_of(m), dpdk::data_of(m) + m->data_len}});
  while (shared_.size() > kSharedFrames) {
    const Shared& oldest = shared_.front();
    const std::span<const std::byte> now{dpdk::data_of(oldest.frame), oldest.frame->data_len};
    if (!std::ranges::equal(now, oldest.bytes)) wrong_.emplace_back("a shared frame was written");
    dpdk::drop(oldest.frame);
    shared_.pop_front();
  }
}

std::size_t LoopHost::drain() {
  for (const Shared& s : shared_) dpdk::drop(s.frame);
  shared_.clear();
  std::size_t arrived = 0;
  std::array<rte_mbuf*, 64> room{};
  for (std::uint16_t q = 0; q < cable_.options().down; ++q) {
    for (auto burst = dpdk::receive(cable_.worker_port(), q, room); !burst.empty();
         burst = dpdk::receive(cable_.worker_port(), q, room)) {
      arrived += burst.size();
      for (rte_mbuf* m : burst) dpdk::drop(m);
    }
  }
  return arrived;
}

}  // namespace tally::e2e

#include "io/egress.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tally::io {

Egress::Egress(const std::vector<EgressPort>& ports, CoreStatistics& statistics,
               std::span<PortTraffic> traffic, const std::atomic<TraceTap*>& tap)
    : statistics_(statistics), tap_(tap) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const EgressPort& p = ports[i];
    auto way = p.via != nullptr ? nullptr
                                : dpdk::impaired_way(p.impair, p.traits.frames, statistics,
                                                     traffic[i].impaired_out, statistics.impaired_out);
    boxes_.push_back({.traits = p.traits,
                      .queue = p.queue,
                      .most = p.traits.umem ? dpdk::room_of(p.traits.frames) : UINT32_MAX,
                      .via = p.via,
                      .way = std::move(way),
                      .traffic = &traffic[i]});
    // On its way to another core a frame carries its port in the mbuf; a port that hands the mbuf itself to a
    // reader gives its fields away.
    if (p.via == nullptr && !p.traits.same_mbuf && i < 64) sharing_ |= std::uint64_t{1} << i;
    if (p.traits.segments && i < 64) segments_ |= std::uint64_t{1} << i;
  }
  timed_.reserve(boxes_.size());
  note_ways();
}

// What follows from who has a way, and which.
void Egress::note_ways() noexcept {
  timed_.clear();
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    Outbox& box = boxes_[i];
    box.detour = box.via != nullptr || box.way != nullptr || box.traits.umem;
    if (box.way != nullptr && box.way->timed()) timed_.push_back(i);
  }
}

void Egress::exchange(dpdk::PortWays& ways) noexcept {
  Outbox& box = boxes_[raw(ways.port)];
  if (box.via != nullptr) return;
  box.way.swap(ways.out);
  if (ways.out != nullptr) ways.out->lose();
  note_ways();
}

void Egress::push(PortIndex port, rte_mbuf* m) noexcept {
  Outbox& box = boxes_[raw(port)];
  if (box.detour) return push_elsewhere(box, port, m);
  add(box, m);
}

void Egress::push_elsewhere(Outbox& box, PortIndex port, rte_mbuf* m) noexcept {
  if (box.via != nullptr) {
    m->port = raw(port);
    if (!dpdk::send(box.via, m)) ++statistics_.hand_over_lost;
    return;
  }
  std::array<rte_mbuf*, 2> room{};
  const bool timed = box.way != nullptr && box.way->timed();
  for (rte_mbuf* frame : alter(port, m, room)) timed ? box.way->hold(frame, now_) : add(box, frame);
  if (timed) release(box);
}

void Egress::add(Outbox& box, rte_mbuf* m) noexcept {
  box.bytes[box.count] = m->pkt_len;
  box.frames[box.count++] = m;
  if (box.count == kOutbox) send_all(box);
}

std::size_t Egress::release(Outbox& box) noexcept {
  std::size_t n = 0;
  rte_mbuf* m = nullptr;
  for (; !box.way->leave(now_, {&m, 1}).empty(); ++n) add(box, m);
  return n;
}

std::size_t Egress::begin(TimeNs now) noexcept {
  now_ = now;
  std::size_t n = 0;
  for (const std::size_t i : timed_) n += release(boxes_[i]);
  return n;
}

std::span<rte_mbuf*> Egress::alter(PortIndex port, rte_mbuf* m, std::span<rte_mbuf*, 2> room) noexcept {
  const Outbox& box = boxes_[raw(port)];
  if (m->pkt_len > box.most) {
    ++statistics_.refused;
    dpdk::drop(m);
    return {};
  }
  if (box.way != nullptr) return box.way->alter(m, room);
  room[0] = m;
  return room.first(1);
}

TimeNs Egress::next_due() const noexcept {
  TimeNs due = kNever;
  for (const std::size_t i : timed_) due = std::min(due, boxes_[i].way->next_due());
  return due;
}

void Egress::clear() noexcept {
  for (const Outbox& box : boxes_) {
    if (box.way != nullptr) box.way->clear();
  }
}

void Egress::send_all(Outbox& box) noexcept {
  const auto frames = std::span{box.frames}.first(box.count);
  trace(box, frames);
  const std::size_t taken = dpdk::send(box.traits.id, box.queue, frames, statistics_);
  count(box, std::span{box.bytes}.first(taken));
  box.count = 0;
}

// Before they go: afterwards they are not ours to look at. What a full ring refuses is in it too.
inline void Egress::trace(const Outbox& box, std::span<rte_mbuf* const> frames) const noexcept {
  if (TraceTap* const tap = tap_.load(std::memory_order_acquire); tap != nullptr) [[unlikely]]
    tap->sent(PortIndex{static_cast<std::uint16_t>(&box - boxes_.data())}, frames, now_);
}

// bytes: of each frame that the port took.
void Egress::count(Outbox& box, std::span<const std::uint32_t> bytes) noexcept {
  statistics_.frames_out += bytes.size();
  box.traffic->frames_out += bytes.size();
  box.traffic->bytes_out += std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

std::size_t Egress::offer(PortIndex port, std::span<rte_mbuf*> frames) noexcept {
  Outbox& box = boxes_[raw(port)];
  if (box.via != nullptr) {
    for (rte_mbuf* m : frames) m->port = raw(port);
    return tally::dpdk::offer(box.via, frames);
  }
  if (box.way != nullptr && box.way->timed()) {
    std::size_t kept = 0;
    while (kept < frames.size() && box.way->has_room()) box.way->hold(frames[kept++], now_);
    release(box);
    if (box.count != 0) send_all(box);
    return kept;
  }
  if (box.count != 0) send_all(box);
  trace(box, frames);
  std::array<std::uint32_t, kOutbox> bytes;
  for (std::size_t i = 0; i < frames.size(); ++i) bytes[i] = frames[i]->pkt_len;
  const std::size_t taken = tally::dpdk::offer(box.traits.id, box.queue, frames);
  count(box, std::span{bytes}.first(taken));
  return taken;
}

void Egress::flush() noexcept {
  for (Outbox& box : boxes_) {
    if (box.count != 0) send_all(box);
  }
}

ServerEgress::ServerEgress(std::size_t ports, const server::ServerQueueOptions& options, Egress& egress,
                           CoreStatistics& statistics)
    : queues_(ports, server::ServerQueue<rte_mbuf*>(options)), egress_(egress), statistics_(statistics) {}

void ServerEgress::push(PortIndex port, rte_mbuf* m, JobId job, std::uint8_t priority) noexcept {
  std::array<rte_mbuf*, 2> room{};
  for (rte_mbuf* frame : egress_.alter(port, m, room)) {
    ++waiting_;
    if (const auto away = queues_[raw(port)].push(frame, job, priority, frame->pkt_len)) {
      --waiting_;
      ++statistics_.server_refused;
      dpdk::drop(*away);
    }
  }
  statistics_.server_queued = waiting_;
}

std::size_t ServerEgress::drain() noexcept {
  using Queue = server::ServerQueue<rte_mbuf*>;
  std::size_t sent = 0;
  for (std::size_t p = 0; p < queues_.size(); ++p) {
    Queue& queue = queues_[p];
    std::array<rte_mbuf*, Queue::kMostAtOnce> frames;
    while (const std::size_t n = queue.next(frames)) {
      const std::size_t taken =
          egress_.offer(PortIndex{static_cast<std::uint16_t>(p)}, std::span{frames}.first(n));
      queue.sent(taken);
      sent += taken;
      if (taken < n) break;
    }
  }
  waiting_ -= sent;
  statistics_.to_servers += sent;
  statistics_.server_queued = waiting_;
  return sent;
}

void ServerEgress::clear() noexcept {
  for (server::ServerQueue<rte_mbuf*>& queue : queues_) {
    rte_mbuf* m = nullptr;
    while (queue.next({&m, 1}) != 0) {
      queue.sent(1);
      dpdk::drop(m);
    }
  }
  waiting_ = 0;
  statistics_.server_queued = 0;
}

}  // namespace tally::io

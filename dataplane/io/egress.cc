#include "egress.h"

#include <numeric>

namespace tally {

Egress::Egress(std::vector<EgressPort> ports, MbufCounters& mbufs, CoreStatistics& statistics,
               std::span<PortTraffic> traffic)
    : mbufs_(mbufs), statistics_(statistics) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const EgressPort& p = ports[i];
    boxes_.push_back(
        {.traits = p.traits, .queue = p.queue, .via = p.via, .impair = p.impair, .traffic = &traffic[i]});
    // On its way to another core a frame carries its port in the mbuf; a port that hands the mbuf itself to a
    // reader gives its fields away.
    if (p.via == nullptr && !p.traits.same_mbuf && i < 64) sharing_ |= std::uint64_t{1} << i;
  }
}

void Egress::push(PortIndex port, rte_mbuf* m) noexcept {
  Outbox& box = boxes_[raw(port)];
  if (box.via != nullptr) {
    m->port = raw(port);
    if (!send(box.via, m, ring_mbufs_)) ++statistics_.hand_over_lost;
    return;
  }
  if (lose(box)) return drop(m);
  box.bytes[box.count] = m->pkt_len;
  box.frames[box.count++] = m;
  if (box.count == kOutbox) send_all(box);
}

void Egress::send_all(Outbox& box) noexcept {
  const auto frames = std::span{box.frames}.first(box.count);
  const std::size_t taken = send(box.traits.id, box.queue, frames, mbufs_);
  count(box, std::span{box.bytes}.first(taken));
  box.count = 0;
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
    return tally::offer(box.via, frames);
  }
  if (box.count != 0) send_all(box);
  std::array<std::uint32_t, kOutbox> bytes;
  for (std::size_t i = 0; i < frames.size(); ++i) bytes[i] = frames[i]->pkt_len;
  const std::size_t taken = tally::offer(box.traits.id, box.queue, frames);
  count(box, std::span{bytes}.first(taken));
  return taken;
}

void Egress::flush() noexcept {
  for (Outbox& box : boxes_) {
    if (box.count != 0) send_all(box);
  }
}

}  // namespace tally

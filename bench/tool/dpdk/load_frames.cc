// The generator's frames: what arrives, and what is to be sent.

#include <algorithm>
#include <cstring>

#include "load_generator.h"
#include "pipeline/reply.h"

#include <rte_mbuf.h>

namespace tally::bench {

bool LoadGenerator::receive(std::size_t port) {
  const LoadPort& p = *ports_[port];
  bool emptied = true;
  for (std::uint16_t queue = 0; queue < p.queues(); ++queue) {
    std::array<rte_mbuf*, kBurstFrames> burst;
    const std::span<rte_mbuf*> frames = tally::dpdk::receive(p.id(), queue, burst);
    if (frames.empty()) continue;
    emptied = emptied && frames.size() < kBurstFrames;
    const TimeNs now = clock_.now();
    for (rte_mbuf* m : frames) {
      if (m->nb_segs == 1) {
        take({dpdk::data_of(m), m->data_len}, port, now);
        continue;
      }
      linear_.resize(m->pkt_len);
      take({static_cast<const std::byte*>(rte_pktmbuf_read(m, 0, m->pkt_len, linear_.data())), m->pkt_len},
           port, now);
    }
    rte_pktmbuf_free_bulk(frames.data(), static_cast<unsigned>(frames.size()));
  }
  return emptied;
}

// Frames for nobody here, broken ones and other protocols are passed over, as a worker does.
void LoadGenerator::take(std::span<const std::byte> frame, std::size_t port, TimeNs now) {
  if (frame.size() < sizeof(EthernetHeader)) return;
  const bool multicast = (std::to_integer<unsigned>(frame[0]) & 1U) != 0;
  const std::size_t rank = multicast ? port : std::to_integer<std::size_t>(frame[5]);
  if (rank >= options_.addresses.size() || rank % ports_.size() != port) return;
  if (options_.echo_window != 0) return take_echo(frame, rank, now);
  const auto payload = dpdk_transport::open_worker_frame(frame, filters_[rank]);
  engine::Datagram datagram{};
  if (payload.empty() || engine::open_datagram(payload, kernels_, datagram)) return;
  if (datagram.header.type != PacketType::kResult) return members_[rank].receive(datagram, now);
  if (!ledger_) return;
  ++frames_;
  ledger_->receive(datagram, port, static_cast<std::uint16_t>(rank), multicast, now);
}

// The frame as it was sent, but for its Ethernet addresses.
void LoadGenerator::take_echo(std::span<const std::byte> frame, std::size_t rank, TimeNs now) {
  const ContributionWriter& writer = writers_[rank];
  const Mac& own = options_.addresses[rank].mac;
  if (frame.size() != writer.frame_bytes() || std::memcmp(frame.data(), own.data(), own.size()) != 0) return;
  const Header header = pipeline::header_at(frame.data() + writer.encapsulation());
  if (header.type != PacketType::kContribute) return;
  ++frames_;
  ledger_->receive_echo(header.chunk_id(), static_cast<std::uint16_t>(rank), now);
}

// Repetitions first, and whatever the rate: the window waits for them. The mbuf comes before the
// contribution, which the ledger names only once.
void LoadGenerator::fill(std::size_t port, TimeNs now) {
  Lane& lane = lanes_[port];
  const auto room = [&lane] {
    return std::ranges::all_of(lane.queues, [](const Waiting& w) { return w.count < kBurstFrames; });
  };
  std::uint64_t due = std::min<std::uint64_t>(lane.pacer.due(now), kBurstFrames);
  while (room()) {
    rte_mbuf* const m = rte_pktmbuf_alloc(contributions_.get());
    if (m == nullptr) return;
    if (const auto again = ledger_->next_again(port)) {
      add_frame(port, m, *again, true);
      continue;
    }
    const auto what = due > 0 ? ledger_->next(port) : std::nullopt;
    if (!what) {
      rte_pktmbuf_free(m);
      return;
    }
    add_frame(port, m, *what, false);
    lane.pacer.sent(1);
    --due;
  }
}

void LoadGenerator::add_frame(std::size_t port, rte_mbuf* m, const Contributed& what, bool again) {
  const ContributionWriter& writer = writers_[what.rank];
  m->data_len = static_cast<std::uint16_t>(writer.frame_bytes());
  m->pkt_len = m->data_len;
  const std::span<std::byte> frame{dpdk::data_of(m), writer.frame_bytes()};
  if (again) {
    const ImageIndex image = ledger_->image_of(what);
    const auto values = images_->values(image);
    std::memcpy(frame.data() + writer.encapsulation() + kHeaderBytes, values.data(), values.size());
    m->hash.usr = image;
  }
  const Chunk number = ledger_->number_of(what.chunk);
  writer.write(frame, number, static_cast<ImageIndex>(m->hash.usr), again);
  Lane& lane = lanes_[port];
  Waiting& waiting = lane.queues[membership().shard_of(number) % lane.queues.size()];
  waiting.frames[waiting.count] = m;
  waiting.what[waiting.count] = what;
  waiting.again[waiting.count++] = again;
}

void LoadGenerator::offer_frames(std::size_t port) {
  for (std::uint16_t queue = 0; Waiting & w : lanes_[port].queues) {
    const std::uint16_t id = queue++;
    if (w.count == 0) continue;
    std::array<ImageIndex, kBurstFrames> images;  // a frame that was taken is not ours to look at
    for (std::size_t i = 0; i < w.count; ++i) images[i] = static_cast<ImageIndex>(w.frames[i]->hash.usr);
    // Before the burst: a port of the kernel may bring the frames to the box, and its answer back, within it.
    const TimeNs now = clock_.now();
    const std::size_t taken = dpdk::offer(ports_[port]->id(), id, {w.frames.data(), w.count});
    ++bursts_;
    if (taken < w.count) ++full_;
    for (std::size_t i = 0; i < taken; ++i) {
      if (w.again[i]) {
        ledger_->sent_again();
      } else {
        ledger_->sent(w.what[i], images[i], now);
      }
    }
    const auto from = static_cast<std::ptrdiff_t>(taken), to = static_cast<std::ptrdiff_t>(w.count);
    std::copy(w.frames.begin() + from, w.frames.begin() + to, w.frames.begin());
    std::copy(w.what.begin() + from, w.what.begin() + to, w.what.begin());
    std::copy(w.again.begin() + from, w.again.begin() + to, w.again.begin());
    w.count -= taken;
  }
}

}  // namespace tally::bench

#include "loop_switch_rig.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/kernels.h"
#include "loop_packets.h"
#include "pool_audit.h"
#include "tally/check.h"

namespace tally::e2e {
namespace {

constexpr unsigned kHostMbufs = 1'024;

dpdk::Mempool host_pool(std::uint16_t room) {
  dpdk::Mempool pool(rte_pktmbuf_pool_create("switch_hosts", kHostMbufs, 0, 0,
                                             static_cast<std::uint16_t>(RTE_PKTMBUF_HEADROOM + room),
                                             SOCKET_ID_ANY));
  TALLY_CHECK(pool != nullptr, "EAL's memory holds the mempool of the hosts");
  return pool;
}

}  // namespace

Mac host_mac(std::uint8_t n) { return {2, 0, 0, 0, 1, n}; }

Bytes plain_frame(const Mac& to, const Mac& from, std::size_t bytes) {
  Bytes frame(bytes);
  for (std::size_t i = 14; i < bytes; ++i) frame[i] = static_cast<std::byte>(i * 7 + i / 256);
  std::memcpy(frame.data(), to.data(), 6);
  std::memcpy(frame.data() + 6, from.data(), 6);
  frame[12] = std::byte{0x88};
  frame[13] = std::byte{0xB5};
  return frame;
}

SwitchRig::SwitchRig(const SwitchCase& c) : case_(c), hosts_pool_(host_pool(c.frame_room)) {
  auto pools = make_plain_pools(
      {.frames = c.frame_mbufs, .heads = 64, .frame_room = c.frame_room, .cores = c.cores}, "switch");
  TALLY_CHECK(pools.has_value(), "EAL's memory holds the pools");
  frames_ = pools->frames[0];
  std::vector<io::BoxPort> ports;
  for (std::size_t p = 0; p < c.ports; ++p) {
    const CableOptions cable{.name = "switch" + std::to_string(p),
                             .up = c.up,
                             .down = c.down,
                             .segments = c.segments,
                             .copies = c.copies};
    cables_.push_back(std::make_unique<Cable>(cable, hosts_pool_.get()));
    dpdk::PortOptions o;
    o.name = cable.name;
    o.receive_queues = c.up;
    o.transmit_queues = c.down;
    if (p < c.mtus.size()) o.mtu = c.mtus[p];
    auto port = dpdk::Port::adopt(cables_.back()->box_port(), o, frames_);
    TALLY_CHECK(port.has_value(), "the box takes the port");
    ports.push_back({std::move(*port), (c.impaired >> p & 1) != 0 ? c.impair : impair::PortImpairment{}});
  }
  io::DataPlaneOptions o;
  o.box = loop_box();
  o.mode = c.mode;
  o.cores = c.cores;
  o.slot_lines = 1'024;
  auto plane = io::DataPlane::create(o, std::move(*pools), std::move(ports), kernels::best_kernels());
  TALLY_CHECK(plane.has_value(), "the data plane is made");
  plane_ = std::move(*plane);
  turn();
}

SwitchRig::~SwitchRig() {
  plane_->stop();
  for (std::size_t p = 0; p < cables_.size(); ++p) static_cast<void>(received(p));
}

void SwitchRig::send(std::size_t port, const Bytes& frame, std::uint16_t queue, std::size_t segments) {
  rte_mbuf* head = nullptr;
  for (std::size_t s = 0; s < segments; ++s) {
    const std::size_t from = frame.size() * s / segments;
    const std::size_t to = frame.size() * (s + 1) / segments;
    rte_mbuf* const m = dpdk::allocate(hosts_pool_.get(), mbufs_);
    TALLY_CHECK(m != nullptr && to - from <= rte_pktmbuf_tailroom(m), "the host has an mbuf for it");
    std::memcpy(dpdk::data_of(m), frame.data() + from, to - from);
    m->data_len = static_cast<std::uint16_t>(to - from);
    m->pkt_len = m->data_len;
    if (head == nullptr)
      head = m;
    else
      rte_pktmbuf_chain(head, m);
  }
  EXPECT_EQ(tally::dpdk::send(cables_[port]->worker_port(), queue, {&head, 1}, mbufs_), 1U);
}

void SwitchRig::turn() {
  std::size_t moved = 1;
  while (moved != 0) {
    moved = 0;
    for (std::size_t core = 0; core < plane_->cores(); ++core) moved += plane_->turn(core, now_);
  }
}

// Only read: others may have the same mbuf.
std::vector<Bytes> SwitchRig::received(std::size_t port) {
  std::vector<Bytes> frames;
  std::array<rte_mbuf*, 64> room{};
  for (std::uint16_t q = 0; q < case_.down; ++q) {
    for (auto burst = dpdk::receive(cables_[port]->worker_port(), q, room); !burst.empty();
         burst = dpdk::receive(cables_[port]->worker_port(), q, room)) {
      for (rte_mbuf* m : burst) {
        Bytes bytes;
        segments_ = m->nb_segs;
        for (const rte_mbuf* s = m; s != nullptr; s = s->next)
          bytes.insert(bytes.end(), dpdk::data_of(s), dpdk::data_of(s) + s->data_len);
        EXPECT_EQ(bytes.size(), m->pkt_len);
        frames.push_back(std::move(bytes));
        dpdk::drop(m);
      }
    }
  }
  return frames;
}

std::string SwitchRig::ports_of(std::size_t port, const Bytes& frame, std::uint16_t queue,
                                std::size_t segments) {
  send(port, frame, queue, segments);
  turn();
  std::string out;
  for (std::size_t p = 0; p < cables_.size(); ++p) {
    for (const Bytes& seen : received(p)) {
      EXPECT_TRUE(seen == frame) << "other bytes came out of port " << p;
      if (!out.empty()) out.push_back(' ');
      out.append(std::to_string(p));
    }
  }
  return out;
}

l2::SwitchCounters SwitchRig::counters() const {
  l2::SwitchCounters all;
  for (std::size_t core = 0; core < plane_->cores(); ++core) all += plane_->core(core).statistics.l2;
  return all;
}

std::uint64_t SwitchRig::sum(OneWriter<std::uint64_t> io::CoreStatistics::*field) const {
  std::uint64_t n = 0;
  for (std::size_t core = 0; core < plane_->cores(); ++core) n += plane_->core(core).statistics.*field;
  return n;
}

void SwitchRig::expect_clean() {
  turn();
  for (std::size_t p = 0; p < cables_.size(); ++p) static_cast<void>(received(p));
  plane_->stop();
  EXPECT_EQ(plane_->mbufs_in_use(), 0U);
  EXPECT_EQ(audit(hosts_pool_.get()), "");
  EXPECT_EQ(audit(frames_), "");
  EXPECT_EQ(counters().frames(), sum(&io::CoreStatistics::not_ours));
}

}  // namespace tally::e2e

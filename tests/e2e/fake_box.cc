#include "fake_box.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <thread>

#include "dpdk/mbuf.h"
#include "dpdk_transport/worker_eal.h"
#include "pipeline/frame.h"
#include "pipeline/reply.h"
#include "tally/check.h"

#include <rte_ethdev.h>
#include <rte_mempool.h>

namespace tally::e2e {
namespace {

constexpr unsigned kMbufs = 4095;
constexpr unsigned kBurstsPerPoll = 32;  // a memif ring of 1,024, the deepest that a test makes
constexpr unsigned kCache = 0;           // every mbuf that is not in use is in the pool's ring

std::string fresh_name() {
  static unsigned count = 0;
  return "fake-box-" + std::to_string(count++);
}

}  // namespace

FakeBox::FakeBox(const std::string& device, bool ipv6, std::uint16_t mtu, std::uint16_t queues) {
  TALLY_CHECK(dpdk_transport::worker_eal({}), "EAL starts");
  box_.mac = kMac;
  if (ipv6) {
    box_.ipv6 = Ipv6{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  } else {
    box_.ipv4 = {10, 0, 0, 1};
  }
  const std::string name = fresh_name();
  dpdk::PortOptions options;
  options.name = name;
  options.device = device;
  options.mtu = mtu;
  options.receive_queues = queues;
  options.transmit_queues = queues;
  const std::uint32_t room = std::max<std::uint32_t>(mtu + 64U, dpdk::Port::needs_of(options).least_room);
  pool_.reset(rte_pktmbuf_pool_create(name.c_str(), kMbufs, kCache, 0,
                                      static_cast<std::uint16_t>(dpdk::kHeadRoom + room), SOCKET_ID_ANY));
  TALLY_CHECK(pool_ != nullptr, "there is memory for the box's mbufs");
  auto port = dpdk::Port::open(options, pool_.get());
  if (!port) std::fprintf(stderr, "%s\n", port.error().text().c_str());
  TALLY_CHECK(port, "the box's port opens");
  port_ = std::make_unique<dpdk::Port>(std::move(*port));
  auto fence = dpdk_transport::InterruptFence::create();
  TALLY_CHECK(fence, "there is an interrupt thread");
  fence_ = std::move(*fence);
}

FakeBox::~FakeBox() {
  fence_->wait();
  port_.reset();
  fence_->wait();
}

void FakeBox::settle() {
  while (port_->link_up()) std::this_thread::yield();
  fence_->wait();
}

std::vector<FakeBox::Arrived> FakeBox::poll() {
  std::vector<Arrived> all;
  for (std::uint16_t queue = 0; queue < port_->traits().receive_queues; ++queue) {
    std::array<rte_mbuf*, 32> room;
    // A worker that sends faster than this box reads (ThreadSanitizer) would keep it here for ever.
    for (unsigned bursts = 0; bursts < kBurstsPerPoll; ++bursts) {
      const auto burst = dpdk::receive(port_->traits().id, queue, room);
      for (rte_mbuf* m : burst) {
        pipeline::Frame frame{dpdk::data_of(m), m->data_len,     m->data_len,
                              PortIndex{0},     m->nb_segs == 1, false};
        const pipeline::OpenedFrame opened = pipeline::open_frame(frame, box_);
        Arrived& a = all.emplace_back();
        a.frame.assign(frame.data, frame.data + frame.length);
        std::memcpy(a.destination.data(), frame.data, a.destination.size());
        a.queue = queue;
        if (opened.kind == pipeline::Kind::kNative) {
          a.payload.assign(opened.payload, opened.payload + opened.payload_bytes);
          a.source = opened.source;
          UdpHeader udp;
          std::memcpy(&udp, opened.payload - sizeof udp, sizeof udp);
          a.port = udp.destination.host();
        }
        dpdk::drop(m);
      }
      if (burst.empty()) break;
    }
  }
  return all;
}

std::vector<std::byte> FakeBox::frame_for(const jobs::Binding& to, std::span<const std::byte> payload,
                                          std::uint16_t source_port) const {
  std::vector<std::byte> frame(pipeline::encapsulation_bytes(to) + payload.size());
  const std::span<std::byte> head{frame.data(), pipeline::encapsulation_bytes(to)};
  pipeline::write_encapsulation(head, to, box_, source_port, payload);
  std::copy(payload.begin(), payload.end(), frame.begin() + static_cast<std::ptrdiff_t>(head.size()));
  return frame;
}

bool FakeBox::send_frame(std::span<const std::byte> frame, std::uint16_t queue) {
  dpdk::MbufCounters counters;
  rte_mbuf* m = dpdk::allocate(pool_.get(), counters);
  if (m == nullptr) return false;
  std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(frame.size())), frame.data(), frame.size());
  return tally::dpdk::send(port_->traits().id, queue, {&m, 1}, counters) == 1;
}

std::size_t FakeBox::echo() {
  std::size_t sent = 0;
  for (const Arrived& a : poll())
    if (!a.payload.empty() && send(a.source, a.payload, a.queue)) ++sent;
  return sent;
}

}  // namespace tally::e2e

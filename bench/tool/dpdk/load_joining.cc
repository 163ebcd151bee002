// The generator's ranks become members, and leave.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "load_generator.h"

#include <rte_mbuf.h>
#include <rte_mempool.h>

namespace tally::bench {
namespace {

struct Painter {
  const LoadImages& images;
  std::size_t offset;  // of the values in the buffer
};

void paint(rte_mempool*, void* painter, void* object, unsigned index) {
  const auto& how = *static_cast<const Painter*>(painter);
  auto* const m = static_cast<rte_mbuf*>(object);
  const auto image = static_cast<ImageIndex>(index % LoadImages::kImages);
  const auto values = how.images.values(image);
  std::memcpy(static_cast<std::byte*>(m->buf_addr) + how.offset, values.data(), values.size());
  m->hash.usr = image;
}

void pause_a_little() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

}  // namespace

Result<void> LoadGenerator::join() {
  const TimeNs give_up = clock_.now() + options_.join_timeout;
  if (auto up = wait_for_links(give_up); !up) return up;
  if (options_.echo_window != 0) {
    make_up_memberships();
  } else if (auto joined = join_job(give_up); !joined) {
    return joined;
  }
  return start_ledger();
}

Result<void> LoadGenerator::wait_for_links(TimeNs give_up) {
  for (const auto& port : ports_) {
    for (port->maintain(clock_.now()); !port->up(); port->maintain(clock_.now())) {
      if (interrupted_) return fail(ErrorCode::kClosed, "interrupted");
      if (clock_.now() > give_up)
        return fail(ErrorCode::kUnreachable, "no link: " + port->why_down(), "--port " + port->name());
      pause_a_little();
    }
  }
  return {};
}

Result<void> LoadGenerator::join_job(TimeNs give_up) {
  for (std::uint16_t r = 0; r < options_.addresses.size(); ++r) {
    engine::EngineOptions engine;
    engine.job = options_.job;
    engine.token = options_.token;
    engine.rank = Rank{r};
    engine.world = static_cast<std::uint16_t>(options_.addresses.size());
    engine.elements = options_.elements;
    engine.seed = mix64(options_.seed + r);
    engine.instance = mix64(engine.seed) | 1;
    engine.unreachable_after = options_.join_timeout;
    members_.emplace_back(std::move(engine), kernels_);
  }
  const auto running = [](const LoadMember& m) { return m.state() == LoadMember::State::kRunning; };
  while (!std::ranges::all_of(members_, running)) {
    if (auto bad = trouble(); !bad) return bad;
    if (clock_.now() > give_up)
      return fail(ErrorCode::kTimeout, members_.front().why(), "job " + options_.job);
    turn();
    pause_a_little();
  }
  for (const LoadMember& member : members_) memberships_.push_back(member.membership());
  // Only now: ranks that have joined can leave, and need not be waited for by the next run.
  if (options_.lower || membership().elements >= options_.elements) return {};
  return fail(ErrorCode::kInvalidArgument,
              "job " + options_.job + " has at most " + std::to_string(membership().elements) +
                  " elements per packet, not " + std::to_string(options_.elements) +
                  ": ask for those, or raise `elements:` of the job and `mtu:` of the box's ports",
              "--elements");
}

void LoadGenerator::make_up_memberships() {
  engine::Membership m;
  m.job = JobId{1};
  m.epoch = Epoch{1};
  m.elements = options_.elements;
  m.window = m.largest_window = m.lookahead = options_.echo_window;
  m.world = static_cast<std::uint32_t>(options_.addresses.size());
  m.box_mac = {2, 0, 0, 0, 0, 1};
  memberships_.assign(m.world, m);
}

Result<void> LoadGenerator::start_ledger() {
  const engine::Membership& first = membership();
  images_.emplace(static_cast<std::uint16_t>(first.elements), options_.format.dtype, kernels_);
  ledger_.emplace(first, static_cast<std::uint16_t>(ports_.size()), *images_, kernels_, options_.deadline);
  std::uint32_t mbufs = dpdk::kPoolCache * 3 / 2;
  for (const auto& port : ports_)
    mbufs +=
        port->transmit_descriptors() + static_cast<std::uint32_t>(kBurstFrames) * port->transmit_queues();
  contributions_.reset(rte_pktmbuf_pool_create(
      "load-values", mbufs, dpdk::kPoolCache, 0,
      static_cast<std::uint16_t>(dpdk::kHeadRoom + load_frame_bytes(options_.mtu)), SOCKET_ID_ANY));
  if (contributions_ == nullptr)
    return fail(ErrorCode::kSystem,
                "no memory for " + std::to_string(mbufs) + " packets: use a larger --memory");
  const std::size_t head = encapsulation_of(options_.addresses.front(), options_.format.vlan);
  Painter painter{*images_, dpdk::kHeadRoom + head + kHeaderBytes};
  rte_mempool_obj_iter(contributions_.get(), paint, &painter);
  for (std::uint16_t r = 0; r < memberships_.size(); ++r) {
    writers_.emplace_back(options_.addresses[r], options_.format.vlan, memberships_[r], r, *images_,
                          kernels_);
    if (first.results != ResultsMode::kMulticast) continue;
    filters_[r].group = first.group;
    filters_[r].group_mac = jobs::multicast_mac(first.group);
    filters_[r].group_port = first.group_port;
  }
  return {};
}

void LoadGenerator::leave() {
  for (LoadMember& member : members_) member.leave(clock_.now());
  const auto waits = [](const LoadMember& m) { return m.state() == LoadMember::State::kLeaving; };
  const TimeNs give_up = clock_.now() + kSecond;
  while (std::ranges::any_of(members_, waits) && clock_.now() < give_up) {
    turn();
    pause_a_little();
  }
}

void LoadGenerator::speak(std::size_t rank, TimeNs now) {
  LoadPort& port = *ports_[rank % ports_.size()];
  if (!port.up()) return;
  const std::size_t bytes =
      members_[rank].transmit(datagram_, ledger_ ? ledger_->next_number() : Chunk{}, now);
  if (bytes == 0) return;
  rte_mbuf* m = dpdk::allocate(port.pool(), mbufs_);
  if (m == nullptr) return;
  const dpdk_transport::WorkerAddress& from = options_.addresses[rank];
  const std::size_t head = encapsulation_of(from, options_.format.vlan);
  m->data_len = static_cast<std::uint16_t>(head + bytes);
  m->pkt_len = m->data_len;
  std::memcpy(dpdk::data_of(m) + head, datagram_.data(), bytes);
  const bool joined = members_[rank].state() != LoadMember::State::kJoining;
  encapsulate(from, options_.format.vlan, joined ? members_[rank].membership().box_mac : kBroadcastMac,
              {dpdk::data_of(m), head}, std::span{datagram_}.first(bytes));
  dpdk::send(port.id(), 0, {&m, 1}, mbufs_);
}

}  // namespace tally::bench

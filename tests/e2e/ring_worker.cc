#include "ring_worker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "jobs.h"
#include "kernels.h"
#include "reply.h"
#include "tally/check.h"
#include "tally/net.h"

namespace tally::e2e {
namespace {

constexpr std::size_t kOuter = sizeof(EthernetHeader) + sizeof(Ipv4Header) + sizeof(UdpHeader);
constexpr std::uint32_t kInFlight = 2;     // operations submitted at once
constexpr std::size_t kSharedFrames = 16;  // second references held at a time

// The worker's stack. The only other host is the box, which sends no IP options: what is not for this address
// and port, or is cut short, yields nothing.
std::span<const std::byte> unwrap(std::span<const std::byte> frame, const Binding& self) {
  if (frame.size() < kOuter) return {};
  EthernetHeader ethernet;
  UdpHeader udp;
  std::memcpy(&ethernet, frame.data(), sizeof ethernet);
  std::memcpy(&udp, frame.data() + kOuter - sizeof udp, sizeof udp);
  const std::size_t length = udp.length.host();
  if (ethernet.destination != self.mac || udp.destination.host() != self.udp_port) return {};
  if (length < sizeof udp || length > frame.size() - kOuter + sizeof udp) return {};
  return frame.subspan(kOuter, length - sizeof udp);
}

// Cuts one vector into the plan's spans.
template <class T>
std::vector<std::span<T>> cut(std::vector<T>& values, const std::vector<std::uint32_t>& sizes) {
  std::vector<std::span<T>> spans;
  std::size_t at = 0;
  for (const auto n : sizes) {
    spans.emplace_back(values.data() + at, n);
    at += n;
  }
  return spans;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace

RingWorker::RingWorker(const RingWorkerOptions& options, const sim::Workload& workload, rte_mempool* pool,
                       Loss& loss)
    : options_(options),
      workload_(workload),
      pool_(pool),
      outbox_(options.port, 0, loss, mbufs_),
      engine_(std::move(*WorkerEngine::create(options.engine, best_kernels()))) {}

bool RingWorker::done() const noexcept {
  return completed_ == workload_.operations() && engine_->state() == EngineState::kClosed;
}

std::size_t RingWorker::turn(TimeNs now) {
  std::array<rte_mbuf*, 256> room{};
  std::size_t moved = 0;
  for (std::uint16_t q = 0; q < options_.queues; ++q) {
    const auto burst = receive(options_.port, q, std::span{room}.first(options_.receive_burst));
    for (rte_mbuf* m : burst) take(m, now);
    moved += burst.size();
  }
  while (const auto completion = engine_->next_completion()) finish(*completion);
  submit(now);
  return moved + transmit(now);
}

// Before: the worker owns `m`. After: the mempools. Only read, since payloads are shared with other workers;
// a header and a payload in two segments are joined outside.
void RingWorker::take(rte_mbuf* m, TimeNs now) {
  const void* bytes = rte_pktmbuf_read(m, 0, m->pkt_len, line_.data());
  TALLY_CHECK(bytes != nullptr, "a frame is as long as it says");
  linearised_ += bytes == line_.data() ? 1 : 0;
  const auto datagram = unwrap({static_cast<const std::byte*>(bytes), m->pkt_len}, options_.binding);
  if (datagram.data() == nullptr) {
    wrong_.emplace_back("a frame that is not for this worker arrived on its port");
  } else {
    engine_->receive(datagram, now);
  }
  drop(m);
}

// The mbuf comes first: without one the engine is not asked, so its datagram waits instead of being lost.
std::size_t RingWorker::transmit(TimeNs now) {
  for (std::size_t i = 0; i < options_.transmit_burst && engine_->deadline() <= now; ++i) {
    rte_mbuf* m = allocate(pool_, mbufs_);
    if (m == nullptr) break;
    std::uint16_t port = 0;
    const std::size_t bytes =
        engine_->transmit({data_of(m) + kOuter, rte_pktmbuf_tailroom(m) - kOuter}, now, port);
    if (bytes == 0) {
      drop(m);
      break;
    }
    wrap_in_place(m, static_cast<std::uint32_t>(bytes), port);
    ++sent_;
    if (options_.split_every != 0 && sent_ % options_.split_every == 0) m = split(m);
    if (m == nullptr) break;
    if (options_.share_every != 0 && sent_ % options_.share_every == 0) share(m);
    outbox_.push(m);
  }
  return outbox_.flush();
}

// Worker to box: the same headers as the other way round.
void RingWorker::wrap_in_place(rte_mbuf* m, std::uint32_t bytes, std::uint16_t destination_port) {
  const Binding& self = options_.binding;
  Box from{.mac = self.mac, .ipv4 = {}, .ipv6 = {}};
  std::memcpy(from.ipv4.data(), self.address.data() + 12, from.ipv4.size());
  Binding to{.address = mapped(test_box().ipv4), .mac = kBroadcastMac, .udp_port = destination_port};
  if (const auto& membership = engine_->membership()) to.mac = membership->box_mac;
  const std::byte* payload = data_of(m) + kOuter;
  write_encapsulation(reuse(m, payload, bytes, kOuter), to, from, self.udp_port, {payload, bytes});
}

// Before and after: the worker owns the frame. nullptr: no mbuf for the second half; the frame is dropped.
rte_mbuf* RingWorker::split(rte_mbuf* m) {
  rte_mbuf* tail = allocate(pool_, mbufs_);
  if (tail == nullptr) {
    drop(m);
    return nullptr;
  }
  const auto half = static_cast<std::uint16_t>(m->data_len / 2);
  rte_pktmbuf_append(tail, half);
  std::memcpy(data_of(tail), data_of(m) + m->data_len - half, half);
  rte_pktmbuf_trim(m, half);
  rte_pktmbuf_chain(m, tail);
  return m;
}

// Takes a second reference to a frame about to be sent: from now on read-only at both ends.
void RingWorker::share(rte_mbuf* m) {
  rte_pktmbuf_refcnt_update(m, 1);  // of every segment, as the free that undoes it
  shared_.push_back({m, {data_of(m), data_of(m) + m->data_len}});
  while (shared_.size() > kSharedFrames) {
    const Shared& oldest = shared_.front();
    const std::span<const std::byte> now{data_of(oldest.frame), oldest.frame->data_len};
    if (!std::ranges::equal(now, oldest.bytes)) wrong_.emplace_back("a shared frame was written");
    drop(oldest.frame);
    shared_.pop_front();
  }
}

void RingWorker::release_shared() {
  for (const Shared& s : shared_) drop(s.frame);
  shared_.clear();
}

// Sums replace the values in place.
void RingWorker::submit(TimeNs now) {
  if (leaving_ || engine_->state() != EngineState::kRunning) return;
  const Generation generation = engine_->membership()->generation;
  while (submitted_ < workload_.operations() && running_.size() < kInFlight) {
    auto op = std::make_unique<Running>();
    op->k = submitted_++;
    op->plan = workload_.operation(generation, op->k);
    Result<OperationId> id;
    if (op->plan.kind == sim::OperationKind::kInt32) {
      op->ints = workload_.ints(generation, op->k, options_.engine.rank);
      id = engine_->allreduce(cut(op->ints, op->plan.spans), now);
    } else if (op->plan.kind == sim::OperationKind::kFloat32) {
      op->floats = workload_.floats(generation, op->k, options_.engine.rank);
      id = engine_->allreduce(cut(op->floats, op->plan.spans), now);
    } else {
      id = engine_->barrier(now);
    }
    if (!id) return wrong_.push_back("an operation was refused: " + id.error().text());
    running_.emplace(*id, std::move(op));
  }
  if (completed_ == workload_.operations()) {
    leaving_ = true;
    engine_->leave(now);
  }
}

void RingWorker::finish(const Completion& completion) {
  const auto it = running_.find(completion.id);
  if (it == running_.end()) return;
  const auto op = std::move(it->second);
  running_.erase(it);
  ++completed_;
  const std::string where =
      "operation " + std::to_string(op->k) + " at rank " + std::to_string(raw(options_.engine.rank)) + ": ";
  if (!completion.result) return wrong_.push_back(where + completion.result.error().text());
  const Membership& m = *engine_->membership();
  const bool right =
      op->plan.kind == sim::OperationKind::kInt32
          ? same_bits(op->ints, workload_.int_sum(m.generation, op->k, m.world))
      : op->plan.kind == sim::OperationKind::kFloat32
          ? same_bits(op->floats, workload_.float_sum(m.generation, op->k, m.world, m.elements))
          : true;
  if (!right) wrong_.push_back(where + "wrong sum");
  if (completion.result->overflow != workload_.overflow(m.generation, op->k, m.world))
    wrong_.push_back(where + "wrong OVERFLOW flag");
}

}  // namespace tally::e2e

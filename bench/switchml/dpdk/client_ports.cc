#include "client_ports.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include <rte_mbuf.h>

namespace tally::stock {
namespace {

constexpr std::size_t kBurst = 32;
constexpr TimeNs kLookPeriod = kMillisecond;

}  // namespace

ClientPorts::ClientPorts(std::vector<std::unique_ptr<bench::LoadPort>> ports,
                         const std::atomic<bool>& interrupted)
    : ports_(std::move(ports)), interrupted_(interrupted), lanes_(ports_.size()) {}

ClientPorts::~ClientPorts() {
  for (Lane& lane : lanes_) {
    for (rte_mbuf* m : lane.waiting) dpdk::drop(m);
    if (lane.spare != nullptr) dpdk::drop(lane.spare);
  }
}

Result<void> ClientPorts::connect(TimeNs patience) {
  const TimeNs give_up = clock_.now() + patience;
  for (;;) {
    const bench::LoadPort* down = nullptr;
    for (const auto& port : ports_) {
      port->maintain(clock_.now());
      if (!port->up()) down = port.get();
    }
    if (down == nullptr) return {};
    if (interrupted_) return fail(ErrorCode::kClosed, "interrupted");
    if (clock_.now() > give_up) return fail(ErrorCode::kUnreachable, down->why_down(), down->name());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Result<TimeNs> ClientPorts::run(StockSession& session, TimeNs patience) {
  const TimeNs start = clock_.now();
  progress_ = 0;
  progressed_ = start;
  while (!session.done()) {
    if (const TimeNs now = clock_.now(); now >= look_due_)
      if (auto bad = look(session, now, patience); !bad) return tl::unexpected(bad.error());
    bool moved = false;
    for (std::size_t p = 0; p < ports_.size(); ++p) moved = turn(session, p) || moved;
    if (!moved) std::this_thread::yield();  // the box may need this CPU
  }
  if (!session.complaint().empty()) return fail(ErrorCode::kCorrupt, "WRONG REPLY: " + session.complaint());
  return clock_.now() - start;
}

Result<void> ClientPorts::look(const StockSession& session, TimeNs now, TimeNs patience) {
  look_due_ = now + kLookPeriod;
  if (interrupted_) return fail(ErrorCode::kClosed, "interrupted");
  for (const auto& port : ports_) {
    port->maintain(now);
    if (!port->up())
      return fail(ErrorCode::kUnreachable, "the link went down: " + port->why_down(), port->name());
  }
  if (!session.complaint().empty()) return fail(ErrorCode::kCorrupt, "WRONG REPLY: " + session.complaint());
  if (session.progress() != progress_) {
    progress_ = session.progress();
    progressed_ = now;
  }
  if (now - progressed_ > patience) return fail(ErrorCode::kTimeout, "no result comes: " + session.waiting());
  return {};
}

bool ClientPorts::turn(StockSession& session, std::size_t port) {
  const TimeNs now = clock_.now();
  const std::size_t received = receive(session, port, now);
  make(session, port, now, received == 0);
  return offer_waiting(port) || received != 0;
}

std::size_t ClientPorts::receive(StockSession& session, std::size_t port, TimeNs now) {
  const bench::LoadPort& p = *ports_[port];
  Lane& lane = lanes_[port];
  std::size_t received = 0;
  for (std::uint16_t queue = 0; queue < p.queues() && lane.waiting.size() < kWaiting; ++queue) {
    std::array<rte_mbuf*, kBurst> burst;
    for (rte_mbuf* m : tally::dpdk::receive(p.id(), queue, burst)) {
      ++received;
      if (m->nb_segs > 1) {
        rte_mbuf* const whole = dpdk::copied_whole(m, 0, p.pool(), mbufs_);
        dpdk::drop(m);
        m = whole;
      } else {
        m = dpdk::made_writable(m, p.pool(), mbufs_);
      }
      if (m == nullptr) continue;
      if (session.receive({dpdk::data_of(m), m->data_len}, now)) {
        m->ol_flags = 0;  // what the driver found out about the reply is not true of the request
        lane.waiting.push_back(m);
      } else {
        dpdk::drop(m);
      }
    }
  }
  return received;
}

void ClientPorts::make(StockSession& session, std::size_t port, TimeNs now, bool idle) {
  Lane& lane = lanes_[port];
  for (std::size_t rank = port; rank < session.members(); rank += ports_.size()) {
    while (lane.waiting.size() < kWaiting) {
      if (lane.spare == nullptr) lane.spare = dpdk::allocate(ports_[port]->pool(), mbufs_);
      if (lane.spare == nullptr) return;
      if (!session.next(rank, {dpdk::data_of(lane.spare), session.frame_bytes()}, now, idle)) break;
      rte_mbuf* const m = std::exchange(lane.spare, nullptr);
      m->data_len = static_cast<std::uint16_t>(session.frame_bytes());
      m->pkt_len = m->data_len;
      lane.waiting.push_back(m);
    }
  }
}

// All of a client's frames leave by the port's first queue, so that their order stays.
bool ClientPorts::offer_waiting(std::size_t port) {
  Lane& lane = lanes_[port];
  if (lane.waiting.empty()) return false;
  const std::size_t taken = dpdk::offer(ports_[port]->id(), 0, lane.waiting);
  lane.waiting.erase(lane.waiting.begin(), lane.waiting.begin() + static_cast<std::ptrdiff_t>(taken));
  return taken > 0;
}

}  // namespace tally::stock

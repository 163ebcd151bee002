#include "memif_generator.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "harness.h"
#include "kernels.h"
#include "started.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

namespace tally::bench {
namespace {

constexpr std::uint32_t kContributions = 2048;
constexpr std::uint32_t kAnswers = 4096;
constexpr double kPatience = 1.0;  // seconds without any answer
// Seconds without any answer after which none is under way, even if the other end waits for its core.
constexpr double kSilence = 0.2;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Mempool mempool(const char* name, std::uint32_t mbufs) {
  Mempool pool(
      rte_pktmbuf_pool_create(name, mbufs, kPoolCache, 0, kHeadRoom + 2048, static_cast<int>(SOCKET_ID_ANY)));
  if (pool == nullptr) give_up("the generator's mempools do not fit into its memory");
  return pool;
}

void paint(rte_mempool*, void* traffic, void* object, unsigned index) {
  const auto* const m = static_cast<const rte_mbuf*>(object);
  static_cast<const Traffic*>(traffic)->paint(static_cast<std::byte*>(m->buf_addr) + RTE_PKTMBUF_HEADROOM,
                                              index);
}

}  // namespace

PortOptions memif_port(const std::string& role, const std::string& socket, int id) {
  const std::string number = std::to_string(id);
  return {.name = role + number,
          .device = "net_memif" + number + ",role=" + role + ",id=" + number + ",socket=" + socket +
                    ",socket-abstract=no,bsize=2048",
          .mtu = 1500};
}

Port connected(const PortOptions& options, rte_mempool* frames) {
  Port port = started(Port::open(options, frames));
  for (int tries = 0; tries < 50 && !port.link_up(); ++tries) {
    if (tries % 10 == 9) static_cast<void>(port.restart());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (!port.link_up()) give_up("nobody answers at the memif socket: " + options.device);
  return port;
}

MemifGenerator::MemifGenerator(const std::string& socket, bool other_is_box, pid_t other)
    : other_is_box_(other_is_box),
      traffic_(make_job(kMemifJob), job_box(), best_kernels(), 1, true),
      contributions_(mempool("contributions", kContributions)),
      answers_(mempool("answers", kAnswers)),
      port_(connected(memif_port("client", socket, 0), answers_.get())) {
  rte_mempool_obj_iter(contributions_.get(), paint, &traffic_);
  if (clock_getcpuclockid(other, &other_cpu_) != 0) give_up("the other end's CPU time cannot be read");
}

nlohmann::json MemifGenerator::run(const Load& load) {
  drain();
  answered_before_ = sent_ - received_;
  const auto run_for = [&](double seconds) {
    const auto start = Clock::now();
    auto heard = start;
    std::uint64_t received = received_;
    while (seconds_since(start) < seconds) {
      for (int i = 0; i < 64; ++i) turn(load.window);
      if (received != received_) heard = Clock::now();
      received = received_;
      if (seconds_since(heard) > kPatience) give_up("answers stopped coming");
    }
    return seconds_since(start);
  };
  run_for(load.seconds / 5);
  const std::uint64_t sent = sent_, received = received_, bursts = bursts_, full = full_;
  const double cpu = seconds_of(other_cpu_);
  const double seconds = run_for(load.seconds);
  const double cpu_seconds = seconds_of(other_cpu_) - cpu;
  if (traffic_.wrong() != nullptr) require(false, traffic_.wrong());
  require(!other_is_box_ || traffic_.compared() != 0, "no result was compared value by value");
  const nlohmann::json result{
      {"sent_per_cpu_s", static_cast<double>(sent_ - sent) / cpu_seconds},
      {"sent_per_s", static_cast<double>(sent_ - sent) / seconds},
      {"received_per_s", static_cast<double>(received_ - received) / seconds},
      {"full", static_cast<double>(full_ - full) / static_cast<double>(bursts_ - bursts)}};
  drain();
  return result;
}

void MemifGenerator::turn(std::uint32_t window) {
  take();
  std::size_t room = kGeneratorBurst;
  if (window != 0) {
    const std::uint64_t unanswered = sent_ - received_ - answered_before_;
    room = std::min<std::size_t>(room, window - std::min<std::uint64_t>(window, unanswered));
  }
  if (room != 0) offer(room);
}

void MemifGenerator::take() {
  std::array<rte_mbuf*, kGeneratorBurst> frames;
  const std::uint16_t n = rte_eth_rx_burst(port_.traits().id, 0, frames.data(), kGeneratorBurst);
  if (n == 0) return;
  for (std::uint16_t i = 0; i < n && other_is_box_; ++i) {
    const auto* const frame = rte_pktmbuf_mtod(frames[i], const std::byte*);
    require(frames[i]->nb_segs == 1 && frames[i]->data_len == traffic_.frame_bytes(),
            "a result has another length than its contributions");
    traffic_.check(0, frame, frame + Traffic::kHeaders - kHeaderBytes);
  }
  received_ += n;
  rte_pktmbuf_free_bulk(frames.data(), n);
}

void MemifGenerator::offer(std::size_t room) {
  if (waits_ == 0) {
    const auto wanted = static_cast<unsigned>(room);
    if (rte_pktmbuf_alloc_bulk(contributions_.get(), waiting_.data(), wanted) != 0) return;
    for (waits_ = 0; waits_ < room; ++waits_) {
      rte_mbuf* const m = waiting_[waits_];
      m->data_len = static_cast<std::uint16_t>(traffic_.frame_bytes());
      m->pkt_len = m->data_len;
      auto* const frame = rte_pktmbuf_mtod(m, std::byte*);
      traffic_.next_headers(0, frame, std::span<std::byte, Traffic::kHeaders>(frame, Traffic::kHeaders));
    }
  }
  const std::size_t offered = std::min(room, waits_);
  const std::uint16_t taken =
      rte_eth_tx_burst(port_.traits().id, 0, waiting_.data(), static_cast<std::uint16_t>(offered));
  ++bursts_;
  full_ += taken < offered ? 1 : 0;
  sent_ += taken;
  std::copy(waiting_.begin() + taken, waiting_.begin() + static_cast<std::ptrdiff_t>(waits_),
            waiting_.begin());
  waits_ -= taken;
}

void MemifGenerator::drain() {
  auto heard = Clock::now();
  while (seconds_since(heard) < kSilence) {
    const std::uint64_t received = received_;
    take();
    if (received != received_) heard = Clock::now();
  }
}

}  // namespace tally::bench

#include "ring_ports.h"

#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <span>

#include "tally/check.h"

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

namespace tally::e2e {
namespace {

// The CPUs this process may use, as EAL wants them: one lcore floating over all of them.
std::string floating_lcore() {
  cpu_set_t allowed;
  std::string cpus;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return "0@0";
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (!cpus.empty()) cpus += ',';
    cpus += std::to_string(cpu);
  }
  return "0@(" + cpus + ")";
}

// EAL makes a directory even with --no-shconf, by default one that another user may own already. Nothing is
// put into it, so it need not outlive the start.
class RuntimeDirectory {
 public:
  RuntimeDirectory() {
    std::string path = (std::filesystem::temp_directory_path() / "tally-e2e-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) return;
    path_ = path;
    setenv("RUNTIME_DIRECTORY", path.c_str(), 1);
  }
  RuntimeDirectory(const RuntimeDirectory&) = delete;
  RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;
  ~RuntimeDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::filesystem::path path_;
};

class Eal {
 public:
  Eal() {
    // --in-memory would be refused: with --no-huge EAL 22.11 is in its legacy memory mode.
    std::vector<std::string> words{"tally_e2e",      "--no-huge",      "--no-shconf", "--no-pci",
                                   "--no-telemetry", "--iova-mode=va", "-m",          "64",
                                   "--lcores",       floating_lcore(), "--log-level", "warning"};
    std::vector<char*> arguments;
    const RuntimeDirectory directory;
    for (auto& word : words) arguments.push_back(word.data());
    if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0)
      error_ = std::string("EAL does not start here: ") + rte_strerror(rte_errno);
  }
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;
  ~Eal() {
    if (error_.empty()) rte_eal_cleanup();
  }
  [[nodiscard]] const std::string& error() const noexcept { return error_; }

 private:
  std::string error_;
};

std::uint16_t make_port(const std::string& name, std::span<rte_ring* const> in,
                        std::span<rte_ring* const> out) {
  const int port = rte_eth_from_rings(name.c_str(), in.data(), static_cast<unsigned>(in.size()), out.data(),
                                      static_cast<unsigned>(out.size()), 0);
  TALLY_CHECK(port >= 0, "a net_ring port is made");
  return static_cast<std::uint16_t>(port);
}

// Returns whether frames of several segments may be sent.
bool start_port(std::uint16_t port, std::uint16_t rx_queues, std::uint16_t tx_queues, bool segments,
                rte_mempool* pool) {
  rte_eth_dev_info info{};
  TALLY_CHECK(rte_eth_dev_info_get(port, &info) == 0, "the port says what it can");
  const std::uint64_t wanted = segments ? std::uint64_t{RTE_ETH_TX_OFFLOAD_MULTI_SEGS} : 0;
  rte_eth_conf conf{};
  conf.txmode.offloads = wanted & info.tx_offload_capa;
  TALLY_CHECK(rte_eth_dev_configure(port, rx_queues, tx_queues, &conf) == 0, "the port takes its settings");
  for (std::uint16_t q = 0; q < rx_queues; ++q)
    TALLY_CHECK(rte_eth_rx_queue_setup(port, q, 0, 0, nullptr, pool) == 0, "a receive queue is set up");
  for (std::uint16_t q = 0; q < tx_queues; ++q)
    TALLY_CHECK(rte_eth_tx_queue_setup(port, q, 0, 0, nullptr) == 0, "a transmit queue is set up");
  TALLY_CHECK(rte_eth_dev_start(port) == 0, "the port starts");
  return conf.txmode.offloads != 0;
}

void remove_port(std::uint16_t port) {
  rte_eth_dev_info info{};
  rte_eth_dev_stop(port);
  // Not only closed: the device keeps its name, and the next test's port of that name would be refused.
  if (rte_eth_dev_info_get(port, &info) == 0) rte_dev_remove(info.device);
}

}  // namespace

const std::string& start_eal() {
  static const Eal eal;
  return eal.error();
}

OwnedPool make_pool(const std::string& name, unsigned mbufs, std::uint16_t data_room) {
  const auto room = static_cast<std::uint16_t>(data_room == 0 ? 0 : RTE_PKTMBUF_HEADROOM + data_room);
  // Without a cache per lcore, so that a small pool is empty when its last mbuf is taken.
  OwnedPool pool(rte_pktmbuf_pool_create(name.c_str(), mbufs, 0, 0, room, SOCKET_ID_ANY));
  TALLY_CHECK(pool != nullptr, "EAL's memory holds every mempool of the test");
  return pool;
}

OwnedRing make_ring(const std::string& name, unsigned size) {
  OwnedRing ring(rte_ring_create(name.c_str(), size, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ));
  TALLY_CHECK(ring != nullptr, "EAL's memory holds every ring of the test");
  return ring;
}

std::string audit(rte_mempool* pool) {
  const std::string name = std::string("pool ") + pool->name + ": ";
  if (const unsigned n = rte_mempool_in_use_count(pool); n != 0)
    return name + std::to_string(n) + " mbufs did not come back";
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* m = rte_pktmbuf_alloc(pool)) all.push_back(m);
  const std::set<rte_mbuf*> distinct(all.begin(), all.end());
  std::string wrong;
  if (all.size() != pool->size || distinct.size() != all.size()) {
    wrong = name + std::to_string(all.size()) + " mbufs, " + std::to_string(distinct.size()) +
            " of them distinct, in a pool of " + std::to_string(pool->size);
  }
  for (rte_mbuf* m : distinct) drop(m);
  return wrong;
}

Cable::Cable(const std::string& name, std::uint16_t queues, unsigned size, bool segments, rte_mempool* pool)
    : up_(make_ring(name + "_up", size)) {
  std::vector<rte_ring*> down;
  for (std::uint16_t q = 0; q < queues; ++q) {
    down_.push_back(make_ring(name + "_down" + std::to_string(q), size));
    down.push_back(down_.back().get());
  }
  rte_ring* const up = up_.get();
  worker_port_ = make_port(name + "_worker", down, {&up, 1});
  box_port_ = make_port(name + "_box", {&up, 1}, down);
  start_port(worker_port_, queues, 1, true, pool);
  segments_ = start_port(box_port_, 1, queues, segments, pool);
}

Cable::~Cable() {
  remove_port(worker_port_);
  remove_port(box_port_);
}

void Outbox::push(rte_mbuf* m) noexcept {
  if (loss_.probability > 0 && loss_.rng.chance(loss_.probability)) {
    ++loss_.lost;
    ++gone_;
    return drop(m);
  }
  frames_[count_++] = m;
  if (count_ < frames_.size()) return;
  send(port_, queue_, frames_, counters_);
  gone_ += count_;
  count_ = 0;
}

std::size_t Outbox::flush() noexcept {
  send(port_, queue_, std::span{frames_}.first(count_), counters_);
  const std::size_t gone = gone_ + count_;
  gone_ = count_ = 0;
  return gone;
}

}  // namespace tally::e2e

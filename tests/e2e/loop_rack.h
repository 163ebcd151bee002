#pragma once
// Workers, cables, the production data plane and a small control: in one thread and virtual time, or with
// threads as in the daemon.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "frames.h"
#include "io/data_plane.h"
#include "loop_cable.h"
#include "loop_control.h"
#include "loop_host.h"
#include "workload.h"

namespace tally::e2e {

struct RackCase {
  std::string name;
  // Box
  std::uint8_t cores = 1;
  std::uint16_t up = 1;    // receive queues of each of its ports
  std::uint16_t down = 1;  // transmit queues
  bool staged = false;
  std::uint16_t hand_over = 1024;
  std::uint32_t loss_ppm = 0;       // both ways
  impair::PortImpairment impair{};  // instead, where it is on
  unsigned frame_mbufs = 1024;
  unsigned head_mbufs = 1024;
  // Cables
  unsigned ring = 1024;
  bool segments = true;
  bool copies = false;
  // Job and workers
  std::uint16_t world = 4;
  std::uint16_t per_port = 1;  // workers behind each port
  std::uint16_t elements = 352;
  std::uint32_t window = 256;
  bool multicast = false;
  std::optional<members::StragglerPolicy> stragglers{};
  bool ipv6 = false;
  bool ipv6_odd = false;  // odd ranks only
  bool vlans = false;     // even ranks in VLAN 7, odd ones in VLAN 9
  unsigned worker_mbufs = 2048;
  HostOptions host{};
  // Program
  std::uint32_t operations = 24;
  std::uint32_t largest = 40'000;  // elements of an operation
  bool zeros = false;              // may be left out: a run of them is one frame, counted as several
};

inline std::ostream& operator<<(std::ostream& out, const RackCase& c) { return out << c.name; }

class Rack {
 public:
  explicit Rack(const RackCase& c);
  Rack(const Rack&) = delete;
  Rack& operator=(const Rack&) = delete;
  ~Rack();

  // One turn of everything in this thread. Returns what moved.
  std::size_t turn();
  // Turns until every worker has left and nothing is on its way; true if that came to pass. `each`, if any,
  // is called before each turn.
  bool run(const std::function<void()>& each = {});
  // The same with threads: data cores on their lcores, one thread for the hosts, control in this one; `each`
  // before each turn of control.
  bool run_threads(const std::function<void()>& each = {});
  // run_threads(): the hosts also send these, a frame of host i on each of its turns with the next number,
  // once the first results are there, if it has an mbuf.
  void babble(std::function<Bytes(std::uint16_t host, std::uint32_t number)> frame) {
    babble_ = std::move(frame);
  }
  // From `each`: both return at the end of this turn.
  void interrupt() noexcept { interrupted_ = true; }

  // Nothing is on its way any more: everything arrives or is dropped. All threads have stopped.
  void settle();
  void expect_right_sums();
  // After settle().
  void expect_all_mbufs_back();
  void expect_every_frame_counted();

  [[nodiscard]] io::DataPlane& plane() noexcept { return *plane_; }
  [[nodiscard]] LoopControl& control() noexcept { return *control_; }
  [[nodiscard]] LoopHost& host(std::size_t i) noexcept { return *hosts_[i]; }
  [[nodiscard]] LoopWorker& worker(std::uint16_t rank) noexcept { return *workers_[rank]; }
  [[nodiscard]] JobId job() const noexcept { return job_; }
  [[nodiscard]] const members::NativeConfig& config() const noexcept { return config_; }
  [[nodiscard]] TimeNs now() const noexcept { return now_; }

  // What `impair` did, all ports together.
  [[nodiscard]] io::DataPlane::ImpairedPort impaired() const;
  // Sums over the cores, the job and packets that matched none.
  [[nodiscard]] std::uint64_t count(Verdict verdict) const;
  [[nodiscard]] std::uint64_t count(Drop drop) const;
  [[nodiscard]] std::uint64_t sum(OneWriter<std::uint64_t> io::CoreStatistics::*field) const;
  [[nodiscard]] std::uint64_t of_workers(
      const std::function<std::uint64_t(const EngineStatistics&)>& f) const;
  [[nodiscard]] std::uint64_t of_hosts(const std::function<std::uint64_t(const LoopHost&)>& f) const;

 private:
  void make_plane();
  void add_worker(std::uint16_t rank);
  void babble_once(std::uint32_t number);
  [[nodiscard]] bool all_done() const;
  [[nodiscard]] TimeNs next_deadline() const;
  [[nodiscard]] std::uint64_t counted(const std::function<std::uint64_t(const JobCounters&)>& f) const;

  RackCase case_;
  members::NativeConfig config_;
  sim::Workload workload_;
  // In the order of their construction: mempools outlive the ports, and those what sends into them.
  dpdk::Mempool workers_pool_;
  std::vector<std::unique_ptr<Cable>> cables_;
  std::vector<std::unique_ptr<LoopHost>> hosts_;
  std::vector<LoopWorker*> workers_;
  std::unique_ptr<io::DataPlane> plane_;
  std::unique_ptr<LoopControl> control_;
  rte_mempool* frames_ = nullptr;  // of the plane
  rte_mempool* heads_ = nullptr;
  JobId job_{};
  TimeNs now_ = 0;
  bool interrupted_ = false;
  bool cut_off_ = false;  // the plane was stopped with frames on their way
  std::function<Bytes(std::uint16_t, std::uint32_t)> babble_;
};

}  // namespace tally::e2e

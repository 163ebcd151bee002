#pragma once
// The generator: N ranks of one job behind one or more ports, in one thread. It joins with all of them, keeps
// them alive, sends their contributions as fast as the window allows or at a rate, and checks every result.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dpdk/mbuf.h"
#include "dpdk_transport/worker_address.h"
#include "io/core_time.h"
#include "load_frames.h"
#include "load_ledger.h"
#include "load_member.h"
#include "load_port.h"
#include "load_rate.h"
#include "load_report.h"

namespace tally::bench {

struct GeneratorOptions {
  std::string job{};
  std::string token{};
  std::vector<dpdk_transport::WorkerAddress> addresses{};  // by rank; the last byte of the MAC is the rank
  std::uint16_t elements = 0;                              // wish
  bool lower = true;                                       // the job may have fewer
  LoadFormat format{};
  std::uint16_t mtu = 1500;
  TimeNs join_timeout = 30 * kSecond;
  TimeNs deadline = 20 * kMillisecond;  // see ChunkLedger
  std::uint64_t seed = 1;
  std::uint32_t echo_window = 0;  // not 0: no job, the other end sends every frame back; chunks in flight
  std::optional<int> box_pid{};   // tallyd on this machine, whose CPU time is of interest
};

class LoadGenerator {
 public:
  // ports: at least one, at most one for each rank; rank r is behind port r mod ports. interrupted: any
  // thread may set it; calls then return soon with an error.
  LoadGenerator(GeneratorOptions options, std::vector<std::unique_ptr<LoadPort>> ports,
                const std::atomic<bool>& interrupted);
  LoadGenerator(const LoadGenerator&) = delete;
  LoadGenerator& operator=(const LoadGenerator&) = delete;
  ~LoadGenerator();

  // Links up, all ranks running; with an echo links only.
  [[nodiscard]] Result<void> join();
  // After join(). rate: contributions per second of all ranks together; 0: as many as the window allows. Ends
  // when all that was sent has its results. A wrong sum is an error.
  [[nodiscard]] Result<LoadFigures> run(double rate, double warm_up_s, double seconds);
  // All ranks, as far as the box answers.
  void leave();

  [[nodiscard]] const engine::Membership& membership() const noexcept { return memberships_.front(); }
  [[nodiscard]] const std::vector<std::unique_ptr<LoadPort>>& ports() const noexcept { return ports_; }

 private:
  static constexpr std::size_t kBurstFrames = 32;
  struct Waiting {  // written, not yet taken by a queue
    std::array<rte_mbuf*, kBurstFrames> frames{};
    std::array<Contributed, kBurstFrames> what{};
    std::array<bool, kBurstFrames> again{};
    std::size_t count = 0;
  };
  struct Lane {
    FramePacer pacer{};
    std::vector<Waiting> queues{};
  };
  struct Snapshot {
    LedgerCounts counts{};
    std::uint64_t frames = 0;
    std::uint64_t bursts = 0;
    std::uint64_t full = 0;
    std::uint64_t skipped = 0;
    TimeNs at = 0;
    double box_cpu_s = 0;
  };

  [[nodiscard]] Result<void> wait_for_links(TimeNs give_up);
  [[nodiscard]] Result<void> join_job(TimeNs give_up);
  void make_up_memberships();
  [[nodiscard]] Result<void> start_ledger();
  [[nodiscard]] Result<void> trouble() const;
  [[nodiscard]] Result<void> turn_until(TimeNs end);
  [[nodiscard]] Result<void> finish();
  [[nodiscard]] Snapshot snapshot() noexcept;
  void turn();
  void control(TimeNs now);
  void speak(std::size_t rank, TimeNs now);
  [[nodiscard]] bool receive(std::size_t port);  // whether no more frames are there
  void take(std::span<const std::byte> frame, std::size_t port, TimeNs now);
  void take_echo(std::span<const std::byte> frame, std::size_t rank, TimeNs now);
  void fill(std::size_t port, TimeNs now);
  void add_frame(std::size_t port, rte_mbuf* m, const Contributed& what, bool again);
  void offer_frames(std::size_t port);

  GeneratorOptions options_;
  // Before the ports: a card gives back what it has sent when it is closed.
  dpdk::Mempool contributions_{};  // their values stay in them; hash.usr of each says which
  std::vector<std::unique_ptr<LoadPort>> ports_;
  const std::atomic<bool>& interrupted_;
  const kernels::Kernels& kernels_;
  io::CoreClock clock_;
  std::vector<LoadMember> members_;                    // none with an echo
  std::vector<engine::Membership> memberships_;        // by rank, once joined
  std::vector<dpdk_transport::WorkerFilter> filters_;  // by rank
  std::vector<ContributionWriter> writers_;
  std::optional<LoadImages> images_{};
  std::optional<ChunkLedger> ledger_{};
  std::vector<Lane> lanes_;
  std::vector<std::byte> linear_;  // a frame that arrived in several segments
  std::array<std::byte, kMaxDatagramBytes> datagram_{};
  dpdk::MbufCounters mbufs_{};
  TimeNs control_due_ = 0;
  TimeNs scan_due_ = 0;
  TimeNs last_turn_ = 0;
  TimeNs longest_gap_ = 0;    // between two turns
  TimeNs away_ = 0;           // in all gaps that are no turn's own
  std::uint64_t frames_ = 0;  // RESULTs
  std::uint64_t bursts_ = 0;  // offered to ports
  std::uint64_t full_ = 0;    // ... that did not take all
  bool sending_ = false;
};

}  // namespace tally::bench

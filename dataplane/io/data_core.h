#pragma once
// The worker loop of one data core: receive, pipeline, verdicts, send, to completion. Made by control; from
// then on run by one thread, but for what says otherwise.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "io/core_statistics.h"
#include "io/egress.h"
#include "io/ingress.h"
#include "io/l2_switch.h"
#include "io/node_memory.h"
#include "io/publication_chain.h"
#include "io/replicator.h"
#include "io/trace.h"
#include "pipeline/burst.h"
#include "pipeline/pipeline.h"

namespace tally::io {

// Between this core and the other threads; it is the only consumer of the first three, and the only producer
// of the others.
struct CoreRings {
  ThreadRing handed_over;   // frames that other cores received: parse them again
  ThreadRing to_send;       // frames of other cores for ports where this one has a transmit queue; m->port
  ThreadRing injected;      // the same from control
  ThreadRing member_punts;  // control packets of members, for control
  ThreadRing punts;         // ... and of strangers, who fill no ring of members
  ThreadRing events;        // Event by value, for control
};

struct CoreOptions {
  std::uint8_t index = 0;
  jobs::Box box;
  l2::BoxMode mode = l2::BoxMode::kInline;
  l2::MacTable* hosts = nullptr;  // of all cores
  IdlePolicy idle = IdlePolicy::kAdaptive;
  rte_mempool* widest = nullptr;  // frames with the most room of all ports'
  rte_mempool* heads = nullptr;
  const kernels::Kernels* kernels = nullptr;
  std::vector<IngressQueue> ingress;
  std::vector<EgressPort> egress;           // by PortIndex
  std::vector<rte_ring*> owners;            // handed_over of each core
  jobs::Region slots{};                     // zeroed
  jobs::SharedRegion shared{};              // at the end of it
  jobs::Region server{};                    // of the embedded server
  std::uint64_t key = 0;                    // of the tables of sources
  const std::atomic<bool>* stop = nullptr;  // the loop ends soon after it is set
};

class alignas(64) DataCore {
 public:
  explicit DataCore(std::size_t ports) : traffic(ports) {}
  DataCore(const DataCore&) = delete;
  DataCore& operator=(const DataCore&) = delete;
  virtual ~DataCore() = default;

  // One turn. cycles: the TSC now. Returns the frames that came in from ports and rings, and those that
  // waited for servers and left.
  virtual std::size_t turn(TimeNs now, std::uint64_t cycles) noexcept = 0;
  // Turns until told to stop.
  virtual void run() noexcept = 0;
  // When a frame that waits on purpose (`impair`) leaves; kNever: none does. Between turns, as turn().
  [[nodiscard]] virtual TimeNs next_due() const noexcept = 0;
  // Drops what waits for servers or on purpose. The thread that stopped the core.
  virtual void drop_queued() noexcept = 0;
  // Any thread.
  [[nodiscard]] virtual const JobCounters& counters(JobId job) const noexcept = 0;
  [[nodiscard]] virtual const pipeline::JobState& state(JobId job) const noexcept = 0;
  [[nodiscard]] virtual const server::MergeCounters& server() const noexcept = 0;

  CoreStatistics statistics;
  std::vector<PortTraffic> traffic;  // by PortIndex
  PublicationReader publications;
  std::atomic<bool> returned{true};      // run() has ended, and all it did is visible
  std::atomic<TraceTap*> tap{nullptr};   // control's; it lives until the core has done two turns without it
  std::atomic<std::uint64_t> turned{0};  // turns; all that was done in them is visible to who reads it
};

// Execution is Fused or Staged.
template <class Exec>
class PipelineCore final : public DataCore {
 public:
  PipelineCore(CoreOptions options, CoreRings& rings);

  std::size_t turn(TimeNs now, std::uint64_t cycles) noexcept override;
  void run() noexcept override;
  [[nodiscard]] TimeNs next_due() const noexcept override {
    return std::min(ingress_.next_due(), egress_.next_due());
  }
  void drop_queued() noexcept override {
    servers_.clear();
    ingress_.clear();
    egress_.clear();
  }
  [[nodiscard]] const JobCounters& counters(JobId job) const noexcept override {
    return pipeline_.counters(job);
  }
  [[nodiscard]] const pipeline::JobState& state(JobId job) const noexcept override {
    return pipeline_.state(job);
  }
  [[nodiscard]] const server::MergeCounters& server() const noexcept override { return pipeline_.server(); }

 private:
  void follow_publications() noexcept;
  void exchange(dpdk::PortWays& ways) noexcept;
  void process(std::span<rte_mbuf* const> burst, TimeNs now) noexcept;
  void process_traced(std::span<rte_mbuf* const> burst, TimeNs now, TraceTap& seen) noexcept;
  // seen: a TraceTap, or what does as little as it can.
  template <class Tap>
  void process_by(std::span<rte_mbuf* const> burst, TimeNs now, Tap& seen) noexcept;
  std::size_t take_handed_over(TimeNs now) noexcept;
  std::size_t send_for_others(rte_ring* ring) noexcept;
  std::size_t sweep(TimeNs now) noexcept;
  void send_owed(TimeNs now) noexcept;
  void conclude(rte_mbuf* m, const pipeline::Frame& frame, const pipeline::Outcome& out, TimeNs now) noexcept;
  void hand_over(rte_mbuf* m, std::uint8_t owner) noexcept;
  void punt(rte_mbuf* m, bool member, TimeNs now) noexcept;
  void reply(rte_mbuf* m, const pipeline::Outcome& out, Rank to) noexcept;
  void answer_session(rte_mbuf* m, const pipeline::Outcome& out) noexcept;
  void to_server(rte_mbuf* m, const pipeline::Outcome& out) noexcept;
  void to_parent(rte_mbuf* m, const pipeline::Outcome& out) noexcept;
  [[nodiscard]] static std::uint16_t source_port_of(const pipeline::Outcome& out) noexcept;
  void readdress(rte_mbuf* m, const pipeline::Outcome& out, const pipeline::HeaderTemplate& header) noexcept;
  void reject(const pipeline::Frame& frame, const pipeline::Outcome& out) noexcept;
  void nack(const pipeline::Frame& frame) noexcept;
  [[nodiscard]] bool answer_beside(const pipeline::Frame& frame,
                                   std::span<const std::byte, kHeaderBytes> datagram) noexcept;
  void tell_control() noexcept;

  CoreOptions options_;
  CoreRings& rings_;
  pipeline::Pipeline<Exec> pipeline_;
  Ingress ingress_;
  Egress egress_;
  Replicator replicator_;
  ServerEgress servers_;
  L2Switch switch_;
  std::uint16_t source_port_;
  std::uint64_t events_refused_ = 0;
  TimeNs next_sweep_ = 0;
  std::array<rte_mbuf*, pipeline::kBurst> room_{};
  std::array<pipeline::Frame, pipeline::kBurst> frames_{};
  pipeline::ParsedBurst parsed_{};
};

}  // namespace tally::io

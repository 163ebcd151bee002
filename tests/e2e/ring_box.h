#pragma once
// The box on mbufs: production pipelines and membership engine, with a loop like the daemon's data core. All
// cores and control run in the caller's thread, one after the other.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "box.h"
#include "burst.h"
#include "fused.h"
#include "jobs.h"
#include "membership.h"
#include "pipeline.h"
#include "ring_mbuf.h"
#include "ring_ports.h"

namespace tally::e2e {

struct RingBoxOptions {
  std::uint8_t cores = 1;
  std::uint32_t slot_lines = 1 << 15;
  JobConfig job;
};

// A port of the box; its PortIndex is its place in the list.
struct BoxPort {
  std::uint16_t port = 0;  // of ethdev; transmit queue i belongs to core i
  bool segments = false;   // takes frames of several segments
};

class RingBox {
 public:
  RingBox(const RingBoxOptions& options, std::vector<BoxPort> ports, const BoxPools& pools, Loss& loss);

  // One turn of every core, then of control. Returns the frames that came in or went out.
  std::size_t turn(TimeNs now);
  // No turn is needed before, unless a frame arrives.
  [[nodiscard]] TimeNs deadline() const noexcept { return membership_->deadline(); }

  // The slots and tables are gone; control goes on.
  void restart_data_plane(TimeNs now);

  [[nodiscard]] const MbufCounters& mbufs() const noexcept { return mbufs_; }
  // Sums over the cores, of the job and of packets that matched none.
  [[nodiscard]] std::uint64_t count(Verdict verdict) const noexcept;
  [[nodiscard]] std::uint64_t count(Drop drop) const noexcept;
  [[nodiscard]] std::uint64_t rejects() const noexcept { return rejects_; }
  [[nodiscard]] std::uint64_t referred() const noexcept { return referred_; }
  [[nodiscard]] std::uint64_t duplicated() const noexcept { return duplicated_; }

 private:
  struct Core {
    std::unique_ptr<SlotMemory> memory;
    std::unique_ptr<Pipeline<Fused>> pipeline;
    OwnedRing inbox;               // frames that other cores received and this one owns the slots of
    std::vector<Outbox> outboxes;  // by PortIndex
    ParsedBurst parsed;
    std::uint16_t source_port = kBasePort;  // of the shard
  };

  void start_cores();
  void run(Core& core, std::span<rte_mbuf* const> burst, TimeNs now);
  void conclude(Core& core, rte_mbuf* m, const Frame& frame, const Outcome& out, TimeNs now);
  void reply(Core& core, rte_mbuf* m, const Outcome& out);
  void replicate(Core& core, rte_mbuf* m, const Outcome& out);
  void reject(Core& core, const Frame& frame, const Outcome& out);
  std::size_t serve_control(TimeNs now);
  void publish(TimeNs now);
  void post(Core& core, const Binding& to, std::span<const std::byte> datagram);
  [[nodiscard]] PortIndex index_of(const rte_mbuf* m) const noexcept;

  RingBoxOptions options_;
  std::vector<BoxPort> ports_;
  BoxPools pools_;
  Loss& loss_;
  MbufCounters mbufs_;
  std::vector<Core> cores_;
  std::shared_ptr<const JobTable> table_;
  std::optional<MembershipEngine> membership_;
  JobId job_{};
  std::uint64_t rejects_ = 0;
  std::uint64_t referred_ = 0;
  std::uint64_t duplicated_ = 0;
};

}  // namespace tally::e2e

#pragma once
// The data plane as control sees it: ports, pools, slot memory and one loop per data core, and the narrow
// ways between control and the cores. Everything here is called by the control thread unless it says
// otherwise. Data cores never wait for control, and control never waits for a core except in stop().

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dpdk/pools.h"
#include "dpdk/port.h"
#include "impair/faults.h"
#include "io/data_core.h"
#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "kernels/kernels.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::io {

// Makes a data core with an execution of its own.
using CoreMaker = std::unique_ptr<DataCore> (*)(CoreOptions, CoreRings&);

struct DataPlaneOptions {
  jobs::Box box;
  l2::BoxMode mode = l2::BoxMode::kInline;
  std::uint8_t cores = 1;  // data cores, 1..kMaxShards: core i owns the slots with slot mod cores = i
  IdlePolicy idle = IdlePolicy::kAdaptive;
  bool staged = false;            // the reference execution
  CoreMaker make_core = nullptr;  // not null: the cores are its (bench/loop times one that way)
  std::uint32_t slot_lines = 0;   // of each core, the shared region included
  // Of each core: entries of the shared region (0: none), values that one holds, and lines of 64 bytes for
  // the states of the embedded server.
  std::uint32_t shared_entries = 0;
  std::uint32_t shared_elements = 0;
  std::uint32_t server_lines = 0;
  std::uint64_t key = 0;  // of the cores' tables of sources: random, nobody outside knows it
  std::uint16_t hand_over = dpdk::kHandOverFrames;  // that wait for another thread, per ring; a power of two
};

// A port as the box has it; PortIndex is its place in the list.
struct BoxPort {
  dpdk::Port port;
  impair::PortImpairment impair{};
};

// A control packet as a data core received it.
struct Punt {
  std::size_t bytes = 0;  // UDP payload, at the start of the caller's buffer
  jobs::Binding source{};
};

class DataPlane {
 public:
  // Takes the ports over, and `pools`, which hold all their mbufs: heads for each core, and frames. Slot
  // memory comes from the NUMA node of each core. Fails naming what did not fit into dataplane.memory, with
  // all the sums. kernels: usable on this CPU; outlive the data plane.
  [[nodiscard]] static Result<std::unique_ptr<DataPlane>> create(const DataPlaneOptions& options,
                                                                 dpdk::Pools pools,
                                                                 std::vector<BoxPort> ports,
                                                                 const kernels::Kernels& kernels);
  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;
  ~DataPlane();  // stop() first

  // Launches core i on lcore i + 1. Fails if an lcore does not exist or is busy.
  [[nodiscard]] Result<void> start();
  // Asks the cores to return and waits for them; what is under way in rings and queues, or waits on purpose,
  // is dropped.
  void stop() noexcept;
  // One turn of one core in the caller's thread, instead of start(): tests and benchmarks. Returns the frames
  // that came in from ports and other threads. Times are those of CLOCK_MONOTONIC where the cores read them.
  std::size_t turn(std::size_t core, TimeNs now) noexcept;
  // When the next turn of some core has a frame that waits on purpose; kNever: none does. As turn().
  [[nodiscard]] TimeNs next_due() const noexcept;

  // Hands the next snapshot to every core: each zeroes the freed lines, in order of publication, and then
  // loads the table. The publication stays alive until all cores use a later one. Its rows have one shard per
  // core, lines within slot_lines and members behind ports of this box.
  void publish(jobs::Publication publication);
  // Every core uses this version or a later one. 0: none yet.
  [[nodiscard]] std::uint64_t adopted() const noexcept;

  // The next control packet, of members before strangers; `out` holds kMaxDatagramBytes.
  [[nodiscard]] std::optional<Punt> next_punt(std::span<std::byte> out) noexcept;
  // Sends a datagram from the box's address and kBasePort to `to`. False: no mbuf or a full ring; the caller
  // treats it as lost on the wire.
  bool inject(const jobs::Binding& to, std::span<const std::byte> datagram) noexcept;
  [[nodiscard]] std::optional<pipeline::Event> next_event() noexcept;

  [[nodiscard]] std::size_t cores() const noexcept;
  [[nodiscard]] std::size_t ports() const noexcept;
  [[nodiscard]] const dpdk::Port& port(PortIndex index) const noexcept;
  // Port::follow(). The cores keep out of a port that is being opened again.
  [[nodiscard]] dpdk::PortLink follow(PortIndex index, TimeNs now);
  // Sends through the port what tells hosts the box's MAC (l2/box_answers.h). What finds no mbuf or a full ring is
  // lost, as on the wire.
  void announce(PortIndex index) noexcept;
  // Packets and bytes as the cores counted them; missed, errors and no mbuf as the driver says.
  [[nodiscard]] dpdk::PortStatistics port_statistics(PortIndex port) const noexcept;
  // From now on, at each core before its next burst, these faults for the frames of a port, from the beginning of
  // their random numbers; what the former keep is lost. most_kept() of them, each way, is at most that of the
  // BoxPort: so many mbufs there are.
  void impair(PortIndex port, const impair::PortImpairment& faults);
  // What `impair` did to the frames of a port, all cores together.
  struct ImpairedPort {
    impair::ImpairCounters in{};
    impair::ImpairCounters out{};
  };
  [[nodiscard]] ImpairedPort impaired(PortIndex port) const noexcept;
  // For what it counts, of jobs too (row 0: packets that matched none), which any thread may read.
  [[nodiscard]] const DataCore& core(std::size_t index) const noexcept;
  // Hosts that the L2 switch knows, as of the cores' last turns; any thread.
  [[nodiscard]] std::size_t hosts() const noexcept;
  // Lends every core a tap. Fails while another trace is under way or ends just now, and where no memory is
  // left.
  [[nodiscard]] Result<void> begin_trace(const TraceFilter& filter);
  // Takes the taps back; what is in them can be read until the next trace.
  void end_trace() noexcept;
  // What is there of each core in turn.
  [[nodiscard]] bool next_traced(TracedFrame& out) noexcept;
  // Frames of this trace, or the last one, that were not read in time.
  [[nodiscard]] std::uint64_t trace_lost() const noexcept;
  // Mbufs that are not in their pools now; exact only when nothing runs.
  [[nodiscard]] std::uint32_t mbufs_in_use() const noexcept;

 private:
  struct State;
  explicit DataPlane(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace tally::io

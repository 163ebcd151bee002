#pragma once
// One configuration of the loop to be measured: pools, in-memory ports, and the production data plane turned
// by the caller's thread; or the ports without it, to show what they cost; or raw add over their frames.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "contributions.h"
#include "harness.h"
#include "io/core_time.h"
#include "io/data_plane.h"
#include "jobs/layout.h"
#include "loop_profile.h"
#include "memory_port.h"
#include "scalar_server.h"
#include "step_profile.h"
#include "traffic.h"

#include <rte_cycles.h>

namespace tally::bench {

struct RigOptions {
  JobShape job{};
  enum class Runs : std::uint8_t {
    kDataPlane,
    kPortAlone,         // frames go back as they came
    kRawAdd,            // the add kernel over the values of the frames; one port
    kScalarServer,      // ScalarServer, as its loops are written; one port
    kVectorisedServer,  // ... as the compiler vectorises them
  } runs = Runs::kDataPlane;
  Driver driver = Driver::kCopies;
  std::size_t ring_bytes = std::size_t{4} << 20;  // of all ports' frames, at least
  bool profiled = false;                          // kDataPlane: loop_profile tells of the last round
};

class LoopRig {
 public:
  // EAL has been started. name: short, unlike any other rig's. directory: for the sockets of net_vhost, which
  // nobody connects to. Ends the process with a message if something does not start.
  LoopRig(const RigOptions& options, const std::string& name, const std::string& directory);
  LoopRig(const LoopRig&) = delete;
  LoopRig& operator=(const LoopRig&) = delete;
  ~LoopRig() = default;

  // One turn of the receive rings to warm up, more of them until a first result was compared value by value,
  // then one measured; operations are contributions. Ends the process if a result is wrong or missing.
  Round round();

  // Receive rings of all ports.
  [[nodiscard]] std::uint64_t ring_frames() const noexcept;
  [[nodiscard]] std::uint64_t ring_bytes() const noexcept;
  // The first port; and the data plane, if there is one.
  [[nodiscard]] std::uint16_t ethdev() const noexcept { return ethdevs_.front(); }
  [[nodiscard]] const io::DataPlane* plane() const noexcept { return plane_.get(); }

 private:
  void open_ports(const std::string& name, const std::string& directory);
  [[nodiscard]] std::uint64_t received() const noexcept;
  Round turn_rings();
  Round add_ring();
  void turn();
  void check() const;
  void check_plane() const;

  RigOptions options_;
  jobs::NativeJob job_;
  Traffic traffic_;
  dpdk::Pools pools_{};  // until the data plane has them
  std::vector<io::BoxPort> ports_;
  rte_mempool* frames_ = nullptr;
  std::uint32_t descriptors_;  // of each port
  std::vector<std::uint16_t> ethdevs_;
  std::unique_ptr<io::DataPlane> plane_;
  std::unique_ptr<ScalarServer> server_;
  std::vector<jobs::Line> entries_;  // kRawAdd
  std::vector<std::unique_ptr<MemoryPort>> memory_ports_;
  std::vector<std::unique_ptr<ProfiledPort>> profiled_ports_;
  io::CoreClock clock_;
};

// A loop with stamps, as a contender beside the same loop without them.
class ProfiledRounds {
 public:
  ProfiledRounds(RigOptions options, const std::string& name, const std::string& directory)
      : world_(options.job.world), rig_(profiled(options), name, directory) {}

  // As undisturbed() wants it.
  Round round() {
    const Round round = rig_.round();
    check();
    if (disturbed_) profiles_.pop_back();  // this one takes its place
    profiles_.push_back(loop_profile);
    disturbed_ = round.disturbed;
    stamps_.push_back(stamp_cycles(read_tsc));  // now: the CPU's speed swings, and the TSC's does not
    return round;
  }
  [[nodiscard]] std::size_t rounds() const noexcept { return profiles_.size(); }

  // unprofiled_ns: of a contribution, of the loop without stamps. After a round.
  [[nodiscard]] StepFigures figures(double unprofiled_ns) const {
    const auto hz = static_cast<double>(rte_get_tsc_hz());
    std::vector<double> stamps = stamps_;
    std::ranges::sort(stamps);
    return step_figures(profiles_, stamps[stamps.size() / 2], unprofiled_ns * hz / 1e9, hz);
  }

 private:
  static RigOptions profiled(RigOptions options) {
    options.profiled = true;
    return options;
  }

  // A turn of the ring brings as many first and last contributions as chunks, give or take those that are
  // under way at its ends; and nothing else happens.
  void check() const {
    if (world_ == 1) return;
    const std::uint64_t chunks = rig_.ring_frames() / world_;
    const auto fits = [&](PacketKind kind) {
      const std::uint64_t packets = loop_profile.packets(kind);
      return packets + 1 >= chunks && packets <= chunks + 1;
    };
    require(
        fits(PacketKind::kFirst) && fits(PacketKind::kLast) && loop_profile.packets(PacketKind::kOther) == 0,
        "the profile took packets for what they are not");
  }

  std::uint16_t world_;
  LoopRig rig_;
  std::vector<StepProfile> profiles_;
  std::vector<double> stamps_;  // cycles of one, after each round
  bool disturbed_ = false;      // the last of them
};

}  // namespace tally::bench

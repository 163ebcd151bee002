#pragma once
// One configuration of the loop to be measured: pools, in-memory ports, and the production data plane turned
// by the caller's thread; or the ports without it, to show what they cost; or raw add over their frames.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "contributions.h"
#include "io/core_time.h"
#include "io/data_plane.h"
#include "jobs/layout.h"
#include "loop_profile.h"
#include "memory_port.h"
#include "round_timer.h"
#include "scalar_server.h"
#include "traffic.h"

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
  bool read_payload = true;  // as the definition of the in-memory port says
  bool profiled = false;     // kDataPlane: loop_profile tells of the last round
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
  jobs::Job job_;
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

}  // namespace tally::bench

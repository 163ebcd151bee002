#pragma once
// From a configuration to a box whose cores run. Owner: the control thread.

#include <memory>
#include <span>
#include <string>

#include "config/config.h"
#include "daemon/log.h"
#include "dpdk/eal.h"
#include "dpdk/pools.h"
#include "dpdk/port.h"
#include "io/data_plane.h"
#include "members/membership.h"
#include "members/plan_source.h"

namespace tally::daemon {

// Members end in reverse order: cores stop and ports close before EAL ends.
class StartedBox {
 public:
  // EAL, pools, ports in order, data plane, cores. A failure says what to do and leaves nothing behind.
  [[nodiscard]] static Result<StartedBox> start(const config::Config& config, const LogSink& log);
  StartedBox(StartedBox&&) noexcept = default;
  StartedBox& operator=(StartedBox&&) = delete;
  ~StartedBox();

  [[nodiscard]] io::DataPlane& plane() noexcept { return *plane_; }
  [[nodiscard]] bool hugepages() const noexcept { return eal_->hugepages(); }

 private:
  StartedBox(std::unique_ptr<dpdk::Eal> eal, std::unique_ptr<io::DataPlane> plane) noexcept
      : eal_(std::move(eal)), plane_(std::move(plane)) {}

  std::unique_ptr<dpdk::Eal> eal_;
  std::unique_ptr<io::DataPlane> plane_;
};

// The membership engine with all jobs declared, its secrets from the kernel. plans: for jobs over several boxes.
[[nodiscard]] Result<members::MembershipEngine> start_members(const config::Config& config,
                                                              members::PlanSource plans = members::even_plan);

// dataplane.memory is more than there is: EAL would clear ordinary memory for a quarter of a minute before it gave
// up.
[[nodiscard]] Result<void> check_memory(const config::DataplaneSection& dataplane);

// The configuration as EAL, ports, pools and data plane take it. Pure.

[[nodiscard]] dpdk::EalOptions eal_options(const config::Config& config);
[[nodiscard]] dpdk::PortOptions port_options(const config::Config& config, const config::PortSection& port);
[[nodiscard]] impair::PortImpairment impair_options(const config::PortSection& port) noexcept;
[[nodiscard]] io::DataPlaneOptions plane_options(const config::Config& config);
// On no node in particular, but for what EAL knows of NICs.
[[nodiscard]] dpdk::PoolDemand pool_demand(const config::Config& config, const io::DataPlaneOptions& plane);

// "instance demo: 1 data core (CPU 1), 8 ports, 2 jobs of 8 workers"
[[nodiscard]] std::string summary(const config::Config& config);

// Which core a frame arrives at. Owner: the control thread, before the cores start.

// Asks the driver of each port with several receive queues to bring the frames of a shard to the queue of the
// core that owns it (with fewer queues than shards, shards share them), with a VLAN tag and without; without
// it only, if the card has no room or no eye for tags. Where the driver refuses, frames come to queue 0 or as
// the card likes, and cores hand them over: slower, and as right. One line in the log for each such port says
// which; a refusal is a warning for a network card, where it costs.
void steer_ports(const config::Config& config, std::span<const io::BoxPort> ports, const LogSink& log);

}  // namespace tally::daemon

#pragma once
// From a configuration to a box whose cores run. Owner: the control thread.

#include <memory>

#include "config.h"
#include "data_plane.h"
#include "eal.h"
#include "log.h"
#include "membership.h"

namespace tally {

// Members end in reverse order: cores stop and ports close before EAL ends.
class StartedBox {
 public:
  // EAL, pools, ports in order, data plane, cores. A failure says what to do and leaves nothing behind.
  [[nodiscard]] static Result<StartedBox> start(const Config& config, const LogSink& log);
  StartedBox(StartedBox&&) noexcept = default;
  StartedBox& operator=(StartedBox&&) = delete;
  ~StartedBox();

  [[nodiscard]] DataPlane& plane() noexcept { return *plane_; }
  [[nodiscard]] bool hugepages() const noexcept { return eal_->hugepages(); }

 private:
  StartedBox(std::unique_ptr<Eal> eal, std::unique_ptr<DataPlane> plane) noexcept
      : eal_(std::move(eal)), plane_(std::move(plane)) {}

  std::unique_ptr<Eal> eal_;
  std::unique_ptr<DataPlane> plane_;
};

// The membership engine with all jobs declared, its secrets from the kernel.
[[nodiscard]] Result<MembershipEngine> start_members(const Config& config);

}  // namespace tally

#pragma once
// A loop with stamps, as a contender beside the same loop without them.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "harness.h"
#include "loop_profile.h"
#include "loop_rig.h"
#include "step_report.h"

#include <rte_cycles.h>

namespace tally::bench {

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

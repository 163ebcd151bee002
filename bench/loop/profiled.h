#pragma once
// Fused, with a stamp of the TSC where a step begins and around the values of each packet.

#include "loop_profile.h"
#include "pipeline/burst.h"
#include "pipeline/fused.h"

namespace tally::bench {

constexpr PacketKind kind_of(pipeline::Op op) noexcept {
  switch (op) {
    case pipeline::Op::kWrite:
      return PacketKind::kFirst;
    case pipeline::Op::kAdd:
      return PacketKind::kAdd;
    case pipeline::Op::kAddEmit:
      return PacketKind::kLast;
    default:
      return PacketKind::kOther;
  }
}

class Profiled : public pipeline::Fused {
 public:
  using pipeline::Fused::Fused;

  void enter(pipeline::Step step) noexcept { loop_profile.enter(row_of(step), read_tsc()); }

  kernels::Added values(pipeline::Op op, const pipeline::Contribution& p, bool with_sums) noexcept {
    loop_profile.enter_values(kind_of(op), read_tsc());
    const kernels::Added added = pipeline::Fused::values(op, p, with_sums);
    loop_profile.leave_values(kind_of(op), read_tsc());
    return added;
  }

 private:
  // Stretches of the port itself are ProfiledPort's.
  static constexpr StepRow row_of(pipeline::Step step) noexcept {
    switch (step) {
      case pipeline::Step::kReceive:
        return StepRow::kIngress;
      case pipeline::Step::kParse:
        return StepRow::kParse;
      case pipeline::Step::kHandle:
        return bench::row_of(StepRow::kRegisters, PacketKind::kOther);
      case pipeline::Step::kConclude:
        return StepRow::kConclude;
      case pipeline::Step::kGiveBack:
        return StepRow::kGiveBack;
      case pipeline::Step::kTransmit:
        return StepRow::kEgress;
      case pipeline::Step::kRest:
        break;
    }
    return StepRow::kRest;
  }
};

}  // namespace tally::bench

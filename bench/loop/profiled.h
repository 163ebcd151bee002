#pragma once
// Fused, with a stamp of the TSC where a step begins and around the values of each packet.

#include "fused.h"
#include "loop_profile.h"
#include "step.h"

namespace tally::bench {

constexpr PacketKind kind_of(Op op) noexcept {
  switch (op) {
    case Op::kWrite:
      return PacketKind::kFirst;
    case Op::kAdd:
      return PacketKind::kAdd;
    case Op::kAddEmit:
      return PacketKind::kLast;
    default:
      return PacketKind::kOther;
  }
}

class Profiled : public Fused {
 public:
  using Fused::Fused;

  void enter(Step step) noexcept { loop_profile.enter(row_of(step), read_tsc()); }

  Added values(Op op, const Contribution& p, bool with_sums) noexcept {
    loop_profile.enter_values(kind_of(op), read_tsc());
    const Added added = Fused::values(op, p, with_sums);
    loop_profile.leave_values(kind_of(op), read_tsc());
    return added;
  }

 private:
  // Stretches of the port itself are ProfiledPort's.
  static constexpr StepRow row_of(Step step) noexcept {
    switch (step) {
      case Step::kReceive:
        return StepRow::kIngress;
      case Step::kParse:
        return StepRow::kParse;
      case Step::kFetch:
        return StepRow::kFetch;
      case Step::kHandle:
        return bench::row_of(StepRow::kRegisters, PacketKind::kOther);
      case Step::kConclude:
        return StepRow::kConclude;
      case Step::kGiveBack:
        return StepRow::kGiveBack;
      case Step::kTransmit:
        return StepRow::kEgress;
      case Step::kRest:
        break;
    }
    return StepRow::kRest;
  }
};

}  // namespace tally::bench

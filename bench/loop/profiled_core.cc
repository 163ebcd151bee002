#include "loop_profile.h"

#include "io/data_core_definitions.h"
#include "profiled.h"

namespace tally {

template class io::PipelineCore<bench::Profiled>;

namespace bench {
namespace {

// The port's part is a step of its own.
std::uint16_t receive(void* port, rte_mbuf** frames, std::uint16_t count) {
  const StepRow before = loop_profile.enter(StepRow::kPortReceive, read_tsc());
  count = static_cast<const BurstDetour*>(port)->receive(frames, count);
  loop_profile.enter(before, read_tsc());
  return count;
}

std::uint16_t transmit(void* port, rte_mbuf** frames, std::uint16_t count) {
  const StepRow before = loop_profile.enter(StepRow::kPortTransmit, read_tsc());
  count = static_cast<const BurstDetour*>(port)->transmit(frames, count);
  loop_profile.enter(before, read_tsc());
  return count;
}

}  // namespace

ProfiledPort::ProfiledPort(std::uint16_t ethdev) : detour_(ethdev, &receive, &transmit, &detour_) {}

std::unique_ptr<io::DataCore> make_profiled_core(io::CoreOptions options, io::CoreRings& rings) {
  return std::make_unique<io::PipelineCore<Profiled>>(std::move(options), rings);
}

}  // namespace bench
}  // namespace tally

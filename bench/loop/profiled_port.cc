#include "loop_profile.h"

namespace tally::bench {
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

}  // namespace tally::bench

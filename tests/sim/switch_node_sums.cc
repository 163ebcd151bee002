// What the data cores of the box have counted, all together.

#include "switch_node.h"

namespace tally::sim {

JobCounters SwitchNode::counters(JobId job) const {
  JobCounters sum;
  for (const auto& core : cores_) {
    std::visit(
        [&](const auto& p) {
          for (std::size_t i = 0; i < kVerdictCount; ++i) sum.verdicts[i] += p.counters(job).verdicts[i];
          for (std::size_t i = 0; i < kDropCount; ++i) sum.drops[i] += p.counters(job).drops[i];
        },
        *core.pipeline);
  }
  return sum;
}

std::uint32_t SwitchNode::occupancy(JobId job) const {
  std::uint32_t n = 0;
  for (const auto& core : cores_)
    n += std::visit([&](const auto& p) { return p.state(job).occupancy; }, *core.pipeline);
  return n;
}

pipeline::SlotCounters SwitchNode::shared_counters(JobId job) const {
  pipeline::SlotCounters sum;
  for (const auto& core : cores_) {
    sum += std::visit([&](const auto& p) -> const pipeline::SlotCounters& { return p.state(job).slots; },
                      *core.pipeline);
  }
  return sum;
}

std::uint64_t SwitchNode::incomplete(JobId job) const {
  std::uint64_t n = 0;
  for (const auto& core : cores_)
    n += std::visit([&](const auto& p) { return p.state(job).slots.incomplete.get(); }, *core.pipeline);
  return n;
}

server::MergeCounters SwitchNode::server() const {
  server::MergeCounters sum;
  for (const auto& core : cores_) {
    sum +=
        std::visit([](const auto& p) -> const server::MergeCounters& { return p.server(); }, *core.pipeline);
  }
  return sum;
}

}  // namespace tally::sim

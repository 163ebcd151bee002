#include "session_parts.h"

#include <rte_version.h>

namespace tally::bench {

LoadSetting common_setting(const LoadOptions& options, bool hugepages) {
  LoadSetting s{.machine = perf::read_machine(),
                .dpdk = rte_version(),
                .ports = "in-memory port",
                .workers = options.workers,
                .elements = options.elements,
                .mtu = options.mtu,
                .multicast = options.multicast,
                .format = options.format,
                .hugepages = hugepages,
                .cpu = options.cpu ? *options.cpu : -1,
                .ceiling = options.ceiling,
                .deadline_ms = static_cast<double>(options.deadline) / 1e6};
  if (s.machine.cores < 2 && !options.ports.empty())
    s.warnings.emplace_back("generator and box share the only CPU: the figures say nothing of the box");
  if (!options.cpu) s.warnings.emplace_back("this thread runs where the kernel puts it (--cpu)");
  return s;
}

}  // namespace tally::bench

#include <cstdio>

#include "harness.h"
#include "perf/machine.h"

namespace tally::bench {

nlohmann::json environment() { return perf::machine_json(perf::read_machine()); }

void print_environment() {
  const perf::Machine machine = perf::read_machine();
  std::printf("%s\n", perf::machine_line(machine).c_str());
  for (const auto& warning : perf::machine_warnings(machine)) std::printf("warning: %s\n", warning.c_str());
}

}  // namespace tally::bench

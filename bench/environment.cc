#include <cstdio>

#include "harness.h"
#include "machine.h"
#include "machine_json.h"

namespace tally::bench {

nlohmann::json environment() { return machine_json(read_machine()); }

void print_environment() {
  const Machine machine = read_machine();
  std::printf("%s\n", machine_line(machine).c_str());
  for (const auto& warning : machine_warnings(machine)) std::printf("warning: %s\n", warning.c_str());
}

}  // namespace tally::bench

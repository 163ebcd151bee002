#pragma once
// What the words of tally-bench's command line mean together.

#include <string>
#include <vector>

#include "load_options.h"
#include "tally/error.h"

namespace tally::bench {

// Options as they were given, of those that are not kept so. vlan, cpu below 0 and pid 0: not given.
struct LoadTexts {
  std::vector<std::string> ports{};
  std::string rate = "max";
  std::string results = "unicast";
  std::string token_file{};
  double deadline_ms = 20;
  double join_timeout_s = 30;
  std::string dtype = "int32";
  std::string ceiling{};
  int vlan = -1;
  int cpu = -1;
  int pid = 0;
};

// Completes what the command line has set. results_given: --results was there. Errors name the option.
[[nodiscard]] Result<void> complete_options(LoadOptions& o, const LoadTexts& t, bool results_given);

}  // namespace tally::bench

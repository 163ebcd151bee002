#pragma once
// The counters as text for people: on SIGUSR1 and at the end, to stdout. Pure.

#include <string>

#include "counters_snapshot.h"

namespace tally {

[[nodiscard]] std::string counters_text(const CountersSnapshot& snapshot);

}  // namespace tally

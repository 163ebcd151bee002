#pragma once

#include <string>

#include "config/value_types.h"

namespace tally::config {

// dataplane.eal: arguments appended to those that tallyd gives to rte_eal_init.

// One argument. What tallyd decides itself, from other keys, is refused with the key that sets it; also in
// the abbreviated forms that getopt_long takes.
[[nodiscard]] ValueType<std::string> eal_argument();

}  // namespace tally::config

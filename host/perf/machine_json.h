#pragma once
// The machine of a figure in a results file.

#include <nlohmann/json.hpp>

#include "machine.h"

namespace tally {

// "warnings": machine_warnings().
[[nodiscard]] nlohmann::json machine_json(const Machine& machine);

}  // namespace tally

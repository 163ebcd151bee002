#pragma once
// Gives jobs of a scenario that share slots servers in processes of their own, which crash and pause too.

#include "rng.h"
#include "scenario.h"

namespace tally::sim {

// Some or all of those jobs, in some scenarios. `s` is complete otherwise.
void serve_outside(Scenario& s, Rng& rng);

}  // namespace tally::sim

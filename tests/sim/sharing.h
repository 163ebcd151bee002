#pragma once
// Makes jobs of a scenario share slots: disciplines, quotas and priorities, and how scarce slots and the
// server's memory are.

#include "rng.h"
#include "scenario.h"

namespace tally::sim {

// Some or all jobs of `s`, whose jobs and workers are there.
void share_slots(Scenario& s, Rng& rng);

}  // namespace tally::sim

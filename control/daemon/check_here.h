#pragma once
// What is wrong with a configuration on this machine, and cannot be seen in its text: `tallyd --check --here`. Looks
// only: opens no port, and takes nothing from a daemon that runs, whose hugepages therefore count as not free.

#include "config/checks.h"

namespace tally::daemon {

// Errors are what a start would fail with, or the box's place in its fleet; warnings, what will cost speed or frames. Blocks for a moment; forks,
// if dataplane.eal is not empty, so no thread may run.
void check_here(config::Checking& checking);

}  // namespace tally::daemon

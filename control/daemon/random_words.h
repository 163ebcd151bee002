#pragma once
// Random words of the kernel: every secret of the box comes from here.

#include "members/membership.h"

namespace tally::daemon {

// getrandom(2). Ends the process if the kernel fails: a guessable secret is worse than no daemon.
[[nodiscard]] members::RandomWords kernel_random();

}  // namespace tally::daemon

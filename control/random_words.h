#pragma once
// Random words of the kernel: every secret of the box comes from here.

#include "membership.h"

namespace tally {

// getrandom(2). Ends the process if the kernel fails: a guessable secret is worse than no daemon.
[[nodiscard]] RandomWords kernel_random();

}  // namespace tally

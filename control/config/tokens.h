#pragma once
// The secrets of the jobs, read from their files.

#include <string>

#include "checks.h"

namespace tally {

// Fills in token, and makes token_file absolute. directory: what relative paths are relative to.
void read_tokens(Checking& checking, const std::string& directory);

}  // namespace tally

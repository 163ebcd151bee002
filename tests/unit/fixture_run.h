#pragma once
// Runs one fixture case on one execution of the pipeline.

#include <string>
#include <vector>

#include "fixture_file.h"
#include "kernels/kernels.h"

namespace tally::fixture {

// What differs from the fixture, in words; empty = nothing. Exec: Fused or Staged.
template <class Exec>
[[nodiscard]] std::vector<std::string> run_case(const Case& c, const kernels::Kernels& kernels);

}  // namespace tally::fixture

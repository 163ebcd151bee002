#pragma once
// What `impair:` of a port means for each direction. Pure.

#include <string>

#include "config/config.h"
#include "impair/faults.h"

namespace tally::config {

// in, out: from the port to the box, and back. What a direction does not say itself, `impair` says for it.
[[nodiscard]] impair::PortImpairment impairment_of(const ImpairSection& section) noexcept;

// "1% lost in bursts of 4, 2% duplicated, delayed by 1ms"; empty: nothing is on.
[[nodiscard]] std::string faults_text(const impair::ImpairOptions& options);

}  // namespace tally::config

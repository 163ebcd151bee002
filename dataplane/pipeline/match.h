#pragma once
// The match stage: job, epoch, rank, cookie, binding, contributors and slot of a data packet, against the
// immutable snapshot. No register is touched.

#include <cstdint>

#include "decision.h"
#include "job_table.h"
#include "pipeline.h"
#include "shared_region.h"
#include "tally/wire.h"

namespace tally {

// Continues the parse of a well-formed data packet. Fills job, contribution, verdict and drop.
void match_job(Parsed& parsed, const Header& h, const Binding& source, const JobTable* table,
               const SharedRegion& shared, std::uint8_t core, bool vouched) noexcept;

}  // namespace tally

#pragma once
// The match stage: job, epoch, rank, cookie, binding, contributors and slot of a data packet, against the
// immutable snapshot. No register is touched.

#include <cstdint>

#include "jobs/job_table.h"
#include "jobs/layout.h"
#include "pipeline/decision.h"
#include "pipeline/pipeline.h"
#include "tally/wire.h"

namespace tally::pipeline {

// Continues the parse of a well-formed data packet. Fills job, contribution, kind and drop.
void match_job(Parsed& parsed, const Header& h, const jobs::Binding& source, const jobs::JobTable* table,
               const jobs::SharedRegion& shared, std::uint8_t core, bool vouched) noexcept;

}  // namespace tally::pipeline

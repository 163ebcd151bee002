#pragma once
// What tally-ps says: a line for each event, a line of statistics, as text or JSON. Pure.

#include <string>

#include "ps/ps_engine.h"

namespace tally::ps {

// "job 'resnet': runs with 4 workers, ..."
[[nodiscard]] std::string event_line(const PsEngine& engine, const PsEvent& event);

// Sums over all jobs and what is in memory now, in one line.
[[nodiscard]] std::string statistics_line(const PsEngine& engine);
// The same and every counter of every job, in one line; refused datagrams by reason.
[[nodiscard]] std::string statistics_json(const PsEngine& engine);

}  // namespace tally::ps

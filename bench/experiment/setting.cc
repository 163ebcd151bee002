#include "setting.h"

#include <array>

namespace tally::experiment {
namespace {

constexpr std::array<Row, kRowCount> kRows{{
    {.name = "no INA",
     .what = "`fcfs` with cap 0: everything goes to the server",
     .discipline = Discipline::kFcfs,
     .server_only = true},
    {.name = "pool",
     .what =
         "`pool`, two versions; the largest window that fits, from 16 on; with less the job gets no slots",
     .discipline = Discipline::kPool},
    {.name = "ATP hash",
     .what = "`fcfs` behind a front that holds a complete slot until the server's result has passed",
     .discipline = Discipline::kFcfs,
     .front = Front::kAtpHash},
    {.name = "ATP hash, ECN",
     .what =
         "the same; workers halve their windows when a queue to the server is above 128 packets, as ATP's",
     .discipline = Discipline::kFcfs,
     .front = Front::kAtpHash,
     .ecn = true},
    {.name = "ATP any free",
     .what = "any free slot, held likewise, no swap; with our ledger, which ATP has not: a bound of its "
             "remapping",
     .discipline = Discipline::kShared,
     .front = Front::kAtpAnyFree},
    {.name = "FCFS via server",
     .what = "`fcfs`; the slot is free at completion, the result goes by way of the server",
     .discipline = Discipline::kFcfs,
     .front = Front::kViaServer},
    {.name = "FCFS", .what = "`fcfs`, as the product has it", .discipline = Discipline::kFcfs},
    {.name = "random priority",
     .what = "`preemptive`, `decay: none`, behind a front that draws each chunk's priority by lot",
     .discipline = Discipline::kPreemptive,
     .decay = Decay::kNone,
     .front = Front::kRandomPriority},
    {.name = "preemptive, none",
     .what = "`preemptive` with `decay: none`",
     .discipline = Discipline::kPreemptive,
     .decay = Decay::kNone},
    {.name = "preemptive, silence",
     .what = "`preemptive` with `decay: silence`, the default: the ESA-style reference",
     .discipline = Discipline::kPreemptive,
     .decay = Decay::kSilence},
    {.name = "preemptive, denial",
     .what = "`preemptive` with `decay: denial`",
     .discipline = Discipline::kPreemptive,
     .decay = Decay::kDenial},
    {.name = "ledger, no swap",
     .what = "`shared` behind a front that sends what finds no free slot to the server",
     .discipline = Discipline::kShared,
     .front = Front::kNoSwap},
    {.name = "shared", .what = "`shared`, as the product has it", .discipline = Discipline::kShared},
}};

constexpr std::array<LeftOut, 3> kLeftOut{{
    {"pool, 1 version", "the product's pool always has two"},
    {"newcomer",
     "on slots by hash no priority of eight bits lets every newcomer win; on free slots it is what `shared` "
     "does within "
     "a class"},
    {"operation-level admission", "the product admits jobs, not operations; not built here"},
}};

}  // namespace

std::span<const Row> all_rows() { return kRows; }
std::span<const LeftOut> left_out() { return kLeftOut; }

}  // namespace tally::experiment

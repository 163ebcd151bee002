#include "fit_programs.h"

#include <algorithm>

#include "jobs/plan_part.h"
#include "pipeline/registers.h"

namespace tally::bench {
namespace {

using pipeline::list;

std::string number(std::uint64_t n) { return std::to_string(n); }

const char* const kSequences =
    "a chip keeps a rank's sequences in four arrays, by sequence mod 4: it writes its own and reads that of "
    "sequence - 3, and so knows replays of the last four";
const char* const kSums =
    "the sums over all elements of a packet have no place in stages; a chip would leave them to the "
    "receivers";

}  // namespace

ToldProgram pool_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t jobs,
                         const pipeline::Profile& profile) {
  return {.name = "native pool, " + number(elements) + " elements, " + number(entries) + " entries",
          .need = pipeline::pool_program(entries, elements, jobs, profile),
          .remarks = {
              "occupancy is match-stage metadata here and would cost a chip a recirculation",
              "a mismatch, a corrupted payload found late and a bad finished sum take one recirculation each",
              kSequences,
              kSums,
          }};
}

ToldProgram straggler_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t jobs,
                              const pipeline::Profile& profile) {
  ToldProgram told = bench::pool_program(entries, elements, jobs, profile);
  told.name =
      "native pool with stragglers, " + number(elements) + " elements, " + number(entries) + " entries";
  told.need.arrays.clear();
  list(told.need.arrays, pipeline::JobRegisters{}, jobs);
  list(told.need.arrays, pipeline::RankRegisters{}, std::uint64_t{jobs} * kMaxRanks);
  list(told.need.arrays, pipeline::StragglerRegisters{}, entries);
  told.remarks.insert(told.remarks.begin(),
                      "the sweep is a packet of the box's own that goes round for ever: one pass to find an "
                      "entry that is due, one more to finish it");
  return told;
}

ToldProgram shared_program(std::uint64_t entries, std::uint64_t ledger_rows, std::uint32_t elements,
                           std::uint32_t jobs, const pipeline::Profile& profile) {
  using namespace pipeline;
  // Who may have the entry is decided by what both hold, and both change together: to a chip they are one
  // word.
  constexpr std::size_t kHeadBytes = sizeof(Head) + sizeof(Owner) - sizeof(Owner::unused);
  ProgramNeed need;
  list(need.arrays, JobRegisters{}, jobs);
  list(need.arrays, RankRegisters{}, std::uint64_t{jobs} * kMaxRanks);
  list(need.arrays, LedgerRegisters{}, ledger_rows);
  need.arrays.push_back({std::string(HeadReg::kName) + "+" + std::string(OwnerReg::kName),
                         static_cast<std::uint32_t>(8 * kHeadBytes), entries, HeadReg::kStage});
  list(need.arrays, RegisterList<ShapeReg, ExponentReg, MarksReg, Sum1Reg, Sum2Reg>{}, entries);
  need.elements = elements;
  need.value_words = entries;
  need.elements_per_word = elements_per_word(profile);
  return {.name = "native shared, " + number(elements) + " elements, " + number(entries) + " entries, " +
                  number(ledger_rows) + " ledger rows",
          .need = std::move(need),
          .remarks = {
              "a claim behind a stale ledger pointer takes one recirculation, a swap two",
              "the last arrival of a chunk whose rest is at the server takes one recirculation, a bad "
              "finished sum one, a mismatch up to two",
              "free list, clock hand, occupancy and what the server has are match-stage metadata here; a "
              "chip would have them in registers of their own, with recirculations",
              kSequences,
              kSums,
          }};
}

ToldProgram planned_program(std::uint64_t entries, std::uint64_t ledger_rows, std::uint32_t elements,
                            std::uint32_t jobs, std::uint32_t plans, const pipeline::Profile& profile) {
  ToldProgram told = bench::shared_program(entries, ledger_rows, elements, jobs, profile);
  told.name += ", " + number(plans) + " plans";
  const std::uint64_t groups = std::uint64_t{plans} * kPlanGroups;
  told.need.tables = {{"here", 64, groups}, {"server of group", 8, groups}, {"through", 64, groups}};
  told.remarks.insert(
      told.remarks.begin(),
      "a plan is " + number(sizeof(jobs::PlanPart)) +
          " bytes, looked up by its job's number and chunk mod 1,024: who is here before the ledger is "
          "asked, the server when an entry leaves, who comes through by a RESULT of a server");
  return told;
}

ToldProgram session_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t world,
                            jobs::TsiRule tsi, const pipeline::Profile& profile) {
  const bool opaque = tsi == jobs::TsiRule::kOpaque;
  return {.name = std::string("sessions of tsi ") + (opaque ? "opaque, " : "packet, ") + number(elements) +
                  " elements, " + number(entries) + " entries, " + number(world) + " members",
          .need = pipeline::session_program(entries, elements, world, tsi, profile),
          .remarks = {
              std::string(opaque ? "the number of the clients' life" : "the session's newest operation") +
                  ", and when it was heard last, are match-stage metadata here; a chip would have them in a "
                  "register and recirculate what is accepted",
              "each frame of a result reads its member's return path behind the replication",
          }};
}

// SwitchML, NSDI'21 and its published P4: the bitmap of both sets in one pair, a count, exponents' maximum.
ToldProgram switchml_program(std::uint64_t pairs, std::uint32_t elements) {
  ToldProgram told{.name = "SwitchML, " + number(elements) + " elements, " + number(pairs) + " pairs",
                   .need = {}};
  told.need.arrays = {{"bitmap", 64, pairs, 0}, {"count", 32, pairs, 1}, {"exponents", 32, pairs, 2}};
  told.need.elements = elements;
  told.need.value_words = pairs;
  told.need.elements_per_word = 2;
  return told;
}

std::string to_text(const pipeline::FitReport& r, const std::vector<std::string>& remarks) {
  std::string out;
  const std::uint32_t most = std::min(r.profile.sram_blocks, r.profile.map_ram_blocks);
  for (std::size_t s = 0; s < r.stages.size() && r.profile.limited; ++s) {
    const pipeline::StageUse& stage = r.stages[s];
    out += "  stage " + number(s) + ": " + number(stage.blocks) + " of " + number(most) + " blocks, " +
           number(stage.arrays.size()) + " of " + number(r.profile.alus) + " ALUs:";
    for (const auto& name : stage.arrays) out += " " + name;
    if (stage.table_blocks != 0) out += "; tables: " + number(stage.table_blocks) + " blocks";
    out += "\n";
  }
  out += "  " + number(r.value_arrays) + " value arrays, " + number(r.elements_per_pass) +
         " elements a pass, " + number(r.pipes) + " pipes; passes: " + number(r.passes_to_add) + " to add, " +
         number(r.passes_to_complete) + " to complete\n";
  out += "  memory: " + number(r.memory_bytes) + " bytes\n";
  for (const auto& remark : remarks) out += "  note: " + remark + "\n";
  for (const auto& v : r.violations) out += "  DOES NOT FIT: " + v + "\n";
  if (r.fits()) out += "  fits\n";
  return out;
}

}  // namespace tally::bench

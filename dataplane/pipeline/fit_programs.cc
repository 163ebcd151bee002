// The programs whose fit is reported: ours, from the register list the executions share, and SwitchML's.

#include "fit.h"

namespace tally {
namespace {

template <class... R>
void list(std::vector<ArrayNeed>& out, RegisterList<R...>, std::uint64_t words) {
  (out.push_back(
       {std::string(R::kName), static_cast<std::uint32_t>(8 * sizeof(typename R::Word)), words, R::kStage}),
   ...);
}

std::uint32_t elements_per_word(const Profile& profile) {
  return profile.word_bits >= 128 || !profile.limited ? 4 : 2;
}

// With tsi: packet, what decides changes together: to a chip it is one word. With opaque it is the head of a
// slot's first set, which is both sets'.
ArrayNeed session_head(std::uint64_t entries, TsiRule tsi) {
  constexpr std::size_t kHeadBytes = sizeof(Head) + sizeof(OperationReg::Word) + sizeof(Owner::touched);
  if (tsi == TsiRule::kOpaque)
    return {std::string(HeadReg::kName), 8 * sizeof(Head), entries / 2, HeadReg::kStage};
  return {std::string(HeadReg::kName) + "+" + std::string(OperationReg::kName) + "+touched",
          static_cast<std::uint32_t>(8 * kHeadBytes), entries, HeadReg::kStage};
}

const char* const kSums =
    "the sums over all elements of a packet have no place in stages; a chip would leave them to the "
    "receivers";

}  // namespace

ProgramNeed pool_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t jobs,
                         const Profile& profile) {
  ProgramNeed need;
  need.name =
      "native pool, " + std::to_string(elements) + " elements, " + std::to_string(entries) + " entries";
  list(need.arrays, JobRegisters{}, jobs);
  list(need.arrays, PoolRegisters{}, entries);
  need.elements = elements;
  need.value_words = entries;
  need.elements_per_word = elements_per_word(profile);
  need.remarks = {
      "occupancy is match-stage metadata here and would cost a chip a recirculation",
      "a mismatch, a corrupted payload found late and a bad finished sum take one recirculation each",
      kSums,
  };
  return need;
}

ProgramNeed straggler_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t jobs,
                              const Profile& profile) {
  ProgramNeed need = pool_program(entries, elements, jobs, profile);
  need.name = "native pool with stragglers, " + std::to_string(elements) + " elements, " +
              std::to_string(entries) + " entries";
  need.arrays.clear();
  list(need.arrays, JobRegisters{}, jobs);
  list(need.arrays, StragglerRegisters{}, entries);
  need.remarks.insert(need.remarks.begin(),
                      "the sweep is a packet of the box's own that goes round for ever: one pass to find an "
                      "entry that is due, one more to finish it");
  return need;
}

ProgramNeed shared_program(std::uint64_t entries, std::uint64_t ledger_rows, std::uint32_t elements,
                           std::uint32_t jobs, const Profile& profile) {
  // Who may have the entry is decided by what both hold, and both change together: to a chip they are one
  // word.
  constexpr std::size_t kHeadBytes = sizeof(Head) + sizeof(Owner) - sizeof(Owner::unused);
  ProgramNeed need;
  need.name = "native shared, " + std::to_string(elements) + " elements, " + std::to_string(entries) +
              " entries, " + std::to_string(ledger_rows) + " ledger rows";
  list(need.arrays, JobRegisters{}, jobs);
  list(need.arrays, LedgerRegisters{}, ledger_rows);
  need.arrays.push_back({std::string(HeadReg::kName) + "+" + std::string(OwnerReg::kName),
                         static_cast<std::uint32_t>(8 * kHeadBytes), entries, HeadReg::kStage});
  list(need.arrays, RegisterList<ShapeReg, ExponentReg, OverflowReg, Sum1Reg, Sum2Reg>{}, entries);
  need.elements = elements;
  need.value_words = entries;
  need.elements_per_word = elements_per_word(profile);
  need.remarks = {
      "a claim behind a stale ledger pointer takes one recirculation, a swap two",
      "the last arrival of a chunk whose rest is at the server takes one recirculation, a bad finished sum "
      "one, a mismatch up to two",
      "free list, clock hand, occupancy and what the server has are match-stage metadata here; a chip would "
      "have them in registers of their own, with recirculations",
      kSums,
  };
  return need;
}

ProgramNeed session_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t world, TsiRule tsi,
                            const Profile& profile) {
  const bool opaque = tsi == TsiRule::kOpaque;
  ProgramNeed need;
  need.name = std::string("sessions of tsi ") + (opaque ? "opaque, " : "packet, ") +
              std::to_string(elements) + " elements, " + std::to_string(entries) + " entries, " +
              std::to_string(world) + " members";
  need.arrays = {session_head(entries, tsi)};
  list(need.arrays, PathRegisters{}, entries * world);
  list(need.arrays, RegisterList<ExponentReg, Exponent1Reg>{}, entries);
  need.elements = elements;
  need.value_words = entries;
  need.elements_per_word = elements_per_word(profile);
  need.remarks = {
      std::string(opaque ? "the number of the clients' life" : "the session's newest operation") +
          ", and when it was heard last, are match-stage metadata here; a chip would have them in a register "
          "and recirculate what is accepted",
      "each frame of a result reads its member's return path behind the replication",
  };
  return need;
}

// SwitchML, NSDI'21 and its published P4: the bitmap of both sets in one pair, a count, exponents' maximum.
ProgramNeed switchml_program(std::uint64_t pairs, std::uint32_t elements) {
  ProgramNeed need;
  need.name = "SwitchML, " + std::to_string(elements) + " elements, " + std::to_string(pairs) + " pairs";
  need.arrays = {{"bitmap", 64, pairs, 0}, {"count", 32, pairs, 1}, {"exponents", 32, pairs, 2}};
  need.elements = elements;
  need.value_words = pairs;
  need.elements_per_word = 2;
  return need;
}

}  // namespace tally

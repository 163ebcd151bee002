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

}  // namespace

ProgramNeed pool_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t jobs,
                         const Profile& profile) {
  ProgramNeed need;
  need.name =
      "native pool, " + std::to_string(elements) + " elements, " + std::to_string(entries) + " entries";
  list(need.arrays, JobRegisters{}, jobs);
  list(need.arrays, EntryRegisters{}, entries);
  need.elements = elements;
  need.value_words = entries;
  need.elements_per_word = profile.word_bits >= 128 || !profile.limited ? 4 : 2;
  need.remarks = {
      "occupancy is match-stage metadata here and would cost a chip a recirculation",
      "a mismatch, a corrupted payload found late and a bad finished sum take one recirculation each",
      "the sums over all elements of a packet have no place in stages; a chip would leave them to the "
      "receivers",
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

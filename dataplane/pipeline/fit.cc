#include "pipeline/fit.h"

#include <algorithm>

namespace tally::pipeline {
namespace {

// Ethernet, IPv4, UDP and the protocol's own header travel beside the values.
constexpr std::uint32_t kHeaderVectorBits = (14 + 20 + 8 + 56) * 8;

std::uint32_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint32_t>((a + b - 1) / b);
}

std::string number(std::uint64_t n) { return std::to_string(n); }

// Puts one array into the first stage at or behind `from` with room; the stage, or stages() if there is none.
class Placement {
 public:
  explicit Placement(FitReport& report) : report_(report) {}

  std::size_t put(const std::string& name, std::uint32_t blocks, std::size_t from) {
    const Profile& p = report_.profile;
    for (std::size_t s = from;; ++s) {
      if (p.limited && s >= p.stages) return s;
      if (report_.stages.size() <= s) report_.stages.resize(s + 1);
      StageUse& stage = report_.stages[s];
      if (p.limited && (stage.arrays.size() >= p.alus ||
                        stage.blocks + blocks > std::min(p.sram_blocks, p.map_ram_blocks)))
        continue;
      stage.arrays.push_back(name);
      stage.blocks += blocks;
      return s;
    }
  }

 private:
  FitReport& report_;
};

void check_word(FitReport& r, const std::string& name, std::uint32_t bits) {
  if (r.profile.limited && bits > r.profile.word_bits) {
    r.violations.push_back("word: " + name + " is " + number(bits) + " bits wide, a register word of " +
                           std::string(r.profile.name) + " has " + number(r.profile.word_bits));
  }
}

// Behind the last level; returns the first stage for values.
std::size_t place_registers(FitReport& r, const ProgramNeed& program) {
  Placement placement(r);
  std::size_t level_begin = 0;
  std::size_t level_end = 0;
  int level = -1;
  for (const auto& array : program.arrays) {
    if (array.level != level) {
      level = array.level;
      level_begin = level_end;
    }
    check_word(r, array.name, array.word_bits);
    const std::uint32_t blocks = blocks_of(array.words, array.word_bits);
    const std::size_t stage = placement.put(array.name, blocks, level_begin);
    if (r.profile.limited && stage >= r.profile.stages) {
      r.violations.push_back("stages: no room for " + array.name + " (" + number(blocks) + " blocks) in " +
                             number(r.profile.stages) + " stages");
    } else {  // what needs no room there is judged by itself
      level_end = std::max(level_end, stage + 1);
    }
    r.memory_bytes += array.words * array.word_bits / 8;
  }
  return level_end;
}

// How many value arrays find room behind `first_stage`, `wanted` at most.
std::uint32_t place_value_arrays(FitReport& r, std::uint32_t wanted, std::size_t first_stage) {
  Placement placement(r);
  for (std::uint32_t n = 0; n < wanted; ++n) {
    const std::size_t stage = placement.put("values", r.value_blocks, first_stage);
    if (r.profile.limited && stage >= r.profile.stages) return n;
  }
  return wanted;
}

void place_values(FitReport& r, const ProgramNeed& program, std::size_t first_stage) {
  const std::uint32_t bits = 32 * program.elements_per_word;
  check_word(r, "values", bits);
  r.value_blocks = blocks_of(program.value_words, bits);
  r.memory_bytes += program.value_words * 4 * program.elements;
  std::uint32_t most_arrays = ceil_div(program.elements, program.elements_per_word);
  if (r.profile.limited) {
    const std::uint32_t blocks = std::min(r.profile.sram_blocks, r.profile.map_ram_blocks);
    if (r.value_blocks * r.profile.alus > blocks) {
      r.violations.push_back("map RAM: " + number(r.profile.alus) + " value arrays of " +
                             number(program.value_words) + " words need " +
                             number(r.value_blocks * r.profile.alus) + " blocks of a stage's " +
                             number(blocks));
    }
    if (r.value_blocks > blocks) return;  // not even one to a stage
    most_arrays = std::min(most_arrays, (r.profile.header_bits - kHeaderVectorBits) / bits);
  }
  FitReport trial = r;
  const std::uint32_t room = place_value_arrays(trial, most_arrays, first_stage);
  if (room == 0) return;
  // The packet is dealt evenly to as few pipes as can hold it.
  r.pipes = ceil_div(program.elements, std::uint64_t{room} * program.elements_per_word);
  r.value_arrays = place_value_arrays(
      r, ceil_div(program.elements, std::uint64_t{r.pipes} * program.elements_per_word), first_stage);
  r.elements_per_pass = r.value_arrays * program.elements_per_word;
}

void count_passes(FitReport& r, const ProgramNeed& program) {
  if (r.value_arrays == 0) {
    r.violations.push_back("stages: no stage is left for the values");
    return;
  }
  r.passes_to_add = r.pipes;
  const std::uint32_t outputs = r.profile.limited
                                    ? std::min(r.profile.output_words, program.elements_per_word)
                                    : program.elements_per_word;
  // The last adding pass already reads; every further pass reads as many words as the ALUs can output.
  r.passes_to_complete =
      r.profile.limited ? r.pipes + ceil_div(program.elements, std::uint64_t{r.value_arrays} * outputs) - 1
                        : 1;
}

}  // namespace

std::uint32_t blocks_of(std::uint64_t words, std::uint32_t word_bits) noexcept {
  return ceil_div(words * word_bits / 8, kSramBlockBytes) + kSpareBlocks;
}

FitReport fit(const ProgramNeed& program, const Profile& profile) {
  FitReport r;
  r.program = program.name;
  r.profile = profile;
  r.remarks = program.remarks;
  place_values(r, program, place_registers(r, program));
  count_passes(r, program);
  return r;
}

std::string to_text(const FitReport& r) {
  std::string out = r.program + " on " + std::string(r.profile.name) + "\n";
  const std::uint32_t most = std::min(r.profile.sram_blocks, r.profile.map_ram_blocks);
  for (std::size_t s = 0; s < r.stages.size() && r.profile.limited; ++s) {
    const StageUse& stage = r.stages[s];
    out += "  stage " + number(s) + ": " + number(stage.blocks) + " of " + number(most) + " blocks, " +
           number(stage.arrays.size()) + " of " + number(r.profile.alus) + " ALUs:";
    for (const auto& name : stage.arrays) out += " " + name;
    out += "\n";
  }
  out += "  " + number(r.value_arrays) + " value arrays, " + number(r.elements_per_pass) +
         " elements a pass, " + number(r.pipes) + " pipes; passes: " + number(r.passes_to_add) + " to add, " +
         number(r.passes_to_complete) + " to complete\n";
  out += "  memory: " + number(r.memory_bytes) + " bytes\n";
  for (const auto& remark : r.remarks) out += "  note: " + remark + "\n";
  for (const auto& v : r.violations) out += "  DOES NOT FIT: " + v + "\n";
  if (r.fits()) out += "  fits\n";
  return out;
}

// The programs whose fit is reported: ours, from the register list the executions share, and SwitchML's.

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
ArrayNeed session_head(std::uint64_t entries, jobs::TsiRule tsi) {
  constexpr std::size_t kHeadBytes = sizeof(Head) + sizeof(OperationReg::Word) + sizeof(Owner::touched);
  if (tsi == jobs::TsiRule::kOpaque)
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
  list(need.arrays, RankRegisters{}, std::uint64_t{jobs} * kMaxRanks);
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
  list(need.arrays, RankRegisters{}, std::uint64_t{jobs} * kMaxRanks);
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
  list(need.arrays, RankRegisters{}, std::uint64_t{jobs} * kMaxRanks);
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

ProgramNeed session_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t world,
                            jobs::TsiRule tsi, const Profile& profile) {
  const bool opaque = tsi == jobs::TsiRule::kOpaque;
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

}  // namespace tally::pipeline

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
      if (p.limited &&
          (stage.arrays.size() >= p.alus ||
           stage.blocks + blocks > std::min(p.sram_blocks - stage.table_blocks, p.map_ram_blocks)))
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

// From the first stage on; returns the first one behind them all.
std::size_t place_tables(FitReport& r, const std::vector<TableNeed>& tables) {
  const Profile& p = r.profile;
  std::size_t end = 0;
  for (const TableNeed& table : tables) {
    const std::uint64_t bytes = table.words * table.word_bits / 8;
    r.memory_bytes += bytes;
    if (!p.limited) continue;
    std::uint32_t left = ceil_div(bytes, kSramBlockBytes);
    for (std::size_t s = 0; left != 0 && s < p.stages; ++s) {
      if (r.stages.size() <= s) r.stages.resize(s + 1);
      StageUse& stage = r.stages[s];
      const std::uint32_t taken = std::min(left, p.sram_blocks - stage.blocks - stage.table_blocks);
      stage.table_blocks += taken;
      left -= taken;
      if (taken != 0) end = std::max(end, s + 1);
    }
    if (left != 0) {
      r.violations.push_back("SRAM: no room for " + number(left) + " of the " +
                             number(ceil_div(bytes, kSramBlockBytes)) + " blocks of the table " + table.name);
    }
  }
  return end;
}

// Behind the last level; returns the first stage for values.
std::size_t place_registers(FitReport& r, const ProgramNeed& program) {
  Placement placement(r);
  std::size_t level_begin = 0;
  std::size_t level_end = 0;
  int level = -1;
  std::vector<ArrayNeed> arrays = program.arrays;
  std::stable_sort(arrays.begin(), arrays.end(),
                   [](const ArrayNeed& a, const ArrayNeed& b) { return a.level < b.level; });
  for (const auto& array : arrays) {
    if (array.level != level) {
      if (level == 0) level_end = std::max(level_end, place_tables(r, program.tables));
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
  r.profile = profile;
  place_values(r, program, place_registers(r, program));
  count_passes(r, program);
  return r;
}

namespace {

// With tsi: packet, what decides changes together: to a chip it is one word. With opaque it is the head of a
// slot's first set, which is both sets'.
ArrayNeed session_head(std::uint64_t entries, jobs::TsiRule tsi) {
  constexpr std::size_t kHeadBytes = sizeof(Head) + sizeof(OperationReg::Word);
  if (tsi == jobs::TsiRule::kOpaque)
    return {std::string(HeadReg::kName), 8 * sizeof(Head), entries / 2, HeadReg::kStage};
  return {std::string(HeadReg::kName) + "+" + std::string(OperationReg::kName),
          static_cast<std::uint32_t>(8 * kHeadBytes), entries, HeadReg::kStage};
}

}  // namespace

ProgramNeed pool_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t jobs,
                         const Profile& profile) {
  ProgramNeed need;
  list(need.arrays, JobRegisters{}, jobs);
  list(need.arrays, RankRegisters{}, std::uint64_t{jobs} * kMaxRanks);
  list(need.arrays, PoolRegisters{}, entries);
  need.elements = elements;
  need.value_words = entries;
  need.elements_per_word = elements_per_word(profile);
  return need;
}

ProgramNeed session_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t world,
                            jobs::TsiRule tsi, const Profile& profile) {
  ProgramNeed need;
  need.arrays = {session_head(entries, tsi)};
  list(need.arrays, PathRegisters{}, entries * world);
  list(need.arrays, RegisterList<ExponentReg, Exponent1Reg>{}, entries);
  need.elements = elements;
  need.value_words = entries;
  need.elements_per_word = elements_per_word(profile);
  return need;
}

}  // namespace tally::pipeline

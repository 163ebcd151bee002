#pragma once
// Would this program fit a real chip? Places register arrays into stages by the rules of pipeline.md and says
// what is used of what is there, how many passes a packet takes, and which rule is broken by how much.
// Honest, not green: a program that does not fit is told so.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/session.h"
#include "pipeline/registers.h"

namespace tally::pipeline {

// Resource limits of real chips, from public compiler sources (pipeline.md, Limits). `commodity` is this
// machine: memory is the only limit.

struct Profile {
  std::string_view name;
  bool limited = true;
  std::uint32_t stages = 0;
  std::uint32_t sram_blocks = 0;     // per stage, 16 KiB each
  std::uint32_t map_ram_blocks = 0;  // per stage; a register array takes as many as SRAM blocks
  std::uint32_t alus = 0;            // stateful ALUs, i.e. register arrays, per stage
  std::uint32_t word_bits = 0;       // widest register word
  std::uint32_t output_words = 0;    // words an ALU hands to the packet in one pass
  std::uint32_t header_bits = 0;     // packet header vector
};

inline constexpr std::uint32_t kSramBlockBytes = 16'384;
inline constexpr std::uint32_t kSpareBlocks = 1;  // per register array

inline constexpr std::array<Profile, 3> kProfiles{{
    {"tofino1", true, 12, 80, 48, 4, 64, 1, 4'096},
    {"tofino2", true, 20, 80, 48, 4, 128, 4, 5'120},
    {"commodity", false},
}};

constexpr std::optional<Profile> profile_named(std::string_view name) noexcept {
  for (const auto& p : kProfiles) {
    if (p.name == name) return p;
  }
  return std::nullopt;
}

// One register array. Arrays of one level do not depend on each other; a level depends on those before it.
struct ArrayNeed {
  std::string name;
  std::uint32_t word_bits = 0;
  std::uint64_t words = 0;
  int level = 0;
};

// A table that a packet looks up before it comes to any register: memory alone, in as many stages as it takes.
struct TableNeed {
  std::string name;
  std::uint32_t word_bits = 0;
  std::uint64_t words = 0;
};

struct ProgramNeed {
  std::vector<TableNeed> tables{};      // looked up beside the arrays of level 0
  std::vector<ArrayNeed> arrays;        // everything but the values
  std::uint32_t elements = 0;           // per packet
  std::uint64_t value_words = 0;        // words of each value array
  std::uint32_t elements_per_word = 2;  // 32-bit values side by side in a word
};

struct StageUse {
  std::vector<std::string> arrays;
  std::uint32_t blocks = 0;        // SRAM and as many map RAM
  std::uint32_t table_blocks = 0;  // SRAM alone
};

struct FitReport {
  Profile profile;
  std::vector<StageUse> stages;
  std::uint32_t value_arrays = 0;  // in one pipe
  std::uint32_t value_blocks = 0;  // of each value array
  std::uint32_t elements_per_pass = 0;
  std::uint32_t pipes = 0;          // elements / elements_per_pass
  std::uint32_t passes_to_add = 0;  // of a contribution that does not complete
  std::uint32_t passes_to_complete = 0;
  std::uint64_t memory_bytes = 0;       // of all arrays, spares excluded
  std::vector<std::string> violations;  // empty: fits
  [[nodiscard]] bool fits() const noexcept { return violations.empty(); }
};

[[nodiscard]] FitReport fit(const ProgramNeed& program, const Profile& profile);

// Blocks of one array: its words, rounded up, and the spare.
[[nodiscard]] std::uint32_t blocks_of(std::uint64_t words, std::uint32_t word_bits) noexcept;

// Puts the registers of a list, of `words` words each, behind the arrays of a program.
template <class... R>
void list(std::vector<ArrayNeed>& out, RegisterList<R...>, std::uint64_t words) {
  (out.push_back(
       {std::string(R::kName), static_cast<std::uint32_t>(8 * sizeof(typename R::Word)), words, R::kStage}),
   ...);
}
// 32-bit values side by side in a word that this chip has.
constexpr std::uint32_t elements_per_word(const Profile& profile) noexcept {
  return profile.word_bits >= 128 || !profile.limited ? 4 : 2;
}

// Our pool program. entries: of all jobs on one core; jobs: rows of `high`.
[[nodiscard]] ProgramNeed pool_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t jobs,
                                       const Profile& profile);
// Our program of sessions of the dialect switchml with this rule. entries: two for each slot, of all of them;
// elements, world: of the largest.
[[nodiscard]] ProgramNeed session_program(std::uint64_t entries, std::uint32_t elements, std::uint32_t world,
                                          jobs::TsiRule tsi, const Profile& profile);

}  // namespace tally::pipeline

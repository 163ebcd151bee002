#pragma once
// Resource limits of real chips, from public compiler sources (pipeline.md, Limits). `commodity` is this
// machine: memory is the only limit.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tally {

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

}  // namespace tally

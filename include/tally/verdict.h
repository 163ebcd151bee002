#pragma once
// What becomes of a packet. Drop reasons are in drop.h.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tally {

enum class Verdict : std::uint8_t {
  kDrop,      // named in Outcome::drop
  kAbsorb,    // added; nothing leaves
  kComplete,  // the packet became the RESULT for all members
  kRepeat,    // the packet became the stored RESULT for one rank
  kRelay,     // goes on to one rank (QUERY to the peer, ANSWER as RESULT to the asker)
  kHandOver,  // another data core owns the slot
  kPunt,      // control type: a copy goes to the control thread
  kForward,   // not ours: the L2 switch's business
  kBypass,    // went to the parameter server, which may have completed the chunk
  kEvict,     // took a shared entry from another chunk, which went to the server
  kCount,
};

inline constexpr std::size_t kVerdictCount = static_cast<std::size_t>(Verdict::kCount);
inline constexpr std::array<std::string_view, kVerdictCount> kVerdictNames{
    "drop", "absorb", "complete", "repeat", "relay", "hand_over", "punt", "forward", "bypass", "evict"};

constexpr std::string_view name_of(Verdict v) noexcept { return kVerdictNames[static_cast<std::size_t>(v)]; }

}  // namespace tally

#pragma once
// A job of the dialect switchml: what its row has beside a native job's. Its members are configured, not
// joined: nothing on the wire names the tenant, so a packet belongs to the member whose MAC, IPv4 address and
// UDP destination port it has.

#include <cstdint>

#include "tally/switchml.h"

namespace tally {

// What says that two packets are of the same chunk.
enum class TsiRule : std::uint8_t {
  kPacket,  // (job_number, tsi); the set in pool_index only says which of the slot's two entries
  kOpaque,  // set and bitmap alone, as the original: for clients whose tsi means nothing; at most 32 members
};

inline constexpr std::uint32_t kMaxOpaqueMembers = 32;

struct Session {
  std::uint16_t payload = switchml::kMaxPayload;  // bytes of values in every packet, valid_payload()
  TsiRule tsi = TsiRule::kPacket;
  std::uint32_t slots = 0;  // 1..switchml::kMaxSlots; pool_index names one of them
  std::uint8_t home = 0;    // the data core that owns all of it: stock clients send to one UDP port
};

inline constexpr std::uint32_t kPathsPerLine = 16;  // ranks' return paths in a line (registers.h)

// Lines of an entry that lie before its values: the registers, then 32 bits for each member, where its reply
// goes. world: 1..64.
constexpr std::uint32_t session_front_lines(std::uint32_t world) noexcept {
  return 1 + (world + kPathsPerLine - 1) / kPathsPerLine;
}

// Lines of one (slot, set). payload: bytes of values.
constexpr std::uint32_t session_entry_lines(std::uint32_t world, std::uint32_t payload) noexcept {
  return session_front_lines(world) + payload / 64;
}

// Lines of all entries on the home core: slot s, set v at entry 2 s + v.
constexpr std::uint32_t session_lines(std::uint32_t slots, std::uint32_t world,
                                      std::uint32_t payload) noexcept {
  return 2 * slots * session_entry_lines(world, payload);
}

}  // namespace tally

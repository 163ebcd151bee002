#pragma once
// What the configuration says of one session: a job of the dialect switchml (docs/switchml.md).

#include <cstdint>
#include <string>
#include <vector>

#include "job_config.h"
#include "session.h"
#include "tally/error.h"
#include "tally/net.h"
#include "tally/switchml.h"

namespace tally {

// By MAC, ipv4 and port together a packet is known to be this member's: nothing on the wire names the
// session.
struct ConfiguredMember {
  std::uint16_t rank = 0;  // 0..N-1
  Mac mac{};               // unicast
  Ipv4 ipv4{};
  std::uint16_t port = switchml::kBasePort;  // UDP, where its packets go to
  bool operator==(const ConfiguredMember&) const = default;
};

struct SessionConfig {
  std::string name{};                             // 1..kMaxNameBytes, no control characters
  std::uint32_t payload = switchml::kMaxPayload;  // bytes of values in each packet, valid_payload()
  std::uint32_t slots = 2048;                     // 1..switchml::kMaxSlots
  TsiRule tsi = TsiRule::kPacket;
  std::vector<ConfiguredMember> members{};  // 1..kMaxRanks, with kOpaque kMaxOpaqueMembers; each rank once
  bool operator==(const SessionConfig&) const = default;
};

// The first rule broken, as a sentence for a person; `where` is the session's name.
[[nodiscard]] Result<void> validate(const SessionConfig& config);
[[nodiscard]] Result<void> validate(const SessionConfig& config, const MembershipOptions& options);

// Both are the same sender to the box. ConfiguredMember::rank does not count.
[[nodiscard]] bool same_sender(const ConfiguredMember& a, const ConfiguredMember& b) noexcept;

// Lines of slot memory, of which the same lie on every core.
[[nodiscard]] std::uint32_t lines_of(const SessionConfig& config) noexcept;

}  // namespace tally

#include "session_config.h"

#include <algorithm>

namespace tally {
namespace {

tl::unexpected<Error> bad(const SessionConfig& c, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, what, "job '" + c.name.substr(0, kMaxNameBytes) + "'");
}

std::string not_in(const std::string& key, std::uint64_t value, const std::string& range) {
  return key + " is " + std::to_string(value) + "; it must be " + range;
}

Result<void> validate_member(const SessionConfig& c, const ConfiguredMember& m) {
  const std::string rank = "rank " + std::to_string(m.rank);
  if (m.rank >= c.members.size()) {
    return bad(c, not_in("rank", m.rank, "below the " + std::to_string(c.members.size()) + " members"));
  }
  if ((m.mac[0] & 1U) != 0 || m.mac == Mac{}) return bad(c, rank + " has no unicast MAC");
  if (m.ipv4 == Ipv4{}) return bad(c, rank + " has no IPv4 address");
  if (!switchml::is_port(m.port)) return bad(c, not_in("port of " + rank, m.port, "48864 to 48879"));
  return {};
}

}  // namespace

Result<void> validate(const SessionConfig& c) {
  if (auto name = validate_name(c.name); !name) return name;
  if (!switchml::valid_payload(c.payload))
    return bad(c, not_in("payload", c.payload, "128, 256, 512 or 1024"));
  if (c.slots < 1 || c.slots > switchml::kMaxSlots) return bad(c, not_in("slots", c.slots, "1 to 16384"));
  const std::uint32_t most = c.tsi == TsiRule::kOpaque ? kMaxOpaqueMembers : kMaxRanks;
  if (c.members.empty() || c.members.size() > most) {
    return bad(c, not_in("the number of members", c.members.size(), "1 to " + std::to_string(most)));
  }
  for (std::size_t i = 0; i < c.members.size(); ++i) {
    const ConfiguredMember& m = c.members[i];
    if (auto good = validate_member(c, m); !good) return good;
    for (std::size_t j = 0; j < i; ++j) {
      if (c.members[j].rank == m.rank) return bad(c, "rank " + std::to_string(m.rank) + " stands twice");
      if (same_sender(c.members[j], m)) {
        return bad(c, "ranks " + std::to_string(c.members[j].rank) + " and " + std::to_string(m.rank) +
                          " have the same addresses");
      }
    }
  }
  return {};
}

Result<void> validate(const SessionConfig& c, const MembershipOptions& options) {
  for (const ConfiguredMember& m : c.members) {
    if (m.mac == options.box_mac) return bad(c, "rank " + std::to_string(m.rank) + " has the box's MAC");
  }
  return {};
}

bool same_sender(const ConfiguredMember& a, const ConfiguredMember& b) noexcept {
  return a.mac == b.mac && a.ipv4 == b.ipv4 && a.port == b.port;
}

std::uint32_t lines_of(const SessionConfig& c) noexcept {
  return session_lines(c.slots, static_cast<std::uint32_t>(c.members.size()), c.payload);
}

}  // namespace tally

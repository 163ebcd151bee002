#include "members/job_config.h"

#include <algorithm>
#include <bit>

#include "jobs/layout.h"
#include "tally/wire.h"

namespace tally::members {
namespace {

bool has_control_characters(const std::string& s) {
  return std::any_of(s.begin(), s.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
}

tl::unexpected<Error> bad(const std::string& where, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, what, where);
}

std::string not_in(const char* key, std::uint64_t value, const std::string& range) {
  return std::string(key) + " is " + std::to_string(value) + "; it must be " + range;
}

std::string where(const std::string& name) { return "job '" + name.substr(0, kMaxNameBytes) + "'"; }
std::string where(const JobConfig& c) { return where(c.name); }

// The discipline and what depends on it.
Result<void> validate_sharing(const JobConfig& c) {
  const auto discipline = static_cast<std::uint8_t>(c.discipline);
  if (discipline < 1 || discipline > 4) return bad(where(c), not_in("discipline", discipline, "1 to 4"));
  if (static_cast<std::uint8_t>(c.decay) > 2) {
    return bad(where(c), not_in("decay", static_cast<std::uint8_t>(c.decay), "0 to 2"));
  }
  const bool shares = shares_slots(c.discipline);
  if (c.server > ServerKind::kExternal || shares != (c.server != ServerKind::kNone)) {
    return bad(where(c),
               "server must be embedded or external with a discipline that shares slots and none with pool");
  }
  const bool external = c.server == ServerKind::kExternal;
  if (external && (c.servers < 1 || c.servers > kMaxServers)) {
    return bad(where(c), not_in("servers", c.servers, "1 to " + std::to_string(kMaxServers)));
  }
  if (!external && c.servers != 0)
    return bad(where(c), not_in("servers", c.servers, "0 without external ones"));
  const Quota& q = c.quota;
  if (q.weight < 1 || q.weight > kMaxWeight) {
    return bad(where(c), not_in("weight", q.weight, "1 to " + std::to_string(kMaxWeight)));
  }
  if (q.cap_ppm > kWholePpm || q.reserved_ppm > q.cap_ppm) {
    return bad(where(c), "reserved must be at most cap, and cap at most the whole");
  }
  if (!shares && q != Quota{}) return bad(where(c), "a quota divides shared slots; the job has its own");
  return {};
}

Result<void> validate_stragglers(const JobConfig& c) {
  const StragglerPolicy& s = c.stragglers;
  if (s.timeout == 0) return {};
  if (shares_slots(c.discipline)) return bad(where(c), "stragglers are for the discipline pool only");
  if (s.timeout < kMinStraggler || s.timeout > kMaxStraggler) {
    return bad(where(c), not_in("the stragglers' timeout in ns", s.timeout, "1 ms to 10 min"));
  }
  if (s.least < 1 || s.least > c.workers) {
    return bad(where(c),
               not_in("the stragglers' min", s.least, "1 to the " + std::to_string(c.workers) + " workers"));
  }
  return {};
}

}  // namespace

Result<void> validate_name(const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes || has_control_characters(name)) {
    return bad(where(name), "name must be 1 to 64 bytes without control characters");
  }
  return {};
}

Result<void> validate(const JobConfig& c) {
  const std::string job = where(c);
  if (auto name = validate_name(c.name); !name) return name;
  if (c.token.size() > kMaxTokenBytes)
    return bad(job, not_in("token length", c.token.size(), "at most 64 bytes"));
  if (c.workers < 1 || c.workers > kMaxRanks) return bad(job, not_in("workers", c.workers, "1 to 64"));
  if (c.elements < kMinElements || !valid_elements(c.elements)) {
    return bad(job, not_in("elements", c.elements, "a multiple of 16 from 16 to 2224"));
  }
  if (c.window < kMinWindow || c.window > kMaxWindow || !std::has_single_bit(c.window)) {
    return bad(job, not_in("window", c.window, "a power of two from 16 to 16384"));
  }
  if (c.priority > kMaxPriority) return bad(job, not_in("priority", c.priority, "0 to 254"));
  if (c.lease < kMinLease || c.lease > kMaxLease || c.lease % kMillisecond != 0) {
    return bad(job, not_in("lease in ns", c.lease, "100 ms to 1 h in whole milliseconds"));
  }
  if (c.results != ResultsMode::kUnicast && c.results != ResultsMode::kMulticast) {
    return bad(job, not_in("results", static_cast<std::uint8_t>(c.results), "unicast or multicast"));
  }
  if (auto stragglers = validate_stragglers(c); !stragglers) return stragglers;
  return validate_sharing(c);
}

Result<void> validate(const MembershipOptions& o) {
  if (o.shards < 1 || o.shards > kMaxShards) return bad("shards", not_in("shards", o.shards, "1 to 64"));
  if ((o.box_mac[0] & 1U) != 0 || o.box_mac == Mac{}) {
    return bad("box_mac", "the box's MAC must be a unicast address");
  }
  if (o.shared_entries == 0) return {};
  if (o.shared_elements < kMinElements || !valid_elements(o.shared_elements)) {
    return bad("shared_elements",
               not_in("shared_elements", o.shared_elements, "a multiple of 16 from 16 to 2224"));
  }
  if (const std::uint64_t all = std::uint64_t{o.shared_entries} * o.shards; all > kMaxSharedSlots) {
    return bad("shared_entries",
               not_in("their number on all cores", all, "at most " + std::to_string(kMaxSharedSlots)));
  }
  const std::uint64_t lines = jobs::shared_lines(o.shared_entries, o.shared_elements);
  if (lines > o.slot_lines) {
    return bad("shared_entries", "they take " + std::to_string(lines) + " of " +
                                     std::to_string(o.slot_lines) + " lines of slot memory");
  }
  return {};
}

Result<void> validate(const JobConfig& c, const MembershipOptions& o) {
  if (!shares_slots(c.discipline)) return {};
  if (o.shared_entries == 0) return bad(where(c), "the box has no shared slots");
  if (c.elements > o.shared_elements) {
    return bad(where(c), not_in("elements", c.elements,
                                "at most the " + std::to_string(o.shared_elements) + " of a shared slot"));
  }
  return {};
}

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
  const std::uint32_t most = c.tsi == jobs::TsiRule::kOpaque ? jobs::kMaxOpaqueMembers : kMaxRanks;
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
  return jobs::session_lines(c.slots, static_cast<std::uint32_t>(c.members.size()), c.payload);
}

}  // namespace tally::members

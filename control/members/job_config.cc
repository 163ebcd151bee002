#include "members/job_config.h"

#include <algorithm>
#include <bit>

#include "jobs/layout.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::members {
namespace {

bool has_control_characters(const std::string& s) {
  return std::any_of(s.begin(), s.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
}

tl::unexpected<Error> bad(const std::string& where, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, what, where);
}

std::string not_in(const std::string& key, std::uint64_t value, const std::string& range) {
  return key + " is " + std::to_string(value) + "; it must be " + range;
}

std::string from_to(std::uint64_t lowest, std::uint64_t highest) {
  return std::to_string(lowest) + (lowest == highest ? "" : " to " + std::to_string(highest));
}

std::string where(const std::string& name) { return "job '" + name.substr(0, kMaxNameBytes) + "'"; }

// Of a number that is in the range: nothing.
Result<void> ranged(const std::string& name, const char* key, std::uint64_t value, std::uint64_t lowest,
                    std::uint64_t highest) {
  if (value >= lowest && value <= highest) return {};
  return bad(where(name), not_in(key, value, from_to(lowest, highest)));
}

std::string elements_range() { return "a multiple of 16 from " + from_to(kMinElements, kMaxElements); }

// Without the help, which is about the file.
Result<void> first_of(const std::string& name, const std::vector<JobFault>& faults) {
  if (faults.empty()) return {};
  const JobFault& fault = faults.front();
  return bad(where(name), fault.what + (fault.taken_by.empty() ? "" : " by " + fault.taken_by));
}

// Each value by itself.
Result<void> validate_ranges(const JobConfig& c) {
  const std::string job = where(c.name);
  if (auto name = validate_name(c.name); !name) return name;
  const bool external = c.server == ServerKind::kExternal;
  for (const auto& good : {ranged(c.name, "token length", c.token.size(), 0, kMaxTokenBytes),
                           ranged(c.name, "workers", c.workers, 1, kMaxRanks),
                           ranged(c.name, "priority", c.priority, 0, kMaxPriority),
                           ranged(c.name, "discipline", static_cast<std::uint8_t>(c.discipline), 1, 4),
                           ranged(c.name, "decay", static_cast<std::uint8_t>(c.decay), 0, 2),
                           ranged(c.name, "server", static_cast<std::uint8_t>(c.server), 0, 2),
                           ranged(c.name, "servers", c.servers, external ? 1 : 0, external ? kMaxServers : 0),
                           ranged(c.name, "weight", c.quota.weight, 1, kMaxWeight),
                           ranged(c.name, "cap in ppm", c.quota.cap_ppm, 0, kWholePpm)}) {
    if (!good) return good;
  }
  if (c.elements < kMinElements || !valid_elements(c.elements))
    return bad(job, not_in("elements", c.elements, elements_range()));
  if (c.window < kMinWindow || c.window > kMaxWindow || !std::has_single_bit(c.window))
    return bad(job, not_in("window", c.window, "a power of two from " + from_to(kMinWindow, kMaxWindow)));
  if (c.lease < kMinLease || c.lease > kMaxLease || c.lease % kMillisecond != 0)
    return bad(job, not_in("lease in ns", c.lease, "100 ms to 1 h in whole milliseconds"));
  if (c.results != ResultsMode::kUnicast && c.results != ResultsMode::kMulticast)
    return bad(job, not_in("results", static_cast<std::uint8_t>(c.results), "unicast or multicast"));
  const StragglerPolicy& s = c.stragglers;
  if (s.timeout == 0) return {};
  if (s.timeout < kMinStraggler || s.timeout > kMaxStraggler)
    return bad(job, not_in("the stragglers' timeout in ns", s.timeout, "1 ms to 10 min"));
  return ranged(c.name, "the stragglers' min", s.least, 1, kMaxRanks);
}

// A pool job has nothing to divide with others.
void pool_faults(const JobConfig& c, std::vector<JobFault>& faults) {
  const auto refuse = [&](const char* key, bool given, const std::string& value, const std::string& only) {
    if (!given) return;
    faults.push_back(
        {{key},
         value + ": a quota divides the shared slots, and a job of the discipline pool has slots of its own",
         "write " + only + ", or leave the key out; window says how many slots the job gets"});
  };
  const Quota usual;
  const Quota& q = c.quota;
  refuse("quota.reserved", q.reserved_ppm != usual.reserved_ppm, text::percent_text(q.reserved_ppm),
         text::percent_text(usual.reserved_ppm));
  refuse("quota.weight", q.weight != usual.weight, std::to_string(q.weight), std::to_string(usual.weight));
  refuse("quota.cap", q.cap_ppm != usual.cap_ppm, text::percent_text(q.cap_ppm),
         text::percent_text(usual.cap_ppm));
  if (c.server != ServerKind::kNone)
    faults.push_back(
        {{"server"},
         "a job of the discipline pool has no server: none of its contributions is without a slot",
         "write none, or discipline: shared"});
  if (c.stragglers.timeout != 0 && c.stragglers.least > c.workers)
    faults.push_back({{"stragglers.min", "workers"},
                      "min is " + std::to_string(c.stragglers.least) + ", and the job has " +
                          std::to_string(c.workers) + " workers",
                      "write at most " + std::to_string(c.workers)});
}

void sharer_faults(const JobConfig& c, std::vector<JobFault>& faults) {
  if (c.server == ServerKind::kNone)
    faults.push_back({{"server"},
                      "a job that shares slots needs a server for what finds none",
                      "write embedded or external, or discipline: pool"});
  if (c.quota.cap_ppm < c.quota.reserved_ppm)
    faults.push_back({{"quota.cap", "quota.reserved"},
                      "the job may hold " + text::percent_text(c.quota.cap_ppm) +
                          " of the shared slots, and " + text::percent_text(c.quota.reserved_ppm) +
                          " are reserved for it",
                      "raise cap or lower reserved"});
  if (c.stragglers.timeout != 0)
    faults.push_back(
        {{"stragglers"},
         "a job that shares slots cannot send sums without stragglers: its server may hold their values",
         "write off, or discipline: pool"});
}

}  // namespace

std::vector<JobFault> faults_of(const JobConfig& c) {
  std::vector<JobFault> faults;
  shares_slots(c.discipline) ? sharer_faults(c, faults) : pool_faults(c, faults);
  for (JobFault& fault : faults) fault.keys.emplace_back("discipline");
  return faults;
}

std::vector<JobFault> faults_of(const JobConfig& c, const MembershipOptions& o) {
  std::vector<JobFault> faults;
  if (!shares_slots(c.discipline)) return faults;
  if (o.shared_entries == 0)
    faults.push_back(
        {{"discipline"},
         "the box has no shared slots",
         "write dataplane: {shared: {slots: 4096}}, or leave discipline out for slots of its own"});
  if (c.elements > o.shared_elements)
    faults.push_back(
        {{"elements"},
         std::to_string(c.elements) + " elements do not fit a shared slot, which holds " +
             std::to_string(o.shared_elements),
         "write at most " + std::to_string(o.shared_elements) + ", or raise dataplane.shared.elements"});
  return faults;
}

Result<void> validate_name(const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes || has_control_characters(name)) {
    return bad(where(name), "name must be 1 to 64 bytes without control characters");
  }
  return {};
}

Result<void> validate(const JobConfig& c) {
  if (auto good = validate_ranges(c); !good) return good;
  return first_of(c.name, faults_of(c));
}

Result<void> validate(const MembershipOptions& o) {
  if (o.shards < 1 || o.shards > kMaxShards)
    return bad("shards", not_in("shards", o.shards, from_to(1, kMaxShards)));
  if ((o.box_mac[0] & 1U) != 0 || o.box_mac == Mac{}) {
    return bad("box_mac", "the box's MAC must be a unicast address");
  }
  if (o.shared_entries == 0) return {};
  if (o.shared_elements < kMinElements || !valid_elements(o.shared_elements)) {
    return bad("shared_elements", not_in("shared_elements", o.shared_elements, elements_range()));
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
  return first_of(c.name, faults_of(c, o));
}

namespace {

// Each value by itself.
Result<void> validate_member(const SessionConfig& c, const ConfiguredMember& m) {
  const std::string rank = "rank " + std::to_string(m.rank);
  if ((m.mac[0] & 1U) != 0 || m.mac == Mac{}) return bad(where(c.name), rank + " has no unicast MAC");
  if (m.ipv4 == Ipv4{}) return bad(where(c.name), rank + " has no IPv4 address");
  return ranged(c.name, ("port of " + rank).c_str(), m.port, switchml::kBasePort,
                switchml::kBasePort + switchml::kPorts - 1);
}

void count_faults(const SessionConfig& c, std::vector<JobFault>& faults) {
  const bool opaque = c.tsi == jobs::TsiRule::kOpaque;
  const std::size_t count = c.members.size();
  const std::size_t most = opaque ? jobs::kMaxOpaqueMembers : kMaxRanks;
  if (count == 0)
    faults.push_back(
        {{"members"},
         "the session has no members",
         "add one for each client: members: [{rank: 0, mac: 02:00:00:00:00:01, ipv4: 10.0.0.11}]"});
  if (count > most)
    faults.push_back({{"members"},
                      "the session has " + std::to_string(count) + " members; at most " +
                          std::to_string(most) +
                          (opaque ? " can be told apart with tsi: opaque" : " work together"),
                      count <= kMaxRanks ? "write tsi: packet" : "remove the rest"});
}

std::string rank_key(std::size_t member) { return "members[" + std::to_string(member) + "].rank"; }

// Each rank once, from 0 on.
void rank_faults(const SessionConfig& c, std::vector<JobFault>& faults) {
  const std::string help = "number the members from 0 on, each once";
  for (auto m = c.members.begin(); m != c.members.end(); ++m) {
    const auto index = static_cast<std::size_t>(m - c.members.begin());
    const std::string rank = "rank " + std::to_string(m->rank);
    const auto first = std::ranges::find(c.members, m->rank, &ConfiguredMember::rank);
    if (first != m) {
      faults.push_back({{rank_key(index)},
                        rank + " is taken",
                        help,
                        rank_key(static_cast<std::size_t>(first - c.members.begin()))});
    } else if (m->rank >= c.members.size()) {
      faults.push_back({{rank_key(index)},
                        rank + " of " + std::to_string(c.members.size()) + " members: their ranks are 0 to " +
                            std::to_string(c.members.size() - 1),
                        help});
    }
  }
}

}  // namespace

std::vector<JobFault> faults_of(const SessionConfig& c) {
  std::vector<JobFault> faults;
  count_faults(c, faults);
  rank_faults(c, faults);
  return faults;
}

Result<void> validate(const SessionConfig& c) {
  if (auto name = validate_name(c.name); !name) return name;
  if (!switchml::valid_payload(c.payload))
    return bad(where(c.name), not_in("payload", c.payload, "128, 256, 512 or 1024"));
  if (auto slots = ranged(c.name, "slots", c.slots, 1, switchml::kMaxSlots); !slots) return slots;
  for (const ConfiguredMember& m : c.members) {
    if (auto good = validate_member(c, m); !good) return good;
  }
  if (auto good = first_of(c.name, faults_of(c)); !good) return good;
  for (auto m = c.members.begin(); m != c.members.end(); ++m) {
    const auto same =
        std::find_if(c.members.begin(), m, [&](const auto& other) { return same_sender(other, *m); });
    if (same == m) continue;
    return bad(where(c.name), "ranks " + std::to_string(same->rank) + " and " + std::to_string(m->rank) +
                                  " have the same addresses");
  }
  return {};
}

Result<void> validate(const SessionConfig& c, const MembershipOptions& options) {
  for (const ConfiguredMember& m : c.members) {
    if (m.mac == options.box_mac)
      return bad(where(c.name), "rank " + std::to_string(m.rank) + " has the box's MAC");
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

// Sessions: jobs of the dialect switchml.

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "config/checks.h"
#include "config/config_schema.h"
#include "config/dialects.h"
#include "config/reload_plan.h"
#include "config/units.h"
#include "members/texts.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::config {
namespace {

constexpr std::array<Choice<jobs::TsiRule>, 2> kTsi{
    {{"packet", jobs::TsiRule::kPacket}, {"opaque", jobs::TsiRule::kOpaque}}};

ValueType<std::uint32_t> payload() {
  return scalar_type<std::uint32_t>(
      "128, 256, 512 or 1024",
      [](const std::string& text) -> Parsed<std::uint32_t> {
        const auto value = parse_unsigned(text);
        if (!value) return tl::unexpected<Complaint>(value.error());
        if (*value > switchml::kMaxPayload || !switchml::valid_payload(static_cast<std::uint32_t>(*value)))
          return complain(text + " is no size of SwitchML's packets");
        return static_cast<std::uint32_t>(*value);
      },
      [](const std::uint32_t& value) { return std::to_string(value); }, Quotes::kRefused);
}

const Schema<members::ConfiguredMember>& member_schema() {
  static const Schema<members::ConfiguredMember> schema{
      required_key("rank", &members::ConfiguredMember::rank, whole_number_in<std::uint16_t>(0, kMaxRanks - 1),
                   "The client's rank; the members have the ranks from 0 on, each once."),
      required_key("mac", &members::ConfiguredMember::mac,
                   scalar_type<Mac>("a MAC such as 02:00:00:00:00:01", parse_mac,
                                    [](const Mac& mac) { return to_text(mac); }),
                   "The MAC that its packets come from, and results go to."),
      required_key("ipv4", &members::ConfiguredMember::ipv4,
                   scalar_type<Ipv4>("an address such as 10.0.0.11", parse_ipv4,
                                     [](const Ipv4& ipv4) { return to_text(ipv4); }),
                   "The IPv4 address likewise."),
      value_key(
          "port", &members::ConfiguredMember::port,
          whole_number_in<std::uint16_t>(switchml::kBasePort, switchml::kBasePort + switchml::kPorts - 1),
          "The UDP port of the box to which it sends. Clients as published know only 48864."),
  };
  return schema;
}

}  // namespace

DialectKeys keys_of(const SessionConfig& /*usual*/) {
  Schema<JobConfig> keys{
      job_key(at_once(value_key(
                  "payload", &SessionConfig::payload, payload(),
                  "Only with dialect: switchml, as the keys below. Bytes of values in each packet, as "
                  "the clients are built; every port's mtu must carry 38 more.")),
              "elements says how large a native job's packets are"),
      job_key(at_once(value_key(
                  "slots", &SessionConfig::slots, whole_number_in<std::uint32_t>(1, switchml::kMaxSlots),
                  "Slots of the session, each of two sets. A client of T threads with M packets in flight "
                  "each uses indices up to 2 x M x T. Takes 2 x slots x (payload + 64 + 64 for each 16 "
                  "members begun) bytes of dataplane.slots on each data core, though one of them, job id "
                  "modulo cores, does all the work.")),
              "window says how many slots a native job gets"),
      job_key(at_once(value_key(
                  "tsi", &SessionConfig::tsi, one_of(kTsi),
                  "What makes two packets the same chunk. packet: job number and packet number, which "
                  "is exact; opaque: the set and who has contributed, as the original switch does, for "
                  "clients whose packet numbers mean nothing. At most 32 members with opaque.")),
              "native packets have a chunk number"),
      job_key(at_once(value_key(
                  "run", &SessionConfig::run, whole_number_in<std::uint32_t>(0, UINT32_MAX),
                  "Any number. A reload (SIGHUP) with another one begins the session anew: for clients that "
                  "are started again, which nothing in their packets tells. What the clients before them "
                  "had begun is lost.")),
              "workers that are started again join anew"),
      job_key(at_once(list_key("members", &SessionConfig::members, member_schema())),
              "the workers of a native job join it"),
  };
  return {
      "those of SwitchML's clients (docs/switchml.md); such a job is a session, which has the keys name, "
      "payload, slots, tsi, run and members, and runs from its declaration. box.ipv4 is needed.",
      std::move(keys)};
}

// The members of the sessions, and the frames that must reach them.

namespace {

struct MemberAt {
  const SessionConfig& job;
  const members::ConfiguredMember& member;
  std::string place;  // jobs[1].members[0]

  [[nodiscard]] std::string path(const char* key) const { return place + "." + key; }
  [[nodiscard]] std::string name() const {
    return "rank " + std::to_string(member.rank) + " of job " + job.name;
  }
};

std::string member_place(std::size_t job, std::size_t member) {
  return path_of("jobs", job, "members") + "[" + std::to_string(member) + "]";
}

// The values of every member are as the schema wants them.
bool sound_members(const Checking& c, std::size_t index, const SessionConfig& job) {
  if (!c.places.sound(path_of("jobs", index, "members"))) return false;
  for (std::size_t m = 0; m < job.members.size(); ++m) {
    const std::string place = member_place(index, m);
    for (const char* const key : {".rank", ".mac", ".ipv4", ".port"}) {
      if (!c.places.sound(place + key)) return false;
    }
  }
  return true;
}

// A number that is written says the same as the members do.
void check_workers(Checking& c, std::size_t index, SessionConfig& job) {
  const std::size_t count = job.members.size();
  const std::string workers = path_of("jobs", index, "workers");
  if (!c.places.written(workers)) job.workers = static_cast<std::uint16_t>(count);
  if (!c.sound({workers, path_of("jobs", index, "members")}) || job.workers == count) return;
  c.error(
      workers,
      "workers is " + std::to_string(job.workers) + ", and the session has " + text::counted(count, "member"),
      "leave workers out: members says how many there are");
}

void check_count(Checking& c, std::size_t index, const SessionConfig& job) {
  const bool opaque = job.tsi == jobs::TsiRule::kOpaque;
  const std::size_t count = job.members.size();
  const std::size_t most = opaque ? jobs::kMaxOpaqueMembers : kMaxRanks;
  const std::string members = path_of("jobs", index, "members");
  if (!c.places.sound(members)) return;
  if (count == 0)
    c.error(members, "the session has no members",
            "add one for each client: members: [{rank: 0, mac: 02:00:00:00:00:01, ipv4: 10.0.0.11}]");
  if (count > most)
    c.error(members,
            "the session has " + std::to_string(count) + " members; at most " + std::to_string(most) +
                (opaque ? " can be told apart with tsi: opaque" : " work together"),
            count <= kMaxRanks ? "write tsi: packet" : "remove the rest");
}

// Each rank once, from 0 on.
void check_ranks(Checking& c, std::size_t index, const SessionConfig& job) {
  const auto path_at = [&](std::size_t m) { return member_place(index, m) + ".rank"; };
  const char* const help = "number the members from 0 on, each once";
  for (std::size_t m = 0; m < job.members.size(); ++m) {
    const std::uint16_t rank = job.members[m].rank;
    const auto same = std::ranges::find(job.members, rank, &members::ConfiguredMember::rank);
    const std::string first = path_at(static_cast<std::size_t>(same - job.members.begin()));
    const std::string path = path_at(m);
    if (!c.sound({path, first})) continue;
    const std::string name = "rank " + std::to_string(rank);
    if (first != path) {
      c.error(path, name + " is taken: " + holder_text(c.places.of(first)) + " has it already", help);
    } else if (rank >= job.members.size()) {
      c.error(path,
              name + " of " + std::to_string(job.members.size()) + " members: their ranks are 0 to " +
                  std::to_string(job.members.size() - 1),
              help);
    }
  }
}

void check_addresses(Checking& c, const MemberAt& at) {
  const BoxSection& box = c.config.box;
  if (c.sound({"box.mac", "instance"}) && at.member.mac == box_mac(c.config)) {
    c.error(at.path("mac"), to_text(at.member.mac) + " is the box's own MAC",
            "write the MAC of the client's network card");
  }
  if (!box.ipv4 || !c.places.sound("box.ipv4")) return;
  const std::string path = at.path("ipv4");
  if (at.member.ipv4 == box.ipv4->address) {
    c.error(path, to_text(at.member.ipv4) + " is the box's own address", "write the client's");
  } else if (same_network(at.member.ipv4, *box.ipv4)) {
    const auto host = parse_cidr4(to_text(Cidr4{at.member.ipv4, box.ipv4->prefix}));
    if (!host) c.error(path, host.error().message, "write the client's own address");
  }
}

using Sender = std::tuple<Mac, Ipv4, std::uint16_t>;

// seen: who has these addresses first, and where.
void check_sender(Checking& c, const MemberAt& at, std::map<Sender, std::string>& seen) {
  const members::ConfiguredMember& m = at.member;
  const std::string path = at.path("ipv4");
  const Position stands = c.places.of(path);
  const std::string place = at.name() + (stands.line == 0 ? "" : " in " + holder_text(stands));
  const auto [first, is_new] = seen.emplace(Sender{m.mac, m.ipv4, m.port}, place);
  if (is_new) return;
  c.error(path,
          "MAC " + to_text(m.mac) + ", " + to_text(m.ipv4) + " and port " + std::to_string(m.port) +
              " are taken by " + first->second + ": a packet could be of either",
          "give one of them other addresses, or another port if its client can be told to use it");
}

// Within a session, where an address stands for a client. False: reported.
bool check_distinct(Checking& c, const MemberAt& at, std::map<Ipv4, Position>& seen) {
  const std::string path = at.path("ipv4");
  const auto [first, is_new] = seen.emplace(at.member.ipv4, c.places.of(path));
  if (is_new) return true;
  c.error(path,
          to_text(at.member.ipv4) + " is taken: " + holder_text(first->second) +
              " of this session has it already",
          "each member of a session has an address of its own");
  return false;
}

// The largest IP packet of the clients, of `payload` bytes of values.
std::uint32_t packet_bytes(std::uint32_t payload) noexcept {
  constexpr std::uint32_t kHeaders = sizeof(Ipv4Header) + sizeof(UdpHeader) + switchml::kHeaderBytes;
  return payload + kHeaders;
}

void check_mtu(Checking& c, std::size_t index, std::uint32_t payload) {
  const std::string path = path_of("jobs", index, "payload");
  if (!c.places.sound(path)) return;
  const std::uint32_t wanted = packet_bytes(payload);
  for (std::size_t i = 0; i < c.config.ports.size(); ++i) {
    const PortSection& port = c.config.ports[i];
    if (!c.places.sound(path_of("ports", i, "mtu")) || port.mtu >= wanted) continue;
    c.error(path,
            "a payload of " + std::to_string(payload) + " bytes makes IP packets of " +
                std::to_string(wanted) + "; port " + port.name + " carries " + std::to_string(port.mtu),
            "raise its mtu, or write a smaller payload if the clients are built for it");
    return;
  }
}

// All sessions with this rule. Which of them share a core follows from job ids, and those from the order in
// which jobs come and go: they are taken to share one.
void check_rule(Checking& c, jobs::TsiRule tsi, const pipeline::Profile& profile) {
  std::uint64_t entries = 0;
  std::uint32_t payload = 0;
  std::size_t members = 0;
  for (const auto& [i, job] : jobs_of<SessionConfig>(c.config)) {
    if (job->tsi != tsi) continue;
    entries += 2 * std::uint64_t{job->slots};
    payload = std::max<std::uint32_t>(payload, job->payload);
    members = std::max(members, job->members.size());
  }
  if (entries == 0) return;
  const pipeline::FitReport report = pipeline::fit(
      pipeline::session_program(entries, payload / 4, static_cast<std::uint32_t>(members), tsi, profile),
      profile);
  if (report.fits()) return;
  const bool too_wide = std::any_of(report.violations.begin(), report.violations.end(),
                                    [](const std::string& v) { return v.starts_with("word: "); });
  complain_of_fit(
      c,
      std::string("the program of the sessions with tsi: ") +
          (tsi == jobs::TsiRule::kOpaque ? "opaque" : "packet"),
      report, too_wide ? "remove these sessions" : "lower slots or payload, remove some of these sessions");
}

// What a session is, whatever clients run it. The order in which members stand says nothing.
SessionConfig by_rank(SessionConfig session) {
  session.run = 0;
  std::ranges::sort(session.members, {}, &members::ConfiguredMember::rank);
  return session;
}

}  // namespace

void check_all(Checking& c, const SessionConfig& /*usual*/) {
  std::map<Sender, std::string> senders;
  for (const auto& [i, job] : jobs_of<SessionConfig>(c.config)) {
    const std::string dialect = path_of("jobs", i, "dialect");
    if (!c.config.box.ipv4 && c.places.sound("box.ipv4"))
      c.error(dialect, "SwitchML's clients know only IPv4, and the box has no such address",
              "write box: {ipv4: 10.0.0.1/24}");
    check_mtu(c, i, job->payload);
    check_count(c, i, *job);
    check_ranks(c, i, *job);
    check_workers(c, i, *job);
    if (!sound_members(c, i, *job)) continue;
    std::map<Ipv4, Position> addresses;
    for (std::size_t m = 0; m < job->members.size(); ++m) {
      const MemberAt at{*job, job->members[m], member_place(i, m)};
      check_addresses(c, at);
      if (check_distinct(c, at, addresses)) check_sender(c, at, senders);
    }
  }
}

std::uint32_t lines_of(const Config& /*config*/, const SessionConfig& job, std::uint32_t /*most*/) {
  return members::lines_of(job);
}

bool check_alone(Checking& c, std::size_t index, const SessionConfig& job) {
  const std::string path = path_of("jobs", index, job.kSizeKey);
  const std::size_t count = job.members.size();
  if (!c.sound({path, path_of("jobs", index, "payload"), path_of("jobs", index, "members")}) || count == 0 ||
      count > kMaxRanks)
    return false;
  const std::uint64_t lines = members::lines_of(job);
  const std::uint64_t fit = own_lines_per_core(c.config.dataplane) / (lines / job.slots);
  if (job.slots <= fit) return true;
  c.error(path,
          std::to_string(job.slots) + " slots of " + std::to_string(job.payload) + " bytes for " +
              std::to_string(count) + " members take " + rough_size(bytes_of(c.config, lines)) +
              " of slots; " + slots_text(c.config),
          (fit == 0 ? std::string("not even one slot fits; ")
                    : "at most " + std::to_string(fit) + " fit; otherwise ") +
              "raise dataplane.slots");
  return false;
}

void check_fit(Checking& c, const SessionConfig& /*usual*/, const pipeline::Profile& profile) {
  check_rule(c, jobs::TsiRule::kPacket, profile);
  check_rule(c, jobs::TsiRule::kOpaque, profile);
}

// Nothing else of a session can change while it runs, and nobody has joined it: it begins again.
void plan_change(const SessionConfig& is, const SessionConfig& wanted, const std::string& path,
                 ReloadPlan& plan) {
  if (by_rank(is) == by_rank(wanted)) {
    if (is.run != wanted.run) plan.reset.push_back({wanted.name, wanted.run, path});
    return;
  }
  ReloadPlan::Again& again = plan.again.emplace_back(ReloadPlan::Again{wanted});
  compare_sections(job_schema(), JobConfig(is), again.job, path, again.keys);
}

std::string why_not_served(const Config& running, const SessionConfig& session) {
  const std::string until = " until tallyd is restarted";
  if (!running.box.ipv4) return "SwitchML's clients know only IPv4, and the box has no such address" + until;
  for (const members::ConfiguredMember& m : session.members) {
    if (m.ipv4 != running.box.ipv4->address) continue;
    return "rank " + std::to_string(m.rank) + " has the box's address, " + to_text(m.ipv4) + "," + until;
  }
  const std::uint32_t bytes = packet_bytes(session.payload);
  for (const PortSection& port : running.ports) {
    if (port.mtu >= bytes) continue;
    return "its payload of " + std::to_string(session.payload) + " bytes makes IP packets of " +
           std::to_string(bytes) + ", and port " + port.name + " carries " + std::to_string(port.mtu) + until;
  }
  const std::uint64_t there = own_lines_per_core(running.dataplane);
  const std::uint32_t lines = members::lines_of(session);
  if (lines > there)
    return "it takes " + members::kib_text(lines) + " of slot memory per core, and there are " +
           members::kib_text(there) + until;
  for (const members::ConfiguredMember& m : session.members) {
    if (m.mac == box_mac(running)) return "rank " + std::to_string(m.rank) + " has the box's MAC";
  }
  return {};
}

}  // namespace tally::config

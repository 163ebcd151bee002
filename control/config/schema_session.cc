// The keys of a job that its dialect decides on, and those of a session's members.

#include "schemas.h"
#include "units.h"

namespace tally {
namespace {

constexpr std::array<Choice<Dialect>, 2> kDialects{
    {{"native", Dialect::kNative}, {"switchml", Dialect::kSwitchml}}};
constexpr std::array<Choice<TsiRule>, 2> kTsi{{{"packet", TsiRule::kPacket}, {"opaque", TsiRule::kOpaque}}};

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

const Schema<ConfiguredMember>& member_schema() {
  static const Schema<ConfiguredMember> schema{
      required_key("rank", &ConfiguredMember::rank, whole_number_in<std::uint16_t>(0, kMaxRanks - 1),
                   "The client's rank; the members have the ranks from 0 on, each once."),
      required_key("mac", &ConfiguredMember::mac,
                   scalar_type<Mac>("a MAC such as 02:00:00:00:00:01", parse_mac,
                                    [](const Mac& mac) { return to_text(mac); }),
                   "The MAC that its packets come from, and results go to."),
      required_key("ipv4", &ConfiguredMember::ipv4,
                   scalar_type<Ipv4>("an address such as 10.0.0.11", parse_ipv4,
                                     [](const Ipv4& ipv4) { return to_text(ipv4); }),
                   "The IPv4 address likewise."),
      value_key(
          "port", &ConfiguredMember::port,
          whole_number_in<std::uint16_t>(switchml::kBasePort, switchml::kBasePort + switchml::kPorts - 1),
          "The UDP port of the box to which it sends. Clients as published know only 48864."),
  };
  return schema;
}

// Dumped for sessions only, so that the dump of any job can be read again.
SchemaKey<JobSection> of_sessions(SchemaKey<JobSection> key) {
  key.dump = [dump = key.dump](const JobSection& job, const std::string& indent, std::string& out) {
    if (job.dialect == Dialect::kSwitchml) dump(job, indent, out);
  };
  return key;
}

}  // namespace

std::vector<SchemaKey<JobSection>> session_keys() {
  return {
      value_key("dialect", &JobSection::dialect, one_of(kDialects),
                "The packets the workers speak. native: docs/protocol.md. switchml: those of SwitchML's "
                "clients (docs/switchml.md); such a job is a session, which has the keys name, payload, "
                "slots, tsi and members, and runs from its declaration. box.ipv4 is needed."),
      of_sessions(value_key("payload", &JobSection::payload, payload(),
                            "Only with dialect: switchml, as the keys below. Bytes of values in each packet, "
                            "as the clients are built; every port's mtu must carry 38 more.")),
      of_sessions(value_key(
          "slots", &JobSection::slots, whole_number_in<std::uint32_t>(1, switchml::kMaxSlots),
          "Slots of the session, each of two sets. A client of T threads with M packets in flight each uses "
          "indices up to 2 x M x T. Takes 2 x slots x (payload + 64 + 64 for each 16 members begun) bytes of "
          "dataplane.slots on each data core, though one of them, job id modulo cores, does all the work.")),
      of_sessions(value_key(
          "tsi", &JobSection::tsi, one_of(kTsi),
          "What makes two packets the same chunk. packet: job number and packet number, which is exact; "
          "opaque: the set and who has contributed, as the original switch does, for clients whose packet "
          "numbers mean nothing. At most 32 members with opaque.")),
      of_sessions(list_key("members", &JobSection::members, member_schema())),
  };
}

}  // namespace tally

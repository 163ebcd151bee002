#include "config/checks.h"

#include "config/config_schema.h"
#include "config/dialects.h"
#include "config/units.h"
#include "jobs/layout.h"
#include "tally/mix64.h"
#include "tally/mtu.h"

namespace tally::config {
namespace {

constexpr std::uint16_t kMinMtuIpv6 = 1280;  // RFC 8200

void check_box(Checking& c) {
  const BoxSection& box = c.config.box;
  if (!c.sound({"box.ipv4", "box.ipv6"})) return;
  if (!box.ipv4 && !box.ipv6 && c.places.written("box")) {
    c.error("box", "the box has no address", "write ipv4: 10.0.0.1/24 or ipv6: fd00::1/64");
  }
  if (!box.ipv6) return;
  if (box.ipv6->address[0] == 0xfe && (box.ipv6->address[1] & 0xc0) == 0x80) {
    c.error("box.ipv6",
            shown(to_text(*box.ipv6)) +
                " is a link-local address: it does not say on which interface, and workers refuse it",
            "give the box a global or a unique local address, such as fd00::1/64");
  }
  for (std::size_t i = 0; i < c.config.ports.size(); ++i) {
    const std::string path = path_of("ports", i, "mtu");
    if (!c.places.sound(path) || c.config.ports[i].mtu >= kMinMtuIpv6) continue;
    c.error(path, "IPv6 needs an mtu of at least 1280", "raise it, or remove box.ipv6");
  }
}

void check_memory(Checking& c) {
  const DataplaneSection& d = c.config.dataplane;
  if (!c.sound({"dataplane.slots", "dataplane.memory"})) return;
  if (d.slots > d.memory) {
    const char* const path = c.places.written("dataplane.slots") ? "dataplane.slots" : "dataplane.memory";
    c.error(
        path,
        "slots (" + size_text(d.slots) + ") are part of memory (" + size_text(d.memory) + ") and exceed it",
        "raise memory or lower slots");
    return;
  }
  if (d.shared.slots == 0 || !c.sound({"dataplane.shared.slots", "dataplane.shared.server"}) ||
      d.shared.server <= d.memory - d.slots) {
    return;
  }
  const std::string path = "dataplane.shared.server";
  c.error(path,
          "the server's memory (" + size_text(d.shared.server) + ") and slots (" + size_text(d.slots) +
              ") are parts of memory (" + size_text(d.memory) + ") and exceed it",
          "raise memory, or lower server or slots");
}

// The default suits MTU 1500, IPv4 and the default of shared slots; elsewhere it is lowered rather than
// refused.
void lower_default_elements(Checking& c) {
  std::uint32_t mtu = 0;
  for (const auto& port : c.config.ports) mtu = std::max<std::uint32_t>(mtu, port.mtu);
  const std::uint16_t most =
      elements_that_fit(mtu, c.config.box.ipv4.has_value() || !c.config.box.ipv6.has_value());
  const bool known = !c.config.ports.empty() && most != 0;
  auto& shared = c.config.dataplane.shared.elements;
  if (known && !c.places.written("dataplane.shared.elements")) shared = std::min(shared, most);
  for (const auto& [i, job] : jobs_of<NativeConfig>(c.config)) {
    if (i < c.first || c.places.written(path_of("jobs", i, "elements"))) continue;
    if (known) job->elements = std::min(job->elements, most);
    if (shares_slots(job->discipline)) job->elements = std::min(job->elements, shared);
  }
}

}  // namespace

std::string path_of(const char* list, std::size_t index, const char* key) {
  return std::string(list) + "[" + std::to_string(index) + "]." + key;
}

std::string holder_text(Position at) { return at.line == 0 ? "another" : "line " + std::to_string(at.line); }

void check_unique(Checking& c, std::map<std::string, Position>& seen, const std::string& value,
                  const std::string& path, Position at, const std::string& what, const std::string& help) {
  const auto [first, is_new] = seen.emplace(value, at);
  if (is_new) return;
  c.report.error(at, path, {what + " is taken: " + holder_text(first->second) + " has it already", help});
}

std::uint64_t slot_lines_per_core(const DataplaneSection& dataplane) noexcept {
  return dataplane.slots / 64 / std::max<std::size_t>(dataplane.cores.size(), 1);
}

std::uint64_t own_lines_per_core(const DataplaneSection& dataplane) noexcept {
  return slot_lines_per_core(dataplane) -
         jobs::shared_lines(shared_entries_per_core(dataplane), dataplane.shared.elements);
}

std::uint32_t shared_entries_per_core(const DataplaneSection& dataplane) noexcept {
  const auto cores = static_cast<std::uint32_t>(std::max<std::size_t>(dataplane.cores.size(), 1));
  return dataplane.shared.slots / cores;
}

std::uint64_t server_lines_per_core(const DataplaneSection& dataplane) noexcept {
  if (dataplane.shared.slots == 0) return 0;
  return dataplane.shared.server / 64 / std::max<std::size_t>(dataplane.cores.size(), 1);
}

bool has_embedded_server(const Config& config) noexcept {
  const auto jobs = jobs_of<NativeConfig>(config);
  const auto has = [&](ServerKind kind) {
    return std::ranges::any_of(jobs, [kind](const auto& job) { return job.second->server == kind; });
  };
  return !has(ServerKind::kExternal) || has(ServerKind::kEmbedded);
}

Mac box_mac(const Config& config) {
  if (config.box.mac) return *config.box.mac;
  std::uint64_t hash = 0;
  for (const char c : config.instance) hash = mix64(hash * 257 + static_cast<unsigned char>(c) + 1);
  Mac mac{0x02};
  for (std::size_t i = 1; i < mac.size(); ++i) mac[i] = static_cast<std::uint8_t>(hash >> (8 * i));
  return mac;
}

members::MembershipOptions member_options(const Config& config) {
  return {.box_mac = box_mac(config),
          .shards = static_cast<std::uint8_t>(config.dataplane.cores.size()),
          .slot_lines = static_cast<std::uint32_t>(slot_lines_per_core(config.dataplane)),
          .shared_entries = shared_entries_per_core(config.dataplane),
          .shared_elements = config.dataplane.shared.elements,
          .homes_move = !config.fleet.endpoints.empty()};
}

void complete_defaults(Checking& c) {
  complete_racks(c);
  lower_default_elements(c);
  for (const auto& [i, job] : jobs_of<NativeConfig>(c.config)) {
    if (i >= c.first && shares_slots(job->discipline) && !c.places.written(path_of("jobs", i, "server")))
      job->server = ServerKind::kEmbedded;
  }
}

void check_config(Checking& c) {
  check_box(c);
  check_memory(c);
  check_ports(c);
  check_jobs(c);
  each_dialect([&c](const auto& usual) { check_all(c, usual); });
  check_boxes(c);
  check_racks(c);
  check_slots(c);
  check_profile(c);
  check_fleet(c);
}

namespace {

constexpr std::array<Choice<LogSection::Level>, 5> kLevels{{{"trace", LogSection::Level::kTrace},
                                                            {"debug", LogSection::Level::kDebug},
                                                            {"info", LogSection::Level::kInfo},
                                                            {"warning", LogSection::Level::kWarning},
                                                            {"error", LogSection::Level::kError}}};

const Schema<LogSection>& log_schema() {
  static const Schema<LogSection> schema{
      at_once(value_key("level", &LogSection::level, one_of(kLevels),
                        "The least important messages to be printed.")),
  };
  return schema;
}

}  // namespace

const Schema<Config>& config_schema() {
  static const Schema<Config> schema{
      value_key(
          "instance", &Config::instance, name_up_to(kMaxInstanceBytes),
          "Tells several daemons on one host apart: part of the names of their sockets and files, and of the "
          "box's MAC."),
      section_key("dataplane", &Config::dataplane, dataplane_schema()),
      [] {
        auto key = section_key("box", &Config::box, box_schema());
        key.required = true;
        return key;
      }(),
      [] {
        auto key = list_key("ports", &Config::ports, port_schema());
        key.required = true;
        return key;
      }(),
      section_key("control", &Config::control, control_schema()),
      section_key("fleet", &Config::fleet, fleet_schema()),
      section_key("planner", &Config::planner, planner_schema()),
      section_key("log", &Config::log, log_schema()),
      list_key("jobs", &Config::jobs, job_schema(), read_job),
  };
  return schema;
}

std::vector<ReferenceRow> reference_rows() {
  std::vector<ReferenceRow> rows;
  describe_section(config_schema(), "", rows);
  return rows;
}

namespace {

constexpr std::array<Choice<bool>, 2> kMode{{{"inline", false}, {"one-arm", true}}};

template <class T>
ValueType<T> address(std::string form, Parsed<T> (*parse)(const std::string&)) {
  return scalar_type<T>(std::move(form), parse, [](const T& value) { return to_text(value); });
}

}  // namespace

const Schema<BoxSection>& box_schema() {
  static const Schema<BoxSection> schema{
      value_key(
          "ipv4", &BoxSection::ipv4,
          or_word("none", address<Cidr4>("an address such as 10.0.0.1/24", parse_cidr4)),
          "The box's own address, to which workers send, and its network. At least one of ipv4 and ipv6 "
          "is needed."),
      value_key("ipv6", &BoxSection::ipv6,
                or_word("none", address<Cidr6>("an address such as fd00::1/64", parse_cidr6)),
                "The same for IPv6."),
      value_key("mac", &BoxSection::mac,
                or_word("auto", address<Mac>("a MAC such as 02:00:00:00:00:01", parse_mac)),
                "The box's MAC on all its ports. auto: 02 and 40 bits made of the instance name."),
      value_key(
          "mode", &BoxSection::one_arm, one_of(kMode),
          "inline: the workers hang on the box's ports, and the box is their switch. one-arm: the box hangs "
          "on a switch, answers for its own address and forwards nothing."),
  };
  return schema;
}

}  // namespace tally::config

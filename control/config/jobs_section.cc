#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <string>

#include "config/checks.h"
#include "config/config_schema.h"
#include "config/dialects.h"
#include "config/units.h"
#include "members/job_config.h"
#include "tally/ids.h"
#include "tally/mtu.h"
#include "tally/wire.h"

namespace tally::config {
namespace {

constexpr std::array<Choice<ResultsMode>, 2> kResults{
    {{"unicast", ResultsMode::kUnicast}, {"multicast", ResultsMode::kMulticast}}};
constexpr std::array<Choice<Discipline>, 4> kDisciplines{{{"pool", Discipline::kPool},
                                                          {"shared", Discipline::kShared},
                                                          {"fcfs", Discipline::kFcfs},
                                                          {"preemptive", Discipline::kPreemptive}}};
constexpr std::array<Choice<Decay>, 3> kDecays{
    {{"silence", Decay::kSilence}, {"none", Decay::kNone}, {"denial", Decay::kDenial}}};
constexpr std::array<Choice<ServerKind>, 3> kServers{
    {{"none", ServerKind::kNone}, {"embedded", ServerKind::kEmbedded}, {"external", ServerKind::kExternal}}};

ValueType<std::string> token_path() {
  return scalar_type<std::string>(
      "the path of a file, or none",
      [](const std::string& text) -> Parsed<std::string> {
        if (text.empty()) return complain("the path is empty");
        return text == "none" ? std::string() : text;
      },
      [](const std::string& path) { return path.empty() ? "none" : yaml_text(path); });
}

ValueType<std::uint32_t> window() {
  ValueType<std::uint32_t> type = whole_number_in<std::uint32_t>(members::kMinWindow, members::kMaxWindow);
  type.form = "a power of two from " + std::to_string(members::kMinWindow) + " to " +
              std::to_string(members::kMaxWindow);
  type.read = [read = type.read](const YamlNode& node, const std::string& path, std::uint32_t& out,
                                 Reading& reading) {
    std::uint32_t value = 0;
    if (!read(node, path, value, reading)) return false;
    if (!std::has_single_bit(value)) {
      reading.report.error(
          node.at, path,
          {node.text + " is not a power of two",
           "write " + std::to_string(std::bit_floor(value)) + " or " + std::to_string(std::bit_ceil(value))});
      return false;
    }
    out = value;
    return true;
  };
  return type;
}

// The wire carries whole milliseconds.
ValueType<TimeNs> lease() {
  ValueType<TimeNs> type = time_between(members::kMinLease, members::kMaxLease);
  type.read = [read = type.read](const YamlNode& node, const std::string& path, TimeNs& out,
                                 Reading& reading) {
    TimeNs value = 0;
    if (!read(node, path, value, reading)) return false;
    if (value % kMillisecond != 0) {
      reading.report.error(node.at, path,
                           {node.text + " is not a whole number of milliseconds",
                            "write " + std::to_string(value / kMillisecond) + "ms"});
      return false;
    }
    out = value;
    return true;
  };
  return type;
}

const Schema<members::StragglerPolicy>& straggler_schema() {
  static const Schema<members::StragglerPolicy> schema{
      required_key("timeout", &members::StragglerPolicy::timeout,
                   time_between(members::kMinStraggler, members::kMaxStraggler), ""),
      required_key("min", &members::StragglerPolicy::least, whole_number_in<std::uint16_t>(1, kMaxRanks), ""),
  };
  return schema;
}

// `off`, or both keys of the map.
ValueType<std::optional<members::StragglerPolicy>> stragglers() {
  ValueType<members::StragglerPolicy> map;
  map.form = "{timeout: a time from 1ms to 10m, min: a whole number from 1 to 64}";
  const auto no_map =
      scalar_type<members::StragglerPolicy>("off, or {timeout: 50ms, min: 3}",
                                            [](const std::string& text) -> Parsed<members::StragglerPolicy> {
                                              return complain(shown(text) + " is not a value of this key");
                                            },
                                            {});
  map.read = [no_map](const YamlNode& node, const std::string& path, members::StragglerPolicy& out,
                      Reading& reading) {
    if (node.kind != YamlNode::Kind::kMap) return no_map.read(node, path, out, reading);
    members::StragglerPolicy seen;
    read_section(node, path, straggler_schema(), seen, reading);
    const bool sound = reading.places.sound(path) && reading.places.sound(path + ".timeout") &&
                       reading.places.sound(path + ".min") && has_key(node, "timeout") &&
                       has_key(node, "min");
    if (sound) out = seen;
    return sound;
  };
  map.print = [](const members::StragglerPolicy& policy) {
    return "{timeout: " + duration_text(policy.timeout) + ", min: " + std::to_string(policy.least) + "}";
  };
  ValueType<std::optional<members::StragglerPolicy>> type = or_word("off", std::move(map));
  return type;
}

const Schema<members::Quota>& quota_schema() {
  static const Schema<members::Quota> schema{
      value_key(
          "reserved", &members::Quota::reserved_ppm, percentage(),
          "Share of the shared slots that is guaranteed, of the slots of every data core. The jobs' shares "
          "add up to 100% at most."),
      value_key(
          "weight", &members::Quota::weight, whole_number_in<std::uint32_t>(1, members::kMaxWeight),
          "Weight in the division of the shared slots among the jobs that want more. What a job leaves, "
          "the others take."),
      value_key(
          "cap", &members::Quota::cap_ppm, percentage(),
          "Share of the shared slots never to be exceeded, of the slots of every data core; at least one "
          "slot on each."),
  };
  return schema;
}

// Dumped for the one discipline that takes it, so that the dump of any job can be read again.
SchemaKey<JobSection> decay_key() {
  SchemaKey<JobSection> key = value_key(
      "decay", &JobSection::decay, one_of(kDecays),
      "Only with discipline preemptive: what lowers the priority of a slot that is held. silence: halved for "
      "each time-out in which nothing came for it; denial: halved whenever it denies another; none: "
      "nothing.");
  key.dump = [dump = key.dump](const JobSection& job, const std::string& indent, std::string& out) {
    if (job.discipline == Discipline::kPreemptive) dump(job, indent, out);
  };
  return key;
}

// Dumped for external servers only, for the same reason.
SchemaKey<JobSection> servers_key() {
  SchemaKey<JobSection> key =
      value_key("servers", &JobSection::servers, whole_number_in<std::uint8_t>(1, kMaxServers),
                "Only with server: external: how many servers the job has. Server i sums the chunks whose "
                "number leaves the remainder i.");
  key.dump = [dump = key.dump](const JobSection& job, const std::string& indent, std::string& out) {
    if (job.server == ServerKind::kExternal) dump(job, indent, out);
  };
  return key;
}

// A session has as many as members, and need not say so.
SchemaKey<JobSection> workers_key() {
  SchemaKey<JobSection> key =
      value_key("workers", &JobSection::workers, whole_number_in<std::uint16_t>(1, kMaxRanks),
                "How many ranks the job has; it starts when all have joined.",
                "(required; of a session as many as members)");
  key.required = true;
  key.needless = [](const JobSection& job) { return is_session(job) || !job.members.empty(); };
  return key;
}

Schema<JobSection> native_keys() {
  return {
      required_key("name", &JobSection::name, name_up_to(kMaxNameBytes),
                   "What the workers call it (TALLY_JOB)."),
      value_key(
          "token_file", &JobSection::token_file, token_path(),
          "Holds the secret that a worker must show, at most 64 bytes; a line end behind it does not count. "
          "Relative to this file. none: whoever reaches the box may join."),
      workers_key(),
      value_key(
          "discipline", &JobSection::discipline, one_of(kDisciplines),
          "pool: the job has slots of its own, 2 x window of them. The others share dataplane.shared.slots; "
          "what finds no slot is summed by the server. shared: any free slot, new chunks take the place of "
          "stuck ones; fcfs and preemptive, for comparison: a slot by hash, kept by who came first or "
          "taken by the higher priority."),
      decay_key(),
      value_key(
          "elements", &JobSection::elements, element_count(),
          "Most values in a packet; at most what the ports' MTU carries: 352 (IPv6: 336) at 1500, 2224 at "
          "9000, and what a shared slot holds. A default that does not fit is lowered.",
          "352"),
      value_key(
          "window", &JobSection::window, window(),
          "Most chunks a worker may have in flight. When slots are short, control gives the largest power "
          "of two that fits."),
      value_key(
          "results", &JobSection::results, one_of(kResults),
          "unicast: a copy for each worker; multicast: one frame per port, which the workers' network must "
          "deliver."),
      value_key("priority", &JobSection::priority, whole_number_in<std::uint8_t>(0, members::kMaxPriority),
                "The highest priority its packets may carry. Its class, 0 to 3, is priority / 64: a higher "
                "class takes shared slots from a lower one. A job that does not fit takes slot memory from "
                "pools of lower priority."),
      section_key("quota", &JobSection::quota, quota_schema()),
      value_key(
          "server", &JobSection::server, one_of(kServers),
          "Where contributions without a slot are summed. embedded: on the data core that owns the slot; "
          "external: by programs of their own (tally-ps), which join the job as its workers do. Jobs of the "
          "discipline pool have and need none.",
          "(none with pool, else embedded)"),
      servers_key(),
      value_key("lease", &JobSection::lease, lease(),
                "A worker silent for so long is dead, and the others are told so."),
      value_key(
          "stragglers", &JobSection::stragglers, stragglers(),
          "off: every sum waits for all workers. Else a sum that was begun timeout ago and has the values of "
          "at "
          "least min workers is sent without the others, marked INCOMPLETE with the ranks that are in it. "
          "Only with discipline pool. Workers that stay behind for more than 2 x window sums fail."),
  };
}

bool native_only(const SchemaKey<JobSection>& key) {
  return std::any_of(kNativeKeys.begin(), kNativeKeys.end(),
                     [&](const DialectKey& only) { return only.key == key.name; });
}

}  // namespace

const Schema<JobSection>& job_schema() {
  static const Schema<JobSection> schema = [] {
    Schema<JobSection> keys = native_keys();
    for (auto& key : keys) {
      if (!native_only(key)) continue;
      // A session's dump has none of them, so that it can be read again.
      key.dump = [dump = key.dump](const JobSection& job, const std::string& indent, std::string& out) {
        if (!is_session(job)) dump(job, indent, out);
      };
    }
    std::ranges::move(session_keys(), std::back_inserter(keys));
    return keys;
  }();
  return schema;
}

namespace {

void check_names(Checking& c) {
  std::map<std::string, std::uint32_t> seen;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const std::string path = path_of("jobs", i, "name");
    const Position at = c.places.of(path);
    if (!c.places.sound(path)) continue;
    const auto [first, is_new] = seen.emplace(c.config.jobs[i].name, at.line);
    if (is_new) continue;
    c.report.error(at, path,
                   {"the name " + c.config.jobs[i].name + " is taken: line " + std::to_string(first->second) +
                        " has it already",
                    "choose another; workers find their job by its name"});
  }
}

struct MtuRange {
  std::uint16_t smallest = 0;
  std::uint16_t largest = 0;
  std::string smallest_port{};
};

// Empty range: not known, because a port is wrong or there is none.
MtuRange mtu_range(const Checking& c) {
  MtuRange range;
  for (std::size_t i = 0; i < c.config.ports.size(); ++i) {
    const PortSection& port = c.config.ports[i];
    if (!c.places.sound(path_of("ports", i, "mtu"))) return {};
    range.largest = std::max(range.largest, port.mtu);
    if (range.smallest != 0 && range.smallest <= port.mtu) continue;
    range.smallest = port.mtu;
    range.smallest_port = port.name;
  }
  return range;
}

void check_elements(Checking& c) {
  const MtuRange mtu = mtu_range(c);
  if (mtu.largest == 0 || !c.places.sound("box.ipv4") || !c.places.sound("box.ipv6")) return;
  const bool ipv4 = c.config.box.ipv4.has_value() || !c.config.box.ipv6.has_value();
  const std::uint16_t most = elements_that_fit(mtu.largest, ipv4);
  const std::uint16_t most_there = elements_that_fit(mtu.smallest, ipv4);
  const auto too_large = [&](const std::string& path, std::uint16_t elements) {
    c.report.error(c.places.of(path), path,
                   {std::to_string(elements) + " elements do not fit an " + (ipv4 ? "IPv4" : "IPv6") +
                        " packet of " + std::to_string(mtu.largest) + " bytes, the largest mtu of the ports",
                    "write at most " + std::to_string(most) + ", or raise mtu (9000 carries 2224)"});
  };
  const SharedSection& shared = c.config.dataplane.shared;
  const std::string shared_path = "dataplane.shared.elements";
  if (shared.slots != 0 && shared.elements > most && c.places.sound(shared_path))
    too_large(shared_path, shared.elements);
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const std::string path = path_of("jobs", i, "elements");
    const std::uint16_t elements = c.config.jobs[i].elements;
    if (!c.places.sound(path) || is_session(c.config.jobs[i])) continue;
    const std::string size = std::to_string(elements) + " elements";
    if (elements > most) {
      too_large(path, elements);
    } else if (elements > most_there) {
      c.report.warning(
          c.places.of(path), path,
          {size + " do not fit port " + mtu.smallest_port + " (mtu " + std::to_string(mtu.smallest) +
               "): a worker there brings the whole job down to " + std::to_string(most_there),
           "give all ports of the job the same mtu"});
    }
  }
}

}  // namespace

void check_jobs(Checking& c) {
  const auto& jobs = c.config.jobs;
  if (jobs.empty() && c.places.sound("jobs")) {
    c.report.warning(c.places.of("jobs"), "jobs",
                     {"no job is declared: there is nothing to sum",
                      "add one: - {name: demo, workers: 4, token_file: none}"});
  }
  if (jobs.size() > kMaxJobs) {
    const std::string path = "jobs[" + std::to_string(kMaxJobs) + "]";
    c.report.error(
        c.places.of(path), path,
        {"there are " + std::to_string(jobs.size()) + " jobs; a box has room for " + std::to_string(kMaxJobs),
         "remove the rest"});
  }
  check_names(c);
  check_elements(c);
}

// What the dialect of a job asks of its other keys.

namespace {

void refuse(Checking& c, const std::string& path, std::string message, std::string help) {
  c.report.error(c.places.of(path), path, {std::move(message), std::move(help)});
}

void check_native(Checking& c, std::size_t job) {
  for (const DialectKey& only : kSessionKeys) {
    const std::string key(only.key);
    const std::string path = path_of("jobs", job, key.c_str());
    if (!c.places.written(path)) continue;
    refuse(c, path, key + " belongs to the dialect switchml: " + std::string(only.why),
           "write dialect: switchml, or remove it");
  }
}

void check_switchml(Checking& c, std::size_t job) {
  for (const DialectKey& only : kNativeKeys) {
    const std::string key(only.key);
    const std::string path = path_of("jobs", job, key.c_str());
    if (!c.places.written(path)) continue;
    refuse(c, path, key + " belongs to the dialect native: " + std::string(only.why), "remove it");
  }
  if (!c.config.box.ipv4 && c.places.sound("box.ipv4")) {
    refuse(c, path_of("jobs", job, "dialect"),
           "SwitchML's clients know only IPv4, and the box has no such address",
           "write box: {ipv4: 10.0.0.1/24}");
  }
}

}  // namespace

void check_dialects(Checking& c) {
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    if (!c.places.sound(path_of("jobs", i, "dialect"))) continue;
    is_session(c.config.jobs[i]) ? check_switchml(c, i) : check_native(c, i);
  }
  check_sessions(c);
}

}  // namespace tally::config

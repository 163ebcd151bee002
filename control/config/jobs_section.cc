#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <string>
#include <utility>

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
  return but_not(type, [](std::uint32_t value, const std::string& text) -> std::optional<Complaint> {
    if (std::has_single_bit(value)) return std::nullopt;
    return Complaint{text + " is not a power of two", "write " + std::to_string(std::bit_floor(value)) +
                                                          " or " + std::to_string(std::bit_ceil(value))};
  });
}

// The wire carries whole milliseconds.
ValueType<TimeNs> lease() {
  return but_not(time_between(members::kMinLease, members::kMaxLease),
                 [](TimeNs value, const std::string& text) -> std::optional<Complaint> {
                   if (value % kMillisecond == 0) return std::nullopt;
                   return Complaint{text + " is not a whole number of milliseconds",
                                    "write " + std::to_string(value / kMillisecond) + "ms"};
                 });
}

const Schema<members::StragglerPolicy>& straggler_schema() {
  static const Schema<members::StragglerPolicy> schema{
      required_key("timeout", &members::StragglerPolicy::timeout,
                   time_between(members::kMinStraggler, members::kMaxStraggler), ""),
      required_key("min", &members::StragglerPolicy::least, whole_number_in<std::uint16_t>(1, kMaxRanks), ""),
  };
  return schema;
}

const Schema<members::AdmitPolicy>& admit_schema() {
  static const Schema<members::AdmitPolicy> schema{
      value_key("groups", &members::AdmitPolicy::groups,
                whole_number_in<std::uint16_t>(1, members::kMaxGroups), ""),
      value_key("idle", &members::AdmitPolicy::idle, time_between(members::kMinIdle, members::kMaxIdle), ""),
  };
  return schema;
}

// `off`, or a map with these keys. example: such a map.
template <class T>
ValueType<std::optional<T>> off_or(const Schema<T>& schema, const std::string& example, std::string form,
                                   std::function<std::string(const T&)> print) {
  const auto no_map = scalar_type<T>("off, or " + example,
                                     [](const std::string& text) -> Parsed<T> {
                                       return complain(shown(text) + " is not a value of this key");
                                     },
                                     {});
  const auto read = [no_map, &schema](const Written& w) -> std::optional<T> {
    if (w.node.kind != YamlNode::Kind::kMap) return no_map.read(w);
    T seen;
    read_section(w, schema, seen);
    const Places& places = w.reading.places;
    const bool sound =
        places.sound(w.path) && std::ranges::all_of(schema, [&](const SchemaKey<T>& key) {
          return places.sound(w.path + "." + key.name) && (!key.required || has_key(w.node, key.name));
        });
    return sound ? std::optional(seen) : std::nullopt;
  };
  return or_word<T>("off", {std::move(form), read, std::move(print)});
}

ValueType<std::optional<members::StragglerPolicy>> stragglers() {
  return off_or<members::StragglerPolicy>(
      straggler_schema(), "{timeout: 50ms, min: 3}",
      "{timeout: a time from 1ms to 10m, min: a whole number from 1 to 64}",
      [](const members::StragglerPolicy& policy) {
        return "{timeout: " + duration_text(policy.timeout) + ", min: " + std::to_string(policy.least) + "}";
      });
}

ValueType<std::optional<members::AdmitPolicy>> admit() {
  return off_or<members::AdmitPolicy>(
      admit_schema(), "{groups: 16, idle: 1m}",
      "{groups: a whole number from 1 to " + std::to_string(members::kMaxGroups) +
          " (16), idle: a time from 1s to 24h (1m)}",
      [](const members::AdmitPolicy& policy) {
        return "{groups: " + std::to_string(policy.groups) + ", idle: " + duration_text(policy.idle) + "}";
      });
}

const Schema<members::Quota>& quota_schema() {
  static const Schema<members::Quota> schema{
      value_key("reserved", &members::Quota::reserved_ppm, percentage(),
                "Share of the shared slots that is guaranteed, of the slots of every data core. The jobs' "
                "shares add up to 100% at most."),
      value_key("weight", &members::Quota::weight, whole_number_in<std::uint32_t>(1, members::kMaxWeight),
                "Weight in the division of the shared slots among the jobs that want more. What a job "
                "leaves, the others take."),
      value_key("cap", &members::Quota::cap_ppm, percentage(),
                "Share of the shared slots never to be exceeded, of the slots of every data core; at least "
                "one slot on each."),
  };
  return schema;
}

// Of a job of racks it follows from another key.
SchemaKey<JobConfig> dumped_without_racks(SchemaKey<JobConfig> key) {
  const auto follows = [](const JobConfig& job) {
    const auto* const native = std::get_if<NativeConfig>(&job);
    return native != nullptr && native->racks.has_value();
  };
  key.dump = [follows, dump = key.dump](const JobConfig& job, const std::string& indent, std::string& out) {
    if (!follows(job)) dump(job, indent, out);
  };
  key.compare = [follows, compare = key.compare](const JobConfig& a, const JobConfig& b,
                                                 const std::string& path, std::vector<std::string>& out) {
    if (!follows(a) || !follows(b)) compare(a, b, path, out);
  };
  return key;
}

// Dumped for the jobs that take it only, so that the dump of any job can be read again.
SchemaKey<NativeConfig> dumped_if(bool (*taken)(const NativeConfig&), SchemaKey<NativeConfig> key) {
  key.dump = [taken, dump = key.dump](const NativeConfig& job, const std::string& indent, std::string& out) {
    if (taken(job)) dump(job, indent, out);
  };
  return key;
}

// Words by the index of what JobConfig may hold. read_job() reads it before all other keys.
ValueType<std::size_t> dialect_type() {
  std::vector<std::string> words;
  each_dialect([&](const auto& usual) { words.emplace_back(usual.kDialect); });
  return one_of_words(words);
}

SchemaKey<JobConfig> dialect_key() {
  SchemaKey<JobConfig> key{"dialect"};
  key.describe = [](const std::string& prefix, std::vector<ReferenceRow>& rows) {
    std::string doc = "The packets the workers speak.";
    each_dialect(
        [&](const auto& usual) { doc += std::string(" ") + usual.kDialect + ": " + keys_of(usual).doc; });
    rows.push_back({member_path(prefix, "dialect"), dialect_type().form, NativeConfig::kDialect, doc});
  };
  key.dump = [](const JobConfig& job, const std::string& indent, std::string& out) {
    out += indent + "dialect: " + dialect_type().print(job.index()) + "\n";
  };
  key.read = [](const Written&, JobConfig&) {};
  return key;
}

const YamlNode* value_of(const YamlNode& map, const std::string& key) {
  const auto entry = std::ranges::find(map.entries, key, &YamlEntry::key);
  return entry == map.entries.end() ? nullptr : &entry->value;
}

}  // namespace

DialectKeys keys_of(const NativeConfig& /*usual*/) {
  using Job = NativeConfig;
  const char* const no_slots_shared = "a session has slots of its own";
  const char* const no_server = "every contribution of a session finds its slot";
  Schema<JobConfig> keys{
      job_key(at_once(required_key("name", &CommonConfig::name, name_up_to(kMaxNameBytes),
                                   "What the workers call it (TALLY_JOB)."))),
      job_key(next_generation(value_key(
                  "token_file", &Job::token_file, token_path(),
                  "Holds the secret that a worker must show, at most 64 bytes; a line end behind it "
                  "does not count. Relative to this file. none: whoever reaches the box may join.")),
              "SwitchML's clients know no token: a member is known by its addresses"),
      dumped_without_racks(job_key(next_generation(
          value_key("workers", &CommonConfig::workers, whole_number_in<std::uint16_t>(1, kMaxRanks),
                    "How many ranks the job has; it starts when all have joined.",
                    "(required; of a session as many as members, of a job of racks what racks says)")))),
      job_key(next_generation(value_key(
                  "discipline", &Job::discipline, one_of(kDisciplines),
                  "pool: the job has slots of its own, 2 x window of them. The others share "
                  "dataplane.shared.slots; what finds no slot is summed by the server. shared: any free "
                  "slot, new chunks take the place of stuck ones; fcfs and preemptive, for comparison: a "
                  "slot by hash, kept by who came first or taken by the higher priority.")),
              no_slots_shared),
      job_key(dumped_if([](const Job& job) { return job.discipline == Discipline::kPreemptive; },
                        next_generation(value_key(
                            "decay", &Job::decay, one_of(kDecays),
                            "Only with discipline preemptive: what lowers the priority of a slot that "
                            "is held. silence: halved for each time-out in which nothing came for it; "
                            "denial: halved whenever it denies another; none: nothing."))),
              no_slots_shared),
      job_key(next_generation(value_key(
                  "elements", &Job::elements, element_count(),
                  "Most values in a packet; at most what the ports' MTU carries: 352 (IPv6: 336) at 1500, "
                  "2224 at 9000, and what a shared slot holds. A default that does not fit is lowered.",
                  "352")),
              "payload says how large its packets are"),
      job_key(at_once(value_key(
                  "window", &Job::window, window(),
                  "Most chunks a worker may have in flight. When slots are short, control gives the "
                  "largest power of two that fits. While a job runs at most what its generation began "
                  "with; of a job that shares slots another one waits for the next generation.")),
              "its clients choose their window; slots says how many slots they find"),
      job_key(next_generation(value_key(
                  "results", &Job::results, one_of(kResults),
                  "unicast: a copy for each worker; multicast: one frame per port, which the workers' "
                  "network must deliver.")),
              "each member gets a frame of its own"),
      job_key(at_once(value_key(
                  "priority", &Job::priority, whole_number_in<std::uint8_t>(0, members::kMaxPriority),
                  "The highest priority its packets may carry. Its class, 0 to 3, is priority / 64: a "
                  "higher class takes shared slots from a lower one. A job that does not fit takes "
                  "slot memory from pools of lower priority.")),
              "a session neither takes slot memory from other jobs nor gives them any"),
      job_key(at_once(section_key("quota", &Job::quota, quota_schema())),
              "a session has slots of its own and none of the shared ones"),
      job_key(next_generation(value_key(
                  "server", &Job::server, one_of(kServers),
                  "Where contributions without a slot are summed. embedded: on the data core that owns "
                  "the slot; external: by programs of their own (tally-ps), which join the job as its "
                  "workers do. Jobs of the discipline pool have and need none.",
                  "(none with pool, else embedded)")),
              no_server),
      job_key(dumped_if([](const Job& job) { return job.server == ServerKind::kExternal; },
                        next_generation(value_key(
                            "servers", &Job::servers, whole_number_in<std::uint8_t>(1, kMaxServers),
                            "Only with server: external: how many servers the job has. Server i sums "
                            "the chunks whose number leaves the remainder i."))),
              no_server),
      job_key(
          next_generation(value_key(
              "boxes", &Job::boxes, boxes_type(),
              "none: this box alone sums the job. Else the addresses of all its boxes, the same list at each "
              "of them; the first is the home, which decides for all, and workers may join at any. Each box "
              "takes a part of the chunks. Only with discipline: shared and server: external.")),
          "its clients send to one box"),
      job_key(at_once(value_key("lease", &Job::lease, lease(),
                                "A worker silent for so long is dead, and the others are told so.")),
              "SwitchML's clients send no heartbeats: a session runs while it is declared"),
      job_key(at_once(value_key(
                  "stragglers", &Job::stragglers, stragglers(),
                  "off: every sum waits for all workers. Else a sum that was begun timeout ago and has "
                  "the values of at least min workers is sent without the others, marked INCOMPLETE "
                  "with the ranks that are in it. Only with discipline pool. Workers that stay behind "
                  "for more than 2 x window sums fail.")),
              "a sum of SwitchML is always of all members"),
      job_key(at_once(value_key(
                  "admit", &Job::admit, admit(),
                  "off: only this job. Else its workers may form groups, jobs named JOB/ANYTHING that need "
                  "not be declared: the first worker of one makes it, with the keys and the token of this "
                  "job and as many workers, up to this job's, as that worker says. groups: how many at a "
                  "time; idle: one in which nobody is for so long is forgotten. Not with server: external.")),
              "its members are configured"),
      job_key(at_once(value_key(
          "packet_rate", &CommonConfig::packet_rate,
          or_word("off", whole_number_in<std::uint32_t>(members::kMinPacketRate, members::kMaxPacketRate)),
          "off, or the data packets a second that the box takes from all workers and servers of the job, "
          "which data cores share evenly; the rest is dropped (packet_rate) before its values are looked "
          "at. A fuse, so that one job cannot take the box from the others: give a job a few times what it "
          "needs. A session that gets another one begins anew."))),
      job_key(at_once(value_key(
                  "bad_packet_rate", &Job::bad_packet_rate,
                  or_word("off", whole_number_in<std::uint32_t>(members::kMinBadPacketRate,
                                                                members::kMaxPacketRate)),
                  "off, or the bad packets a second that each worker may send: with wrong sums, or fields "
                  "that the protocol does not allow. Of a worker that sends more, nothing is looked at "
                  "until a second has room for one again (bad_packet_rate).")),
              "whose packet it is nothing in it proves"),
      dialect_key(),
  };
  const auto after_boxes = std::ranges::find(keys, "boxes", &SchemaKey<JobConfig>::name) + 1;
  std::vector<SchemaKey<JobConfig>> racks;
  for (SchemaKey<NativeConfig>& key : racks_keys())
    racks.push_back(job_key(std::move(key), "its clients send to one box"));
  keys.insert(after_boxes, std::make_move_iterator(racks.begin()), std::make_move_iterator(racks.end()));
  return {"docs/protocol.md.", std::move(keys)};
}

const Schema<JobConfig>& job_schema() {
  static const Schema<JobConfig> schema = [] {
    Schema<JobConfig> all;
    each_dialect([&](const auto& usual) { std::ranges::move(keys_of(usual).keys, std::back_inserter(all)); });
    return all;
  }();
  return schema;
}

void read_job(const Written& w, const Schema<JobConfig>& schema, JobConfig& job) {
  if (const YamlNode* const dialect = value_of(w.node, "dialect"); dialect != nullptr) {
    const Written at{*dialect, member_path(w.path, "dialect"), w.reading};
    w.reading.places.put(at.path, dialect->at);
    const auto index = dialect_type().read(at);
    if (!index) w.reading.places.mark_broken(at.path);
    each_dialect([&](const JobConfig& usual) {
      if (index.value_or(0) == usual.index()) job = usual;
    });
  }
  read_section(w, schema, job);
  const YamlNode* const members = value_of(w.node, "members");
  const bool counted =
      !std::holds_alternative<NativeConfig>(job) || (members != nullptr && !members->items.empty());
  if (w.node.kind == YamlNode::Kind::kMap && !counted && !has_key(w.node, "workers") &&
      !has_key(w.node, "racks"))
    report_missing(w, "workers");
}

void report_other_dialect(const Written& w, const std::string& key, const std::string& dialect,
                          const std::string& why) {
  if (!w.reading.places.sound(w.path.substr(0, w.path.rfind('.')) + ".dialect")) return;
  const bool native = dialect == NativeConfig::kDialect;
  w.error({key + " belongs to the dialect " + dialect + ": " + why,
           native ? "remove it" : "write dialect: " + dialect + ", or remove it"});
}

namespace {

void check_names(Checking& c) {
  std::map<std::string, Position> seen;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const std::string path = path_of("jobs", i, "name");
    if (!c.places.sound(path)) continue;
    const std::string& name = members::common_of(c.config.jobs[i]).name;
    check_unique(c, seen, name, path, c.places.of(path), "the name " + name,
                 "choose another; workers find their job by its name");
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
  if (mtu.largest == 0 || !c.sound({"box.ipv4", "box.ipv6"})) return;
  const bool ipv4 = c.config.box.ipv4.has_value() || !c.config.box.ipv6.has_value();
  const std::uint16_t most = elements_that_fit(mtu.largest, ipv4);
  const std::uint16_t most_there = elements_that_fit(mtu.smallest, ipv4);
  const auto too_large = [&](const std::string& path, std::uint16_t elements) {
    c.error(path,
            std::to_string(elements) + " elements do not fit an " + (ipv4 ? "IPv4" : "IPv6") + " packet of " +
                std::to_string(mtu.largest) + " bytes, the largest mtu of the ports",
            "write at most " + std::to_string(most) + ", or raise mtu (9000 carries 2224)");
  };
  const SharedSection& shared = c.config.dataplane.shared;
  const std::string shared_path = "dataplane.shared.elements";
  if (shared.slots != 0 && shared.elements > most && c.places.sound(shared_path))
    too_large(shared_path, shared.elements);
  for (const auto& [i, job] : jobs_of<NativeConfig>(c.config)) {
    const std::string path = path_of("jobs", i, "elements");
    const std::uint16_t elements = job->elements;
    if (!c.places.sound(path)) continue;
    const std::string size = std::to_string(elements) + " elements";
    if (elements > most) {
      too_large(path, elements);
    } else if (elements > most_there) {
      c.warning(path,
                size + " do not fit port " + mtu.smallest_port + " (mtu " + std::to_string(mtu.smallest) +
                    "): a worker there brings the whole job down to " + std::to_string(most_there),
                "give all ports of the job the same mtu");
    }
  }
}

}  // namespace

void check_jobs(Checking& c) {
  const auto& jobs = c.config.jobs;
  if (jobs.empty() && c.places.sound("jobs")) {
    c.warning("jobs", "no job is declared: there is nothing to sum",
              "add one: - {name: demo, workers: 4, token_file: none}");
  }
  if (jobs.size() > kMaxJobs) {
    const std::string path = "jobs[" + std::to_string(kMaxJobs) + "]";
    c.error(
        path,
        "there are " + std::to_string(jobs.size()) + " jobs; a box has room for " + std::to_string(kMaxJobs),
        "remove the rest");
  }
  check_names(c);
  check_elements(c);
}

}  // namespace tally::config

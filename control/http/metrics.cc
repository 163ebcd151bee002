#include "http/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <initializer_list>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "api/lateness.h"
#include "api/results.h"
#include "tally/counters.h"
#include "tally/discipline.h"

namespace tally::http {
namespace {

using api::CoreCounts;
using api::JobCounts;
using api::PortCounts;
using api::Snapshot;
using Type = prometheus::MetricType;
using Label = prometheus::ClientMetric::Label;
using Labels = std::vector<Label>;

constexpr double kNanosecond = 1e-9;
constexpr double kGbit = 1e9;
constexpr std::size_t kMostLoads = 64;  // a large cluster has thousands of links

template <class N>
double number(N value) noexcept {
  return static_cast<double>(value);
}
double flag(bool value) noexcept { return value ? 1.0 : 0.0; }

struct Family {
  prometheus::MetricFamily made{};
  std::string_view labels{};  // their names, for people
};

// The families in the order of the page.
class Sheet {
 public:
  // What is added goes to it until the next one opens.
  void open(Type type, std::string_view name, std::string_view labels, std::string_view help) {
    families_.push_back({{std::string(name), std::string(help), type, {}}, labels});
  }
  void add(Labels labels, double value) {
    prometheus::ClientMetric one;
    one.label = std::move(labels);
    // Both, so that the type alone decides which is read.
    one.counter.value = value;
    one.gauge.value = value;
    families_.back().made.metric.push_back(std::move(one));
  }
  void one(Type type, std::string_view name, std::string_view help, double value) {
    open(type, name, "", help);
    add({}, value);
  }
  [[nodiscard]] const std::vector<Family>& families() const noexcept { return families_; }

 private:
  std::vector<Family> families_{};
};

// Rows of one name are one job: it was taken back and made again. What it is now stands in the one that is declared, or
// else the last.
struct NamedJob {
  const JobCounts* now = nullptr;
  std::vector<const JobCounts*> all{};
};

std::vector<NamedJob> jobs_by_name(const Snapshot& box) {
  std::map<std::string_view, NamedJob> found;
  for (const JobCounts& job : box.jobs) {
    NamedJob& named = found[job.status.name];
    named.all.push_back(&job);
    if (named.now == nullptr || !named.now->declared) named.now = &job;
  }
  std::vector<NamedJob> out;
  out.reserve(found.size());
  for (auto& [name, job] : found) out.push_back(std::move(job));
  return out;
}

struct JobRow {
  Type type;
  std::string_view name, help;
  double (*value)(const JobCounts& job);
};

constexpr std::array kJobRows{
    JobRow{Type::Counter, "tally_job_contributions_total",
           "Contributions that were summed, in a slot or at the server.",
           [](const JobCounts& j) { return number(api::contributions_of(j.counters)); }},
    JobRow{Type::Counter, "tally_job_results_total", "Chunks whose sum is complete, whoever completed them.",
           [](const JobCounts& j) { return number(api::results_of(j)); }},
    JobRow{Type::Counter, "tally_job_repeats_total", "Results sent to one rank again.",
           [](const JobCounts& j) { return number(j.counters.of(Verdict::kRepeat)); }},
    JobRow{Type::Counter, "tally_job_relays_total",
           "Questions and answers of ranks passed on to one another.",
           [](const JobCounts& j) {
             return number(j.counters.of(Verdict::kRelay) + j.counters.of(Verdict::kTell));
           }},
    JobRow{Type::Counter, "tally_job_duplicates_total", "Contributions that were in the sum already.",
           [](const JobCounts& j) { return number(j.counters.of(Drop::kDuplicate)); }},
    JobRow{Type::Counter, "tally_job_stale_total", "Packets of chunks that were over since long.",
           [](const JobCounts& j) { return number(j.counters.of(Drop::kStale)); }},
    JobRow{Type::Counter, "tally_job_bypasses_total", "Contributions that went to the parameter server.",
           [](const JobCounts& j) { return number(j.counters.of(Verdict::kBypass)); }},
    JobRow{Type::Counter, "tally_job_evictions_total", "Shared slots that others took from the job.",
           [](const JobCounts& j) { return number(j.slots.evicted.get()); }},
    JobRow{Type::Counter, "tally_job_slots_denied_total", "Contributions that found no shared slot.",
           [](const JobCounts& j) { return number(j.slots.denied.get()); }},
    JobRow{Type::Counter, "tally_job_incomplete_total",
           "Results without everybody, after a straggler's time was over.",
           [](const JobCounts& j) { return number(j.slots.incomplete.get()); }},
    JobRow{Type::Counter, "tally_job_overflows_total",
           "Sums that left the range of 32 bits; their workers repeat them.",
           [](const JobCounts& j) { return number(j.overflows); }},
    JobRow{Type::Gauge, "tally_job_occupancy_slots", "Slots that fill now.",
           [](const JobCounts& j) { return number(j.occupancy); }},
    JobRow{Type::Gauge, "tally_job_slot_lines",
           "Lines of 64 bytes of slot memory that are the job's own, on each core.",
           [](const JobCounts& j) { return number(j.status.slots.count); }},
    JobRow{Type::Gauge, "tally_job_reserved_slots",
           "Shared slots of each core that are the job's when it wants them.",
           [](const JobCounts& j) { return number(j.status.reserved); }},
    JobRow{Type::Gauge, "tally_job_cap_slots", "Shared slots of each core that it may hold at most.",
           [](const JobCounts& j) { return number(j.status.cap); }},
    JobRow{Type::Gauge, "tally_job_priority", "The highest priority that its packets may carry.",
           [](const JobCounts& j) { return number(j.status.priority); }},
    JobRow{Type::Gauge, "tally_job_window_chunks", "Chunks that its workers may be ahead.",
           [](const JobCounts& j) { return number(j.status.window); }},
    JobRow{Type::Gauge, "tally_job_workers_expected", "Workers that the job has when it is whole.",
           [](const JobCounts& j) { return j.declared ? number(j.status.world) : 0.0; }},
    JobRow{Type::Gauge, "tally_job_workers_joined", "Workers that are there and heard of.",
           [](const JobCounts& j) { return j.declared ? number(std::popcount(j.status.live)) : 0.0; }},
    JobRow{Type::Gauge, "tally_job_running",
           "1: its packets are summed, by all or by those that have not left yet.",
           [](const JobCounts& j) {
             return flag(j.declared && (j.status.phase == members::JobPhase::kRunning ||
                                        j.status.phase == members::JobPhase::kDraining));
           }},
    JobRow{
        Type::Gauge, "tally_job_aborted", "1: it failed, and its workers have not come back.",
        [](const JobCounts& j) { return flag(j.declared && j.status.phase == members::JobPhase::kAborted); }},
};

struct PortRow {
  Type type;
  std::string_view name, help;
  double (*value)(const PortCounts& port);
};

constexpr std::array kPortRows{
    PortRow{Type::Gauge, "tally_port_link_up", "1: there is a link.",
            [](const PortCounts& p) { return flag(p.link_up); }},
    PortRow{Type::Counter, "tally_port_received_packets_total", "Frames taken from the port.",
            [](const PortCounts& p) { return number(p.rx_packets); }},
    PortRow{Type::Counter, "tally_port_received_bytes_total", "Their bytes, from the Ethernet header on.",
            [](const PortCounts& p) { return number(p.rx_bytes); }},
    PortRow{Type::Counter, "tally_port_sent_packets_total", "Frames that the port took.",
            [](const PortCounts& p) { return number(p.tx_packets); }},
    PortRow{Type::Counter, "tally_port_sent_bytes_total", "Their bytes.",
            [](const PortCounts& p) { return number(p.tx_bytes); }},
    PortRow{Type::Counter, "tally_port_receive_missed_total",
            "Frames that came and found the port's queue full.",
            [](const PortCounts& p) { return number(p.rx_missed); }},
    PortRow{Type::Counter, "tally_port_receive_errors_total",
            "Frames that came broken, as the driver counts.",
            [](const PortCounts& p) { return number(p.rx_errors); }},
    PortRow{Type::Counter, "tally_port_receive_no_buffer_total",
            "Frames that came and found no packet buffer.",
            [](const PortCounts& p) { return number(p.rx_no_mbuf); }},
    PortRow{Type::Counter, "tally_port_send_errors_total", "Frames that the driver could not send.",
            [](const PortCounts& p) { return number(p.tx_errors); }},
};

// By the names of daemon/counters_report.cc.
struct CoreRow {
  Type type;
  std::string_view of, name, help;
};

constexpr std::array kCoreRows{
    CoreRow{Type::Counter, "frames in", "tally_core_received_packets_total",
            "Frames that the core took from ports."},
    CoreRow{Type::Counter, "frames out", "tally_core_sent_packets_total", "Frames that ports took from it."},
    CoreRow{Type::Counter, "bursts", "tally_core_bursts_total", "Looks at a port that found frames."},
    CoreRow{Type::Counter, "turns", "tally_core_turns_total", "Turns of its loop."},
    CoreRow{Type::Counter, "sleeps", "tally_core_sleeps_total", "Times that it slept since nothing came."},
    CoreRow{Type::Counter, "results", "tally_core_results_total", "Chunks that it completed."},
    CoreRow{Type::Gauge, "queued for servers", "tally_core_server_queue_packets",
            "Frames that wait for external servers now."},
};

struct LostRow {
  std::string_view of, reason;
};
constexpr std::array kLostRows{
    LostRow{"lost: no mbuf", "no_buffer"},
    LostRow{"lost: transmit ring full", "transmit_ring"},
    LostRow{"lost: queue for servers full", "server_queue"},
    LostRow{"lost: core's ring full", "hand_over_ring"},
    LostRow{"lost: control's ring full", "control_ring"},
    LostRow{"lost: events", "events"},
};

double count_of(const CoreCounts& core, std::string_view name) {
  const auto found = std::ranges::find(core.counts, name, &api::NamedCount::name);
  return found == core.counts.end() ? 0.0 : number(found->value);
}

void add_box(Sheet& sheet, const Snapshot& box, std::string_view version) {
  sheet.open(Type::Gauge, "tally_build_info", "instance_name, version",
             "Always 1; the labels say what runs.");
  sheet.add({{"instance_name", box.instance}, {"version", std::string(version)}}, 1);
  sheet.one(Type::Gauge, "tally_uptime_seconds", "Since the box is ready.", number(box.uptime) * kNanosecond);
  sheet.one(Type::Gauge, "tally_ready", "1: cores turn, ports are up and nothing ends, as /readyz says.",
            flag(box.config == nullptr || api::box_problems(box).empty()));
  sheet.one(Type::Gauge, "tally_ending", "1: a drain or a shutdown is under way.", flag(box.ending));
  sheet.one(Type::Gauge, "tally_hosts", "Hosts that the switch knows.", number(box.hosts));
  sheet.one(Type::Gauge, "tally_packet_buffers_in_use", "Packet buffers that are not free now.",
            number(box.mbufs_in_use));
  sheet.one(Type::Gauge, "tally_config_last_reload_successful",
            "0: the file had errors when it was read last.", flag(box.reloads.last_good));
  sheet.one(Type::Gauge, "tally_config_last_reload_success_timestamp_seconds",
            "When the configuration in force was read, by the calendar.",
            number(box.reloads.last_good_at) * kNanosecond);
  sheet.open(Type::Counter, "tally_config_reloads_total", "result",
             "Reloads by what came of them: good, refused.");
  sheet.add({{"result", "good"}}, number(box.reloads.good));
  sheet.add({{"result", "refused"}}, number(box.reloads.refused));
  sheet.one(Type::Counter, "tally_control_turns_total", "Turns of the control thread.",
            number(box.control.turns));
  sheet.one(Type::Counter, "tally_control_cpu_seconds_total", "CPU time that they took.",
            number(box.control.all) * kNanosecond);
  sheet.one(Type::Counter, "tally_control_answers_unsent_total", "Answers to workers that found no way out.",
            number(box.answers_unsent));
}

// Absent where the box is in no fleet.
void add_fleet(Sheet& sheet, const Snapshot& box) {
  const auto one = [&](Type type, std::string_view name, std::string_view help, auto value_of) {
    sheet.open(type, name, "", help);
    if (box.fleet) sheet.add({}, value_of(*box.fleet));
  };
  one(Type::Gauge, "tally_fleet_member",
      "1: the box is registered in its fleet, and etcd answers; absent, as all of these: it is in none.",
      [](const api::FleetStatus& f) { return flag(f.standing == "member"); });
  one(Type::Gauge, "tally_fleet_away_seconds", "Since etcd has answered last, while it does not; else 0.",
      [&](const api::FleetStatus& f) {
        return f.standing == "away" && box.now > f.since ? number(box.now - f.since) * kNanosecond : 0.0;
      });
  one(Type::Gauge, "tally_fleet_boxes", "Boxes of the fleet, this one too.",
      [](const api::FleetStatus& f) { return number(f.boxes.size()); });
  one(Type::Gauge, "tally_fleet_jobs", "Jobs of the fleet.",
      [](const api::FleetStatus& f) { return number(f.jobs.size()); });
  one(Type::Gauge, "tally_fleet_has_planner", "1: somebody plans.",
      [](const api::FleetStatus& f) { return flag(!f.planner.empty()); });
  one(Type::Gauge, "tally_fleet_bad_records", "Keys of the fleet that are no records now.",
      [](const api::FleetStatus& f) { return number(f.bad_now); });
  one(Type::Counter, "tally_fleet_leases_lost_total", "Times that etcd let the box's lease end.",
      [](const api::FleetStatus& f) { return number(f.leases_lost); });
}

// What has a load, the fullest first, no more than kMostLoads.
std::vector<std::pair<std::string, double>> load_ratios(const api::PlanTopology& cluster) {
  std::vector<std::pair<std::string, double>> all;
  const auto add = [&](std::string name, double load, double rate) {
    if (load > 0) all.emplace_back(std::move(name), rate > 0 ? load / rate : 1);
  };
  const auto name_at = [&](std::uint32_t at) {
    return at < cluster.switches.size() ? cluster.switches[at].name : std::string("?");
  };
  for (const auto& box : cluster.boxes) add("box " + box.name, box.load, box.rate);
  for (const auto& server : cluster.servers) add("server " + server.name, server.load, server.rate);
  for (const auto& link : cluster.links)
    add("link " + name_at(link.from) + " to " + name_at(link.to), link.load, link.rate);
  std::ranges::stable_sort(all, std::greater(), &std::pair<std::string, double>::second);
  all.resize(std::min(all.size(), kMostLoads));
  return all;
}

// Absent where nothing is planned.
void add_plans(Sheet& sheet, const Snapshot& box) {
  static const api::PlanStatus none;
  const api::PlanStatus& plans = box.plans ? *box.plans : none;
  const auto of_jobs = [&](std::string_view name, std::string_view help, auto value_of) {
    sheet.open(Type::Gauge, name, "job", help);
    for (const api::PlannedJob& job : plans.jobs) {
      if (job.report.why_not.empty()) sheet.add({{"job", job.report.name}}, value_of(job.report) * kGbit);
    }
  };
  of_jobs("tally_plan_rate_bits",
          "Bits a second that every worker of the job can send by its plan; absent: it has none.",
          [](const plan_report::JobReport& job) { return job.rate; });
  of_jobs("tally_plan_bound_bits", "... that no plan exceeds.",
          [](const plan_report::JobReport& job) { return job.bound; });
  sheet.open(Type::Gauge, "tally_plan_load_ratio", "resource",
             "What plans of all jobs put on a box, a server or a link between switches, of what it can take; "
             "of the 64 "
             "fullest, and not of hosts' links.");
  for (auto& [name, ratio] : load_ratios(plans.topology)) sheet.add({{"resource", std::move(name)}}, ratio);
  sheet.open(Type::Counter, "tally_plan_changes_total", "why",
             "Plans that came into force, by what they were made for.");
  for (const api::PlanStatus::Changes& one : plans.changes) sheet.add({{"why", one.why}}, number(one.count));
}

template <class Reasons, class Count>
void add_drops(Sheet& sheet, const char* where, const Reasons& reasons, std::size_t first, Count count) {
  for (std::size_t i = first; i < reasons.size(); ++i)
    sheet.add({{"where", where}, {"reason", std::string(reasons[i].name)}}, count(i));
}

void add_drops(Sheet& sheet, const Snapshot& box) {
  sheet.open(Type::Counter, "tally_drops_total", "where, reason",
             "Packets of no job that were dropped: box, switch, control; docs/drops.md says what to do.");
  add_drops(sheet, "box", kDropReasons, 0, [&](std::size_t i) { return number(box.no_job.drops[i].get()); });
  add_drops(sheet, "switch", l2::kSwitchFates, l2::kFirstSwitchDrop,
            [&](std::size_t i) { return number(box.l2.fates[i].get()); });
  add_drops(sheet, "control", members::kMembershipDropReasons, 0,
            [&](std::size_t i) { return number(box.membership.drops[i]); });
}

void add_jobs(Sheet& sheet, const Snapshot& box, const std::vector<NamedJob>& jobs) {
  for (const JobRow& row : kJobRows) {
    sheet.open(row.type, row.name, "job_name", row.help);
    for (const NamedJob& job : jobs) {
      double value = 0;
      if (row.type == Type::Counter) {
        for (const JobCounts* part : job.all) value += row.value(*part);
      } else {
        value = row.value(*job.now);
      }
      sheet.add({{"job_name", job.now->status.name}}, value);
    }
  }
  // There are dozens of reasons: those that have not happened are left out.
  sheet.open(
      Type::Counter, "tally_job_drops_total", "job_name, reason",
      "Packets of the job that were dropped, of reasons that have happened; docs/drops.md says what to do.");
  for (const NamedJob& job : jobs) {
    for (std::size_t i = 0; i < kDropCount; ++i) {
      std::uint64_t count = 0;
      for (const JobCounts* part : job.all) count += part->counters.drops[i];
      if (count != 0)
        sheet.add({{"job_name", job.now->status.name}, {"reason", std::string(kDropNames[i])}},
                  number(count));
    }
  }
  std::vector<std::vector<api::RankProgress>> progress;
  progress.reserve(jobs.size());
  for (const NamedJob& job : jobs)
    progress.push_back(job.now->declared ? api::progress_of(*job.now, box.now)
                                         : std::vector<api::RankProgress>());
  const auto add_ranks = [&](auto value_of) {
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      for (std::size_t r = 0; r < progress[j].size(); ++r) {
        if (const auto value = value_of(progress[j][r]); value)
          sheet.add({{"job_name", jobs[j].now->status.name}, {"rank", std::to_string(r)}}, *value);
      }
    }
  };
  using Value = std::optional<double>;
  sheet.open(Type::Gauge, "tally_rank_late", "job_name, rank",
             "1: the others wait for this rank, or it is not heard of.");
  add_ranks([](const api::RankProgress& p) { return Value(flag(p.late)); });
  sheet.open(Type::Gauge, "tally_rank_behind_chunks", "job_name, rank",
             "How far it is behind the rank that is furthest; 0 while it moves.");
  add_ranks([](const api::RankProgress& p) { return Value(number(p.behind.value_or(0))); });
  sheet.open(Type::Gauge, "tally_rank_silence_seconds", "job_name, rank",
             "Since it was heard of last; absent: never.");
  add_ranks(
      [](const api::RankProgress& p) { return p.seen ? Value(number(*p.seen) * kNanosecond) : Value(); });
}

void add_ports(Sheet& sheet, const Snapshot& box) {
  for (const PortRow& row : kPortRows) {
    sheet.open(row.type, row.name, "port", row.help);
    for (const PortCounts& port : box.ports) sheet.add({{"port", port.name}}, row.value(port));
  }
  sheet.open(Type::Gauge, "tally_port_down", "port",
             "1: no link where there must be one; a memif port without a worker is not down.");
  for (std::size_t i = 0; i < box.ports.size(); ++i)
    sheet.add({{"port", box.ports[i].name}}, flag(api::is_down(box, i)));
}

void add_cores(Sheet& sheet, const Snapshot& box) {
  const auto each = [&](auto value_of) {
    for (std::size_t i = 0; i < box.cores.size(); ++i)
      sheet.add({{"core", std::to_string(i)}}, value_of(box.cores[i]));
  };
  for (const CoreRow& row : kCoreRows) {
    sheet.open(row.type, row.name, "core", row.help);
    each([&](const CoreCounts& core) { return count_of(core, row.of); });
  }
  sheet.open(Type::Counter, "tally_core_cycles_total", "core",
             "Cycles of the CPU's clock since the box is ready.");
  each([&](const CoreCounts& /*core*/) { return number(box.uptime_cycles); });
  sheet.open(Type::Counter, "tally_core_busy_cycles_total", "core",
             "Those of turns that moved a frame; their share of all is how busy the core is.");
  each([](const CoreCounts& core) { return number(core.busy_cycles); });
  sheet.open(Type::Gauge, "tally_core_silence_seconds", "core", "Since its last turn.");
  each([](const CoreCounts& core) { return number(core.silent) * kNanosecond; });
  sheet.open(Type::Gauge, "tally_core_stalled", "core", "1: it has done no turn for 0.1 s.");
  each([](const CoreCounts& core) { return flag(core.silent >= api::kCoreStalled); });
  sheet.open(Type::Counter, "tally_core_lost_total", "core, reason",
             "What the core had to drop since something was full.");
  for (std::size_t i = 0; i < box.cores.size(); ++i) {
    for (const LostRow& row : kLostRows)
      sheet.add({{"core", std::to_string(i)}, {"reason", std::string(row.reason)}},
                count_of(box.cores[i], row.of));
  }
}

void add_http(Sheet& sheet, const HttpCounts& http) {
  sheet.one(Type::Gauge, "tally_http_connections", "Connections of HTTP that are open.",
            number(http.connections));
  sheet.one(Type::Gauge, "tally_http_streams", "Event streams that are open.", number(http.streams));
  sheet.one(Type::Gauge, "tally_http_kept_bytes", "Bytes of answers that somebody is still reading.",
            number(http.kept_bytes));
  sheet.one(Type::Counter, "tally_http_accepted_total", "Connections that were accepted.",
            number(http.accepted));
  sheet.one(Type::Counter, "tally_http_requests_total", "Requests that were answered.",
            number(http.requests));
  sheet.open(Type::Counter, "tally_http_refused_total", "reason",
             "Clients that were not served, or not to the end.");
  for (std::size_t i = 0; i < kRefusalCount; ++i)
    sheet.add({{"reason", std::string(kRefusalNames[i])}}, number(http.refused[i]));
}

Sheet sheet_of(const Snapshot& box, std::string_view version, const HttpCounts& http) {
  Sheet sheet;
  add_box(sheet, box, version);
  add_fleet(sheet, box);
  add_plans(sheet, box);
  add_drops(sheet, box);
  add_jobs(sheet, box, jobs_by_name(box));
  add_ports(sheet, box);
  add_cores(sheet, box);
  add_http(sheet, http);
  return sheet;
}

}  // namespace

std::string metrics_text(const api::Snapshot& box, std::string_view version, const HttpCounts& http) {
  std::vector<prometheus::MetricFamily> families;
  const Sheet sheet = sheet_of(box, version, http);
  for (const Family& family : sheet.families()) {
    if (!family.made.metric.empty()) families.push_back(family.made);
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::string metrics_markdown() {
  std::string out = "| metric | kind | labels | what |\n|---|---|---|---|\n";
  const Sheet sheet = sheet_of(Snapshot(), "", HttpCounts());
  for (const Family& family : sheet.families())
    out.append("| `")
        .append(family.made.name)
        .append("` | ")
        .append(family.made.type == Type::Counter ? "counter" : "gauge")
        .append(" | ")
        .append(family.labels)
        .append(" | ")
        .append(family.made.help)
        .append(" |\n");
  return out;
}

}  // namespace tally::http

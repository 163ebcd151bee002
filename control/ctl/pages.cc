#include "ctl/pages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <utility>
#include <vector>

#include "ctl/cells.h"
#include "ctl/plan_page.h"
#include "doctor/doctor.h"
#include "text/text.h"

namespace tally::ctl {
namespace {

constexpr double kFurthestCaret = 1'000;

// "0", "0, 3": of numbers.
std::string numbers_text(const Json& list) {
  std::vector<std::string> words;
  if (list.is_array()) {
    for (const Json& one : list)
      words.push_back(one.is_number_unsigned() ? std::to_string(one.get<std::uint64_t>()) : "?");
  }
  return words.empty() ? "-" : text::listed(words);
}

std::string jobs_page(const Json& answer) {
  const Json& jobs = list_of(answer, "jobs");
  if (jobs.empty()) return "the box has no jobs: add some to its configuration and reload\n";
  text::ColumnTable table({"job", "phase", "late", "alive", "window", "contributions", "results", "drops"},
                          3);
  for (const Json& job : jobs)
    table.add({cell(job, "name"), cell(job, "phase"), numbers_text(member(job, "late")),
               cell(job, "alive") + "/" + cell(job, "workers"), cell(job, "window"),
               cell(job, "contributions"), cell(job, "results"), cell(job, "drops")});
  return table.text();
}

std::string state_of(const Json& rank, bool session) {
  if (is_true(rank, "late")) return "LATE";
  if (is_true(rank, "left")) return "left";
  return session || is_true(rank, "joined") ? "ok" : "-";
}

std::string where_of(const Json& rank) {
  const std::string address = cell(rank, "address");
  return address == "-"
             ? address
             : address + ":" + (member(rank, "udp_port").is_number() ? member(rank, "udp_port").dump() : "?");
}

// A number that is a name, without commas.
std::string plain(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_number() ? value.dump() : cell(object, key);
}

// "256 (128 are wanted)": as configured or set, for what begins anew or may grow.
std::string window_of(const Json& job) {
  const std::string wanted = cell(job, "wanted_window");
  const std::string window = cell(job, "window");
  return wanted == "-" || wanted == window ? window : window + " (" + wanted + " are wanted)";
}

// Sentences, each a line.
std::string lines_text(const Json& answer, const char* key, const char* before = "") {
  std::string out;
  for (const Json& line : list_of(answer, key))
    out += before + text::cleaned(line.is_string() ? line.get<std::string>() : "?") + "\n";
  return out;
}

// What it may send in a second, if there is a limit.
std::string quotas_text(const Json& job) {
  const std::string all = cell(job, "packet_rate");
  const std::string bad = cell(job, "bad_packet_rate");
  std::string out;
  if (all != "-") out = all + " packets";
  if (bad != "-") out += (out.empty() ? "" : ", ") + bad + " bad packets of each rank";
  return out.empty() ? out : "at most, in a second: " + out + "\n";
}

// Of a job over several boxes.
std::string boxes_text(const Json& several) {
  if (!several.is_object()) return {};
  text::ColumnTable table({"box", "role", "state"}, 3);
  for (const Json& box : list_of(several, "boxes")) {
    std::string role = is_true(box, "home") ? "home" : "";
    if (is_true(box, "here")) role += role.empty() ? "this box" : ", this box";
    table.add({cell(box, "address"), role.empty() ? "-" : role,
               is_true(box, "planned")    ? "in the plan"
               : is_true(box, "left_out") ? "LOST: job replan takes it back"
                                          : "-"});
  }
  std::string out = "\n" + table.text();
  if (is_true(several, "stand_in"))
    out += "the plan did not fit the job: all boxes have the same part of it\n";
  if (const double pages = number_of(several, "missing_pages"); pages != 0)
    out +=
        "of the plan " + text::with_commas(static_cast<std::uint64_t>(pages)) + " pages have not come yet\n";
  return out;
}

// Of a job of racks: "rack 1 of 3, ranks 8 to 15 of 20; parent 10.0.9.1: running, heard 0.3 s ago".
std::string racks_text(const Json& racks) {
  if (!racks.is_object()) return {};
  const std::size_t count = list_of(racks, "workers").size();
  if (!member(racks, "rack").is_number())
    return "parent of " + std::to_string(count) + " racks with " + plain(racks, "world") + " workers\n";
  const auto first = static_cast<std::size_t>(number_of(racks, "first"));
  const auto rack = static_cast<std::size_t>(number_of(racks, "rack"));
  const Json& all = list_of(racks, "workers");
  const std::size_t here = rack < count && all[rack].is_number() ? all[rack].get<std::size_t>() : 0;
  std::string out = "rack " + std::to_string(rack) + " of " + std::to_string(count) + ", ranks " +
                    std::to_string(first) + " to " + std::to_string(first + here - 1) + " of " +
                    plain(racks, "world") + "; parent " + cell(racks, "parent") + ": " + cell(racks, "state");
  if (member(racks, "heard_ns_ago").is_number()) out += ", heard " + ago_text(member(racks, "heard_ns_ago"));
  std::string missing;
  for (const Json& one : list_of(racks, "missing_racks"))
    missing += (missing.empty() ? "" : ", ") + one.dump();
  if (!missing.empty()) out += "; it waits for rack " + missing;
  out += "\n";
  if (const std::string told = cell(racks, "told"); told != "-")
    out += "somebody in its place says: " + told + "\n";
  return out;
}

std::string job_page(const Json& job) {
  const bool session = member(job, "session").is_object();
  std::string out = diagnostics_text(job) + lines_text(job, "notes");
  out += "job " + cell(job, "name") + ": " + cell(job, "phase");
  if (const std::string reason = cell(job, "reason"); reason != "-") out += " (" + reason + ")";
  if (is_true(job, "deferred")) out += ", with another configuration when nobody is in it";
  if (const std::string of = cell(job, "group_of"); of != "-") {
    out += ", a group of job " + of;
  } else if (cell(job, "kept") == "no") {
    out += ", gone when tallyd ends";
  }
  out += "\n" + cell(job, "dialect") + ", " + cell(job, "alive") + " of " + cell(job, "workers") +
         " alive, window " + window_of(job) + ", " + cell(job, "elements") + " elements, priority " +
         cell(job, "priority");
  if (!session) out += ", discipline " + cell(job, "discipline");
  out += "\n" + cell(job, "contributions") + " contributions, " + cell(job, "results") + " results, " +
         cell(job, "repeats") + " repeats, " + cell(job, "relays") + " relays, " + cell(job, "filling") +
         " filling, " + cell(job, "overflows") + " overflows\n";
  if (const Json& s = member(job, "slots"); s.is_object()) {
    out += "shared slots: " + cell(s, "claims") + " claims, " + cell(s, "denied") + " denied, " +
           cell(s, "swaps") + " swaps, " + cell(s, "evicted") + " evicted, " + cell(s, "served") +
           " served\n";
  }
  out += quotas_text(job);
  const Json& racks = member(job, "racks");
  out += racks_text(racks);
  for (const auto& [name, count] : member(job, "dropped").items())
    out += "dropped: " + text::cleaned(name) + " " + count.dump() + "\n";
  const std::string late = cell(job, "late_text");
  out += late == "-" ? "late: nobody\n\n" : "late: " + late + "\n\n";
  const bool of_racks = racks.is_object() && !member(racks, "rack").is_number();
  text::ColumnTable table(
      {of_racks ? "rack" : "rank", "state", "address", "port", "last seen", "contributed", "chunk", "behind"},
      4);
  for (const Json& rank : list_of(job, "ranks"))
    table.add({plain(rank, member(rank, "number").is_number() ? "number" : "rank"), state_of(rank, session),
               where_of(rank), cell(rank, "port"), ago_text(member(rank, "seen_ns_ago")),
               ago_text(member(rank, "contributed_ns_ago")), plain(rank, "chunk"), cell(rank, "behind")});
  out += table.text();
  out += boxes_text(member(job, "boxes"));
  const Json& servers = list_of(job, "servers");
  if (servers.empty()) return out;
  text::ColumnTable more({"server", "state", "address", "port"}, 4);
  for (const Json& server : servers)
    more.add({plain(server, "server"),
              is_true(server, "missing")  ? "LATE"
              : is_true(server, "joined") ? "ok"
                                          : "-",
              where_of(server), cell(server, "port")});
  return out + "\n" + more.text();
}

// A port that is down, and why, if the box knows.
std::string down_text(const Json& answer) {
  std::string out;
  for (const Json& p : list_of(answer, "ports"))
    if (const std::string why = cell(p, "link_why"); why != "-") out += cell(p, "name") + ": " + why + "\n";
  return out.empty() ? out : "\n" + out;
}

std::string ports_page(const Json& answer) {
  text::ColumnTable table({"port", "link", "rx packets", "rx bytes", "missed", "errors", "no mbuf",
                           "tx packets", "tx bytes", "tx errors"},
                          2);
  for (const Json& p : list_of(answer, "ports"))
    table.add({cell(p, "name"), cell(p, "link"), cell(p, "rx_packets"), cell(p, "rx_bytes"),
               cell(p, "rx_missed"), cell(p, "rx_errors"), cell(p, "rx_no_mbuf"), cell(p, "tx_packets"),
               cell(p, "tx_bytes"), cell(p, "tx_errors")});
  return table.text() + down_text(answer);
}

std::string cores_page(const Json& answer) {
  text::ColumnTable table({"core", "CPU", "busy", "cycles/frame", "contributions", "frames in", "frames out",
                           "results", "last turn"});
  for (const Json& c : list_of(answer, "cores"))
    table.add({plain(c, "core"), plain(c, "cpu"), text::fixed(100 * number_of(c, "busy"), 1) + " %",
               cell(c, "cycles_per_frame"), cell(c, "contributions"), cell(c, "frames_in"),
               cell(c, "frames_out"), cell(c, "results"), ago_text(member(c, "silent_ns"))});
  return table.text();
}

std::string bytes_text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_number() ? text::short_bytes(static_cast<std::uint64_t>(number_of(object, key))) : "-";
}

std::string slots_page(const Json& s) {
  std::string out = "slot memory " + bytes_text(s, "bytes") + ": pools, ledgers and sessions " +
                    bytes_text(s, "own_bytes") + ", of which " + bytes_text(s, "own_held") + " are held; " +
                    cell(s, "shared_slots") + " shared slots of " + cell(s, "shared_elements") +
                    " elements\n\n";
  text::ColumnTable table({"job", "priority", "own", "window", "filling", "shared reserved", "shared cap"});
  for (const Json& job : list_of(s, "jobs"))
    table.add({cell(job, "job"), cell(job, "priority"), bytes_text(job, "bytes"), cell(job, "window"),
               cell(job, "filling"), cell(job, "shared_reserved"), cell(job, "shared_cap")});
  return out + table.text();
}

std::string drops_page(const Json& answer) {
  const Json& drops = list_of(answer, "drops");
  if (drops.empty()) return "nothing was dropped\n";
  std::string out;
  for (const Json& drop : drops) {
    const std::string job = cell(drop, "job");
    out += cell(drop, "name") + " " + cell(drop, "count") +
           (job == "-" ? ", " + cell(drop, "where") : ", job " + job) + "\n    " + cell(drop, "sentence") +
           "\n    " + cell(drop, "advice") + "\n";
  }
  return out;
}

std::string health_page(const Json& answer) {
  std::string out = cell(answer, "state") + "\n";
  for (const Json& p : list_of(answer, "problems"))
    out += cell(p, "what") + " " + cell(p, "name") + ": " + cell(p, "text") + "\n";
  return out;
}

std::string stats_page(const Json& answer) {
  return "instance " + cell(answer, "instance") + ", up " + seconds_text(number_of(answer, "uptime_ns")) +
         ", " + cell(answer, "mbufs_in_use") + " packet buffers in use\n\n" +
         health_page(member(answer, "health")) + "\n" + jobs_page(answer) + "\n" + ports_page(answer) + "\n" +
         cores_page(answer) + "\n" + slots_page(member(answer, "slots")) + "\n" + drops_page(answer);
}

// As tallyd --check prints it.
std::string diagnostic_text(const Json& d) {
  std::string out = cell(d, "file") + ":";
  if (number_of(d, "line") > 0) out += plain(d, "line") + ":" + plain(d, "column") + ":";
  out += " " + cell(d, "severity") + ": ";
  if (const std::string path = cell(d, "path"); path != "-") out += path + ": ";
  out += cell(d, "message") + "\n";
  if (number_of(d, "line") > 0) {
    const std::string number = plain(d, "line");
    out +=
        "  " + number + " | " + cell(d, "excerpt") + "\n  " + std::string(number.size(), ' ') + " | " +
        std::string(static_cast<std::size_t>(std::clamp(number_of(d, "caret"), 0.0, kFurthestCaret)), ' ') +
        "^\n";
  }
  if (const std::string help = cell(d, "help"); help != "-") out += "  " + help + "\n";
  return out;
}

std::string check_page(const Json& answer) {
  return diagnostics_text(answer) + (is_true(answer, "good") ? "good\n" : "not good\n");
}

std::string reload_page(const Json& answer) {
  const std::string out = lines_text(answer, "changed") + lines_text(answer, "failed", "not done: ") +
                          lines_text(answer, "restart", "restart tallyd to apply: ");
  return diagnostics_text(answer) + (out.empty() ? "nothing differs from what runs\n" : out);
}

std::string trace_page(const Json& answer) {
  const Json& wish = member(answer, "wish");
  const std::string ended = cell(answer, "ended");
  if (!is_true(answer, "running") && ended == "-") return "there was no trace yet\n";
  std::string out =
      is_true(answer, "running") ? "a trace runs: " : "the last trace has ended, as " + ended + ": ";
  out += cell(answer, "read") + " frames read, " + cell(answer, "lost") + " lost\n";
  for (const char* const key : {"job", "port", "drop", "way", "every", "frames", "seconds"})
    if (const std::string value = cell(wish, key); value != "-") out += std::string(key) + " " + value + "\n";
  return out;
}

std::string diff_page(const Json& answer) {
  const Json& all = list_of(answer, "differences");
  if (all.empty()) return diagnostics_text(answer) + "nothing differs from what runs\n";
  text::ColumnTable table({"what differs", "applies"}, 2);
  for (const Json& one : all) table.add({cell(one, "what"), cell(one, "applies")});
  return diagnostics_text(answer) + table.text();
}

std::string config_page(const Json& answer) {
  const Json& yaml = member(answer, "yaml");
  return yaml.is_string() ? yaml.get<std::string>() : "-\n";
}

// 45 s, 12 min, 3.4 h, 12.0 days
std::string age_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86'400;
  if (seconds < 2 * kMinute) return text::fixed(seconds, 0) + " s";
  if (seconds < 2 * kHour) return text::fixed(seconds / kMinute, 0) + " min";
  if (seconds < 2 * kDay) return text::fixed(seconds / kHour, 1) + " h";
  return text::fixed(seconds / kDay, 1) + " days";
}

std::string standing_text(const Json& fleet) {
  const std::string standing = cell(fleet, "standing");
  const std::string why = cell(fleet, "reason");
  const std::string box = "box " + cell(fleet, "id") + " of fleet " + cell(fleet, "prefix") + ": ";
  if (standing == "away" && !is_true(fleet, "known"))
    return box + "NO ETCD YET: none since the start, " + ago_text(member(fleet, "since_ns_ago")) + " (" +
           why + "); the box's own jobs go on\n";
  if (standing == "away")
    return box + "ETCD IS GONE: it answered last " + ago_text(member(fleet, "since_ns_ago")) + " (" + why +
           "); jobs go on, nothing new is planned\nwhat was known then:\n";
  if (standing == "refused") return box + "ETCD REFUSES IT: " + why + "\n";
  if (standing == "ignored") return box + "NOT IN IT: the others do without it: " + why + "\n";
  if (standing == "taken") return box + "NOT IN IT: " + why + "; give each box an id of its own (fleet.id)\n";
  return box + standing + (why == "-" ? "" : ": " + why) + "\n";
}

std::string fleet_page(const Json& fleet) {
  if (!is_true(fleet, "in_fleet"))
    return "the box is in no fleet: its configuration has no fleet.endpoints\n";
  std::string out = standing_text(fleet);
  text::ColumnTable table({"box", "", "planner", "addresses", "age", "cores", "free slots", "free memory"},
                          4);
  for (const Json& box : list_of(fleet, "boxes")) {
    std::vector<std::string> addresses;
    for (const Json& address : list_of(box, "addresses"))
      addresses.push_back(address.is_string() ? text::cleaned(address.get<std::string>()) : "?");
    table.add({cell(box, "id"), is_true(box, "here") ? "here" : "", is_true(box, "planner") ? "yes" : "",
               addresses.empty() ? "-" : text::listed(addresses), age_text(number_of(box, "age_s")),
               cell(box, "cores"), cell(box, "free_slots"),
               text::short_bytes(static_cast<std::uint64_t>(number_of(box, "free_bytes")))});
  }
  if (!list_of(fleet, "boxes").empty()) out += table.text();
  if (cell(fleet, "planner") == "-" && is_true(fleet, "known")) out += "nobody plans\n";
  if (const Json& since = member(fleet, "planner_since_ns_ago"); since.is_number())
    out += "box " + cell(fleet, "planner") + " plans, seen here first " + ago_text(since) + "\n";
  if (const Json& jobs = list_of(fleet, "jobs"); !jobs.empty()) {
    text::ColumnTable rows({"job", "home", "plan"}, 2);
    for (const Json& job : jobs) rows.add({cell(job, "name"), cell(job, "home"), cell(job, "plan_epoch")});
    out += "\n" + rows.text();
    for (const Json& job : jobs)
      if (const std::string why = cell(job, "not_taken_because"); why != "-")
        out += "job " + cell(job, "name") + " has no home, and this box does not take it: " + why + "\n";
  }
  if (number_of(fleet, "bad_records_now") > 0) {
    out += "\nkeys that are no records, and are ignored: " + cell(fleet, "bad_records_now") + "\n";
    for (const Json& bad : list_of(fleet, "bad_records"))
      out += "  " + cell(bad, "key") + ": " + cell(bad, "why") + "\n";
  }
  return out;
}

}  // namespace

std::string diagnostics_text(const Json& answer) {
  std::string out;
  for (const Json& d : list_of(answer, "diagnostics")) out += diagnostic_text(d);
  return out;
}

// "22:15:03.123 job.joined      job 'resnet': rank 1 joined ...", in the time zone of who looks.
std::string event_text(const Json& event) {
  constexpr std::size_t kKindColumns = 16;
  const std::string kind = cell(event, "event");
  if (kind == "lost")
    return "(" + cell(event, "count") + " events were lost: they came faster than they were read)\n";
  const Json& at = member(event, "unix_ns");
  const std::uint64_t ns = at.is_number_unsigned() ? at.get<std::uint64_t>() : 0;
  const auto seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 16> clock{};
  std::strftime(clock.data(), clock.size(), "%H:%M:%S", &local);
  const std::string thousandths = std::to_string(1'000 + ns / 1'000'000 % 1'000).substr(1);
  const std::string gap(kind.size() < kKindColumns ? kKindColumns - kind.size() : 1, ' ');
  const std::string level = cell(event, "level");
  return std::string(clock.data()) + "." + thousandths + " " + kind + gap +
         (level == "warning" || level == "error" ? level + ": " : "") + cell(event, "text") + "\n";
}

std::string names_text(const Json& answer) {
  std::string out;
  for (const Json& job : list_of(answer, "jobs")) out += cell(job, "name") + "\n";
  return out;
}

std::string page_text(Page page, const Json& answer) {
  switch (page) {
    case Page::kJobs:
      return jobs_page(answer);
    case Page::kJob:
      return job_page(answer);
    case Page::kPorts:
      return ports_page(answer);
    case Page::kCores:
      return cores_page(answer);
    case Page::kSlots:
      return slots_page(answer);
    case Page::kDrops:
      return drops_page(answer);
    case Page::kStats:
      return stats_page(answer);
    case Page::kConfig:
      return config_page(answer);
    case Page::kCheck:
      return check_page(answer);
    case Page::kDiff:
      return diff_page(answer);
    case Page::kReload:
      return reload_page(answer);
    case Page::kRestart:
      return diagnostics_text(answer) + lines_text(answer, "notes") + "tallyd begins anew; jobs go on\n";
    case Page::kRemoved:
      return "removed\n";
    case Page::kLog:
      return "log.level is " + cell(answer, "level") + "\n";
    case Page::kHealth:
      return health_page(answer);
    case Page::kVersion:
      return "api " + cell(answer, "api") + ", tallyd " + cell(answer, "tallyd") + ", instance " +
             cell(answer, "instance") + "\n";
    case Page::kDoctor:
      return doctor::to_text(answer);
    case Page::kFleet:
      return fleet_page(answer);
    case Page::kPlan:
      return plan_page(answer);
    case Page::kPlanRate:
      return plan_rate_page(answer);
    case Page::kTraceState:
      return trace_page(answer);
    case Page::kTop:
    case Page::kTrace:
    case Page::kEvents:
    case Page::kHelp:
      return {};
  }
  return {};
}

}  // namespace tally::ctl

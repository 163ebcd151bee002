#include <array>
#include <span>
#include <utility>

#include "api/lateness.h"
#include "api/results.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::api {
namespace {

Json impaired_json(const impair::ImpairCounters& c) {
  if ((c.lost | c.duplicated | c.reordered | c.corrupted | c.delayed | c.overflow) == 0U) return nullptr;
  return {{"lost", c.lost.get()},           {"duplicated", c.duplicated.get()},
          {"reordered", c.reordered.get()}, {"corrupted", c.corrupted.get()},
          {"delayed", c.delayed.get()},     {"queue_full", c.overflow.get()}};
}

Json server_json(const server::MergeCounters& m) {
  return {{"unfinished", m.incomplete.get()}, {"finished", m.complete.get()},   {"merged", m.merged.get()},
          {"completed", m.completed.get()},   {"forgotten", m.forgotten.get()}, {"aged", m.aged.get()}};
}

// "lost: no mbuf" as lost_no_mbuf.
std::string key_of(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
      key += c;
    else if (!key.empty() && key.back() != '_')
      key += '_';
  }
  return key;
}

void add_counts(Json& all, std::span<const DropReason> reasons, auto count_of, const char* where,
                const Json& job) {
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const std::uint64_t count = count_of(i);
    if (count == 0) continue;
    all.push_back({{"name", reasons[i].name},
                   {"where", where},
                   {"job", job},
                   {"count", count},
                   {"sentence", reasons[i].sentence},
                   {"advice", reasons[i].advice}});
  }
}

constexpr auto kSwitchDrops = std::span(l2::kSwitchFates).subspan(l2::kFirstSwitchDrop);

std::string rows_of(std::span<const DropReason> reasons) {
  std::string out = "| name | what it was | what to do |\n|---|---|---|\n";
  for (const DropReason& r : reasons)
    out.append("| ")
        .append(r.name)
        .append(" | ")
        .append(r.sentence)
        .append(" | ")
        .append(r.advice)
        .append(" |\n");
  return out.append("\n");
}

// What keeps the box out of its fleet; empty: nothing, or it is in none.
std::string fleet_text(const Snapshot& box) {
  if (!box.fleet) return "";
  const FleetStatus& fleet = *box.fleet;
  if (fleet.standing == "away")
    return "etcd does not answer since " +
           members::seconds_text(box.now > fleet.since ? box.now - fleet.since : 0) + ": " + fleet.text +
           "; jobs go on, nothing new is planned";
  const bool inside = fleet.standing == "member" || fleet.standing == "left";
  return inside || fleet.text.empty() ? "" : "not in it: " + fleet.text;
}

}  // namespace

Json port_list(const Snapshot& box) {
  Json all = Json::array();
  for (std::size_t i = 0; i < box.ports.size(); ++i) {
    const PortCounts& p = box.ports[i];
    Json one{{"name", p.name},
             {"link", p.link_up ? "up" : "down"},
             {"link_why", p.link_why.empty() ? Json(nullptr) : Json(p.link_why)},
             {"rx_packets", p.rx_packets},
             {"rx_bytes", p.rx_bytes},
             {"rx_missed", p.rx_missed},
             {"rx_errors", p.rx_errors},
             {"rx_no_mbuf", p.rx_no_mbuf},
             {"tx_packets", p.tx_packets},
             {"tx_bytes", p.tx_bytes},
             {"tx_errors", p.tx_errors},
             {"impaired_in", impaired_json(p.impaired_in)},
             {"impaired_out", impaired_json(p.impaired_out)}};
    if (i < box.config->ports.size()) {
      one["mtu"] = box.config->ports[i].mtu;
      one["device"] = box.config->ports[i].device.text;
    }
    all.push_back(std::move(one));
  }
  return Json{{"ports", std::move(all)}};
}

Json core_list(const Snapshot& box) {
  Json all = Json::array();
  for (std::size_t i = 0; i < box.cores.size(); ++i) {
    const CoreCounts& c = box.cores[i];
    Json one{{"core", i}, {"cpu", c.cpu}, {"silent_ns", c.silent}, {"contributions", c.contributions}};
    for (const NamedCount& count : c.counts) one[key_of(count.name)] = count.value;
    one["busy_cycles"] = c.busy_cycles;
    one["cycles"] = box.uptime_cycles;
    one["busy"] = box.uptime_cycles == 0
                      ? Json(nullptr)
                      : Json(static_cast<double>(c.busy_cycles) / static_cast<double>(box.uptime_cycles));
    one["cycles_per_frame"] = c.frames_in == 0 ? Json(nullptr) : Json(c.busy_cycles / c.frames_in);
    one["server"] = server_json(c.server);
    all.push_back(std::move(one));
  }
  return Json{{"cores", std::move(all)}};
}

void add_drops(const Snapshot& box, std::size_t number, Json& list) {
  if (number < box.jobs.size()) {
    const JobCounts& job = box.jobs[number];
    return add_counts(
        list, kDropReasons, [&](std::size_t i) { return job.counters.drops[i].get(); }, "job",
        job.status.name);
  }
  add_counts(
      list, kDropReasons, [&](std::size_t i) { return box.no_job.drops[i].get(); }, "box", nullptr);
  add_counts(
      list, kSwitchDrops, [&](std::size_t i) { return box.l2.fates[l2::kFirstSwitchDrop + i].get(); },
      "switch", nullptr);
  add_counts(
      list, members::kMembershipDropReasons, [&](std::size_t i) { return box.membership.drops[i]; },
      "control", nullptr);
}

std::string drops_markdown() {
  return "# Drops\n\n"
         "Every packet that the box does not obey changes one counter, which has a name. This page is made "
         "of the\n"
         "tables beside these names (`UPDATE_GOLDEN=1` of the test control_api_test writes it); `tallyctl "
         "drop list`\n"
         "shows those that have happened, with the same words. What a client's author looks at:\n"
         "[protocol_box.md](protocol_box.md), 11.3 and 11.4.\n\n"
         "## Data cores\n\n" +
         rows_of(kDropReasons) + "## Switch\n\n" + rows_of(kSwitchDrops) + "## Control packets\n\n" +
         rows_of(members::kMembershipDropReasons);
}

bool is_down(const Snapshot& box, std::size_t port) {
  const bool memif =
      port < box.config->ports.size() && box.config->ports[port].device.kind == device::DeviceKind::kMemif;
  return !box.ports[port].link_up && !memif;
}

Json box_problems(const Snapshot& box) {
  Json problems = Json::array();
  const auto add = [&](const char* what, const std::string& name, std::string text) {
    problems.push_back({{"what", what}, {"name", name}, {"text", std::move(text)}});
  };
  if (box.ending) add("box", box.instance, "it is shutting down");
  for (std::size_t i = 0; i < box.ports.size(); ++i) {
    if (is_down(box, i))
      add("port", box.ports[i].name,
          box.ports[i].link_why.empty() ? "link down" : "link down: " + box.ports[i].link_why);
  }
  for (std::size_t i = 0; i < box.cores.size(); ++i) {
    if (box.cores[i].silent >= kCoreStalled)
      add("core", std::to_string(i), "no turn for " + members::seconds_text(box.cores[i].silent));
  }
  return problems;
}

Json health(const Snapshot& box) {
  Json problems = box_problems(box);
  const auto add = [&](const char* what, const std::string& name, std::string text) {
    problems.push_back({{"what", what}, {"name", name}, {"text", std::move(text)}});
  };
  for (const std::string& text : box.dormant) add("box", box.instance, text);
  if (!box.reloads.last_good)
    add("box", box.instance, "its file had errors when it was read last: no start from it would succeed");
  if (std::string text = fleet_text(box); !text.empty()) add("fleet", box.fleet->id, std::move(text));
  for (const JobCounts& job : box.jobs) {
    if (!job.declared) continue;
    if (std::string parent = parent_text(job.status, box.now); !parent.empty())
      add("job", job.status.name, std::move(parent));
    const std::string late = late_text(job, progress_of(job, box.now));
    if (job.status.phase == members::JobPhase::kAborted)
      add("job", job.status.name, "aborted: " + job.status.reason);
    else if (!late.empty())
      add("job", job.status.name, "late: " + late);
    else if (job.status.session && job.status.session->lacks != members::SessionLacks::kNothing)
      add("job", job.status.name, job.status.reason);
  }
  return {{"state", problems.empty() ? "good" : "degraded"},
          {"ending", box.ending},
          {"problems", std::move(problems)}};
}

Json totals(const Snapshot& box) {
  Json fates = Json::object();
  for (std::size_t i = 0; i < l2::kFirstSwitchDrop; ++i)
    fates[key_of(l2::kSwitchFateNames[i])] = box.l2.fates[i].get();
  Json control{{"turns", box.control.turns},
               {"cpu_ns", box.control.all},
               {"longest_ns", box.control.longest},
               {"answers_unsent", box.answers_unsent}};
  Json out{{"instance", box.instance},
           {"now_ns", box.now},
           {"uptime_ns", box.uptime},
           {"mbufs_in_use", box.mbufs_in_use},
           {"hosts", box.hosts},
           {"switch",
            {{"frames", std::move(fates)},
             {"copies", box.l2.copies.get()},
             {"not_flooded", box.l2.not_flooded.get()},
             {"learned", box.l2.learned.get()},
             {"moved", box.l2.moved.get()},
             {"evicted", box.l2.evicted.get()}}},
           {"control", std::move(control)}};
  out["health"] = health(box);
  out["ports"] = std::move(port_list(box)["ports"]);
  out["cores"] = std::move(core_list(box)["cores"]);
  return out;
}

Json diagnostics_json(const config::Diagnostics& diagnostics) {
  Json all = Json::array();
  for (const config::Diagnostic& d : diagnostics) {
    all.push_back({{"severity", d.severity == config::Severity::kError ? "error" : "warning"},
                   {"file", d.file},
                   {"line", d.at.line},
                   {"column", d.at.column},
                   {"path", d.path},
                   {"message", d.message},
                   {"help", d.help},
                   {"excerpt", d.excerpt},
                   {"caret", d.caret}});
  }
  return all;
}

Json fleet_show(const Snapshot& box) {
  if (!box.fleet) return {{"in_fleet", false}};
  const FleetStatus& fleet = *box.fleet;
  Json boxes = Json::array();
  const std::uint64_t now = box.unix_ns / kSecond;
  for (const FleetBox& one : fleet.boxes)
    boxes.push_back({{"id", one.id},
                     {"name", one.name},
                     // Whoever is not in it yet sees another box, or a former life of its own, under its ID.
                     {"here", one.id == fleet.id && fleet.standing != "joining" && fleet.standing != "taken"},
                     {"planner", one.id == fleet.planner},
                     {"since", one.since},
                     {"age_s", now > one.since ? now - one.since : 0},
                     {"addresses", one.addresses},
                     {"rate", one.rate == 0 ? Json(nullptr) : Json(one.rate)},
                     {"cores", one.cores},
                     {"free_slots", one.free_slots},
                     {"free_bytes", one.free_bytes}});
  Json jobs = Json::array();
  for (const FleetJob& job : fleet.jobs)
    jobs.push_back({{"name", job.name},
                    {"home", job.home.empty() ? Json(nullptr) : Json(job.home)},
                    {"plan_epoch", job.epoch == 0 ? Json(nullptr) : Json(job.epoch)},
                    {"not_taken_because", job.left.empty() ? Json(nullptr) : Json(job.left)}});
  Json bad = Json::array();
  for (const BadRecord& record : fleet.bad) bad.push_back({{"key", record.key}, {"why", record.why}});
  return {
      {"in_fleet", true},
      {"id", fleet.id},
      {"prefix", fleet.prefix},
      {"endpoints", fleet.endpoints},
      {"standing", fleet.standing},
      {"since_ns_ago", box.now > fleet.since ? box.now - fleet.since : 0},
      {"reason", fleet.text.empty() ? Json(nullptr) : Json(fleet.text)},
      {"known", fleet.known},
      {"planner", fleet.planner.empty() ? Json(nullptr) : Json(fleet.planner)},
      {"planner_since_ns_ago", fleet.planner.empty() || fleet.planner_since == 0
                                   ? Json(nullptr)
                                   : Json(box.now > fleet.planner_since ? box.now - fleet.planner_since : 0)},
      {"is_planner", fleet.is_planner},
      {"boxes", std::move(boxes)},
      {"jobs", std::move(jobs)},
      {"bad_records", std::move(bad)},
      {"bad_records_now", fleet.bad_now},
      {"bad_records_total", fleet.bad_total},
      {"leases_lost", fleet.leases_lost},
      {"reads", fleet.reads}};
}

}  // namespace tally::api

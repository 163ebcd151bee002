#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>

#include "api/lateness.h"
#include "api/results.h"
#include "config/checks.h"
#include "config/cidr.h"
#include "members/texts.h"
#include "tally/discipline.h"
#include "text/text.h"

namespace tally::api {
namespace {

constexpr std::size_t kMostNames = 32;  // of jobs, in an error

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string port_name(const Snapshot& box, PortIndex port) {
  return raw(port) < box.ports.size() ? box.ports[raw(port)].name : std::string();
}

std::string_view word_of(Discipline d) noexcept {
  constexpr std::array<std::string_view, 4> kWords{"pool", "fcfs", "preemptive", "shared"};
  return kWords.at(static_cast<std::size_t>(d) - 1);
}

std::uint64_t drops_of(const JobCounts& job) {
  std::uint64_t all = 0;
  for (const auto& count : job.counters.drops) all += count;
  return all;
}

Json ranks_json(std::uint64_t ranks) {
  Json list = Json::array();
  for (; ranks != 0; ranks &= ranks - 1) list.push_back(std::countr_zero(ranks));
  return list;
}

Json slots_json(const pipeline::SlotCounters& s) {
  return {{"claims", s.claims.get()},   {"denied", s.denied.get()},     {"swaps", s.swaps.get()},
          {"evicted", s.evicted.get()}, {"partials", s.partials.get()}, {"flushed", s.flushed.get()},
          {"swept", s.swept.get()},     {"served", s.served.get()}};
}

// What lists and details have.
Json summary(const JobCounts& job, const std::vector<RankProgress>& progress) {
  const members::JobStatus& s = job.status;
  const JobCounters& c = job.counters;
  const bool sharing = !s.session && shares_slots(s.discipline);
  Json late = Json::array();
  for (std::size_t r = 0; r < progress.size(); ++r) {
    if (progress[r].late) late.push_back(r);
  }
  return {
      {"name", s.name},
      {"phase", phase_of(job)},
      {"dialect", s.session ? "switchml" : "native"},
      {"workers", s.world},
      {"alive", std::popcount(s.live)},
      {"late", std::move(late)},
      {"late_text", late_text(job, progress)},
      {"discipline", s.session ? Json(nullptr) : Json(word_of(s.discipline))},
      {"priority", s.priority},
      {"window", s.window},
      {"elements", s.session ? s.session->payload / 4 : s.elements},
      {"contributions", contributions_of(c)},
      {"results", results_of(job)},
      {"repeats", c.of(Verdict::kRepeat)},
      {"relays", c.of(Verdict::kRelay) + c.of(Verdict::kTell)},
      {"drops", drops_of(job)},
      {"filling", job.occupancy},
      {"overflows", job.overflows},
      {"incomplete", job.slots.incomplete.get()},
      {"incomplete_bad", job.slots.incomplete_bad.get()},
      {"slots", sharing ? slots_json(job.slots) : Json(nullptr)},
      {"reason", s.reason},
      {"made_by", !s.group_of.empty() ? "group"
                  : job.made          ? "job.add"
                                      : "file"},
      {"group_of", s.group_of.empty() ? Json(nullptr) : Json(s.group_of)},
      {"kept", job.kept},
      {"deferred", s.deferred},
  };
}

Json member_json(const Snapshot& box, const members::RankStatus& m, bool session) {
  const bool known = m.joined || session;
  return {
      {"joined", m.joined},
      {"left", m.left},
      {"address", known ? Json(members::address_text(m.binding.address)) : Json(nullptr)},
      {"udp_port", known ? Json(m.binding.udp_port) : Json(nullptr)},
      {"mac", known ? Json(config::to_text(m.binding.mac)) : Json(nullptr)},
      {"port", known && !session ? Json(port_name(box, m.binding.port)) : Json(nullptr)},
  };
}

Json rank_json(const Snapshot& box, const JobCounts& job, std::size_t rank, const RankProgress& p) {
  const members::RankStatus& m = job.status.ranks[rank];
  const bool session = job.status.session.has_value();
  Json out{{"rank", rank}, {"late", p.late}, {"why", p.why}};
  if (const auto& racks = job.status.racks) {
    // What the program calls its rank; at the parent ranks are racks.
    out["number"] = racks->rack ? Json(racks->first + rank) : Json(nullptr);
    out["workers"] = racks->rack ? Json(1) : Json(racks->workers.at(rank));
  }
  out.update(member_json(box, m, session));
  out["seen_ns_ago"] = or_null(p.seen);
  out["contributed_ns_ago"] = or_null(p.contributed);
  out["chunk"] = session || m.instance == 0 ? Json(nullptr) : Json(raw(m.next));
  out["behind"] = p.behind ? Json(*p.behind) : Json(nullptr);
  return out;
}

Json ranks_of(const Snapshot& box, const JobCounts& job, const std::vector<RankProgress>& progress) {
  Json ranks = Json::array();
  for (std::size_t r = 0; r < job.status.ranks.size(); ++r)
    ranks.push_back(rank_json(box, job, r, progress[r]));
  return ranks;
}

Json session_json(const members::SessionStatus& s) {
  return {{"system", s.system},
          {"payload", s.payload},
          {"slots", s.slots},
          {"tsi", s.tsi ? Json(*s.tsi == jobs::TsiRule::kPacket ? "packet" : "opaque") : Json(nullptr)},
          {"core", s.home},
          {"box_mac", config::to_text(s.box_mac)}};
}

// Its first half, which is enough to tell plans apart.
std::string name_of(const PlanId& plan) {
  return text::hexadecimal(wire_at<Be<std::uint64_t>>(std::as_bytes(std::span(plan)).data()).host());
}

Json boxes_json(const members::BoxesStatus& s) {
  Json boxes = Json::array();
  for (const members::BoxStatus& box : s.boxes)
    boxes.push_back({{"address", members::address_text(box.address)},
                     {"planned", box.planned},
                     {"left_out", box.left_out},
                     {"home", boxes.size() == s.home},
                     {"here", boxes.size() == s.here}});
  return {{"boxes", std::move(boxes)},
          {"plan", s.plan_bytes != 0 ? Json(name_of(s.plan)) : Json(nullptr)},
          {"plan_bytes", s.plan_bytes},
          {"missing_pages", std::popcount(s.missing_pages)},
          {"stand_in", s.stand_in}};
}

Json racks_json(const members::RacksStatus& s, TimeNs now) {
  const std::size_t world = std::accumulate(s.workers.begin(), s.workers.end(), std::size_t{0});
  Json out{{"workers", s.workers}, {"world", world}, {"rack", or_null(s.rack)}};
  if (!s.rack) return out;
  out["first"] = s.first;
  out["parent"] = members::address_text(s.parent);
  out["state"] = members::name_of(s.state);
  out["heard_ns_ago"] = s.heard == 0 ? Json(nullptr) : Json(now > s.heard ? now - s.heard : 0);
  out["missing_racks"] = ranks_json(s.missing_racks);
  out["told"] = s.told;
  return out;
}

}  // namespace

std::string_view phase_of(const JobCounts& job) {
  return job.declared ? members::name_of(job.status.phase) : "gone";
}

void add_job(const Snapshot& box, std::size_t number, Json& list) {
  const JobCounts& job = box.jobs[number];
  const auto progress = progress_of(job, box.now);
  Json row = summary(job, progress);
  // Of a job that is gone nobody is there, and a box may have had a thousand.
  row["ranks"] = job.declared ? ranks_of(box, job, progress) : Json::array();
  list.push_back(std::move(row));
}

Json job_show(const Snapshot& box, const JobCounts& job) {
  const members::JobStatus& s = job.status;
  const auto progress = progress_of(job, box.now);
  Json out = summary(job, progress);
  out["wanted_window"] = s.wanted_window;
  out["largest_window"] = s.largest_window;
  out["window_limit"] = s.limit == 0 ? Json(nullptr) : Json(s.limit);
  out["shrunk_for"] = s.shrunk_for.empty() ? Json(nullptr) : Json(s.shrunk_for);
  out["lease_ns"] = s.lease == 0 ? Json(nullptr) : Json(s.lease);
  out["packet_rate"] = or_null(s.packet_rate);
  out["bad_packet_rate"] = or_null(s.bad_packet_rate);
  out["epoch"] = text::hexadecimal(raw(s.epoch));
  out["generation"] = text::hexadecimal(raw(s.generation));
  out["missing"] = ranks_json(s.missing);
  if (s.session) out["session"] = session_json(*s.session);
  out["boxes"] = s.boxes ? boxes_json(*s.boxes) : Json(nullptr);
  out["racks"] = s.racks ? racks_json(*s.racks, box.now) : Json(nullptr);
  out["ranks"] = ranks_of(box, job, progress);
  Json servers = Json::array();
  for (std::size_t i = 0; i < s.servers.size(); ++i) {
    Json one{{"server", i}};
    one.update(member_json(box, s.servers[i], false));
    one["missing"] = ((s.missing_servers >> i) & 1U) != 0;
    servers.push_back(std::move(one));
  }
  out["servers"] = std::move(servers);
  Json drops = Json::object();
  for (std::size_t i = 0; i < kDropCount; ++i) {
    if (job.counters.drops[i] != 0U) drops[std::string(kDropNames[i])] = job.counters.drops[i].get();
  }
  out["dropped"] = std::move(drops);
  return out;
}

const JobCounts* find_job(const Snapshot& box, const std::string& name) {
  const JobCounts* found = nullptr;
  for (const JobCounts& job : box.jobs) {
    if (job.status.name == name && (found == nullptr || !found->declared)) found = &job;
  }
  return found;
}

Failure no_such_job(const Snapshot& box, const std::string& name) {
  std::vector<std::string> names;
  for (const JobCounts& job : box.jobs) {
    if (job.declared) names.push_back(job.status.name);
  }
  return no_such_job(std::move(names), name);
}

Failure no_such_job(std::vector<std::string> names, const std::string& name) {
  Failure failure{Code::kNoSuchJob, "there is no job " + config::shown(name), Json::object()};
  if (std::string near = config::nearest(name, names); !near.empty()) {
    failure.message += "; did you mean " + near + "?";
    failure.data["nearest"] = std::move(near);
  }
  if (names.size() > kMostNames) names.resize(kMostNames);
  failure.data["jobs"] = std::move(names);
  return failure;
}

namespace {

bool holds_slots(const JobCounts& job) {
  return job.declared && (job.status.slots.count != 0 || job.status.cap != 0);
}

}  // namespace

Json slot_totals(const Snapshot& box) {
  const config::DataplaneSection& d = box.config->dataplane;
  std::uint64_t held = 0;
  for (const JobCounts& job : box.jobs) {
    if (holds_slots(job)) held += config::bytes_of(*box.config, job.status.slots.count);
  }
  const std::uint64_t own = config::bytes_of(*box.config, config::own_lines_per_core(d));
  return {{"bytes", d.slots},
          {"own_bytes", own},
          {"own_held", held},
          {"own_free", own > held ? own - held : 0},
          {"shared_slots", config::shared_entries_per_core(d) * static_cast<std::uint64_t>(box.cores.size())},
          {"shared_elements", d.shared.elements}};
}

void add_slot_holder(const Snapshot& box, std::size_t number, Json& list) {
  const JobCounts& job = box.jobs[number];
  if (!holds_slots(job)) return;
  const members::JobStatus& s = job.status;
  const auto cores = static_cast<std::uint64_t>(box.cores.size());
  list.push_back({{"job", s.name},
                  {"priority", s.priority},
                  {"bytes", config::bytes_of(*box.config, s.slots.count)},
                  {"window", s.window},
                  {"filling", job.occupancy},
                  {"shared_reserved", s.reserved * cores},
                  {"shared_cap", s.cap * cores}});
}

}  // namespace tally::api

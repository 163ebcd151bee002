#include "daemon/counters_report.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "config/cidr.h"
#include "members/texts.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

void add(JobCounters& sum, const JobCounters& part) {
  for (std::size_t i = 0; i < kVerdictCount; ++i) sum.verdicts[i] += part.verdicts[i].get();
  for (std::size_t i = 0; i < kDropCount; ++i) sum.drops[i] += part.drops[i].get();
}

// A counter of the data cores.
struct CoreCounter {
  const char* name;
  bool always;  // else left out when it is 0 on every core
  OneWriter<std::uint64_t> io::CoreStatistics::*value;
};

constexpr std::array<CoreCounter, 24> kCoreCounters{{
    {"frames in", true, &io::CoreStatistics::frames_in},
    {"frames out", true, &io::CoreStatistics::frames_out},
    {"results", true, &io::CoreStatistics::results},
    {"replicas", true, &io::CoreStatistics::replicas},
    {"bursts", true, &io::CoreStatistics::bursts},
    {"turns", true, &io::CoreStatistics::turns},
    {"sleeps", true, &io::CoreStatistics::sleeps},
    {"handed over", false, &io::CoreStatistics::handed_over},
    {"taken over", false, &io::CoreStatistics::taken_over},
    {"sent for control or other cores", false, &io::CoreStatistics::sent_for},
    {"rejects sent", false, &io::CoreStatistics::rejects},
    {"nacks sent", false, &io::CoreStatistics::nacks},
    {"to servers", false, &io::CoreStatistics::to_servers},
    {"queued for servers", false, &io::CoreStatistics::server_queued},
    {"lost on purpose, in", false, &io::CoreStatistics::impaired_in},
    {"lost on purpose, out", false, &io::CoreStatistics::impaired_out},
    {"not ours", false, &io::CoreStatistics::not_ours},
    {"copied to be writable", false, &io::CoreStatistics::copied},
    {"lost: no mbuf", false, &io::CoreStatistics::no_mbuf},
    {"lost: transmit ring full", false, &io::CoreStatistics::refused},
    {"lost: queue for servers full", false, &io::CoreStatistics::server_refused},
    {"lost: core's ring full", false, &io::CoreStatistics::hand_over_lost},
    {"lost: control's ring full", false, &io::CoreStatistics::punts_lost},
    {"lost: events", false, &io::CoreStatistics::events_lost},
}};

api::JobCounts count_job(const Plane& plane, members::JobStatus of, std::vector<api::CoreCounts>& cores) {
  api::JobCounts job{.status = std::move(of)};
  const members::JobStatus& status = job.status;
  job.contributed.resize(status.ranks.size());
  for (std::size_t core = 0; core < cores.size(); ++core) {
    const JobCounters part = plane.counters(core, status.id);
    add(job.counters, part);
    cores[core].contributions += api::contributions_of(part);
    const pipeline::JobState& state = plane.state(core, status.id);
    job.slots += state.slots;
    job.occupancy += state.occupancy;
    job.overflows += state.overflows;
    for (std::size_t r = 0; r < job.contributed.size(); ++r)
      job.contributed[r] = std::max(job.contributed[r], state.last_seen[r].get());
  }
  return job;
}

api::PortCounts count_port(const Plane& plane, PortIndex port) {
  const dpdk::PortStatistics s = plane.port_statistics(port);
  const io::DataPlane::ImpairedPort impaired = plane.impaired(port);
  dpdk::PortLink link = plane.link(port);
  return {.name = plane.port_name(port),
          .link_up = link.up,
          .link_why = std::move(link.why),
          .rx_packets = s.rx_packets,
          .rx_bytes = s.rx_bytes,
          .rx_missed = s.rx_missed,
          .rx_errors = s.rx_errors,
          .rx_no_mbuf = s.rx_no_mbuf,
          .tx_packets = s.tx_packets,
          .tx_bytes = s.tx_bytes,
          .tx_errors = s.tx_errors,
          .impaired_in = impaired.in,
          .impaired_out = impaired.out};
}

api::CoreCounts count_core(const Plane& plane, std::size_t core, std::uint16_t cpu) {
  const io::CoreStatistics& s = plane.statistics(core);
  api::CoreCounts out{
      .cpu = cpu, .frames_in = s.frames_in, .busy_cycles = s.busy_cycles, .server = plane.server(core)};
  out.counts.reserve(kCoreCounters.size());
  for (const CoreCounter& counter : kCoreCounters)
    out.counts.push_back({counter.name, counter.always, s.*counter.value});
  return out;
}

std::string cut_off(const std::vector<api::PortCounts>& ports, const members::RankStatus& rank) {
  const std::size_t port = raw(rank.binding.port);
  if (!rank.joined || port >= ports.size() || ports[port].link_why.empty()) return {};
  return "port " + ports[port].name + ": " + ports[port].link_why;
}

}  // namespace

api::Snapshot take_snapshot(const Plane& plane, std::vector<members::JobStatus> jobs,
                            const std::vector<std::uint16_t>& cpus) {
  api::Snapshot all;
  for (std::size_t i = 0; i < plane.ports(); ++i)
    all.ports.push_back(count_port(plane, PortIndex{static_cast<std::uint16_t>(i)}));
  for (std::size_t core = 0; core < plane.cores(); ++core) {
    all.cores.push_back(count_core(plane, core, cpus.at(core)));
    add(all.no_job, plane.counters(core, JobId{0}));
    all.l2 += plane.statistics(core).l2;
  }
  all.jobs.reserve(jobs.size());
  for (members::JobStatus& job : jobs) {
    std::vector<std::string> cut;
    for (const members::RankStatus& rank : job.ranks) cut.push_back(cut_off(all.ports, rank));
    all.jobs.push_back(count_job(plane, std::move(job), all.cores));
    all.jobs.back().cut_off = std::move(cut);
  }
  all.hosts = plane.hosts();
  all.mbufs_in_use = plane.mbufs_in_use();
  return all;
}

namespace {

// A row: names, then numbers.
template <class... Counts>
void add_row(text::ColumnTable& table, std::vector<std::string> cells, const Counts&... counts) {
  (cells.push_back(text::with_commas(counts)), ...);
  table.add(std::move(cells));
}

std::string ports_text(const api::Snapshot& all) {
  text::ColumnTable table({"port", "link", "rx packets", "rx bytes", "missed", "errors", "no mbuf",
                           "tx packets", "tx bytes", "tx errors"});
  for (const api::PortCounts& port : all.ports) {
    add_row(table, {port.name, port.link_up ? "up" : "down"}, port.rx_packets, port.rx_bytes, port.rx_missed,
            port.rx_errors, port.rx_no_mbuf, port.tx_packets, port.tx_bytes, port.tx_errors);
  }
  return table.text();
}

// Of the ports and directions with faults on purpose; empty if there is none.
std::string impaired_text(const api::Snapshot& all) {
  text::ColumnTable table(
      {"impaired", "direction", "lost", "duplicated", "reordered", "corrupted", "delayed", "queue full"});
  bool any = false;
  const auto add = [&](const std::string& port, const char* direction, const impair::ImpairCounters& c) {
    if ((c.lost | c.duplicated | c.reordered | c.corrupted | c.delayed | c.overflow) == 0U) return;
    any = true;
    add_row(table, {port, direction}, c.lost, c.duplicated, c.reordered, c.corrupted, c.delayed, c.overflow);
  };
  for (const api::PortCounts& port : all.ports) {
    add(port.name, "in", port.impaired_in);
    add(port.name, "out", port.impaired_out);
  }
  return any ? table.text() + "\n" : "";
}

std::string cycles_text(const api::CoreCounts& core) {
  const std::uint64_t frames = core.frames_in;
  return frames == 0 ? "-" : text::with_commas(core.busy_cycles / frames);
}

using CoreSpan = std::span<const api::CoreCounts>;

void add_cores(text::ColumnTable& table, std::string_view name, CoreSpan cores,
               const std::function<std::string(const api::CoreCounts&)>& cell) {
  std::vector<std::string> row{std::string(name)};
  for (const api::CoreCounts& core : cores) row.push_back(cell(core));
  table.add(std::move(row));
}

std::string cores_text(const api::Snapshot& all, CoreSpan cores, std::size_t first) {
  std::vector<std::string> header{"core (CPU)"};
  for (std::size_t i = 0; i < cores.size(); ++i)
    header.push_back(std::to_string(first + i) + " (" + std::to_string(cores[i].cpu) + ")");
  text::ColumnTable table(std::move(header));
  add_cores(table, "contributions", cores,
            [](const api::CoreCounts& c) { return text::with_commas(c.contributions); });
  for (std::size_t i = 0; i < all.cores.front().counts.size(); ++i) {
    const api::NamedCount& first_one = cores.front().counts[i];
    const bool zero =
        std::ranges::all_of(cores, [&](const api::CoreCounts& c) { return c.counts[i].value == 0; });
    if (zero && !first_one.always) continue;
    add_cores(table, first_one.name, cores,
              [&](const api::CoreCounts& c) { return text::with_commas(c.counts[i].value); });
  }
  add_cores(table, "busy", cores,
            [&](const api::CoreCounts& c) { return text::share_text(c.busy_cycles, all.uptime_cycles); });
  add_cores(table, "cycles per frame in", cores, cycles_text);
  return table.text();
}

std::string control_text(const api::Snapshot& all) {
  const api::TurnTimes& c = all.control;
  if (c.turns == 0) return "";
  return "control: " + text::with_commas(c.turns) + " turns, " +
         text::with_commas(c.all / c.turns / kMicrosecond) + " us of CPU each, the longest " +
         text::with_commas(c.longest / kMicrosecond) + " us\n\n";
}

std::string jobs_text(const api::Snapshot& all) {
  text::ColumnTable table({"job", "phase", "ranks alive", "contributions", "results", "repeats", "relays",
                           "filling slots", "overflows"});
  for (const api::JobCounts& job : all.jobs) {
    const JobCounters& c = job.counters;
    add_row(table,
            {job.status.name, std::string(members::name_of(job.status.phase)),
             std::to_string(std::popcount(job.status.live)) + " of " + std::to_string(job.status.world)},
            api::contributions_of(c), api::results_of(job), c.of(Verdict::kRepeat),
            c.of(Verdict::kRelay) + c.of(Verdict::kTell), job.occupancy, job.overflows);
  }
  return table.text();
}

bool shares(const api::JobCounts& job) { return shares_slots(job.status.discipline); }

// Of the jobs that share slots; empty if there is none.
std::string shared_slots_text(const api::Snapshot& all) {
  if (std::none_of(all.jobs.begin(), all.jobs.end(), shares)) return "";
  text::ColumnTable table({"shared slots", "class", "claims", "denied", "swaps", "evicted", "partials",
                           "flushed", "swept", "served", "filling"});
  for (const api::JobCounts& job : all.jobs) {
    if (!shares(job)) continue;
    const pipeline::SlotCounters& s = job.slots;
    add_row(table, {job.status.name, std::to_string(class_of(job.status.priority))}, s.claims, s.denied,
            s.swaps, s.evicted, s.partials, s.flushed, s.swept, s.served, job.occupancy);
  }
  text::ColumnTable server({"server", "unfinished", "finished", "merged", "completed", "forgotten", "aged"});
  for (std::size_t i = 0; i < all.cores.size(); ++i) {
    const server::MergeCounters& m = all.cores[i].server;
    add_row(server, {"core " + std::to_string(i)}, m.incomplete, m.complete, m.merged, m.completed,
            m.forgotten, m.aged);
  }
  return table.text() + "\n" + server.text() + "\n";
}

// Of the jobs that did not wait for their stragglers; empty if there is none.
std::string late_text(const api::Snapshot& all) {
  std::string out;
  for (const api::JobCounts& job : all.jobs) {
    const pipeline::SlotCounters& s = job.slots;
    if (s.incomplete == 0U && s.incomplete_bad == 0U) continue;
    out += "incomplete results of job " + job.status.name + ": " + text::with_commas(s.incomplete);
    if (s.incomplete_bad != 0U)
      out += ", not sent because of wrong sums: " + text::with_commas(s.incomplete_bad);
    out += "\n";
  }
  return out.empty() ? out : out + "\n";
}

// "stale 12, duplicate 5"; empty when all are 0.
template <class Counts, class Names>
std::string reasons_text(const Counts& counts, const Names& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (counts[i] == 0U) continue;
    text += (text.empty() ? "" : ", ") + std::string(names[i]) + " " + text::with_commas(counts[i]);
  }
  return text;
}

void add_line(std::string& out, const std::string& name, const std::string& text) {
  if (!text.empty()) out += name + ": " + text + "\n";
}

constexpr std::size_t kSwitchDrops = l2::kSwitchFateCount - l2::kFirstSwitchDrop;

// Empty if the switch has done nothing.
std::string switch_text(const api::Snapshot& all) {
  const l2::SwitchCounters& s = all.l2;
  std::string out;
  const auto done = std::span(s.fates).first<l2::kFirstSwitchDrop>();
  add_line(out, "switch", reasons_text(done, std::span(l2::kSwitchFateNames).first<l2::kFirstSwitchDrop>()));
  constexpr std::array<std::string_view, 5> kNames{"copies of flooded frames",
                                                   "copies too long for their port", "learned", "moved",
                                                   "forgotten for others"};
  const std::array<std::uint64_t, 5> counts{s.copies, s.not_flooded, s.learned, s.moved, s.evicted};
  add_line(out, "switch, beside", reasons_text(counts, kNames));
  if (s.learned != 0U || all.hosts != 0) add_line(out, "hosts known now", text::with_commas(all.hosts));
  return out.empty() ? out : out + "\n";
}

std::string drops_text(const api::Snapshot& all) {
  std::string out;
  for (const api::JobCounts& job : all.jobs)
    add_line(out, "dropped of job " + job.status.name, reasons_text(job.counters.drops, kDropNames));
  add_line(out, "dropped, of no job", reasons_text(all.no_job.drops, kDropNames));
  add_line(out, "dropped by the switch",
           reasons_text(std::span(all.l2.fates).last<kSwitchDrops>(),
                        std::span(l2::kSwitchFateNames).last<kSwitchDrops>()));
  add_line(out, "control packets not obeyed",
           reasons_text(all.membership.drops, members::kMembershipDropNames));
  if (all.answers_unsent != 0)
    add_line(out, "control answers not sent", text::with_commas(all.answers_unsent));
  return out.empty() ? "nothing was dropped\n" : out;
}

}  // namespace

std::string counters_text(const api::Snapshot& all) {
  constexpr std::size_t kCoresAbreast = 8;
  std::string out = "tallyd " + all.instance + ": counters after " + members::seconds_text(all.uptime) +
                    ", " + text::with_commas(all.mbufs_in_use) + " packet buffers in use\n\n";
  out += ports_text(all) + "\n" + impaired_text(all);
  for (std::size_t first = 0; first < all.cores.size(); first += kCoresAbreast) {
    const CoreSpan rest = CoreSpan(all.cores).subspan(first);
    out += cores_text(all, rest.first(std::min(kCoresAbreast, rest.size())), first) + "\n";
  }
  out += control_text(all);
  if (!all.jobs.empty()) {
    out += jobs_text(all) + "\n" + sessions_text(all) + shared_slots_text(all) + late_text(all);
  }
  return out + switch_text(all) + drops_text(all);
}

namespace {

std::string tsi_text(const members::SessionStatus& s) {
  if (!s.tsi) return "-";
  return *s.tsi == jobs::TsiRule::kPacket ? "packet" : "opaque";
}

std::string running_text(const members::JobStatus& is) {
  const members::SessionStatus& s = *is.session;
  return "running, a session of " + std::string(s.system) + "'s clients: epoch " +
         text::hexadecimal(raw(is.epoch)) + ", " + std::to_string(is.world) +
         (is.world == 1 ? " member, " : " members, ") + std::to_string(s.slots) + " slots of " +
         std::to_string(s.payload) + " bytes (" + members::kib_text(is.slots.count) +
         " of slot memory per core), tsi " + tsi_text(s) + ", all on core " + std::to_string(s.home) +
         ", clients send to MAC " + config::to_text(s.box_mac);
}

std::string last_seen_text(TimeNs last_seen, TimeNs now) {
  if (last_seen == 0) return "never";
  return members::seconds_text(now > last_seen ? now - last_seen : 0) + " ago";
}

}  // namespace

std::optional<SessionNews> session_news(const members::JobStatus& was, const members::JobStatus& is) {
  const bool runs = is.phase == members::JobPhase::kRunning;
  if (runs && (was.phase != members::JobPhase::kRunning || was.epoch != is.epoch))
    return SessionNews{LogLevel::kInfo, running_text(is)};
  // Once for each thing it lacks: with every job that comes and goes the numbers change.
  const members::SessionLacks lacked = was.session ? was.session->lacks : members::SessionLacks::kNothing;
  if (is.session->lacks != lacked && !is.reason.empty()) return SessionNews{LogLevel::kWarning, is.reason};
  return std::nullopt;
}

SessionNews session_gone(const members::SessionStatus& was) {
  return {LogLevel::kInfo, "ended, and its clients are not told, as " + std::string(was.system) +
                               " has no word for it: what they send now is dropped"};
}

std::string sessions_text(const api::Snapshot& all) {
  text::ColumnTable table(
      {"session", "tsi", "MAC", "address", "rank", "UDP port", "payload", "slots", "core", "last seen"}, 4);
  bool any = false;
  for (const api::JobCounts& job : all.jobs) {
    if (!job.status.session) continue;
    any = true;
    const members::SessionStatus& s = *job.status.session;
    for (std::size_t r = 0; r < job.status.ranks.size(); ++r) {
      const members::RankStatus& rank = job.status.ranks[r];
      table.add({job.status.name, tsi_text(s), config::to_text(rank.binding.mac),
                 members::address_text(rank.binding.address), std::to_string(r),
                 std::to_string(rank.binding.udp_port), std::to_string(s.payload), std::to_string(s.slots),
                 std::to_string(s.home), last_seen_text(rank.last_seen, all.now)});
    }
  }
  return any ? table.text() + "\n" : "";
}

}  // namespace tally::daemon

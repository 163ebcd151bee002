#include "counters_report.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <utility>

#include "column_table.h"
#include "numbers.h"
#include "session_texts.h"
#include "texts.h"

namespace tally {
namespace {

std::string ports_text(const CountersSnapshot& all) {
  ColumnTable table({"port", "link", "rx packets", "rx bytes", "missed", "errors", "no mbuf", "tx packets",
                     "tx bytes", "tx errors"});
  for (const PortCounts& port : all.ports) {
    const PortStatistics& s = port.statistics;
    table.add({port.name, port.link_up ? "up" : "down", with_commas(s.rx_packets), with_commas(s.rx_bytes),
               with_commas(s.rx_missed), with_commas(s.rx_errors), with_commas(s.rx_no_mbuf),
               with_commas(s.tx_packets), with_commas(s.tx_bytes), with_commas(s.tx_errors)});
  }
  return table.text();
}

// Of the ports and directions with faults on purpose; empty if there is none.
std::string impaired_text(const CountersSnapshot& all) {
  ColumnTable table(
      {"impaired", "direction", "lost", "duplicated", "reordered", "corrupted", "delayed", "queue full"});
  bool any = false;
  const auto add = [&](const std::string& port, const char* direction, const ImpairCounters& c) {
    if ((c.lost | c.duplicated | c.reordered | c.corrupted | c.delayed | c.overflow) == 0U) return;
    any = true;
    table.add({port, direction, with_commas(c.lost), with_commas(c.duplicated), with_commas(c.reordered),
               with_commas(c.corrupted), with_commas(c.delayed), with_commas(c.overflow)});
  };
  for (const PortCounts& port : all.ports) {
    add(port.name, "in", port.impaired.in);
    add(port.name, "out", port.impaired.out);
  }
  return any ? table.text() + "\n" : "";
}

// A line of the table of cores.
struct CoreLine {
  const char* name;
  bool always;  // else left out when it is 0 on every core
  OneWriter<std::uint64_t> CoreStatistics::*value;
};

constexpr std::array<CoreLine, 23> kCoreLines{{
    {"frames in", true, &CoreStatistics::frames_in},
    {"frames out", true, &CoreStatistics::frames_out},
    {"results", true, &CoreStatistics::results},
    {"replicas", true, &CoreStatistics::replicas},
    {"bursts", true, &CoreStatistics::bursts},
    {"turns", true, &CoreStatistics::turns},
    {"sleeps", true, &CoreStatistics::sleeps},
    {"handed over", false, &CoreStatistics::handed_over},
    {"taken over", false, &CoreStatistics::taken_over},
    {"sent for control or other cores", false, &CoreStatistics::sent_for},
    {"rejects sent", false, &CoreStatistics::rejects},
    {"to servers", false, &CoreStatistics::to_servers},
    {"queued for servers", false, &CoreStatistics::server_queued},
    {"lost on purpose, in", false, &CoreStatistics::impaired_in},
    {"lost on purpose, out", false, &CoreStatistics::impaired_out},
    {"not ours", false, &CoreStatistics::not_ours},
    {"copied to be writable", false, &CoreStatistics::copied},
    {"lost: no mbuf", false, &CoreStatistics::no_mbuf},
    {"lost: transmit ring full", false, &CoreStatistics::refused},
    {"lost: queue for servers full", false, &CoreStatistics::server_refused},
    {"lost: core's ring full", false, &CoreStatistics::hand_over_lost},
    {"lost: control's ring full", false, &CoreStatistics::punts_lost},
    {"lost: events", false, &CoreStatistics::events_lost},
}};

std::string cycles_text(const CoreCounts& core) {
  const std::uint64_t frames = core.statistics.frames_in;
  return frames == 0 ? "-" : with_commas(core.statistics.busy_cycles / frames);
}

using CoreSpan = std::span<const CoreCounts>;

void add_cores(ColumnTable& table, const char* name, CoreSpan cores,
               const std::function<std::string(const CoreCounts&)>& cell) {
  std::vector<std::string> row{name};
  for (const CoreCounts& core : cores) row.push_back(cell(core));
  table.add(std::move(row));
}

std::string cores_text(const CountersSnapshot& all, CoreSpan cores, std::size_t first) {
  std::vector<std::string> header{"core (CPU)"};
  for (std::size_t i = 0; i < cores.size(); ++i)
    header.push_back(std::to_string(first + i) + " (" + std::to_string(cores[i].cpu) + ")");
  ColumnTable table(std::move(header));
  add_cores(table, "contributions", cores, [](const CoreCounts& c) { return with_commas(c.contributions); });
  for (const CoreLine& line : kCoreLines) {
    const bool zero = std::all_of(cores.begin(), cores.end(),
                                  [&](const CoreCounts& c) { return c.statistics.*line.value == 0U; });
    if (zero && !line.always) continue;
    add_cores(table, line.name, cores,
              [&](const CoreCounts& c) { return with_commas(c.statistics.*line.value); });
  }
  add_cores(table, "busy", cores,
            [&](const CoreCounts& c) { return share_text(c.statistics.busy_cycles, all.uptime_cycles); });
  add_cores(table, "cycles per frame in", cores, cycles_text);
  return table.text();
}

std::string jobs_text(const CountersSnapshot& all) {
  ColumnTable table({"job", "phase", "ranks alive", "contributions", "results", "repeats", "relays",
                     "filling slots", "overflows"});
  for (const JobCounts& job : all.jobs) {
    const JobCounters& c = job.counters;
    table.add({job.status.name, std::string(name_of(job.status.phase)),
               std::to_string(std::popcount(job.status.live)) + " of " + std::to_string(job.status.world),
               with_commas(contributions_of(c)), with_commas(c.of(Verdict::kComplete) + job.slots.served),
               with_commas(c.of(Verdict::kRepeat)), with_commas(c.of(Verdict::kRelay)),
               with_commas(job.occupancy), with_commas(job.overflows)});
  }
  return table.text();
}

bool shares(const JobCounts& job) { return shares_slots(job.status.discipline); }

// Of the jobs that share slots; empty if there is none.
std::string shared_slots_text(const CountersSnapshot& all) {
  if (std::none_of(all.jobs.begin(), all.jobs.end(), shares)) return "";
  ColumnTable table({"shared slots", "class", "claims", "denied", "swaps", "evicted", "partials", "flushed",
                     "swept", "served", "filling"});
  for (const JobCounts& job : all.jobs) {
    if (!shares(job)) continue;
    const SlotCounters& s = job.slots;
    table.add({job.status.name, std::to_string(class_of(job.status.priority)), with_commas(s.claims),
               with_commas(s.denied), with_commas(s.swaps), with_commas(s.evicted), with_commas(s.partials),
               with_commas(s.flushed), with_commas(s.swept), with_commas(s.served),
               with_commas(job.occupancy)});
  }
  ColumnTable server({"server", "unfinished", "finished", "merged", "completed", "forgotten", "aged"});
  for (std::size_t i = 0; i < all.cores.size(); ++i) {
    const MergeCounters& m = all.cores[i].server;
    server.add({"core " + std::to_string(i), with_commas(m.incomplete), with_commas(m.complete),
                with_commas(m.merged), with_commas(m.completed), with_commas(m.forgotten),
                with_commas(m.aged)});
  }
  return table.text() + "\n" + server.text() + "\n";
}

// Of the jobs that did not wait for their stragglers; empty if there is none.
std::string late_text(const CountersSnapshot& all) {
  std::string out;
  for (const JobCounts& job : all.jobs) {
    const SlotCounters& s = job.slots;
    if (s.incomplete == 0U && s.incomplete_bad == 0U) continue;
    out += "incomplete results of job " + job.status.name + ": " + with_commas(s.incomplete);
    if (s.incomplete_bad != 0U) out += ", not sent because of wrong sums: " + with_commas(s.incomplete_bad);
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
    text += (text.empty() ? "" : ", ") + std::string(names[i]) + " " + with_commas(counts[i]);
  }
  return text;
}

void add_line(std::string& out, const std::string& name, const std::string& text) {
  if (!text.empty()) out += name + ": " + text + "\n";
}

constexpr std::size_t kSwitchDrops = kSwitchFateCount - kFirstSwitchDrop;

// Empty if the switch has done nothing.
std::string switch_text(const CountersSnapshot& all) {
  const SwitchCounters& s = all.l2;
  std::string out;
  const auto done = std::span(s.fates).first<kFirstSwitchDrop>();
  add_line(out, "switch", reasons_text(done, std::span(kSwitchFateNames).first<kFirstSwitchDrop>()));
  constexpr std::array<std::string_view, 5> kNames{"copies of flooded frames",
                                                   "copies too long for their port", "learned", "moved",
                                                   "forgotten for others"};
  const std::array<std::uint64_t, 5> counts{s.copies, s.not_flooded, s.learned, s.moved, s.evicted};
  add_line(out, "switch, beside", reasons_text(counts, kNames));
  if (s.learned != 0U || all.hosts != 0) add_line(out, "hosts known now", with_commas(all.hosts));
  return out.empty() ? out : out + "\n";
}

std::string drops_text(const CountersSnapshot& all) {
  std::string out;
  for (const JobCounts& job : all.jobs)
    add_line(out, "dropped of job " + job.status.name, reasons_text(job.counters.drops, kDropNames));
  add_line(out, "dropped, of no job", reasons_text(all.no_job.drops, kDropNames));
  add_line(out, "dropped by the switch",
           reasons_text(std::span(all.l2.fates).last<kSwitchDrops>(),
                        std::span(kSwitchFateNames).last<kSwitchDrops>()));
  add_line(out, "control packets not obeyed", reasons_text(all.membership.drops, kMembershipDropNames));
  if (all.answers_unsent != 0) add_line(out, "control answers not sent", with_commas(all.answers_unsent));
  return out.empty() ? "nothing was dropped\n" : out;
}

}  // namespace

std::string counters_text(const CountersSnapshot& all) {
  constexpr std::size_t kCoresAbreast = 8;
  std::string out = "tallyd " + all.instance + ": counters after " + seconds_text(all.uptime) + ", " +
                    with_commas(all.mbufs_in_use) + " packet buffers in use\n\n";
  out += ports_text(all) + "\n" + impaired_text(all);
  for (std::size_t first = 0; first < all.cores.size(); first += kCoresAbreast) {
    const CoreSpan rest = CoreSpan(all.cores).subspan(first);
    out += cores_text(all, rest.first(std::min(kCoresAbreast, rest.size())), first) + "\n";
  }
  if (!all.jobs.empty()) {
    out += jobs_text(all) + "\n" + sessions_text(all) + shared_slots_text(all) + late_text(all);
  }
  return out + switch_text(all) + drops_text(all);
}

}  // namespace tally

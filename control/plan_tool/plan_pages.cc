#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cluster/names.h"
#include "config/units.h"
#include "plan_tool/answers.h"
#include "text/text.h"
#include "text/wrap.h"

namespace tally::plan_tool {
namespace {

using planner::kNone;
using planner::Resource;
using text::ColumnTable;
using text::counted;
using text::fixed;

constexpr std::size_t kTopLoads = 8;
constexpr double kFull = 0.995;  // of what a resource can take
constexpr double kNothing = 1e-9;
// A buyer's knee: so much of the gain is there with so much of the boxes.
constexpr double kMostOfGain = 0.9;
constexpr double kKnee = 0.8;

std::string gbits(double rate) { return fixed(rate, 2); }

std::string percent(double part, double whole) {
  return whole > 0 ? fixed(100 * part / whole, 1) + " %" : std::string("-");
}

// 3 racks, 1 rack; box and switch have another plural.
std::string counted_of(std::size_t n, const std::string& noun) {
  const bool hiss = noun.ends_with('x') || noun.ends_with('h');
  return n != 1 && hiss ? std::to_string(n) + " " + noun + "es" : counted(n, noun);
}

std::string title(const Shown& shown) {
  const cluster::Cluster& c = shown.cluster;
  const auto racks =
      static_cast<std::size_t>(std::ranges::count(c.switches, true, &cluster::Cluster::Switch::rack));
  std::string out = text::cleaned(shown.file) + ": " + counted_of(racks, "rack") + ", ";
  if (racks < c.switches.size()) out += counted_of(c.switches.size() - racks, "other switch") + ", ";
  out += counted_of(c.hosts.size(), "host") + ", " + counted_of(c.boxes.size(), "box") + ", " +
         counted_of(c.servers.size(), "server") + "; ";
  out += c.routing == planner::Routing::kEcmp ? "equal ways share equally" : "the ways are chosen";
  if (c.results == planner::Results::kIgnored) out += ", results are not counted";
  return out + "\n";
}

bool wanted(const Shown& shown, const PlannedJob& job) {
  return shown.job.empty() || job.job->plan.name == shown.job;
}

std::string step_text(const PlannedJob& job, double rate) {
  if (job.job->gradient == 0 || rate <= 0) return "";
  const double seconds = static_cast<double>(job.job->gradient) * 8e-9 / rate;
  return "; a step of " + config::size_text(job.job->gradient) + " takes " +
         (seconds < 1 ? fixed(seconds * 1e3, 0) + " ms" : fixed(seconds, 2) + " s");
}

// "server ps1, and 3 more like it"
std::string binding_text(const PlannedCluster& planned, Resource binding) {
  if (binding == kNone) return "nothing: the job wants no more";
  std::size_t others = 0;
  for (Resource r = 0; r < planned.loads.size(); ++r)
    others += r != binding && planned.loads[r] > kNothing && planned.loads[r] >= kFull * planned.capacity[r]
                  ? 1
                  : 0;
  const bool lacks_slots = planned.capacity[binding] < planned.topology.rates()[binding];
  return planned.topology.name_of(binding) + (lacks_slots ? ", for want of slots" : "") +
         (others > 0 ? ", and " + std::to_string(others) + " more as full" : "");
}

// every: all that is used; else the fullest, and of hosts' links one alone, since there is one for each worker.
std::string loads_text(const PlannedCluster& planned, const planner::Rates& loads, bool every) {
  const planner::Rates& all = planned.capacity;
  std::vector<Resource> used;
  for (Resource r = 0; r < loads.size(); ++r) {
    if (loads[r] > kNothing) used.push_back(r);
  }
  std::ranges::stable_sort(used, {}, [&](Resource r) {
    const double share = all[r] > 0 ? loads[r] / all[r] : 0;
    return std::pair(-std::llround(share * 1000), planned.order_of(r));
  });
  ColumnTable table({"  load", "Gbit/s", "of", "full"});
  std::size_t shown = 0;
  bool host_shown = false;
  for (const Resource r : used) {
    const bool of_host = planned.order_of(r) == 3;
    if (!every && (shown == kTopLoads || (of_host && host_shown))) continue;
    host_shown = host_shown || of_host;
    ++shown;
    table.add(
        {"  " + planned.topology.name_of(r), gbits(loads[r]), gbits(all[r]), percent(loads[r], all[r])});
  }
  std::string out = table.text();
  if (shown < used.size()) out += "  ... and " + std::to_string(used.size() - shown) + " more: --all\n";
  return out;
}

std::string ring_text(const PlannedJob& job) {
  return "  A ring would be faster, and needs no box: " + gbits(job.ring) + " against " + gbits(job.rate()) +
         " Gbit/s.\n";
}

std::string job_text(const Shown& shown, const PlannedCluster& planned, const PlannedJob& job) {
  const planner::Job& asked = job.job->plan;
  std::string out = "\njob " + asked.name + ": " + counted_of(asked.workers.size(), "worker");
  if (job.racks > 0) out += " in " + counted_of(job.racks, "rack");
  out += asked.servers.empty() ? ", no server" : ", " + counted_of(asked.servers.size(), "server");
  out += "\n";
  if (!job.plan) return out + "  no plan: " + job.plan.error().what + "\n";
  out += "  rate     " + gbits(job.rate()) + " Gbit/s from every worker" + step_text(job, job.rate()) + "\n";
  out += "  full     " + binding_text(planned, planned.full(job)) + "\n";
  out += "  at most  " + gbits(job.plan->bound) + " Gbit/s by any plan: this is " +
         percent(job.rate(), job.plan->bound) + " of it\n\n";
  ColumnTable table({"  without this plan", "Gbit/s", "of its rate"});
  for (const Compared& one : job.compared) {
    if (one.rate)
      table.add({std::string("  ") + one.title, gbits(*one.rate), percent(*one.rate, job.rate())});
  }
  if (job.ring > 0)
    table.add({"  a ring of the workers, without boxes and servers", gbits(job.ring),
               percent(job.ring, job.rate())});
  const auto above = [&](const Compared& one) { return one.rate && *one.rate > job.rate(); };
  if (!job.compared.empty()) out += table.text();
  if (std::ranges::any_of(job.compared, above))
    out += "  At best: of a linear program, whose parts are no whole groups of chunks yet.\n";
  if (job.ring_is_faster()) out += ring_text(job);
  out += "\n";
  return out + loads_text(planned, job.plan->loads, shown.all_loads);
}

}  // namespace

std::string show_text(const Shown& shown, const PlannedCluster& planned) {
  std::string out = title(shown);
  for (const PlannedJob& job : planned.jobs) {
    if (wanted(shown, job)) out += job_text(shown, planned, job);
  }
  if (shown.job.empty() && planned.jobs.size() > 1)
    out += "\nall jobs together: " + gbits(planned.total()) + " Gbit/s of gradients\n" +
           loads_text(planned, planned.loads, shown.all_loads);
  return out;
}

std::string what_if_text(const Shown& shown, const Loss& loss) {
  std::string out = title(shown);
  out += "lost: " + text::cleaned(text::listed(loss.lost)) + "\n\n";
  ColumnTable table({"job", "before", "after", "Gbit/s of every worker"}, 1);
  ColumnTable full({"job", "full before", "full after"}, 3);
  std::string notes;
  for (std::size_t j = 0; j < loss.before.jobs.size(); ++j) {
    const PlannedJob& before = loss.before.jobs[j];
    const PlannedJob& after = loss.after.jobs[j];
    if (!wanted(shown, before)) continue;
    const std::string& name = before.job->plan.name;
    table.add({name, gbits(before.rate()), gbits(after.rate()),
               before.rate() > 0 ? percent(after.rate(), before.rate()) + " of before" : "-"});
    const auto full_text = [](const PlannedCluster& planned, const PlannedJob& job) {
      return job.plan ? binding_text(planned, planned.full(job)) : std::string("no plan");
    };
    full.add({name, full_text(loss.before, before), full_text(loss.after, after)});
    if (!after.plan) notes += name + ": no plan: " + after.plan.error().what + "\n";
    if (after.ring_is_faster() && after.plan) notes += name + ":" + ring_text(after).substr(1);
  }
  out += table.text() + "\n" + full.text();
  return notes.empty() ? out : out + "\n" + notes;
}

std::string buy_text(const Shown& shown, const Purchase& purchase, const std::vector<Placement>& found) {
  std::string out = title(shown);
  const std::size_t jobs = shown.cluster.jobs.size();
  const std::string what = jobs == 1 ? "Gbit/s of every worker" : "Gbit/s of all workers together";
  const double workers = jobs == 1 ? static_cast<double>(shown.cluster.jobs[0].plan.workers.size()) : 1;
  out += "boxes of " + config::rate_text(static_cast<std::uint64_t>(std::llround(purchase.rate * 1e6))) +
         " at " + counted_of(purchase.places.size(), "switch") + " that may have one; rates are " + what +
         "\n\n";
  ColumnTable table({"boxes", "where", "tried", "rate", "one more", "at most", "of it"}, 2);
  constexpr std::size_t kWidestPlaces = 44;
  for (std::size_t k = 0; k < found.size(); ++k) {
    const Placement& one = found[k];
    cluster::Names names;
    for (const Index at : one.at) names.push_back(shown.cluster.switches[at].name);
    const auto lines =
        text::wrapped(names.empty() ? "-" : cluster::as_ranges(std::move(names)), kWidestPlaces);
    const std::string more = k == 0 ? "" : "+" + gbits((one.total - found[k - 1].total) / workers);
    table.add({std::to_string(k), lines[0],
               std::string(one.all_tried ? "all " : "") + std::to_string(one.tried),
               gbits(one.total / workers), more, gbits(one.bound / workers), percent(one.total, one.bound)});
    for (std::size_t l = 1; l < lines.size(); ++l) table.add({"", lines[l]});
  }
  out += table.text() + "\n";
  const double gain = found.back().total - found[0].total;
  if (found.size() < 2 || gain <= kNothing * std::max(1.0, found[0].total))
    return out + "No box makes it faster: something else is full. tally-plan show says what.\n";
  std::size_t knee = 1;
  while (found[knee].total - found[0].total < kMostOfGain * gain) ++knee;
  const std::size_t last = found.size() - 1;
  if (static_cast<double>(knee) <= kKnee * static_cast<double>(last))
    out += "The first " + counted_of(knee, "box") + " bring " +
           percent(found[knee].total - found[0].total, gain) + " of what " + std::to_string(last) +
           " bring.\n";
  else
    out += "There is no knee up to here: the last boxes count as the first ones do.\n";
  if (std::ranges::any_of(found, [](const Placement& one) { return !one.all_tried; }))
    out +=
        "Where not all choices were tried, boxes were placed one by one, each where it brings most:\n"
        "another placement may be better, but not above 'at most'.\n";
  return out;
}

}  // namespace tally::plan_tool

#include <algorithm>
#include <cmath>
#include <utility>

#include "cluster/names.h"
#include "config/units.h"
#include "plan_report/report_text.h"
#include "plan_tool/answers.h"
#include "text/text.h"

namespace tally::plan_tool {
namespace {

using plan_report::counted_of;
using plan_report::full_text;
using plan_report::gbits;
using plan_report::percent;
using plan_report::ring_text;
using text::ColumnTable;
using text::fixed;

constexpr double kNothing = 1e-9;
// A buyer's knee: so much of the gain is there with so much of the boxes.
constexpr double kMostOfGain = 0.9;
constexpr double kKnee = 0.8;

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

std::string job_text(const Shown& shown, const PlannedCluster& planned, const PlannedJob& job) {
  return plan_report::job_text(planned.report(job),
                               {.behind_rate = step_text(job, job.rate()), .every_load = shown.all_loads});
}

}  // namespace

std::string show_text(const Shown& shown, const PlannedCluster& planned) {
  std::string out = title(shown);
  for (const PlannedJob& job : planned.jobs) {
    if (wanted(shown, job)) out += job_text(shown, planned, job);
  }
  if (shown.job.empty() && planned.jobs.size() > 1)
    out += "\nall jobs together: " + gbits(planned.total()) + " Gbit/s of gradients\n" +
           plan_report::loads_text(planned.all_loads(), 0, shown.all_loads);
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
    const plan_report::JobReport was = loss.before.report(before);
    const plan_report::JobReport is = loss.after.report(after);
    full.add({name, full_text(was), full_text(is)});
    if (!after.plan)
      notes += name + ": no plan: " + is.why_not + "\n";
    else if (is.ring_is_faster())
      notes += name + ": " + ring_text(is);
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
    const std::string more =
        k == 0 ? "" : std::string("+").append(gbits((one.total - found[k - 1].total) / workers));
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

#include "plan_report/report_text.h"

#include <algorithm>

#include "text/text.h"

namespace tally::plan_report {

std::string gbits(double rate) { return text::fixed(rate, 2); }

std::string percent(double part, double whole) {
  return whole > 0 ? text::fixed(100 * part / whole, 1) + " %" : std::string("-");
}

std::string counted_of(std::size_t n, const std::string& noun) {
  const bool hiss = noun.ends_with('x') || noun.ends_with('h');
  return n != 1 && hiss ? std::to_string(n) + " " + noun + "es" : text::counted(n, noun);
}

std::string full_text(const JobReport& job) {
  if (!job.why_not.empty()) return "no plan";
  if (job.full.empty()) return "nothing: the job wants no more";
  return text::cleaned(job.full) + (job.lacks_slots ? ", for want of slots" : "") +
         (job.as_full > 0 ? ", and " + std::to_string(job.as_full) + " more as full" : "");
}

std::string ring_text(const JobReport& job) {
  return "A ring would be faster, and needs no box: " + gbits(job.ring) + " against " + gbits(job.rate) +
         " Gbit/s.\n";
}

std::string loads_text(const std::vector<Load>& loads, std::size_t left_out, bool every) {
  text::ColumnTable table({"  load", "Gbit/s", "of", "full"});
  const std::vector<Load> shown = every ? loads : fullest_of(loads);
  for (const Load& one : shown)
    table.add(
        {"  " + text::cleaned(one.name), gbits(one.load), gbits(one.room), percent(one.load, one.room)});
  const std::size_t more = loads.size() - shown.size() + left_out;
  return table.text() + (more > 0 ? "  ... and " + std::to_string(more) + " more: --all\n" : "");
}

std::string job_text(const JobReport& job, const Around& around) {
  std::string out = "\njob " + text::cleaned(job.name) + ": " + counted_of(job.workers, "worker");
  if (job.racks > 0) out += " in " + counted_of(job.racks, "rack");
  out += job.parameter_servers == 0 ? ", no server" : ", " + counted_of(job.parameter_servers, "server");
  out += "\n" + around.under_title;
  if (!job.why_not.empty()) return out + "  no plan: " + text::cleaned(job.why_not) + "\n";
  out += "  rate     " + gbits(job.rate) + " Gbit/s from every worker" + around.behind_rate + "\n";
  out += "  full     " + full_text(job) + "\n";
  out += "  at most  " + gbits(job.bound) + " Gbit/s by any plan: this is " + percent(job.rate, job.bound) +
         " of it\n";
  text::ColumnTable table({"  without this plan", "Gbit/s", "of its rate"});
  for (const Compared& one : job.compared) {
    if (one.rate)
      table.add({"  " + text::cleaned(title_of(one.name)), gbits(*one.rate), percent(*one.rate, job.rate)});
  }
  if (job.ring > 0)
    table.add(
        {"  a ring of the workers, without boxes and servers", gbits(job.ring), percent(job.ring, job.rate)});
  const auto above = [&](const Compared& one) { return one.rate && *one.rate > job.rate; };
  if (!job.compared.empty()) out += "\n" + table.text();
  if (std::ranges::any_of(job.compared, above))
    out += "  At best: of a linear program, whose parts are no whole groups of chunks yet.\n";
  if (job.ring_is_faster()) out += "  " + ring_text(job);
  return out + "\n" + loads_text(job.loads, job.more_loads, around.every_load);
}

}  // namespace tally::plan_report

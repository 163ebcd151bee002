#include "ctl/plan_page.h"

#include <utility>
#include <vector>

#include "ctl/cells.h"
#include "plan_report/report_json.h"
#include "plan_report/report_text.h"
#include "text/text.h"

namespace tally::ctl {
namespace {

constexpr std::size_t kWidest = 96;

// What plans, and what keeps it from planning.
std::string planner_text(const Json& answer) {
  std::string out;
  if (!is_true(answer, "planning"))
    out =
        "no planner: all boxes of a job have the same part of it. A cluster's file makes plans: write\n"
        "planner.cluster into tallyd's configuration, at the home of each job\n";
  else if (const std::string planner = cell(answer, "planner"); planner == "-")
    out = "planned here, for the cluster of " + cell(answer, "cluster") + "\n";
  else
    out = (is_true(answer, "is_planner") ? "planned here for all boxes of the fleet"
                                         : "planned by box " + planner + " of the fleet") +
          (member(answer, "planner_since_ns_ago").is_number()
               ? ", seen here first " + ago_text(member(answer, "planner_since_ns_ago"))
               : "") +
          (cell(answer, "cluster") == "-" ? "; this box has no file of the cluster"
                                          : ", for the cluster of " + cell(answer, "cluster")) +
          "\n";
  if (const std::string trouble = cell(answer, "trouble"); trouble != "-")
    out += "NOT PLANNED ANEW: " + trouble + "\n";
  return out;
}

// "  planned  by rack1, 12.0 s ago, since: lost box rack3; full form; epoch 7, pause 1.2 ms"
std::string planned_text(const Json& job) {
  std::vector<std::string> words;
  if (const std::string planner = cell(job, "planner"); planner != "-") words.push_back("by box " + planner);
  if (const Json& ago = member(job, "planned_ns_ago"); ago.is_number()) words.push_back(ago_text(ago));
  if (const std::string why = cell(job, "why"); why != "-") words.push_back("for: " + why);
  if (const std::string form = cell(job, "form"); form != "-") words.push_back(form);
  if (const std::string effort = cell(job, "effort"); effort != "-") words.push_back("effort " + effort);
  if (const double epoch = number_of(job, "epoch"); epoch > 0)
    words.push_back("epoch " + text::fixed(epoch, 0));
  if (const Json& pause = member(job, "pause_ns"); pause.is_number())
    words.push_back("the job paused for " + text::fixed(pause.get<double>() * 1e-6, 1) + " ms");
  return text::listed(words);
}

// Lines under a title: a word, and what is said of it, broken where it is long.
std::string labelled(const std::string& label, const std::string& words) {
  constexpr std::size_t kIndent = 11;
  std::string out;
  for (const std::string& line : text::wrapped(words, kWidest - kIndent)) {
    std::string start = out.empty() ? "  " + label : "";
    start.resize(kIndent, ' ');
    out += start;
    out += line;
    out += '\n';
  }
  return out;
}

std::string parts_text(const std::vector<plan_report::Part>& parts, bool rest_goes_directly) {
  std::vector<std::string> words;
  double rest = 1;
  for (const plan_report::Part& one : parts) {
    rest -= one.share;
    words.push_back(text::cleaned(one.name) + " " + plan_report::percent(one.share, 1));
  }
  constexpr double kHalfAGroup = 0.5 / 1024;
  if (rest_goes_directly && rest > kHalfAGroup)
    words.push_back("directly to servers " + plan_report::percent(rest, 1));
  return text::listed(words);
}

std::string job_text(const Json& job) {
  const plan_report::JobReport report = plan_report::report_of(job);
  plan_report::Around around{.every_load = true};
  const std::string home = cell(job, "home");
  if (home != "-") around.under_title += labelled("home", home + (is_true(job, "here") ? ", this box" : ""));
  if (!report.why_not.empty()) return plan_report::job_text(report, around);
  if (const std::string said = planned_text(job); !said.empty())
    around.under_title += labelled("planned", said);
  if (const std::string next = cell(job, "next"); next != "-") around.under_title += labelled("next", next);
  if (!report.boxes.empty()) around.under_title += labelled("boxes", parts_text(report.boxes, true));
  if (report.servers.size() > 1) around.under_title += labelled("servers", parts_text(report.servers, false));
  return plan_report::job_text(report, around);
}

}  // namespace

std::string plan_page(const Json& answer) {
  std::string out = planner_text(answer);
  for (const Json& job : list_of(answer, "jobs")) out += job_text(job);
  if (list_of(answer, "jobs").empty()) out += "the box has no jobs\n";
  std::vector<std::string> lost;
  for (const Json& box : list_of(answer, "boxes")) {
    if (cell(box, "state") == "lost") lost.push_back(cell(box, "name"));
  }
  if (!lost.empty()) out += "\nboxes that are lost, and plans do without: " + text::listed(lost) + "\n";
  return out;
}

std::string plan_rate_page(const Json& answer) {
  const std::string resource = cell(answer, "resource");
  const Json& rate = member(answer, "rate_gbps");
  if (!rate.is_number()) return resource + " has what the cluster's file says\n";
  return rate.get<double>() > 0
             ? resource + " has " + text::fixed(rate.get<double>(), 3) + " Gbit/s from now on\n"
             : resource + " is down from now on\n";
}

}  // namespace tally::ctl

// tally-plan: plans of jobs over many boxes, before there is one.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "cluster/cluster_file.h"
#include "config/units.h"
#include "plan_tool/answers.h"
#include "plan_tool/command_line.h"
#include "text/text.h"

namespace tally::plan_tool {
namespace {

using cluster::Cluster;
using Verb = CommandLine::Verb;

// Fails when stdout has no room for it: an answer that is cut is none.
void print(std::FILE* to, const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
  if (!written && to == stdout)
    throw std::system_error(errno, std::generic_category(), "cannot write to stdout");
}

int refuse(const std::string& what, ExitCode code) {
  print(stderr, "tally-plan: " + what + "\n");
  return code;
}

void print(const Json& answer) {
  print(stdout, answer.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

// Of what is shown: a job without a plan is not good.
int exit_code_of(const CommandLine& line, const PlannedCluster& planned) {
  const bool good = std::ranges::all_of(planned.jobs, [&](const PlannedJob& job) {
    return job.plan.has_value() || (!line.job.empty() && line.job != job.job->plan.name);
  });
  return good ? kExitOk : kExitNotMet;
}

int show(const CommandLine& line, const Shown& shown) {
  const PlannedCluster planned = plan_all(shown.cluster, planner::Effort::kFull, Compare::kAll);
  if (line.json)
    print(show_json(shown, planned));
  else
    print(stdout, show_text(shown, planned));
  return exit_code_of(line, planned);
}

int what_if(const CommandLine& line, const Shown& shown) {
  Result<Cluster> left = shown.cluster;
  for (const std::string& what : line.lose) {
    if (left) left = cluster::without(std::move(*left), what);
  }
  if (!left) return refuse(left.error().what, kExitUsage);
  const PlannedCluster before = plan_all(shown.cluster, planner::Effort::kFull, Compare::kRing);
  const PlannedCluster after = plan_all(*left, planner::Effort::kFull, Compare::kRing);
  const Loss loss{line.lose, before, after};
  if (line.json)
    print(what_if_json(shown, loss));
  else
    print(stdout, what_if_text(shown, loss));
  return exit_code_of(line, after);
}

// Switches that may get a box; the error says why not.
Result<std::vector<Index>> places_of(const Cluster& cluster, const std::vector<std::string>& named) {
  std::vector<Index> out;
  const auto has_box = [&](Index at) {
    return std::ranges::find(cluster.boxes, at, &Cluster::Box::at) != cluster.boxes.end();
  };
  if (named.empty()) {
    for (Index s = 0; s < cluster.switches.size(); ++s) {
      if (!has_box(s)) out.push_back(s);
    }
    if (out.empty())
      return fail(ErrorCode::kInvalidArgument,
                  "every switch has a box; --instead plans without the boxes of the file");
    return out;
  }
  for (const std::string& text : named) {
    const auto names = cluster::parse_names(text);
    if (!names)
      return fail(ErrorCode::kInvalidArgument, "--at: " + names.error().message + "; " + names.error().help);
    for (const std::string& name : *names) {
      const Index at = cluster::switch_named(cluster, name);
      if (at == planner::kNone)
        return fail(ErrorCode::kInvalidArgument, "--at: there is no switch " + text::in_quotes(name));
      if (has_box(at))
        return fail(ErrorCode::kInvalidArgument,
                    "--at: " + name + " has a box; --instead plans without the boxes of the file");
      if (std::ranges::find(out, at) == out.end()) out.push_back(at);
    }
  }
  return out;
}

int buy(const CommandLine& line, Cluster cluster) {
  const auto rate = config::parse_rate(line.rate);
  if (!rate || *rate == 0)
    return refuse("--rate: " + (rate ? "0 buys nothing" : rate.error().message + "; " + rate.error().help),
                  kExitUsage);
  if (line.instead) cluster.boxes.clear();
  auto places = places_of(cluster, line.at);
  if (!places) return refuse(places.error().what, kExitUsage);
  const Purchase purchase{line.boxes, static_cast<double>(*rate) * 1e-6, std::move(*places)};
  const std::vector<Placement> found = placements(cluster, purchase);
  const std::string every;
  const Shown shown{line.file, cluster, every};
  if (line.json)
    print(buy_json(shown, purchase, found));
  else
    print(stdout, buy_text(shown, purchase, found));
  return kExitOk;
}

int act(int argc, char** argv) {
  const auto line = parse_command_line(argc, argv);
  if (!line) {
    print(stderr, line.error());
    return kExitUsage;
  }
  if (line->verb == Verb::kHelp) {
    print(stdout, line->text);
    return kExitOk;
  }
  const std::string path = line->file == "-" ? "/dev/stdin" : line->file;
  auto loaded = cluster::load_cluster(path);
  const auto& said = loaded ? loaded->warnings : loaded.error();
  print(stderr, config::to_text(said));
  if (!loaded) return said[0].at.line == 0 ? kExitFailed : kExitNotMet;
  const Cluster& cluster = loaded->cluster;
  if (line->verb == Verb::kBuy) return buy(*line, std::move(loaded->cluster));
  const auto name_of = [](const Cluster::Job& job) -> const std::string& { return job.plan.name; };
  if (!line->job.empty() && std::ranges::find(cluster.jobs, line->job, name_of) == cluster.jobs.end())
    return refuse("there is no job " + text::in_quotes(text::cleaned(line->job)) + ", but " +
                      text::listed(cluster.jobs, ", ", name_of),
                  kExitUsage);
  const Shown shown{line->file, cluster, line->job, line->all_loads};
  return line->verb == Verb::kShow ? show(*line, shown) : what_if(*line, shown);
}

}  // namespace
}  // namespace tally::plan_tool

int main(int argc, char** argv) {
  try {
    return tally::plan_tool::act(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tally-plan: %s\n", e.what());
    return tally::plan_tool::kExitFailed;
  }
}

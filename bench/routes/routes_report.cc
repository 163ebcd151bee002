#include "routes_report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "comparison.h"
#include "packets.h"

namespace tally::routes {
namespace {

using bench::words;
using Runs = std::vector<const Done*>;

// What is printed of it: communication time less than ATP's, %.
constexpr std::array<std::pair<planner::Index, int>, 5> kPrinted{
    {{10, 48}, {20, 54}, {30, 57}, {40, 53}, {50, 49}}};
constexpr double kVgg19 = 548.0 * 1024 * 1024;  // bytes of gradient

template <class Wanted>
Runs those(const std::vector<Done>& runs, const Wanted& wanted) {
  Runs out;
  for (const Done& run : runs)
    if (wanted(run.cell)) out.push_back(&run);
  return out;
}

Runs of_scheme(const Runs& runs, Scheme scheme) {
  Runs out;
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(out),
               [&](const Done* run) { return run->cell.scheme == scheme; });
  return out;
}

template <class Value>
double mean(const Runs& runs, const Value& value) {
  double sum = 0;
  for (const Done* run : runs) sum += value(*run);
  return runs.empty() ? 0 : sum / static_cast<double>(runs.size());
}

double rate_of(const Done& run) { return run.measured.rate; }

// Of one network: how much less time than the better of ATP's two, as measured and as it could be at best.
struct Less {
  double measured = 0;
  double at_best = 0;
};
std::vector<Less> less_time(const Runs& place) {
  std::vector<Less> out;
  for (const Done* ours : of_scheme(place, Scheme::kPlanned)) {
    double atp = 0;
    double best = 0;
    for (const Done* run : place) {
      const bool is_atp = run->cell.scheme == Scheme::kOwnRack || run->cell.scheme == Scheme::kServersRack;
      if (!is_atp || run->cell.seed != ours->cell.seed) continue;
      atp = std::max(atp, run->measured.rate);
      best = std::max(best, run->at_best);
    }
    out.push_back({1 - atp / ours->measured.rate, 1 - best / ours->measured.rate});
  }
  return out;
}

std::string headline(const std::vector<Done>& runs, bool unlike) {
  std::string out = unlike ? "### Links of 10 to 30 Gbit/s\n\n" : "### Links of 20 Gbit/s\n\n";
  out +=
      "| workers | no aggregation | ATP, own rack | ATP, own or server's rack | equal split | planned | "
      "VGG-19 by it "
      "| time less than ATP (least, most) | than ATP at best | printed "
      "|\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& [workers, printed] : kPrinted) {
    const Runs place = those(runs, [&, w = workers](const Cell& cell) {
      return cell.part == Part::kAgainstAtp && cell.workers == w && cell.unlike == unlike;
    });
    if (place.empty()) continue;
    out += words("| %u |", workers);
    for (std::size_t scheme = 0; scheme < kSchemes; ++scheme)
      out += words(" %.2f |", mean(of_scheme(place, static_cast<Scheme>(scheme)), rate_of));
    const double per_byte = mean(of_scheme(place, Scheme::kPlanned), [](const Done& run) {
      return static_cast<double>(run.measured.time) / run.cell.conditions.chunks / experiment::kModelledBytes;
    });
    const std::vector<Less> less = less_time(place);
    double sum = 0;
    double sum_best = 0;
    double least = 1;
    double most = 0;
    for (const Less& one : less) {
      sum += one.measured;
      sum_best += one.at_best;
      least = std::min(least, one.measured);
      most = std::max(most, one.measured);
    }
    const auto n = static_cast<double>(less.size());
    out += words(" %.3f s | %.0f %% (%.0f, %.0f) | %.0f %% | %d %% |\n", per_byte * kVgg19 / 1e9,
                 100 * sum / n, 100 * least, 100 * most, 100 * sum_best / n, printed);
  }
  return out + "\n";
}

std::string against_plan(const std::vector<Done>& runs) {
  std::string out =
      "| scheme | measured of what its tables promise: mean | least | tables of what is best | sent again | "
      "questions "
      "|\n|---|---|---|---|---|---|\n";
  for (std::size_t scheme = 0; scheme < kSchemes; ++scheme) {
    const Runs all = those(runs, [&](const Cell& cell) {
      return cell.part == Part::kAgainstAtp && cell.scheme == static_cast<Scheme>(scheme);
    });
    double least = 1e9;
    for (const Done* run : all) least = std::min(least, run->measured.rate / run->planned);
    const auto share = [](double of, const Done& run) {
      return 100 * of / (static_cast<double>(run.cell.workers) * (run.cell.conditions.chunks + kWarmUp));
    };
    out += words(
        "| %s | %.1f %% | %.1f %% | %.1f %% | %.2f %% | %.2f %% |\n", kSchemeNames[scheme].data(),
        100 * mean(all, [](const Done& run) { return run.measured.rate / run.planned; }), 100 * least,
        100 * mean(all, [](const Done& run) { return run.planned / run.at_best; }),
        mean(all, [&](const Done& run) { return share(static_cast<double>(run.measured.again), run); }),
        mean(all, [&](const Done& run) { return share(static_cast<double>(run.measured.queries), run); }));
  }
  return out + "\n";
}

std::string name_of(Spreading spreading) {
  return spreading == Spreading::kInOrder      ? "in turn, put in order"
         : spreading == Spreading::kAsTheyCome ? "in turn, as they come"
                                               : "each flow on one way (ECMP)";
}

// Everything of a part, one line for each run.
std::string lines(const std::vector<Done>& runs, Part part) {
  const Runs all = those(runs, [&](const Cell& cell) { return cell.part == part; });
  if (all.empty()) return {};
  std::string out =
      "| scheme | workers | links | chunks | window | packets | planned | measured | of it | sent again | "
      "longest wait "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Done* run : all) {
    const Cell& cell = run->cell;
    const double sent = cell.workers * static_cast<double>(cell.conditions.chunks + kWarmUp);
    out += words("| %s | %u | %s | %u | %u | %s | %.3f | %.3f | %.1f %% | %.1f %% | %.1f ms |\n",
                 kSchemeNames[static_cast<std::size_t>(cell.scheme)].data(), cell.workers,
                 cell.unlike ? "unlike" : "like", cell.conditions.chunks, cell.conditions.window,
                 name_of(cell.conditions.spreading).c_str(), run->planned, run->measured.rate,
                 100 * run->measured.rate / run->planned,
                 100 * static_cast<double>(run->measured.again) / sent, run->measured.waited / 1e3);
  }
  return out + "\n";
}

}  // namespace

std::uint64_t wrong_in(const std::vector<Done>& runs) {
  std::uint64_t wrong = 0;
  for (const Done& run : runs) wrong += run.measured.wrong;
  return wrong;
}

std::string markdown_of(const std::vector<Done>& runs) {
  std::string out = "# Routes: plans on production engines, in virtual time\n\n";
  out +=
      "What it means is in [docs/routes.md](../../docs/routes.md). All rates are Gbit/s of every worker on "
      "the wire, "
      "means of the networks of seeds 1 to 3.\n\n";
  out += words("%zu runs; elements of sums that were wrong: %lu.\n\n## Against ATP\n\n", runs.size(),
               wrong_in(runs));
  out += headline(runs, false) + headline(runs, true);
  out += "## Against the plan\n\n" + against_plan(runs);
  out += "## Four times the chunks\n\n" + lines(runs, Part::kLonger);
  out += "## Results counted\n\n" + lines(runs, Part::kCounted);
  out += "## Order of packets\n\n" + lines(runs, Part::kOrder);
  out += "## Window\n\n" + lines(runs, Part::kWindow);
  out += "## Timers of at least 1 ms instead of 20\n\n" + lines(runs, Part::kPolling);
  return out;
}

std::string json_of(const std::vector<Done>& runs) {
  using nlohmann::json;
  json all = json::array();
  for (const Done& run : runs) {
    const Cell& cell = run.cell;
    const Measured& m = run.measured;
    all.push_back({{"part", kPartNames[static_cast<std::size_t>(cell.part)]},
                   {"workers", cell.workers},
                   {"unlike", cell.unlike},
                   {"seed", cell.seed},
                   {"scheme", kSchemeNames[static_cast<std::size_t>(cell.scheme)]},
                   {"chunks", cell.conditions.chunks},
                   {"window", cell.conditions.window},
                   {"rto_floor_ms", static_cast<double>(cell.conditions.rto_floor) / 1e6},
                   {"packets", name_of(cell.conditions.spreading)},
                   {"results_counted", cell.conditions.results == planner::Results::kCounted},
                   {"at_best_gbps", run.at_best},
                   {"planned_gbps", run.planned},
                   {"measured_gbps", m.rate},
                   {"milliseconds", static_cast<double>(m.time) / 1e6},
                   {"wrong", m.wrong},
                   {"again", m.again},
                   {"early", m.early},
                   {"queries", m.queries},
                   {"flushes", m.flushes},
                   {"denied", m.denied},
                   {"longest_wait_us", m.waited},
                   {"events", m.events}});
  }
  json printed = json::object();
  for (const auto& [workers, percent] : kPrinted) printed[std::to_string(workers)] = percent;
  return json{{"tally_routes", {{"printed", printed}, {"runs", all}}}}.dump(1) + "\n";
}

}  // namespace tally::routes

#include "rounds_report.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "comparison.h"

namespace tally::rounds {
namespace {

using bench::words;

template <class T>
std::string name_of(const T& names, auto which) {
  return std::string(names[static_cast<std::size_t>(which)]);
}

// What both are, but for the hot set.
bool are_alike(const Cell& a, const Cell& b) {
  const Conditions& x = a.conditions;
  const Conditions& y = b.conditions;
  return a.bound == b.bound && x.load.keys == y.load.keys && x.load.exponent == y.load.exponent &&
         x.load.workers == y.load.workers && x.width == y.width && x.servers == y.servers;
}

const Done* alike(const std::vector<Done>& runs, const Done& run, Kept kept) {
  const auto at = std::find_if(runs.begin(), runs.end(), [&](const Done& other) {
    return other.cell.kept == kept && are_alike(other.cell, run.cell);
  });
  return at == runs.end() ? nullptr : &*at;
}

std::string busy_of(const Done& run) {
  const Part part = run.measured.fullest();
  return words("%s %.0f %%", name_of(kPartNames, part).c_str(),
               100 * run.measured.busy[static_cast<std::size_t>(part)]);
}

std::string headline(const std::vector<Done>& runs, Bound bound) {
  std::string out =
      "| Zipf | width | workers | cold, rounds/s | agreed | written back | random | oracle | pushed : cold | "
      "pairs, of reckoned | busiest: cold | agreed |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  std::vector<const Done*> rows;
  for (const Done& run : runs)
    if (run.cell.table == Table::kHeadline && run.cell.bound == bound && run.cell.kept == Kept::kAgreed)
      rows.push_back(&run);
  std::sort(rows.begin(), rows.end(), [](const Done* a, const Done* b) {
    const auto key = [](const Conditions& c) {
      return std::make_tuple(-c.load.exponent, c.width, c.load.workers);
    };
    return key(a->cell.conditions) < key(b->cell.conditions);
  });
  for (const Done* row : rows) {
    const Conditions& c = row->cell.conditions;
    const Done* const cold = alike(runs, *row, Kept::kNone);
    if (cold == nullptr) continue;
    out += words("| %.1f | %u | %u | %.1f | **%.2f** |", c.load.exponent, c.width, c.load.workers,
                 cold->per_second(), gain_of(runs, *row));
    for (const Kept kept : {Kept::kWrittenBack, Kept::kRandom, Kept::kOracle}) {
      const Done* const other = alike(runs, *row, kept);
      out += other == nullptr ? " - |" : words(" %.2f |", gain_of(runs, *other));
    }
    const bench::Traffic& t = row->measured.traffic;
    out += words(" %.2f | %.2f, %.1f %% | %s | %s |\n", t.pushed / t.cold, t.pairs(),
                 100 * t.pairs() / row->reckoned.pairs(), busy_of(*cold).c_str(), busy_of(*row).c_str());
  }
  return out + "\n";
}

// Every run of a table with hot keys.
std::string lines(const std::vector<Done>& runs, Table table) {
  std::string out =
      "| short of | Zipf | width | workers | servers | hot keys | rounds/s | x cold | pushed : cold | pairs, "
      "of "
      "reckoned | busiest |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Done& run : runs) {
    if (run.cell.table != table || run.cell.kept == Kept::kNone) continue;
    const Conditions& c = run.cell.conditions;
    const bench::Traffic& t = run.measured.traffic;
    out += words("| %s | %.2f | %u | %u | %u | %zu | %.1f | %.2f | %.2f | %.2f, %.1f %% | %s |\n",
                 name_of(kBoundNames, run.cell.bound).c_str(), c.load.exponent, c.width, c.load.workers,
                 c.servers, run.size, run.per_second(), gain_of(runs, run), t.pushed / t.cold, t.pairs(),
                 100 * t.pairs() / run.reckoned.pairs(), busy_of(run).c_str());
  }
  return out + "\n";
}

}  // namespace

double gain_of(const std::vector<Done>& runs, const Done& run) {
  const Done* const cold = alike(runs, run, Kept::kNone);
  return cold == nullptr ? 0 : run.per_second() / cold->per_second();
}

std::uint64_t wrong_in(const std::vector<Done>& runs) {
  std::uint64_t wrong = 0;
  for (const Done& run : runs) wrong += run.measured.wrong;
  return wrong;
}

std::string markdown_of(const std::vector<Done>& runs) {
  std::string out = "# Hot keys: rounds of a sparse model, in virtual time\n\n";
  out +=
      "What it means is in [docs/hot_keys.md](../../docs/hot_keys.md). Gains are rounds per second over "
      "those "
      "of the same job with everything cold.\n\n";
  out += words("%zu runs; values of sums that were wrong: %lu.\n\n", runs.size(), wrong_in(runs));
  out += "## Servers are short of threads\n\n" + headline(runs, Bound::kThreads);
  out += "## Servers are short of links\n\n" + headline(runs, Bound::kLinks);
  out += "## Other laws\n\n" + lines(runs, Table::kLaws);
  out += "## Size of the hot set\n\n" + lines(runs, Table::kSizes);
  out += "## More servers\n\n" + lines(runs, Table::kServers);
  return out;
}

std::string json_of(const std::vector<Done>& runs) {
  using nlohmann::json;
  json all = json::array();
  for (const Done& run : runs) {
    const Conditions& c = run.cell.conditions;
    const Measured& m = run.measured;
    json busy = json::object();
    for (std::size_t part = 0; part < kParts; ++part) busy[std::string(kPartNames[part])] = m.busy[part];
    all.push_back({{"table", name_of(kTableNames, run.cell.table)},
                   {"short_of", name_of(kBoundNames, run.cell.bound)},
                   {"kept", name_of(kKeptNames, run.cell.kept)},
                   {"keys", c.load.keys},
                   {"zipf", c.load.exponent},
                   {"lookups", c.load.lookups},
                   {"workers", c.load.workers},
                   {"width", c.width},
                   {"servers", c.servers},
                   {"gbps", c.gbps},
                   {"threads", c.threads},
                   {"hot", run.size},
                   {"rounds", m.rounds},
                   {"milliseconds", static_cast<double>(m.time) / 1e6},
                   {"agreement_ms", static_cast<double>(m.agreement) / 1e6},
                   {"rounds_per_second", run.per_second()},
                   {"gain", gain_of(runs, run)},
                   {"pushed", m.traffic.pushed},
                   {"cold", m.traffic.cold},
                   {"merged", m.traffic.merged},
                   {"pairs_reckoned", run.reckoned.pairs()},
                   {"bytes_to_servers", m.to_servers},
                   {"busy", busy},
                   {"wrong", m.wrong},
                   {"again", m.again}});
  }
  return json{{"tally_hot_rounds", {{"runs", all}}}}.dump(1) + "\n";
}

}  // namespace tally::rounds

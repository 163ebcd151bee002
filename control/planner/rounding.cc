#include "planner/rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "tally/mix64.h"

namespace tally::planner {

std::vector<std::size_t> interleaved(std::span<const std::size_t> counts) {
  struct Step {
    double at = 0;
    std::size_t what = 0;
  };
  std::vector<Step> steps;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (std::size_t j = 0; j < counts[i]; ++j)
      steps.push_back({(static_cast<double>(j) + 0.5) / static_cast<double>(counts[i]), i});
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.at < b.at; });
  std::vector<std::size_t> sequence;
  sequence.reserve(steps.size());
  for (const Step& step : steps) sequence.push_back(step.what);
  return sequence;
}

namespace {

std::vector<double> shares_of(const Party& party) {
  std::vector<double> shares;
  for (const Party::Server& server : party.servers) shares.push_back(server.share);
  return shares;
}

// Tables that grow by boxes as these come to be named.
class Naming {
 public:
  explicit Naming(const Party& party) {
    for (const Party::Rack& rack : party.racks) tables_.racks.push_back(rack.at);
    tables_.of_rack.resize(party.racks.size());
  }
  // kNoBox if no name is left.
  std::uint8_t name(Index box) {
    const auto known = std::find(tables_.boxes.begin(), tables_.boxes.end(), box);
    if (known != tables_.boxes.end()) return static_cast<std::uint8_t>(known - tables_.boxes.begin());
    if (tables_.boxes.size() == kBoxesOfJob) return Entry::kNoBox;
    tables_.boxes.push_back(box);
    return static_cast<std::uint8_t>(tables_.boxes.size() - 1);
  }
  Tables& tables() { return tables_; }

 private:
  Tables tables_;
};

// The largest parts, so many that a worker can speak to them all beside its own rack's box.
std::vector<Part> within_reach(std::vector<Part> parts, bool with_own) {
  const std::size_t most = kBoxesOfWorker - (with_own ? 1 : 0);
  std::erase_if(parts, [](const Part& part) { return !(part.amount > 0); });
  if (parts.size() <= most) return parts;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.amount > b.amount; });
  parts.resize(most);
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.place < b.place; });
  return parts;
}

Tables round_product(const Split& split, const Party& party) {
  Naming naming(party);
  Tables& tables = naming.tables();
  const bool with_own = std::any_of(split.own.begin(), split.own.end(), [](double own) { return own > 0; });
  const std::vector<Part> shared = within_reach(split.shared, with_own);
  std::vector<double> amounts;
  amounts.reserve(shared.size() + 1);
  for (const Part& part : shared) amounts.push_back(part.amount);
  amounts.push_back(party.servers.empty() ? 0 : split.rest);
  const std::vector<std::size_t> counts = largest_remainder(amounts, kGroups);

  // Groups of one place lie side by side while they get their servers, so each place has them in right proportion.
  std::vector<std::size_t> server_of(kGroups);
  if (!party.servers.empty()) server_of = interleaved(largest_remainder(shares_of(party), kGroups));
  std::vector<std::size_t> next;  // of each place: its first group of those
  for (std::size_t p = 0, first = 0; p < counts.size(); first += counts[p++]) next.push_back(first);
  std::vector<std::vector<std::size_t>> rest(party.servers.size());  // groups of each server
  const std::vector<std::size_t> places = interleaved(counts);
  std::array<Entry, kGroups> of_all{};
  for (std::size_t g = 0; g < kGroups; ++g) {
    const std::size_t place = places[g];
    const auto server = static_cast<std::uint8_t>(server_of[next[place]++]);
    Entry entry{Entry::kNoBox, server};
    if (place < shared.size())
      entry.box = naming.name(shared[place].place);
    else
      rest[server].push_back(g);
    of_all[g] = entry;
  }
  std::fill(tables.of_rack.begin(), tables.of_rack.end(), of_all);
  if (!with_own || counts.back() == 0) return tables;

  for (std::size_t r = 0; r < party.racks.size(); ++r) {
    const double part = split.rest > 0 ? split.own[r] / split.rest : 0;
    if (!(part > 0)) continue;
    const std::uint8_t box = naming.name(party.racks[r].box);
    if (box == Entry::kNoBox) continue;
    std::vector<double> of_server;
    of_server.reserve(rest.size());
    for (const auto& groups : rest) of_server.push_back(static_cast<double>(groups.size()));
    const auto total = static_cast<std::size_t>(std::lround(part * static_cast<double>(counts.back())));
    const std::vector<std::size_t> own = largest_remainder(of_server, total);
    // Racks take turns, so that a server hears of some directly while boxes merge for others.
    const double turn = static_cast<double>(r) / static_cast<double>(party.racks.size());
    for (std::size_t s = 0; s < rest.size(); ++s) {
      const double step = static_cast<double>(own[s]) / std::max<double>(1, of_server[s]);
      double before = 0;
      for (std::size_t i = 0; i < rest[s].size(); ++i) {
        const double after = std::floor(static_cast<double>(i + 1) * step + turn);
        if (after > std::exchange(before, after)) tables.of_rack[r][rest[s][i]].box = box;
      }
    }
  }
  return tables;
}

// A piece of one server's share in which no rack changes its place.
struct Pattern {
  double width = 0;
  std::vector<Index> places{};  // of racks
};

std::vector<Pattern> patterns_of(const Portion& portion, double share) {
  constexpr double kHair = 1e-9;
  std::vector<double> cuts{0, share};
  for (const std::vector<Part>& parts : portion.racks) {
    double at = 0;
    for (const Part& part : parts) cuts.push_back(std::min(share, at += part.amount));
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<Pattern> patterns;
  double from = 0;
  for (const double to : cuts) {
    if (to - from < kHair) continue;
    Pattern pattern{to - from, {}};
    const double middle = (from + to) / 2;
    for (const std::vector<Part>& parts : portion.racks) {
      Index place = parts.empty() ? kDirect : parts.back().place;
      double at = 0;
      for (const Part& part : parts) {
        at += part.amount;
        if (middle < at) {
          place = part.place;
          break;
        }
      }
      pattern.places.push_back(place);
    }
    patterns.push_back(std::move(pattern));
    from = to;
  }
  return patterns;
}

Tables round_full(const Split& split, const Party& party) {
  Naming naming(party);
  Tables& tables = naming.tables();
  const std::vector<std::size_t> of_server = largest_remainder(shares_of(party), kGroups);
  struct Run {
    std::size_t server = 0;
    Pattern pattern{};
  };
  std::vector<Run> runs;
  std::vector<std::size_t> counts;
  for (std::size_t s = 0; s < party.servers.size(); ++s) {
    if (of_server[s] == 0) continue;
    std::vector<Pattern> patterns = patterns_of(split.portions[s], party.servers[s].share);
    std::vector<double> widths;
    widths.reserve(patterns.size());
    for (const Pattern& pattern : patterns) widths.push_back(pattern.width);
    const std::vector<std::size_t> groups = largest_remainder(widths, of_server[s]);
    for (std::size_t p = 0; p < patterns.size(); ++p) {
      runs.push_back({s, std::move(patterns[p])});
      counts.push_back(groups[p]);
    }
  }
  const std::vector<std::size_t> sequence = interleaved(counts);
  for (std::size_t g = 0; g < kGroups; ++g) {
    const Run& run = runs[sequence[g]];
    for (std::size_t r = 0; r < party.racks.size(); ++r) {
      const Index place = run.pattern.places[r];
      tables.of_rack[r][g] = {place == kDirect ? Entry::kNoBox : naming.name(place),
                              static_cast<std::uint8_t>(run.server)};
    }
  }
  return tables;
}

}  // namespace

Tables round_to_groups(const Split& split, const Party& party) {
  return split.portions.empty() ? round_product(split, party) : round_full(split, party);
}

Rates independent_loads(LoadModel& model, const Topology& topology, const Party& party, const Split& split,
                        std::uint64_t seed) {
  Rates loads(topology.resources());
  const auto put = [&](const LoadModel::Loads& on, double amount) {
    for (const LoadModel::Load& load : on) loads[load.resource] += amount * load.amount;
  };
  put(model.from_hosts(), 1);
  const bool with_servers = !party.servers.empty();
  std::vector<std::size_t> server_of(kGroups);
  if (with_servers) server_of = interleaved(largest_remainder(shares_of(party), kGroups));
  std::uint64_t draws = 0;
  const auto parts_of = [&](std::size_t rack, std::size_t server) {
    if (!split.portions.empty()) return split.portions[server].racks[rack];
    std::vector<Part> parts = split.shared;
    if (split.own[rack] > 0) parts.push_back({party.racks[rack].box, split.own[rack]});
    parts.push_back({kDirect, std::max(0.0, split.rest - split.own[rack])});
    return parts;
  };
  std::vector<std::vector<std::vector<Part>>> parts(std::max<std::size_t>(1, party.servers.size()));
  for (std::size_t s = 0; s < parts.size(); ++s) {
    for (std::size_t r = 0; r < party.racks.size(); ++r) parts[s].push_back(parts_of(r, s));
  }
  for (std::size_t g = 0; g < kGroups; ++g) {
    const std::size_t server = server_of[g];
    std::vector<Index> used;
    for (std::size_t r = 0; r < party.racks.size(); ++r) {
      const std::vector<Part>& choices = parts[server][r];
      double all = 0;
      for (const Part& part : choices) all += part.amount;
      for (double w = 0; w < party.racks[r].workers; ++w) {
        double left = static_cast<double>(mix64(mix64(seed) + ++draws) >> 11) * 0x1p-53 * all;
        Index place = choices.empty() ? kDirect : choices.back().place;
        for (const Part& part : choices) {
          if (left < part.amount) {
            place = part.place;
            break;
          }
          left -= part.amount;
        }
        if (place == kDirect && with_servers) {
          put(model.to_server(party.racks[r].at, server), kOneGroup);
        } else if (place != kDirect) {
          put(model.to_box(r, place), kOneGroup);
          used.push_back(place);
        }
      }
    }
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    for (const Index box : used) {
      if (with_servers) put(model.to_server(topology.boxes()[box].at, server), kOneGroup);
    }
  }
  return loads;
}

}  // namespace tally::planner

#include "planner/table.h"

#include <algorithm>
#include <bitset>
#include <limits>
#include <utility>

namespace tally::planner {
namespace {

auto into(LoadModel::Loads& loads) {
  return [&loads](Resource resource, double amount) { loads.push_back({resource, amount}); };
}

}  // namespace

LoadModel::LoadModel(const Network& network, const Party& party, const Spread& spread)
    : network_(network),
      party_(party),
      spread_(spread),
      to_box_(party.racks.size() * network.topology.boxes().size()),
      to_server_(network.topology.switches().size() * party.servers.size()),
      sums_(network.topology.links().size()) {}

template <class Put>
void LoadModel::along(Index from, Index to, const std::vector<double>* shares, Resource end,
                      const Put& put_resource) {
  if (!network_.ways.lead(from, to)) return put_resource(end, std::numeric_limits<double>::infinity());
  const Topology& topology = network_.topology;
  // Shortest ways do not come back, so the reverse of none of their links is among them.
  const auto put = [&](Index link, double amount) {
    put_resource(topology.link(link), amount);
    if (network_.results == Results::kCounted)
      put_resource(topology.link(topology.links()[link].reverse), amount);
  };
  if (shares == nullptr) {
    for (const LinkPart& one : network_.ways.parts(from, to)) put(one.link, one.part);
  } else {
    const std::vector<Way>& ways = network_.ways.between(from, to);
    std::vector<Index> touched;
    for (std::size_t w = 0; w < ways.size(); ++w) {
      if (!((*shares)[w] > 0)) continue;
      for (const Index link : ways[w].links) {
        if (sums_[link] == 0) touched.push_back(link);
        sums_[link] += (*shares)[w];
      }
    }
    for (const Index link : touched) put(link, std::exchange(sums_[link], 0));
  }
  put_resource(end, 1);
  const Resource first_server = topology.server(0);
  if (end >= first_server) put(topology.hosts()[topology.servers()[end - first_server].host].down, 1);
}

template <class Put>
void LoadModel::each_to_box(std::size_t rack, Index box, const Put& put) {
  const Index from = party_.racks[rack].at;
  along(from, network_.topology.boxes()[box].at, spread_.to_box(from, box), network_.topology.box(box), put);
}

template <class Put>
void LoadModel::each_to_server(Index from, std::size_t server, const Put& put) {
  const Party::Server& it = party_.servers[server];
  along(from, it.at, spread_.to_server(from, it.number), network_.topology.server(it.number), put);
}

const LoadModel::Loads& LoadModel::to_box(std::size_t rack, Index box) {
  Loads& loads = to_box_[rack * network_.topology.boxes().size() + box];
  if (loads.empty()) each_to_box(rack, box, into(loads));
  return loads;
}

const LoadModel::Loads& LoadModel::to_server(Index from, std::size_t server) {
  Loads& loads = to_server_[from * party_.servers.size() + server];
  if (loads.empty()) each_to_server(from, server, into(loads));
  return loads;
}

LoadModel::Loads LoadModel::from_hosts() const {
  Loads loads;
  for (const auto& [host, workers] : party_.hosts) {
    const Host& it = network_.topology.hosts()[host];
    loads.push_back({network_.topology.link(it.up), workers});
    if (network_.results == Results::kCounted) loads.push_back({network_.topology.link(it.down), workers});
  }
  return loads;
}

Rates unit_loads(LoadModel& model, const Topology& topology, const Party& party, const Tables& tables) {
  Rates loads(topology.resources());
  const auto times = [&loads](double many) {
    return [&loads, many](Resource resource, double amount) { loads[resource] += many * amount; };
  };
  for (const LoadModel::Load& load : model.from_hosts()) loads[load.resource] += load.amount;

  const std::size_t boxes = tables.boxes.size();
  const std::size_t servers = party.servers.size();
  // A box sends one sum of a group on, however many racks it has it from.
  std::vector<std::size_t> sums(boxes * servers);
  std::vector<std::bitset<kBoxesOfJob>> seen(servers > 0 ? kGroups : 0);
  std::vector<std::size_t> at_box(boxes);
  std::vector<std::size_t> direct(servers);
  const auto read = [&](const std::array<Entry, kGroups>& table) {
    std::fill(at_box.begin(), at_box.end(), 0);
    std::fill(direct.begin(), direct.end(), 0);
    for (std::size_t g = 0; g < kGroups; ++g) {
      const Entry& entry = table[g];
      if (entry.box == Entry::kNoBox) {
        ++direct[entry.server];
        continue;
      }
      ++at_box[entry.box];
      if (servers == 0 || seen[g][entry.box]) continue;
      seen[g][entry.box] = true;
      ++sums[entry.box * servers + entry.server];
    }
  };
  for (std::size_t r = 0; r < party.racks.size(); ++r) {
    // Where own racks are not told apart all have one table.
    if (r == 0 || tables.of_rack[r] != tables.of_rack[r - 1]) read(tables.of_rack[r]);
    const double each = party.racks[r].workers * kOneGroup;
    for (std::size_t b = 0; b < boxes; ++b) {
      if (at_box[b] > 0) model.each_to_box(r, tables.boxes[b], times(each * static_cast<double>(at_box[b])));
    }
    for (std::size_t s = 0; s < servers; ++s) {
      if (direct[s] > 0)
        model.each_to_server(party.racks[r].at, s, times(each * static_cast<double>(direct[s])));
    }
  }
  for (std::size_t b = 0; b < boxes; ++b) {
    for (std::size_t s = 0; s < servers; ++s) {
      const std::size_t count = sums[b * servers + s];
      if (count > 0)
        model.each_to_server(topology.boxes()[tables.boxes[b]].at, s,
                             times(kOneGroup * static_cast<double>(count)));
    }
  }
  return loads;
}

Rated rate_of(const Topology& topology, const Party& party, const Rates& capacity, const Rates& unit) {
  Rated rated{party.demand, kNone};
  for (Resource r = 0; r < unit.size(); ++r) {
    if (!(unit[r] > 0)) continue;
    const Resource first_box = topology.box(0);
    const bool is_box = r >= first_box && r < topology.server(0);
    const double room = is_box ? box_rate(topology, party, capacity, r - first_box) : capacity[r];
    if (room / unit[r] < rated.rate) rated = {std::max(0.0, room / unit[r]), r};
  }
  return rated;
}

}  // namespace tally::planner

#include "planner/repair.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <limits>
#include <optional>

namespace tally::planner {
namespace {

// So many loads are looked at in all; what a move takes depends on the network.
constexpr std::size_t kMostWork = 5'000'000;
constexpr std::size_t kFewestMoves = 20;
// Of the moves that look best by prices so many are tried; if none of them cools the hottest resource, that is the end.
constexpr std::size_t kTried = 24;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What is done with one group: a new box for one rack, for all racks, or none for all.
struct Move {
  enum class Kind : std::uint8_t { kOneRack, kAllRacks, kNobody, kSwapServers };
  double gain = 0;  // by prices
  Kind kind = Kind::kAllRacks;
  std::size_t group = 0;
  std::size_t rack = 0;
  std::uint8_t box = Entry::kNoBox;
  std::size_t other = 0;  // group that gives its server for this one's
};

// Of a stream, or of what a group puts on the network.
struct Price {
  double cost = 0;
  bool hot = false;  // some of it lies on the hottest resource
};

class Repair {
 public:
  Repair(LoadModel& model, const Topology& topology, const Party& party, const Rates& capacity,
         Tables& tables)
      : model_(model),
        topology_(topology),
        party_(party),
        tables_(tables),
        room_(capacity),
        loads_(unit_loads(model, topology, party, tables)),
        servers_(std::max<std::size_t>(1, party.servers.size())) {
    for (Index b = 0; b < topology.boxes().size(); ++b)
      room_[topology.box(b)] = box_rate(topology, party, capacity, b);
    name_more_boxes();
    own_.assign(party.racks.size(), Entry::kNoBox);
    for (std::size_t r = 0; r < own_.size(); ++r) {
      const auto at = std::find(tables.boxes.begin(), tables.boxes.end(), party.racks[r].box);
      if (party.racks[r].box != kNone && at != tables.boxes.end())
        own_[r] = static_cast<std::uint8_t>(at - tables.boxes.begin());
    }
    is_uniform_.assign(kGroups, false);
    for (std::size_t g = 0; g < kGroups; ++g) look_at(g);
    is_shared_.assign(tables.boxes.size(), false);
    for (std::size_t g = 0; g < kGroups; ++g) {
      if (is_uniform(g)) is_shared_[entry(0, g).box] = true;
    }
    const auto named = static_cast<std::size_t>(std::count(is_shared_.begin(), is_shared_.end(), true));
    for (std::size_t b = 0, shared = named; b < is_shared_.size() && shared + 1 < kBoxesOfWorker; ++b) {
      if (is_shared_[b]) continue;
      is_shared_[b] = true;
      ++shared;
    }
  }

  std::size_t run(double promised) {
    const double enough = kRepairedEnough / promised;
    const std::size_t most = std::max(kFewestMoves, kMostWork / work_of_a_move());
    std::size_t moves = 0;
    for (; moves < most; ++moves) {
      find_hottest();
      if (worst_ <= enough || !cool()) break;
    }
    drop_unused_names();
    return moves;
  }

 private:
  [[nodiscard]] const Entry& entry(std::size_t rack, std::size_t group) const {
    return tables_.of_rack[rack][group];
  }
  // All racks have one box for it.
  [[nodiscard]] bool is_uniform(std::size_t group) const { return is_uniform_[group]; }
  void look_at(std::size_t group) {
    const std::uint8_t box = entry(0, group).box;
    is_uniform_[group] =
        box != Entry::kNoBox && std::all_of(tables_.of_rack.begin(), tables_.of_rack.end(),
                                            [&](const auto& table) { return table[group].box == box; });
  }
  [[nodiscard]] Index switch_of(std::uint8_t box) const { return topology_.boxes()[tables_.boxes[box]].at; }

  std::size_t work_of_a_move() {
    std::size_t work = kGroups * party_.racks.size();
    for (std::size_t r = 0; r < party_.racks.size(); ++r) {
      for (const Index box : tables_.boxes) work += model_.to_box(r, box).size();
    }
    return work;
  }
  // Boxes that rounding left without a group may serve after all.
  void name_more_boxes() {
    for (Index b = 0; b < topology_.boxes().size() && tables_.boxes.size() < kBoxesOfWorker; ++b) {
      if (room_[topology_.box(b)] > 0 &&
          std::find(tables_.boxes.begin(), tables_.boxes.end(), b) == tables_.boxes.end())
        tables_.boxes.push_back(b);
    }
  }
  void drop_unused_names() {
    std::vector<std::uint8_t> name(tables_.boxes.size(), Entry::kNoBox);
    std::vector<Index> used;
    for (std::size_t g = 0; g < kGroups; ++g) {
      for (auto& table : tables_.of_rack) {
        std::uint8_t& box = table[g].box;
        if (box == Entry::kNoBox) continue;
        if (name[box] == Entry::kNoBox) {
          name[box] = static_cast<std::uint8_t>(used.size());
          used.push_back(tables_.boxes[box]);
        }
        box = name[box];
      }
    }
    tables_.boxes = std::move(used);
  }

  [[nodiscard]] double heat(Resource resource) const {
    if (!(loads_[resource] > 1e-12)) return 0;
    return room_[resource] > 0 ? loads_[resource] / room_[resource] : kInfinity;
  }
  void find_hottest() {
    worst_ = 0;
    for (Resource r = 0; r < loads_.size(); ++r) {
      if (heat(r) <= worst_) continue;
      worst_ = heat(r);
      hottest_ = r;
    }
  }

  // Calls `put` with each load of a group's entries, and how much of it.
  template <class Put>
  void each_load(std::size_t group, Put&& put) {
    summed_.clear();
    for (std::size_t r = 0; r < party_.racks.size(); ++r) {
      const Entry& it = entry(r, group);
      const double workers = party_.racks[r].workers;
      if (it.box == Entry::kNoBox) {
        put(model_.to_server(party_.racks[r].at, it.server), workers);
        continue;
      }
      put(model_.to_box(r, tables_.boxes[it.box]), workers);
      if (!party_.servers.empty() && std::find(summed_.begin(), summed_.end(), it.box) == summed_.end()) {
        summed_.push_back(it.box);
        put(model_.to_server(switch_of(it.box), it.server), 1.0);
      }
    }
  }
  void lay(std::size_t group, double sign) {
    each_load(group, [&](const LoadModel::Loads& on, double amount) {
      for (const LoadModel::Load& load : on) loads_[load.resource] += sign * kOneGroup * amount * load.amount;
    });
  }

  // What a unit of load costs; it rises steeply where a resource is nearly as hot as the hottest.
  void set_prices() {
    price_.assign(loads_.size(), 0);
    for (Resource r = 0; r < loads_.size(); ++r) {
      const double share = std::isfinite(worst_) ? heat(r) / worst_ : (std::isfinite(heat(r)) ? 0.0 : 1.0);
      price_[r] = room_[r] > 0 ? std::pow(share, 24) / room_[r] + 1e-9 / room_[r] : 1e9;
    }
    const auto price_of = [&](const LoadModel::Loads& on, double amount) {
      Price price;
      for (const LoadModel::Load& load : on) {
        price.cost += price_[load.resource] * load.amount;
        price.hot |= load.resource == hottest_;
      }
      price.cost *= amount;
      return price;
    };
    const std::size_t boxes = tables_.boxes.size();
    to_box_.assign(party_.racks.size() * boxes, {});
    to_all_.assign(boxes, {});
    for (std::size_t r = 0; r < party_.racks.size(); ++r) {
      for (std::size_t b = 0; b < boxes; ++b) {
        Price& price = to_box_[r * boxes + b];
        price = price_of(model_.to_box(r, tables_.boxes[b]), party_.racks[r].workers);
        to_all_[b].cost += price.cost;
        to_all_[b].hot |= price.hot;
      }
    }
    sum_.assign(boxes * servers_, {});
    direct_.assign(party_.racks.size() * servers_, {});
    if (party_.servers.empty()) return;
    for (std::size_t s = 0; s < servers_; ++s) {
      for (std::size_t b = 0; b < boxes; ++b)
        sum_[b * servers_ + s] = price_of(model_.to_server(switch_of(static_cast<std::uint8_t>(b)), s), 1);
      for (std::size_t r = 0; r < party_.racks.size(); ++r)
        direct_[r * servers_ + s] =
            price_of(model_.to_server(party_.racks[r].at, s), party_.racks[r].workers);
    }
  }
  [[nodiscard]] double to_box(std::size_t rack, std::uint8_t box) const {
    return to_box_[rack * tables_.boxes.size() + box].cost;
  }
  [[nodiscard]] double sum(std::uint8_t box, std::size_t server) const {
    return sum_[box * servers_ + server].cost;
  }
  [[nodiscard]] double direct(std::size_t rack, std::size_t server) const {
    return party_.servers.empty() || party_.through_boxes ? kInfinity
                                                          : direct_[rack * servers_ + server].cost;
  }
  [[nodiscard]] double merged_at_home(std::size_t rack, std::size_t server) const {
    const bool worth =
        own_[rack] != Entry::kNoBox && (party_.racks[rack].workers > 1 || party_.through_boxes);
    return worth ? to_box(rack, own_[rack]) + sum(own_[rack], server) : kInfinity;
  }

  // Keeps the best; of equals those that came first.
  void consider(const Move& move) {
    if (!(move.gain > 0) || (moves_.size() == kTried && move.gain <= moves_.back().gain)) return;
    if (moves_.size() == kTried) moves_.pop_back();
    const auto worse = [](double gain, const Move& other) { return gain > other.gain; };
    moves_.insert(std::upper_bound(moves_.begin(), moves_.end(), move.gain, worse), move);
  }
  void consider_whole(std::size_t group, double now) {
    const std::size_t server = entry(0, group).server;
    const bool uniform = is_uniform(group);
    std::optional<std::uint8_t> best;
    double best_cost = kInfinity;
    for (std::size_t b = 0; b < is_shared_.size(); ++b) {
      const auto box = static_cast<std::uint8_t>(b);
      if (!is_shared_[b] || (uniform && entry(0, group).box == box)) continue;
      const double cost = to_all_[b].cost + sum(box, server);
      if (cost < best_cost) best = box, best_cost = cost;
    }
    if (best) consider({now - best_cost, Move::Kind::kAllRacks, group, 0, *best});
    if (!uniform || party_.servers.empty()) return;
    double alone = 0;
    for (std::size_t r = 0; r < party_.racks.size(); ++r)
      alone += std::min(direct(r, server), merged_at_home(r, server));
    consider({now - alone, Move::Kind::kNobody, group});
  }
  void consider_racks(std::size_t group) {
    const std::size_t server = entry(0, group).server;
    std::array<std::size_t, kBoxesOfJob> racks_at{};
    for (const auto& table : tables_.of_rack) {
      if (table[group].box != Entry::kNoBox) ++racks_at[table[group].box];
    }
    std::vector<std::uint8_t> meeting;  // boxes where racks meet: one more would add no sum
    for (std::size_t b = 0; b < tables_.boxes.size(); ++b) {
      if (racks_at[b] > 1) meeting.push_back(static_cast<std::uint8_t>(b));
    }
    for (std::size_t r = 0; r < party_.racks.size(); ++r) {
      const std::uint8_t box = entry(r, group).box;
      // What is saved if the rack's part goes away.
      const double now = box == Entry::kNoBox ? direct(r, server)
                                              : to_box(r, box) + (racks_at[box] == 1 ? sum(box, server) : 0);
      if (box != Entry::kNoBox)
        consider({now - direct(r, server), Move::Kind::kOneRack, group, r, Entry::kNoBox});
      for (const std::uint8_t other : meeting) {
        if (other != box) consider({now - to_box(r, other), Move::Kind::kOneRack, group, r, other});
      }
      if (own_[r] != Entry::kNoBox && own_[r] != box && racks_at[own_[r]] < 2)
        consider({now - merged_at_home(r, server), Move::Kind::kOneRack, group, r, own_[r]});
    }
  }
  [[nodiscard]] Price price_of(std::size_t group) {
    Price price;
    const auto add = [&price](const Price& one) {
      price.cost += one.cost;
      price.hot |= one.hot;
    };
    const std::size_t server = entry(0, group).server;
    if (is_uniform(group)) {
      const std::uint8_t box = entry(0, group).box;
      add(to_all_[box]);
      add(sum_[box * servers_ + server]);
      return price;
    }
    std::bitset<kBoxesOfJob> summed;
    for (std::size_t r = 0; r < party_.racks.size(); ++r) {
      const std::uint8_t box = entry(r, group).box;
      if (box == Entry::kNoBox) {
        add(direct_[r * servers_ + server]);
        continue;
      }
      add(to_box_[r * tables_.boxes.size() + box]);
      if (!summed[box]) add(sum_[box * servers_ + server]);
      summed[box] = true;
    }
    return price;
  }

  // Of uniform groups one of each kind is looked at: all of them weigh the same.
  void find_moves() {
    moves_.clear();
    std::vector<bool> seen(tables_.boxes.size() * servers_);
    std::vector<std::size_t> hot_kinds;
    std::vector<std::size_t> kinds;
    for (std::size_t g = 0; g < kGroups; ++g) {
      const bool uniform = is_uniform(g);
      if (uniform) {
        const std::size_t kind = entry(0, g).box * servers_ + entry(0, g).server;
        if (seen[kind]) continue;
        seen[kind] = true;
        kinds.push_back(g);
      }
      const Price price = price_of(g);
      if (!price.hot) continue;
      if (uniform) hot_kinds.push_back(g);
      consider_whole(g, price.cost);
      if (!uniform && !party_.servers.empty()) consider_racks(g);
    }
    for (const std::size_t hot : hot_kinds) {
      for (const std::size_t other : kinds) {
        const Entry& a = entry(0, hot);
        const Entry& b = entry(0, other);
        if (party_.servers.empty() || a.server == b.server) continue;
        const double now = sum(a.box, a.server) + sum(b.box, b.server);
        const double then = sum(a.box, b.server) + sum(b.box, a.server);
        consider({now - then, Move::Kind::kSwapServers, hot, 0, Entry::kNoBox, other});
      }
    }
  }

  void change(const Move& move) {
    const std::size_t server = entry(0, move.group).server;
    for (std::size_t r = 0; r < party_.racks.size(); ++r) {
      Entry& it = tables_.of_rack[r][move.group];
      switch (move.kind) {
        case Move::Kind::kOneRack:
          if (r == move.rack) it.box = move.box;
          break;
        case Move::Kind::kAllRacks:
          it.box = move.box;
          break;
        case Move::Kind::kNobody:
          it.box = merged_at_home(r, server) < direct(r, server) ? own_[r] : Entry::kNoBox;
          break;
        case Move::Kind::kSwapServers:
          std::swap(it.server, tables_.of_rack[r][move.other].server);
          break;
      }
    }
  }
  // True if the hottest resource is cooler now and nothing else became as hot.
  bool cool() {
    set_prices();
    find_moves();
    const double bar = worst_ * (1 - 1e-9);
    std::vector<Entry> before(party_.racks.size());
    for (std::size_t m = 0; m < moves_.size(); ++m) {
      const Move& move = moves_[m];
      const Rates old = loads_;
      for (std::size_t r = 0; r < before.size(); ++r) before[r] = entry(r, move.group);
      const bool swaps = move.kind == Move::Kind::kSwapServers;
      lay(move.group, -1);
      if (swaps) lay(move.other, -1);
      change(move);
      lay(move.group, 1);
      if (swaps) lay(move.other, 1);
      look_at(move.group);
      bool better = heat(hottest_) < bar;
      for (Resource r = 0; r < loads_.size() && better; ++r)
        better = loads_[r] <= old[r] + 1e-12 || heat(r) < bar;
      if (better) return true;
      loads_ = old;
      if (swaps)
        change(move);
      else
        for (std::size_t r = 0; r < before.size(); ++r) tables_.of_rack[r][move.group] = before[r];
      look_at(move.group);
    }
    return false;
  }

  LoadModel& model_;
  const Topology& topology_;
  const Party& party_;
  Tables& tables_;
  Rates room_;
  Rates loads_;
  std::size_t servers_;  // at least 1
  std::vector<std::uint8_t> own_;
  std::vector<bool> is_shared_;
  double worst_ = 0;
  Resource hottest_ = 0;
  std::vector<double> price_;
  std::vector<Price> to_box_;     // of rack and box, all workers of the rack
  std::vector<Price> to_all_;     // of a box, all workers
  std::vector<Price> sum_;        // of box and server
  std::vector<Price> direct_;     // of rack and server, all workers of the rack
  std::vector<bool> is_uniform_;  // of groups
  std::vector<std::uint8_t> summed_;
  std::vector<Move> moves_;
};

}  // namespace

std::size_t repair(LoadModel& model, const Topology& topology, const Party& party, const Rates& capacity,
                   double promised, Tables& tables) {
  if (!(promised > 0)) return 0;
  return Repair(model, topology, party, capacity, tables).run(promised);
}

}  // namespace tally::planner

#include "planner/trees.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "planner/linear_program.h"
#include "planner/table.h"

namespace tally::planner {
namespace {

// The first two layers already come within 3 % where links are unlike; what further ones find costs more time each.
constexpr std::size_t kMostRounds = 4;
constexpr double kWorthAnother = 1.002;  // times the objective of the round before
constexpr double kNoBound = std::numeric_limits<double>::infinity();

using Column = GrowingProgram::Column;

// One way of spreading everything, and the trees that use it.
struct Layer {
  Spread spread{};
  std::vector<std::optional<Column>> boxes{};  // as the boxes that may be used
  std::optional<Column> rest{};
  std::vector<bool> own{};  // of each rack: of the rest of this layer its own box merges
};

class Trees {
 public:
  Trees(const Network& network, const Party& party, const Rates& capacity, const std::vector<Index>& boxes)
      : network_(network),
        party_(party),
        capacity_(capacity),
        boxes_(boxes),
        program_(rooms()),
        with_rest_(!party.servers.empty() && all_reach_servers()) {
    // What workers put on their own hosts' links is in the row of everybody; but servers share some of those.
    for (const LoadModel::Load& load : LoadModel(network, party, {}).from_hosts()) {
      const auto shared = [&](const Party::Server& server) {
        const Host& host = topology().hosts()[topology().servers()[server.number].host];
        return load.resource == topology().link(host.up) || load.resource == topology().link(host.down);
      };
      if (std::any_of(party.servers.begin(), party.servers.end(), shared)) from_hosts_.push_back(load);
    }
  }

  Result<Split> solve(std::size_t most_boxes) {
    add_layer({}, nullptr);
    add_layer(by_width(), nullptr);
    if (with_rest_) add_relief();
    double bound = kNoBound;
    double before = 0;
    Result<GrowingProgram::Solution> solved;
    for (std::size_t round = 0;; ++round, before = solved->objective) {
      solved = program_.solve();
      if (!solved) return tl::unexpected<Error>(solved.error());
      if (!(solved->objective > 1e-12)) return nothing_left();
      if (round == kMostRounds || solved->objective < kWorthAnother * before) break;
      bound = std::min(bound, add_layer(by_price(solved->prices), &solved->prices));
      if (solved->objective >= kTreesEnough * bound) break;
    }
    if (close_beyond(most_boxes, *solved)) {
      solved = program_.solve();
      if (!solved) return tl::unexpected<Error>(solved.error());
    }
    return split_of(*solved, bound);
  }

 private:
  [[nodiscard]] const Topology& topology() const { return network_.topology; }
  [[nodiscard]] bool all_reach_servers() const {
    return std::all_of(party_.racks.begin(), party_.racks.end(), [&](const Party::Rack& rack) {
      return std::all_of(party_.servers.begin(), party_.servers.end(), [&](const Party::Server& server) {
        return network_.ways.lead(rack.at, server.at);
      });
    });
  }
  static tl::unexpected<Error> nothing_left() {
    return fail(ErrorCode::kInvalidArgument,
                "nothing is left for this job: a link, a box or a server that it needs is down or full");
  }

  // Rows: resources, then what hosts let everybody send, then of each rack that its own box merges of the first
  // layer's rest no more than there is.
  [[nodiscard]] std::vector<double> rooms() const {
    std::vector<double> rooms = capacity_;
    for (Index b = 0; b < topology().boxes().size(); ++b)
      rooms[topology().box(b)] = box_rate(topology(), party_, capacity_, b);
    rooms.push_back(slowest());
    rooms.resize(rooms.size() + party_.racks.size(), 0);
    return rooms;
  }
  [[nodiscard]] double slowest() const {
    double slowest = party_.slowest;
    if (network_.results == Results::kIgnored) return slowest;
    for (const auto& [host, workers] : party_.hosts)
      slowest = std::min(slowest, capacity_[topology().link(topology().hosts()[host].down)] / workers);
    return slowest;
  }
  [[nodiscard]] std::uint32_t everybody() const { return static_cast<std::uint32_t>(topology().resources()); }
  [[nodiscard]] std::uint32_t relief_of(std::size_t rack) const {
    return everybody() + 1 + static_cast<std::uint32_t>(rack);
  }

  // Calls visit(from, to, is_server) for all pairs of places between which something may flow.
  template <class Visit>
  void each_pair(Visit&& visit) const {
    std::vector<Index> senders;
    for (const Party::Rack& rack : party_.racks) senders.push_back(rack.at);
    for (const Index box : boxes_) {
      for (const Party::Rack& rack : party_.racks) visit(rack.at, topology().boxes()[box].at, box, false);
      senders.push_back(topology().boxes()[box].at);
    }
    std::sort(senders.begin(), senders.end());
    senders.erase(std::unique(senders.begin(), senders.end()), senders.end());
    for (const Party::Server& server : party_.servers) {
      for (const Index from : senders) visit(from, server.at, server.number, true);
    }
  }
  // weigh(links of a way): how much of a flow it takes beside the others.
  template <class Weigh>
  [[nodiscard]] Spread spread_by(const Weigh& weigh) const {
    Spread spread;
    each_pair([&](Index from, Index at, Index to, bool is_server) {
      const std::vector<Way>& ways = network_.ways.between(from, at);
      if (ways.size() < 2) return;
      const std::vector<double> weights = weigh(ways);
      if (is_server)
        spread.put_to_server(from, to, weights);
      else
        spread.put_to_box(from, to, weights);
    });
    return spread;
  }
  [[nodiscard]] Spread by_width() const {
    return spread_by([&](const std::vector<Way>& ways) {
      std::vector<double> weights;
      for (const Way& way : ways) {
        double width = kNoBound;
        for (const Index link : way.links) width = std::min(width, capacity_[topology().link(link)]);
        weights.push_back(width);
      }
      return weights;
    });
  }
  // All over the cheapest ways: over those that cost nothing by their width, else over the one.
  [[nodiscard]] Spread by_price(const std::vector<double>& prices) const {
    const auto price_of = [&](Index link) {
      const double forth = prices[topology().link(link)];
      if (network_.results == Results::kIgnored) return forth;
      return forth + prices[topology().link(topology().links()[link].reverse)];
    };
    return spread_by([&](const std::vector<Way>& ways) {
      std::vector<double> costs;
      for (const Way& way : ways) {
        double cost = 0;
        for (const Index link : way.links) cost += price_of(link);
        costs.push_back(cost);
      }
      const double least = *std::min_element(costs.begin(), costs.end());
      std::vector<double> weights;
      for (std::size_t w = 0; w < ways.size(); ++w) {
        double width = kNoBound;
        for (const Index link : ways[w].links) width = std::min(width, capacity_[topology().link(link)]);
        weights.push_back(costs[w] <= least + 1e-12 ? width : 0);
      }
      return weights;
    });
  }

  // Adds trees over a spread: all of them, or with prices those that pay. Returns, with prices, the bound that they
  // prove: whatever is sent costs at least as much as the cheapest tree, and there is no more to be had than all room
  // at its price.
  double add_layer(Spread spread, const std::vector<double>* prices) {
    layers_.push_back({std::move(spread), std::vector<std::optional<Column>>(boxes_.size()), {}, {}});
    Layer& layer = layers_.back();
    LoadModel model(network_, party_, layer.spread);
    double cheapest = kNoBound;
    const auto cost = [&](const std::vector<double>& loads) {
      double sum = 0;
      for (std::size_t r = 0; r < loads.size(); ++r) sum += loads[r] * (*prices)[r];
      return sum;
    };
    std::vector<double> loads(topology().resources() + 1);
    const auto put = [&](const LoadModel::Loads& on, double amount) {
      for (const LoadModel::Load& load : on) loads[load.resource] += amount * load.amount;
    };
    const auto begin = [&] {
      std::fill(loads.begin(), loads.end(), 0);
      put(from_hosts_, 1);
      loads[everybody()] = 1;
    };
    for (std::size_t b = 0; b < boxes_.size(); ++b) {
      begin();
      for (std::size_t r = 0; r < party_.racks.size(); ++r)
        put(model.to_box(r, boxes_[b]), party_.racks[r].workers);
      for (std::size_t s = 0; s < party_.servers.size(); ++s)
        put(model.to_server(topology().boxes()[boxes_[b]].at, s), party_.servers[s].share);
      if (prices != nullptr) {
        const double all = cost(loads);
        cheapest = std::min(cheapest, all);
        if (all >= 1 - 1e-7) continue;
      }
      layer.boxes[b] = add(loads);
    }
    if (!with_rest_) return prices == nullptr ? kNoBound : value_of(*prices) / cheapest;
    begin();
    layer.own.assign(party_.racks.size(), false);
    for (std::size_t r = 0; r < party_.racks.size(); ++r) {
      const Party::Rack& rack = party_.racks[r];
      if (prices != nullptr && merges(r)) {
        const auto price = [&](const LoadModel::Loads& on) {
          double sum = 0;
          for (const LoadModel::Load& load : on) sum += load.amount * (*prices)[load.resource];
          return sum;
        };
        double direct = 0;
        for (std::size_t s = 0; s < party_.servers.size(); ++s)
          direct += party_.servers[s].share * price(model.to_server(rack.at, s));
        layer.own[r] = rack.workers * price(model.to_box(r, rack.box)) + direct < rack.workers * direct;
      }
      if (layer.own[r]) put(model.to_box(r, rack.box), rack.workers);
      for (std::size_t s = 0; s < party_.servers.size(); ++s)
        put(model.to_server(rack.at, s), party_.servers[s].share * (layer.own[r] ? 1 : rack.workers));
    }
    const double all = prices != nullptr ? cost(loads) : 0;
    cheapest = std::min(cheapest, prices != nullptr ? all : kNoBound);
    if (prices == nullptr || all < 1 - 1e-7) layer.rest = add(loads, layers_.size() == 1);
    return prices == nullptr ? kNoBound : value_of(*prices) / cheapest;
  }
  [[nodiscard]] bool merges(std::size_t rack) const {
    const Party::Rack& it = party_.racks[rack];
    return it.box != kNone && it.workers > 1 && box_rate(topology(), party_, capacity_, it.box) > 0;
  }
  // Of the first layer's rest every rack's box may merge any part.
  void add_relief() {
    relief_.resize(party_.racks.size());
    LoadModel model(network_, party_, layers_.front().spread);
    for (std::size_t r = 0; r < party_.racks.size(); ++r) {
      if (!merges(r)) continue;
      const Party::Rack& rack = party_.racks[r];
      std::vector<GrowingProgram::Entry> entries{{relief_of(r), 1}};
      std::vector<double> loads(topology().resources());
      for (const LoadModel::Load& load : model.to_box(r, rack.box))
        loads[load.resource] += rack.workers * load.amount;
      for (std::size_t s = 0; s < party_.servers.size(); ++s) {
        for (const LoadModel::Load& load : model.to_server(rack.at, s))
          loads[load.resource] += party_.servers[s].share * (1 - rack.workers) * load.amount;
      }
      for (Resource i = 0; i < loads.size(); ++i) {
        if (loads[i] != 0) entries.push_back({i, loads[i]});
      }
      relief_[r] = program_.add(0, entries);
    }
  }
  Column add(const std::vector<double>& loads, bool with_relief = false) {
    std::vector<GrowingProgram::Entry> entries;
    for (std::uint32_t r = 0; r < loads.size(); ++r) {
      if (loads[r] != 0) entries.push_back({r, loads[r]});
    }
    for (std::size_t r = 0; with_relief && r < party_.racks.size(); ++r)
      entries.push_back({relief_of(r), -1});
    return program_.add(1, entries);
  }
  [[nodiscard]] double value_of(const std::vector<double>& prices) const {
    const std::vector<double> all = rooms();
    double value = 0;
    for (std::size_t r = 0; r < all.size(); ++r) value += all[r] > 0 ? all[r] * prices[r] : 0;
    return value;
  }

  [[nodiscard]] std::vector<double> of_boxes(const GrowingProgram::Solution& solved) const {
    std::vector<double> amounts(boxes_.size());
    for (const Layer& layer : layers_) {
      for (std::size_t b = 0; b < boxes_.size(); ++b) amounts[b] += value_at(solved, layer.boxes[b]);
    }
    return amounts;
  }
  // Those with the least go; false if there are no more than so many.
  bool close_beyond(std::size_t most_boxes, const GrowingProgram::Solution& solved) {
    const std::vector<double> amounts = of_boxes(solved);
    std::vector<std::size_t> order(boxes_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return amounts[a] > amounts[b]; });
    if (order.size() <= most_boxes || !(amounts[order[most_boxes]] > 0)) return false;
    for (std::size_t i = most_boxes; i < order.size(); ++i) {
      for (const Layer& layer : layers_) {
        if (layer.boxes[order[i]]) program_.close(*layer.boxes[order[i]]);
      }
    }
    return true;
  }

  Split split_of(const GrowingProgram::Solution& solved, double bound) {
    const double f = solved.objective;
    Split split{.rate = f, .own = std::vector<double>(party_.racks.size()), .columns = solved.values.size()};
    split.bound = bound;
    const std::vector<double> of_box = of_boxes(solved);
    std::map<std::pair<Index, Index>, std::vector<double>> to_box;
    std::map<std::pair<Index, Index>, std::vector<double>> to_server;
    const auto flow = [&](auto& flows, const std::vector<double>* shares, Index from, Index at, Index to,
                          double amount) {
      const std::vector<Way>& ways = network_.ways.between(from, at);
      if (ways.size() < 2 || !(amount > 0)) return;
      std::vector<double>& sum = flows[{from, to}];
      sum.resize(ways.size());
      for (std::size_t w = 0; w < ways.size(); ++w)
        sum[w] += amount * (shares != nullptr ? (*shares)[w] : ways[w].share);
    };
    const auto flow_to_servers = [&](const Layer& layer, Index from, double amount) {
      for (const Party::Server& server : party_.servers)
        flow(to_server, layer.spread.to_server(from, server.number), from, server.at, server.number,
             amount * server.share);
    };
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const Layer& layer = layers_[l];
      for (std::size_t b = 0; b < boxes_.size(); ++b) {
        const double amount = value_at(solved, layer.boxes[b]);
        if (!(amount > 0)) continue;
        const Index at = topology().boxes()[boxes_[b]].at;
        for (const Party::Rack& rack : party_.racks)
          flow(to_box, layer.spread.to_box(rack.at, boxes_[b]), rack.at, at, boxes_[b],
               rack.workers * amount);
        flow_to_servers(layer, at, amount);
      }
      const double rest = value_at(solved, layer.rest);
      split.rest += rest / f;
      for (std::size_t r = 0; with_rest_ && r < party_.racks.size(); ++r) {
        const Party::Rack& rack = party_.racks[r];
        double merged = layer.own[r] ? rest : 0;
        if (l == 0) merged = std::min(rest, value_at(solved, relief_[r]));
        split.own[r] += merged / f;
        flow_to_servers(layer, rack.at, merged + rack.workers * (rest - merged));
      }
    }
    for (std::size_t b = 0; b < boxes_.size(); ++b) split.shared.push_back({boxes_[b], of_box[b] / f});
    for (const auto& [ends, flows] : to_box) split.spread.put_to_box(ends.first, ends.second, flows);
    for (const auto& [ends, flows] : to_server) split.spread.put_to_server(ends.first, ends.second, flows);
    return split;
  }
  [[nodiscard]] static double value_at(const GrowingProgram::Solution& solved, std::optional<Column> column) {
    return column && *column < solved.values.size() ? solved.values[*column] : 0;
  }

  const Network& network_;
  const Party& party_;
  const Rates& capacity_;
  const std::vector<Index>& boxes_;
  GrowingProgram program_;
  bool with_rest_;
  LoadModel::Loads from_hosts_{};
  std::vector<Layer> layers_;
  std::vector<std::optional<Column>> relief_;
};

}  // namespace

Result<Split> product_form_by_trees(const Network& network, const Party& party, const Rates& capacity,
                                    const std::vector<Index>& boxes, std::size_t most_boxes) {
  return Trees(network, party, capacity, boxes).solve(most_boxes);
}

}  // namespace tally::planner

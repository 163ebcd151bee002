#include "planner/split.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "planner/closed_form.h"
#include "planner/linear_program.h"

namespace tally::planner {

const std::vector<double>* Spread::find(const Kept& kept, Index from, Index to) {
  const auto found = kept.find({from, to});
  return found == kept.end() ? nullptr : &found->second;
}

void Spread::put(Kept& kept, Index from, Index to, const std::vector<double>& flows) {
  const double all = std::accumulate(flows.begin(), flows.end(), 0.0);
  // What carries nothing in the program may carry something once chunks are whole: then as ECMP does.
  if (!(all > 1e-12)) return;
  std::vector<double> shares;
  shares.reserve(flows.size());
  for (const double flow : flows) shares.push_back(flow / all);
  kept[{from, to}] = std::move(shares);
}

namespace {

using Column = LinearProgram::Column;
using Row = LinearProgram::Row;
struct Term {
  Column column = 0;
  double coefficient = 0;
};

// The program of a network: its resources as rows, traffic between switches spread over ways.
class NetworkProgram {
 public:
  NetworkProgram(const Network& network, const Party& party, const Rates& capacity)
      : network_(network), party_(party), capacity_(capacity), rows_(network.topology.resources()) {}

  LinearProgram& program() { return program_; }

  void load_box(Index box, Term term) {
    std::optional<Row>& row = rows_[network_.topology.box(box)];
    if (!row) row = program_.at_most(box_rate(network_.topology, party_, capacity_, box));
    program_.add(*row, term.column, term.coefficient);
  }
  // What arrives at a server, over its host's link.
  void load_server(Index server, Term term) {
    const Topology& t = network_.topology;
    load(t.server(server), term);
    load_link(t.hosts()[t.servers()[server].host].down, term);
  }
  void load_link(Index link, Term term) {
    load(network_.topology.link(link), term);
    if (network_.results == Results::kCounted)
      load(network_.topology.link(network_.topology.links()[link].reverse), term);
  }
  // Every worker sends the whole gradient.
  void load_hosts(const std::vector<Column>& rate) {
    const Row all = program_.at_most(party_.slowest);
    for (const Column column : rate) program_.add(all, column, 1);
    // Links of hosts that nobody else uses are in `slowest`, except for what results need of them.
    for (const auto& [host, workers] : party_.hosts) {
      const Host& it = network_.topology.hosts()[host];
      const bool shared = rows_[it.down].has_value() || rows_[it.up].has_value();
      if (!shared && network_.results == Results::kIgnored) continue;
      for (const Column column : rate) load_link(it.up, {column, workers});
    }
  }
  // Traffic, the sum of terms, over the ways between two switches. Returns the columns of the ways, if they are chosen.
  std::vector<Column> flow(Index from, Index to, const std::vector<Term>& terms) {
    if (network_.routing == Routing::kEcmp || network_.ways.between(from, to).size() < 2) {
      for (const LinkPart& one : network_.ways.parts(from, to)) {
        for (const Term& term : terms) load_link(one.link, {term.column, term.coefficient * one.part});
      }
      return {};
    }
    const std::vector<Way>& ways = network_.ways.between(from, to);
    const Row balance = program_.equal_to(0);
    for (const Term& term : terms) program_.add(balance, term.column, -term.coefficient);
    std::vector<Column> columns;
    for (const Way& way : ways) {
      columns.push_back(program_.add_column(0));
      program_.add(balance, columns.back(), 1);
      for (const Index link : way.links) load_link(link, {columns.back(), 1});
    }
    return columns;
  }
  [[nodiscard]] bool reaches(Index from, Index to) { return network_.ways.lead(from, to); }

 private:
  void load(Resource resource, Term term) {
    std::optional<Row>& row = rows_[resource];
    if (!row) row = program_.at_most(capacity_[resource]);
    program_.add(*row, term.column, term.coefficient);
  }

  const Network& network_;
  const Party& party_;
  const Rates& capacity_;
  LinearProgram program_;
  std::vector<std::optional<Row>> rows_;
};

bool is_usable(const Network& network, const Party& party, const Rates& capacity, Index box) {
  const Index at = network.topology.boxes()[box].at;
  if (!(box_rate(network.topology, party, capacity, box) > 0)) return false;
  const auto reached = [&](const Party::Rack& rack) { return network.ways.lead(rack.at, at); };
  const auto reaches = [&](const Party::Server& s) { return network.ways.lead(at, s.at); };
  return std::all_of(party.racks.begin(), party.racks.end(), reached) &&
         std::all_of(party.servers.begin(), party.servers.end(), reaches);
}

bool reaches_servers(const Network& network, const Party& party, Index from) {
  return std::all_of(party.servers.begin(), party.servers.end(), [&](const Party::Server& server) {
    return network.ways.lead(from, server.at);
  });
}

tl::unexpected<Error> nothing_left() {
  return fail(ErrorCode::kInvalidArgument,
              "nothing is left for this job: a link, a box or a server that it needs is down or full");
}

std::vector<double> values_of(const std::vector<Column>& columns, const std::vector<double>& values) {
  std::vector<double> out;
  out.reserve(columns.size());
  for (const Column column : columns) out.push_back(values[column]);
  return out;
}

struct Flow {
  Index from = kNone;
  Index to = kNone;
  std::vector<Column> columns{};
};

}  // namespace

std::vector<Index> usable_boxes(const Network& network, const Party& party, const Rates& capacity) {
  std::vector<Index> usable;
  for (Index b = 0; b < network.topology.boxes().size(); ++b) {
    if (is_usable(network, party, capacity, b)) usable.push_back(b);
  }
  return usable;
}

Result<Split> product_form(const Network& network, const Party& party, const Rates& capacity) {
  return product_form(network, party, capacity, usable_boxes(network, party, capacity));
}

Result<Split> product_form(const Network& network, const Party& party, const Rates& capacity,
                           const std::vector<Index>& boxes) {
  const Topology& topology = network.topology;
  NetworkProgram net(network, party, capacity);
  LinearProgram& program = net.program();
  std::vector<std::pair<Index, Column>> shared;  // boxes that all racks use for one part
  shared.reserve(boxes.size());
  for (const Index box : boxes) shared.emplace_back(box, program.add_column(1));
  // Whether a rack's own box may have part of the rest, and must have all of it.
  const auto has_own = [&](const Party::Rack& rack) {
    return rack.box != kNone && (rack.workers > 1 || party.through_boxes) &&
           box_rate(topology, party, capacity, rack.box) > 0;
  };
  const bool with_rest =
      !party.servers.empty() &&
      std::all_of(party.racks.begin(), party.racks.end(), [&](const Party::Rack& rack) {
        return reaches_servers(network, party, rack.at) && (!party.through_boxes || has_own(rack));
      });
  const Column rest = with_rest ? program.add_column(1) : 0;
  std::vector<std::optional<Column>> own(party.racks.size());  // of the rest, what the rack's own box merges
  for (std::size_t r = 0; with_rest && r < own.size(); ++r) {
    const Party::Rack& rack = party.racks[r];
    if (!has_own(rack)) continue;
    own[r] = program.add_column(0);
    const Row part = party.through_boxes ? program.equal_to(0) : program.at_most(0);
    program.add(part, *own[r], 1);
    program.add(part, rest, -1);
    net.load_box(rack.box, {*own[r], rack.workers});
  }

  std::vector<Flow> to_box;
  for (const auto& [box, column] : shared) {
    net.load_box(box, {column, party.workers});
    for (const Party::Rack& rack : party.racks)
      to_box.push_back({rack.at, box, net.flow(rack.at, topology.boxes()[box].at, {{column, rack.workers}})});
  }
  // All that leaves one switch for one server is spread alike: sums of shared boxes, of own boxes, what is direct.
  std::map<Index, std::vector<Term>> leaving;
  for (const auto& [box, column] : shared) leaving[topology.boxes()[box].at].push_back({column, 1});
  for (std::size_t r = 0; with_rest && r < party.racks.size(); ++r) {
    std::vector<Term>& terms = leaving[party.racks[r].at];
    terms.push_back({rest, party.racks[r].workers});
    if (own[r]) terms.push_back({*own[r], 1 - party.racks[r].workers});
  }
  std::vector<Flow> to_server;
  for (const Party::Server& server : party.servers) {
    for (const auto& [from, terms] : leaving) {
      std::vector<Term> scaled = terms;
      for (Term& term : scaled) {
        term.coefficient *= server.share;
        net.load_server(server.number, term);
      }
      to_server.push_back({from, server.number, net.flow(from, server.at, scaled)});
    }
  }
  std::vector<Column> rate;
  rate.reserve(shared.size() + 1);
  for (const auto& [box, column] : shared) rate.push_back(column);
  if (with_rest) rate.push_back(rest);
  if (rate.empty()) return nothing_left();
  net.load_hosts(rate);

  const auto solved = program.solve();
  if (!solved) return tl::unexpected<Error>(solved.error());
  const double f = solved->objective;
  if (!(f > 1e-12)) return nothing_left();
  Split split{
      .rate = f, .own = std::vector<double>(party.racks.size()), .bound = f, .columns = program.columns()};
  for (const auto& [box, column] : shared) split.shared.push_back({box, solved->values[column] / f});
  split.rest = with_rest ? solved->values[rest] / f : 0;
  for (std::size_t r = 0; r < party.racks.size(); ++r)
    split.own[r] = own[r] ? std::min(split.rest, solved->values[*own[r]] / f) : 0;
  for (const Flow& flow : to_box)
    split.spread.put_to_box(flow.from, flow.to, values_of(flow.columns, solved->values));
  for (const Flow& flow : to_server)
    split.spread.put_to_server(flow.from, flow.to, values_of(flow.columns, solved->values));
  return split;
}

Split closed_form_split(const Network& network, const Party& party, const Rates& capacity, bool own_racks) {
  const Topology& topology = network.topology;
  Split split{.own = std::vector<double>(party.racks.size())};
  if (own_racks) {
    split.rate = rack_local_rate(topology, party, capacity);
    split.rest = 1;
    for (std::size_t r = 0; r < party.racks.size(); ++r) {
      const Party::Rack& rack = party.racks[r];
      if (rack.box == kNone || !(split.rate > 0)) continue;
      if (rack.workers < 2 && !party.through_boxes) continue;
      const double rate = box_rate(topology, party, capacity, rack.box);
      split.own[r] = std::min(1.0, rate / (rack.workers * split.rate));
    }
    return split;
  }
  for (const Index box : usable_boxes(network, party, capacity))
    split.shared.push_back({box, box_rate(topology, party, capacity, box)});
  if (split.shared.size() > kBoxesOfWorker) {
    std::stable_sort(split.shared.begin(), split.shared.end(),
                     [](const Part& a, const Part& b) { return a.amount > b.amount; });
    split.shared.resize(kBoxesOfWorker);
    std::sort(split.shared.begin(), split.shared.end(),
              [](const Part& a, const Part& b) { return a.place < b.place; });
  }
  double rates = 0;
  for (const Part& part : split.shared) rates += part.amount;
  split.rate = upper_bound(topology, party, capacity, rates);
  // Boxes as full as they get, and each as full as the others.
  const double merged = split.shared.empty() ? 0
                        : party.servers.empty() || party.through_boxes
                            ? 1
                            : std::min(1.0, rates / (party.workers * split.rate));
  for (Part& part : split.shared) part.amount *= merged / rates;
  split.rest = 1 - merged;
  return split;
}

Result<Split> full_form(const Network& network, const Party& party, const Rates& capacity,
                        const Allowed& allowed) {
  const Topology& topology = network.topology;
  if (party.servers.empty())
    return fail(ErrorCode::kInvalidArgument, "a job without servers has only the product form");
  NetworkProgram net(network, party, capacity);
  LinearProgram& program = net.program();
  const Column rate = program.add_column(1);
  struct Use {
    std::size_t server = 0;
    std::size_t rack = 0;
    Index place = kDirect;
    Column column = 0;
  };
  std::vector<Use> uses;
  std::vector<Flow> to_box;
  std::vector<Flow> to_server;
  for (std::size_t s = 0; s < party.servers.size(); ++s) {
    const Party::Server& server = party.servers[s];
    std::vector<Row> whole;  // of each rack: its parts are the server's share of the gradient
    for (std::size_t r = 0; r < party.racks.size(); ++r) {
      whole.push_back(program.equal_to(0));
      program.add(whole[r], rate, -server.share);
      if (party.through_boxes || !net.reaches(party.racks[r].at, server.at)) continue;
      const Column direct = program.add_column(0);
      program.add(whole[r], direct, 1);
      const Term term{direct, party.racks[r].workers};
      net.load_server(server.number, term);
      to_server.push_back({party.racks[r].at, server.number, net.flow(party.racks[r].at, server.at, {term})});
      uses.push_back({s, r, kDirect, direct});
    }
    for (Index b = 0; b < topology.boxes().size(); ++b) {
      const Index at = topology.boxes()[b].at;
      if (!(box_rate(topology, party, capacity, b) > 0) || !net.reaches(at, server.at)) continue;
      std::optional<Column> merged;  // what the box sends on: as much as its busiest rack brings
      for (std::size_t r = 0; r < party.racks.size(); ++r) {
        if (!allowed(r, b) || !net.reaches(party.racks[r].at, at)) continue;
        if (!merged) merged = program.add_column(0);
        const Column part = program.add_column(0);
        program.add(whole[r], part, 1);
        const Row enough = program.at_most(0);
        program.add(enough, part, 1);
        program.add(enough, *merged, -1);
        const Term term{part, party.racks[r].workers};
        net.load_box(b, term);
        to_box.push_back({party.racks[r].at, b, net.flow(party.racks[r].at, at, {term})});
        uses.push_back({s, r, b, part});
      }
      if (!merged) continue;
      net.load_server(server.number, {*merged, 1});
      to_server.push_back({at, server.number, net.flow(at, server.at, {{*merged, 1}})});
    }
  }
  net.load_hosts({rate});

  const auto solved = program.solve();
  if (!solved) return tl::unexpected<Error>(solved.error());
  const double f = solved->objective;
  if (!(f > 1e-12)) return nothing_left();
  Split split{.rate = f, .bound = f, .columns = program.columns()};
  split.portions.resize(party.servers.size());
  for (Portion& portion : split.portions) portion.racks.resize(party.racks.size());
  // Boxes in order, what is direct behind them: racks that use one box lie side by side as far as possible.
  std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.place < b.place; });
  for (const Use& use : uses) {
    const double amount = solved->values[use.column] / f;
    if (amount > 1e-12) split.portions[use.server].racks[use.rack].push_back({use.place, amount});
  }
  const auto gather = [&](const std::vector<Flow>& flows) {
    std::map<std::pair<Index, Index>, std::vector<double>> sums;
    for (const Flow& flow : flows) {
      if (flow.columns.empty()) continue;
      std::vector<double>& sum = sums[{flow.from, flow.to}];
      sum.resize(flow.columns.size());
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += solved->values[flow.columns[k]];
    }
    return sums;
  };
  for (const auto& [ends, flows] : gather(to_box)) split.spread.put_to_box(ends.first, ends.second, flows);
  for (const auto& [ends, flows] : gather(to_server))
    split.spread.put_to_server(ends.first, ends.second, flows);
  return split;
}

std::size_t product_form_columns(const Network& network, const Party& party,
                                 const std::vector<Index>& boxes) {
  const auto ways = [&](Index from, Index to) {
    if (network.routing == Routing::kEcmp) return std::size_t{0};
    const std::size_t count = network.ways.between(from, to).size();
    return count < 2 ? 0 : count;
  };
  std::size_t columns = boxes.size() + 1 + party.racks.size();
  for (const Index box : boxes) {
    const Index at = network.topology.boxes()[box].at;
    for (const Party::Rack& rack : party.racks) columns += ways(rack.at, at);
    for (const Party::Server& server : party.servers) columns += ways(at, server.at);
  }
  for (const Party::Rack& rack : party.racks) {
    for (const Party::Server& server : party.servers) columns += ways(rack.at, server.at);
  }
  return columns;
}

std::size_t full_form_columns(const Network& network, const Party& party, const Rates& capacity) {
  const Topology& topology = network.topology;
  const auto ways = [&](Index from, Index to) {
    if (network.routing == Routing::kEcmp) return std::size_t{1};
    const std::size_t count = network.ways.between(from, to).size();
    return count < 2 ? 1 : 1 + count;
  };
  std::size_t columns = 1;
  for (const Party::Server& server : party.servers) {
    for (const Party::Rack& rack : party.racks) columns += ways(rack.at, server.at);
    for (Index b = 0; b < topology.boxes().size(); ++b) {
      if (!(box_rate(topology, party, capacity, b) > 0)) continue;
      columns += ways(topology.boxes()[b].at, server.at);
      for (const Party::Rack& rack : party.racks) columns += ways(rack.at, topology.boxes()[b].at);
    }
  }
  return columns;
}

}  // namespace tally::planner

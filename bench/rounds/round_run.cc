#include "round_run.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/sparse_rows.h"
#include "virtual_rack.h"

namespace tally::rounds {
namespace {

using bench::Lines;

bench::RackOptions rack_of(const Conditions& c) {
  bench::RackOptions rack;
  rack.workers = c.load.workers;
  rack.gbps = c.gbps;
  rack.box_cores = c.box_cores;
  rack.elements = c.elements;
  rack.window = c.window;
  rack.seed = c.seed;
  rack.beside = 3 * std::size_t{c.servers};
  return rack;
}

class Run final : public sim::Actor {
 public:
  Run(const Conditions& conditions, const hot::KeySet& set)
      : c_(conditions),
        set_(set),
        world_(conditions.load.workers),
        plan_(conditions, set),
        rack_(rack_of(conditions), [this](std::uint32_t worker) { look_for_sums(worker); }),
        servers_(conditions.servers),
        seats_(world_) {}

  Result<Measured> go(const bench::HotWorkers::Agreement* agreement) {
    if (const auto joined = rack_.join(); !joined) return tl::unexpected<Error>(joined.error());
    if (agreement != nullptr && (!sum_words(agreement->names) || !sum_words(agreement->weights)))
      return clock_.stuck("an agreement does not end");
    for (std::uint32_t w = 0; w < world_; ++w) begin(w);
    if (!clock_.until([this] { return ended_ == world_; })) return clock_.stuck("a round does not end");
    count();
    return out_;
  }

  // A worker has segments left.
  void on_event(std::uint32_t /*what*/, std::uint32_t worker) override { send_segments(worker); }

 private:
  struct Segment {
    std::uint32_t server = 0;
    double wire_bytes = 0;
    double serve_ns = 0;
    bool last = false;
  };
  // Of a worker: the round that it is in.
  struct Seat {
    std::uint32_t round = 0;
    std::uint32_t servers_left = 0;
    bool sums_here = false;
    bool ended = false;
    std::deque<Segment> segments{};
    hot::Stamp stamp{};
    std::vector<float> values{};
    std::optional<engine::RowCollector> rows{};
    engine::OperationId stamp_id{};
    engine::OperationId rows_id{};
  };

  struct Server {
    std::uint32_t round = 0;   // that it takes pushes of
    std::uint32_t pushes = 0;  // that are served
  };

  [[nodiscard]] std::size_t in(std::uint32_t server) const { return rack_.beside(server); }
  [[nodiscard]] std::size_t away(std::uint32_t server) const { return rack_.beside(c_.servers + server); }
  [[nodiscard]] std::size_t threads(std::uint32_t server) const {
    return rack_.beside(2 * std::size_t{c_.servers} + server);
  }

  // An exact sum of what all ranks have, which must be what host/hot went on with.
  bool sum_words(const std::vector<bench::HotWorkers::Words>& ranks) {
    const TimeNs begin = clock_.now();
    std::vector<bench::HotWorkers::Words> words = ranks;
    std::vector<engine::OperationId> ids;
    for (std::uint32_t w = 0; w < world_; ++w) {
      const auto id = rack_.worker(w).engine().allreduce(std::span{words[w]}, begin);
      if (!id) return false;
      ids.push_back(*id);
    }
    const auto took = rack_.finish(ids, begin);
    if (!took) return false;
    const bench::HotWorkers::Words expected = bench::sum_of(ranks);
    for (const bench::HotWorkers::Words& of : words) out_.wrong += of == expected ? 0 : 1;
    out_.agreement += *took;
    return true;
  }

  // Workers are a round apart at most.
  Round& round_of(std::uint32_t round) {
    while (first_ + rounds_.size() <= round) rounds_.push_back(plan_.next());
    for (; rounds_.size() > 2; ++first_) rounds_.pop_front();
    return rounds_[round - first_];
  }

  void begin(std::uint32_t w) {
    Seat& seat = seats_[w];
    seat.servers_left = c_.servers;
    seat.sums_here = set_.size() == 0;
    const Share& share = round_of(seat.round).workers[w];
    if (!seat.sums_here) sum_rows(w, share);
    push(w, share.cold);
    if (!seat.sums_here) rack_.worker(w).resume_service();
    send_segments(w);
  }

  void sum_rows(std::uint32_t w, const Share& share) {
    Seat& seat = seats_[w];
    engine::WorkerEngine& engine = rack_.worker(w).engine();
    seat.stamp = hot::stamp_of(set_);
    const auto stamp = engine.allreduce(std::span<std::int32_t>{seat.stamp}, clock_.now());
    seat.values.clear();
    for (const std::uint32_t id : share.ids)
      for (std::uint32_t j = 0; j < c_.width; ++j) seat.values.push_back(value_of(w, id, j));
    engine::OperationOptions options;
    options.rows = &seat.rows.emplace();
    const auto rows = engine.allreduce(ElementType::kFloat32,
                                       engine::segments_of(table(), share.ids, seat.values.data(), nullptr),
                                       clock_.now(), options);
    if (!stamp || !rows) return clock_.alarm("the engine refuses a sum");
    seat.stamp_id = *stamp;
    seat.rows_id = *rows;
  }

  [[nodiscard]] TableShape table() const { return {static_cast<std::uint32_t>(set_.size()), c_.width}; }

  // To all servers in turn, each worker beginning with another one.
  void push(std::uint32_t w, const std::vector<Push>& pushes) {
    std::vector<Segments> segments;
    for (const Push& push : pushes) segments.push_back(segments_of(push.bytes(c_.width)));
    bool more = true;
    for (std::uint32_t i = 0; more; ++i) {
      more = false;
      for (std::uint32_t turn = 0; turn < c_.servers; ++turn) {
        const std::uint32_t server = (w + turn) % c_.servers;
        const Segments& of = segments[server];
        if (i >= of.count) continue;
        more = true;
        seats_[w].segments.push_back(
            {server, of.wire_bytes, pushes[server].serve_ns / of.count / c_.threads, i + 1 == of.count});
      }
    }
  }

  // As many as may wait for the wire, beside those of the engine.
  void send_segments(std::uint32_t w) {
    Seat& seat = seats_[w];
    while (!seat.segments.empty()) {
      const TimeNs free = rack_.lines().free_at(rack_.up(w));
      if (free > clock_.now() + rack_.backlog())
        return clock_.schedule().at(free - rack_.backlog(), *this, 0, w);
      const Segment segment = seat.segments.front();
      seat.segments.pop_front();
      const double ns = rack_.wire_ns(segment.wire_bytes);
      const std::array way{Lines::Hop{rack_.up(w), ns}, Lines::Hop{in(segment.server), ns},
                           Lines::Hop{threads(segment.server), segment.serve_ns}};
      rack_.lines().send(way, [this, last = segment.last, server = segment.server, round = seat.round] {
        if (last) pushed(server, round);
      });
      if (measuring_) out_.to_servers += segment.wire_bytes;
    }
  }

  // All of a push is served.
  void pushed(std::uint32_t server, std::uint32_t round) {
    Server& it = servers_[server];
    if (it.round != round) return clock_.alarm("a round ended before all had pushed");
    if (++it.pushes < world_ * (c_.written_back && set_.size() != 0 ? 2 : 1)) return;
    it = {.round = round + 1};
    const double ns = rack_.wire_ns(segments_of(Push{}.bytes(c_.width)).wire_bytes);
    for (std::uint32_t w = 0; w < world_; ++w) {
      const std::array way{Lines::Hop{away(server), ns}, Lines::Hop{rack_.down(w), ns}};
      rack_.lines().send(way, [this, w] {
        --seats_[w].servers_left;
        end_if_all_is_here(w);
      });
    }
  }

  void look_for_sums(std::uint32_t w) {
    Seat& seat = seats_[w];
    if (seat.sums_here || seat.ended || !seat.rows) return;
    const auto* const stamp = rack_.worker(w).outcome(seat.stamp_id);
    const auto* const rows = rack_.worker(w).outcome(seat.rows_id);
    if (stamp == nullptr || rows == nullptr) return;
    if (!*stamp || !*rows) return clock_.alarm("a sum fails");
    seat.sums_here = true;
    check(w);
    if (c_.written_back) {
      push(w, round_of(seat.round).workers[w].back);
      send_segments(w);
    }
    end_if_all_is_here(w);
  }

  void check(std::uint32_t w) {
    Seat& seat = seats_[w];
    const Round& round = round_of(seat.round);
    out_.wrong += hot::check_stamp(set_, seat.stamp, world_) ? 0 : 1;
    SparseSums<float> sums;
    seat.rows->finish(table(), sums);
    seat.rows.reset();
    out_.wrong += sums.ids.size() == static_cast<std::size_t>(round.traffic.merged) ? 0 : 1;
    for (std::size_t i = 0; i < sums.ids.size(); ++i)
      for (std::uint32_t j = 0; j < c_.width; ++j)
        out_.wrong += sums.values[i * c_.width + j] == round.sums[sums.ids[i] * c_.width + j] ? 0 : 1;
  }

  void end_if_all_is_here(std::uint32_t w) {
    Seat& seat = seats_[w];
    if (!seat.sums_here || seat.servers_left != 0) return;
    const std::uint32_t round = seat.round++;
    if (++through_[round % 2] == world_) all_are_through(round);
    if (round < c_.rounds) return begin(w);
    seat.ended = true;
    ++ended_;
  }

  void all_are_through(std::uint32_t round) {
    through_[round % 2] = 0;
    if (round == 0) {
      begin_ = clock_.now();
      measuring_ = true;
      rack_.lines().forget();
      return;
    }
    const bench::Traffic& of = round_of(round).traffic;
    out_.traffic.pushed += of.pushed;
    out_.traffic.cold += of.cold;
    out_.traffic.merged += of.merged;
    ++out_.rounds;
    out_.time = clock_.now() - begin_;
  }

  void count() {
    const auto busiest = [&](std::size_t first, std::size_t lines) {
      return rack_.lines().busiest(first, lines) / static_cast<double>(out_.time);
    };
    out_.busy = {busiest(threads(0), c_.servers), busiest(in(0), c_.servers), busiest(rack_.up(0), world_),
                 busiest(rack_.down(0), world_), busiest(rack_.core(0), c_.box_cores)};
    out_.again = rack_.sent_again();
  }

  Conditions c_;
  const hot::KeySet& set_;
  std::uint32_t world_;
  RoundPlan plan_;
  bench::Rack rack_;
  bench::Clock& clock_ = rack_.clock();
  std::vector<Server> servers_;
  std::vector<Seat> seats_;
  std::deque<Round> rounds_;
  std::uint32_t first_ = 0;                 // of rounds_
  std::array<std::uint32_t, 2> through_{};  // workers, by round mod 2
  std::uint32_t ended_ = 0;
  bool measuring_ = false;
  TimeNs begin_ = 0;
  Measured out_;
};

}  // namespace

Part Measured::fullest() const {
  return static_cast<Part>(std::max_element(busy.begin(), busy.end()) - busy.begin());
}

Result<Measured> run(const Conditions& conditions, const hot::KeySet& set,
                     const bench::HotWorkers::Agreement* agreement) {
  return Run(conditions, set).go(agreement);
}

}  // namespace tally::rounds

#include "round_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/sparse_rows.h"
#include "host_stack.h"
#include "jobs.h"
#include "lines.h"
#include "switch_node.h"
#include "tally/mix64.h"
#include "worker_node.h"

namespace tally::rounds {
namespace {

constexpr TimeNs kHop = 500;
constexpr TimeNs kGiveUp = 1'000 * kSecond;
constexpr std::uint32_t kFraming = 24;  // FCS, preamble and gap of a frame
constexpr std::size_t kUdpOffset = 34;
// A packet takes a core of the box so long: docs/performance.md has 157 ns for one of 256 values whose results are sent to
// each worker by itself.
constexpr double kBoxPacketNs = 60;
constexpr double kBoxByteNs = 0.09;
constexpr int kSegmentsThatWait = 16;  // for a worker's wire, as a transport lets them

class Run final : public sim::Actor {
 public:
  Run(const Conditions& conditions, const hot::KeySet& set)
      : c_(conditions),
        set_(set),
        world_(conditions.load.workers),
        plan_(conditions, set),
        workload_(conditions.seed, 0, 1),
        ns_per_byte_(8 / conditions.gbps),
        lines_(schedule_, 2 * world_ + 3 * conditions.servers + conditions.box_cores, kHop),
        servers_(conditions.servers) {
    lines_.connect([this](std::uint32_t load) { arrive(load); });
  }

  Result<Measured> go(const bench::HotWorkers::Agreement* agreement) {
    make_box();
    make_workers();
    for (auto& worker : workers_) worker->start();
    const auto all_run = [this] {
      return std::all_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->engine_running(); });
    };
    if (!until(all_run)) return stuck("they do not all join");
    if (agreement != nullptr && (!sum_words(agreement->names) || !sum_words(agreement->weights)))
      return stuck("an agreement does not end");
    for (std::uint32_t w = 0; w < world_; ++w) begin(w);
    if (!until([this] { return ended_ == world_; })) return stuck("a round does not end");
    count();
    return out_;
  }

  // A worker has segments left.
  void on_event(std::uint32_t /*what*/, std::uint32_t worker) override { send_segments(worker); }

 private:
  enum class Kind : std::uint8_t { kToBox, kToWorker, kSegment, kDone };
  struct Load {
    Kind kind{};
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t round = 0;
    bool last = false;  // segment of its push
    Bytes frame{};
  };
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

  [[nodiscard]] std::size_t up(std::uint32_t worker) const { return worker; }
  [[nodiscard]] std::size_t down(std::uint32_t worker) const { return world_ + worker; }
  [[nodiscard]] std::size_t in(std::uint32_t server) const { return 2 * world_ + server; }
  [[nodiscard]] std::size_t away(std::uint32_t server) const { return in(c_.servers) + server; }
  [[nodiscard]] std::size_t threads(std::uint32_t server) const { return away(c_.servers) + server; }
  [[nodiscard]] std::size_t core(std::size_t i) const { return threads(c_.servers) + i; }
  [[nodiscard]] double wire_ns(double bytes) const { return ns_per_byte_ * bytes; }
  [[nodiscard]] TimeNs backlog() const { return static_cast<TimeNs>(kSegmentsThatWait * wire_ns(1'538)); }

  TimeNs send(std::span<const Lines::Hop> way, Load load) {
    std::uint32_t at = 0;
    if (unused_.empty()) {
      at = static_cast<std::uint32_t>(loads_.size());
      loads_.emplace_back();
    } else {
      at = unused_.back();
      unused_.pop_back();
    }
    loads_[at] = std::move(load);
    return lines_.send(way, at);
  }

  void make_box() {
    members::NativeConfig config;
    config.name = "job";
    config.workers = static_cast<std::uint16_t>(world_);
    config.elements = c_.elements;
    config.window = c_.window;
    sim::SwitchOptions options;
    options.cores = c_.box_cores;
    options.watched = false;
    options.slot_lines = 2 * c_.window * jobs::entry_lines(c_.elements);
    options.jobs = {config};
    box_ = std::make_unique<sim::SwitchNode>(
        schedule_, mix64(c_.seed), options,
        [this](const jobs::Binding& to, Bytes frame) {
          const std::uint32_t worker = raw(to.port);
          const std::array way{
              Lines::Hop{down(worker), wire_ns(static_cast<double>(frame.size() + kFraming))}};
          send(way, {.kind = Kind::kToWorker, .to = worker, .frame = std::move(frame)});
        },
        [this](std::string what) { alarm(std::move(what)); });
  }

  void make_workers() {
    for (std::uint32_t w = 0; w < world_; ++w) {
      sim::WorkerOptions options;
      options.index = w;
      options.job = "job";
      options.rank = Rank{static_cast<std::uint16_t>(w)};
      options.world = static_cast<std::uint16_t>(world_);
      options.elements = c_.elements;
      options.binding = test_binding(1, static_cast<std::uint16_t>(w));
      options.binding.port = PortIndex{static_cast<std::uint16_t>(w)};
      options.rto_floor = engine::kAdaptiveRtoFloor;
      options.backlog = backlog();
      workers_.push_back(std::make_unique<sim::WorkerNode>(
          schedule_, mix64(c_.seed + 100 + w), options, workload_, agreement_,
          [this](std::size_t from, Bytes frame) { return to_box(static_cast<std::uint32_t>(from), frame); },
          [this](std::string what) { alarm(std::move(what)); }));
    }
    seats_.resize(world_);
  }

  TimeNs to_box(std::uint32_t from, Bytes& frame) {
    Be<std::uint16_t> port;
    std::memcpy(&port, frame.data() + kUdpOffset + 2, sizeof port);
    const std::size_t shard = static_cast<std::uint16_t>(port.host() - kBasePort) % c_.box_cores;
    const auto bytes = static_cast<double>(frame.size());
    const std::array way{Lines::Hop{up(from), wire_ns(bytes + kFraming)},
                         Lines::Hop{core(shard), kBoxPacketNs + kBoxByteNs * bytes}};
    return send(way, {.kind = Kind::kToBox, .from = from, .frame = std::move(frame)});
  }

  // An exact sum of what all ranks have, which must be what host/hot went on with.
  bool sum_words(const std::vector<bench::HotWorkers::Words>& ranks) {
    const TimeNs begin = schedule_.now();
    std::vector<bench::HotWorkers::Words> words = ranks;
    std::vector<engine::OperationId> ids;
    for (std::uint32_t w = 0; w < world_; ++w) {
      const auto id = workers_[w]->engine().allreduce(std::span{words[w]}, begin);
      if (!id) return false;
      ids.push_back(*id);
    }
    for (auto& worker : workers_) worker->resume_service();
    const auto done = [&] {
      for (std::uint32_t w = 0; w < world_; ++w)
        if (workers_[w]->outcome(ids[w]) == nullptr) return false;
      return true;
    };
    if (!until(done)) return false;
    const bench::HotWorkers::Words expected = bench::sum_of(ranks);
    TimeNs end = begin;
    for (std::uint32_t w = 0; w < world_; ++w) {
      const Result<OperationStats>& of = *workers_[w]->outcome(ids[w]);
      if (!of) return false;
      end = std::max(end, of->finished);
      out_.wrong += words[w] == expected ? 0 : 1;
    }
    out_.agreement += end - begin;
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
    if (!seat.sums_here) workers_[w]->resume_service();
    send_segments(w);
  }

  void sum_rows(std::uint32_t w, const Share& share) {
    Seat& seat = seats_[w];
    engine::WorkerEngine& engine = workers_[w]->engine();
    seat.stamp = hot::stamp_of(set_);
    const auto stamp = engine.allreduce(std::span<std::int32_t>{seat.stamp}, schedule_.now());
    seat.values.clear();
    for (const std::uint32_t id : share.ids)
      for (std::uint32_t j = 0; j < c_.width; ++j) seat.values.push_back(value_of(w, id, j));
    engine::OperationOptions options;
    options.rows = &seat.rows.emplace();
    const auto rows = engine.allreduce(ElementType::kFloat32,
                                       engine::segments_of(table(), share.ids, seat.values.data(), nullptr),
                                       schedule_.now(), options);
    if (!stamp || !rows) return alarm("the engine refuses a sum");
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
      const TimeNs free = lines_.free_at(up(w));
      if (free > schedule_.now() + backlog()) return schedule_.at(free - backlog(), *this, 0, w);
      const Segment segment = seat.segments.front();
      seat.segments.pop_front();
      const double ns = wire_ns(segment.wire_bytes);
      const std::array way{Lines::Hop{up(w), ns}, Lines::Hop{in(segment.server), ns},
                           Lines::Hop{threads(segment.server), segment.serve_ns}};
      send(way, {.kind = Kind::kSegment,
                 .from = w,
                 .to = segment.server,
                 .round = seat.round,
                 .last = segment.last});
      if (measuring_) out_.to_servers += segment.wire_bytes;
    }
  }

  void arrive(std::uint32_t at) {
    Load load = std::move(loads_[at]);
    unused_.push_back(at);
    switch (load.kind) {
      case Kind::kToBox:
        return box_->receive(load.frame, PortIndex{static_cast<std::uint16_t>(load.from)}, true);
      case Kind::kToWorker:
        workers_[load.to]->receive(load.frame);
        return look_for_sums(load.to);
      case Kind::kSegment:
        if (load.last) pushed(load.to, load.round);
        return;
      case Kind::kDone:
        --seats_[load.to].servers_left;
        return end_if_all_is_here(load.to);
    }
  }

  // All of a push is served.
  void pushed(std::uint32_t server, std::uint32_t round) {
    Server& it = servers_[server];
    if (it.round != round) return alarm("a round ended before all had pushed");
    if (++it.pushes < world_ * (c_.written_back && set_.size() != 0 ? 2 : 1)) return;
    it = {.round = round + 1};
    const double ns = wire_ns(segments_of(Push{}.bytes(c_.width)).wire_bytes);
    for (std::uint32_t w = 0; w < world_; ++w) {
      const std::array way{Lines::Hop{away(server), ns}, Lines::Hop{down(w), ns}};
      send(way, {.kind = Kind::kDone, .from = server, .to = w, .round = round});
    }
  }

  void look_for_sums(std::uint32_t w) {
    Seat& seat = seats_[w];
    if (seat.sums_here || seat.ended || !seat.rows) return;
    const auto* const stamp = workers_[w]->outcome(seat.stamp_id);
    const auto* const rows = workers_[w]->outcome(seat.rows_id);
    if (stamp == nullptr || rows == nullptr) return;
    if (!*stamp || !*rows) return alarm("a sum fails");
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
      begin_ = schedule_.now();
      measuring_ = true;
      lines_.forget();
      return;
    }
    const bench::Traffic& of = round_of(round).traffic;
    out_.traffic.pushed += of.pushed;
    out_.traffic.cold += of.cold;
    out_.traffic.merged += of.merged;
    ++out_.rounds;
    out_.time = schedule_.now() - begin_;
  }

  void count() {
    const auto busiest = [&](std::size_t first, std::size_t lines) {
      double most = 0;
      for (std::size_t i = first; i < first + lines; ++i) most = std::max(most, lines_.busy(i));
      return most / static_cast<double>(out_.time);
    };
    out_.busy = {busiest(threads(0), c_.servers), busiest(in(0), c_.servers), busiest(up(0), world_),
                 busiest(down(0), world_), busiest(core(0), c_.box_cores)};
    for (const auto& worker : workers_) out_.again += worker->engine().statistics().retransmissions;
  }

  // Looks now and then, for a look costs as much as an event.
  template <class Done>
  [[nodiscard]] bool until(const Done& done) {
    while (!done()) {
      for (int i = 0; i < kEventsBetweenLooks; ++i)
        if (!broken_.empty() || !schedule_.step(kGiveUp)) return broken_.empty() && done();
    }
    return broken_.empty();
  }
  tl::unexpected<Error> stuck(const std::string& what) {
    return fail(ErrorCode::kTimeout, broken_.empty() ? what : broken_);
  }
  void alarm(std::string what) {
    if (broken_.empty()) broken_ = std::move(what);
  }

  static constexpr int kEventsBetweenLooks = 64;

  Conditions c_;
  const hot::KeySet& set_;
  std::uint32_t world_;
  RoundPlan plan_;
  sim::Schedule schedule_;
  sim::Workload workload_;
  sim::Agreement agreement_;
  double ns_per_byte_;
  Lines lines_;
  std::vector<Load> loads_;
  std::vector<std::uint32_t> unused_;
  std::unique_ptr<sim::SwitchNode> box_;
  std::vector<std::unique_ptr<sim::WorkerNode>> workers_;
  std::vector<Seat> seats_;
  std::deque<Round> rounds_;
  std::uint32_t first_ = 0;  // of rounds_
  std::vector<Server> servers_;
  std::array<std::uint32_t, 2> through_{};  // workers, by round mod 2
  std::uint32_t ended_ = 0;
  bool measuring_ = false;
  TimeNs begin_ = 0;
  Measured out_;
  std::string broken_;
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

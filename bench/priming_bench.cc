// What the priming round trip of a float operation costs: ResNet-50's 161 tensors as one operation each, or
// as one operation over a list of 161. Virtual time: 10 Gbit/s links, RTT 50 us, 8 workers, window 256,
// production engines and pipeline; every sum is checked.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/worker_engine.h"
#include "frames.h"
#include "harness.h"
#include "jobs.h"
#include "kernels/kernels.h"
#include "layer_list.h"
#include "network.h"
#include "schedule.h"
#include "switch_node.h"

namespace tally::bench {
namespace {

// A rack in virtual time for experiments: production worker engines, links with rate and delay, the
// production switch. What differs from the simulator's workers: the program is given from outside and nothing
// fails.
struct RackOptions {
  std::uint16_t workers = 8;
  std::uint32_t window = 256;
  std::uint16_t elements = 352;
  sim::LinkOptions link;
};

class Rack {
 public:
  explicit Rack(const RackOptions& options);
  Rack(const Rack&) = delete;
  Rack& operator=(const Rack&) = delete;
  ~Rack();

  // Runs until every worker is in the job.
  void join();
  // Calls program(rank, engine, now) once per worker; then runs until each finished `operations` operations,
  // calling next(rank, engine, now) after each. Returns the virtual time it took.
  using Program = std::function<void(std::uint16_t rank, engine::WorkerEngine& engine, TimeNs now)>;
  TimeNs run(const Program& program, std::uint32_t operations, const Program& next);

  // Sums over the workers.
  [[nodiscard]] std::uint64_t contributions() const;
  [[nodiscard]] std::uint64_t retransmissions() const;

 private:
  class Host;
  sim::Schedule schedule_;
  sim::Network network_;
  std::unique_ptr<sim::SwitchNode> box_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

constexpr std::size_t kOuterBytes = 42;  // Ethernet, IPv4, UDP
constexpr TimeNs kGiveUp = 3'600 * kSecond;

members::JobConfig job_of(const RackOptions& options) {
  members::JobConfig job;
  job.name = "bench";
  job.workers = options.workers;
  job.elements = options.elements;
  job.window = options.window;
  return job;
}

class Rack::Host {
 public:
  Host(sim::Schedule& schedule, sim::Network& network, const RackOptions& options, std::uint16_t rank)
      : schedule_(schedule), network_(network), rank_(rank), binding_(test_binding(1, rank)) {
    binding_.port = PortIndex{rank};
    engine::EngineOptions o;
    o.job = "bench";
    o.rank = Rank{rank};
    o.world = options.workers;
    o.elements = options.elements;
    o.instance = rank + 1U;
    o.seed = rank + 1U;
    o.rto_floor = engine::kPollRtoFloor;
    auto created = engine::WorkerEngine::create(o, kernels::best_kernels());
    require(created.has_value(), "the engine refuses its options");
    engine_ = std::move(*created);
    out_.resize(engine_->max_datagram_bytes());
  }

  [[nodiscard]] engine::WorkerEngine& engine() noexcept { return *engine_; }
  [[nodiscard]] std::uint32_t finished() const noexcept { return finished_; }
  void begin(Rack::Program next) {
    finished_ = 0;
    next_ = std::move(next);
  }

  void receive(const Bytes& frame) {
    engine_->receive(std::span{frame}.subspan(kOuterBytes), schedule_.now());
    service();
  }

  void service() {
    take_completions();
    std::uint16_t port = 0;
    while (const std::size_t bytes = engine_->transmit(out_, schedule_.now(), port)) {
      network_.to_box(rank_, wrap(std::span{out_}.first(bytes), binding_, test_box(), port));
    }
    take_completions();
    if (const TimeNs deadline = engine_->deadline(); deadline < wake_) {
      wake_ = deadline;
      schedule_.at(deadline, [this, deadline] {
        if (wake_ != deadline) return;
        wake_ = kNever;
        service();
      });
    }
  }

 private:
  void take_completions() {
    while (const auto completion = engine_->next_completion()) {
      require(completion->result.has_value(), "an operation failed");
      ++finished_;
      if (next_) next_(rank_, *engine_, schedule_.now());
    }
  }

  sim::Schedule& schedule_;
  sim::Network& network_;
  std::uint16_t rank_;
  jobs::Binding binding_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  Bytes out_;
  TimeNs wake_ = kNever;
  std::uint32_t finished_ = 0;
  Rack::Program next_;
};

Rack::Rack(const RackOptions& options) : network_(schedule_, 1, options.link, options.workers) {
  network_.connect(
      [this](std::size_t worker, const Bytes& frame, bool vouched) {
        box_->receive(frame, PortIndex{static_cast<std::uint16_t>(worker)}, vouched);
      },
      [this](std::size_t worker, const Bytes& frame, bool) { hosts_[worker]->receive(frame); });
  sim::SwitchOptions box;
  box.jobs = {job_of(options)};
  box.slot_lines = jobs::pool_lines(options.window, 1, options.elements);
  box_ = std::make_unique<sim::SwitchNode>(
      schedule_, 2, box,
      [this](const jobs::Binding& to, Bytes frame) { network_.to_worker(raw(to.port), std::move(frame)); },
      [](const std::string& what) { require(false, what.c_str()); });
  for (std::uint16_t r = 0; r < options.workers; ++r) {
    hosts_.push_back(std::make_unique<Host>(schedule_, network_, options, r));
  }
}

Rack::~Rack() = default;

void Rack::join() {
  for (auto& host : hosts_) host->service();
  const auto all_running = [&] {
    for (auto& host : hosts_) {
      if (host->engine().state() != engine::EngineState::kRunning) return false;
    }
    return true;
  };
  while (!all_running()) require(schedule_.step(kGiveUp), "the job never forms");
}

TimeNs Rack::run(const Program& program, std::uint32_t operations, const Program& next) {
  const TimeNs start = schedule_.now();
  for (auto& host : hosts_) host->begin(next);
  for (std::uint16_t r = 0; r < hosts_.size(); ++r) {
    program(r, hosts_[r]->engine(), start);
    hosts_[r]->service();
  }
  const auto all_finished = [&] {
    for (auto& host : hosts_) {
      if (host->finished() < operations) return false;
    }
    return true;
  };
  while (!all_finished()) require(schedule_.step(kGiveUp), "the operations never complete");
  return schedule_.now() - start;
}

std::uint64_t Rack::contributions() const {
  std::uint64_t n = 0;
  for (const auto& host : hosts_) n += host->engine().statistics().contributions;
  return n;
}

std::uint64_t Rack::retransmissions() const {
  std::uint64_t n = 0;
  for (const auto& host : hosts_) n += host->engine().statistics().retransmissions;
  return n;
}

constexpr std::uint16_t kWorkers = 8;
constexpr std::uint64_t kBitsPerSecond = 10'000'000'000;
constexpr TimeNs kOneWay = 25 * kMicrosecond;
constexpr std::uint16_t kElements = 352;

using Tensors = std::vector<std::span<float>>;

// Exact in float32 and in fixed point, so that the sum is known to the bit: multiples of 2^-12 below 1.
float value(std::size_t i, std::uint16_t rank) {
  return static_cast<float>((i * 31 + rank * 7) % 4093) * 0x1p-12F;
}

struct Model {
  explicit Model(std::span<const std::uint32_t> sizes) : sizes_(sizes.begin(), sizes.end()) {
    for (const auto n : sizes) parameters += n;
    values.resize(kWorkers, std::vector<float>(parameters));
  }
  void fill() {
    for (std::uint16_t r = 0; r < kWorkers; ++r) {
      for (std::size_t i = 0; i < parameters; ++i) values[r][i] = value(i, r);
    }
  }
  [[nodiscard]] Tensors tensors(std::uint16_t rank) {
    Tensors spans;
    std::size_t at = 0;
    for (const auto n : sizes_) {
      spans.emplace_back(values[rank].data() + at, n);
      at += n;
    }
    return spans;
  }
  void check() const {
    for (std::size_t i = 0; i < parameters; ++i) {
      float sum = 0;
      for (std::uint16_t r = 0; r < kWorkers; ++r) sum += value(i, r);
      for (std::uint16_t r = 0; r < kWorkers; ++r) require(values[r][i] == sum, "a sum differs");
    }
  }

  std::size_t parameters = 0;
  std::vector<std::vector<float>> values;

 private:
  std::vector<std::uint32_t> sizes_;
};

struct Way {
  std::string name;
  TimeNs took = 0;
  std::uint64_t packets = 0;
};

enum class Submission { kOneByOne, kAllAtOnce, kOneList };

Way run(Model& model, Submission how, const char* name) {
  model.fill();
  Rack rack({.workers = kWorkers,
             .window = 256,
             .elements = kElements,
             .link = {.delay = kOneWay, .bits_per_second = kBitsPerSecond, .vouched = true}});
  rack.join();
  std::vector<Tensors> tensors;
  for (std::uint16_t r = 0; r < kWorkers; ++r) tensors.push_back(model.tensors(r));
  std::vector<std::size_t> next(kWorkers);
  const auto submit_next = [&](std::uint16_t rank, engine::WorkerEngine& engine, TimeNs now) {
    if (next[rank] == tensors[rank].size()) return;
    require(engine.allreduce(tensors[rank][next[rank]++], now).has_value(), "an operation is refused");
  };
  const auto count = static_cast<std::uint32_t>(tensors.front().size());
  TimeNs took = 0;
  if (how == Submission::kOneList) {
    took = rack.run([&](std::uint16_t r, engine::WorkerEngine& e,
                        TimeNs now) { require(e.allreduce(tensors[r], now).has_value(), "refused"); },
                    1, {});
  } else if (how == Submission::kOneByOne) {
    took = rack.run(submit_next, count, submit_next);
  } else {
    took = rack.run(
        [&](std::uint16_t r, engine::WorkerEngine& e, TimeNs now) {
          while (next[r] < count) submit_next(r, e, now);
        },
        count, {});
  }
  require(rack.retransmissions() == 0, "packets were sent again on a lossless rack");
  model.check();
  return {name, took, rack.contributions() / kWorkers};
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  const std::string file = json_argument(argc, argv);
  Model model(tally::bench::kResnet50);
  // Bound: all data frames of a worker back to back on its link, then one round trip. 42 + 56 bytes of
  // headers, 24 of FCS, preamble and gap.
  const double frames = std::ceil(static_cast<double>(model.parameters) / kElements);
  const double bound_ms =
      (frames * (98 + 24 + 4 * kElements) * 8 / kBitsPerSecond + 2 * static_cast<double>(kOneWay) * 1e-9) *
      1e3;
  std::printf(
      "ResNet-50, %zu parameters, 161 tensors; %d workers, 10 Gbit/s, RTT 50 us, window 256, %d elements; "
      "virtual time\n",
      model.parameters, kWorkers, kElements);
  std::printf("%-42s %12s %14s %10s\n", "", "ms", "packets/worker", "of bound");
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& way : {run(model, Submission::kOneByOne, "161 operations, each awaited"),
                          run(model, Submission::kAllAtOnce, "161 operations, all in flight"),
                          run(model, Submission::kOneList, "1 operation over a list of 161")}) {
    const double ms = static_cast<double>(way.took) * 1e-6;
    std::printf("%-42s %12.3f %14lu %8.1f %%\n", way.name.c_str(), ms, way.packets, 100 * bound_ms / ms);
    rows.push_back({{"name", way.name},
                    {"virtual_ms", ms},
                    {"packets_per_worker", way.packets},
                    {"share_of_bound", bound_ms / ms}});
  }
  std::printf("bound: %.3f ms (frames back to back on one link, and one round trip)\n", bound_ms);
  write_json(file, {{"bound_ms", bound_ms}, {"rows", rows}});
  return 0;
}

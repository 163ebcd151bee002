#include "rack.h"

#include <span>
#include <string>
#include <utility>

#include "frames.h"
#include "harness.h"
#include "jobs.h"
#include "kernels/kernels.h"

namespace tally::bench {
namespace {

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

}  // namespace

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

}  // namespace tally::bench

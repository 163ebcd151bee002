#pragma once
// Who sits behind the links: production engines of workers and of servers.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "chance.h"
#include "congestion_window.h"
#include "engine/worker_engine.h"
#include "job_plan.h"
#include "jobs/job_table.h"
#include "links.h"
#include "packets.h"
#include "ps/ps_engine.h"
#include "schedule.h"
#include "slot_front.h"

namespace tally::experiment {

// One worker of a training job, and the plan that it follows. Every sum that the engine delivers is compared
// with the exact one.
class TrainingWorker final : public sim::Actor {
 public:
  enum Event : std::uint32_t { kReceive, kWake, kIterate, kSubmit };

  struct Options {
    const jobs::NativeJob& job;
    Rank rank{};
    const JobPlan& plan;
    double u = 0;  // ns
    double skew = 0;
    TimeNs rto_floor = engine::kAdaptiveRtoFloor;
    bool ecn = false;
  };
  TrainingWorker(sim::Schedule& time, Packets& packets, const Chance& chance, const Options& options);

  // Before the start: where its packets go.
  void connect(std::unique_ptr<Link> to_box) { to_box_ = std::move(to_box); }
  // JOIN and JOINED, without the network: the first thing it says, and the answer.
  [[nodiscard]] std::span<const std::byte> say_join();
  void hear(std::span<const std::byte> datagram);
  void start(TimeNs at);

  void on_event(std::uint32_t what, std::uint32_t detail) override;

  [[nodiscard]] engine::WorkerEngine& engine() noexcept { return *engine_; }
  [[nodiscard]] bool finished() const noexcept { return iteration_ == options_.plan.iterations; }
  [[nodiscard]] TimeNs finished_at() const noexcept { return finished_at_; }
  [[nodiscard]] std::uint64_t wrong() const noexcept { return wrong_; }
  [[nodiscard]] const Link& link() const noexcept { return *to_box_; }

 private:
  void receive(PacketId id);
  void iterate();
  void submit();
  void service();
  void send(PacketId id);
  void take_completions();
  void fill(std::vector<std::int32_t>& values) const;
  void check(const std::vector<std::int32_t>& values, std::uint32_t bucket);
  [[nodiscard]] TimeNs after(double u) const noexcept;

  sim::Schedule& time_;
  Packets& packets_;
  const Chance& chance_;
  Options options_;
  OuterHeaders headers_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  std::unique_ptr<Link> to_box_;
  CongestionWindow congestion_;  // of rows with ECN
  std::vector<std::byte> out_;
  std::vector<std::vector<std::int32_t>> values_;  // by bucket, input and then sums
  std::vector<TimeNs> summed_at_;                  // by bucket, in this iteration
  double pace_ = 1;                                // of computing in this iteration
  std::uint32_t iteration_ = 0;
  std::uint32_t submitted_ = 0;  // buckets in this iteration
  std::uint32_t summed_ = 0;
  TimeNs wake_ = kNever;
  TimeNs finished_at_ = 0;
  std::uint64_t wrong_ = 0;
};

// A server, of one job or several.
class ServerHost final : public sim::Actor {
 public:
  enum Event : std::uint32_t { kReceive, kWake };

  // jobs: which it serves, all as their server 0. gaps: hears of what comes; may be nullptr.
  ServerHost(sim::Schedule& time, Packets& packets, const std::vector<const jobs::NativeJob*>& jobs,
             GapRepair* gaps);
  void connect(std::unique_ptr<Link> to_box) { to_box_ = std::move(to_box); }
  // JOINs and JOINEDs, without the network: the next JOIN, for the job at `index`; and its answer.
  [[nodiscard]] std::span<const std::byte> say_join();
  void hear(std::span<const std::byte> datagram);
  [[nodiscard]] bool running() const;

  void on_event(std::uint32_t what, std::uint32_t detail) override;

  [[nodiscard]] const ps::PsEngine& engine() const noexcept { return *engine_; }
  [[nodiscard]] const Link& link() const noexcept { return *to_box_; }

 private:
  void service();

  sim::Schedule& time_;
  Packets& packets_;
  GapRepair* gaps_;
  std::vector<OuterHeaders> headers_;  // by job id
  std::unique_ptr<ps::PsEngine> engine_;
  std::unique_ptr<Link> to_box_;
  std::vector<std::byte> out_;
  TimeNs wake_ = kNever;
};

}  // namespace tally::experiment

#pragma once
// A run: the scenario's rack in virtual time, its invariants checked after every event, then the liveness
// phase: everything healed, everything must complete. The oracle is the invariants of docs/hazards.md.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agreement.h"
#include "network.h"
#include "scenario.h"
#include "schedule.h"
#include "server_node.h"
#include "switch_node.h"
#include "worker_node.h"
#include "workload.h"

namespace tally::sim {

struct Report {
  std::vector<std::string> broken;  // empty: all invariants held
  TimeNs ended = 0;                 // virtual time
  TimeNs took = 0;                  // from the end of the last fault until nobody waited any more
  std::uint64_t events = 0;
  std::uint64_t frames = 0;
  std::uint64_t forged = 0;  // packets that nobody sent so, or that came when it suited somebody
  std::uint64_t no_tag =
      0;  // ... that control dropped for their tag, and for their counter, in its last life
  std::uint64_t again = 0;
  std::uint64_t incomplete = 0;  // results without everybody, in the box's last life
  std::uint64_t right = 0;       // operations completed and checked
  std::uint64_t failed = 0;      // operations that ended with an error (only faults may cause it)
  // Of the processes that are there at the end, over all workers.
  std::uint64_t epochs_again = 0;  // entered with a generation that was there before
  std::uint64_t boxes_lost = 0;    // of plans
  [[nodiscard]] bool ok() const noexcept { return broken.empty(); }
};

class Simulation {
 public:
  explicit Simulation(Scenario scenario);

  // The whole run.
  Report run();

  // Piecewise, for tests that steer: starts every worker; runs until a time or until `done`.
  void start();
  void run_until(TimeNs until);
  template <class Done>
  bool run_while_not(Done done, TimeNs give_up) {
    while (!done()) {
      if (!broken_.empty() || !step(give_up)) return done();
    }
    return true;
  }
  [[nodiscard]] bool all_plans_done() const;

  [[nodiscard]] Schedule& schedule() noexcept { return schedule_; }
  [[nodiscard]] Network& network() noexcept { return network_; }
  [[nodiscard]] SwitchNode& box(std::size_t i = 0) noexcept { return *boxes_[i]; }
  [[nodiscard]] std::size_t boxes() const noexcept { return boxes_.size(); }
  // Of a worker, or, behind them, a server.
  [[nodiscard]] std::size_t link(std::size_t endpoint, std::size_t box) const noexcept {
    return box * endpoints() + endpoint;
  }
  // The endpoint that a rack's box is to its parent, box 0.
  [[nodiscard]] std::size_t uplink(std::size_t rack) const noexcept {
    return scenario_.workers.size() + scenario_.servers.size() + rack;
  }
  [[nodiscard]] std::size_t workers() const noexcept { return workers_.size(); }
  [[nodiscard]] WorkerNode& worker(std::size_t i) noexcept { return *workers_[i]; }
  [[nodiscard]] ServerNode& server(std::size_t i) noexcept { return *servers_[i]; }
  [[nodiscard]] const std::vector<std::string>& broken() const noexcept { return broken_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return events_; }
  void alarm(std::string what);
  void strike(const PlannedBlow& blow);
  // The store of the fleet calls this box the home of the job from now on. Each box hears of it within so long, and a
  // box that is restarted once more, after that: until then there may be two homes, or none.
  void take_over(const std::string& job, std::size_t box, TimeNs within);
  // Heard of by a box alone, or said anew to one that has forgotten.
  void tell_homes(std::size_t box);

 private:
  bool step(TimeNs until);
  [[nodiscard]] std::size_t endpoints() const noexcept { return uplink(scenario_.racks); }
  void add_box(const SwitchOptions& options);
  void leave_box(std::size_t box, const jobs::Binding& to, Bytes frame);
  TimeNs to_box(std::size_t endpoint, Bytes frame);
  void arrive_at_box(std::size_t link, const Bytes& frame, bool vouched);
  void arrive_at(std::size_t box, std::size_t endpoint, const Bytes& frame, bool vouched);
  void arrive_at_endpoint(std::size_t endpoint, const Bytes& frame, bool vouched);
  [[nodiscard]] std::uint64_t obeyed(std::size_t box) const;
  void restart_box(std::size_t box);
  void strike_box(const PlannedBlow& blow);
  [[nodiscard]] bool strike_link(const PlannedBlow& blow);
  void cut_off(const PlannedBlow& blow);
  void crash(WorkerNode& worker, TimeNs until);
  void upset_links(const PlannedBlow& blow);
  void make_up();
  void revive();  // what users do: restart the dead, join again with the closed
  [[nodiscard]] bool settled(const WorkerNode& worker) const;
  [[nodiscard]] bool somebody_left(const std::string& job) const;
  [[nodiscard]] TimeNs healed_at() const;
  void check_at_the_end();

  Scenario scenario_;
  Schedule schedule_;
  Workload workload_;
  Network network_;
  Rng made_up_by_{mix64(scenario_.seed + 6)};
  Forger forger_{mix64(scenario_.seed + 7)};
  std::uint64_t made_up_ = 0;
  std::vector<std::unique_ptr<SwitchNode>> boxes_;
  Agreement agreement_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::vector<std::unique_ptr<ServerNode>> servers_;
  std::vector<std::string> broken_;
  std::uint64_t events_ = 0;
  std::map<std::string, std::size_t> homes_;  // of jobs that were taken over
  Rng told_by_{mix64(scenario_.seed + 8)};
  bool epochs_changed_ = false;  // some blow may have begun a new epoch or generation
};

}  // namespace tally::sim

#include "simulation.h"

#include <algorithm>
#include <utility>

namespace tally::sim {
namespace {

constexpr TimeNs kMinute = 60 * kSecond;
constexpr TimeNs kLongestSweep =
    5 * kSecond;  // ten times the longest tau, and what may touch the entry again
constexpr std::uint64_t kMostEvents = 3'000'000;  // a seed has some thousands

}  // namespace

Simulation::Simulation(Scenario scenario)
    : scenario_(std::move(scenario)),
      workload_(scenario_.seed, scenario_.operations, scenario_.largest),
      network_(schedule_, mix64(scenario_.seed + 2), scenario_.link,
               scenario_.workers.size() + scenario_.servers.size()) {
  const auto alarm_here = [this](std::string what) { alarm(std::move(what)); };
  network_.set_faults(scenario_.faults);
  network_.connect(
      [this](std::size_t worker, const Bytes& frame, bool vouched) {
        const std::uint64_t before = obeyed();
        box_->receive(frame, PortIndex{static_cast<std::uint16_t>(worker)}, vouched);
        if (obeyed() > before && !network_.obey(worker, frame))
          alarm("control obeyed a packet that was not sent so, or obeyed it twice: type " +
                std::to_string(static_cast<int>(header_of(std::span{frame}.subspan(kOuterBytes)).type)));
      },
      [this](std::size_t to, const Bytes& frame, bool) {
        if (to < workers_.size()) return workers_[to]->receive(frame);
        servers_[to - workers_.size()]->receive(frame);
      });
  // The port a binding names is the link of its endpoint; a port that none has leads nowhere.
  box_ = std::make_unique<SwitchNode>(
      schedule_, mix64(scenario_.seed + 3), scenario_.box,
      [this](const jobs::Binding& to, Bytes frame) {
        if (raw(to.port) < workers_.size() + servers_.size())
          network_.to_worker(raw(to.port), std::move(frame));
      },
      alarm_here);
  for (const auto& options : scenario_.workers) {
    epochs_changed_ |= options.stragglers;  // who falls behind ends the job, and it begins anew
    workers_.push_back(std::make_unique<WorkerNode>(
        schedule_, mix64(scenario_.seed + 100 + options.index), options, workload_, agreement_,
        [this](std::size_t index, Bytes frame) { return network_.to_box(index, std::move(frame)); },
        alarm_here));
  }
  for (const auto& options : scenario_.servers) {
    servers_.push_back(std::make_unique<ServerNode>(
        schedule_, mix64(scenario_.seed + 100 + options.index), options,
        [this](std::size_t index, Bytes frame) { network_.to_box(index, std::move(frame)); }, alarm_here));
  }
}

void Simulation::alarm(std::string what) {
  broken_.push_back("at " + std::to_string(schedule_.now() / kMicrosecond) + " us: " + std::move(what));
}

// Packets of members.
std::uint64_t Simulation::obeyed() const {
  const members::MembershipCounters& c = box_->membership().counters();
  return c.of(PacketType::kJoin) + c.of(PacketType::kHeartbeat) + c.of(PacketType::kLeave) +
         c.of(PacketType::kAbort);
}

bool Simulation::step(TimeNs until) {
  const bool more = schedule_.step(until);
  events_ += more ? 1 : 0;
  if (events_ == kMostEvents) alarm("invariant 9: packets bring packets without end");
  return more;
}

void Simulation::run_until(TimeNs until) {
  while (broken_.empty() && step(until)) {
  }
}

void Simulation::start() {
  Rng rng(mix64(scenario_.seed + 4));
  for (auto& worker : workers_) {
    schedule_.after(rng.below(20 * kMillisecond), [w = worker.get()] { w->start(); });
  }
  for (auto& server : servers_) {
    schedule_.after(rng.below(20 * kMillisecond), [s = server.get()] { s->start(); });
  }
}

void Simulation::crash(WorkerNode& worker, TimeNs until) {
  worker.crash();
  schedule_.at(until, [&worker] {
    if (!worker.alive()) worker.start();
  });
}

// Old control packets of some workers, while what some say now is lost.
void Simulation::upset_links(const PlannedBlow& blow) {
  Rng rng(mix64(scenario_.seed + 31 + blow.when));
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (rng.chance(0.6)) network_.replay_control(w, true, rng.below(blow.lasts + 1));
    if (rng.chance(0.4)) network_.cut(w, true, schedule_.now() + rng.below(blow.lasts + 1));
  }
}

void Simulation::strike(const PlannedBlow& blow) {
  const TimeNs until = schedule_.now() + blow.lasts;
  if (blow.what == Blow::kPauseServer || blow.what == Blow::kCrashServer) {
    epochs_changed_ |= blow.lasts > members::kMinLease;
    ServerNode& server = *servers_[blow.worker];
    if (blow.what == Blow::kPauseServer) return server.pause(until);
    server.crash();
    return schedule_.at(until, [&server] { server.start(); });
  }
  WorkerNode& worker = *workers_[blow.worker];
  epochs_changed_ |= blow.what != Blow::kPauseWorker || blow.lasts > members::kMinLease;
  switch (blow.what) {
    case Blow::kPauseWorker:
      worker.pause(until);
      break;
    case Blow::kPauseSwitch:
      box_->pause(until);
      break;
    case Blow::kRestartDataPlane:
      box_->restart_data_plane();
      break;
    case Blow::kRestartSwitch:
      box_->restart();
      break;
    case Blow::kCrashWorker:
      crash(worker, until);
      break;
    case Blow::kResize:
      box_->resize(worker.options().job, blow.window);
      break;
    case Blow::kPauseServer:
    case Blow::kCrashServer:
      break;  // above
    case Blow::kCutUp:
    case Blow::kCutDown:
      network_.cut(blow.worker, blow.what == Blow::kCutUp, until);
      break;
    case Blow::kReplayControl:
      network_.replay_control(blow.worker, true, blow.lasts);
      break;
    case Blow::kReplayConversation:
      network_.replay_control(blow.worker, true, blow.lasts);
      network_.replay_control(blow.worker, false, blow.lasts);
      break;
    case Blow::kStallSwitch:
      box_->stall(until);
      break;
    case Blow::kRestartTwice:
      box_->restart();
      schedule_.at(until, [this] { box_->restart(); });
      break;
    case Blow::kRestartAndCrash:
      box_->restart();
      crash(worker, until);
      break;
    case Blow::kRestartAmidOldControl:
      box_->restart();
      upset_links(blow);
      break;
    case Blow::kAbortByWorker:
      if (worker.alive() && !worker.closed()) {
        worker.engine().abort("the program was interrupted", schedule_.now());
        worker.resume_service();
      }
      break;
  }
}

// From any port, with any address; to a member as if the box had sent it. A rate that goes on until the
// faults end.
void Simulation::make_up() {
  if (schedule_.now() >= scenario_.heal_at) return;
  ++made_up_;
  Rng& rng = made_up_by_;
  const std::size_t ends = workers_.size();
  jobs::Binding as = workers_[rng.below(ends)]->options().binding;
  if (rng.chance(0.5)) {
    network_.inject(rng.below(ends), false, forger_.made_up_for_member(as));
  } else {
    if (rng.chance(0.5)) as.address[15] = static_cast<std::uint8_t>(rng.below(256));
    network_.inject(rng.below(ends), true, forger_.made_up_for_box(as));
  }
  schedule_.after(1 + rng.below(2 * scenario_.made_up_every), [this] { make_up(); });
}

// Users bring back what died or closed; a worker that left as planned stays away.
void Simulation::revive() {
  for (auto& server : servers_) server->start();
  for (auto& worker : workers_) {
    if (!worker->alive()) worker->start();
    if (worker->closed() && !worker->left()) worker->program_again();
  }
  schedule_.after(200 * kMillisecond, [this] { revive(); });
}

bool Simulation::somebody_left(const std::string& job) const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](const auto& worker) { return worker->options().job == job && worker->left(); });
}

// Who has left, or had all its sums and was leaving when the job ended, stays away: a member that comes
// again, because its own operation failed or it crashed, waits for a job that is not formed any more, and is
// told for whom. Nobody may wait for ever with a job that runs.
bool Simulation::settled(const WorkerNode& worker) const {
  if (!worker.options().leaves) return worker.alive() && worker.plan_done();
  return worker.left() || (worker.alive() && worker.waits_to_join() && somebody_left(worker.options().job));
}

bool Simulation::all_plans_done() const {
  for (const auto& worker : workers_) {
    if (!settled(*worker)) return false;
  }
  return true;
}

void Simulation::check_at_the_end() {
  for (const auto& worker : workers_) {
    if (settled(*worker)) continue;
    alarm("invariant 3: not complete " + std::to_string(kBound / kSecond) +
          " s after healing: " + worker->describe());
  }
  if (!broken_.empty()) return;
  // What is filling in the shared region after the last result, a replay or the work of an earlier epoch, is
  // swept. Slots of a job's own may keep it: who holds the result does not offer it again.
  for (std::size_t i = 0; i < box_->jobs().size(); ++i) {
    const JobId job = box_->jobs()[i];
    const bool shares = shares_slots(scenario_.box.jobs[i].discipline);
    if (shares) run_while_not([&] { return box_->occupancy(job) == 0; }, schedule_.now() + kLongestSweep);
    if (box_->occupancy(job) != 0 && (shares || !epochs_changed_))
      alarm("all results are in and job " + std::to_string(raw(job)) + " still has filling entries");
  }
}

// The end of the last fault.
TimeNs Simulation::healed_at() const {
  TimeNs end = scenario_.heal_at + (scenario_.faults.late > 0 ? scenario_.faults.late_delay : 0);
  for (const auto& blow : scenario_.blows) end = std::max(end, blow.when + blow.lasts);
  return end;
}

Report Simulation::run() {
  start();
  for (const auto& blow : scenario_.blows) {
    schedule_.at(blow.when, [this, blow] { strike(blow); });
  }
  schedule_.after(300 * kMillisecond, [this] { revive(); });
  if (scenario_.made_up_every != 0) make_up();
  run_until(scenario_.heal_at);
  network_.set_faults({});
  const TimeNs healed = healed_at();
  TimeNs ended = healed;
  // Thrice: late packets of the past do no harm, and a death before the healing may be noticed only now.
  for (int i = 0; i < 3 && broken_.empty(); ++i) {
    if (i != 0) run_until(schedule_.now() + 20 * kMillisecond);
    if (!all_plans_done()) {
      run_while_not([this] { return all_plans_done(); }, healed + kBound);
      ended = schedule_.now();
    }
  }
  // What was forged minutes ago harms nobody: who was done stays so, or is done again.
  if (broken_.empty() && scenario_.faults.forge > 0 && scenario_.faults.forge_delay > kMinute) {
    const TimeNs last = scenario_.heal_at + scenario_.faults.forge_delay;
    run_until(last);
    run_while_not([this] { return all_plans_done(); }, last + kBound);
  }
  if (broken_.empty()) check_at_the_end();
  Report report{.broken = broken_,
                .ended = schedule_.now(),
                .took = ended > healed ? ended - healed : 0,
                .events = events_,
                .frames = network_.sent(),
                .forged = network_.forged() + made_up_};
  const members::MembershipCounters& control = box_->membership().counters();
  report.no_tag = control.of(members::MembershipDrop::kTag);
  report.again = control.of(members::MembershipDrop::kReplay);
  for (const JobId job : box_->jobs()) report.incomplete += box_->incomplete(job);
  for (const auto& worker : workers_) {
    report.right += worker->right();
    report.failed += worker->failed();
  }
  return report;
}

}  // namespace tally::sim

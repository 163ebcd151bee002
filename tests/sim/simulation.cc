#include "simulation.h"

#include <algorithm>
#include <utility>

#include "host_stack.h"

namespace tally::sim {
namespace {

constexpr TimeNs kMinute = 60 * kSecond;
constexpr TimeNs kLongestSweep =
    5 * kSecond;  // ten times the longest tau, and what may touch the entry again
constexpr std::uint64_t kMostEvents = 3'000'000;  // a seed has some thousands

// A JOIN for a job whose home is elsewhere: it is told where, as often as it asks, and nothing else follows.
bool asks_its_way(const SwitchNode& box, const Bytes& frame) {
  const auto datagram = std::span{frame}.subspan(kOuterBytes);
  if (header_of(datagram).type != PacketType::kJoin) return false;
  const auto join = wire_at<JoinPayload>(datagram.data() + kHeaderBytes);
  return box.is_elsewhere(
      {reinterpret_cast<const char*>(datagram.data()) + kHeaderBytes + sizeof join, join.name_bytes});
}

}  // namespace

Simulation::Simulation(Scenario scenario)
    : scenario_(std::move(scenario)),
      workload_(scenario_.seed, scenario_.operations, scenario_.largest, scenario_.tables),
      network_(schedule_, mix64(scenario_.seed + 2), scenario_.link,
               endpoints() * (1 + scenario_.others.size())) {
  const auto alarm_here = [this](std::string what) { alarm(std::move(what)); };
  network_.set_faults(scenario_.faults);
  for (const auto& [link, faults] : scenario_.link_faults) network_.set_faults(link, faults);
  network_.connect(
      [this](std::size_t link, const Bytes& frame, bool vouched) { arrive_at_box(link, frame, vouched); },
      [this](std::size_t link, const Bytes& frame, bool vouched) {
        arrive_at_endpoint(link % endpoints(), frame, vouched);
      });
  add_box(scenario_.box);
  for (const SwitchOptions& box : scenario_.others) add_box(box);
  const auto send = [this](std::size_t index, Bytes frame) { return to_box(index, std::move(frame)); };
  for (const auto& options : scenario_.workers) {
    epochs_changed_ |= options.stragglers;  // who falls behind ends the job, and it begins anew
    workers_.push_back(std::make_unique<WorkerNode>(schedule_, mix64(scenario_.seed + 100 + options.index),
                                                    options, workload_, agreement_, send, alarm_here));
  }
  for (const auto& options : scenario_.servers) {
    servers_.push_back(std::make_unique<ServerNode>(schedule_, mix64(scenario_.seed + 100 + options.index),
                                                    options, send, alarm_here));
  }
}

// The port a binding names is the link of its endpoint; a port that none has leads nowhere.
void Simulation::add_box(const SwitchOptions& options) {
  const std::size_t box = boxes_.size();
  boxes_.push_back(std::make_unique<SwitchNode>(
      schedule_, mix64(scenario_.seed + 3 + 0x1000 * box), options,
      [this, box](const jobs::Binding& to, Bytes frame) { leave_box(box, to, std::move(frame)); },
      [this](std::string what) { alarm(std::move(what)); }));
}

// A rack's box is an endpoint of its parent.
void Simulation::leave_box(std::size_t box, const jobs::Binding& to, Bytes frame) {
  const std::size_t endpoint = raw(to.port);
  if (box != 0 && box <= scenario_.racks && endpoint == uplink(box - 1)) {
    network_.to_box(link(endpoint, 0), std::move(frame));
  } else if (endpoint < endpoints()) {
    network_.to_worker(link(endpoint, box), std::move(frame));
  }
}

// By its address. What is for nobody is lost.
TimeNs Simulation::to_box(std::size_t endpoint, Bytes frame) {
  const Ipv6 to = destination_of(frame);
  for (std::size_t box = 0; box < boxes_.size(); ++box)
    if (mapped(boxes_[box]->options().self.ipv4) == to)
      return network_.to_box(link(endpoint, box), std::move(frame));
  return 0;
}

void Simulation::arrive_at_box(std::size_t link, const Bytes& frame, bool vouched) {
  arrive_at(link / endpoints(), link % endpoints(), frame, vouched);
}

// What bears the parent's name is obeyed if the parent said it, wherever a copy of it comes from.
void Simulation::arrive_at(std::size_t box, std::size_t endpoint, const Bytes& frame, bool vouched) {
  const std::uint64_t before = obeyed(box);
  boxes_[box]->receive(frame, PortIndex{static_cast<std::uint16_t>(endpoint)}, vouched);
  if (obeyed(box) == before || asks_its_way(*boxes_[box], frame)) return;
  const Header h = header_of(std::span{frame}.subspan(kOuterBytes));
  const bool of_parent = box != 0 && box <= scenario_.racks && h.rank_id() == kSwitchRank;
  if (!network_.obey(of_parent ? link(uplink(box - 1), 0) : link(endpoint, box), !of_parent, frame))
    alarm("control obeyed a packet that was not sent so, or obeyed it twice: type " +
          std::to_string(static_cast<int>(h.type)));
}

void Simulation::arrive_at_endpoint(std::size_t endpoint, const Bytes& frame, bool vouched) {
  if (endpoint < workers_.size()) return workers_[endpoint]->receive(frame);
  if (endpoint < uplink(0)) return servers_[endpoint - workers_.size()]->receive(frame);
  arrive_at(1 + endpoint - uplink(0), endpoint, frame, vouched);
}

void Simulation::alarm(std::string what) {
  broken_.push_back("at " + std::to_string(schedule_.now() / kMicrosecond) + " us: " + std::move(what));
}

// Packets of members.
std::uint64_t Simulation::obeyed(std::size_t box) const {
  const members::MembershipCounters& c = boxes_[box]->membership().counters();
  return c.of(PacketType::kJoin) + c.of(PacketType::kHeartbeat) + c.of(PacketType::kLeave) +
         c.of(PacketType::kAbort) + c.of(PacketType::kEnlist) + c.of(PacketType::kLost);
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

void Simulation::take_over(const std::string& job, std::size_t box, TimeNs within) {
  homes_[job] = box;
  for (std::size_t i = 0; i < boxes_.size(); ++i)
    schedule_.after(told_by_.below(within + 1), [this, i] { tell_homes(i); });
}

void Simulation::tell_homes(std::size_t box) {
  for (const auto& [job, home] : homes_)
    boxes_[box]->set_home(job, mapped(boxes_[home]->options().self.ipv4));
}

void Simulation::restart_box(std::size_t box) {
  boxes_[box]->restart();
  schedule_.after(told_by_.below(200 * kMillisecond), [this, box] { tell_homes(box); });
}

// Old control packets of some workers, while what some say now is lost.
void Simulation::upset_links(const PlannedBlow& blow) {
  Rng rng(mix64(scenario_.seed + 31 + blow.when));
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    if (rng.chance(0.6)) network_.replay_control(link(w, blow.box), true, rng.below(blow.lasts + 1));
    if (rng.chance(0.4)) network_.cut(link(w, blow.box), true, schedule_.now() + rng.below(blow.lasts + 1));
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
  epochs_changed_ |= blow.what != Blow::kPauseWorker || blow.lasts > members::kMinLease;
  if (strike_link(blow)) return;
  WorkerNode& worker = *workers_[blow.worker];
  switch (blow.what) {
    case Blow::kPauseWorker:
      worker.pause(until);
      break;
    case Blow::kCrashWorker:
      crash(worker, until);
      break;
    case Blow::kAbortByWorker:
      if (worker.alive() && !worker.closed()) {
        worker.engine().abort("the program was interrupted", schedule_.now());
        worker.resume_service();
      }
      break;
    default:
      strike_box(blow);
  }
}

// Of any endpoint: a rack's box is one, too.
bool Simulation::strike_link(const PlannedBlow& blow) {
  const std::size_t at = link(blow.worker, blow.box);
  switch (blow.what) {
    case Blow::kCutUp:
    case Blow::kCutDown:
      network_.cut(at, blow.what == Blow::kCutUp, schedule_.now() + blow.lasts);
      return true;
    case Blow::kReplayControl:
    case Blow::kReplayConversation:
      network_.replay_control(at, true, blow.lasts);
      if (blow.what == Blow::kReplayConversation) network_.replay_control(at, false, blow.lasts);
      return true;
    default:
      return false;
  }
}

void Simulation::cut_off(const PlannedBlow& blow) {
  const TimeNs until = schedule_.now() + blow.lasts;
  const bool in = blow.what != Blow::kMuteBox;
  const bool out = blow.what != Blow::kDeafenBox;
  for (std::size_t i = 0; i < endpoints(); ++i) {
    if (in) network_.cut(link(i, blow.box), true, until);
    if (out) network_.cut(link(i, blow.box), false, until);
  }
  if (blow.box == 0 || blow.box > scenario_.racks) return;
  const std::size_t to_parent = link(uplink(blow.box - 1), 0);
  if (out) network_.cut(to_parent, true, until);
  if (in) network_.cut(to_parent, false, until);
}

void Simulation::strike_box(const PlannedBlow& blow) {
  const TimeNs until = schedule_.now() + blow.lasts;
  SwitchNode& box = *boxes_[blow.box];
  WorkerNode& worker = *workers_[blow.worker];
  switch (blow.what) {
    case Blow::kPauseSwitch:
      box.pause(until);
      break;
    case Blow::kRestartDataPlane:
      box.restart_data_plane();
      break;
    case Blow::kRestartSwitch:
      restart_box(blow.box);
      break;
    case Blow::kResize:
      box.resize(worker.options().job, blow.window);
      break;
    case Blow::kReplan:
      box.replan(worker.options().job);
      break;
    case Blow::kTakeOver:
      take_over(worker.options().job, blow.box, blow.lasts);
      break;
    case Blow::kStallSwitch:
      box.stall(until);
      break;
    case Blow::kRestartTwice:
      restart_box(blow.box);
      schedule_.at(until, [this, box = blow.box] { restart_box(box); });
      break;
    case Blow::kRestartAndCrash:
      restart_box(blow.box);
      crash(worker, until);
      break;
    case Blow::kRestartAmidOldControl:
      restart_box(blow.box);
      upset_links(blow);
      break;
    case Blow::kCutBoxOff:
    case Blow::kDeafenBox:
    case Blow::kMuteBox:
      cut_off(blow);
      break;
    default:
      break;  // strike() has done it
  }
}

// From any port, with any address; to a member as if the box had sent it. A rate that goes on until the
// faults end.
void Simulation::make_up() {
  if (schedule_.now() >= scenario_.heal_at) return;
  ++made_up_;
  Rng& rng = made_up_by_;
  const std::size_t ends = workers_.size();
  const std::size_t box = boxes_.size() == 1 ? 0 : rng.below(boxes_.size());
  jobs::Binding as = workers_[rng.below(ends)]->options().binding;
  if (rng.chance(0.5)) {
    network_.inject(link(rng.below(ends), box), false, forger_.made_up_for_member(as));
  } else {
    if (rng.chance(0.5)) as.address[15] = static_cast<std::uint8_t>(rng.below(256));
    network_.inject(link(rng.below(ends), box), true, forger_.made_up_for_box(as));
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
  for (const auto& box : boxes_) {
    for (std::size_t i = 0; i < box->jobs().size(); ++i) {
      const JobId job = box->jobs()[i];
      const bool shares = shares_slots(box->options().jobs[i].discipline);
      if (shares) run_while_not([&] { return box->occupancy(job) == 0; }, schedule_.now() + kLongestSweep);
      if (box->occupancy(job) != 0 && (shares || !epochs_changed_))
        alarm("all results are in and job " + std::to_string(raw(job)) + " still has filling entries");
    }
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
  for (const auto& box : boxes_) {
    const members::MembershipCounters& control = box->membership().counters();
    report.no_tag += control.of(members::MembershipDrop::kTag);
    report.again += control.of(members::MembershipDrop::kReplay);
    for (const JobId job : box->jobs()) report.incomplete += box->incomplete(job);
  }
  for (const auto& worker : workers_) {
    report.right += worker->right();
    report.failed += worker->failed();
    if (!worker->alive()) continue;
    const EngineStatistics& counted = worker->engine().statistics();
    report.epochs_again += counted.epochs - std::min(counted.epochs, counted.generations);
    report.boxes_lost += counted.boxes_lost;
  }
  return report;
}

}  // namespace tally::sim

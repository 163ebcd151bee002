// The box as a whole: its lives, its control, what the cores are told.

#include "switch_node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/kernels.h"
#include "pipeline/reply.h"

namespace tally::sim {
namespace {

constexpr std::size_t kTailRoom = kHeaderBytes + 4 * kMaxElements;
constexpr std::size_t kUdpOffset = 34;  // Ethernet and IPv4 in front

constexpr std::size_t kQueue = 1024;  // frames that wait for a box that stands still

constexpr std::uint64_t kCalendar = 1'700'000'000 * kSecond;  // time goes on while a box is away

constexpr TimeNs kRebalanceEvery = 50 * kMillisecond;  // as the daemon does

// Where steering would put the frame: the shard its UDP destination port names.
std::size_t steered_core(const Bytes& frame, std::size_t cores) {
  if (frame.size() < kUdpOffset + 4) return 0;
  Be<std::uint16_t> port;
  std::memcpy(&port, frame.data() + kUdpOffset + 2, sizeof port);
  return static_cast<std::uint16_t>(port.host() - kBasePort) % cores;
}

}  // namespace

SwitchNode::SwitchNode(Schedule& schedule, std::uint64_t seed, SwitchOptions options, Send send, Alarm alarm)
    : schedule_(schedule),
      rng_(seed),
      options_(std::move(options)),
      send_(std::move(send)),
      alarm_(std::move(alarm)) {
  start_cores();
  start_control();
}

void SwitchNode::start_cores() {
  const auto tables = kernels::usable_kernels();
  cores_.clear();
  const jobs::SharedRegion shared =
      jobs::shared_region(options_.slot_lines, options_.shared_entries, options_.shared_elements);
  for (std::uint8_t i = 0; i < options_.cores; ++i) {
    Core core;
    core.memory = std::make_unique<SlotMemory>(options_.slot_lines);
    core.server_memory = std::make_unique<SlotMemory>(options_.server_lines);
    core.watch = SharedWatch(shared);
    const pipeline::PipelineOptions pipeline{
        .core = i, .box = options_.self, .shared = shared, .server = core.server_memory->region()};
    const kernels::Kernels& kernels = *tables[rng_.below(tables.size())];
    core.pipeline =
        options_.staged
            ? std::make_unique<AnyPipeline>(std::in_place_type<pipeline::Pipeline<pipeline::Staged>>,
                                            pipeline, core.memory->region(), kernels)
            : std::make_unique<AnyPipeline>(std::in_place_type<pipeline::Pipeline<pipeline::Fused>>, pipeline,
                                            core.memory->region(), kernels);
    cores_.push_back(std::move(core));
  }
}

void SwitchNode::start_control() {
  const members::MembershipOptions options{.box_mac = options_.self.mac,
                                           .shards = options_.cores,
                                           .slot_lines = options_.slot_lines,
                                           .shared_entries = options_.shared_entries,
                                           .shared_elements = options_.shared_elements,
                                           .plans = options_.plans,
                                           .calendar = kCalendar};
  auto words = [rng = std::make_shared<Rng>(rng_.next())] { return rng->next(); };
  membership_ = std::make_unique<members::MembershipEngine>(options, words);
  membership_->listen([this](JobId id, Rank rank) {
    TimeNs newest = 0;
    for (const Core& core : cores_)
      std::visit([&](const auto& p) { newest = std::max(newest, p.state(id).last_seen[raw(rank)].get()); },
                 *core.pipeline);
    return newest;
  });
  jobs_.clear();
  ever_.clear();
  denied_.clear();
  for (const auto& job : options_.jobs) make_known(job);
  if (options_.shared_entries != 0) rebalance_later();
  service();
}

void SwitchNode::make_known(const members::NativeConfig& job) {
  const auto id = membership_->declare(job);
  if (!id) return alarm_("membership refuses a job: " + id.error().text());
  jobs_.push_back(*id);
  ever_[*id] |= job.discipline == Discipline::kPool;
}

JobId SwitchNode::declare(const members::NativeConfig& job) {
  options_.jobs.push_back(job);
  make_known(job);
  service();
  return jobs_.back();
}

void SwitchNode::withdraw(std::string_view name) {
  const auto job = std::find_if(options_.jobs.begin(), options_.jobs.end(),
                                [&](const members::NativeConfig& config) { return config.name == name; });
  if (job == options_.jobs.end() || !membership_->withdraw(name)) return alarm_("no such job to withdraw");
  jobs_.erase(jobs_.begin() + (job - options_.jobs.begin()));
  options_.jobs.erase(job);
  service();
}

bool SwitchNode::resize(std::string_view name, std::uint32_t window) {
  const bool called_back = membership_->resize(name, window, schedule_.now()).has_value();
  service();
  return called_back;
}

void SwitchNode::replan(std::string_view name) {
  static_cast<void>(membership_->replan(name, schedule_.now()));
  service();
}

void SwitchNode::set_home(std::string_view name, const Ipv6& home) {
  if (auto done = membership_->set_home(name, home, schedule_.now()); !done) alarm_(done.error().text());
  service();
}

bool SwitchNode::is_elsewhere(std::string_view name) const {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (options_.jobs[i].name != name || !options_.jobs[i].boxes) continue;
    const auto status = membership_->status(jobs_[i], schedule_.now());
    return status && status->boxes && status->boxes->home != status->boxes->here;
  }
  return false;
}

void SwitchNode::end_life() {
  ++life_;
  stalled_until_ = 0;
  waiting_.clear();
}

void SwitchNode::restart_data_plane() {
  end_life();
  start_cores();
  membership_->restart_data_plane(schedule_.now());
  next_service_ = kNever;
  service();
}

void SwitchNode::restart() {
  end_life();
  start_cores();
  next_service_ = kNever;
  start_control();
}

void SwitchNode::stall(TimeNs until) {
  if (until <= stalled_until_) return;
  const TimeNs since = std::max(schedule_.now(), stalled_until_);
  stalled_until_ = until;
  schedule_.at(until, [this, since, until, life = life_] {
    if (life != life_) return;
    membership_->unheard(until - since, schedule_.now());
    if (schedule_.now() < stalled_until_) return;  // a longer one began meanwhile
    for (const Waiting& w : std::exchange(waiting_, {})) receive(w.frame, w.port, w.vouched);
    service();
  });
}

void SwitchNode::receive(const Bytes& frame, PortIndex port, bool vouched) {
  if (schedule_.now() < paused_until_) return;
  if (schedule_.now() < stalled_until_) {
    if (waiting_.size() < kQueue) waiting_.push_back({frame, port, vouched});
    return;
  }
  Bytes buffer = frame;
  buffer.resize(frame.size() + kTailRoom);
  // Now and then a frame arrives on the wrong core's queue.
  const std::size_t core = rng_.chance(0.05) ? rng_.below(cores_.size()) : steered_core(frame, cores_.size());
  run(core, buffer, static_cast<std::uint32_t>(frame.size()), port, vouched);
  service();
}

void SwitchNode::rebalance() {
  std::vector<members::SharedDemand> demand;
  for (const JobId id : jobs_) {
    members::SharedDemand wanted{.job = id};
    std::uint64_t denied = 0;
    for (const auto& core : cores_) {
      std::visit(
          [&](const auto& p) {
            wanted.entries = std::max(wanted.entries, p.state(id).occupancy.get());
            denied += p.state(id).slots.denied;
          },
          *core.pipeline);
    }
    wanted.denied = denied != std::exchange(denied_[id], denied);
    demand.push_back(wanted);
  }
  membership_->rebalance(demand);
}

void SwitchNode::rebalance_later() {
  schedule_.after(kRebalanceEvery, [this, life = life_] {
    if (life != life_) return;
    rebalance();
    service();
    rebalance_later();
  });
}

// Every core takes the table up at its own time; control hears of it when the last one has.
void SwitchNode::publish() {
  while (auto publication = membership_->publication()) {
    auto shared = std::make_shared<const jobs::Publication>(std::move(*publication));
    TimeNs last = 0;
    for (std::size_t core = 0; core < cores_.size(); ++core) {
      TimeNs& when = cores_[core].takes_up_at;  // in order, whatever the delays
      when = std::max(when, schedule_.now() + rng_.below(30 * kMicrosecond));
      last = std::max(last, when);
      schedule_.at(when, [this, core, shared, life = life_] {
        if (life == life_) take_up(core, *shared);
      });
    }
    schedule_.at(last + 1, [this, version = shared->version, life = life_] {
      if (life != life_) return;
      membership_->quiesced(version, schedule_.now());
      service();
    });
  }
}

void SwitchNode::service() {
  const TimeNs now = schedule_.now();
  if (now < stalled_until_) return;
  membership_->tick(now);
  publish();
  Bytes out(members::kMaxMembershipBytes);
  while (const auto outgoing = membership_->next(out)) post(*outgoing, std::span{out}.first(outgoing->bytes));
  const TimeNs deadline = membership_->deadline();
  if (deadline < next_service_) {
    next_service_ = deadline;
    schedule_.at(deadline, [this, life = life_] {
      if (life != life_) return;
      next_service_ = kNever;
      service();
    });
  }
}

void SwitchNode::post(const members::Outgoing& outgoing, std::span<const std::byte> datagram) {
  if (!outgoing.everywhere) return send_to(outgoing.to, datagram, kBasePort);
  jobs::Binding to = outgoing.to;
  to.mac = kBroadcastMac;
  for (const PortIndex port : options_.ports) {
    to.port = port;
    send_to(to, datagram, kBasePort);
  }
}

}  // namespace tally::sim

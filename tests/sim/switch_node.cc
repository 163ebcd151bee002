#include "switch_node.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels.h"
#include "reply.h"

namespace tally::sim {
namespace {

constexpr std::size_t kTailRoom = kHeaderBytes + 4 * kMaxElements;
constexpr std::size_t kUdpOffset = 34;  // Ethernet and IPv4 in front

constexpr TimeNs kSweepEvery = kMillisecond;           // while something may age
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
  const auto tables = usable_kernels();
  cores_.clear();
  const SharedRegion shared =
      shared_region(options_.slot_lines, options_.shared_entries, options_.shared_elements);
  for (std::uint8_t i = 0; i < options_.cores; ++i) {
    Core core;
    core.memory = std::make_unique<SlotMemory>(options_.slot_lines);
    core.server_memory = std::make_unique<SlotMemory>(options_.server_lines);
    core.watch = SharedWatch(shared);
    const PipelineOptions pipeline{
        .core = i, .box = test_box(), .shared = shared, .server = core.server_memory->region()};
    const Kernels& kernels = *tables[rng_.below(tables.size())];
    core.pipeline = options_.staged ? std::make_unique<AnyPipeline>(std::in_place_type<Pipeline<Staged>>,
                                                                    pipeline, core.memory->region(), kernels)
                                    : std::make_unique<AnyPipeline>(std::in_place_type<Pipeline<Fused>>,
                                                                    pipeline, core.memory->region(), kernels);
    cores_.push_back(std::move(core));
  }
}

void SwitchNode::start_control() {
  const MembershipOptions options{.box_mac = test_box().mac,
                                  .shards = options_.cores,
                                  .slot_lines = options_.slot_lines,
                                  .shared_entries = options_.shared_entries,
                                  .shared_elements = options_.shared_elements};
  auto words = [rng = std::make_shared<Rng>(rng_.next())] { return rng->next(); };
  membership_ = std::make_unique<MembershipEngine>(std::move(*MembershipEngine::create(options, words)));
  jobs_.clear();
  ever_.clear();
  denied_.clear();
  for (const auto& job : options_.jobs) make_known(job);
  if (options_.shared_entries != 0) rebalance_later();
  service();
}

void SwitchNode::make_known(const JobConfig& job) {
  const auto id = membership_->declare(job);
  if (!id) return alarm_("membership refuses a job: " + id.error().text());
  jobs_.push_back(*id);
  ever_[*id] |= job.discipline == Discipline::kPool;
}

JobId SwitchNode::declare(const JobConfig& job) {
  options_.jobs.push_back(job);
  make_known(job);
  service();
  return jobs_.back();
}

void SwitchNode::withdraw(std::string_view name) {
  const auto job = std::find_if(options_.jobs.begin(), options_.jobs.end(),
                                [&](const JobConfig& config) { return config.name == name; });
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

void SwitchNode::restart_data_plane() {
  ++life_;
  start_cores();
  membership_->restart_data_plane(schedule_.now());
  next_service_ = kNever;
  service();
}

void SwitchNode::restart() {
  ++life_;
  start_cores();
  next_service_ = kNever;
  start_control();
}

void SwitchNode::receive(const Bytes& frame, PortIndex port, bool vouched) {
  if (schedule_.now() < paused_until_) return;  // a stopped box loses what arrives
  Bytes buffer = frame;
  buffer.resize(frame.size() + kTailRoom);
  // Now and then a frame arrives on the wrong core's queue.
  const std::size_t core = rng_.chance(0.05) ? rng_.below(cores_.size()) : steered_core(frame, cores_.size());
  run(core, buffer, static_cast<std::uint32_t>(frame.size()), port, vouched);
  service();
}

std::uint64_t SwitchNode::packets_counted(std::size_t core) const {
  return std::visit(
      [&](const auto& p) {
        std::uint64_t n = p.counters(JobId{0}).packets();
        for (const auto& [job, pool] : ever_) n += p.counters(job).packets();
        return n;
      },
      *cores_[core].pipeline);
}

void SwitchNode::run(std::size_t core, Bytes& buffer, std::uint32_t length, PortIndex port, bool vouched) {
  const Frame frame{.data = buffer.data(),
                    .length = length,
                    .capacity = static_cast<std::uint32_t>(buffer.size()),
                    .port = port,
                    .checksum_good = vouched};
  const std::uint64_t before = packets_counted(core);
  std::optional<Arrival> arrival;
  const Outcome outcome = std::visit(
      [&](auto& p) {
        Parsed parsed;
        p.parse(frame, parsed);
        if (parsed.verdict == Verdict::kAbsorb && parsed.type == PacketType::kContribute)
          arrival = Arrival{parsed.job, parsed.contribution};
        return p.handle(parsed, frame, schedule_.now());
      },
      *cores_[core].pipeline);
  if (packets_counted(core) != before + 1) alarm_("invariant 5: a packet changed other than one counter");
  if (arrival) {
    arrival->dropped = outcome.verdict == Verdict::kDrop;
    arrival->drop = outcome.drop;
  }
  check_core(core, "a packet", arrival);
  drain_events(*cores_[core].pipeline);
  if (outcome.verdict == Verdict::kHandOver) return run(outcome.owner, buffer, length, port, vouched);
  reply(outcome, frame);
}

void SwitchNode::send_to(const Binding& to, std::span<const std::byte> datagram, std::uint16_t source_port) {
  const std::size_t head = encapsulation_bytes(to);
  Bytes frame(head + datagram.size());
  std::copy(datagram.begin(), datagram.end(), frame.begin() + static_cast<std::ptrdiff_t>(head));
  write_encapsulation(std::span{frame}.first(head), to, test_box(), source_port, datagram);
  send_(to, std::move(frame));
}

void SwitchNode::reply(const Outcome& out, const Frame& frame) {
  const std::span<const std::byte> datagram{out.payload, out.payload_bytes};
  if (out.verdict == Verdict::kPunt) {
    membership_->receive(datagram, open_frame(frame, test_box()).source, schedule_.now());
  }
  if (out.server != kNoServer) {
    const Binding& server = out.job->server_ranks.at(out.server).binding;
    const auto port =
        static_cast<std::uint16_t>(kBasePort + header_of(datagram).slot.host() % out.job->shards);
    return send_to(server, datagram, port);
  }
  if (out.verdict == Verdict::kRelay) send_to(out.job->ranks[raw(out.to)].binding, datagram, kBasePort);
  if (out.verdict == Verdict::kRepeat || out.verdict == Verdict::kComplete) {
    for (std::uint32_t r = 0; r < out.job->world; ++r) {
      if ((out.ranks & bit_of(Rank{static_cast<std::uint16_t>(r)})) != 0)
        send_to(out.job->ranks[r].binding, datagram, kBasePort);
    }
  }
  if (out.reject) {
    std::array<std::byte, kHeaderBytes> reject{};
    const Cookie cookie = out.reject_reason == RejectReason::kWaiting ? out.job->result_cookie : Cookie{0};
    write_reject(reject, header_of({out.payload, kHeaderBytes}), out.reject_reason, cookie,
                 out.reject_contributors, best_kernels());
    send_to(open_frame(frame, test_box()).source, reject, kBasePort);
  }
}

void SwitchNode::drain_events(AnyPipeline& pipeline) {
  std::visit(
      [&](auto& p) {
        while (const auto e = p.events().pop()) {
          events_.push_back(*e);
          if (e->kind != EventKind::kMismatch) continue;
          membership_->report_mismatch(e->job, e->epoch, e->rank, e->others, e->sent.elements,
                                       e->stored.elements, e->sent.total, e->stored.total, schedule_.now());
        }
      },
      pipeline);
}

// Invariant 4, after every event: occupancy = the job's filling entries, of its own and shared ones, also
// when the job is gone.
void SwitchNode::check_core(std::size_t core, const char* after, const std::optional<Arrival>& arrival) {
  Core& c = cores_[core];
  if (c.table == nullptr) return;
  const auto alarm = [&](const std::string& what) { alarm_(what + " after " + after); };
  c.watch.look(*c.pipeline, *c.table, arrival, alarm);
  std::visit(
      [&](auto& p) {
        for (const auto& [id, had_own_slots] : ever_) {
          std::uint32_t filling = c.watch.filling(id);
          const Job* const job = c.table->find(id);
          if (job == nullptr && had_own_slots) continue;  // while it forms anew, control holds its slots
          if (job != nullptr && job->discipline == Discipline::kPool) {
            for (std::uint32_t line = 0; line < job->slots.count; line += entry_lines(job->elements)) {
              const Head head = p.execution().head(job->slots.first + line);
              filling += head.tag != 0 && head.contributors != job->members ? 1 : 0;
            }
          }
          if (filling != p.state(id).occupancy) {
            alarm("invariant 4: job " + std::to_string(raw(id)) + " has " + std::to_string(filling) +
                  " filling entries and occupancy " + std::to_string(p.state(id).occupancy));
          }
        }
      },
      *c.pipeline);
  if (has_to_sweep(core)) sweep_later(core);
}

bool SwitchNode::has_to_sweep(std::size_t core) const {
  const bool states =
      std::visit([](const auto& p) { return p.server().incomplete != 0; }, *cores_[core].pipeline);
  return states || cores_[core].watch.filling() != 0 || late_entries(core) != 0;
}

std::uint32_t SwitchNode::late_entries(std::size_t core) const {
  if (cores_[core].table == nullptr) return 0;
  std::uint32_t entries = 0;
  std::visit(
      [&](const auto& p) {
        for (const auto& [id, pool] : ever_) {
          const Job* const job = cores_[core].table->find(id);
          const bool waits = job != nullptr && job->stragglers.timeout != 0 && p.state(id).occupancy != 0;
          if (waits) entries += job->slots.count / entry_lines(job->elements);
        }
      },
      *cores_[core].pipeline);
  return entries;
}

// A core sweeps whenever it has nothing else to do. Here it looks at its whole region, as it would by then.
void SwitchNode::sweep(std::size_t core) {
  if (schedule_.now() < paused_until_) return sweep_later(core);
  Bytes buffer(kMaxDatagramBytes);
  const std::uint32_t all = options_.shared_entries + late_entries(core);
  for (std::uint32_t looks = 0; looks <= all; ++looks) {
    const auto moved = std::visit(
        [&](auto& p) -> std::optional<Outcome> {
          if (!p.aged(schedule_.now())) return std::nullopt;
          return p.sweep(buffer, schedule_.now());
        },
        *cores_[core].pipeline);
    if (!moved) continue;
    check_core(core, "a sweep");
    reply(*moved, {});
  }
  if (has_to_sweep(core)) sweep_later(core);
}

void SwitchNode::sweep_later(std::size_t core) {
  if (cores_[core].sweeps) return;
  cores_[core].sweeps = true;
  const bool fills = cores_[core].watch.filling() != 0 || late_entries(core) != 0;
  const TimeNs pause = fills ? kSweepEvery : 100 * kSweepEvery;  // states age slowly
  schedule_.after(pause, [this, core, life = life_] {
    if (life != life_) return;
    cores_[core].sweeps = false;
    sweep(core);
  });
}

void SwitchNode::rebalance() {
  std::vector<SharedDemand> demand;
  for (const JobId id : jobs_) {
    SharedDemand wanted{.job = id};
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

void SwitchNode::take_up(std::size_t core, const Publication& publication) {
  Core& c = cores_[core];
  std::visit(
      [&](auto& p) {
        for (const auto& freed : publication.freed)
          p.release(freed.job, freed.lines, freed.elements, freed.members);
        p.adopt(publication.table.get());
      },
      *c.pipeline);
  c.table = publication.table;
  check_core(core, "a publication");
}

// Every core takes the table up at its own time; control hears of it when the last one has.
void SwitchNode::publish() {
  while (auto publication = membership_->publication()) {
    auto shared = std::make_shared<const Publication>(std::move(*publication));
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
  for (const auto& core : cores_) {
    if (core.table == nullptr) continue;
    std::visit(
        [&](const auto& p) {
          for (const JobId id : jobs_) {
            const Job* job = core.table->find(id);
            for (std::uint16_t r = 0; job != nullptr && r < job->world; ++r)
              membership_->seen(id, Rank{r}, p.state(id).last_seen[r]);
          }
        },
        *core.pipeline);
  }
  membership_->tick(now);
  publish();
  Bytes out(kMaxMembershipBytes);
  while (const auto outgoing = membership_->next(out))
    send_to(outgoing->to, std::span{out}.first(outgoing->bytes), kBasePort);
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

JobCounters SwitchNode::counters(JobId job) const {
  JobCounters sum;
  for (const auto& core : cores_) {
    std::visit(
        [&](const auto& p) {
          for (std::size_t i = 0; i < kVerdictCount; ++i) sum.verdicts[i] += p.counters(job).verdicts[i];
          for (std::size_t i = 0; i < kDropCount; ++i) sum.drops[i] += p.counters(job).drops[i];
        },
        *core.pipeline);
  }
  return sum;
}

std::uint32_t SwitchNode::occupancy(JobId job) const {
  std::uint32_t n = 0;
  for (const auto& core : cores_)
    n += std::visit([&](const auto& p) { return p.state(job).occupancy; }, *core.pipeline);
  return n;
}

SlotCounters SwitchNode::shared_counters(JobId job) const {
  SlotCounters sum;
  for (const auto& core : cores_) {
    sum +=
        std::visit([&](const auto& p) -> const SlotCounters& { return p.state(job).slots; }, *core.pipeline);
  }
  return sum;
}

std::uint64_t SwitchNode::incomplete(JobId job) const {
  std::uint64_t n = 0;
  for (const auto& core : cores_)
    n += std::visit([&](const auto& p) { return p.state(job).slots.incomplete.get(); }, *core.pipeline);
  return n;
}

MergeCounters SwitchNode::server() const {
  MergeCounters sum;
  for (const auto& core : cores_) {
    sum += std::visit([](const auto& p) -> const MergeCounters& { return p.server(); }, *core.pipeline);
  }
  return sum;
}

}  // namespace tally::sim

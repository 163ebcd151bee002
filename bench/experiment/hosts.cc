#include "hosts.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "job_plan.h"
#include "jobs.h"
#include "kernels/kernels.h"
#include "setting.h"

namespace tally::experiment {
namespace {

engine::EngineOptions engine_options(const TrainingWorker::Options& o) {
  engine::EngineOptions e;
  e.job = name_of(o.job);
  e.rank = o.rank;
  e.world = o.job.world;
  e.elements = kElements;
  e.instance = raw(o.rank) + 1U;
  e.seed = raw(o.job.id) * 64ULL + raw(o.rank);
  e.rto_floor = o.rto_floor;
  e.priority = o.job.max_priority;
  return e;
}

// What all ranks have in common, and what is the rank's own. All below 2^21, so that sums are exact.
std::uint32_t common(std::uint32_t i, std::uint32_t salt) noexcept { return (i * 2654435761U + salt) >> 12; }
constexpr std::uint32_t own(std::uint32_t i) noexcept { return i & 0x3FF; }
constexpr std::uint32_t salt_of(std::uint32_t iteration, std::uint32_t bucket) noexcept {
  return iteration * 0x9E3779B1U + bucket * 0x85EBCA77U;
}

}  // namespace

TrainingWorker::TrainingWorker(sim::Schedule& time, Packets& packets, const Chance& chance,
                               const Options& options)
    : time_(time),
      packets_(packets),
      chance_(chance),
      options_(options),
      headers_(options.job.ranks[raw(options.rank)].binding, test_box()),
      congestion_(options.job.window),
      values_(options.plan.buckets.size()),
      summed_at_(options.plan.buckets.size()) {
  auto engine = engine::WorkerEngine::create(engine_options(options), kernels::best_kernels());
  if (!engine) broken("the engine refuses its options: " + engine.error().text());
  engine_ = std::move(*engine);
  out_.resize(engine_->max_datagram_bytes());
  for (std::size_t i = 0; i < values_.size(); ++i)
    values_[i].resize(std::size_t{options.plan.buckets[i].chunks} * kElements);
}

TimeNs TrainingWorker::after(double u) const noexcept {
  return time_.now() + static_cast<TimeNs>(u * options_.u);
}

std::span<const std::byte> TrainingWorker::say_join() {
  std::uint16_t port = 0;
  return std::span{out_}.first(engine_->transmit(out_, time_.now(), port));
}

void TrainingWorker::hear(std::span<const std::byte> datagram) {
  engine_->receive(datagram, time_.now());
  if (engine_->state() != engine::EngineState::kRunning) broken("a worker does not take its JOINED");
}

void TrainingWorker::start(TimeNs at) { time_.at(at, *this, kIterate); }

void TrainingWorker::on_event(std::uint32_t what, std::uint32_t detail) {
  switch (what) {
    case kReceive:
      return receive(detail);
    case kIterate:
      return iterate();
    case kSubmit:
      submit();
      break;
    default:
      if (time_.now() != wake_) return;  // an earlier one came in between
      wake_ = kNever;
      break;
  }
  service();
}

void TrainingWorker::receive(PacketId id) {
  engine_->receive(packets_[id].view(), time_.now());
  if (const Header h = pipeline::header_at(packets_[id].datagram());
      options_.ecn && h.type == PacketType::kResult)
    congestion_.result(raw(h.chunk_id()), packets_[id].marked);
  packets_.release(id);
  service();
}

// All sums of the last iteration are here. A layer's forward step needs its sums and the step before; it may
// have been done before the last sum came.
void TrainingWorker::iterate() {
  const auto& buckets = options_.plan.buckets;
  const std::uint64_t self = raw(options_.job.id) * 64ULL + raw(options_.rank);
  pace_ = options_.u * (1 + options_.skew * chance_.exponential(Purpose::kCompute, self, iteration_));
  auto at = static_cast<double>(iteration_ == 0 ? time_.now() : 0);
  for (std::size_t i = buckets.size(); i-- > 0;) {
    if (iteration_ != 0) at = std::max(at, static_cast<double>(summed_at_[i]));
    at += buckets[i].forward * pace_;
  }
  at = std::max(at, static_cast<double>(time_.now()));
  submitted_ = summed_ = 0;
  time_.at(static_cast<TimeNs>(at + buckets[0].backward * pace_), *this, kSubmit);
}

void TrainingWorker::submit() {
  auto& values = values_[submitted_];
  fill(values);
  const auto id = engine_->allreduce(std::span{values}, time_.now());
  if (!id) broken("an operation is refused: " + id.error().text());
  if (++submitted_ == values_.size()) return;
  const double pause = options_.plan.buckets[submitted_].backward * pace_;
  time_.at(time_.now() + static_cast<TimeNs>(pause), *this, kSubmit);
}

void TrainingWorker::fill(std::vector<std::int32_t>& values) const {
  const std::uint32_t salt = salt_of(iteration_, submitted_);
  const std::uint32_t rank = raw(options_.rank);
  for (std::uint32_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int32_t>(common(i, salt) + rank * own(i));
}

void TrainingWorker::check(const std::vector<std::int32_t>& values, std::uint32_t bucket) {
  const std::uint32_t salt = salt_of(iteration_, bucket);
  const std::uint32_t n = options_.job.world;
  std::uint64_t wrong = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i)
    wrong += values[i] != static_cast<std::int32_t>(n * common(i, salt) + n * (n - 1) / 2 * own(i)) ? 1 : 0;
  wrong_ += wrong;
}

void TrainingWorker::take_completions() {
  while (const auto completion = engine_->next_completion()) {
    if (!completion->result) broken("an operation failed: " + completion->result.error().text());
    const auto bucket =
        static_cast<std::uint32_t>((static_cast<std::uint64_t>(completion->id) - 1) % values_.size());
    check(values_[bucket], bucket);
    summed_at_[bucket] = time_.now();
    if (++summed_ < values_.size()) continue;
    if (++iteration_ == options_.plan.iterations) {
      finished_at_ = time_.now();
    } else {
      iterate();
    }
  }
}

void TrainingWorker::service() {
  take_completions();
  std::uint16_t port = 0;
  while (const std::size_t bytes = engine_->transmit(out_, time_.now(), port)) {
    if (is_control(static_cast<PacketType>(out_[1]))) continue;  // a heartbeat: leases are longer than runs
    const PacketId id = packets_.take();
    Packet& packet = packets_[id];
    packet.datagram_bytes = static_cast<std::uint16_t>(bytes);
    std::memcpy(packet.datagram(), out_.data(), bytes);
    headers_.put(packet, port);
    send(id);
  }
  for (PacketId id = 0; congestion_.next(&id);) to_box_->send(id);
  if (const TimeNs deadline = engine_->deadline(); deadline < wake_) {
    wake_ = deadline;
    time_.at(deadline, *this, kWake);
  }
}

void TrainingWorker::send(PacketId id) {
  using Fate = CongestionWindow::Fate;
  const Header h = pipeline::header_at(packets_[id].datagram());
  const bool obeys = options_.ecn && h.type == PacketType::kContribute;
  const Fate fate = obeys ? congestion_.take(raw(h.chunk_id()), id) : Fate::kGo;
  if (fate == Fate::kGo) to_box_->send(id);
  if (fate == Fate::kWaitsAlready) packets_.release(id);
}

ServerHost::ServerHost(sim::Schedule& time, Packets& packets, const std::vector<const jobs::NativeJob*>& jobs,
                       GapRepair* gaps)
    : time_(time), packets_(packets), gaps_(gaps) {
  constexpr std::size_t kStates = 8'192;
  ps::PsOptions options;
  options.elements = kElements;
  options.instance = raw(jobs.front()->id);
  options.seed = raw(jobs.front()->generation);
  options.memory = kStates * jobs::entry_lines(kElements) * sizeof(jobs::Line);
  for (const jobs::NativeJob* job : jobs) {
    options.jobs.push_back({.job = name_of(*job)});
    headers_.resize(raw(job->id) + 1U, OuterHeaders(job->server_ranks[0].binding, test_box()));
    headers_.back() = OuterHeaders(job->server_ranks[0].binding, test_box());
  }
  auto engine = ps::PsEngine::create(options, kernels::best_kernels());
  if (!engine) broken("the server refuses its options: " + engine.error().text());
  engine_ = std::move(*engine);
  out_.resize(engine_->max_datagram_bytes());
}

std::span<const std::byte> ServerHost::say_join() {
  std::uint16_t port = 0;
  return std::span{out_}.first(engine_->transmit(out_, time_.now(), port));
}

void ServerHost::hear(std::span<const std::byte> datagram) { engine_->receive(datagram, time_.now()); }

bool ServerHost::running() const {
  for (std::size_t job = 0; job < engine_->jobs(); ++job)
    if (!engine_->member(job).membership()) return false;
  return true;
}

void ServerHost::on_event(std::uint32_t what, std::uint32_t detail) {
  if (what == kReceive) {
    const Header h = pipeline::header_at(packets_[detail].datagram());
    if (gaps_ != nullptr) gaps_->at_server(h.job_id(), h.chunk_id());
    engine_->receive(packets_[detail].view(), time_.now());
    packets_.release(detail);
  } else {
    if (time_.now() != wake_) return;  // an earlier one came in between
    wake_ = kNever;
  }
  service();
}

void ServerHost::service() {
  std::uint16_t port = 0;
  while (const std::size_t bytes = engine_->transmit(out_, time_.now(), port)) {
    const Header h = pipeline::header_at(out_.data());
    if (is_control(h.type)) continue;  // a heartbeat: leases are longer than runs
    const PacketId id = packets_.take();
    Packet& packet = packets_[id];
    packet.datagram_bytes = static_cast<std::uint16_t>(bytes);
    std::memcpy(packet.datagram(), out_.data(), bytes);
    headers_[h.job.host()].put(packet, port);
    to_box_->send(id);
  }
  if (const TimeNs deadline = engine_->deadline(); deadline < wake_) {
    wake_ = deadline;
    time_.at(deadline, *this, kWake);
  }
}

}  // namespace tally::experiment

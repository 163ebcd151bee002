#include "loop_worker.h"

#include <utility>

#include "kernels/kernels.h"
#include "loop_packets.h"
#include "spans.h"
#include "tally/mix64.h"

namespace tally::e2e {
namespace {

constexpr std::uint32_t kInFlight = 2;  // operations submitted at once

template <class T>
std::uint32_t crc_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span{values});
  return kernels::best_kernels().crc32c(bytes.data(), bytes.size());
}

}  // namespace

LoopWorker::LoopWorker(const engine::EngineOptions& options, const jobs::Binding& self,
                       const sim::Workload& workload)
    : options_(options),
      self_(self),
      workload_(workload),
      engine_(std::move(*engine::WorkerEngine::create(options, kernels::best_kernels()))) {}

bool LoopWorker::done() const noexcept {
  return completed_ == workload_.operations() && engine_->state() == engine::EngineState::kClosed;
}

void LoopWorker::start_over(TimeNs now) {
  if (const auto joining = engine_->rejoin(now); !joining) wrong_.push_back(joining.error().text());
  running_.clear();
  submitted_ = completed_ = 0;
  leaving_ = false;
  digest_ = 0;
}

bool LoopWorker::take(std::span<const std::byte> frame, TimeNs now) {
  const auto& membership = engine_->membership();
  const auto datagram = unwrap(frame, self_, membership ? &*membership : nullptr, wrong_);
  if (datagram.data() == nullptr) return false;
  engine_->receive(datagram, now);
  return true;
}

void LoopWorker::work(TimeNs now) {
  while (const auto completion = engine_->next_completion()) finish(*completion);
  if (persistent_ && engine_->state() == engine::EngineState::kClosed && !done()) start_over(now);
  submit(now);
}

// Sums replace the values in place.
void LoopWorker::submit(TimeNs now) {
  if (held_ || leaving_ || engine_->state() != engine::EngineState::kRunning) return;
  const Generation generation = engine_->membership()->generation;
  while (submitted_ < workload_.operations() && running_.size() < kInFlight) {
    auto op = std::make_unique<Running>();
    op->k = submitted_++;
    op->plan = workload_.operation(generation, op->k);
    if (op->k == differs_at_) op->plan = {.kind = sim::OperationKind::kBarrier, .spans = {}};
    Result<engine::OperationId> id;
    if (op->plan.kind == sim::OperationKind::kInt32) {
      op->ints = workload_.ints(generation, op->k, options_.rank);
      id = engine_->allreduce(cut<std::int32_t>(op->ints, op->plan.spans), now, op->plan.options());
    } else if (op->plan.kind == sim::OperationKind::kFloat32) {
      op->floats = workload_.floats(generation, op->k, options_.rank);
      id = engine_->allreduce(cut<float>(op->floats, op->plan.spans), now, op->plan.options());
    } else {
      id = engine_->barrier(now);
    }
    if (!id) return wrong_.push_back("an operation was refused: " + id.error().text());
    running_.emplace(*id, std::move(op));
  }
  if (completed_ == workload_.operations()) {
    leaving_ = true;
    engine_->leave(now);
  }
}

void LoopWorker::finish(const engine::Completion& completion) {
  const auto it = running_.find(completion.id);
  if (it == running_.end()) return;
  const auto op = std::move(it->second);
  running_.erase(it);
  if (!completion.result && persistent_) return;  // start_over() follows
  ++completed_;
  check(*op, completion);
}

void LoopWorker::check(const Running& op, const engine::Completion& completion) {
  const std::string where =
      "operation " + std::to_string(op.k) + " at rank " + std::to_string(raw(options_.rank)) + ": ";
  if (!completion.result) return wrong_.push_back(where + completion.result.error().text());
  const engine::Membership& m = *engine_->membership();
  if (m.stragglers) return check_named(op, *completion.result);
  const bool right = op.plan.kind == sim::OperationKind::kInt32
                         ? same_bits(op.ints, workload_.int_sum(m.generation, op.k, m.world))
                     : op.plan.kind == sim::OperationKind::kFloat32
                         ? same_bits(op.floats, workload_.float_sum(m.generation, op.k, m.world, m.elements))
                         : true;
  if (!right) wrong_.push_back(where + "wrong sum");
  if (completion.result->overflow != workload_.overflow(m.generation, op.k, m.world))
    wrong_.push_back(where + "wrong OVERFLOW flag");
  note(op);
}

// Integers are the sums of the ranks that are named; of floats the digest says that all ranks have the same.
void LoopWorker::check_named(const Running& op, const OperationStats& stats) {
  const engine::Membership& m = *engine_->membership();
  if (op.plan.kind == sim::OperationKind::kInt32 &&
      !same_bits(op.ints, workload_.named_sum(m.generation, op.k, m.world, stats.partial)))
    wrong_.push_back("operation " + std::to_string(op.k) + " at rank " + std::to_string(raw(options_.rank)) +
                     ": not the sum of the ranks that are named");
  note(op);
}

// Operations may finish out of order, so the order must not count.
void LoopWorker::note(const Running& op) {
  const std::uint64_t bits =
      (std::uint64_t{crc_of(op.ints)} << 32 | crc_of(op.floats)) ^ (std::uint64_t{op.k} << 16);
  digest_ += mix64(bits);
}

}  // namespace tally::e2e

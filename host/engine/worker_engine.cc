#include "worker_engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "packet_priority.h"
#include "worker_join.h"

namespace tally {
namespace {

constexpr TimeNs kLeastRtoFloor = kMicrosecond;
constexpr TimeNs kGreatestSilence = 3'600 * kSecond;  // the longest lease

// Types of a span list: float or int32, input const or not.
template <class In, class Out>
Result<std::vector<Segment>> segments_of(std::span<const std::span<In>> in,
                                         std::span<const std::span<Out>> out) {
  if (in.size() != out.size())
    return fail(ErrorCode::kInvalidArgument, "allreduce: " + std::to_string(in.size()) + " input spans but " +
                                                 std::to_string(out.size()) + " output spans");
  std::vector<Segment> segments;
  segments.reserve(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].size() != out[i].size())
      return fail(ErrorCode::kInvalidArgument, "allreduce: span " + std::to_string(i) + " has " +
                                                   std::to_string(in[i].size()) + " elements in but " +
                                                   std::to_string(out[i].size()) + " out");
    segments.push_back({in[i].data(), out[i].data(), in[i].size()});
  }
  return segments;
}

Result<void> validate(const EngineOptions& o) {
  const auto refuse = [](std::string what) { return fail(ErrorCode::kInvalidArgument, std::move(what)); };
  if (o.job.empty() || o.job.size() > kMaxNameBytes)
    return refuse("job: a name of 1.." + std::to_string(kMaxNameBytes) + " bytes is needed, this one has " +
                  std::to_string(o.job.size()));
  if (o.token.size() > kMaxTokenBytes)
    return refuse("token: at most " + std::to_string(kMaxTokenBytes) + " bytes, this one has " +
                  std::to_string(o.token.size()));
  if (o.world < 1 || o.world > kMaxRanks)
    return refuse("world: " + std::to_string(o.world) + " is not in 1..64");
  if (raw(o.rank) >= o.world)
    return refuse("rank: " + std::to_string(raw(o.rank)) + " is not below world " + std::to_string(o.world));
  if (o.elements == 0 || !valid_elements(o.elements))
    return refuse("elements: " + std::to_string(o.elements) + " is not a multiple of 16 in 16..2224");
  if (o.rto_floor < kLeastRtoFloor || o.rto_floor > kRtoCeiling)
    return refuse("rto_floor: " + std::to_string(o.rto_floor) + " ns is not in 1 us..1 s");
  if (o.unreachable_after == 0 || o.unreachable_after > kGreatestSilence)
    return refuse("unreachable_after: " + std::to_string(o.unreachable_after) + " ns is not in 1 ns..1 h");
  if (o.priority > kGreatestPriority)
    return refuse("priority: " + std::to_string(o.priority) + " is not in 0..254");
  return {};
}

}  // namespace

Result<std::unique_ptr<WorkerEngine>> WorkerEngine::create(EngineOptions options, const Kernels& kernels) {
  if (auto valid = validate(options); !valid) return tl::unexpected<Error>(std::move(valid.error()));
  return std::unique_ptr<WorkerEngine>(new WorkerEngine(std::move(options), kernels));
}

WorkerEngine::WorkerEngine(EngineOptions options, const Kernels& kernels)
    : options_(std::move(options)),
      kernels_(kernels),
      stream_(options_.rank, options_.priority, options_.rto_floor, kernels, statistics_),
      random_(options_.seed) {
  join_.start(0);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<const float>> in,
                                            std::span<const std::span<float>> out, TimeNs now,
                                            const OperationOptions& options) {
  auto segments = segments_of(in, out);
  if (!segments) return tl::unexpected<Error>(std::move(segments.error()));
  return submit(Dtype::kFloat32, std::move(*segments), now, options, true);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<const std::int32_t>> in,
                                            std::span<const std::span<std::int32_t>> out, TimeNs now,
                                            const OperationOptions& options) {
  auto segments = segments_of(in, out);
  if (!segments) return tl::unexpected<Error>(std::move(segments.error()));
  return submit(Dtype::kInt32, std::move(*segments), now, options, true);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<float>> spans, TimeNs now,
                                            const OperationOptions& options) {
  return submit(Dtype::kFloat32, *segments_of(spans, spans), now, options, true);
}

Result<OperationId> WorkerEngine::allreduce(std::span<const std::span<std::int32_t>> spans, TimeNs now,
                                            const OperationOptions& options) {
  return submit(Dtype::kInt32, *segments_of(spans, spans), now, options, true);
}

Result<OperationId> WorkerEngine::allreduce(std::span<float> values, TimeNs now,
                                            const OperationOptions& options) {
  return submit(Dtype::kFloat32, {{values.data(), values.data(), values.size()}}, now, options, true);
}

Result<OperationId> WorkerEngine::allreduce(std::span<std::int32_t> values, TimeNs now,
                                            const OperationOptions& options) {
  return submit(Dtype::kInt32, {{values.data(), values.data(), values.size()}}, now, options, true);
}

Result<OperationId> WorkerEngine::barrier(TimeNs now, const OperationOptions& options) {
  return submit(Dtype::kInt32, {}, now, options, true);
}

Result<OperationId> WorkerEngine::submit(Dtype dtype, std::vector<Segment> segments, TimeNs now,
                                         const OperationOptions& options, bool reported) {
  if (state_ == EngineState::kClosed)
    return fail(ErrorCode::kClosed, "the worker is closed: " + why_closed_.what);
  if (reported && leaving_ != Leaving::kNo) return fail(ErrorCode::kClosed, "the worker is leaving");
  if (auto why = objection_to(options.priority); !why.empty())
    return fail(ErrorCode::kInvalidArgument, std::move(why));
  if (options.mean && dtype != Dtype::kFloat32)
    return fail(ErrorCode::kInvalidArgument, "mean: only sums of float have one");
  const OperationId id{++last_operation_};
  auto operation = std::make_unique<EngineOperation>(id, dtype, std::move(segments), options, now);
  operation->reported = reported;
  stream_.submit(std::move(operation));
  return id;
}

std::optional<Completion> WorkerEngine::next_completion() { return stream_.next_completion(); }

std::size_t WorkerEngine::pending_operations() const noexcept {
  return stream_.pending() - (leaving_ >= Leaving::kBarrier && stream_.pending() != 0 ? 1 : 0);
}

void WorkerEngine::abort(std::string_view reason, TimeNs now) {
  if (state_ == EngineState::kClosed) return;
  fail_job({ErrorCode::kAborted, "aborted here: " + std::string(reason)}, nullptr, now);
}

void WorkerEngine::leave(TimeNs now) {
  if (state_ == EngineState::kClosed || leaving_ != Leaving::kNo) return;
  if (!membership_ && stream_.pending() == 0)
    return close({ErrorCode::kClosed, "left before the job was formed"});
  leaving_ = Leaving::kDraining;
  settle(now);
}

Result<void> WorkerEngine::rejoin(TimeNs now) {
  if (state_ != EngineState::kClosed)
    return fail(ErrorCode::kInvalidArgument, "rejoin: the worker is not closed");
  why_closed_ = {};
  if (membership_) forsaken_ = membership_->generation;
  unended_.reset();
  membership_.reset();
  record_ = {};
  live_ = 0;
  leaving_ = Leaving::kNo;
  abort_.stop();
  heard_ = now;
  start_joining(now);
  return {};
}

void WorkerEngine::start_joining(TimeNs now) {
  state_ = EngineState::kJoining;
  joining_since_ = now;
  unjoined_ = 0;
  nonce_ = 0;
  join_.start(now);
}

// The barrier is sent only when every other result is held: then losing its own result costs nobody anything.
void WorkerEngine::settle(TimeNs now) {
  if (stream_.failure()) {
    const StreamFailure failure = *stream_.failure();  // fail_job clears it
    const Error others{ErrorCode::kAborted, "another operation of this worker failed: " + failure.error.what};
    return fail_job(others, &failure, now);
  }
  if (leaving_ == Leaving::kDraining && stream_.pending() == 0) {
    leaving_ = Leaving::kBarrier;
    (void)submit(Dtype::kInt32, {}, now, {}, false);
  } else if (leaving_ == Leaving::kBarrier && (stream_.pending() == 0 || somebody_left())) {
    leaving_ = Leaving::kSaying;
    leave_.start(now);
  }
}

// Who left had the barrier's result, so every rank had all of its own. The box may have forgotten that
// result, its slot being somebody else's by now, and there may be no rank any more to ask for it.
bool WorkerEngine::somebody_left() const noexcept {
  return live_ != 0 && (membership_->members() & ~live_) != 0;
}

void WorkerEngine::close(Error error) {
  stream_.fail_all(error);
  state_ = EngineState::kClosed;
  why_closed_ = std::move(error);
}

void WorkerEngine::fail_job(const Error& error, const StreamFailure* culprit, TimeNs now) {
  const Error reason = culprit == nullptr ? error : culprit->error;
  stream_.fail_all(error, culprit);
  state_ = EngineState::kClosed;
  why_closed_ = reason;
  if (membership_) abort_.start(now);
}

TimeNs WorkerEngine::silence_limit() const noexcept {
  const TimeNs limit = membership_ ? membership_->lease : options_.unreachable_after;
  // JOINs come up to a second apart: a shorter lease must not be lost to one of them.
  return state_ == EngineState::kJoining ? std::max(limit, 3 * kLastRepeat) : limit;
}

EngineState WorkerEngine::state() const noexcept { return state_; }
const Error& WorkerEngine::why_closed() const noexcept { return why_closed_; }
const std::optional<Membership>& WorkerEngine::membership() const noexcept { return membership_; }
std::uint64_t WorkerEngine::live() const noexcept { return live_; }
const EngineStatistics& WorkerEngine::statistics() const noexcept { return statistics_; }

std::uint64_t WorkerEngine::missing() const noexcept {
  return state_ == EngineState::kJoining ? unjoined_ : stream_.missing();
}

}  // namespace tally

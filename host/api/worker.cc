#include "tally/worker.h"

#include "worker_impl.h"

namespace tally {

Result<Worker> Worker::join(const WorkerOptions& options) {
  auto impl = WorkerImpl::start(options);
  if (!impl) return tl::unexpected(std::move(impl.error()));
  if (auto joined = (*impl)->wait_joined(options); !joined) return tl::unexpected(std::move(joined.error()));
  return Worker(std::move(*impl));
}

Worker::Worker(std::unique_ptr<WorkerImpl> impl) noexcept : impl_(std::move(impl)) {}
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;
Worker::~Worker() = default;

Operation Worker::allreduce_async(std::span<float> values, const ReduceOptions& options) {
  return impl_->reduce(FloatSpans{values}, options);
}

Operation Worker::allreduce_async(std::span<std::int32_t> values, const ReduceOptions& options) {
  return impl_->reduce(Int32Spans{values}, options);
}

Operation Worker::allreduce_async(std::span<const std::span<float>> spans, const ReduceOptions& options) {
  return impl_->reduce(FloatSpans(spans.begin(), spans.end()), options);
}

Operation Worker::allreduce_async(std::span<const std::span<std::int32_t>> spans,
                                  const ReduceOptions& options) {
  return impl_->reduce(Int32Spans(spans.begin(), spans.end()), options);
}

Operation Worker::barrier_async(const ReduceOptions& options) { return impl_->reduce(Int32Spans{}, options); }

Result<OperationStats> Worker::barrier() {
  if (!impl_->view().foreign() && impl_->view().on_progress_thread())
    return fail(ErrorCode::kInvalidArgument, "barrier: called in a callback; use barrier_async");
  return barrier_async().wait();
}

void Worker::abort(std::string_view reason) { impl_->abort(reason); }
Result<void> Worker::leave(std::chrono::milliseconds timeout) { return impl_->leave(timeout); }

EngineStatistics Worker::statistics() const {
  return impl_->view().foreign() ? EngineStatistics{} : impl_->view().content().statistics;
}

std::optional<WorkerMembership> Worker::membership() const {
  return impl_->view().foreign() ? std::nullopt : impl_->view().content().membership;
}

std::optional<Error> Worker::why_closed() const {
  return impl_->view().foreign() ? impl_->view().foreign_error() : impl_->view().closed();
}

}  // namespace tally

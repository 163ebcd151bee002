#include <pthread.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>

#include "api/operation.h"
#include "api/progress.h"
#include "api/worker_options.h"
#include "engine/engine_operation.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "random/random.h"

namespace tally {

// What stands behind a Worker: its progress thread and what that publishes.
class WorkerImpl {
 public:
  // The thread runs, the engine joins.
  [[nodiscard]] static Result<std::unique_ptr<WorkerImpl>> start(const WorkerOptions& options);
  WorkerImpl(const WorkerImpl&) = delete;
  WorkerImpl& operator=(const WorkerImpl&) = delete;
  // As ~Worker says, also on the progress thread and in the child of a fork.
  ~WorkerImpl();

  // Until the job runs, the worker is closed, or `options.join_timeout`.
  [[nodiscard]] Result<void> wait_joined(const WorkerOptions& options);

  template <class Spans>
  [[nodiscard]] Operation reduce(Spans spans, const ReduceOptions& options);
  void abort(std::string_view reason);
  [[nodiscard]] Result<void> leave(std::chrono::milliseconds timeout);

  [[nodiscard]] const WorkerView& view() const noexcept { return *view_; }

 private:
  WorkerImpl(std::shared_ptr<WorkerView> view, std::shared_ptr<Progress> progress) noexcept;
  [[nodiscard]] std::optional<Error> objection(const ReduceOptions& options) const;
  void leave_behind();

  std::shared_ptr<WorkerView> view_;
  std::shared_ptr<Progress> progress_;  // the thread's too: it may outlive this
  std::thread thread_;
};

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

namespace {

Result<std::unique_ptr<engine::WorkerEngine>> make_engine(const WorkerOptions& options,
                                                          std::uint16_t elements) {
  engine::EngineOptions engine;
  engine.job = options.job;
  engine.token = options.token;
  engine.rank = Rank{options.rank};
  engine.world = options.world;
  engine.elements = elements;
  engine.instance = random::word();
  engine.seed = random::word();
  engine.priority = static_cast<std::uint8_t>(options.priority);
  engine.rto_floor = options.poll ? engine::kPollRtoFloor : engine::kAdaptiveRtoFloor;
  return engine::WorkerEngine::create(std::move(engine), kernels::best_kernels());
}

// Signals are the program's business: none is handled on this thread.
Result<std::thread> start_thread(const std::shared_ptr<Progress>& progress, const std::string& name) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> started = fail(ErrorCode::kSystem, "");
  try {
    started = std::thread([progress, name] {
      pthread_setname_np(pthread_self(), name.c_str());
      progress->run();
    });
  } catch (const std::system_error& error) {
    started = system_failure("cannot start the progress thread", error.code().value());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

std::string hint(const WorkerOptions& options, const WorkerView::Content& content) {
  return "is tallyd running there, and are TALLY_SWITCH (" + options.box + ") and TALLY_TRANSPORT (" +
         options.transport + ") right?" +
         (content.trouble.empty() ? "" : " The transport says: " + content.trouble);
}

Error late(const WorkerOptions& options, const WorkerView::Content& content) {
  const std::string after = " within " + std::to_string(options.join_timeout.count()) + " ms";
  const std::uint64_t refused = content.statistics.refused_total();
  if (content.datagrams == 0)
    return {ErrorCode::kUnreachable, "the box did not answer" + after + ": " + hint(options, content),
            options.job};
  if (content.datagrams <= refused)
    return {ErrorCode::kUnreachable,
            "nothing that arrived" + after + " answers this worker (" + std::to_string(refused) +
                " datagrams refused): " + hint(options, content),
            options.job};
  const std::string ranks = engine::name_ranks(content.missing);
  if (ranks.empty())
    return {ErrorCode::kTimeout, "the box answered, but the job did not start" + after, options.job};
  return {ErrorCode::kTimeout,
          ranks + " did not join" + after + "; the box waits for all " + std::to_string(options.world) +
              " workers of the job",
          options.job};
}

// Kept for ever, but findable, so that leak checkers stay quiet.
struct LeftBehind {
  std::shared_ptr<Progress> progress;
  std::thread thread;
  LeftBehind* next = nullptr;
};
std::atomic<LeftBehind*> left_behind = nullptr;

}  // namespace

WorkerImpl::WorkerImpl(std::shared_ptr<WorkerView> view, std::shared_ptr<Progress> progress) noexcept
    : view_(std::move(view)), progress_(std::move(progress)) {}

Result<std::unique_ptr<WorkerImpl>> WorkerImpl::start(const WorkerOptions& options) {
  if (auto sound = check_options(options); !sound) return tl::unexpected(std::move(sound.error()));
  auto transport = make_transport(
      options.transport.empty() ? kDefaultTransport : options.transport,
      {.box = options.box, .address = options.address, .mtu = options.mtu, .poll = options.poll});
  if (!transport) return tl::unexpected(std::move(transport.error()));
  const std::uint16_t most = (*transport)->most_elements();
  const std::uint16_t elements = options.elements == 0 ? most : std::min(options.elements, most);
  if (elements < options.elements) DebugLog(options).lowered(options.elements, elements);
  auto engine = make_engine(options, elements);
  if (!engine) return tl::unexpected(std::move(engine.error()));

  auto view = std::make_shared<WorkerView>();
  auto progress = std::make_shared<Progress>(std::move(*transport), std::move(*engine), view, options);
  std::unique_ptr<WorkerImpl> impl(new WorkerImpl(std::move(view), std::move(progress)));
  auto thread = start_thread(impl->progress_, "tally-" + std::to_string(options.rank));
  if (!thread) return tl::unexpected(std::move(thread.error()));
  impl->thread_ = std::move(*thread);
  return impl;
}

WorkerImpl::~WorkerImpl() {
  if (view_->foreign()) {
    leave_behind();
  } else if (thread_.joinable()) {
    progress_->post(StopRequest{});
    // In a callback the thread cannot wait for itself: it ends, and destroys what it owns, on its own.
    view_->on_progress_thread() ? thread_.detach() : thread_.join();
  }
}

void WorkerImpl::leave_behind() {
  auto* const kept = new LeftBehind{std::move(progress_), std::move(thread_), nullptr};
  kept->next = left_behind.exchange(kept);
}

Result<void> WorkerImpl::wait_joined(const WorkerOptions& options) {
  const bool settled =
      view_->wait_until(moment_after(options.join_timeout), [](const WorkerView::Content& content) {
        return content.membership.has_value() || content.closed.has_value();
      });
  const WorkerView::Content content = view_->content();
  if (!settled) {
    const Error error = late(options, content);
    abort(error.what);  // should the job start this very moment, the others hear why it ends
    return tl::unexpected(error);
  }
  if (!content.closed) return {};
  Error error = *content.closed;
  if (error.code == ErrorCode::kUnreachable) error.what += ": " + hint(options, content);
  return tl::unexpected(std::move(error));
}

template <class Spans>
Operation WorkerImpl::reduce(Spans spans, const ReduceOptions& options) {
  auto state = std::make_shared<OperationState>(view_, options.done);
  Operation operation(state);
  if (view_->foreign()) {  // there is no other thread to call the callback
    state->finish(tl::unexpected(view_->foreign_error()));
    return operation;
  }
  ReduceRequest request{std::move(spans), {}, state, objection(options)};
  if (request.refused && !options.done) {
    state->finish(tl::unexpected(std::move(*request.refused)));
    return operation;
  }
  request.options.priority = options.priority;
  request.options.mean = options.mean;
  request.options.wire = options.wire;
  request.options.non_finite = options.non_finite;
  if (options.timeout.count() > 0) {
    const auto due = moment_after(options.timeout).time_since_epoch();
    request.options.deadline = static_cast<TimeNs>(std::chrono::nanoseconds(due).count());
  }
  progress_->post(std::move(request));
  return operation;
}
template Operation WorkerImpl::reduce(FloatSpans spans, const ReduceOptions& options);
template Operation WorkerImpl::reduce(Int32Spans spans, const ReduceOptions& options);

// Why an operation cannot be issued.
std::optional<Error> WorkerImpl::objection(const ReduceOptions& options) const {
  if (options.timeout.count() < 0)
    return Error{ErrorCode::kInvalidArgument,
                 "timeout: " + std::to_string(options.timeout.count()) + " ms is negative; 0 means never"};
  if (auto why = engine::objection_to(options.priority); !why.empty())
    return Error{ErrorCode::kInvalidArgument, std::move(why)};
  const auto closed = view_->closed();
  if (!closed) return std::nullopt;
  return Error{ErrorCode::kClosed, "the worker is closed: " + closed->what, closed->where};
}

void WorkerImpl::abort(std::string_view reason) {
  if (view_->foreign()) return;
  progress_->post(AbortRequest{std::string(reason)});
  if (view_->on_progress_thread()) return;
  (void)view_->wait_until(moment_after(std::chrono::milliseconds(Progress::kFarewell / kMillisecond)),
                          [](const WorkerView::Content& content) { return content.told; });
}

Result<void> WorkerImpl::leave(std::chrono::milliseconds timeout) {
  if (view_->foreign()) return tl::unexpected(view_->foreign_error());
  if (view_->on_progress_thread())
    return fail(ErrorCode::kInvalidArgument,
                "leave: called in a callback; the progress thread cannot wait for itself");
  progress_->post(LeaveRequest{});
  const bool closed = view_->wait_until(
      moment_after(timeout), [](const WorkerView::Content& content) { return content.closed.has_value(); });
  const WorkerView::Content content = view_->content();
  if (!closed) {
    const std::string ranks = engine::name_ranks(content.missing);
    return fail(ErrorCode::kTimeout,
                "leave: not done after " + std::to_string(timeout.count()) + " ms, " +
                    (ranks.empty() ? "the box has not said who is missing" : "waiting for " + ranks) +
                    "; call it again, or destroy the Worker, which aborts the job");
  }
  if (content.closed->code == ErrorCode::kClosed) return {};
  return tl::unexpected(*content.closed);
}

}  // namespace tally

#include <pthread.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "api/operation.h"
#include "api/progress.h"
#include "api/worker_options.h"
#include "engine/engine_operation.h"
#include "engine/sparse_rows.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "random/random.h"
#include "text/text.h"

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

  // rows: as OperationOptions has it.
  [[nodiscard]] Operation reduce(ElementType type, std::vector<engine::Segment> segments,
                                 const ReduceOptions& options, engine::RowCollector* rows = nullptr,
                                 std::optional<Error> refused = {});
  // One that cannot be issued.
  [[nodiscard]] Operation refuse(std::string what, const ReduceOptions& options) {
    return reduce({}, {}, options, nullptr, Error{ErrorCode::kInvalidArgument, std::move(what)});
  }
  void abort(std::string_view reason);
  [[nodiscard]] Result<void> leave(std::chrono::milliseconds timeout);

  [[nodiscard]] const WorkerView& view() const noexcept { return *view_; }
  [[nodiscard]] std::uint16_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint16_t world() const noexcept { return world_; }

 private:
  WorkerImpl(std::shared_ptr<WorkerView> view, std::shared_ptr<Progress> progress,
             const WorkerOptions& options) noexcept;
  [[nodiscard]] std::optional<Error> objection(const ReduceOptions& options) const;
  void leave_behind();

  const std::uint16_t rank_;
  const std::uint16_t world_;
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

namespace {

using Segments = std::vector<engine::Segment>;

template <class T>
Segments in_place(std::span<const std::span<T>> spans) {
  Segments segments;
  segments.reserve(spans.size());
  for (const auto& span : spans) segments.push_back({span.data(), span.data(), span.size()});
  return segments;
}

template <class T>
Operation out_of_place(WorkerImpl& worker, ElementType type, std::span<const T> in, std::span<T> out,
                       const ReduceOptions& options) {
  if (in.size() != out.size())
    return worker.refuse(
        "allreduce: " + std::to_string(in.size()) + " elements in but " + std::to_string(out.size()) + " out",
        options);
  return worker.reduce(type, {{in.data(), out.data(), in.size()}}, options);
}

bool is_aligned(const void* at, std::size_t to) noexcept {
  return reinterpret_cast<std::uintptr_t>(at) % to == 0;
}

// Calls `first` before what the program wants to be called, on success.
template <class First>
ReduceOptions with_done(ReduceOptions options, First first) {
  options.done = [first = std::move(first),
                  then = std::move(options.done)](const Result<OperationStats>& result) {
    if (result) first();
    if (then) then(result);
  };
  return options;
}

void copy_bytes(void* to, const void* from, std::size_t n) noexcept {
  if (n != 0) std::memcpy(to, from, n);  // which takes no null, not even of nothing
}

template <class T>
constexpr ElementType kTypeOf = std::is_same_v<T, float> ? ElementType::kFloat32 : ElementType::kInt32;

template <class T>
Operation sum_table(WorkerImpl& worker, const TableShape& table, const SparseRows<T>& rows, std::span<T> sums,
                    const ReduceOptions& options) {
  std::string why = engine::objection_to(table, rows.ids, rows.values.size());
  const std::uint64_t whole = std::uint64_t{table.rows} * table.width;
  if (why.empty() && sums.size() != whole)
    why = "the table has " + std::to_string(table.rows) + " x " + std::to_string(table.width) +
          " values, and there is room for " + std::to_string(sums.size()) + " sums";
  if (!why.empty()) return worker.refuse("allreduce_sparse: " + why, options);
  return worker.reduce(kTypeOf<T>, engine::segments_of(table, rows.ids, rows.values.data(), sums.data()),
                       options);
}

template <class T>
Operation sum_rows(WorkerImpl& worker, const TableShape& table, const SparseRows<T>& rows,
                   SparseSums<T>& sums, const ReduceOptions& options) {
  if (std::string why = engine::objection_to(table, rows.ids, rows.values.size()); !why.empty())
    return worker.refuse("allreduce_sparse: " + why, options);
  auto collector = std::make_shared<engine::RowCollector>();
  engine::RowCollector* const to = collector.get();
  return worker.reduce(kTypeOf<T>, engine::segments_of(table, rows.ids, rows.values.data(), nullptr),
                       with_done(options, [collector = std::move(collector), table,
                                           &sums] { collector->finish(table, sums); }),
                       to);
}

constexpr std::size_t kWord = sizeof(std::int32_t);  // in which bytes travel
bool is_words(const void* at, std::size_t bytes) noexcept {
  return bytes % kWord == 0 && is_aligned(at, kWord);
}

}  // namespace

Operation Worker::allreduce_async(std::span<float> values, const ReduceOptions& options) {
  return impl_->reduce(ElementType::kFloat32, {{values.data(), values.data(), values.size()}}, options);
}

Operation Worker::allreduce_async(std::span<std::int32_t> values, const ReduceOptions& options) {
  return impl_->reduce(ElementType::kInt32, {{values.data(), values.data(), values.size()}}, options);
}

Operation Worker::allreduce_async(std::span<const std::span<float>> spans, const ReduceOptions& options) {
  return impl_->reduce(ElementType::kFloat32, in_place(spans), options);
}

Operation Worker::allreduce_async(std::span<const std::span<std::int32_t>> spans,
                                  const ReduceOptions& options) {
  return impl_->reduce(ElementType::kInt32, in_place(spans), options);
}

Operation Worker::allreduce_async(std::span<const float> in, std::span<float> out,
                                  const ReduceOptions& options) {
  return out_of_place(*impl_, ElementType::kFloat32, in, out, options);
}

Operation Worker::allreduce_async(std::span<const std::int32_t> in, std::span<std::int32_t> out,
                                  const ReduceOptions& options) {
  return out_of_place(*impl_, ElementType::kInt32, in, out, options);
}

Operation Worker::allreduce_async(ElementType type, std::span<const Buffer> buffers,
                                  const ReduceOptions& options) {
  Segments segments;
  segments.reserve(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    const std::size_t each = bytes_of(type);
    if (!is_aligned(buffer.in, each) || !is_aligned(buffer.out, each))
      return impl_->refuse(
          "allreduce: buffer " + std::to_string(i) + " is not aligned to " + std::to_string(each) + " bytes",
          options);
    segments.push_back({buffer.in, buffer.out, buffer.count});
  }
  return impl_->reduce(type, std::move(segments), options);
}

Operation Worker::allreduce_sparse_async(const TableShape& table, const SparseRows<float>& rows,
                                         std::span<float> sums, const ReduceOptions& options) {
  return sum_table(*impl_, table, rows, sums, options);
}

Operation Worker::allreduce_sparse_async(const TableShape& table, const SparseRows<std::int32_t>& rows,
                                         std::span<std::int32_t> sums, const ReduceOptions& options) {
  return sum_table(*impl_, table, rows, sums, options);
}

Operation Worker::allreduce_sparse_async(const TableShape& table, const SparseRows<float>& rows,
                                         SparseSums<float>& sums, const ReduceOptions& options) {
  return sum_rows(*impl_, table, rows, sums, options);
}

Operation Worker::allreduce_sparse_async(const TableShape& table, const SparseRows<std::int32_t>& rows,
                                         SparseSums<std::int32_t>& sums, const ReduceOptions& options) {
  return sum_rows(*impl_, table, rows, sums, options);
}

Operation Worker::broadcast_async(std::span<std::byte> data, std::uint16_t root,
                                  const ReduceOptions& options) {
  if (root >= impl_->world())
    return impl_->refuse("broadcast: root " + std::to_string(root) + " is not below the world, " +
                             std::to_string(impl_->world()),
                         options);
  const bool says = root == impl_->rank();
  if (is_words(data.data(), data.size()))
    return impl_->reduce(ElementType::kInt32,
                         {{says ? data.data() : nullptr, data.data(), data.size() / kWord}}, options);
  auto words = std::make_shared<std::vector<std::int32_t>>((data.size() + kWord - 1) / kWord);
  if (says) copy_bytes(words->data(), data.data(), data.size());
  return impl_->reduce(
      ElementType::kInt32, {{says ? words->data() : nullptr, words->data(), words->size()}},
      with_done(options, [words, data] { copy_bytes(data.data(), words->data(), data.size()); }));
}

Operation Worker::all_gather_async(std::span<const std::byte> mine, std::span<std::byte> all,
                                   const ReduceOptions& options) {
  const std::size_t world = impl_->world();
  const std::size_t rank = impl_->rank();
  const std::size_t bytes = mine.size();
  if (all.size() != world * bytes)
    return impl_->refuse("all_gather: " + std::to_string(bytes) + " bytes of each of " +
                             std::to_string(world) + " ranks do not make " + std::to_string(all.size()),
                         options);
  const bool words = is_words(mine.data(), bytes) && is_words(all.data(), bytes);
  auto copy = std::make_shared<std::vector<std::int32_t>>();
  const std::size_t part = (bytes + kWord - 1) / kWord;
  if (!words) {
    copy->resize(world * part);
    copy_bytes(copy->data() + rank * part, mine.data(), bytes);
  }
  Segments segments;
  for (std::size_t r = 0; r < world; ++r) {
    void* const out = words ? static_cast<void*>(all.data() + r * bytes) : copy->data() + r * part;
    const void* const in = words ? static_cast<const void*>(mine.data()) : out;
    segments.push_back({r == rank ? in : nullptr, out, part});
  }
  if (words) return impl_->reduce(ElementType::kInt32, std::move(segments), options);
  return impl_->reduce(ElementType::kInt32, std::move(segments), with_done(options, [=] {
                         for (std::size_t r = 0; r < world; ++r)
                           copy_bytes(all.data() + r * bytes, copy->data() + r * part, bytes);
                       }));
}

Operation Worker::reduce_scatter_async(ElementType type, const void* in, void* out, std::size_t count,
                                       const ReduceOptions& options) {
  const std::size_t each = bytes_of(type);
  std::vector<Buffer> parts;
  for (std::size_t r = 0; r < impl_->world(); ++r)
    parts.push_back({in != nullptr ? static_cast<const std::byte*>(in) + r * count * each : nullptr,
                     r == impl_->rank() ? out : nullptr, count});
  return allreduce_async(type, parts, options);
}

int Worker::event_fd() const { return impl_->view().foreign() ? -1 : impl_->view().event_fd(); }

Operation Worker::barrier_async(const ReduceOptions& options) {
  return impl_->reduce(ElementType::kInt32, {}, options);
}

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
  for (const std::string_view box : boxes_named(options.box))
    if (const auto address = text::ip_address(box)) engine.boxes.push_back(*address);
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
  const std::string ranks = engine::name_ranks(content.missing, content.first_rank);
  if (ranks.empty())
    return {ErrorCode::kTimeout,
            "the box answered, and no worker is missing, but the job did not start" + after +
                ": where it has external servers, does a tally-ps run for each?",
            options.job};
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

WorkerImpl::WorkerImpl(std::shared_ptr<WorkerView> view, std::shared_ptr<Progress> progress,
                       const WorkerOptions& options) noexcept
    : rank_(options.rank), world_(options.world), view_(std::move(view)), progress_(std::move(progress)) {}

Result<std::unique_ptr<WorkerImpl>> WorkerImpl::start(const WorkerOptions& options) {
  if (auto sound = check_options(options); !sound) return tl::unexpected(std::move(sound.error()));
  auto transport = make_transport(options.transport.empty() ? kDefaultTransport : options.transport,
                                  {.box = boxes_named(options.box).front(),
                                   .address = options.address,
                                   .mtu = options.mtu,
                                   .poll = options.poll});
  if (!transport) return tl::unexpected(std::move(transport.error()));
  const std::uint16_t most = (*transport)->most_elements();
  const std::uint16_t elements = options.elements == 0 ? most : std::min(options.elements, most);
  if (elements < options.elements) DebugLog(options).lowered(options.elements, elements);
  auto engine = make_engine(options, elements);
  if (!engine) return tl::unexpected(std::move(engine.error()));

  auto view = std::make_shared<WorkerView>();
  auto progress = std::make_shared<Progress>(std::move(*transport), std::move(*engine), view, options);
  std::unique_ptr<WorkerImpl> impl(new WorkerImpl(std::move(view), std::move(progress), options));
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

Operation WorkerImpl::reduce(ElementType type, std::vector<engine::Segment> segments,
                             const ReduceOptions& options, engine::RowCollector* rows,
                             std::optional<Error> refused) {
  auto state = std::make_shared<OperationState>(view_, options.done);
  Operation operation(state);
  if (view_->foreign()) {  // there is no other thread to call the callback
    state->finish(tl::unexpected(view_->foreign_error()));
    return operation;
  }
  if (!refused) refused = objection(options);
  ReduceRequest request{type, std::move(segments), {}, state, std::move(refused)};
  if (request.refused && !options.done) {
    state->finish(tl::unexpected(std::move(*request.refused)));
    return operation;
  }
  request.options.priority = options.priority;
  request.options.mean = options.mean;
  request.options.wire = options.wire;
  request.options.non_finite = options.non_finite;
  request.options.rows = rows;
  if (options.timeout.count() > 0) {
    const auto due = moment_after(options.timeout).time_since_epoch();
    request.options.deadline = static_cast<TimeNs>(std::chrono::nanoseconds(due).count());
  }
  progress_->post(std::move(request));
  return operation;
}

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
    const std::string ranks = engine::name_ranks(content.missing, content.first_rank);
    return fail(ErrorCode::kTimeout,
                "leave: not done after " + std::to_string(timeout.count()) + " ms, " +
                    (ranks.empty() ? "the box has not said who is missing" : "waiting for " + ranks) +
                    "; call it again, or destroy the Worker, which aborts the job");
  }
  if (content.closed->code == ErrorCode::kClosed) return {};
  return tl::unexpected(*content.closed);
}

}  // namespace tally

#include "kv/box_path.h"

#include <chrono>
#include <string>
#include <utility>

#include "kv/sameness.h"
#include "tally/mix64.h"

namespace tally::kv {
namespace {

Failure failure_of(const Error& error) { return {error.code, "the sum through the box: " + error.text()}; }

}  // namespace

std::unique_ptr<BoxPath> BoxPath::join(int rank, int workers) {
  auto options = WorkerOptions::from_environment();
  if (!options) throw Failure(options.error().code, options.error().text());
  options->rank = static_cast<std::uint16_t>(rank);
  options->world = static_cast<std::uint16_t>(workers);
  auto worker = Worker::join(*options);
  if (!worker) throw failure_of(worker.error());
  return std::unique_ptr<BoxPath>(new BoxPath(std::move(*worker), workers));
}

bool BoxPath::takes(const DenseRequest& request) noexcept {
  return request.cmd == 0 &&
         (request.kind == value_kind<float>() || request.kind == value_kind<std::int32_t>());
}

std::uint64_t name_of(const DenseRequest& request) noexcept {
  std::uint64_t name = mix64(static_cast<std::uint64_t>(request.kind) + (request.count << 8));
  for (const Key key : request.keys) name = mix64(name + key);
  name = mix64(name + 1);
  for (const int len : request.lens) name = mix64(name + static_cast<std::uint64_t>(len));
  return name;
}

void BoxPath::sum(DenseRequest request, Done done) {
  const std::lock_guard lock(mutex_);
  if (alone_)
    return done(Failure(ErrorCode::kInvalidArgument,
                        "an asynchronous table has the box to itself while it has hot keys; close it before "
                        "this PushPull, or give it most_hot 0"));
  const std::uint64_t name = name_of(request);
  waiting_.push_back({std::move(request), name, std::move(done)});
  pump();
}

void BoxPath::sum_hot(std::shared_ptr<HotSums> what, Done done) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({{}, 0, std::move(done), std::move(what)});
  pump();
}

std::shared_ptr<HotPath> BoxPath::lend(const std::shared_ptr<BoxPath>& box, bool alone) {
  if (!box->can_sum_hot()) return nullptr;
  const std::lock_guard lock(box->mutex_);
  if (box->alone_ || (alone && box->tables_ != 0)) return nullptr;
  ++box->tables_;
  box->alone_ = alone;
  return {box.get(), [box](HotPath*) {
            const std::lock_guard given_back(box->mutex_);
            --box->tables_;
            box->alone_ = false;
          }};
}

bool BoxPath::can_sum_hot() const {
  const auto membership = worker_.membership();
  return !worker_.why_closed() && membership && membership->racks == 0;
}

// Without the mutex: what fails by it takes it.
void BoxPath::give_up(const std::string& why) { worker_.abort(why); }

std::uint64_t BoxPath::sums() const {
  const std::lock_guard lock(mutex_);
  return sums_;
}

// What is issued depends on the calls alone, not on when answers come: so it is the same at all workers.
void BoxPath::pump() {
  while (!asking_ && !waiting_.empty()) {
    if (waiting_.front().hot || known_.contains(waiting_.front().name)) {
      Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      next.hot ? issue_hot(std::move(next)) : issue(std::move(next));
      continue;
    }
    asking_ = true;
    question_ = question_of(waiting_.front().name);
    ReduceOptions options;
    options.done = [this](const Result<OperationStats>& result) { agreed(result); };
    (void)worker_.allreduce_async(std::span(question_), options);
  }
}

void BoxPath::issue(Waiting waiting) {
  const Buffer buffer{waiting.request.in, waiting.request.out, waiting.request.count};
  const ElementType type =
      waiting.request.kind == value_kind<float>() ? ElementType::kFloat32 : ElementType::kInt32;
  ReduceOptions options;
  options.done = [held = waiting.request.held,
                  done = std::move(waiting.done)](const Result<OperationStats>& result) {
    done(result ? std::nullopt : std::optional(failure_of(result.error())));
  };
  ++sums_;
  (void)worker_.allreduce_async(type, std::span(&buffer, 1), options);
}

void BoxPath::issue_hot(Waiting waiting) {
  struct Both {
    std::shared_ptr<HotSums> sums;
    Done done;
    int left;
    std::optional<Failure> failure{};
  };
  HotSums& sums = *waiting.hot;
  const auto both = std::make_shared<Both>(
      Both{std::move(waiting.hot), std::move(waiting.done), sums.table.rows == 0 ? 1 : 2});
  ReduceOptions options;
  options.done = [both](const Result<OperationStats>& result) {  // all on the worker's thread
    if (!result && !both->failure) both->failure = failure_of(result.error());
    if (result && result->incomplete && !both->failure)
      both->failure = Failure(ErrorCode::kFellBehind,
                              "a sum of hot rows lacks workers: a job with stragglers has no hot keys");
    if (--both->left == 0) both->done(std::move(both->failure));
  };
  ++sums_;
  (void)worker_.allreduce_async(std::span(sums.words), options);
  if (sums.table.rows == 0) return;
  (void)worker_.allreduce_sparse_async(sums.table, SparseRows<float>{sums.ids, sums.values}, sums.sums,
                                       options);
}

void BoxPath::agreed(const Result<OperationStats>& result) {
  const std::lock_guard lock(mutex_);
  asking_ = false;
  const bool equal = result && all_equal(question_, workers_);
  if (equal) {
    known_.insert(waiting_.front().name);
  } else {
    const Waiting refused = std::move(waiting_.front());
    waiting_.pop_front();
    refused.done(
        result
            ? Failure(
                  ErrorCode::kInvalidArgument,
                  "keys, lens or type of this PushPull are not the same at all workers; through a box they "
                  "must be")
            : failure_of(result.error()));
  }
  pump();
}

void BoxPath::leave() { (void)worker_.leave(std::chrono::seconds(10)); }

}  // namespace tally::kv

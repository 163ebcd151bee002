#include "kv/box_path.h"

#include <chrono>
#include <string>
#include <utility>

#include "tally/mix64.h"

namespace tally::kv {
namespace {

constexpr int kPieces = 5;
constexpr int kPieceBits = 12;  // squares of 4,096 workers stay below 2^36, so they are taken modulo 2^32

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

std::vector<std::int32_t> question_of(std::uint64_t name) {
  std::vector<std::int32_t> words;
  for (int i = 0; i < kPieces; ++i) {
    const auto piece = static_cast<std::int32_t>((name >> (kPieceBits * i)) & ((1U << kPieceBits) - 1));
    words.push_back(piece);
    words.push_back(piece * piece);
  }
  return words;
}

// By Cauchy and Schwarz, workers times the sum of squares is the square of the sum if and only if all are equal. The sum of
// squares arrives modulo 2^32: it is below 2^32 up to 256 workers, and beyond it two that differ by a multiple of 2^32 would
// have to be met.
bool all_equal(const std::vector<std::int32_t>& sums, int workers) {
  for (std::size_t i = 0; i + 1 < sums.size(); i += 2) {
    const auto sum = static_cast<std::uint64_t>(static_cast<std::uint32_t>(sums[i]));
    const auto squares = static_cast<std::uint64_t>(static_cast<std::uint32_t>(sums[i + 1]));
    const auto count = static_cast<std::uint64_t>(workers);
    if (static_cast<std::uint32_t>(count * squares) != static_cast<std::uint32_t>(sum * sum)) return false;
    if (workers <= 256 && count * squares != sum * sum) return false;
  }
  return true;
}

void BoxPath::sum(DenseRequest request, Done done) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t name = name_of(request);
  waiting_.push_back({std::move(request), name, std::move(done)});
  pump();
}

std::uint64_t BoxPath::sums() const {
  const std::lock_guard lock(mutex_);
  return sums_;
}

// What is issued depends on the calls alone, not on when answers come: so it is the same at all workers.
void BoxPath::pump() {
  while (!asking_ && !waiting_.empty()) {
    if (known_.contains(waiting_.front().name)) {
      Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      issue(std::move(next));
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

// One rank of one training job of the experiment, in real time over libtally: the same buckets, the same
// times of computing and the same chances as TrainingWorker (bench/experiment/hosts.h) has in virtual time.
// Computing is sleeping.
//
//   tally_training_rank PLAN.json JOB      who it is comes from TALLY_* (tally/worker.h); JOB counts from 0
//
// The plan is what `tally_experiment --plan` writes, with `u_ns`, the time of a full packet on a link, added.
// On stdout: `joined`; then, after a line with the common beginning (ns of CLOCK_MONOTONIC) on stdin,
// `finished NS WRONG RETRANSMISSIONS QUERIES`: from the job's own start to the last sum here, elements of
// sums that are not exact.

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "chance.h"
#include "tally/worker.h"

namespace tally::experiment {
namespace {

constexpr std::chrono::seconds kPatience{120};

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void sleep_until(std::int64_t ns) {
  const timespec until{ns / 1'000'000'000LL, ns % 1'000'000'000LL};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

template <class T>
T told(const Result<T>& result) {
  if (!result) throw std::runtime_error(result.error().text());
  if constexpr (!std::is_void_v<T>) return *result;
}

struct Bucket {
  double backward = 0;  // u
  double forward = 0;
  std::vector<std::int32_t> values{};
  std::optional<Operation> sum{};
};

class TrainingRank {
 public:
  TrainingRank(const nlohmann::json& plan, std::uint32_t job, Worker& worker)
      : worker_(worker),
        membership_(worker.membership().value()),
        chance_(plan.at("seed").get<std::uint64_t>()),
        self_((job + 1) * 64ULL + membership_.rank),
        u_(plan.at("u_ns").get<double>()),
        skew_(plan.at("skew").get<double>()) {
    const auto& mine = plan.at("jobs").at(job);
    iterations_ = mine.at("iterations").get<std::uint32_t>();
    arrival_ = static_cast<std::int64_t>(mine.at("arrival").get<double>() * u_);
    for (const auto& bucket : mine.at("buckets")) {
      buckets_.push_back(
          {.backward = bucket.at("backward").get<double>(), .forward = bucket.at("forward").get<double>()});
      buckets_.back().values.resize(bucket.at("chunks").get<std::size_t>() * membership_.elements);
    }
  }

  void run(std::int64_t begin) {
    const std::int64_t start = begin + arrival_;
    at_ = start;
    for (std::uint32_t i = 0; i < iterations_; ++i) {
      const double pace = u_ * (1 + skew_ * chance_.exponential(Purpose::kCompute, self_, i));
      for (std::size_t b = buckets_.size(); b-- > 0;) {
        if (i > 0) take(buckets_[b], i - 1);
        compute(buckets_[b].forward * pace);
      }
      for (Bucket& bucket : buckets_) {
        compute(bucket.backward * pace);
        fill(bucket, i);
        bucket.sum = worker_.allreduce_async(std::span{bucket.values});
      }
    }
    for (Bucket& bucket : buckets_) take(bucket, iterations_ - 1);
    const auto counted = worker_.statistics();
    std::printf("finished %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", now_ns() - start, wrong_,
                counted.retransmissions, counted.queries);
  }

 private:
  void compute(double ns) {
    at_ = std::max(at_, computed_from_) + static_cast<std::int64_t>(ns);
    sleep_until(at_);
  }

  [[nodiscard]] std::uint32_t salt(const Bucket& bucket, std::uint32_t iteration) const {
    return iteration * 0x9E3779B1U + static_cast<std::uint32_t>(&bucket - buckets_.data()) * 0x85EBCA77U;
  }
  // A part that all ranks have in common, and one in proportion to the rank. Below 2^21: sums are exact.
  void fill(Bucket& bucket, std::uint32_t iteration) {
    const std::uint32_t salted = salt(bucket, iteration);
    for (std::uint32_t i = 0; i < bucket.values.size(); ++i)
      bucket.values[i] =
          static_cast<std::int32_t>(((i * 2654435761U + salted) >> 12) + membership_.rank * (i & 0x3FF));
  }
  void take(Bucket& bucket, std::uint32_t iteration) {
    (void)told(bucket.sum->wait(kPatience));
    computed_from_ = now_ns();
    const std::uint32_t salted = salt(bucket, iteration);
    const std::uint32_t n = membership_.world;
    for (std::uint32_t i = 0; i < bucket.values.size(); ++i) {
      const std::uint32_t right = n * ((i * 2654435761U + salted) >> 12) + n * (n - 1) / 2 * (i & 0x3FF);
      wrong_ += bucket.values[i] != static_cast<std::int32_t>(right) ? 1 : 0;
    }
  }

  Worker& worker_;
  const WorkerMembership membership_;
  const Chance chance_;
  const std::uint64_t self_;
  const double u_;
  const double skew_;
  std::uint32_t iterations_ = 0;
  std::int64_t arrival_ = 0;
  std::vector<Bucket> buckets_{};
  std::int64_t at_ = 0;             // when the step before ended, by plan
  std::int64_t computed_from_ = 0;  // when the newest sum came
  std::uint64_t wrong_ = 0;
};

int run(const char* file, std::uint32_t job) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto plan = nlohmann::json::parse(std::ifstream(file));
  auto worker = Worker::join(told(WorkerOptions::from_environment()));
  if (!worker) throw std::runtime_error(worker.error().text());
  TrainingRank rank(plan, job, *worker);
  std::puts("joined");
  std::int64_t begin = 0;
  if (!(std::cin >> begin)) throw std::runtime_error("nobody said when to begin");
  rank.run(begin);
  told(worker->leave(kPatience));
  return 0;
}

}  // namespace
}  // namespace tally::experiment

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::invalid_argument("it is tools/bench-jct that starts this");
    return tally::experiment::run(argv[1], static_cast<std::uint32_t>(std::stoul(argv[2])));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

// Pipeline alone (parse to verdict, no I/O) against the raw add kernel over the same entries and frames, in
// one run: performance.md, Goal 2. 256 elements, 8 members, window 256, frames from a ring of at least 4 MiB.

#include <chrono>
#include <cstdio>
#include <memory>

#include "burst.h"
#include "frame_ring.h"
#include "fused.h"
#include "harness.h"
#include "pipeline.h"
#include "staged.h"
#include "tally/mix64.h"

namespace tally::bench {
namespace {

constexpr std::uint8_t kMembers = 8;
constexpr std::uint32_t kWindow = 256;
constexpr int kRounds = 15;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Box bench_box() { return {.mac = {2, 0, 0, 0, 0, 1}, .ipv4 = {10, 0, 0, 254}, .ipv6 = {}}; }

Job bench_job(std::uint16_t elements) {
  Job job;
  job.id = JobId{1};
  job.generation = Generation{0x5eed};
  job.world = kMembers;
  job.elements = elements;
  job.window = kWindow;
  job.span = 2 * kWindow;
  job.members = members_of(kMembers);
  job.slots = {0, pool_lines(kWindow, 1, elements)};
  for (std::uint16_t r = 0; r < kMembers; ++r) {
    Member& m = job.ranks[r];
    m.cookie = Cookie{mix64(r + 1U)};
    m.key = rank_key(job.generation, Rank{r});
    m.binding.address = mapped({10, 0, 0, static_cast<std::uint8_t>(r + 1)});
    m.binding.mac = {2, 0, 0, 0, 1, static_cast<std::uint8_t>(r)};
    m.binding.udp_port = 4000;
    job.key_sum += m.key;
  }
  return job;
}

// A pipeline and its job; each turn of the ring runs in an epoch of its own, so that every chunk is new.
template <class Exec>
class Runner {
 public:
  Runner(FrameRing& ring, std::uint16_t elements, const Kernels& kernels, bool vouched, std::size_t limit)
      : ring_(ring),
        job_(bench_job(elements)),
        memory_(job_.slots.count),
        vouched_(vouched),
        limit_(std::min(limit, ring.size())),
        pipeline_({.core = 0, .box = bench_box()}, memory_, kernels) {}

  std::pair<double, std::uint64_t> round() {
    job_.epoch = Epoch{++epoch_};
    table_ = JobTable().with(job_.id, std::make_shared<Job>(job_));
    pipeline_.adopt(table_.get());
    ring_.refill(job_);
    const auto before = pipeline_.counters(job_.id);
    const auto start = Clock::now();
    for (std::size_t i = 0; i < limit_; i += kBurst) burst(i, std::min(kBurst, limit_ - i));
    const double seconds = seconds_since(start);
    const auto& after = pipeline_.counters(job_.id);
    std::uint64_t completed = 0;
    for (std::size_t i = 0; i < limit_; ++i) completed += ring_.completes(i) ? 1 : 0;
    require(after.of(Verdict::kComplete) - before.of(Verdict::kComplete) == completed,
            "not every chunk completed with right sums");
    require(after.packets() - before.packets() == limit_, "packets were lost");
    require(after.of(Verdict::kAbsorb) - before.of(Verdict::kAbsorb) == limit_ - completed,
            "contributions were not absorbed");
    return {seconds, limit_};
  }

 private:
  void burst(std::size_t first, std::size_t count) {
    run_burst(
        pipeline_, parsed_, count, 1, [&](std::size_t i) { return ring_.frame(first + i, vouched_); },
        [](std::size_t, const Outcome&) {});
  }

  FrameRing& ring_;
  Job job_;
  std::vector<Line> memory_;
  bool vouched_;
  std::size_t limit_;
  Pipeline<Exec> pipeline_;
  std::shared_ptr<const JobTable> table_;
  std::uint32_t epoch_ = 0;
  ParsedBurst parsed_;
};

// (N-1) adds and one add-and-emit, nothing else.
std::pair<double, std::uint64_t> raw_round(FrameRing& ring, std::vector<Line>& entries,
                                           std::uint16_t elements, const Kernels& kernels) {
  const Job job = bench_job(elements);
  ring.refill(job);
  const auto start = Clock::now();
  bool overflow = false;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    auto* const entry = reinterpret_cast<std::int32_t*>(&entries[ring.entry(i) + 1]);
    if (ring.completes(i)) {
      overflow |= kernels.add_emit(entry, ring.values(i), elements).overflow;
    } else {
      overflow |= kernels.add(entry, ring.values(i), elements);
    }
  }
  const double seconds = seconds_since(start);
  asm volatile("" : : "r"(overflow));
  return {seconds, ring.size()};
}

struct Row {
  Figure figure;
  double goal = 0;  // share of raw add, 0 = none
};

void print_row(const Row& row, double raw_ns, std::uint16_t elements) {
  const auto& f = row.figure;
  std::printf("%-34s %8.1f %8.1f %8.1f %9.2f %8.2f", f.name.c_str(), f.median_ns, f.min_ns, f.max_ns,
              1e3 / f.median_ns, elements / f.median_ns);
  std::printf(" %7.1f %%", 100 * raw_ns / f.median_ns);
  if (row.goal > 0)
    std::printf("  goal >= %.0f %%: %s", 100 * row.goal,
                raw_ns / f.median_ns >= row.goal ? "reached" : "NOT reached");
  std::printf("\n");
}

nlohmann::json run(std::uint16_t elements, const Kernels& kernels) {
  const Job job = bench_job(elements);
  // A ring of its own for each: a result replaces the values of the frame that completed, and raw add's sums
  // must not leak into the others' headers.
  FrameRing raw_ring(job, bench_box(), kernels);
  FrameRing port_ring(job, bench_box(), kernels);
  FrameRing software_ring(job, bench_box(), kernels);
  FrameRing staged_ring(job, bench_box(), kernels);
  std::vector<Line> entries(job.slots.count);
  Runner<Fused> port(port_ring, elements, kernels, true, port_ring.size());
  Runner<Fused> software(software_ring, elements, kernels, false, software_ring.size());
  Runner<Staged> staged(staged_ring, elements, kernels, true, staged_ring.size());
  std::vector<Contender> contenders{
      {"raw add", [&] { return raw_round(raw_ring, entries, elements, kernels); }},
      {"fused, port's checksum verdict", [&] { return port.round(); }},
      {"fused, software verification", [&] { return software.round(); }},
      {"staged, port's checksum verdict", [&] { return staged.round(); }},
  };
  const auto figures = measure(contenders, kRounds);
  const double raw_ns = figures.front().median_ns;
  std::printf("\n%u elements, %u members, window %u, kernels %s, ring of %.1f MiB, %d rounds interleaved\n",
              elements, kMembers, kWindow, std::string(kernels.name).c_str(),
              static_cast<double>(raw_ring.bytes()) / (1 << 20), kRounds);
  std::printf("%-34s %8s %8s %8s %9s %8s %9s\n", "", "ns", "min", "max", "Mpps", "Gel/s", "of raw");
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const double goal = elements != 256 ? 0 : i == 1 ? 0.55 : i == 2 ? 0.40 : 0;
    print_row({figures[i], goal}, raw_ns, elements);
    rows.push_back({{"name", figures[i].name},
                    {"median_ns", figures[i].median_ns},
                    {"min_ns", figures[i].min_ns},
                    {"max_ns", figures[i].max_ns},
                    {"share_of_raw_add", raw_ns / figures[i].median_ns}});
  }
  if (elements == 256) {
    const double mpps = 1e3 / figures[3].median_ns;
    std::printf("staged execution: %.2f M packets/s, goal >= 1: %s\n", mpps,
                mpps >= 1 ? "reached" : "NOT reached");
  }
  return {{"elements", elements},
          {"members", kMembers},
          {"window", kWindow},
          {"kernels", kernels.name},
          {"rows", rows}};
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  const std::string file = json_argument(argc, argv);
  nlohmann::json results{{"environment", environment()}, {"runs", nlohmann::json::array()}};
  print_environment(results["environment"]);
  for (const std::uint16_t elements : {std::uint16_t{256}, std::uint16_t{352}, std::uint16_t{64}}) {
    results["runs"].push_back(run(elements, tally::best_kernels()));
  }
  write_json(file, results);
  return 0;
}

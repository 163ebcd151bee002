// What the demo says before and after.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "demo_run.h"
#include "error_bound.h"
#include "numbers.h"

namespace tally {

void DemoRun::introduce() const {
  std::size_t workers = 0;
  for (const auto& job : jobs_) workers += job.world();
  std::printf(
      "One switch (tallyd), %zu jobs, %zu workers; each worker is a process with a port of its own "
      "(%s)%s%s.\n",
      jobs_.size(), workers,
      options_.driver.empty()
          ? "memif"
          : ("kernel sockets in a network namespace, a veth link, " + options_.driver + " at the switch")
                .c_str(),
      options_.loss.empty() ? "" : "; every port loses ",
      options_.loss.empty() ? "" : (options_.loss + " of its frames each way").c_str());
  for (const auto& job : jobs_) {
    std::printf("  %-8s  %u x %s: %zu tensors, %s parameters, float32; iterations: %u\n",
                std::string(job.model().job).c_str(), job.world(), std::string(job.model().title).c_str(),
                job.model().tensors.size(), with_commas(job.model().parameters()).c_str(), job.iterations());
  }
  if (config_.shared_slots > 0)
    std::printf("They share %s slots of the switch.\n", with_commas(config_.shared_slots).c_str());
  std::string bound = bound_text(jobs_.front().world());
  bound.insert(bound.find('\n') + 1, "  ");
  std::printf("Each worker checks every sum y against the float64 sum of all ranks' values x:\n  %s\n",
              bound.c_str());
  std::printf("The ranks' results are compared by the CRC32C of their bits. #wrong counts both.\n\n");
  std::fflush(stdout);
}

void DemoRun::conclude() const {
  const bool finished =
      std::all_of(jobs_.begin(), jobs_.end(), [](const DemoJob& j) { return j.finished(); });
  if (finished && !jobs_.empty()) {
    std::printf("%s\n", demo_table(jobs_, config_.jobs, box_report_).c_str());
    std::printf(
        "bytes: of one iteration, summed over %u workers. time: wall clock. reducing: of it while sums were "
        "under way.\nalgbw: bytes of all iterations / reducing. verifying: CPU time of a worker for its "
        "values and its checks.\n\n",
        jobs_.front().world());
  }
  for (const auto& job : jobs_) {
    if (!job.finished())
      std::printf("%s: not finished, %s %% done, #wrong %s so far\n", std::string(job.model().job).c_str(),
                  fixed(100 * job.share(), 1).c_str(), std::to_string(job.wrong()).c_str());
  }
  if (!box_report_.text().empty())
    std::printf("The switch's own counters:\n%s\n", box_report_.text().c_str());
  if (!all_right()) {
    std::printf("FAILED; the reasons are above.\n");
    return;
  }
  double largest = 0;
  std::uint64_t compared = 0;
  for (const auto& job : jobs_) {
    largest = std::max(largest, job.largest_error());
    compared += job.compared();
  }
  std::printf("All sums right: %s results, the largest error %s of its bound, all ranks the same bits.\n",
              with_commas(compared).c_str(), fixed(std::floor(largest * 1000) / 1000, 3).c_str());
}

}  // namespace tally

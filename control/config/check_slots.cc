#include <string>

#include "checks.h"
#include "job_config.h"
#include "job_table.h"
#include "units.h"

namespace tally {
namespace {

std::uint32_t shards_of(const Config& config) {
  return static_cast<std::uint32_t>(config.dataplane.cores.size());
}

std::uint32_t lines_of(const Config& config, const JobSection& job, std::uint32_t window) {
  return pool_lines(window, shards_of(config), job.elements);
}

// The same lines lie on every core.
std::uint64_t bytes_of(const Config& config, std::uint64_t lines_per_core) {
  return lines_per_core * 64 * shards_of(config);
}

// The largest window that fits an empty box; 0 if none does.
std::uint32_t largest_window(const Config& config, const JobSection& job) {
  for (std::uint32_t window = job.window; window >= kMinWindow; window /= 2) {
    if (lines_of(config, job, window) <= slot_lines_per_core(config.dataplane)) return window;
  }
  return 0;
}

// False, and reported, if the job's window does not even fit alone.
bool check_alone(Checking& c, const JobSection& job, const std::string& path) {
  const std::uint32_t most = largest_window(c.config, job);
  if (most == job.window) return true;
  const std::string need = rough_size(bytes_of(c.config, lines_of(c.config, job, job.window)));
  c.report.error(
      c.places.of(path), path,
      {"a window of " + std::to_string(job.window) + " chunks of " + std::to_string(job.elements) +
           " elements takes " + need + " of slots; dataplane.slots is " + size_text(c.config.dataplane.slots),
       (most == 0 ? std::string("not even a window of 16 fits; ")
                  : "the largest window that fits is " + std::to_string(most) + "; otherwise ") +
           "raise dataplane.slots"});
  return false;
}

// Windows are wishes, so too little for all of them is no error as long as the smallest ones fit.
void check_together(Checking& c) {
  const std::uint64_t lines = slot_lines_per_core(c.config.dataplane);
  std::uint64_t wanted = 0;
  std::uint64_t smallest = 0;
  bool warned = false;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const JobSection& job = c.config.jobs[i];
    const std::string path = path_of("jobs", i, "window");
    wanted += lines_of(c.config, job, job.window);
    smallest += lines_of(c.config, job, kMinWindow);
    if (smallest > lines) {
      c.report.error(c.places.of(path), path,
                     {"up to this job, windows of 16 take " + rough_size(bytes_of(c.config, smallest)) +
                          " of slots; dataplane.slots is " + size_text(c.config.dataplane.slots),
                      "raise dataplane.slots, or declare fewer jobs"});
      return;
    }
    if (wanted <= lines || warned) continue;
    warned = true;
    c.report.warning(c.places.of(path), path,
                     {"up to this job, the windows take " + rough_size(bytes_of(c.config, wanted)) +
                          " of slots; dataplane.slots is " + size_text(c.config.dataplane.slots) +
                          ": jobs that form last get smaller windows",
                      "raise dataplane.slots, or lower windows"});
  }
}

}  // namespace

void check_slots(Checking& c) {
  if (!c.places.sound("dataplane.slots") || !c.places.sound("dataplane.cores") || !c.places.sound("jobs"))
    return;
  bool good = true;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const std::string path = path_of("jobs", i, "window");
    const bool sound = c.places.sound(path) && c.places.sound(path_of("jobs", i, "elements"));
    good = sound && check_alone(c, c.config.jobs[i], path) && good;
  }
  if (good) check_together(c);
}

}  // namespace tally

#include <algorithm>
#include <string>

#include "checks.h"
#include "job_config.h"
#include "own_lines.h"
#include "shared_region.h"
#include "to_members.h"
#include "units.h"

namespace tally {
namespace {

// The key that says how much slot memory the job takes.
const char* size_key(const JobSection& job) { return is_session(job) ? "slots" : "window"; }

std::uint32_t shards_of(const Config& config) {
  return static_cast<std::uint32_t>(config.dataplane.cores.size());
}

// Of a job's own: the entries of a pool, a ledger, or nothing. A session takes what it asks for.
std::uint32_t lines_of(const Config& config, const JobSection& job, std::uint32_t window) {
  if (is_session(job)) return lines_of(member_session(job));
  return own_lines(job.discipline, window, 2 * window, shards_of(config), job.elements);
}

std::uint64_t lines_shared(const Config& config) {
  return shared_lines(shared_entries_per_core(config.dataplane), config.dataplane.shared.elements);
}

// What the jobs' own ranges may take of each core.
std::uint64_t lines_left(const Config& config) {
  return slot_lines_per_core(config.dataplane) - lines_shared(config);
}

// The same lines lie on every core.
std::uint64_t bytes_of(const Config& config, std::uint64_t lines_per_core) {
  return lines_per_core * 64 * shards_of(config);
}

std::string slots_text(const Config& config) {
  std::string text = "dataplane.slots is " + size_text(config.dataplane.slots);
  if (lines_shared(config) != 0)
    text += ", of which the shared slots leave " + rough_size(bytes_of(config, lines_left(config)));
  return text;
}

// Shared slots that leave the jobs their windows, on all cores together.
std::uint64_t most_shared(const Config& config) {
  std::uint64_t own = 0;
  for (const JobSection& job : config.jobs) own += lines_of(config, job, job.window);
  const std::uint64_t all = slot_lines_per_core(config.dataplane);
  return (all - std::min(all, own)) / entry_lines(config.dataplane.shared.elements) * shards_of(config);
}

// False, and reported, if the shared slots take more than there is.
bool check_shared(Checking& c) {
  const std::uint64_t shared = lines_shared(c.config);
  if (shared <= slot_lines_per_core(c.config.dataplane)) return true;
  const DataplaneSection& d = c.config.dataplane;
  const std::string path = "dataplane.shared.slots";
  const std::uint64_t fit = most_shared(c.config);
  c.report.error(
      c.places.of(path), path,
      {std::to_string(d.shared.slots) + " shared slots of " + std::to_string(d.shared.elements) +
           " elements take " + rough_size(bytes_of(c.config, shared)) + "; dataplane.slots is " +
           size_text(d.slots),
       (fit == 0 ? std::string("not even one for each data core fits beside the jobs' windows; ")
                 : "at most " + std::to_string(fit) + " fit beside the jobs' windows; otherwise ") +
           "raise dataplane.slots"});
  return false;
}

// The largest window that fits an empty box; 0 if none does.
std::uint32_t largest_window(const Config& config, const JobSection& job) {
  for (std::uint32_t window = job.window; window >= kMinWindow; window /= 2) {
    if (lines_of(config, job, window) <= lines_left(config)) return window;
  }
  return 0;
}

std::string need_text(const Config& config, const JobSection& job) {
  const std::string chunks = std::to_string(job.window) + " chunks";
  return (job.discipline == Discipline::kShared
              ? "the ledger for a window of " + chunks
              : "a window of " + chunks + " of " + std::to_string(job.elements) + " elements") +
         " takes " + rough_size(bytes_of(config, lines_of(config, job, job.window))) + " of slots; " +
         slots_text(config);
}

// The same for a session and its slots.
bool check_session_alone(Checking& c, const JobSection& job, const std::string& path) {
  const std::uint64_t each = lines_of(c.config, job, 0) / job.slots;
  const std::uint64_t fit = lines_left(c.config) / each;
  if (job.slots <= fit) return true;
  c.report.error(
      c.places.of(path), path,
      {std::to_string(job.slots) + " slots of " + std::to_string(job.payload) + " bytes for " +
           std::to_string(job.members.size()) + " members take " +
           rough_size(bytes_of(c.config, lines_of(c.config, job, 0))) + " of slots; " + slots_text(c.config),
       (fit == 0 ? std::string("not even one slot fits; ")
                 : "at most " + std::to_string(fit) + " fit; otherwise ") +
           "raise dataplane.slots"});
  return false;
}

// False, and reported, if the job's window does not even fit alone.
bool check_alone(Checking& c, const JobSection& job, const std::string& path) {
  if (is_session(job)) return check_session_alone(c, job, path);
  const std::uint32_t most = largest_window(c.config, job);
  if (most == job.window) return true;
  c.report.error(c.places.of(path), path,
                 {need_text(c.config, job),
                  (most == 0 ? std::string("not even a window of 16 fits; ")
                             : "the largest window that fits is " + std::to_string(most) + "; otherwise ") +
                      "raise dataplane.slots"});
  return false;
}

// Windows are wishes, so too little for all of them is no error as long as the smallest ones fit.
void check_together(Checking& c) {
  const std::uint64_t lines = lines_left(c.config);
  std::uint64_t wanted = 0;
  std::uint64_t smallest = 0;
  bool sessions = false;
  bool warned = false;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const JobSection& job = c.config.jobs[i];
    const std::string path = path_of("jobs", i, size_key(job));
    sessions = sessions || is_session(job);
    wanted += lines_of(c.config, job, job.window);
    smallest += lines_of(c.config, job, kMinWindow);
    if (smallest > lines) {
      c.report.error(c.places.of(path), path,
                     {std::string("up to this job, ") +
                          (sessions ? "the sessions, and windows of 16 for the other jobs, take "
                                    : "windows of 16 take ") +
                          rough_size(bytes_of(c.config, smallest)) + " of slots; " + slots_text(c.config),
                      "raise dataplane.slots, or declare fewer jobs"});
      return;
    }
    if (wanted <= lines || warned) continue;
    warned = true;
    c.report.warning(
        c.places.of(path), path,
        {std::string("up to this job, the windows ") + (sessions ? "and sessions take " : "take ") +
             rough_size(bytes_of(c.config, wanted)) + " of slots; " + slots_text(c.config) +
             ": jobs of lower priority, and those that form last, get smaller windows",
         "raise dataplane.slots, or lower windows"});
  }
}

// A session's lines follow from keys of its own, and from how many members it has.
bool sound_session(const Checking& c, std::size_t job) {
  if (!c.places.sound(path_of("jobs", job, "dialect"))) return false;
  if (!is_session(c.config.jobs[job])) return true;
  const std::size_t members = c.config.jobs[job].members.size();
  return c.places.sound(path_of("jobs", job, "payload")) && c.places.sound(path_of("jobs", job, "members")) &&
         members >= 1 && members <= kMaxRanks;
}

}  // namespace

void check_slots(Checking& c) {
  if (!c.places.sound("dataplane.slots") || !c.places.sound("dataplane.cores") || !c.places.sound("jobs"))
    return;
  if (!c.places.sound("dataplane.shared.slots") || !c.places.sound("dataplane.shared.elements")) return;
  bool good = check_shared(c);
  if (!good) return;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const std::string path = path_of("jobs", i, size_key(c.config.jobs[i]));
    const bool sound = sound_session(c, i) && c.places.sound(path) &&
                       c.places.sound(path_of("jobs", i, "elements")) &&
                       c.places.sound(path_of("jobs", i, "discipline"));
    good = sound && check_alone(c, c.config.jobs[i], path) && good;
  }
  if (good) check_together(c);
}

}  // namespace tally

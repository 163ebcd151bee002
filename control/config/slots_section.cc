// What the discipline of a job asks of its other keys, and jobs that share slots of the box.

#include <algorithm>
#include <string>
#include <utility>

#include "config/checks.h"
#include "config/config_schema.h"
#include "config/dialects.h"
#include "config/units.h"
#include "config/value_types.h"
#include "jobs/job_table.h"
#include "jobs/layout.h"
#include "members/job_config.h"
#include "members/room.h"
#include "text/text.h"

namespace tally::config {
namespace {

std::uint32_t shards_of(const Config& config) {
  return static_cast<std::uint32_t>(config.dataplane.cores.size());
}

std::uint64_t lines_shared(const Config& config) {
  return jobs::shared_lines(shared_entries_per_core(config.dataplane), config.dataplane.shared.elements);
}

struct JobAt {
  const NativeConfig& job;
  std::size_t index;

  [[nodiscard]] std::string path(const char* key) const { return path_of("jobs", index, key); }
};

// A rule between these keys of a job is broken: at the first of them that is in the file, if all are sound.
void error_between(Checking& c, const JobAt& at, const std::vector<const char*>& keys, std::string message,
                   std::string help) {
  const auto sound = [&](const char* key) { return c.places.sound(at.path(key)); };
  const auto written = [&](const char* key) { return c.places.written(at.path(key)); };
  if (!std::ranges::all_of(keys, sound)) return;
  const auto first = std::ranges::find_if(keys, written);
  c.error(at.path(first == keys.end() ? keys.front() : *first), std::move(message), std::move(help));
}

// A pool job has nothing to divide with others.
void check_pool(Checking& c, const JobAt& at) {
  const auto refuse = [&](const char* key, bool given, const std::string& value, const std::string& only) {
    if (!given) return;
    error_between(
        c, at, {key, "discipline"},
        value + ": a quota divides the shared slots, and a job of the discipline pool has slots of its own",
        "write " + only + ", or leave the key out; window says how many slots the job gets");
  };
  const members::Quota usual;
  const members::Quota& q = at.job.quota;
  refuse("quota.reserved", q.reserved_ppm != usual.reserved_ppm, text::percent_text(q.reserved_ppm),
         text::percent_text(usual.reserved_ppm));
  refuse("quota.weight", q.weight != usual.weight, std::to_string(q.weight), std::to_string(usual.weight));
  refuse("quota.cap", q.cap_ppm != usual.cap_ppm, text::percent_text(q.cap_ppm),
         text::percent_text(usual.cap_ppm));
  if (at.job.server != ServerKind::kNone)
    error_between(c, at, {"server", "discipline"},
                  "a job of the discipline pool has no server: none of its contributions is without a slot",
                  "write none, or discipline: shared");
  const std::string workers = std::to_string(at.job.workers);
  if (at.job.stragglers && at.job.stragglers->least > at.job.workers)
    error_between(
        c, at, {"stragglers.min", "workers", "discipline"},
        "min is " + std::to_string(at.job.stragglers->least) + ", and the job has " + workers + " workers",
        "write at most " + workers);
}

void check_groups(Checking& c, const JobAt& at) {
  if (at.job.admit && at.job.server == ServerKind::kExternal)
    error_between(c, at, {"admit", "server"},
                  "an external server knows its jobs by name, and nobody can tell it of a group",
                  "write admit: off, or server: embedded");
}

// What a job that shares slots asks of its other keys, and of the box.
void check_sharer(Checking& c, const JobAt& at) {
  const members::Quota& quota = at.job.quota;
  if (at.job.server == ServerKind::kNone)
    error_between(c, at, {"server", "discipline"},
                  "a job that shares slots needs a server for what finds none",
                  "write embedded or external, or discipline: pool");
  if (quota.cap_ppm < quota.reserved_ppm)
    error_between(c, at, {"quota.cap", "quota.reserved", "discipline"},
                  "the job may hold " + text::percent_text(quota.cap_ppm) + " of the shared slots, and " +
                      text::percent_text(quota.reserved_ppm) + " are reserved for it",
                  "raise cap or lower reserved");
  if (at.job.stragglers)
    error_between(
        c, at, {"stragglers", "discipline"},
        "a job that shares slots cannot send sums without stragglers: its server may hold their values",
        "write off, or discipline: pool");
  const SharedSection& shared = c.config.dataplane.shared;
  if (!c.sound({"dataplane.shared.slots", "dataplane.shared.elements"})) return;
  if (shared.slots == 0)  // whether they are enough for every core, check_region() says
    error_between(c, at, {"discipline"}, kNoSharedSlots,
                  "write dataplane: {shared: {slots: 4096}}, or leave discipline out for slots of its own");
  if (at.job.elements > shared.elements)
    error_between(
        c, at, {"elements"}, larger_than_shared(at.job, shared),
        "write at most " + std::to_string(shared.elements) + ", or raise dataplane.shared.elements");
}

// A reservation is rounded down to slots of each data core.
void warn_of_no_slot(Checking& c, const JobAt& at) {
  const std::uint32_t entries = shared_entries_per_core(c.config.dataplane);
  const std::uint64_t ppm = at.job.quota.reserved_ppm;
  if (!c.sound({"dataplane.shared.slots", "dataplane.cores"})) return;
  if (ppm == 0 || entries == 0 || entries * ppm >= members::kWholePpm) return;
  const std::string path = at.path("quota.reserved");
  const std::uint64_t least = (members::kWholePpm + entries - 1) / entries;
  c.warning(path,
            text::percent_text(at.job.quota.reserved_ppm) + " of the " + std::to_string(entries) +
                " shared slots of each data core are less than one: nothing is reserved",
            "write at least " + text::percent_text(static_cast<std::uint32_t>(least)) +
                ", or raise dataplane.shared.slots");
}

void check_quota(Checking& c, const JobAt& at, std::uint64_t& reserved_ppm) {
  if (!c.sound({at.path("quota.reserved"), at.path("quota.cap")})) return;
  const members::Quota& quota = at.job.quota;
  warn_of_no_slot(c, at);
  const std::uint64_t before = reserved_ppm;
  reserved_ppm += quota.reserved_ppm;
  if (before <= members::kWholePpm && reserved_ppm > members::kWholePpm) {
    c.error(at.path("quota.reserved"),
            "up to this job, " + text::percent_text(static_cast<std::uint32_t>(reserved_ppm)) +
                " of the shared slots are reserved",
            "reserve at most 100% for all jobs together");
  }
}

void check_servers(Checking& c, const JobAt& at) {
  const std::string path = at.path("servers");
  if (at.job.server == ServerKind::kExternal || !c.places.written(path)) return;
  if (!c.sound({path, at.path("server")})) return;
  c.error(path, "servers counts external servers, and this job has none",
          shares_slots(at.job.discipline) ? "remove it, or write server: external" : "remove it");
}

// Jobs whose sums the embedded server may hold, and their windows together.
struct SummedHere {
  std::uint64_t jobs = 0;
  std::uint64_t chunks = 0;
};

SummedHere summed_here(const Config& config) {
  SummedHere all;
  for (const JobConfig& any : config.jobs) {
    const auto* const job = std::get_if<NativeConfig>(&any);
    if (job == nullptr || !shares_slots(job->discipline) || job->server == ServerKind::kExternal) continue;
    ++all.jobs;
    all.chunks += job->window;
  }
  return all;
}

// A job without a state could be kept waiting by others for ever (server/merge_table.cc). With fewer slots and
// states than chunks in flight, what finds no place waits for its timer, again and again.
void check_server_memory(Checking& c) {
  const DataplaneSection& d = c.config.dataplane;
  const SummedHere here = summed_here(c.config);
  const std::uint64_t cores = d.cores.size();
  const std::uint64_t lines = jobs::entry_lines(d.shared.elements);
  const std::uint64_t sums = server_lines_per_core(d) / lines;
  const std::string holds = size_text(d.shared.server) + " hold " + std::to_string(sums) + " sums of " +
                            std::to_string(d.shared.elements) + " elements on each data core, and ";
  const auto for_sums = [&](std::uint64_t per_core) {
    return "write at least " + std::to_string((64 * per_core * lines * cores + kKiB - 1) / kKiB) + "KiB";
  };
  const std::string path = "dataplane.shared.server";
  const std::uint64_t needed = std::max<std::uint64_t>(here.jobs, 1);
  const std::uint64_t in_flight = (here.chunks + cores - 1) / cores;
  const std::uint64_t entries = shared_entries_per_core(d);
  if (sums < needed) {
    c.error(path, holds + "each job that is summed there needs one: " + std::to_string(needed),
            for_sums(needed) + "; 16MiB is usual");
  } else if (sums + entries < in_flight && c.places.sound("jobs")) {
    c.warning(path,
              holds + "the windows of the jobs that are summed there are " + std::to_string(in_flight) +
                  " chunks, of which " + std::to_string(entries) +
                  " have a slot: when packets are lost, a job may stand still for seconds",
              for_sums(in_flight - entries));
  }
}

void check_region(Checking& c, bool used) {
  const DataplaneSection& d = c.config.dataplane;
  const std::string path = "dataplane.shared.slots";
  if (d.shared.slots == 0 || !c.sound({path, "dataplane.cores"})) return;
  const std::uint32_t entries = shared_entries_per_core(d);
  if (entries == 0) {
    c.error(path,
            std::to_string(d.shared.slots) + " shared slots are fewer than the " +
                std::to_string(d.cores.size()) + " data cores, each of which needs one",
            "write at least " + std::to_string(d.cores.size()) + ", or 0 for none");
    return;
  }
  if (!used && c.places.sound("jobs")) {
    c.warning(path, "no job shares slots: their memory lies idle",
              "give a job discipline: shared, or leave the key out");
  }
  const bool sound = c.sound({"dataplane.shared.elements", "dataplane.shared.server"});
  if (sound && has_embedded_server(c.config)) check_server_memory(c);
}

}  // namespace

std::string larger_than_shared(const NativeConfig& job, const SharedSection& shared) {
  return std::to_string(job.elements) + " elements do not fit a shared slot, which holds " +
         std::to_string(shared.elements);
}

void check_all(Checking& c, const NativeConfig& /*usual*/) {
  std::uint64_t reserved_ppm = 0;
  bool used = false;
  for (const auto& [i, job] : jobs_of<NativeConfig>(c.config)) {
    const JobAt at{*job, i};
    if (!c.places.sound(at.path("discipline"))) {
      used = true;  // it may be meant to
      continue;
    }
    const bool shares = shares_slots(job->discipline);
    used = used || shares;
    shares ? check_sharer(c, at) : check_pool(c, at);
    if (shares) check_quota(c, at, reserved_ppm);
    check_servers(c, at);
    check_groups(c, at);
    if (job->discipline != Discipline::kPreemptive && c.places.written(at.path("decay"))) {
      c.error(at.path("decay"), "decay belongs to the discipline preemptive",
              "remove it, or write discipline: preemptive");
    }
  }
  check_region(c, used);
}

// The entries of a pool, a ledger, or nothing.
std::uint32_t lines_of(const Config& config, const NativeConfig& job, std::uint32_t most) {
  const std::uint32_t window = std::min(job.window, most);
  return members::own_lines(job.discipline, window, 2 * window, shards_of(config), job.elements);
}

std::uint64_t bytes_of(const Config& config, std::uint64_t lines_per_core) {
  return lines_per_core * 64 * shards_of(config);
}

std::string slots_text(const Config& config) {
  std::string text = "dataplane.slots is " + size_text(config.dataplane.slots);
  if (lines_shared(config) != 0)
    text += ", of which the shared slots leave " +
            rough_size(bytes_of(config, own_lines_per_core(config.dataplane)));
  return text;
}

namespace {

std::uint32_t lines_wanted(const Config& config, const JobConfig& job,
                           std::uint32_t most = members::kMaxWindow) {
  return jobs::with_dialect(job, [&](const auto& any) { return lines_of(config, any, most); });
}

// Shared slots that leave the jobs their windows, on all cores together.
std::uint64_t most_shared(const Config& config) {
  std::uint64_t own = 0;
  for (const JobConfig& job : config.jobs) own += lines_wanted(config, job);
  const std::uint64_t all = slot_lines_per_core(config.dataplane);
  return (all - std::min(all, own)) / jobs::entry_lines(config.dataplane.shared.elements) * shards_of(config);
}

// False, and reported, if the shared slots take more than there is.
bool check_shared(Checking& c) {
  const std::uint64_t shared = lines_shared(c.config);
  if (shared <= slot_lines_per_core(c.config.dataplane)) return true;
  const DataplaneSection& d = c.config.dataplane;
  const std::string path = "dataplane.shared.slots";
  const std::uint64_t fit = most_shared(c.config);
  c.error(path,
          std::to_string(d.shared.slots) + " shared slots of " + std::to_string(d.shared.elements) +
              " elements take " + rough_size(bytes_of(c.config, shared)) + "; dataplane.slots is " +
              size_text(d.slots),
          (fit == 0 ? std::string("not even one for each data core fits beside the jobs' windows; ")
                    : "at most " + std::to_string(fit) + " fit beside the jobs' windows; otherwise ") +
              "raise dataplane.slots");
  return false;
}

// The largest window that fits an empty box; 0 if none does.
std::uint32_t largest_window(const Config& config, const NativeConfig& job) {
  for (std::uint32_t window = job.window; window >= members::kMinWindow; window /= 2) {
    if (lines_of(config, job, window) <= own_lines_per_core(config.dataplane)) return window;
  }
  return 0;
}

std::string need_text(const Config& config, const NativeConfig& job) {
  const std::string chunks = std::to_string(job.window) + " chunks";
  return (job.discipline == Discipline::kShared
              ? "the ledger for a window of " + chunks
              : "a window of " + chunks + " of " + std::to_string(job.elements) + " elements") +
         " takes " + rough_size(bytes_of(config, lines_of(config, job, job.window))) + " of slots; " +
         slots_text(config);
}

// Windows are wishes, so too little for all of them is no error as long as the smallest ones fit.
void check_together(Checking& c) {
  const std::uint64_t lines = own_lines_per_core(c.config.dataplane);
  std::uint64_t wanted = 0;
  std::uint64_t smallest = 0;
  bool sessions = false;
  bool warned = false;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const JobConfig& job = c.config.jobs[i];
    const auto key = [](const auto& any) { return any.kSizeKey; };
    const std::string path = path_of("jobs", i, jobs::with_dialect(job, key));
    sessions = sessions || !std::holds_alternative<NativeConfig>(job);
    wanted += lines_wanted(c.config, job);
    smallest += lines_wanted(c.config, job, members::kMinWindow);
    if (smallest > lines) {
      c.error(path,
              std::string("up to this job, ") +
                  (sessions ? "the sessions, and windows of 16 for the other jobs, take "
                            : "windows of 16 take ") +
                  rough_size(bytes_of(c.config, smallest)) + " of slots; " + slots_text(c.config),
              "raise dataplane.slots, or declare fewer jobs");
      return;
    }
    if (wanted <= lines || warned) continue;
    warned = true;
    c.warning(path,
              std::string("up to this job, the windows ") + (sessions ? "and sessions take " : "take ") +
                  rough_size(bytes_of(c.config, wanted)) + " of slots; " + slots_text(c.config) +
                  ": jobs of lower priority, and those that form last, get smaller windows",
              "raise dataplane.slots, or lower windows");
  }
}

}  // namespace

bool check_alone(Checking& c, std::size_t index, const NativeConfig& job) {
  const std::string path = path_of("jobs", index, job.kSizeKey);
  if (!c.places.sound(path)) return false;
  const std::uint32_t most = largest_window(c.config, job);
  if (most == job.window) return true;
  c.error(path, need_text(c.config, job),
          (most == 0 ? std::string("not even a window of 16 fits; ")
                     : "the largest window that fits is " + std::to_string(most) + "; otherwise ") +
              "raise dataplane.slots");
  return false;
}

void check_slots(Checking& c) {
  if (!c.sound({"dataplane.slots", "dataplane.cores", "jobs", "dataplane.shared.slots",
                "dataplane.shared.elements"}))
    return;
  bool good = check_shared(c);
  if (!good) return;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const auto fits = [&](const auto& job) { return check_alone(c, i, job); };
    good = c.sound({path_of("jobs", i, "dialect"), path_of("jobs", i, "elements"),
                    path_of("jobs", i, "discipline")}) &&
           jobs::with_dialect(c.config.jobs[i], fits) && good;
  }
  if (good) check_together(c);
}

const Schema<SharedSection>& shared_schema() {
  static const Schema<SharedSection> schema{
      value_key(
          "slots", &SharedSection::slots, whole_number_in<std::uint32_t>(0, members::kMaxSharedSlots),
          "Slots for the jobs of the disciplines shared, fcfs and preemptive, all data cores together, each "
          "of 64 + 4 x elements bytes of `slots` above. 0: none. What the cores do not divide evenly is "
          "left out."),
      value_key("elements", &SharedSection::elements, element_count(),
                "What one of them holds: no job that shares slots has larger packets."),
      value_key(
          "server", &SharedSection::server, size_between(64 * kKiB, 64 * kGiB),
          "Memory of the parameter server inside the box (`server: embedded`), all data cores together. It "
          "is part of `memory`, beside the slots, and is taken when there are shared slots. Each data core "
          "needs room for one sum of each job that is summed there; with less than their chunks in flight "
          "all "
          "goes on, slowly."),
  };
  return schema;
}

}  // namespace tally::config

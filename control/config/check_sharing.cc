// What the discipline of a job asks of its other keys, and jobs that share slots of the box.

#include <string>
#include <utility>

#include "checks.h"
#include "job_table.h"
#include "units.h"

namespace tally {
namespace {

struct JobAt {
  const JobSection& job;
  std::size_t index;

  [[nodiscard]] std::string path(const char* key) const { return path_of("jobs", index, key); }
};

void error_at(Checking& c, const std::string& path, Complaint complaint) {
  c.report.error(c.places.of(path), path, std::move(complaint));
}

// A pool job has nothing to divide with others.
void check_pool(Checking& c, const JobAt& at) {
  const auto refuse = [&](const char* key, const std::string& value, const std::string& only) {
    if (!c.places.sound(at.path(key))) return;
    error_at(
        c, at.path(key),
        {value + ": a quota divides the shared slots, and a job of the discipline pool has slots of its own",
         "write " + only + ", or leave the key out; window says how many slots the job gets"});
  };
  const Quota usual;
  const Quota& quota = at.job.quota;
  if (quota.reserved_ppm != usual.reserved_ppm)
    refuse("quota.reserved", percent_text(quota.reserved_ppm), percent_text(usual.reserved_ppm));
  if (quota.weight != usual.weight)
    refuse("quota.weight", std::to_string(quota.weight), std::to_string(usual.weight));
  if (quota.cap_ppm != usual.cap_ppm)
    refuse("quota.cap", percent_text(quota.cap_ppm), percent_text(usual.cap_ppm));
  if (at.job.server != ServerKind::kNone && c.places.sound(at.path("server"))) {
    error_at(c, at.path("server"),
             {"a job of the discipline pool has no server: none of its contributions is without a slot",
              "write none, or discipline: shared"});
  }
}

void check_stragglers(Checking& c, const JobAt& at) {
  const std::string path = at.path("stragglers");
  if (!at.job.stragglers || !c.places.sound(path)) return;
  if (shares_slots(at.job.discipline)) {
    error_at(c, path,
             {"a job that shares slots cannot send sums without stragglers: its server may hold their values",
              "write off, or discipline: pool"});
  } else if (at.job.stragglers->least > at.job.workers && c.places.sound(at.path("workers"))) {
    error_at(c, path + ".min",
             {"min is " + std::to_string(at.job.stragglers->least) + ", and the job has " +
                  std::to_string(at.job.workers) + " workers",
              "write at most " + std::to_string(at.job.workers)});
  }
}

void check_sharer(Checking& c, const JobAt& at) {
  const SharedSection& shared = c.config.dataplane.shared;
  if (at.job.server == ServerKind::kNone && c.places.sound(at.path("server"))) {
    error_at(c, at.path("server"),
             {"a job that shares slots needs a server for what finds none",
              "write embedded or external, or discipline: pool"});
  }
  if (shared.slots == 0 && c.places.sound("dataplane.shared.slots")) {
    error_at(c, at.path("discipline"),
             {"the box has no shared slots",
              "write dataplane: {shared: {slots: 4096}}, or leave discipline out for slots of its own"});
  }
  const bool sound = c.places.sound(at.path("elements")) && c.places.sound("dataplane.shared.elements");
  if (sound && at.job.elements > shared.elements) {
    error_at(c, at.path("elements"),
             {std::to_string(at.job.elements) + " elements do not fit a shared slot, which holds " +
                  std::to_string(shared.elements),
              "write at most " + std::to_string(shared.elements) + ", or raise dataplane.shared.elements"});
  }
}

// A reservation is rounded down to slots of each data core.
void warn_of_no_slot(Checking& c, const JobAt& at) {
  const std::uint32_t entries = shared_entries_per_core(c.config.dataplane);
  const std::uint64_t ppm = at.job.quota.reserved_ppm;
  if (!c.places.sound("dataplane.shared.slots") || !c.places.sound("dataplane.cores")) return;
  if (ppm == 0 || entries == 0 || entries * ppm >= kWholePpm) return;
  const std::string path = at.path("quota.reserved");
  const std::uint64_t least = (kWholePpm + entries - 1) / entries;
  c.report.warning(c.places.of(path), path,
                   {percent_text(at.job.quota.reserved_ppm) + " of the " + std::to_string(entries) +
                        " shared slots of each data core are less than one: nothing is reserved",
                    "write at least " + percent_text(static_cast<std::uint32_t>(least)) +
                        ", or raise dataplane.shared.slots"});
}

void check_quota(Checking& c, const JobAt& at, std::uint64_t& reserved_ppm) {
  if (!c.places.sound(at.path("quota.reserved")) || !c.places.sound(at.path("quota.cap"))) return;
  const Quota& quota = at.job.quota;
  warn_of_no_slot(c, at);
  if (quota.cap_ppm < quota.reserved_ppm) {
    const std::string path = at.path(c.places.written(at.path("quota.cap")) ? "quota.cap" : "quota.reserved");
    error_at(c, path,
             {"the job may hold " + percent_text(quota.cap_ppm) + " of the shared slots, and " +
                  percent_text(quota.reserved_ppm) + " are reserved for it",
              "raise cap or lower reserved"});
  }
  const std::uint64_t before = reserved_ppm;
  reserved_ppm += quota.reserved_ppm;
  if (before <= kWholePpm && reserved_ppm > kWholePpm) {
    error_at(c, at.path("quota.reserved"),
             {"up to this job, " + percent_text(static_cast<std::uint32_t>(reserved_ppm)) +
                  " of the shared slots are reserved",
              "reserve at most 100% for all jobs together"});
  }
}

void check_servers(Checking& c, const JobAt& at) {
  const std::string path = at.path("servers");
  if (at.job.server == ServerKind::kExternal || !c.places.written(path)) return;
  if (!c.places.sound(path) || !c.places.sound(at.path("server"))) return;
  error_at(c, path,
           {"servers counts external servers, and this job has none",
            shares_slots(at.job.discipline) ? "remove it, or write server: external" : "remove it"});
}

void check_region(Checking& c, bool used) {
  const DataplaneSection& d = c.config.dataplane;
  const std::string path = "dataplane.shared.slots";
  if (d.shared.slots == 0 || !c.places.sound(path) || !c.places.sound("dataplane.cores")) return;
  const std::uint32_t entries = shared_entries_per_core(d);
  if (entries == 0) {
    error_at(c, path,
             {std::to_string(d.shared.slots) + " shared slots are fewer than the " +
                  std::to_string(d.cores.size()) + " data cores, each of which needs one",
              "write at least " + std::to_string(d.cores.size()) + ", or 0 for none"});
    return;
  }
  if (!used && c.places.sound("jobs")) {
    c.report.warning(c.places.of(path), path,
                     {"no job shares slots: their memory lies idle",
                      "give a job discipline: shared, or leave the key out"});
  }
  const bool sound = c.places.sound("dataplane.shared.elements") && c.places.sound("dataplane.shared.server");
  if (!sound || !has_embedded_server(c.config) || server_lines_per_core(d) >= entry_lines(d.shared.elements))
    return;
  const std::uint64_t least = std::uint64_t{64} * entry_lines(d.shared.elements) * d.cores.size();
  error_at(c, "dataplane.shared.server",
           {size_text(d.shared.server) + " hold not even one sum of " + std::to_string(d.shared.elements) +
                " elements on each data core",
            "write at least " + std::to_string((least + kKiB - 1) / kKiB) + "KiB; 16MiB is usual"});
}

}  // namespace

void check_sharing(Checking& c) {
  std::uint64_t reserved_ppm = 0;
  bool used = false;
  for (std::size_t i = 0; i < c.config.jobs.size(); ++i) {
    const JobAt at{c.config.jobs[i], i};
    if (is_session(at.job)) continue;
    if (!c.places.sound(at.path("discipline"))) {
      used = true;  // it may be meant to
      continue;
    }
    const bool shares = shares_slots(at.job.discipline);
    used = used || shares;
    shares ? check_sharer(c, at) : check_pool(c, at);
    if (shares) check_quota(c, at, reserved_ppm);
    check_servers(c, at);
    check_stragglers(c, at);
    if (at.job.discipline != Discipline::kPreemptive && c.places.written(at.path("decay"))) {
      error_at(c, at.path("decay"),
               {"decay belongs to the discipline preemptive", "remove it, or write discipline: preemptive"});
    }
  }
  check_region(c, used);
}

}  // namespace tally

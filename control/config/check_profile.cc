#include <algorithm>
#include <string>

#include "checks.h"
#include "fit.h"
#include "job_table.h"

namespace tally {
namespace {

void complain_of_fit(Checking& c, std::string what, const char* to_fit) {
  const std::string path = "dataplane.profile";
  const Position at = c.places.of(path);
  if (c.config.dataplane.strict) {
    c.report.error(
        at, path,
        {std::move(what), std::string(to_fit) + ", choose another profile, or write strict: false"});
  } else {
    c.report.warning(at, path, {std::move(what), "it runs here all the same; strict: true would refuse it"});
  }
}

}  // namespace

void check_profile(Checking& c) {
  const DataplaneSection& d = c.config.dataplane;
  const auto profile = profile_named(d.profile);
  if (!profile || !profile->limited || c.config.jobs.empty() || c.report.has_errors()) return;
  if (std::any_of(c.config.jobs.begin(), c.config.jobs.end(), is_session)) {
    complain_of_fit(
        c, "whether the sessions of SwitchML's clients fit " + d.profile + " is not computed in this version",
        "remove the sessions");
  }
  std::uint64_t entries = 0;  // on one core
  std::uint32_t elements = 0;
  for (const auto& job : c.config.jobs) {
    if (is_session(job) || shares_slots(job.discipline)) continue;
    entries += pool_entries(job.window, static_cast<std::uint32_t>(d.cores.size()));
    elements = std::max<std::uint32_t>(elements, job.elements);
  }
  if (const std::uint32_t shared = shared_entries_per_core(d); shared != 0) {
    entries += shared;
    elements = std::max<std::uint32_t>(elements, d.shared.elements);
  }
  if (entries == 0) return;
  const FitReport report = fit(pool_program(entries, elements, kMaxJobs + 1, *profile), *profile);
  if (report.fits()) return;
  std::string why;
  for (const auto& violation : report.violations) why += (why.empty() ? "" : "; ") + violation;
  complain_of_fit(c, "the program does not fit " + d.profile + ": " + why, "lower windows or elements");
}

}  // namespace tally

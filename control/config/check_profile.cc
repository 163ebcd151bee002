#include <algorithm>
#include <string>

#include "checks.h"
#include "fit.h"
#include "job_table.h"

namespace tally {

void check_profile(Checking& c) {
  const DataplaneSection& d = c.config.dataplane;
  const auto profile = profile_named(d.profile);
  if (!profile || !profile->limited || c.config.jobs.empty() || c.report.has_errors()) return;
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
  const FitReport report = fit(pool_program(entries, elements, kMaxJobs + 1, *profile), *profile);
  if (report.fits()) return;
  std::string why;
  for (const auto& violation : report.violations) why += (why.empty() ? "" : "; ") + violation;
  Complaint complaint{"the program does not fit " + d.profile + ": " + why, ""};
  const Position at = c.places.of("dataplane.profile");
  if (d.strict) {
    complaint.help = "lower windows or elements, choose another profile, or write strict: false";
    c.report.error(at, "dataplane.profile", std::move(complaint));
  } else {
    complaint.help = "it runs here all the same; strict: true would refuse it";
    c.report.warning(at, "dataplane.profile", std::move(complaint));
  }
}

}  // namespace tally

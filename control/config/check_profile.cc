#include <algorithm>
#include <string>

#include "checks.h"
#include "fit.h"
#include "job_table.h"

namespace tally {
namespace {

// to_fit: what helps.
void complain_of_fit(Checking& c, const std::string& program, const FitReport& report, const char* to_fit) {
  std::string what = program + " does not fit " + c.config.dataplane.profile + ": ";
  for (std::size_t i = 0; i < report.violations.size(); ++i)
    what += (i == 0 ? "" : "; ") + report.violations[i];
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

// All native jobs.
void check_native(Checking& c, const Profile& profile) {
  const DataplaneSection& d = c.config.dataplane;
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
  const FitReport report = fit(pool_program(entries, elements, kMaxJobs + 1, profile), profile);
  if (!report.fits()) complain_of_fit(c, "the program", report, "lower windows or elements");
}

// All sessions with this rule. Which of them share a core follows from job ids, and those from the order in
// which jobs come and go: they are taken to share one.
void check_sessions(Checking& c, TsiRule tsi, const Profile& profile) {
  std::uint64_t entries = 0;
  std::uint32_t payload = 0;
  std::size_t members = 0;
  for (const auto& job : c.config.jobs) {
    if (!is_session(job) || job.tsi != tsi) continue;
    entries += 2 * std::uint64_t{job.slots};
    payload = std::max<std::uint32_t>(payload, job.payload);
    members = std::max(members, job.members.size());
  }
  if (entries == 0) return;
  const FitReport report =
      fit(session_program(entries, payload / 4, static_cast<std::uint32_t>(members), tsi, profile), profile);
  if (report.fits()) return;
  const bool too_wide = std::any_of(report.violations.begin(), report.violations.end(),
                                    [](const std::string& v) { return v.starts_with("word: "); });
  complain_of_fit(
      c,
      std::string("the program of the sessions with tsi: ") + (tsi == TsiRule::kOpaque ? "opaque" : "packet"),
      report, too_wide ? "remove these sessions" : "lower slots or payload, remove some of these sessions");
}

}  // namespace

void check_profile(Checking& c) {
  const auto profile = profile_named(c.config.dataplane.profile);
  if (!profile || !profile->limited || c.config.jobs.empty() || c.report.has_errors()) return;
  check_native(c, *profile);
  check_sessions(c, TsiRule::kPacket, *profile);
  check_sessions(c, TsiRule::kOpaque, *profile);
}

}  // namespace tally

// Would the program fit a real chip? tally_fit_report [PROFILE [ELEMENTS [WINDOW]]]; without arguments: ours,
// with as many entries and for one job, and SwitchML's on every profile. That of sessions only if their
// clients can have packets of so many elements.
// tally_fit_report --hot FILE [KEYS [PROFILE [ELEMENTS]]]: how many packets of KEYS hot keys would go through it twice.

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "fit_programs.h"
#include "hot_keys.h"
#include "jobs/job_table.h"
#include "tally/switchml.h"

namespace {

constexpr std::uint32_t kMembers = 8;  // of a session
constexpr std::uint32_t kPlans = 16;   // jobs over several boxes
constexpr std::uint32_t kHotKeys = 8;  // of a packet

bool parse(const char* text, std::uint32_t& value) {
  const char* const end = text + std::strlen(text);
  return std::from_chars(text, end, value).ptr == end;
}

int usage() {
  std::fputs(
      "usage: tally_fit_report [tofino1|tofino2|commodity [ELEMENTS [WINDOW]]]\n"
      "       tally_fit_report --hot FILE [KEYS [tofino1|tofino2|commodity [ELEMENTS]]]\n",
      stderr);
  return 2;
}

// arguments: behind --hot.
int report_hot(const std::vector<const char*>& arguments) {
  using namespace tally;
  std::uint32_t keys = kHotKeys;
  std::uint32_t elements = 256;
  const std::size_t n = arguments.size();
  if (n == 0 || n > 4 || (n > 1 && (!parse(arguments[1], keys) || keys == 0)) ||
      (n > 2 && !pipeline::profile_named(arguments[2])) ||
      (n > 3 && (!parse(arguments[3], elements) || elements == 0)))
    return usage();
  const auto batches = bench::load_batches(arguments[0]);
  if (!batches) {
    std::fprintf(stderr, "%s\n", batches.error().text().c_str());
    return 1;
  }
  for (const pipeline::Profile& profile : pipeline::kProfiles) {
    if (n > 2 && profile.name != arguments[2]) continue;
    std::printf("hot keys of %s on %s\n%s\n", arguments[0], std::string(profile.name).c_str(),
                bench::hot_text(*batches, keys, profile, elements).c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tally;
  if (argc > 1 && std::strcmp(argv[1], "--hot") == 0) return report_hot({argv + 2, argv + argc});
  std::uint32_t elements = 256;
  std::uint32_t window = 256;
  if (argc > 4 || (argc > 2 && !parse(argv[2], elements)) || (argc > 3 && !parse(argv[3], window)) ||
      (argc > 1 && !pipeline::profile_named(argv[1]))) {
    return usage();
  }
  const std::uint32_t entries = jobs::pool_entries(window, 1);
  const std::uint32_t rows = kMaxJobs + 1;
  for (const pipeline::Profile& profile : pipeline::kProfiles) {
    if (argc > 1 && profile.name != argv[1]) continue;
    const auto print = [&profile](const bench::ToldProgram& told) {
      std::printf("%s on %s\n%s\n", told.name.c_str(), std::string(profile.name).c_str(),
                  bench::to_text(pipeline::fit(told.need, profile), told.remarks).c_str());
    };
    print(bench::pool_program(entries, elements, rows, profile));
    print(bench::straggler_program(entries, elements, rows, profile));
    print(bench::shared_program(entries, 2 * std::uint64_t{window}, elements, rows, profile));
    print(bench::planned_program(entries, 2 * std::uint64_t{window}, elements, rows, kPlans, profile));
    for (const auto tsi : {jobs::TsiRule::kPacket, jobs::TsiRule::kOpaque})
      if (switchml::valid_payload(4 * elements))
        print(bench::session_program(entries, elements, kMembers, tsi, profile));
    print(bench::switchml_program(16'384, elements));
  }
  return 0;
}

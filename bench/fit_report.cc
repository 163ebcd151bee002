// Would the program fit a real chip? tally_fit_report [PROFILE [ELEMENTS [WINDOW]]]; without arguments: ours,
// with as many entries and for one job, and SwitchML's on every profile. That of sessions only if their
// clients can have packets of so many elements.

#include <charconv>
#include <cstdio>
#include <cstring>

#include "jobs/job_table.h"
#include "pipeline/fit.h"

namespace {

constexpr std::uint32_t kMembers = 8;  // of a session

bool parse(const char* text, std::uint32_t& value) {
  const char* const end = text + std::strlen(text);
  return std::from_chars(text, end, value).ptr == end;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint32_t elements = 256;
  std::uint32_t window = 256;
  if (argc > 4 || (argc > 2 && !parse(argv[2], elements)) || (argc > 3 && !parse(argv[3], window)) ||
      (argc > 1 && !tally::pipeline::profile_named(argv[1]))) {
    std::fputs("usage: tally_fit_report [tofino1|tofino2|commodity [ELEMENTS [WINDOW]]]\n", stderr);
    return 2;
  }
  for (const auto& profile : tally::pipeline::kProfiles) {
    if (argc > 1 && profile.name != argv[1]) continue;
    std::printf("%s\n",
                tally::pipeline::to_text(tally::pipeline::fit(tally::pipeline::pool_program(
                                                                  tally::jobs::pool_entries(window, 1),
                                                                  elements, tally::kMaxJobs + 1, profile),
                                                              profile))
                    .c_str());
    std::printf("%s\n",
                tally::pipeline::to_text(tally::pipeline::fit(tally::pipeline::straggler_program(
                                                                  tally::jobs::pool_entries(window, 1),
                                                                  elements, tally::kMaxJobs + 1, profile),
                                                              profile))
                    .c_str());
    std::printf("%s\n",
                tally::pipeline::to_text(
                    tally::pipeline::fit(tally::pipeline::shared_program(tally::jobs::pool_entries(window, 1),
                                                                         2 * std::uint64_t{window}, elements,
                                                                         tally::kMaxJobs + 1, profile),
                                         profile))
                    .c_str());
    for (const auto tsi : {tally::jobs::TsiRule::kPacket, tally::jobs::TsiRule::kOpaque}) {
      if (!tally::switchml::valid_payload(4 * elements)) break;
      const auto entries = tally::jobs::pool_entries(window, 1);
      std::printf("%s\n", tally::pipeline::to_text(
                              tally::pipeline::fit(
                                  tally::pipeline::session_program(entries, elements, kMembers, tsi, profile),
                                  profile))
                              .c_str());
    }
    std::printf("%s\n",
                tally::pipeline::to_text(
                    tally::pipeline::fit(tally::pipeline::switchml_program(16'384, elements), profile))
                    .c_str());
  }
  return 0;
}

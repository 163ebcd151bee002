// The packet fixtures of tests/fixtures on every execution of the pipeline and every kernel table: verdict,
// drop reason, each byte that leaves, the one counter, occupancy, leases and events. The expectations were
// made by an independent implementation of docs/protocol.md in Python.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <string>

#include "fixture_file.h"
#include "fixture_run.h"
#include "fused.h"
#include "staged.h"
#include "tally/drop.h"
#include "tally/verdict.h"

namespace tally::fixture {

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

namespace {

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = read_fixtures(TALLY_FIXTURE_DIRECTORY);
  return cases;
}

class PipelineFixture : public testing::TestWithParam<Case> {};

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) out += "\n  " + line;
  return out;
}

TEST_P(PipelineFixture, Holds) {
  const Case& c = GetParam();
  ASSERT_TRUE(c.unreadable.empty()) << c.unreadable;
  const auto judge = [&](const std::vector<std::string>& differences, const std::string& execution) {
    if (c.disagrees.empty()) {
      EXPECT_TRUE(differences.empty()) << execution << joined(differences);
    } else {
      EXPECT_FALSE(differences.empty()) << execution << " agrees by now; the fixture says: " << c.disagrees;
    }
  };
  for (const Kernels* kernels : usable_kernels()) {
    judge(run_case<Fused>(c, *kernels), "fused, " + std::string(kernels->name));
  }
  judge(run_case<Staged>(c, *usable_kernels().front()), "staged");
  if (!c.disagrees.empty() && !HasFailure()) GTEST_SKIP() << "known disagreement: " << c.disagrees;
}

INSTANTIATE_TEST_SUITE_P(Table, PipelineFixture, testing::ValuesIn(all_cases()),
                         [](const auto& case_info) { return case_info.param.name; });

TEST(PipelineFixtures, NameEveryVerdictAndDrop) {
  std::set<std::string> named;
  for (const Case& c : all_cases()) {
    for (const CaseStep& step : c.steps) {
      if (!step.expected.empty()) named.insert(step.expected.front());
    }
  }
  for (const auto name : kDropNames) EXPECT_TRUE(named.contains("verdict drop " + std::string(name))) << name;
  // Fixtures are of the pool discipline, which has no server and takes nobody's entry.
  const std::set<std::string_view> elsewhere{"drop", name_of(Verdict::kBypass), name_of(Verdict::kEvict)};
  for (const auto name : kVerdictNames) {
    const bool found = elsewhere.contains(name) || named.contains("verdict " + std::string(name));
    EXPECT_TRUE(found) << name;
  }
}

}  // namespace
}  // namespace tally::fixture

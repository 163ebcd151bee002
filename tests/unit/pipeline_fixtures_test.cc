// The packet fixtures of tests/fixtures on every execution of the pipeline and every kernel table: verdict,
// drop reason, each byte that leaves, the one counter, occupancy, leases and events. The expectations were
// made by an independent implementation of docs/protocol.md in Python.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <string>

#include "fixture_file.h"
#include "fixture_run.h"
#include "pipeline/fused.h"
#include "pipeline/staged.h"
#include "tally/counters.h"

namespace tally::fixture {

void PrintTo(const CaseName& c, std::ostream* out) { *out << c.name; }

namespace {

const std::vector<CaseName>& all_names() {
  static const std::vector<CaseName> names = names_of_cases(TALLY_FIXTURE_DIRECTORY);
  return names;
}

const std::vector<Case>& cases_of(const std::filesystem::path& file) {
  static std::map<std::filesystem::path, std::vector<Case>> read;
  auto found = read.find(file);
  if (found == read.end()) found = read.emplace(file, read_fixtures(file)).first;
  return found->second;
}

class PipelineFixture : public testing::TestWithParam<CaseName> {};

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) out += "\n  " + line;
  return out;
}

TEST_P(PipelineFixture, Holds) {
  const auto& cases = cases_of(GetParam().file);
  const auto found =
      std::find_if(cases.begin(), cases.end(), [](const Case& one) { return one.name == GetParam().name; });
  ASSERT_NE(found, cases.end());
  const Case& c = *found;
  const auto judge = [&](const std::vector<std::string>& differences, const std::string& execution) {
    if (c.disagrees.empty()) {
      EXPECT_TRUE(differences.empty()) << execution << joined(differences);
    } else {
      EXPECT_FALSE(differences.empty()) << execution << " agrees by now; the fixture says: " << c.disagrees;
    }
  };
  for (const kernels::Kernels* kernels : kernels::usable_kernels()) {
    judge(run_case<pipeline::Fused>(c, *kernels), "fused, " + std::string(kernels->name));
  }
  judge(run_case<pipeline::Staged>(c, *kernels::usable_kernels().front()), "staged");
  if (!c.disagrees.empty() && !HasFailure()) GTEST_SKIP() << "known disagreement: " << c.disagrees;
}

INSTANTIATE_TEST_SUITE_P(Table, PipelineFixture, testing::ValuesIn(all_names()),
                         [](const auto& case_info) { return case_info.param.name; });

TEST(PipelineFixtures, NameEveryVerdictAndDrop) {
  std::set<std::string> named;
  std::set<std::filesystem::path> files;
  for (const CaseName& name : all_names()) files.insert(name.file);
  for (const auto& file : files) {
    for (const Case& c : cases_of(file)) {
      for (const CaseStep& step : c.steps) {
        if (!step.expected.empty()) named.insert(step.expected.front());
      }
    }
  }
  for (const auto name : kDropNames) {
    // Take hundreds of packets: source_limiter_test, pipeline_rate_test.
    const bool budget = name.ends_with("_budget") || name.ends_with("_rate");
    EXPECT_TRUE(budget || named.contains("verdict drop " + std::string(name))) << name;
  }
  // Fixtures are of the pool discipline, which has no server and takes nobody's entry.
  const std::set<std::string_view> elsewhere{"drop", name_of(Verdict::kBypass), name_of(Verdict::kEvict)};
  for (const auto name : kVerdictNames) {
    const bool found = elsewhere.contains(name) || named.contains("verdict " + std::string(name));
    EXPECT_TRUE(found) << name;
  }
}

}  // namespace
}  // namespace tally::fixture

// Every mistake that a file of a cluster can have, by its message: tests/golden/cluster. And its reference.

#include <cstdlib>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster_file.h"
#include "golden_cases.h"

namespace tally::cluster {
namespace {

class ClusterMistake : public testing::TestWithParam<std::string> {};

TEST_P(ClusterMistake, GivesItsMessage) {
  const std::string& name = GetParam();
  const auto loaded = load_cluster_text(golden::find_case(TALLY_CLUSTER_GOLDEN, name).yaml, name + ".yaml");
  EXPECT_FALSE(loaded.has_value());
  golden::expect_case(TALLY_CLUSTER_GOLDEN, name, loaded ? "nothing\n" : config::to_text(loaded.error()));
}

INSTANTIATE_TEST_SUITE_P(Golden, ClusterMistake, testing::ValuesIn(golden::names(TALLY_CLUSTER_GOLDEN)),
                         [](const auto& one) { return one.param; });

TEST(ClusterGolden, HasAnExpectationForEachMistakeAndNoOther) {
  const golden::Cases cases = golden::read_cases(TALLY_CLUSTER_GOLDEN);
  EXPECT_THAT(cases.mistakes, testing::IsEmpty());
  EXPECT_GE(cases.all.size(), 60U);
}

TEST(ClusterGolden, ThePageHasEveryKey) {
  std::string page = golden::contents(TALLY_CLUSTER_PAGE);
  const std::string reference = cluster_reference();
  if (golden::updating()) {
    const std::size_t begin = page.find("\n## Top level\n");
    ASSERT_NE(begin, std::string::npos);
    page.replace(begin, std::string::npos, reference);
    std::ofstream(TALLY_CLUSTER_PAGE, std::ios::binary) << page;
  }
  EXPECT_TRUE(page.ends_with(reference)) << "UPDATE_GOLDEN=1 writes it; it is\n" << reference;
}

}  // namespace
}  // namespace tally::cluster

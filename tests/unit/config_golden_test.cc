// Every mistake that a configuration can have, by its message: tests/golden/config.

#include <fstream>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load_config.h"
#include "golden_cases.h"

namespace tally {
namespace {

using golden::Cases;
using golden::parsed;

class ConfigMistake : public testing::TestWithParam<std::string> {};

TEST_P(ConfigMistake, GivesItsMessage) {
  const std::string& name = GetParam();
  const auto result =
      config::load_config_text(golden::find_case(TALLY_GOLDEN_DIRECTORY, name).yaml, name + ".yaml");
  EXPECT_EQ(result.has_value(), name.starts_with("warning_"));
  const std::string seen = config::to_text(result ? result->warnings : result.error());
  golden::expect_case(TALLY_GOLDEN_DIRECTORY, name, seen);
}

INSTANTIATE_TEST_SUITE_P(Golden, ConfigMistake, testing::ValuesIn(golden::names(TALLY_GOLDEN_DIRECTORY)),
                         [](const auto& one) { return one.param; });

TEST(ConfigGolden, HasAnExpectationForEachMistakeAndNoOther) {
  const Cases cases = golden::read_cases(TALLY_GOLDEN_DIRECTORY);
  EXPECT_THAT(cases.mistakes, testing::IsEmpty());
  EXPECT_GE(cases.all.size(), 200U);
}

TEST(ConfigGolden, ReadsCases) {
  const std::string text =
      "# About.\n=== one\na: \\x41\n\n--- expected\nmessage\n=== two (escaped)\n\\xFFa\n\\x00\\\n--- "
      "expected\n";
  const Cases cases = parsed("f.cases", text);
  EXPECT_THAT(cases.mistakes, testing::IsEmpty());
  ASSERT_EQ(cases.all.size(), 2U);
  EXPECT_EQ(cases.all[0].name, "one");
  EXPECT_EQ(cases.all[0].yaml, "a: \\x41\n\n");
  EXPECT_EQ(cases.all[0].expected, "message\n");
  EXPECT_EQ(text.substr(cases.all[0].expected_at, 8), "message\n");
  EXPECT_EQ(cases.all[1].name, "two");
  EXPECT_EQ(cases.all[1].yaml, std::string("\xFF"
                                           "a\n\0",
                                           4));
  EXPECT_EQ(cases.all[1].expected, "");
}

TEST(ConfigGolden, NamesWhatIsNoCase) {
  const auto mistakes = [](std::string_view text) { return parsed("f.cases", text).mistakes; };
  using testing::ElementsAre;
  EXPECT_THAT(mistakes("=== a\nx: 1\n=== b\n--- expected\n"),
              ElementsAre("f.cases: a: no line '--- expected'"));
  EXPECT_THAT(mistakes("=== a\n--- expected\nx\n--- expected\n"),
              ElementsAre("f.cases: a: a second line '--- expected'"));
  EXPECT_THAT(mistakes("x: 1\n=== a\n--- expected\n"),
              ElementsAre("f.cases: text in front of the first case"));
  EXPECT_THAT(mistakes("=== a\n--- expected\nx"), ElementsAre("f.cases: the last line has no end"));
  for (const char* bad : {"\\n", "\\x", "\\x4", "\\x4G", "\\X41", "\\x41\\"}) {
    EXPECT_THAT(mistakes("=== a (escaped)\n" + std::string(bad) + "z\n--- expected\n"),
                ElementsAre("f.cases: a: a backslash that is neither \\xHH nor the end of a line"));
  }
}

TEST(ConfigGolden, Reference) {
  const std::string seen = config::reference_markdown();
  if (golden::updating()) std::ofstream(TALLY_CONFIG_REFERENCE, std::ios::binary) << seen;
  EXPECT_EQ(seen, golden::contents(TALLY_CONFIG_REFERENCE))
      << "docs/configuration.md; UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace
}  // namespace tally

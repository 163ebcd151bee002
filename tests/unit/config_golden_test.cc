// One expected message per kind of mistake: tests/golden/config/NAME.yaml gives exactly NAME.expected.
// UPDATE_GOLDEN=1 writes the .expected files instead; read the difference before you keep it.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "load_config.h"

namespace tally {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

void golden(const std::string& name, const std::string& seen) {
  const fs::path path = fs::path(TALLY_GOLDEN_DIRECTORY) / name;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << seen;
  EXPECT_EQ(seen, contents(path)) << "of " << name << "; UPDATE_GOLDEN=1 rewrites it";
}

std::vector<std::string> cases() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(TALLY_GOLDEN_DIRECTORY)) {
    if (entry.path().extension() == ".yaml") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

class ConfigMistake : public testing::TestWithParam<std::string> {};

TEST_P(ConfigMistake, GivesItsMessage) {
  const std::string file = GetParam() + ".yaml";
  const auto result = load_config_text(contents(fs::path(TALLY_GOLDEN_DIRECTORY) / file), file);
  EXPECT_EQ(result.has_value(), GetParam().starts_with("warning_"));
  golden(GetParam() + ".expected", to_text(result ? result->warnings : result.error()));
}

INSTANTIATE_TEST_SUITE_P(Golden, ConfigMistake, testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param; });

TEST(ConfigGolden, HasAnExpectationForEachMistakeAndNoOther) {
  EXPECT_GE(cases().size(), 45U);
  for (const auto& entry : fs::directory_iterator(TALLY_GOLDEN_DIRECTORY)) {
    if (entry.path().extension() != ".expected") continue;
    EXPECT_TRUE(fs::exists(fs::path(entry.path()).replace_extension(".yaml"))) << entry.path();
  }
}

TEST(ConfigGolden, Reference) { golden("configuration.md", reference_markdown()); }

}  // namespace
}  // namespace tally

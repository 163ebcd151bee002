// What docs/first_steps.md tells a user to write must work as written.

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "config/load_config.h"

namespace tally {
namespace {

// The bodies of the fenced blocks of one language.
std::vector<std::string> fenced(const std::string& path, const std::string& language) {
  std::vector<std::string> blocks;
  std::ifstream in(path);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (!inside && line == "```" + language) {
      blocks.emplace_back();
      inside = true;
    } else if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

TEST(FirstSteps, ConfigurationExamplesLoadWithoutAComplaint) {
  const auto examples = fenced(TALLY_FIRST_STEPS, "yaml");
  ASSERT_FALSE(examples.empty());
  for (const auto& example : examples) {
    const auto loaded = config::load_config_text(example, "first_steps.md");
    ASSERT_TRUE(loaded.has_value()) << config::to_text(loaded.error());
    EXPECT_TRUE(loaded->warnings.empty()) << config::to_text(loaded->warnings);
  }
}

}  // namespace
}  // namespace tally

// One expected message per kind of mistake, in tests/golden/config/*.cases. Such a file begins with '#' and
// what it is about; then each case is
//
//   === NAME                       a test of its own has this name
//   instance: rack1                the configuration, read as if it were the file NAME.yaml
//   --- expected
//   NAME.yaml:1:1: error: ...      all that the reader says to it
//
// '=== NAME (escaped)' is for bytes that a text cannot hold: in the configuration \xHH is a byte then, and a
// \ at the end of a line takes the line's end away. Nothing else begins a line with '=== ' or is a line '---
// expected'.
//
// UPDATE_GOLDEN=1 writes what is behind '--- expected' instead, also if nothing is there yet; read the
// difference before you keep it.

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load_config.h"

namespace tally {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCase = "=== ";
constexpr std::string_view kEscaped = " (escaped)";
constexpr std::string_view kExpected = "--- expected";

struct Case {
  fs::path file;
  std::string name;
  bool escaped = false;
  bool has_expectation = false;
  std::string yaml;
  std::size_t expected_at = 0;  // in the file
  std::string expected;
};

struct Cases {
  std::vector<Case> all;
  std::vector<std::string> mistakes;
};

bool updating() { return std::getenv("UPDATE_GOLDEN") != nullptr; }

std::string contents(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::optional<std::string> unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
    } else if (text.substr(i + 1, 1) == "\n") {
      ++i;
    } else {
      const std::string digits(text.substr(i + 1, 3));
      if (digits.size() != 3 || digits[0] != 'x' ||
          digits.find_first_not_of("0123456789ABCDEF", 1) != std::string::npos) {
        return std::nullopt;
      }
      out += static_cast<char>(std::stoi(digits.substr(1), nullptr, 16));
      i += 3;
    }
  }
  return out;
}

Cases parsed(const fs::path& file, std::string_view text) {
  Cases out;
  const auto mistake = [&](const std::string& what) {
    const std::string where = out.all.empty() ? "" : out.all.back().name + ": ";
    out.mistakes.push_back(file.filename().string() + ": " + where + what);
  };
  const auto end_case = [&] {
    if (out.all.empty()) return;
    Case& last = out.all.back();
    if (!last.has_expectation) mistake("no line '--- expected'");
    if (!last.escaped) return;
    const auto bytes = unescaped(last.yaml);
    if (!bytes) mistake("a backslash that is neither \\xHH nor the end of a line");
    last.yaml = bytes.value_or("");
  };
  if (!text.ends_with('\n')) mistake("the last line has no end");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = text.substr(at, next - at);
    at = next;
    if (line.starts_with(kCase)) {
      end_case();
      std::string_view name = line.substr(kCase.size(), line.size() - kCase.size() - 1);
      const bool escaped = name.ends_with(kEscaped);
      if (escaped) name.remove_suffix(kEscaped.size());
      out.all.push_back({.file = file, .name = std::string(name), .escaped = escaped});
    } else if (out.all.empty()) {
      if (!line.starts_with('#')) mistake("text in front of the first case");
    } else if (line == std::string(kExpected) + "\n") {
      if (out.all.back().has_expectation) mistake("a second line '--- expected'");
      out.all.back().has_expectation = true;
      out.all.back().expected_at = at;
    } else {
      Case& open = out.all.back();
      (open.has_expectation ? open.expected : open.yaml) += line;
    }
  }
  end_case();
  return out;
}

Cases read_cases() {
  Cases out;
  for (const auto& entry : fs::directory_iterator(TALLY_GOLDEN_DIRECTORY)) {
    if (entry.path().extension() != ".cases") {
      out.mistakes.push_back(entry.path().string() + ": no file of cases");
      continue;
    }
    Cases more = parsed(entry.path(), contents(entry.path()));
    out.all.insert(out.all.end(), more.all.begin(), more.all.end());
    out.mistakes.insert(out.mistakes.end(), more.mistakes.begin(), more.mistakes.end());
  }
  return out;
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Case& one : read_cases().all) out.push_back(one.name);
  std::sort(out.begin(), out.end());
  return out;
}

Case find_case(const std::string& name) {
  const auto cases = read_cases().all;
  return *std::find_if(cases.begin(), cases.end(), [&](const Case& one) { return one.name == name; });
}

// Under ctest each case is a process of its own, and several run at a time: one rewrites after the other, and
// those that only read find the old file or the new one whole.
void rewrite_expectation(const std::string& name, const std::string& seen) {
  const int directory = open(TALLY_GOLDEN_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(directory, LOCK_EX), 0);
  const Case one = find_case(name);
  ASSERT_TRUE(one.has_expectation) << name << ": add a line '--- expected' for it";
  std::string text = contents(one.file);
  text.replace(one.expected_at, one.expected.size(), seen);
  if (text != contents(one.file)) {
    const std::string fresh = std::string(TALLY_GOLDEN_DIRECTORY) + "-rewritten";
    std::ofstream(fresh, std::ios::binary) << text;
    fs::rename(fresh, one.file);
  }
  close(directory);
}

class ConfigMistake : public testing::TestWithParam<std::string> {};

TEST_P(ConfigMistake, GivesItsMessage) {
  const std::string& name = GetParam();
  const auto result = config::load_config_text(find_case(name).yaml, name + ".yaml");
  EXPECT_EQ(result.has_value(), name.starts_with("warning_"));
  const std::string seen = config::to_text(result ? result->warnings : result.error());
  // Else it could not stand in a file of cases.
  ASSERT_TRUE(seen.ends_with('\n'));
  ASSERT_THAT(parsed("seen", "=== case\n--- expected\n" + seen).all, testing::SizeIs(1));
  if (updating()) rewrite_expectation(name, seen);
  EXPECT_EQ(seen, find_case(name).expected) << "of " << name << "; UPDATE_GOLDEN=1 rewrites it";
}

INSTANTIATE_TEST_SUITE_P(Golden, ConfigMistake, testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

TEST(ConfigGolden, HasAnExpectationForEachMistakeAndNoOther) {
  const Cases cases = read_cases();
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
  if (updating()) std::ofstream(TALLY_CONFIG_REFERENCE, std::ios::binary) << seen;
  EXPECT_EQ(seen, contents(TALLY_CONFIG_REFERENCE)) << "docs/configuration.md; UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace
}  // namespace tally

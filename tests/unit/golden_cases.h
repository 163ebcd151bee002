#pragma once
// One expected message per kind of mistake, in a file of a folder of tests/golden. Such a file begins with '#' and
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

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tally::golden {

struct Case {
  std::filesystem::path file{};
  std::string name{};
  bool escaped = false;
  bool has_expectation = false;
  std::string yaml{};
  std::size_t expected_at = 0;  // in the file
  std::string expected{};
};

struct Cases {
  std::vector<Case> all{};
  std::vector<std::string> mistakes{};
};

// UPDATE_GOLDEN is set.
[[nodiscard]] bool updating();
[[nodiscard]] std::string contents(const std::filesystem::path& path);
// Of the text of one file.
[[nodiscard]] Cases parsed(const std::filesystem::path& file, std::string_view text);
// Of all files of a folder.
[[nodiscard]] Cases read_cases(const std::string& folder);
[[nodiscard]] std::vector<std::string> names(const std::string& folder);
[[nodiscard]] Case find_case(const std::string& folder, const std::string& name);
// That the case has this expectation; with UPDATE_GOLDEN it has it then.
void expect_case(const std::string& folder, const std::string& name, const std::string& seen);

}  // namespace tally::golden

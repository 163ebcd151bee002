#include "golden_cases.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tally::golden {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCase = "=== ";
constexpr std::string_view kEscaped = " (escaped)";
constexpr std::string_view kExpected = "--- expected";

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

}  // namespace

bool updating() { return std::getenv("UPDATE_GOLDEN") != nullptr; }

std::string contents(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
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

Cases read_cases(const std::string& folder) {
  Cases out;
  for (const auto& entry : fs::directory_iterator(folder)) {
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

std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> out;
  for (const Case& one : read_cases(folder).all) out.push_back(one.name);
  std::sort(out.begin(), out.end());
  return out;
}

Case find_case(const std::string& folder, const std::string& name) {
  const auto cases = read_cases(folder).all;
  return *std::find_if(cases.begin(), cases.end(), [&](const Case& one) { return one.name == name; });
}

namespace {

// Under ctest each case is a process of its own, and several run at a time: one rewrites after the other, and
// those that only read find the old file or the new one whole.
void rewrite_expectation(const std::string& folder, const std::string& name, const std::string& seen) {
  const int directory = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(directory, LOCK_EX), 0);
  const Case one = find_case(folder, name);
  ASSERT_TRUE(one.has_expectation) << name << ": add a line '--- expected' for it";
  std::string text = contents(one.file);
  text.replace(one.expected_at, one.expected.size(), seen);
  if (text != contents(one.file)) {
    const std::string fresh = folder + "-rewritten";
    std::ofstream(fresh, std::ios::binary) << text;
    fs::rename(fresh, one.file);
  }
  close(directory);
}

}  // namespace

void expect_case(const std::string& folder, const std::string& name, const std::string& seen) {
  // Else it could not stand in a file of cases.
  ASSERT_TRUE(seen.ends_with('\n'));
  ASSERT_THAT(parsed("seen", "=== case\n--- expected\n" + seen).all, testing::SizeIs(1));
  if (updating()) rewrite_expectation(folder, name, seen);
  EXPECT_EQ(seen, find_case(folder, name).expected) << "of " << name << "; UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace tally::golden

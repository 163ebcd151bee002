#pragma once
// What --help of each program must be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>

namespace tally {

// All of `words`, the exit codes, and nothing that a terminal would not show: a NUL ended one in the middle.
inline void check_help(const std::string& help, std::initializer_list<const char*> words) {
  for (const char* const word : words) EXPECT_THAT(help, testing::HasSubstr(word));
  EXPECT_THAT(help, testing::ContainsRegex("Exit codes: 0 good[,;] 1 failed.*2 wrong usage"));
  EXPECT_TRUE(std::all_of(help.begin(), help.end(), [](char c) {
    return c == '\n' || std::isprint(static_cast<unsigned char>(c)) != 0;
  })) << testing::PrintToString(help);
}

}  // namespace tally

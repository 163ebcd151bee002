#pragma once
// What benchmarks need to work: its value, or the end of the process with the error's text.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tally/error.h"

namespace tally::bench {

[[noreturn]] inline void give_up(std::string_view why) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(why.size()), why.data());
  std::exit(1);
}

template <class T>
T started(Result<T> result) {
  if (!result) give_up(result.error().text());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// EAL's log without its chatter: warnings and worse.
inline void print_warnings(std::uint32_t level, std::string_view line) {
  constexpr std::uint32_t kError = 4;  // RTE_LOG_ERR
  if (level <= kError) std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

}  // namespace tally::bench

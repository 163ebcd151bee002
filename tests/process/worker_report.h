#pragma once
// What a test worker says: one JSON object per line on stdout, each with its event, its rank and the
// monotonic time.

#include <string>
#include <string_view>
#include <vector>

#include "tally/worker.h"

namespace tally::test {

// The rank that the calling thread speaks for.
void speak_for(std::uint16_t rank);

// Builds one line; prints it when it ends.
class Line {
 public:
  explicit Line(std::string_view event);
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line();

  Line& add(std::string_view key, std::uint64_t value);
  Line& add(std::string_view key, std::string_view text);
  Line& add(std::string_view key, const std::vector<std::uint32_t>& values);

 private:
  void key(std::string_view name);
  std::string text_;
};

// at: what failed: options, join, iteration, leave.
void say_error(std::string_view at, const Error& error);
void say_joined(const WorkerMembership& membership);
void say_statistics(const EngineStatistics& statistics);

}  // namespace tally::test

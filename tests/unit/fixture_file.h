#pragma once
// Packet fixtures as text (tests/fixtures; the format is explained on top of each file). What a packet under
// test must lead to stays text: the runner describes what it saw in the same words.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jobs/binding.h"
#include "jobs/job_table.h"

namespace tally::fixture {

struct Packet {
  std::vector<std::byte> frame;
  PortIndex port{};
  bool vouched = false;
  std::uint32_t segments = 1;
  std::uint32_t room = 0;  // bytes behind the frame in its buffer
  std::uint64_t ms = 0;
  // Setup only: the frame `times` over; in between words of it grow, and the header's check is made again.
  struct Step {
    std::size_t offset = 0;
    std::uint32_t addend = 0;
  };
  std::uint32_t times = 1;
  std::vector<Step> steps;
  std::size_t header_at = 0;
};

enum class StepKind { kTable, kRelease, kSetup, kIn };

struct CaseStep {
  StepKind kind{};
  int line = 0;                       // of the file
  std::vector<std::string> jobs;      // kTable, kRelease
  Packet packet;                      // kSetup, kIn
  std::string verdict;                // kSetup: 'absorb', 'drop:stale'
  std::vector<std::string> expected;  // kIn: lines, hex without blanks
};

struct Plan {  // what the cases of one file share
  jobs::Box box;
  std::map<std::string, jobs::Row> jobs;
  std::uint32_t lines = 0;  // of slot memory
};

struct Case {
  std::string name;       // file_case
  std::string disagrees;  // not empty: the switch is known to differ, and how
  std::uint8_t core = 0;
  std::vector<CaseStep> steps;
  std::shared_ptr<const Plan> plan;
};

struct CaseName {
  std::filesystem::path file;
  std::string name;  // as in Case
};

// Of all *.fixture files, by file name. No more is read of them than that: every start of the test does it.
[[nodiscard]] std::vector<CaseName> names_of_cases(const std::filesystem::path& directory);
// All cases of one file. std::runtime_error with file, line and reason if it cannot be read.
[[nodiscard]] std::vector<Case> read_fixtures(const std::filesystem::path& file);

[[nodiscard]] std::string hex(const std::byte* data, std::size_t bytes);

}  // namespace tally::fixture

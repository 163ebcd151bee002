#pragma once
// A report as text for people. Pure.

#include <string>
#include <vector>

#include "plan_report/report.h"

namespace tally::plan_report {

// What only the caller knows.
struct Around {
  std::string under_title{};  // lines with their ends
  std::string behind_rate{};  // "; a step of 1440MiB takes 484 ms"
  bool every_load =
      false;  // else the fullest, and of hosts' links one alone, since there is one for each worker
};

// Of a job, from an empty line and its title on.
[[nodiscard]] std::string job_text(const JobReport& job, const Around& around);
// "server ps1, and 3 more as full"
[[nodiscard]] std::string full_text(const JobReport& job);
// "A ring would be faster ...", with an end of line.
[[nodiscard]] std::string ring_text(const JobReport& job);
// The fullest first. left_out: so many more there are.
[[nodiscard]] std::string loads_text(const std::vector<Load>& loads, std::size_t left_out, bool every);

[[nodiscard]] std::string gbits(double rate);
// "48.3 %"; "-" of nothing.
[[nodiscard]] std::string percent(double part, double whole);
// 3 racks, 1 rack, 2 boxes, 2 switches
[[nodiscard]] std::string counted_of(std::size_t n, const std::string& noun);

}  // namespace tally::plan_report

#pragma once
// One key in the reference of the configuration.

#include <string>
#include <vector>

namespace tally {

struct ReferenceRow {
  std::string path;      // jobs[].window
  std::string form;      // what may be written
  std::string fallback;  // the default; empty: none
  std::string doc;       // what it means
};

// Every key, in the order of the reference.
[[nodiscard]] std::vector<ReferenceRow> reference_rows();

}  // namespace tally

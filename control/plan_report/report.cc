#include "plan_report/report.h"

#include <utility>

namespace tally::plan_report {

std::vector<Load> fullest_of(const std::vector<Load>& loads) {
  constexpr std::size_t kMost = 8;
  std::vector<Load> out;
  bool host_shown = false;
  for (const Load& one : loads) {
    if (out.size() == kMost) break;
    if (one.kind == Kind::kHostLink && std::exchange(host_shown, true)) continue;
    out.push_back(one);
  }
  return out;
}

}  // namespace tally::plan_report

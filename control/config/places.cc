#include "places.h"

namespace tally {
namespace {

// jobs[0].window -> jobs[0] -> jobs -> ''.
void step_out(std::string& path) {
  const auto end = path.find_last_of(".[");
  path.resize(end == std::string::npos ? 0 : end);
}

}  // namespace

Position Places::of(std::string path) const {
  for (; !path.empty(); step_out(path)) {
    if (const auto found = at_.find(path); found != at_.end()) return found->second;
  }
  return {1, 1};
}

bool Places::sound(std::string path) const {
  for (; !path.empty(); step_out(path)) {
    if (broken_.contains(path)) return false;
  }
  return true;
}

}  // namespace tally

#include "packet_priority.h"

namespace tally {

std::string objection_to(Priority chosen) {
  const bool is_class = chosen.kind == Priority::Kind::kClass;
  const int most = is_class ? kGreatestClass : kGreatestPriority;
  if (chosen.kind == Priority::Kind::kOfWorker || (chosen.number >= 0 && chosen.number <= most)) return {};
  return std::string(is_class ? "priority: class " : "priority: ") + std::to_string(chosen.number) +
         " is not in 0.." + std::to_string(most);
}

}  // namespace tally

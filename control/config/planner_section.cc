// planner: what the network is like, for the plans of jobs over several boxes.

#include "config/config_schema.h"

namespace tally::config {

const Schema<PlannerSection>& planner_schema() {
  static const Schema<PlannerSection> schema{
      at_once(value_key("cluster", &PlannerSection::cluster, file_or_none(),
                        "The file of the cluster (docs/cluster.md), with addresses of racks and boxes: of "
                        "jobs over several boxes "
                        "whose home this box is it says which box sums what. It is read again with every "
                        "reload. none: all boxes "
                        "of a job have equal parts.")),
  };
  return schema;
}

}  // namespace tally::config

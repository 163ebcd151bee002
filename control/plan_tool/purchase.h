#pragma once
// Which switches get a box, when so many are bought. Pure.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cluster/cluster.h"
#include "plan_tool/planned.h"

namespace tally::plan_tool {

struct Purchase {
  std::size_t boxes = 0;        // at most
  double rate = 0;              // Gbit/s, of each
  std::vector<Index> places{};  // switches that may get one
  // So many choices that are not alike are all tried; of more, boxes are placed one by one, each where it brings most.
  std::size_t most_tried = 200;
};

struct Placement {
  std::vector<Index> at{};      // switches
  std::vector<double> rates{};  // Gbit/s of every worker, of each job
  double total = 0;             // of all workers of all jobs
  double bound = 0;             // of the total, that no placement exceeds
  bool all_tried = false;       // none is better; else one by one
  std::size_t tried = 0;        // one of those that are alike
};

// The best that was found of 0, 1, 2 ... boxes, each at least as good as the one before.
[[nodiscard]] std::vector<Placement> placements(const cluster::Cluster& cluster, const Purchase& purchase);

// Which switches are alike: by what hangs on them and on what they are linked to, however far one looks (colour
// refinement). It makes no difference to a linear program at which of a class the next box is.
struct Likeness {
  std::vector<std::size_t> classes{};  // of each switch
  std::uint64_t signature = 0;         // the same for two clusters that are alike as a whole
};
[[nodiscard]] Likeness likeness_of(const cluster::Cluster& cluster);

}  // namespace tally::plan_tool

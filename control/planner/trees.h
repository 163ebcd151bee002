#pragma once
// The product form where ways may be chosen, for networks in which one column for each way is too many: 64 racks under
// 8 spines have 32,000, which take the solver half a minute when links are narrow. Here a column is a tree: a box, and
// how every rack's stream to it and its sums to the servers are spread over ways. Trees are added where the prices of
// the last solution say that one would pay, until what is left to win is small.

#include "planner/split.h"

namespace tally::planner {

// What may be left: the split's rate is at least this share of its `bound`.
inline constexpr double kTreesEnough = 0.98;

// As product_form(), which gives the program itself, but with at most so many shared boxes. Fails likewise.
[[nodiscard]] Result<Split> product_form_by_trees(const Network& network, const Party& party,
                                                  const Rates& capacity, const std::vector<Index>& boxes,
                                                  std::size_t most_boxes);

}  // namespace tally::planner

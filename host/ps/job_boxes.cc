#include "ps/job_boxes.h"

#include <bit>
#include <utility>

namespace tally::ps {

void JobBoxes::enter(const engine::Membership& membership, std::shared_ptr<const Plan> plan, BoxIndex home) {
  plan_ = std::move(plan);
  boxes_.assign(plan_ ? plan_->boxes.size() : 1, {});
  if (!plan_) return open(0, membership.job, membership.shards);
  if (home != PlannedText::kNoBox) open(home, membership.job, membership.shards);
  ranks_of_ = {};
  for (std::size_t rank = 0; rank < plan_->table_of.size(); ++rank)
    ranks_of_[plan_->table_of[rank]] |= std::uint64_t{1} << rank;
}

std::uint64_t JobBoxes::here(BoxIndex box, Chunk chunk) const noexcept {
  std::uint64_t ranks = 0;
  for (std::size_t t = 0; t < plan_->tables.size(); ++t) {
    const Route route = plan_->tables[t][plan_group(chunk)];
    if (route.box == box && !route.direct) ranks |= ranks_of_[t];
  }
  return ranks;
}

std::uint64_t JobBoxes::through(BoxIndex box, Chunk chunk) const noexcept {
  std::uint64_t ranks = 0;
  for (std::size_t t = 0; t < plan_->tables.size(); ++t) {
    if (plan_->tables[t][plan_group(chunk)].box == box) ranks |= ranks_of_[t];
  }
  return ranks;
}

std::array<std::uint64_t, kMaxPlanBoxes> JobBoxes::entries(Chunk chunk) const noexcept {
  std::array<std::uint64_t, kMaxPlanBoxes> here{};
  for (std::size_t t = 0; t < plan_->tables.size(); ++t) {
    const Route route = plan_->tables[t][plan_group(chunk)];
    if (!route.direct) here[route.box] |= ranks_of_[t];
  }
  for (std::uint64_t& ranks : here)
    if (std::has_single_bit(ranks)) ranks = 0;
  return here;
}

std::uint64_t JobBoxes::holders(std::uint64_t ranks, Chunk chunk) const noexcept {
  const auto held = entries(chunk);
  std::uint64_t boxes = 0;
  for (std::size_t box = 0; box < boxes_.size(); ++box)
    if ((held[box] & ranks) != 0) boxes |= std::uint64_t{1} << box;
  return boxes;
}

std::uint64_t JobBoxes::held_but(std::uint64_t boxes, Chunk chunk) const noexcept {
  const auto held = entries(chunk);
  std::uint64_t ranks = 0;
  for (std::size_t box = 0; box < boxes_.size(); ++box)
    if ((boxes >> box & 1) == 0) ranks |= held[box];
  return ranks;
}

BoxIndex JobBoxes::box_of(std::uint64_t ranks, Chunk chunk) const noexcept {
  return plan_->route(Rank{static_cast<std::uint16_t>(std::countr_zero(ranks))}, chunk).box;
}

}  // namespace tally::ps

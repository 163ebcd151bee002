#pragma once
// A plan in the making: its pages come one by one, in any order, from whoever knows its name.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "members/plan_source.h"
#include "tally/plan.h"
#include "tally/wire.h"

namespace tally::members {

class PlanPages {
 public:
  enum class Fate : std::uint8_t {
    kKept,
    kWhole,   // it was the last one: plan() has them all
    kTwice,   // it is here already
    kUnfit,   // the plan has no such page
    kBroken,  // the last one, and together they are not what the name says: all of them are missing again
  };

  // Awaits nothing.
  PlanPages() = default;
  // bytes: 1..kMaxPlanBytes; so much memory is taken, with the first page.
  PlanPages(const PlanId& id, std::uint32_t bytes);

  [[nodiscard]] Fate take(std::uint32_t page, std::span<const std::byte> content);
  // A bit for each page; 0: none.
  [[nodiscard]] std::uint64_t missing() const noexcept { return missing_; }
  [[nodiscard]] bool awaits(const PlanId& id, std::uint32_t bytes) const noexcept {
    return missing_ != 0 && id == id_ && bytes == size_;
  }
  // Of all pages; nullptr: they are the bytes of that name, and no plan. Gives its memory back.
  [[nodiscard]] std::shared_ptr<const NamedPlan> plan();

 private:
  PlanId id_{};
  std::uint32_t size_ = 0;
  std::uint64_t missing_ = 0;
  std::vector<std::byte> bytes_{};
};

}  // namespace tally::members

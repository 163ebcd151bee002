#pragma once
// The plan of an epoch at a member (docs/protocol_boxes.md, 17.1): fetched from the home page by page, believed as a
// whole by its name, and passed on to boxes that lack pages of it. And PLAN as it is written.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/conversation.h"
#include "engine/datagram.h"
#include "tally/engine_statistics.h"
#include "tally/plan.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::engine {

struct EpochPlan {
  PlanId id{};
  std::vector<std::byte> bytes;
  Plan plan;
};

// Pages that a message names: bit i is page i.
[[nodiscard]] constexpr std::uint64_t pages_of(std::size_t bytes) noexcept {
  const std::uint32_t pages = plan_pages(bytes);
  return pages == 0 ? 0 : ~std::uint64_t{0} >> (64 - pages);
}

// Where each box of a plan stands in a member's order of boxes: 0 is the home, behind it come the others as the plan
// has them. home: PlannedText::kNoBox if it is none of them.
[[nodiscard]] std::vector<std::uint8_t> places_of(const Plan& plan, BoxIndex home);

// PLAN of this member: the page of the plan, or, with an empty one, the wish for it.
[[nodiscard]] Said say_plan(const Speaker& speaker, const PlanId& id, std::uint32_t bytes, std::uint8_t page,
                            std::span<const std::byte> content, std::span<std::byte> out) noexcept;
[[nodiscard]] Said say_plan(const Speaker& speaker, const EpochPlan& plan, std::uint8_t page,
                            std::span<std::byte> out) noexcept;

// Asks the home for the pages of one plan at a time. Few wishes are on their way at once, for a box has a budget
// for each source; what does not come is asked for again as a JOIN is.
class PlanFetch {
 public:
  // plan_bytes: 1..kMaxPlanBytes. The same plan again goes on where it was.
  void start(const PlanId& id, std::uint32_t plan_bytes, TimeNs now);
  void stop() noexcept { missing_ = 0; }
  [[nodiscard]] bool running() const noexcept { return missing_ != 0; }

  // A page with a right tag. `whole`: when it was the last one, and all are the plan of the name; if they are not,
  // everything is fetched anew.
  [[nodiscard]] std::optional<Refused> receive(const Datagram& datagram, const Speaker& speaker, TimeNs now,
                                               std::shared_ptr<const EpochPlan>& whole);
  [[nodiscard]] Said transmit(const Speaker& speaker, std::span<std::byte> out, TimeNs now) noexcept;
  [[nodiscard]] TimeNs due() const noexcept {
    if (missing_ == 0) return kNever;
    return may_ask() ? 0 : repeat_.due();
  }

 private:
  static constexpr int kAtOnce = 8;  // wishes on their way

  [[nodiscard]] bool may_ask() const noexcept {
    return std::popcount(asked_) < kAtOnce && (missing_ & ~asked_) != 0;
  }

  PlanId id_{};
  std::vector<std::byte> bytes_;
  std::uint64_t missing_ = 0;
  std::uint64_t asked_ = 0;  // of these, since the wishes were last repeated
  Backoff repeat_;
};

}  // namespace tally::engine

#include "members/slot_allocator.h"

#include <algorithm>
#include <iterator>

namespace tally::members {

SlotAllocator::SlotAllocator(std::uint32_t lines) : lines_(lines) {
  if (lines > 0) holes_.push_back({0, lines});
}

std::optional<jobs::LineRange> SlotAllocator::allocate(std::uint32_t count) {
  const auto hole =
      std::find_if(holes_.begin(), holes_.end(), [count](jobs::LineRange h) { return h.count >= count; });
  if (count == 0 || hole == holes_.end()) return std::nullopt;
  const jobs::LineRange granted{hole->first, count};
  hole->first += count;
  hole->count -= count;
  if (hole->count == 0) holes_.erase(hole);
  return granted;
}

std::optional<jobs::LineRange> SlotAllocator::allocate_high(std::uint32_t count) {
  const auto hole =
      std::find_if(holes_.rbegin(), holes_.rend(), [count](jobs::LineRange h) { return h.count >= count; });
  if (count == 0 || hole == holes_.rend()) return std::nullopt;
  hole->count -= count;
  const jobs::LineRange granted{hole->first + hole->count, count};
  if (hole->count == 0) holes_.erase(std::next(hole).base());
  return granted;
}

void SlotAllocator::release(jobs::LineRange range) {
  if (range.count == 0) return;
  auto at = std::find_if(holes_.begin(), holes_.end(),
                         [range](jobs::LineRange h) { return h.first > range.first; });
  at = holes_.insert(at, range);
  const auto after = at + 1;
  if (after != holes_.end() && at->first + at->count == after->first) {
    at->count += after->count;
    holes_.erase(after);
  }
  if (at == holes_.begin()) return;
  const auto before = at - 1;
  if (before->first + before->count == at->first) {
    before->count += at->count;
    holes_.erase(at);
  }
}

std::uint32_t SlotAllocator::largest_hole() const noexcept {
  std::uint32_t largest = 0;
  for (const jobs::LineRange h : holes_) largest = std::max(largest, h.count);
  return largest;
}

std::uint32_t SlotAllocator::free_lines() const noexcept {
  std::uint32_t sum = 0;
  for (const jobs::LineRange h : holes_) sum += h.count;
  return sum;
}

}  // namespace tally::members

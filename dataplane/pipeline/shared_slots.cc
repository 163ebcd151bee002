#include "pipeline/shared_slots.h"

namespace tally::pipeline {

SharedSlots::SharedSlots(const jobs::SharedRegion& region) : region_(region), links_(region.entries + 2) {
  for (const std::uint32_t end : {available_end(), filling_end()}) links_[end] = {end, end, false};
  for (std::uint32_t entry = 0; entry < region.entries; ++entry) append(entry, available_end());
}

void SharedSlots::unlink(std::uint32_t entry) noexcept {
  const Link link = links_[entry];
  links_[link.before].after = link.after;
  links_[link.after].before = link.before;
}

void SharedSlots::append(std::uint32_t entry, std::uint32_t end) noexcept {
  const std::uint32_t last = links_[end].before;
  links_[entry].before = last;
  links_[entry].after = end;
  links_[last].after = entry;
  links_[end].before = entry;
}

std::uint32_t SharedSlots::next_victim() noexcept {
  const std::uint32_t entry = first_of(filling_end());
  if (entry == kNoEntry) return kNoEntry;
  unlink(entry);
  append(entry, filling_end());
  return entry;
}

void SharedSlots::claimed(std::uint32_t entry) noexcept {
  unlink(entry);
  append(entry, filling_end());
  links_[entry].filling = true;
  ++filling_;
}

void SharedSlots::released(std::uint32_t entry) noexcept {
  unlink(entry);
  append(entry, available_end());
  links_[entry].filling = false;
  --filling_;
}

}  // namespace tally::pipeline

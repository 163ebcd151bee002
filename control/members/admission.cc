#include "admission.h"

#include "texts.h"

namespace tally {

std::uint32_t reserve_slots(JobMembership& job, BoxState& box, std::uint32_t wish, std::uint16_t elements) {
  const std::uint32_t shards = box.options.shards;
  if (job.slot_elements == elements && job.slots.count == pool_lines(wish, shards, elements)) return wish;
  release_slots(job, box);
  for (std::uint32_t window = wish; window >= kMinWindow; window /= 2) {
    const auto lines = box.slots.allocate(pool_lines(window, shards, elements));
    if (!lines) continue;
    job.slots = *lines;
    job.slot_elements = elements;
    return window;
  }
  return 0;
}

void release_slots(JobMembership& job, BoxState& box) {
  if (job.slots.count == 0) return;
  box.slots.release(job.slots);
  box.publisher.freed({job.id, job.slot_elements, job.slots, job.everyone()});
  job.slots = {};
  job.slot_elements = 0;
}

std::string admission_text(const JobMembership& job, const BoxState& box, std::uint16_t elements) {
  const std::uint32_t needed = pool_lines(kMinWindow, box.options.shards, elements);
  return "admission: job '" + job.config.name + "' needs " + kib_text(needed) +
         " of slot memory per core for its smallest window (" + std::to_string(kMinWindow) + " chunks of " +
         std::to_string(elements) + " elements); " + kib_text(box.slots.free_lines()) + " of " +
         kib_text(box.slots.lines()) + " are free, the largest hole has " +
         kib_text(box.slots.largest_hole()) + ": raise dataplane.slots or give other jobs less";
}

}  // namespace tally

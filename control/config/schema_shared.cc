#include "schemas.h"
#include "value_types.h"

namespace tally {

const Schema<SharedSection>& shared_schema() {
  static const Schema<SharedSection> schema{
      value_key(
          "slots", &SharedSection::slots, whole_number_in<std::uint32_t>(0, kMaxSharedSlots),
          "Slots for the jobs of the disciplines shared, fcfs and preemptive, all data cores together, each "
          "of 64 + 4 x elements bytes of `slots` above. 0: none. What the cores do not divide evenly is "
          "left out."),
      value_key("elements", &SharedSection::elements, element_count(),
                "What one of them holds: no job that shares slots has larger packets."),
      value_key(
          "server", &SharedSection::server, size_between(64 * kKiB, 64 * kGiB),
          "Memory of the parameter server inside the box (`server: embedded`), all data cores together. It "
          "is part of `memory`, beside the slots, and is taken when there are shared slots."),
  };
  return schema;
}

}  // namespace tally

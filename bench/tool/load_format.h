#pragma once
// What the generator's frames are, beside their addresses and the number of their values.

#include <cstdint>

#include "jobs/binding.h"
#include "tally/wire.h"

namespace tally::bench {

struct LoadFormat {
  Dtype dtype = Dtype::kInt32;
  std::uint16_t vlan = jobs::kUntagged;  // 12-bit id of the tag that every frame has, both ways
};

}  // namespace tally::bench

#pragma once
// Addresses of the generator's ranks. Pure.

#include <cstdint>
#include <string_view>
#include <vector>

#include "dpdk_transport/worker_address.h"
#include "tally/error.h"

namespace tally::bench {

// Rank r has the r-th address from `first` on (CIDR), the box's left out, a MAC whose last byte is r, and UDP
// port `49152 + seed mod 8192 + r`. Errors name --switch or --address.
[[nodiscard]] Result<std::vector<dpdk_transport::WorkerAddress>> worker_places(std::string_view box,
                                                                               std::string_view first,
                                                                               std::uint16_t workers,
                                                                               std::uint64_t seed);

}  // namespace tally::bench

#pragma once
// The configuration as EAL, ports, pools and data plane take it. Pure.

#include <cstddef>
#include <string>

#include "config.h"
#include "data_plane.h"
#include "eal.h"
#include "log.h"
#include "pools.h"
#include "port.h"

namespace tally {

[[nodiscard]] EalOptions eal_options(const Config& config);
[[nodiscard]] PortOptions port_options(const Config& config, const PortSection& port);
[[nodiscard]] PortImpairment impair_options(const PortSection& port) noexcept;
[[nodiscard]] PoolDemand pool_demand(const Config& config);
[[nodiscard]] DataPlaneOptions plane_options(const Config& config);
[[nodiscard]] LogLevel log_level(const Config& config) noexcept;

// "instance demo: 1 data core (CPU 1), 8 ports, 2 jobs of 8 workers"
[[nodiscard]] std::string summary(const Config& config);

}  // namespace tally

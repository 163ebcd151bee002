#pragma once
// What both sessions need of the machine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eal.h"
#include "load_options.h"
#include "load_report.h"
#include "tally/error.h"

namespace tally::bench {

// Hugepages for cards and for the in-memory port, if enough are free; ordinary memory for other devices.
[[nodiscard]] Result<Eal> start_eal(const LoadOptions& options, std::vector<std::string> cards);
// The calling thread runs there only. Nothing: where it likes.
[[nodiscard]] Result<void> pin_to(std::optional<std::uint16_t> cpu);
// Whether a data core of the process, which DPDK made, runs on that CPU only.
[[nodiscard]] bool shares_cpu(int process, std::uint16_t cpu);
// Machine, options, and warnings about where the generator runs.
[[nodiscard]] LoadSetting common_setting(const LoadOptions& options, bool hugepages);

}  // namespace tally::bench

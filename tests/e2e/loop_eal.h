#pragma once
// EAL as the daemon starts it.

#include <string>

namespace tally::e2e {

inline constexpr std::size_t kDataCores = 3;  // lcores that can be started

// Starts EAL in this process, once: without hugepages, main lcore and data cores floating. Empty, or why it
// did not start.
[[nodiscard]] const std::string& start_eal();

}  // namespace tally::e2e

#pragma once
// What a program that plays workers needs of the machine before it opens its ports (load_port.h).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dpdk/eal.h"
#include "dpdk_transport/worker_eal.h"
#include "tally/error.h"

namespace tally::bench {

// The devices of --port: as a worker has them, without `dpdk:`. Errors name --port.
[[nodiscard]] Result<std::vector<dpdk_transport::WorkerDevice>> parse_load_devices(
    const std::vector<std::string>& ports, std::uint16_t mtu);
// program: for messages and DPDK's own files. Hugepages for cards and, with in_memory (the port of that
// name), if enough are free; ordinary memory for other devices.
[[nodiscard]] Result<dpdk::Eal> start_load_eal(const std::string& program,
                                               const std::vector<dpdk_transport::WorkerDevice>& devices,
                                               std::uint64_t memory_mib, bool in_memory = false);
// The calling thread runs there only. Nothing: where it likes.
[[nodiscard]] Result<void> pin_to(std::optional<std::uint16_t> cpu);
// Whether a data core of the process, which DPDK made, runs on that CPU only.
[[nodiscard]] bool shares_cpu(int process, std::uint16_t cpu);

}  // namespace tally::bench

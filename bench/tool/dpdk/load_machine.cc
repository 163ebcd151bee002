#include "load_machine.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "load_port.h"

#include <rte_log.h>

namespace tally::bench {
namespace {

// memif says so at every device because there are no secondary processes here, and means nothing by it.
constexpr std::string_view kHarmless = "Failed to register mp action callback";

constexpr std::string_view kDataCore = "lcore-worker";  // what EAL names a data core's thread

}  // namespace

Result<std::vector<dpdk_transport::WorkerDevice>> parse_load_devices(const std::vector<std::string>& ports,
                                                                     std::uint16_t mtu) {
  std::vector<dpdk_transport::WorkerDevice> devices;
  for (const std::string& text : ports) {
    auto device = dpdk_transport::parse_worker_device(text, mtu);
    if (!device) {
      Error error = device.error();
      error.where = "--port";
      return tl::unexpected<Error>(std::move(error));
    }
    for (const dpdk_transport::WorkerDevice& other : devices)
      if (other.name == device->name)
        return fail(ErrorCode::kInvalidArgument, device->name + " is there twice: number the devices",
                    "--port");
    devices.push_back(std::move(*device));
  }
  return devices;
}

Result<dpdk::Eal> start_load_eal(const std::string& program,
                                 const std::vector<dpdk_transport::WorkerDevice>& devices,
                                 std::uint64_t memory_mib, bool in_memory) {
  dpdk::EalOptions eal;
  eal.program = program;
  eal.instance = "bench-" + std::to_string(getpid());
  eal.pinned = false;
  eal.memory_bytes = memory_mib << 20;
  for (const dpdk_transport::WorkerDevice& device : devices)
    if (device.pci) eal.pci.push_back(device.name);
  eal.hugepages =
      in_memory || !eal.pci.empty() ? dpdk::EalOptions::Hugepages::kAuto : dpdk::EalOptions::Hugepages::kOff;
  return dpdk::Eal::start(eal, [program](std::uint32_t level, std::string_view line) {
    if (level > RTE_LOG_WARNING || line.find(kHarmless) != std::string_view::npos) return;
    std::fprintf(stderr, "%s: DPDK: %.*s\n", program.c_str(), static_cast<int>(line.size()), line.data());
  });
}

Result<void> pin_to(std::optional<std::uint16_t> cpu) {
  if (!cpu) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(*cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return {};
  Error error{.code = ErrorCode::kInvalidArgument,
              .what = "CPU " + std::to_string(*cpu) + " does not exist or is not allowed to this process",
              .where = "--cpu",
              .sys_errno = errno};
  return tl::unexpected<Error>(std::move(error));
}

bool shares_cpu(int process, std::uint16_t cpu) {
  std::error_code ignored;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", ignored)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (!name.starts_with(kDataCore)) continue;
    std::ifstream in(task.path() / "status");
    for (std::string line; std::getline(in, line);)
      if (line == "Cpus_allowed_list:\t" + std::to_string(cpu)) return true;
  }
  return false;
}

}  // namespace tally::bench

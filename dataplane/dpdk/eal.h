#pragma once
// DPDK's environment, started once per process from our configuration. Owner: the control thread, which
// becomes the main lcore; it floats over the CPUs that the process may use.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally {

struct EalOptions {
  enum class Hugepages : std::uint8_t { kAuto, kOn, kOff };

  std::string program = "tallyd";
  std::string instance = "tally";          // part of EAL's file prefix
  std::vector<std::uint16_t> cores{};      // CPU of each data core: core i is lcore i + 1
  bool pinned = true;                      // false: data cores float like the main lcore (tests)
  std::uint64_t memory_bytes = 512 << 20;  // all of it
  Hugepages hugepages = Hugepages::kAuto;
  std::vector<std::string> pci{};    // addresses for -a; empty: --no-pci. Virtual devices are added by Port
  std::vector<std::string> extra{};  // appended as they are
};

// Takes each line that DPDK logs, and our own warnings about memory; any thread. level: RTE_LOG_*.
using EalLog = std::function<void(std::uint32_t level, std::string_view line)>;

// Free hugepages of every size, in bytes, as the kernel says now.
[[nodiscard]] std::uint64_t free_hugepage_bytes();

// The words of the command line. hugepages: decided. Pure; unit-tested.
[[nodiscard]] std::vector<std::string> eal_arguments(const EalOptions& options, bool hugepages,
                                                     std::string_view allowed_cpus);

class Eal {
 public:
  // Errors say what to do: hugepages (the command that reserves them), permissions (which), a CPU that does
  // not exist or is not allowed, a second start in this process.
  [[nodiscard]] static Result<Eal> start(const EalOptions& options, EalLog log);
  Eal(Eal&& other) noexcept;
  Eal& operator=(Eal&&) = delete;
  ~Eal();  // rte_eal_cleanup; every lcore must have returned

  [[nodiscard]] bool hugepages() const noexcept { return hugepages_; }
  // lcore of data core i.
  [[nodiscard]] static unsigned lcore(std::size_t core) noexcept { return static_cast<unsigned>(core) + 1; }

 private:
  explicit Eal(bool hugepages) noexcept : hugepages_(hugepages) {}
  bool hugepages_ = false;
  bool owner_ = true;
};

}  // namespace tally

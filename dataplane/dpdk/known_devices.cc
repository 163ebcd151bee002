#include "known_devices.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <rte_config.h>
#include <rte_version.h>

namespace tally {
namespace {

// Number of DPDK's binary interface, in the names of Debian's packages.
constexpr int kAbi = RTE_VER_YEAR + (RTE_VER_MONTH == 11 ? 1 : 0);

std::string listed(const std::set<std::string>& names) {
  std::string words;
  for (const std::string& name : names) {
    if (!words.empty()) words += ", ";
    words += name;
  }
  return words.empty() ? "none" : words;
}

// net_memif, net_ring, ...
std::set<std::string> installed_drivers() {
  std::set<std::string> drivers;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(RTE_EAL_PMD_PATH, ignored)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kStart = "librte_";
    if (!name.starts_with("librte_net_") || !name.ends_with(".so." + std::to_string(kAbi))) continue;
    drivers.insert(name.substr(kStart.size(), name.find('.') - kStart.size()));
  }
  return drivers;
}

}  // namespace

std::string why_not_virtual(std::string_view name) {
  std::string driver(name.substr(0, name.find_last_not_of("0123456789") + 1));
  const std::set<std::string> drivers = installed_drivers();
  if (drivers.contains(driver)) return {};
  const std::string these = "; the drivers here are: " + listed(drivers);
  if (!driver.starts_with("net_"))
    return "there is no such virtual device: write a driver and a number, as in net_memif0" + these;
  std::ranges::replace(driver, '_', '-');
  return "its driver is not installed: if DPDK has it, it is in the package librte-" + driver +
         std::to_string(kAbi) + these;
}

std::string pci_devices() {
  std::set<std::string> devices;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/bus/pci/devices", ignored)) {
    std::ifstream in(entry.path() / "class");
    std::string kind;
    in >> kind;
    if (!kind.starts_with("0x02")) continue;  // network controllers
    const auto driver = std::filesystem::read_symlink(entry.path() / "driver", ignored).filename().string();
    devices.insert(entry.path().filename().string() + " (kernel driver " +
                   (driver.empty() ? "none" : driver) + ")");
  }
  return listed(devices);
}

}  // namespace tally

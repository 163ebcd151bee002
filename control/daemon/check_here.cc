#include "daemon/check_here.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "config/config_schema.h"
#include "config/load_config.h"
#include "config/units.h"
#include "daemon/box_start.h"
#include "daemon/state_file.h"
#include "device/interface_advice.h"
#include "device/memif_device.h"
#include "dpdk/eal.h"
#include "dpdk/probed_device.h"
#include "etcd/settings.h"
#include "http/listen.h"
#include "tally/unique_fd.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

using config::Checking;

std::string item(std::size_t i) { return "[" + std::to_string(i) + "]"; }

// "3,7": the CPUs that are threads of one core with this one; empty: the kernel does not say.
std::string siblings_of(std::uint16_t cpu) {
  std::ifstream in("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  std::string list;
  std::getline(in, list);
  return list;
}

void check_cpus(const Checking& c) {
  const auto usable = dpdk::usable_cpus();
  std::map<std::string, std::uint16_t> cores;  // by their threads: the first data core there
  const auto& cpus = c.config.dataplane.cores;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    const std::string path = "dataplane.cores" + item(i);
    if (std::ranges::find(usable, cpus[i]) == usable.end()) {
      c.error(path, "CPU " + std::to_string(cpus[i]) + " does not exist here or this process may not use it",
              "take of these: " + text::listed(usable));
      continue;
    }
    const std::string threads = siblings_of(cpus[i]);
    if (threads.empty()) continue;
    const auto [first, is_new] = cores.emplace(threads, cpus[i]);
    if (!is_new)
      c.warning(path,
                "CPUs " + std::to_string(first->second) + " and " + std::to_string(cpus[i]) +
                    " are threads of one core: two data cores share it",
                "take CPUs of different cores; `lscpu -e` lists them");
  }
}

void check_memory_here(const Checking& c) {
  const config::DataplaneSection& d = c.config.dataplane;
  if (auto fits = check_memory(d); !fits) {
    c.error("dataplane.memory", fits.error().what, "lower it, or run tallyd on a larger machine");
    return;
  }
  std::string warning;
  const auto hugepages = dpdk::decide_hugepages(eal_options(c.config), warning);
  const char* const path =
      c.places.written("dataplane.hugepages") ? "dataplane.hugepages" : "dataplane.memory";
  const char* const help = "reserve them, or write hugepages: off; those of a daemon that runs are not free";
  if (!hugepages)
    c.error(path, hugepages.error().what, help);
  else if (!warning.empty())
    c.warning(path, warning, help);
}

void check_kernel_port(const Checking& c, const config::PortSection& port, const std::string& path) {
  const auto device = device::examine_kernel_device(port.device.text, port.mtu, port.queues, 1024);
  if (const std::string rights = dpdk::missing_rights(device.kind); !rights.empty())
    c.warning(path, "tallyd could not open this port as the user who asks" + rights,
              "ask as the user that runs it");
  if (device.interface.empty()) return;
  const auto* const named = port.device.find("iface");
  const config::Position at = config::position_of(c, path, named);
  const auto advice =
      device::advise(device, port.mtu, dpdk::facts_of(device.interface), dpdk::interfaces_present());
  if (!advice.error.empty())
    c.report.error(at, path, {advice.error, "the port does not open until this is mended"});
  for (const std::string& warning : advice.warnings)
    c.report.warning(at, path, {warning, "the port opens all the same"});
}

void check_memif_port(const Checking& c, const config::PortSection& port, const std::string& path) {
  const auto memif = device::examine_memif_device(port.device.text, device::MemifEnd::kBox, port.mtu, 1024);
  if (memif.abstract) return;
  const std::string directory = std::filesystem::path(memif.socket).parent_path().string();
  std::error_code ignored;
  const config::Position at = config::position_of(c, path, port.device.find("socket"));
  if (!std::filesystem::is_directory(directory, ignored))
    c.report.error(
        at, path,
        {"there is no directory " + config::shown(directory) + " for the socket", "mkdir -p " + directory});
  else if (::access(directory.c_str(), W_OK | X_OK) != 0)
    c.report.error(at, path,
                   {"this user may not make a socket in " + config::shown(directory),
                    "ask as the user that runs tallyd, or name another directory"});
}

void check_ports_here(const Checking& c) {
  for (std::size_t i = 0; i < c.config.ports.size(); ++i) {
    const config::PortSection& port = c.config.ports[i];
    const std::string path = config::path_of("ports", i, "device");
    if (port.device.kind == device::DeviceKind::kPci) {
      if (!std::filesystem::exists("/sys/bus/pci/devices/" + port.device.name))
        c.error(path, "there is no PCI device " + port.device.name,
                "the network devices here are: " + dpdk::pci_devices());
      continue;
    }
    if (const std::string why = dpdk::why_not_virtual(port.device.name); !why.empty())
      c.error(path, why, "install it, or take another device");
    else if (port.device.kind == device::DeviceKind::kMemif)
      check_memif_port(c, port, path);
    else if (device::is_kernel(port.device.kind))
      check_kernel_port(c, port, path);
  }
}

// Of `auto` the folder is systemd's, which makes it.
void check_state_here(const Checking& c) {
  const std::string& folder = c.config.control.state;
  if (folder == "auto" || folder == "none") return;
  if (const auto usable = usable_folder(folder); !usable)
    c.error("control.state", usable.error().what, "ask as the user that runs tallyd");
}

void check_http_here(const Checking& c) {
  const auto address = config::http_address(c.config);
  if (!address) return;
  if (!address->path.empty()) {
    const std::string directory = std::filesystem::path(address->path).parent_path().string();
    std::error_code ignored;
    if (directory != "/run/tally" && !std::filesystem::is_directory(directory, ignored))
      c.error("control.http", "there is no directory " + config::shown(directory) + " for the socket",
              "mkdir -p " + directory);
  } else if (const std::string why = http::objection_to_address(*address); !why.empty()) {
    c.error("control.http", "HTTP cannot be served at " + http::address_text(*address), why);
  }
}

// A start goes on without them, and so would the box: in no fleet.
void check_fleet_here(const Checking& c) {
  constexpr std::size_t kLongest = std::size_t{16} << 20;
  const config::FleetSection& fleet = c.config.fleet;
  const auto check = [&c](const char* key, const std::optional<std::string>& path, auto objection_to) {
    if (!path) return false;
    if (const auto file = config::read_file(*path, kLongest, config::FileKind::kRegular); !file) {
      c.error(key, file.error().message, file.error().help);
      return false;
    }
    const std::string objection = objection_to(*path);
    if (!objection.empty()) c.error(key, objection, "name another file, or mend this one");
    return objection.empty();
  };
  check("fleet.password_file", fleet.password_file, [](const std::string& path) {
    const auto password = etcd::read_password(path);
    return password ? std::string() : password.error().what;
  });
  check("fleet.ca", fleet.ca, etcd::objection_to_ca);
  if (!check("fleet.cert", fleet.cert, etcd::objection_to_certificate)) return;
  check("fleet.key", fleet.key,
        [&](const std::string& path) { return etcd::objection_to_key(path, *fleet.cert); });
}

// What EAL says against these arguments in a process of its own, without devices, hugepages or files; nothing:
// it starts.
std::optional<std::string> refusal_of_eal(dpdk::EalOptions options) {
  options.instance = "check-" + std::to_string(::getpid());
  options.memory_bytes = 16 << 20;
  options.hugepages = false;
  options.pci.clear();
  options.pinned = false;  // what is wrong with a CPU was said before
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return std::nullopt;
  UniqueFd in(pipe[0]), out(pipe[1]);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) {
    ::dup2(out.get(), STDERR_FILENO);
    const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    ::dup2(nowhere.get(), STDOUT_FILENO);
    const auto started = dpdk::Eal::start(options, {});
    if (!started) std::fprintf(stderr, "%s\n", started.error().what.c_str());
    std::fflush(stderr);
    ::_exit(started ? 0 : 1);
  }
  out.reset();
  std::string said;
  std::array<char, 1024> room{};
  for (ssize_t n = 0; (n = ::read(in.get(), room.data(), room.size())) > 0;)
    said.append(room.data(), static_cast<std::size_t>(n));
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  return said;
}

void check_eal(const Checking& c) {
  dpdk::EalOptions options = eal_options(c.config);
  if (options.extra.empty()) return;
  const auto said = refusal_of_eal(options);
  if (!said) return;
  const std::vector<std::string> extra = std::exchange(options.extra, {});
  if (refusal_of_eal(options)) return;  // not because of them; a start says why
  // The first that DPDK names, or else all of them.
  std::string path = "dataplane.eal";
  for (std::size_t i = 0; i < extra.size(); ++i) {
    const std::string word = extra[i].substr(0, extra[i].find('='));
    if (said->find(word) == std::string::npos) continue;
    path += item(i);
    break;
  }
  std::string first = said->substr(0, said->find('\n'));
  c.error(path, "DPDK's EAL does not start with this: " + text::cleaned(first),
          "remove it; `dpdk-testpmd --help` lists what EAL takes");
}

}  // namespace

void check_here(Checking& checking) {
  check_cpus(checking);
  check_memory_here(checking);
  check_ports_here(checking);
  check_state_here(checking);
  check_http_here(checking);
  check_fleet_here(checking);
  check_eal(checking);
}

}  // namespace tally::daemon

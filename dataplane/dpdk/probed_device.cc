#include "dpdk/probed_device.h"

#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <rte_config.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_version.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "dpdk/eal.h"
#include "dpdk/threads.h"
#include "tally/unique_fd.h"

namespace tally::dpdk {
namespace {

std::string_view device_name(std::string_view device) { return device.substr(0, device.find(',')); }

// Names of memif servers that were closed; their devices stay (Port::close).
std::set<std::string>& parked() {
  static std::set<std::string> names;
  return names;
}

bool is_probed(const std::string& name) {
  std::uint16_t id = 0;
  return rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0;
}

// The next name that means the same driver.
std::string numbered_name(const std::string& name, const auto& is_taken) {
  std::string other = name;
  for (unsigned n = 1; is_taken(other); ++n) other = name + '.' + std::to_string(n);
  return other;
}

// A memif server's driver listens where only the door finds it.
Result<void> add_door(ProbedDevice& p, const device::MemifDevice& memif) {
  if (!memif.server) return {};
  auto door = MemifDoor::open(memif);
  if (!door) return tl::unexpected<Error>(std::move(door.error()));
  p.door = std::move(*door);
  if (p.door->has(memif.id))
    return fail(ErrorCode::kInvalidArgument,
                "another port has id=" + std::to_string(memif.id) + " at this socket", p.name);
  for (const std::string_view key : {",socket=", ",socket-abstract="}) {
    const std::size_t at = p.device.find(key);
    if (at == std::string::npos) continue;
    p.device.erase(at, std::min(p.device.find(',', at + 1), p.device.size()) - at);
  }
  p.device += ",socket=" + p.door->driver_socket() + ",socket-abstract=yes";
  return {};
}

tl::unexpected<Error> wrong(const PortOptions& options, std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), options.device);
}

tl::unexpected<Error> wrong(const PortOptions& options, const device::DeviceComplaint& complaint) {
  return wrong(options, complaint.message + ": " + complaint.help);
}

Result<void> prepare_memif(const PortOptions& options, std::string_view given, ProbedDevice& p) {
  const device::MemifDevice memif =
      device::examine_memif_device(options.device, device::MemifEnd::kAny, options.mtu, options.descriptors);
  if (!memif.complaints.empty()) return wrong(options, memif.complaints.front());
  p.id = memif.id;
  p.device = p.name + memif.device.substr(given.size());
  return add_door(p, memif);
}

}  // namespace

std::uint32_t frame_bytes(const PortOptions& options) noexcept {
  return options.mtu + device::kEthernetBytes;
}

std::string free_device_name(const std::string& name) { return numbered_name(name, is_probed); }

void park_device(std::string_view device) { parked().emplace(device_name(device)); }

Result<ProbedDevice> prepare_device(const PortOptions& options) {
  ProbedDevice p{.name = std::string(device_name(options.device)), .device = options.device};
  if (options.pci) return p;
  if (const std::string why = why_not_virtual(p.name); !why.empty())
    return fail(ErrorCode::kInvalidArgument, why, p.name);
  const std::string given = std::exchange(
      p.name, numbered_name(p.name, [](const std::string& name) { return parked().contains(name); }));
  if (is_probed(p.name))
    return fail(ErrorCode::kInvalidArgument, "another port has this device; give each its own number", given);
  p.kind = device::kind_of(options.device);
  if (p.kind == device::DeviceKind::kMemif) {
    if (auto done = prepare_memif(options, given, p); !done)
      return tl::unexpected<Error>(std::move(done.error()));
  } else if (device::is_kernel(p.kind)) {
    if (auto done = prepare_kernel_port(options, p); !done)
      return tl::unexpected<Error>(std::move(done.error()));
  }
  return p;
}

Result<std::uint16_t> probe_device(const PortOptions& options, const ProbedDevice& p) {
  std::uint16_t id = 0;
  const HeardErrors heard;
  // A PCI device of EAL's list was probed when EAL started.
  if (options.pci && rte_eth_dev_get_port_by_name(p.name.c_str(), &id) == 0) return id;
  if (p.kind == device::DeviceKind::kMemif) note_memif();
  const int code = rte_dev_probe(p.device.c_str());
  if (code == 0 && rte_eth_dev_get_port_by_name(p.name.c_str(), &id) == 0) return id;
  const std::string said = heard.text();
  std::string what = "DPDK does not open the device" + said + missing_rights(p.kind);
  // The driver makes the number of its sockets' group of the process's number and the interface's.
  if (p.kind == device::DeviceKind::kAfPacket && said.find("PACKET_FANOUT") != std::string::npos)
    what += "; another process here has, by chance, the same group of sockets: start it again";
  if (options.pci)
    what += "; network devices here: " + pci_devices() + "; a NIC is bound with dpdk-devbind.py";
  return tl::unexpected<Error>(Error{.code = ErrorCode::kSystem,
                                     .what = std::move(what),
                                     .where = p.device,
                                     .sys_errno = code < 0 ? -code : 0});
}

namespace {

// Number of DPDK's binary interface, in the names of Debian's packages.
constexpr int kAbi = RTE_VER_YEAR + (RTE_VER_MONTH == 11 ? 1 : 0);

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
  const std::string these = "; the drivers here are: " + device::listed({drivers.begin(), drivers.end()});
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
  return device::listed({devices.begin(), devices.end()});
}

namespace {

// Questions about one interface.
class InterfaceQuestions {
 public:
  explicit InterfaceQuestions(const std::string& name) : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    name.copy(std::begin(request_.ifr_name), IFNAMSIZ - 1);
  }
  [[nodiscard]] bool ask(unsigned long question) { return ioctl(fd_.get(), question, &request_) == 0; }
  template <class T>
  [[nodiscard]] bool ask_driver(T& question) {
    request_.ifr_data = reinterpret_cast<char*>(&question);
    return ask(SIOCETHTOOL);
  }
  [[nodiscard]] const ifreq& answer() const { return request_; }

 private:
  UniqueFd fd_;
  ifreq request_{};
};

bool has_flag(const std::string& interface, std::uint32_t command, std::uint32_t mask) {
  ethtool_value value{.cmd = command, .data = 0};
  return InterfaceQuestions(interface).ask_driver(value) && (value.data & mask) != 0;
}

struct Right {
  unsigned number;
  std::string_view name;
};
constexpr std::array kRights{Right{CAP_NET_RAW, "CAP_NET_RAW"}, Right{CAP_NET_ADMIN, "CAP_NET_ADMIN"},
                             Right{CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, Right{CAP_IPC_LOCK, "CAP_IPC_LOCK"}};

bool needs(device::DeviceKind kind, unsigned right) {
  switch (kind) {
    case device::DeviceKind::kAfXdp:
      // CAP_BPF is not enough: libxdp asks for a program by its number.
      return true;
    case device::DeviceKind::kAfPacket:
      // ethdev gives the interface its own MAC address again, and makes it promiscuous.
      return right == CAP_NET_RAW || right == CAP_NET_ADMIN;
    case device::DeviceKind::kPcap:
      return right == CAP_NET_RAW;
    case device::DeviceKind::kTap:
      return right == CAP_NET_ADMIN;
    default:
      break;
  }
  return false;
}

std::uint64_t rights_of_process() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return ~std::uint64_t{0};
  return data[0].effective | std::uint64_t{data[1].effective} << 32;
}

// Root's capability, or a limit that says so.
bool may_lock_memory(std::uint64_t rights) {
  rlimit limit{};
  return (rights >> CAP_IPC_LOCK & 1) != 0 ||
         (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY);
}

// Whose rights hold in networks of its own only.
bool in_user_namespace() {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0, outside = 0, count = 0;
  return map >> inside >> outside >> count && count < UINT32_MAX;
}

}  // namespace

device::InterfaceFacts facts_of(const std::string& interface) {
  device::InterfaceFacts facts{.exists = if_nametoindex(interface.c_str()) != 0};
  if (!facts.exists) return facts;
  InterfaceQuestions questions(interface);
  if (questions.ask(SIOCGIFFLAGS)) {
    facts.up = (questions.answer().ifr_flags & IFF_UP) != 0;
    facts.loopback = (questions.answer().ifr_flags & IFF_LOOPBACK) != 0;
  }
  if (questions.ask(SIOCGIFMTU)) facts.mtu = static_cast<std::uint32_t>(questions.answer().ifr_mtu);
  facts.has_ipv4 = questions.ask(SIOCGIFADDR);
  facts.merges = has_flag(interface, ETHTOOL_GGRO, ~0U) || has_flag(interface, ETHTOOL_GFLAGS, ETH_FLAG_LRO);
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  if (questions.ask_driver(channels)) {
    facts.queues = std::max(channels.combined_count + channels.rx_count, 1U);
    facts.combined = channels.rx_count == 0;
  }
  return facts;
}

InterfaceState state_of(const std::string& interface) noexcept {
  InterfaceQuestions questions(interface);
  InterfaceState state;
  if (!questions.ask(SIOCGIFINDEX)) return state;
  state.index = static_cast<unsigned>(questions.answer().ifr_ifindex);
  if (!questions.ask(SIOCGIFFLAGS)) return {};
  state.up = (questions.answer().ifr_flags & IFF_UP) != 0;
  state.carrier = (questions.answer().ifr_flags & IFF_RUNNING) != 0;
  return state;
}

std::vector<std::string> interfaces_present() {
  std::vector<std::string> names;
  struct if_nameindex* const all = if_nameindex();
  for (const struct if_nameindex* one = all; one != nullptr && one->if_index != 0; ++one)
    names.emplace_back(one->if_name);
  if (all != nullptr) if_freenameindex(all);
  return names;
}

std::string missing_rights(device::DeviceKind kind) {
  const std::uint64_t rights = rights_of_process();
  std::string missing;
  for (const Right& right : kRights) {
    if (!needs(kind, right.number) || (rights >> right.number & 1) != 0) continue;
    if (right.number == CAP_IPC_LOCK && may_lock_memory(rights)) continue;
    missing.append(missing.empty() ? "" : ", ").append(right.name);
  }
  if (missing.empty()) {
    const bool powerless = kind == device::DeviceKind::kAfXdp && in_user_namespace();
    return powerless ? "; a user namespace has no right to XDP programs: use net_af_packet" : "";
  }
  return "; this process lacks " + missing +
         ": run it as root, or give it AmbientCapabilities= in its systemd unit";
}

namespace {

// Interfaces that af_xdp opened in this process, and their numbers. DPDK 22.11 miscounts the users of a umem
// when it closes a port, so that the first socket, which is the umem's own, stays bound to the interface's
// queue. An interface that was made anew under the same name has another number and a free queue.
std::map<std::string, unsigned>& used_by_xdp() {
  static std::map<std::string, unsigned> interfaces;
  return interfaces;
}

}  // namespace

void note_xdp(const std::string& interface, unsigned index) {
  used_by_xdp().insert_or_assign(interface, index);
}

Result<void> prepare_kernel_port(const PortOptions& options, ProbedDevice& p) {
  const device::KernelDevice device = device::examine_kernel_device(
      options.device, options.mtu, options.receive_queues, options.descriptors, options.burst);
  if (!device.complaints.empty()) return wrong(options, device.complaints.front());
  const unsigned index = device.interface.empty() ? 0 : if_nametoindex(device.interface.c_str());
  const auto used = used_by_xdp().find(device.interface);
  if (device.kind == device::DeviceKind::kAfXdp && used != used_by_xdp().end() && used->second == index)
    return wrong(options, device.interface +
                              " was a port of this process before, and DPDK gives an interface of "
                              "af_xdp back only when the process ends: start it again");
  const device::InterfaceAdvice advice =
      device::advise(device, options.mtu, facts_of(device.interface), interfaces_present());
  if (!advice.error.empty()) return wrong(options, advice.error);
  for (const std::string& warning : advice.warnings)
    rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_USER1, "port %s: %s\n", options.name.c_str(), warning.c_str());
  p.device = device.device;
  p.interface = device.interface;
  p.index = index;
  return {};
}

}  // namespace tally::dpdk

#include "kernel_interface.h"

#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <string_view>

#include "unique_fd.h"

namespace tally {
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

bool needs(KernelDriver driver, unsigned right) {
  switch (driver) {
    case KernelDriver::kAfXdp:
      // CAP_BPF is not enough: libxdp asks for a program by its number.
      return true;
    case KernelDriver::kAfPacket:
      // ethdev gives the interface its own MAC address again, and makes it promiscuous.
      return right == CAP_NET_RAW || right == CAP_NET_ADMIN;
    case KernelDriver::kPcap:
      return right == CAP_NET_RAW;
    case KernelDriver::kTap:
      return right == CAP_NET_ADMIN;
    case KernelDriver::kNone:
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

InterfaceFacts facts_of(const std::string& interface) {
  InterfaceFacts facts{.exists = if_nametoindex(interface.c_str()) != 0};
  if (!facts.exists) return facts;
  InterfaceQuestions questions(interface);
  if (questions.ask(SIOCGIFFLAGS)) facts.up = (questions.answer().ifr_flags & IFF_UP) != 0;
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

std::vector<std::string> interfaces_present() {
  std::vector<std::string> names;
  struct if_nameindex* const all = if_nameindex();
  for (const struct if_nameindex* one = all; one != nullptr && one->if_index != 0; ++one)
    names.emplace_back(one->if_name);
  if (all != nullptr) if_freenameindex(all);
  return names;
}

std::string missing_rights(KernelDriver driver) {
  const std::uint64_t rights = rights_of_process();
  std::string missing;
  for (const Right& right : kRights) {
    if (!needs(driver, right.number) || (rights >> right.number & 1) != 0) continue;
    if (right.number == CAP_IPC_LOCK && may_lock_memory(rights)) continue;
    missing.append(missing.empty() ? "" : ", ").append(right.name);
  }
  if (missing.empty()) {
    const bool powerless = driver == KernelDriver::kAfXdp && in_user_namespace();
    return powerless ? "; a user namespace has no right to XDP programs: use net_af_packet" : "";
  }
  return "; this process lacks " + missing +
         ": run it as root, or give it AmbientCapabilities= in its systemd unit";
}

}  // namespace tally

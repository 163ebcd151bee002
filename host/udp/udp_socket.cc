#include "udp/udp_socket.h"

#include <linux/errqueue.h>
#include <linux/ethtool.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

namespace tally::udp {
namespace {

constexpr int kOn = 1;

std::size_t buffer(int fd, int force, int plain, std::size_t bytes) noexcept {
  const int wanted = static_cast<int>(bytes);
  if (setsockopt(fd, SOL_SOCKET, force, &wanted, sizeof wanted) != 0)
    static_cast<void>(setsockopt(fd, SOL_SOCKET, plain, &wanted, sizeof wanted));
  int granted = 0;
  socklen_t size = sizeof granted;
  if (getsockopt(fd, SOL_SOCKET, plain, &granted, &size) != 0) return 0;
  return static_cast<std::size_t>(granted) / 2;  // the kernel doubles what it grants, for its own records
}

}  // namespace

Result<UdpSocket> UdpSocket::open(sa_family_t family) {
  UdpSocket made;
  made.family_ = family;
  made.fd_.reset(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.fd_) return system_failure("cannot open a UDP socket", errno);
  // Don't fragment; what the path says by ICMP is told; only groups that this very socket joined.
  int error = 0;
  if (family == AF_INET) {
    error = made.set(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    if (error == 0) error = made.set(IPPROTO_IP, IP_RECVERR, kOn);
    if (error == 0) error = made.set(IPPROTO_IP, IP_MULTICAST_ALL, 0);
  } else {
    error = made.set(IPPROTO_IPV6, IPV6_V6ONLY, kOn);
    if (error == 0) error = made.set(IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    if (error == 0) error = made.set(IPPROTO_IPV6, IPV6_RECVERR, kOn);
    if (error == 0) error = made.set(IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
  }
  if (error != 0) return system_failure("cannot prepare a UDP socket", error);
  return made;
}

int UdpSocket::bind(const UdpAddress& to) const noexcept {
  return ::bind(fd(), to.raw(), to.size()) == 0 ? 0 : errno;
}

int UdpSocket::connect(const UdpAddress& to) const noexcept {
  return ::connect(fd(), to.raw(), to.size()) == 0 ? 0 : errno;
}

int UdpSocket::set(int level, int name, int value) const noexcept {
  return setsockopt(fd(), level, name, &value, sizeof value) == 0 ? 0 : errno;
}

UdpAddress UdpSocket::local() const noexcept {
  UdpAddress address;
  socklen_t size = UdpAddress::kRoom;
  if (getsockname(fd(), address.raw(), &size) != 0) return {};
  return address;
}

UdpSocket::Buffers UdpSocket::grow_buffers(std::size_t bytes) const noexcept {
  return {buffer(fd(), SO_RCVBUFFORCE, SO_RCVBUF, bytes), buffer(fd(), SO_SNDBUFFORCE, SO_SNDBUF, bytes)};
}

std::size_t UdpSocket::send_buffer(std::size_t bytes) const noexcept {
  return buffer(fd(), SO_SNDBUFFORCE, SO_SNDBUF, bytes);
}

std::uint64_t UdpSocket::overruns() const noexcept {
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof memory;
  if (!fd_ || getsockopt(fd(), SOL_SOCKET, SO_MEMINFO, memory.data(), &size) != 0) return 0;
  return memory[SK_MEMINFO_DROPS];
}

namespace {

constexpr TimeNs kReportTicks = 4;
constexpr TimeNs kShortestTick = kMillisecond;  // HZ is 100 to 1000
constexpr TimeNs kLongestTick = 10 * kMillisecond;

bool same(const GroupAddress& a, const GroupAddress& b) noexcept {
  return a.interface == b.interface && a.group.same_ip(b.group) && a.group.port() == b.group.port();
}

}  // namespace

// One request for both families (RFC 3678).
int GroupSocket::change(int option) const noexcept {
  group_req request{};
  request.gr_interface = address_.interface;
  std::memcpy(&request.gr_group, address_.group.raw(), address_.group.size());
  const int level = address_.group.ipv4() ? IPPROTO_IP : IPPROTO_IPV6;
  return setsockopt(socket_.fd(), level, option, &request, sizeof request) == 0 ? 0 : errno;
}

Result<bool> GroupSocket::join(const GroupAddress& to, std::size_t buffer) {
  if (joined() && same(to, address_)) return false;
  leave();
  auto opened = UdpSocket::open(to.group.family());
  if (!opened) return tl::unexpected(opened.error());
  socket_ = std::move(*opened);
  address_ = to;
  static_cast<void>(socket_.grow_buffers(buffer));
  int error = socket_.set(SOL_SOCKET, SO_REUSEADDR, 1);
  if (error == 0) error = socket_.bind(to.group);
  if (error == 0) error = change(MCAST_JOIN_GROUP);
  if (error == 0) return true;
  socket_.close();
  return system_failure("cannot join the multicast group " + to.group.text(), error);
}

void GroupSocket::leave() noexcept {
  if (!joined()) return;
  static_cast<void>(change(MCAST_LEAVE_GROUP));
  socket_.close();
}

// The coarse clock goes by ticks.
TimeNs report_delay() noexcept {
  timespec tick{};
  const bool known = clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0 && tick.tv_sec == 0;
  const TimeNs wide = known ? static_cast<TimeNs>(tick.tv_nsec) : kLongestTick;
  return kReportTicks * std::clamp(wide, kShortestTick, kLongestTick);
}

namespace {

constexpr std::string_view kFeature = "tx-udp-segmentation";
constexpr std::size_t kBlockBits = 32;

// A request of ethtool: a fixed head, then what the kernel fills in.
class Request {
 public:
  Request(std::uint32_t command, std::size_t bytes) : words_(bytes / sizeof(std::uint32_t) + 1) {
    words_[0] = command;
  }
  [[nodiscard]] std::uint32_t& word(std::size_t offset) { return words_[offset / sizeof(std::uint32_t)]; }
  [[nodiscard]] const char* bytes(std::size_t offset) const {
    return reinterpret_cast<const char*>(words_.data()) + offset;
  }
  [[nodiscard]] bool ask(const UdpSocket& socket, const std::string& interface) {
    ifreq request{};
    if (interface.size() >= sizeof request.ifr_name) return false;
    std::memcpy(request.ifr_name, interface.data(), interface.size());
    request.ifr_data = reinterpret_cast<char*>(words_.data());
    return ioctl(socket.fd(), SIOCETHTOOL, &request) == 0;
  }

 private:
  std::vector<std::uint32_t> words_;  // all of ethtool's fields are aligned to them
};

std::optional<std::size_t> count_features(const UdpSocket& socket, const std::string& interface) {
  Request sets(ETHTOOL_GSSET_INFO, sizeof(ethtool_sset_info) + sizeof(std::uint32_t));
  const std::uint64_t mask = std::uint64_t{1} << ETH_SS_FEATURES;
  std::memcpy(&sets.word(offsetof(ethtool_sset_info, sset_mask)), &mask, sizeof mask);
  if (!sets.ask(socket, interface)) return std::nullopt;
  return sets.word(offsetof(ethtool_sset_info, data));
}

std::optional<std::size_t> find_feature(const UdpSocket& socket, const std::string& interface,
                                        std::size_t count) {
  Request names(ETHTOOL_GSTRINGS, sizeof(ethtool_gstrings) + count * ETH_GSTRING_LEN);
  names.word(offsetof(ethtool_gstrings, string_set)) = ETH_SS_FEATURES;
  names.word(offsetof(ethtool_gstrings, len)) = static_cast<std::uint32_t>(count);
  if (!names.ask(socket, interface)) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    const char* const name = names.bytes(offsetof(ethtool_gstrings, data) + i * ETH_GSTRING_LEN);
    if (kFeature == std::string_view(name, strnlen(name, ETH_GSTRING_LEN))) return i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<bool> takes_uncut_udp(const std::string& interface) {
  const auto socket = UdpSocket::open(AF_INET);
  if (!socket) return std::nullopt;
  const auto count = count_features(*socket, interface);
  if (!count) return std::nullopt;
  const auto index = find_feature(*socket, interface, *count);
  if (!index) return std::nullopt;
  const std::size_t blocks = (*count + kBlockBits - 1) / kBlockBits;
  Request features(ETHTOOL_GFEATURES,
                   sizeof(ethtool_gfeatures) + blocks * sizeof(ethtool_get_features_block));
  features.word(offsetof(ethtool_gfeatures, size)) = static_cast<std::uint32_t>(blocks);
  if (!features.ask(*socket, interface)) return std::nullopt;
  const std::size_t block = offsetof(ethtool_gfeatures, features) +
                            *index / kBlockBits * sizeof(ethtool_get_features_block) +
                            offsetof(ethtool_get_features_block, active);
  return (features.word(block) >> (*index % kBlockBits) & 1U) != 0;
}

namespace {

std::string advice(int error, const std::string& box, const std::string& interface) {
  switch (error) {
    case ECONNREFUSED:
      return "the machine at " + box +
             " is there, but no box listens on it; TALLY_SWITCH is the address of "
             "tallyd's `box:`, never one of a host";
    case EHOSTUNREACH:
      return "nobody says that " + box + " is his (ARP, neighbour discovery), or a router knows no way";
    case ENETUNREACH:
    case ENETDOWN:
      return "see: ip route get " + box;
    case EMSGSIZE:
      return "the path carries less than it said: lower TALLY_MTU";
    case EPERM:
    case EACCES:
      return "a firewall of this machine forbids it";
    case EADDRNOTAVAIL:
    case EINVAL:
      return "did this machine lose its address?";
    case ENOBUFS:
      return "the interface's queue or a policy drops it: tc -s qdisc show dev " +
             (interface.empty() ? "IF" : interface);
    default:
      return {};
  }
}

int error_of(msghdr& message) noexcept {
  for (const cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, const_cast<cmsghdr*>(each))) {
    const bool v4 = each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_RECVERR;
    const bool v6 = each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_RECVERR;
    if (!v4 && !v6) continue;
    sock_extended_err said{};
    std::memcpy(&said, CMSG_DATA(each), sizeof said);
    if (said.ee_origin == SO_EE_ORIGIN_LOCAL) return 0;  // the call that failed said it, too
    return static_cast<int>(said.ee_errno);
  }
  return 0;
}

}  // namespace

std::string PathErrors::text(const UdpAddress& box, const std::string& interface) const {
  if (count_ == 0) return {};
  const std::string what = advice(last_, box.ip_text(), interface);
  return std::to_string(count_) + (count_ == 1 ? " error" : " errors") +
         " of the path, the last: " + std::strerror(last_) + (what.empty() ? "" : " (" + what + ")");
}

void drain_errors(int fd, PathErrors& errors) noexcept {
  constexpr int kMost = 1024;  // whoever sends errors faster than this is not obeyed
  for (int i = 0; i < kMost; ++i) {
    alignas(cmsghdr) std::array<std::byte, 512> control;
    std::array<std::byte, 64> piece;  // the rest of the datagram that failed is not needed
    iovec vector{piece.data(), piece.size()};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    if (const int error = error_of(message); error != 0) errors.note(error);
  }
}

}  // namespace tally::udp

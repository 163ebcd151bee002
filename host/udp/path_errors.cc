#include "path_errors.h"

#include <linux/errqueue.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tally {
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

}  // namespace tally

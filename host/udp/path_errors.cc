#include "path_errors.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tally {
namespace {

std::string advice(int error, const std::string& box) {
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
    default:
      return {};
  }
}

}  // namespace

std::string PathErrors::text(const UdpAddress& box) const {
  if (count_ == 0) return {};
  const std::string what = advice(last_, box.ip_text());
  return std::to_string(count_) + (count_ == 1 ? " error" : " errors") +
         " of the path, the last: " + std::strerror(last_) + (what.empty() ? "" : " (" + what + ")");
}

void drain_errors(int fd) noexcept {
  std::array<std::byte, 64> piece;  // the rest of the datagram that failed is not needed
  iovec vector{piece.data(), piece.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  constexpr int kMost = 1024;  // whoever sends errors faster than this is not obeyed
  for (int i = 0; i < kMost && recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0; ++i) continue;
}

}  // namespace tally

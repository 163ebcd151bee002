#include "udp_socket.h"

#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tally {
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

tl::unexpected<Error> system_failure(std::string what, int error, std::string where) {
  return tl::unexpected(
      Error{ErrorCode::kSystem, std::move(what) + ": " + std::strerror(error), std::move(where), error});
}

UdpSocket& UdpSocket::operator=(UdpSocket&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::exchange(other.fd_, -1);
  family_ = other.family_;
  return *this;
}

void UdpSocket::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<UdpSocket> UdpSocket::open(sa_family_t family) {
  UdpSocket made;
  made.family_ = family;
  made.fd_ = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made.fd_ < 0) return system_failure("cannot open a UDP socket", errno);
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
  return ::bind(fd_, to.raw(), to.size()) == 0 ? 0 : errno;
}

int UdpSocket::connect(const UdpAddress& to) const noexcept {
  return ::connect(fd_, to.raw(), to.size()) == 0 ? 0 : errno;
}

int UdpSocket::set(int level, int name, int value) const noexcept {
  return setsockopt(fd_, level, name, &value, sizeof value) == 0 ? 0 : errno;
}

UdpAddress UdpSocket::local() const noexcept {
  UdpAddress address;
  socklen_t size = UdpAddress::kRoom;
  if (getsockname(fd_, address.raw(), &size) != 0) return {};
  return address;
}

UdpSocket::Buffers UdpSocket::grow_buffers(std::size_t bytes) const noexcept {
  return {buffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF, bytes), buffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF, bytes)};
}

std::size_t UdpSocket::send_buffer(std::size_t bytes) const noexcept {
  return buffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF, bytes);
}

std::uint64_t UdpSocket::overruns() const noexcept {
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof memory;
  if (fd_ < 0 || getsockopt(fd_, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) != 0) return 0;
  return memory[SK_MEMINFO_DROPS];
}

}  // namespace tally

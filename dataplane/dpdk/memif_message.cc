#include "dpdk/memif_message.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tally::dpdk {
namespace {

// Packed; the type takes the first two bytes.
constexpr std::size_t kInterfaceIdAt = 4;  // behind the version
constexpr std::size_t kRingFlagsAt = 2;
constexpr std::size_t kRegionIndexAt = 2;
constexpr std::size_t kRegionBytesAt = 4;
constexpr std::size_t kRingIndexAt = 4;
constexpr std::size_t kRingRegionAt = 6;
constexpr std::size_t kRingOffsetAt = 8;
constexpr std::size_t kRingLog2At = 12;
constexpr std::uint64_t kRingHeaderBytes = 128;
constexpr std::uint64_t kDescriptorBytes = 16;
constexpr std::size_t kReasonAt = 6;  // behind a code
constexpr std::size_t kReasonBytes = 96;
constexpr std::uint16_t kToServer = 1;

template <class T>
T at(const MemifMessage& m, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, m.bytes.data() + offset, sizeof value);
  return value;
}

MemifMessage message_of(MemifType type) noexcept {
  MemifMessage m;
  std::memcpy(m.bytes.data(), &type, sizeof type);
  return m;
}

}  // namespace

MemifType MemifMessage::type() const noexcept { return MemifType{at<std::uint16_t>(*this, 0)}; }

std::uint32_t MemifMessage::interface_id() const noexcept { return at<std::uint32_t>(*this, kInterfaceIdAt); }

bool MemifMessage::ring_to_server() const noexcept {
  return (at<std::uint16_t>(*this, kRingFlagsAt) & kToServer) != 0;
}

MemifMessage::Region MemifMessage::region() const noexcept {
  return {at<std::uint16_t>(*this, kRegionIndexAt), at<std::uint64_t>(*this, kRegionBytesAt)};
}

MemifMessage::Ring MemifMessage::ring() const noexcept {
  Ring ring{.index = at<std::uint16_t>(*this, kRingIndexAt),
            .region = at<std::uint16_t>(*this, kRingRegionAt),
            .first_byte = at<std::uint32_t>(*this, kRingOffsetAt),
            .log2_size = at<std::uint8_t>(*this, kRingLog2At)};
  ring.end_byte = ring.first_byte + kRingHeaderBytes + (kDescriptorBytes << (ring.log2_size & 31U));
  return ring;
}

MemifMessage memif_ack() { return message_of(MemifType::kAck); }

MemifMessage memif_disconnect(std::string_view reason) {
  MemifMessage m = message_of(MemifType::kDisconnect);
  std::memcpy(m.bytes.data() + kReasonAt, reason.data(), std::min(reason.size(), kReasonBytes - 1));
  return m;
}

MemifAddress::MemifAddress(std::string_view socket, bool abstract) noexcept {
  name_.sun_family = AF_UNIX;
  const std::size_t from = abstract ? 1 : 0;
  const std::size_t length = socket.copy(std::begin(name_.sun_path) + from, sizeof name_.sun_path - 1 - from);
  if (abstract) bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + from + length);
}

UniqueFd memif_socket() noexcept {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

MemifReceived receive_memif(int socket, MemifMessage& message) noexcept {
  iovec part{.iov_base = message.bytes.data(), .iov_len = message.bytes.size()};
  // Room for one descriptor and for the credentials that the driver's sockets ask for. Who sends no
  // credentials can put more descriptors there; all but the first are closed.
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t bytes = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return MemifReceived::kNothing;
  for (cmsghdr* c = bytes < 0 ? nullptr : CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < fds; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);
      if (!message.fd) message.fd = std::move(owned);
    }
  }
  return bytes == static_cast<ssize_t>(MemifMessage::kBytes) ? MemifReceived::kMessage : MemifReceived::kEnd;
}

bool send_memif(int socket, const MemifMessage& message) noexcept {
  iovec part{.iov_base = const_cast<std::byte*>(message.bytes.data()), .iov_len = message.bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (message.fd) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = message.fd.get();
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  return sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(MemifMessage::kBytes);
}

}  // namespace tally::dpdk

#include "route_query.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tally {
namespace {

constexpr std::size_t kHead = NLMSG_LENGTH(sizeof(rtmsg));

std::size_t aligned(std::size_t bytes) noexcept { return (bytes + 3) / 4 * 4; }

// A question with two addresses.
class Question {
 public:
  Question(const UdpAddress& to, const UdpAddress& from) noexcept {
    add(RTA_DST, to);
    add(RTA_SRC, from);
    const std::size_t bits = address_bytes(to) * 8;
    rtmsg route{};
    route.rtm_family = static_cast<unsigned char>(to.family());
    route.rtm_dst_len = route.rtm_src_len = static_cast<unsigned char>(bits);
    nlmsghdr head{};
    head.nlmsg_len = static_cast<std::uint32_t>(size_);
    head.nlmsg_type = RTM_GETROUTE;
    head.nlmsg_flags = NLM_F_REQUEST;
    std::memcpy(bytes_.data(), &head, sizeof head);
    std::memcpy(bytes_.data() + NLMSG_HDRLEN, &route, sizeof route);
  }
  [[nodiscard]] const std::byte* data() const noexcept { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static std::size_t address_bytes(const UdpAddress& of) noexcept { return of.ipv4() ? 4 : 16; }
  void add(unsigned short type, const UdpAddress& address) noexcept {
    const Ipv6 ip = address.ip();  // an IPv4 address is its end
    const std::size_t bytes = address_bytes(address);
    const rtattr attribute{static_cast<unsigned short>(sizeof(rtattr) + bytes), type};
    std::memcpy(bytes_.data() + size_, &attribute, sizeof attribute);
    std::memcpy(bytes_.data() + size_ + sizeof attribute, ip.data() + (ip.size() - bytes), bytes);
    size_ += aligned(attribute.rta_len);
  }

  alignas(nlmsghdr) std::array<std::byte, kHead + 2 * (sizeof(rtattr) + 16)> bytes_{};
  std::size_t size_ = kHead;
};

unsigned interface_in(std::span<const std::byte> answer) noexcept {
  nlmsghdr head{};
  if (answer.size() < kHead) return 0;
  std::memcpy(&head, answer.data(), sizeof head);
  if (head.nlmsg_type != RTM_NEWROUTE || head.nlmsg_len > answer.size()) return 0;  // else an error
  for (std::size_t at = kHead; at + sizeof(rtattr) <= head.nlmsg_len;) {
    rtattr attribute{};
    std::memcpy(&attribute, answer.data() + at, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > head.nlmsg_len) return 0;
    std::uint32_t index = 0;
    if (attribute.rta_type == RTA_OIF && attribute.rta_len == sizeof attribute + sizeof index) {
      std::memcpy(&index, answer.data() + at + sizeof attribute, sizeof index);
      return index;
    }
    at += aligned(attribute.rta_len);
  }
  return 0;
}

}  // namespace

unsigned find_outgoing_interface(const UdpAddress& to, const UdpAddress& from) noexcept {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return 0;
  const Question question(to, from);
  alignas(nlmsghdr) std::array<std::byte, 4096> answer;
  ssize_t got = -1;
  // The kernel has answered when send() returns.
  if (send(fd, question.data(), question.size(), 0) == static_cast<ssize_t>(question.size()))
    got = recv(fd, answer.data(), answer.size(), MSG_DONTWAIT);
  close(fd);
  return got <= 0 ? 0 : interface_in({answer.data(), static_cast<std::size_t>(got)});
}

}  // namespace tally

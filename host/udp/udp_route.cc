#include "udp/udp_route.h"

#include <linux/in6.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

#include "tally/unique_fd.h"
#include "tally/wire.h"
#include "text/text.h"
#include "udp/udp_socket.h"

namespace tally::udp {
namespace {

tl::unexpected<Error> bad(std::string what, const char* where) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), where);
}

bool link_local(const UdpAddress& address) noexcept {
  const Ipv6 ip = address.ip();
  return !address.ipv4() && ip[0] == 0xfe && (ip[1] & 0xC0U) == 0x80;
}

bool names_a_host(const UdpAddress& address) noexcept {
  const Ipv6 ip = address.ip();
  if (address.ipv4()) return ip[12] != 0 && ip[12] < 224;
  return ip != Ipv6{} && ip[0] != 0xff;
}

void find_interface(UdpRoute& route, const UdpAddress& box) {
  std::array<char, IF_NAMESIZE> name{};
  const unsigned index = find_outgoing_interface(box, route.source);
  if (index == 0 || if_indextoname(index, name.data()) == nullptr) return;
  route.interface = index;
  route.interface_name = name.data();
}

std::uint32_t mtu_of(const UdpSocket& connected) noexcept {
  int mtu = 0;
  socklen_t size = sizeof mtu;
  const bool v4 = connected.family() == AF_INET;
  if (getsockopt(connected.fd(), v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &size) != 0)
    return 0;
  return mtu < 0 ? 0 : static_cast<std::uint32_t>(mtu);
}

}  // namespace

Result<UdpEnds> parse_ends(std::string_view box, std::string_view own) {
  UdpEnds ends;
  const auto there = parse_address(box);
  if (!there || !names_a_host(*there))
    return bad(text::in_quotes(box) + " is not the IP address of a box", "TALLY_SWITCH");
  if (link_local(*there))
    return bad(text::in_quotes(box) +
                   " is a link-local address, which does not say on which interface: give the "
                   "box a global or a unique local one (fd00::/8)",
               "TALLY_SWITCH");
  ends.box = *there;
  ends.box.set_port(kBasePort);
  if (own.empty()) return ends;
  const auto here = parse_address(own.substr(0, own.find('/')));
  if (!here || !names_a_host(*here))
    return bad(text::in_quotes(own) + " is not an IP address of this machine", "TALLY_ADDRESS");
  if (here->family() != there->family())
    return bad(text::in_quotes(own) + " and the box " + std::string(box) + " are not both IPv4 or both IPv6",
               "TALLY_ADDRESS");
  ends.own = *here;
  return ends;
}

Result<UdpRoute> find_route(const UdpAddress& box, const UdpAddress& own) {
  auto probe = UdpSocket::open(box.family());
  if (!probe) return tl::unexpected(probe.error());
  if (own.family() != AF_UNSPEC) {
    if (const int error = probe->bind(own); error == EADDRNOTAVAIL)
      return bad("no interface of this machine has the address " + own.ip_text() + " (see: ip address)",
                 "TALLY_ADDRESS");
    else if (error != 0)
      return system_failure("cannot use the address " + own.ip_text(), error, "TALLY_ADDRESS");
  } else if (!box.ipv4()) {
    // Not one of those that change every day.
    static_cast<void>(probe->set(IPPROTO_IPV6, IPV6_ADDR_PREFERENCES, IPV6_PREFER_SRC_PUBLIC));
  }
  if (const int error = probe->connect(box); error != 0)
    return system_failure("there is no way from here to the box " + box.ip_text() + " (see: ip route get " +
                              box.ip_text() + ")",
                          error, "TALLY_SWITCH");
  UdpRoute route;
  route.source = probe->local();
  route.source.set_port(0);
  route.mtu = mtu_of(*probe);
  find_interface(route, box);
  return route;
}

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
    wire_put(bytes_.data(), head);
    wire_put(bytes_.data() + NLMSG_HDRLEN, route);
  }
  [[nodiscard]] const std::byte* data() const noexcept { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static std::size_t address_bytes(const UdpAddress& of) noexcept { return of.ipv4() ? 4 : 16; }
  void add(unsigned short type, const UdpAddress& address) noexcept {
    const Ipv6 ip = address.ip();  // an IPv4 address is its end
    const std::size_t bytes = address_bytes(address);
    const rtattr attribute{static_cast<unsigned short>(sizeof(rtattr) + bytes), type};
    wire_put(bytes_.data() + size_, attribute);
    std::memcpy(bytes_.data() + size_ + sizeof attribute, ip.data() + (ip.size() - bytes), bytes);
    size_ += aligned(attribute.rta_len);
  }

  alignas(nlmsghdr) std::array<std::byte, kHead + 2 * (sizeof(rtattr) + 16)> bytes_{};
  std::size_t size_ = kHead;
};

unsigned interface_in(std::span<const std::byte> answer) noexcept {
  if (answer.size() < kHead) return 0;
  const auto head = wire_at<nlmsghdr>(answer.data());
  if (head.nlmsg_type != RTM_NEWROUTE || head.nlmsg_len > answer.size()) return 0;  // else an error
  for (std::size_t at = kHead; at + sizeof(rtattr) <= head.nlmsg_len;) {
    const auto attribute = wire_at<rtattr>(answer.data() + at);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > head.nlmsg_len) return 0;
    if (attribute.rta_type == RTA_OIF && attribute.rta_len == sizeof attribute + sizeof(std::uint32_t))
      return wire_at<std::uint32_t>(answer.data() + at + sizeof attribute);
    at += aligned(attribute.rta_len);
  }
  return 0;
}

}  // namespace

unsigned find_outgoing_interface(const UdpAddress& to, const UdpAddress& from) noexcept {
  const UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  const Question question(to, from);
  alignas(nlmsghdr) std::array<std::byte, 4096> answer;
  // The kernel has answered when send() returns.
  if (!fd || send(fd.get(), question.data(), question.size(), 0) != static_cast<ssize_t>(question.size()))
    return 0;
  const ssize_t got = recv(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  return got <= 0 ? 0 : interface_in({answer.data(), static_cast<std::size_t>(got)});
}

}  // namespace tally::udp

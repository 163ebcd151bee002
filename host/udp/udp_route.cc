#include "udp_route.h"

#include <linux/in6.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "in_quotes.h"
#include "route_query.h"
#include "tally/wire.h"
#include "udp_socket.h"

namespace tally {
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

Result<UdpEnds> parse_udp_ends(std::string_view box, std::string_view own) {
  UdpEnds ends;
  const auto there = parse_udp_address(box);
  if (!there || !names_a_host(*there))
    return bad(in_quotes(box) + " is not the IP address of a box", "TALLY_SWITCH");
  if (link_local(*there))
    return bad(in_quotes(box) +
                   " is a link-local address, which does not say on which interface: give the "
                   "box a global or a unique local one (fd00::/8)",
               "TALLY_SWITCH");
  ends.box = *there;
  ends.box.set_port(kBasePort);
  if (own.empty()) return ends;
  const auto here = parse_udp_address(own.substr(0, own.find('/')));
  if (!here || !names_a_host(*here))
    return bad(in_quotes(own) + " is not an IP address of this machine", "TALLY_ADDRESS");
  if (here->family() != there->family())
    return bad(in_quotes(own) + " and the box " + std::string(box) + " are not both IPv4 or both IPv6",
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

}  // namespace tally

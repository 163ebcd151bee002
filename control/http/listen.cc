#include "http/listen.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "members/texts.h"

namespace tally::http {
namespace {

constexpr const char* kHttpKey = "control.http";

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress socket_address(const config::HttpAddress& address, std::uint16_t port) {
  SocketAddress out;
  if (is_mapped_ipv4(address.address)) {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    std::memcpy(&v4->sin_addr, address.address.data() + 12, 4);
    out.size = sizeof *v4;
  } else {
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    std::memcpy(&v6->sin6_addr, address.address.data(), 16);
    out.size = sizeof *v6;
  }
  return out;
}

// errno is set where it is empty.
UniqueFd bound(const config::HttpAddress& address, std::uint16_t port) {
  const SocketAddress at = socket_address(address, port);
  UniqueFd made(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  // A daemon that begins anew finds the last one's connections closing.
  if (!made || ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return UniqueFd();
  // 0.0.0.0 beside [::] is another socket's business.
  if (at.storage.ss_family == AF_INET6)
    (void)::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  return ::bind(made.get(), at.get(), at.size) == 0 ? std::move(made) : UniqueFd();
}

std::string help_for(int error) {
  switch (error) {
    case EADDRINUSE:
      return "another program listens there (ss -ltnp says which): end it, or name another port";
    case EADDRNOTAVAIL:
      return "no interface of this machine has that address: name one that `ip addr` shows, or 127.0.0.1";
    case EACCES:
      return "a port below 1024 is for those with CAP_NET_BIND_SERVICE: name a larger one";
    default:
      return "name another address, or write control: {http: none}";
  }
}

}  // namespace

std::string address_text(const config::HttpAddress& address) {
  if (!address.path.empty()) return address.path;
  const std::string host = members::address_text(address.address);
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(address.port);
}

bool is_of_this_machine(const config::HttpAddress& address) {
  if (!address.path.empty()) return true;
  if (is_mapped_ipv4(address.address)) return address.address[12] == 127;
  Ipv6 loopback{};
  loopback.back() = 1;
  return address.address == loopback;
}

Result<UniqueFd> listen_at(const config::HttpAddress& address) {
  UniqueFd made = bound(address, address.port);
  if (made && ::listen(made.get(), kBacklog) == 0) return made;
  const int error = errno;
  return tl::unexpected<Error>(Error{ErrorCode::kSystem,
                                     "HTTP cannot be served at " + address_text(address) + ": " +
                                         std::generic_category().message(error) + ": " + help_for(error),
                                     kHttpKey, error});
}

std::string objection_to_address(const config::HttpAddress& address) {
  if (!address.path.empty() || bound(address, 0) || errno != EADDRNOTAVAIL) return {};
  return help_for(EADDRNOTAVAIL);
}

}  // namespace tally::http

#include "switchml/doors.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "text/text.h"

namespace tally::switchml_service {
namespace {

using session_service::ConnectionId;

constexpr int kWaitingClients = 256;
constexpr TimeNs kAfterTrouble = 100 * kMillisecond;  // no descriptors are left
constexpr std::uint64_t kListener = std::uint64_t{1} << 63U;

std::string reason(int error) { return std::generic_category().message(error); }

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

// family: IPv6 has all addresses, IPv4 those that are mapped, and none for "any".
SocketAddress address_of(const Ipv6& ip, std::uint16_t port, int family) noexcept {
  SocketAddress made;
  if (family == AF_INET6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, ip.data(), ip.size());
    std::memcpy(&made.storage, &v6, made.size = sizeof v6);
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.data() + 12, 4);
    std::memcpy(&made.storage, &v4, made.size = sizeof v4);
  }
  return made;
}

// IPv4 without its IPv6 prefix.
std::string text_of(const SocketAddress& address) {
  const bool is6 = address.storage.ss_family == AF_INET6;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  SocketAddress copy = address;
  if (::getnameinfo(copy.get(), copy.size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  const std::string_view text = host.data();
  constexpr std::string_view kMapped = "::ffff:";
  if (!is6) return std::string(text) + ":" + port.data();
  if (text.substr(0, kMapped.size()) == kMapped && text.find('.') != std::string_view::npos)
    return std::string(text.substr(kMapped.size())) + ":" + port.data();
  return "[" + std::string(text) + "]:" + port.data();
}

void set(int fd, int level, int option, int value) noexcept {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

// A host that lost its power says nothing: the kernel finds out within a minute and a half.
void watch_peer(int fd) noexcept {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

}  // namespace

Result<Doors> Doors::open(const std::string& address, const std::vector<std::uint16_t>& ports) {
  Doors doors;
  doors.epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!doors.epoll_) return fail(ErrorCode::kSystem, "epoll: " + reason(errno), "listen");
  for (const std::uint16_t port : ports) {
    if (auto done = doors.listen(address, port); !done) return tl::unexpected<Error>(std::move(done.error()));
  }
  return doors;
}

Result<void> Doors::listen(const std::string& address, std::uint16_t port) {
  const Ipv6 ip = address == "any" ? Ipv6{} : text::ip_address(address).value_or(Ipv6{});
  const std::string name = "cannot listen on TCP port " + std::to_string(port) + " of " + address + ": ";
  const auto no = [&] { return fail(ErrorCode::kSystem, name + reason(errno), "listen"); };
  constexpr int kKind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  int family = is_mapped_ipv4(ip) ? AF_INET : AF_INET6;
  UniqueFd socket(::socket(family, kKind, 0));
  // A kernel that was started without IPv6: any address is one of IPv4.
  if (!socket && errno == EAFNOSUPPORT && ip == Ipv6{}) socket.reset(::socket(family = AF_INET, kKind, 0));
  if (!socket) return no();
  if (family == AF_INET6) set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  SocketAddress at = address_of(ip, port, family);
  if (::bind(socket.get(), at.get(), at.size) != 0) return no();
  if (::listen(socket.get(), kWaitingClients) != 0) return no();
  epoll_event event{EPOLLIN, {}};
  event.data.u64 = kListener | listening_.size();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) return no();
  listening_.push_back(std::move(socket));
  return {};
}

// Why nobody can be taken for now.
std::optional<std::string> Doors::take(std::size_t port, News& news) {
  SocketAddress from;
  UniqueFd fd(::accept4(listening_[port].get(), from.get(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) {
    const bool nobody = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    return nobody ? std::nullopt : std::optional(reason(errno));
  }
  watch_peer(fd.get());
  UniqueFd ours(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!ours) return reason(errno);
  const ConnectionId id = ++last_;
  epoll_event event{EPOLLRDHUP, {}};
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, ours.get(), &event) != 0) return reason(errno);
  by_fd_[fd.get()] = id;
  open_.emplace(id, std::move(ours));
  news.came.push_back({id, port, text_of(from), fd.get()});
  fd.abandon();
  return std::nullopt;
}

Doors::News Doors::look(TimeNs now) {
  News news;
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t what = events.at(static_cast<std::size_t>(i)).data.u64;
    if ((what & kListener) == 0) {
      forget(what);
      news.gone.push_back(what);
    } else if (now >= paused_until_) {
      if (auto trouble = take(static_cast<std::size_t>(what & ~kListener), news)) {
        paused_until_ = now + kAfterTrouble;
        news.trouble = std::move(*trouble);
      }
    }
  }
  return news;
}

std::optional<ConnectionId> Doors::connection_of(const std::string& peer) const {
  constexpr std::string_view kPrefix = "fd:";
  if (!peer.starts_with(kPrefix)) return std::nullopt;
  const auto fd = text::whole_number(std::string_view(peer).substr(kPrefix.size()), 0, INT32_MAX);
  const auto found = fd ? by_fd_.find(static_cast<int>(*fd)) : by_fd_.end();
  if (found == by_fd_.end()) return std::nullopt;
  return found->second;
}

void Doors::hang_up(ConnectionId connection) {
  if (const auto found = open_.find(connection); found != open_.end())
    ::shutdown(found->second.get(), SHUT_RDWR);
  forget(connection);
}

void Doors::forget(ConnectionId connection) {
  const auto found = open_.find(connection);
  if (found == open_.end()) return;
  // It would go on to tell: gRPC has another descriptor of the same connection.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.get(), nullptr);
  open_.erase(found);
}

}  // namespace tally::switchml_service

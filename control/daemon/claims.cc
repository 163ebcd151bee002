#include "daemon/claims.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <set>
#include <system_error>
#include <thread>

#include "config/checks.h"
#include "daemon/control_socket.h"

namespace tally::daemon {
namespace {

constexpr int kMostAsking = 64;
constexpr auto kGoing = std::chrono::seconds(1);

Result<UniqueFd> claim(const std::string& name, const std::string& what, const std::string& where,
                       const std::string& help) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // An abstract name begins with a NUL. Ours are short: an instance has 32 bytes at most, an interface 15.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto until = std::chrono::steady_clock::now() + kGoing;
  while (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    const int error = errno;
    if (error != EADDRINUSE)
      return fail(ErrorCode::kSystem, what + " cannot be claimed: " + std::generic_category().message(error),
                  where);
    std::string who = listener_at(address, size);
    if (who.empty() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    if (who.empty()) who = "a process that does not answer";
    return fail(ErrorCode::kInvalidArgument, what + " is in use by " + who.append(": ").append(help), where);
  }
  if (::listen(socket.get(), kMostAsking) != 0)
    return fail(ErrorCode::kSystem, what + " cannot be claimed: " + std::generic_category().message(errno),
                where);
  return socket;
}

}  // namespace

Result<Claims> Claims::take(const config::Config& config) {
  Claims claims;
  const auto add = [&](Result<UniqueFd> socket) -> Result<void> {
    if (!socket) return tl::unexpected<Error>(std::move(socket.error()));
    claims.sockets_.push_back(std::move(*socket));
    return {};
  };
  if (auto done = add(claim("tally/instance/" + config.instance, "the name " + config.instance, "instance",
                            "stop that daemon, or give this one another name"));
      !done)
    return tl::unexpected<Error>(std::move(done.error()));
  for (const config::PortSection& port : config.ports) {
    for (const std::string& interface : config::interfaces_of(port.device)) {
      if (auto done = add(claim("tally/interface/" + interface, "interface " + interface, "port " + port.name,
                                "stop that daemon, or give the port another interface"));
          !done)
        return tl::unexpected<Error>(std::move(done.error()));
    }
  }
  return claims;
}

void Claims::hang_up() const noexcept {
  for (const UniqueFd& socket : sockets_) {
    while (UniqueFd(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK))) {
    }
  }
}

}  // namespace tally::daemon

#include "ready_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace tally {

Result<ReadySocket> ReadySocket::create(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path) {
    return fail(ErrorCode::kInvalidArgument, path + " is too long for a socket; set TMPDIR to a shorter one");
  }
  path.copy(address.sun_path, path.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open() ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return tl::unexpected<Error>(
        Error{ErrorCode::kSystem, "cannot make the socket " + path + ": " + std::strerror(errno), {}, errno});
  }
  return ReadySocket(path, std::move(socket));
}

bool ReadySocket::ready() noexcept {
  std::array<char, 4096> message{};
  for (ssize_t n = 0; (n = recv(socket_.get(), message.data(), message.size(), 0)) > 0;) {
    const std::string_view text(message.data(), static_cast<std::size_t>(n));
    ready_ = ready_ || text.starts_with("READY=1") || text.find("\nREADY=1") != std::string_view::npos;
  }
  return ready_;
}

}  // namespace tally

#pragma once
// The listening Unix socket of the control interface, and who is at its other end; likewise that of HTTP, if it is one.
// Owner: the control thread.

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <optional>
#include <string>
#include <utility>

#include "api/api.h"
#include "config/config.h"
#include "tally/error.h"
#include "tally/unique_fd.h"

namespace tally::daemon {

// Who listens at a Unix socket: "process 1234 (tallyd)"; empty: nobody does any more.
[[nodiscard]] std::string listener_at(const sockaddr_un& address, socklen_t size);

// What such a socket is called in errors.
struct SocketRole {
  const char* name = "the control socket";
  const char* key = "control.socket";
  int backlog = 128;  // more than are served: who is too many is told so
};

// Removes its file when it goes, unless that is another's by then.
class ControlSocket {
 public:
  // Makes /run/tally if that is meant and is missing. A socket that nobody listens at any more is replaced;
  // one that a process listens at is not, and the error names the process. path: absolute.
  [[nodiscard]] static Result<ControlSocket> listen(const std::string& path,
                                                    const config::ControlSection& control,
                                                    SocketRole role = {});
  ControlSocket(ControlSocket&& other) noexcept;
  ControlSocket& operator=(ControlSocket&&) = delete;
  ~ControlSocket();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // Hands the descriptor over, which does not block, and stays responsible for the file.
  [[nodiscard]] UniqueFd take() noexcept { return std::move(socket_); }

  // Who is connected there, as the kernel knows it. Root, the daemon's user and the members of control.group
  // may change things. The process is as it is called now, for the log.
  [[nodiscard]] api::Caller caller_at(int connection) const;

 private:
  ControlSocket() = default;

  UniqueFd socket_{};
  std::string path_{};
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::optional<gid_t> group_{};  // control.group
  std::string whom_to_be_{};
};

}  // namespace tally::daemon

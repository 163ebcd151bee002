#pragma once
// Hears from tallyd when it is ready, as a service manager does (sd_notify(3)).

#include <string>

#include "child_process.h"
#include "tally/error.h"

namespace tally {

class ReadySocket {
 public:
  [[nodiscard]] static Result<ReadySocket> create(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }  // for NOTIFY_SOCKET
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  // Takes what has arrived; whether READY=1 was ever among it.
  bool ready() noexcept;

 private:
  ReadySocket(std::string path, Descriptor socket) : path_(std::move(path)), socket_(std::move(socket)) {}

  std::string path_;
  Descriptor socket_;
  bool ready_ = false;
};

}  // namespace tally

#pragma once
// What only one daemon at a time may have: its instance name, by which its files, sockets and MAC are made, and the
// network interfaces of its ports, of which two boxes would each get all frames, or each a part. Owner: the
// control thread.
//
// A claim is a listening Unix socket with an abstract name: the kernel lets one process of a network namespace
// have it, takes it away however the process ends, and tells who asks which process that is.

#include <string>
#include <vector>

#include "config/config.h"
#include "tally/error.h"
#include "tally/unique_fd.h"

namespace tally::daemon {

class Claims {
 public:
  // Fails with the key and the process that has what is asked for. Waits up to a second for a process that is
  // about to be gone.
  [[nodiscard]] static Result<Claims> take(const config::Config& config);

  // Hangs up on processes that asked who we are. Never waits; to be called now and then, or the kernel stops
  // telling them after 64.
  void hang_up() const noexcept;

 private:
  std::vector<UniqueFd> sockets_;
};

}  // namespace tally::daemon

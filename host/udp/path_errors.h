#pragma once
// What the kernel said of the path to the box: counted, never fatal. One thread.

#include <cstdint>
#include <string>

#include "udp_address.h"

namespace tally {

class PathErrors {
 public:
  void note(int error) noexcept {
    ++count_;
    last_ = error;
  }
  // A call failed, and what it said may lie in the socket's queue of errors, from which it is counted.
  void expect_queued() noexcept { queued_ = true; }
  // Whether the socket's queue of errors may hold something since the last call.
  [[nodiscard]] bool take_queued() noexcept {
    const bool queued = queued_;
    queued_ = false;
    return queued;
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  // The last one in words, with what to do; empty if there was none. interface: empty if it is not known.
  [[nodiscard]] std::string text(const UdpAddress& box, const std::string& interface = {}) const;

 private:
  std::uint64_t count_ = 0;
  int last_ = 0;
  bool queued_ = false;
};

// Notes and throws away what a socket's queue of errors holds: while something is there, every wait ends at
// once.
void drain_errors(int fd, PathErrors& errors) noexcept;

}  // namespace tally

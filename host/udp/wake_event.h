#pragma once
// Ends the wait under way of a thread that polls file descriptors, or its next one.

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace tally {

class WakeEvent {
 public:
  WakeEvent() noexcept : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), error_(fd_ < 0 ? errno : 0) {}
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;
  ~WakeEvent() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] int error() const noexcept { return error_; }  // 0: it was made
  [[nodiscard]] int fd() const noexcept { return fd_; }        // readable: woken
  void wake() const noexcept {                                 // any thread
    const std::uint64_t one = 1;
    static_cast<void>(!::write(fd_, &one, sizeof one));
  }
  void clear() const noexcept {
    std::uint64_t count = 0;
    static_cast<void>(!::read(fd_, &count, sizeof count));
  }

 private:
  const int fd_;
  const int error_;
};

}  // namespace tally

#pragma once
// A UDP socket that never blocks, never fragments and tells what the path says.

#include <cstddef>
#include <cstdint>

#include "tally/error.h"
#include "udp_address.h"

namespace tally {

class UdpSocket {
 public:
  UdpSocket() noexcept = default;
  UdpSocket(UdpSocket&& other) noexcept : fd_(other.fd_), family_(other.family_) { other.fd_ = -1; }
  UdpSocket& operator=(UdpSocket&& other) noexcept;
  ~UdpSocket() { close(); }

  // family: AF_INET or AF_INET6 (which then takes no IPv4). Closed on exec.
  [[nodiscard]] static Result<UdpSocket> open(sa_family_t family);
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] sa_family_t family() const noexcept { return family_; }
  void close() noexcept;

  // 0, or errno.
  [[nodiscard]] int bind(const UdpAddress& to) const noexcept;
  [[nodiscard]] int connect(const UdpAddress& to) const noexcept;
  // With the address's own level: setsockopt, 0 or errno.
  [[nodiscard]] int set(int level, int name, int value) const noexcept;
  [[nodiscard]] UdpAddress local() const noexcept;

  // Asks for so much room each way and returns what the kernel grants, in the units of net.core.rmem_max.
  struct Buffers {
    std::size_t receive = 0;
    std::size_t send = 0;
  };
  [[nodiscard]] Buffers grow_buffers(std::size_t bytes) const noexcept;
  // The same for what waits to be sent alone; it may become less.
  [[nodiscard]] std::size_t send_buffer(std::size_t bytes) const noexcept;
  // Datagrams that the kernel threw away because the receive buffer was full or their checksum wrong.
  [[nodiscard]] std::uint64_t overruns() const noexcept;

 private:
  int fd_ = -1;
  sa_family_t family_ = AF_UNSPEC;
};

// An error of a system call.
[[nodiscard]] tl::unexpected<Error> system_failure(std::string what, int error, std::string where = {});

}  // namespace tally

#pragma once
// A UDP socket that never blocks, never fragments and tells what the path says.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tally/error.h"
#include "tally/time.h"
#include "tally/unique_fd.h"
#include "udp/udp_address.h"

namespace tally::udp {

// Of datagrams side by side, each begins a cache line.
constexpr std::size_t stride_of(std::size_t most_bytes) noexcept { return (most_bytes + 63) / 64 * 64; }

class UdpSocket {
 public:
  // family: AF_INET or AF_INET6 (which then takes no IPv4). Closed on exec.
  [[nodiscard]] static Result<UdpSocket> open(sa_family_t family);
  [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(fd_); }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] sa_family_t family() const noexcept { return family_; }
  void close() noexcept { fd_.reset(); }

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
  UniqueFd fd_;
  sa_family_t family_ = AF_UNSPEC;
};

// Where a worker receives results by multicast: a socket on group and port that it shares with the other
// workers of the machine, each of which gets every frame. The kernel reports the membership (IGMP, MLD), but
// not at once: a switch that snoops keeps from us what comes before.

struct GroupAddress {
  UdpAddress group;        // with its port
  unsigned interface = 0;  // 0: the kernel chooses
};

class GroupSocket {
 public:
  GroupSocket() = default;
  GroupSocket(const GroupSocket&) = delete;
  GroupSocket& operator=(const GroupSocket&) = delete;
  ~GroupSocket() { leave(); }

  // Leaves the old group, if it is another one. False: it is in it already. After an error it is in none.
  [[nodiscard]] Result<bool> join(const GroupAddress& to, std::size_t buffer);
  // Also for copies of the socket in children of fork(), which would keep the membership.
  void leave() noexcept;
  [[nodiscard]] bool joined() const noexcept { return socket_.is_open(); }
  [[nodiscard]] const UdpSocket& socket() const noexcept { return socket_; }
  [[nodiscard]] const GroupAddress& address() const noexcept { return address_; }

 private:
  [[nodiscard]] int change(int option) const noexcept;

  UdpSocket socket_;
  GroupAddress address_;
};

// How long after a join the kernel has sent its first report: IGMP takes two ticks of the kernel's clock
// (igmp_start_timer() in net/ipv4/igmp.c), the timer begins and ends within one. 16 ms where HZ is 250.
[[nodiscard]] TimeNs report_delay() noexcept;

// What an interface of this machine does with a burst that is one message (GSO).

// Whether it takes UDP messages uncut (ethtool -k: tx-udp-segmentation). If not, the kernel cuts them into
// frames before the interface sees them. Empty: it cannot be found out.
[[nodiscard]] std::optional<bool> takes_uncut_udp(const std::string& interface);

// What the kernel said of the path to the box: counted, never fatal. One thread.

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

}  // namespace tally::udp

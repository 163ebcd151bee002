#pragma once
// Where a worker receives results by multicast: a socket on group and port that it shares with the other
// workers of the machine, each of which gets every frame. The kernel reports the membership (IGMP, MLD), but
// not at once: a switch that snoops keeps from us what comes before.

#include <cstdint>

#include "tally/error.h"
#include "tally/time.h"
#include "udp_socket.h"

namespace tally {

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

}  // namespace tally

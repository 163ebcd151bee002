#include "group_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace tally {
namespace {

constexpr TimeNs kReportTicks = 4;
constexpr TimeNs kShortestTick = kMillisecond;  // HZ is 100 to 1000
constexpr TimeNs kLongestTick = 10 * kMillisecond;

bool same(const GroupAddress& a, const GroupAddress& b) noexcept {
  return a.interface == b.interface && a.group.same_ip(b.group) && a.group.port() == b.group.port();
}

}  // namespace

// One request for both families (RFC 3678).
int GroupSocket::change(int option) const noexcept {
  group_req request{};
  request.gr_interface = address_.interface;
  std::memcpy(&request.gr_group, address_.group.raw(), address_.group.size());
  const int level = address_.group.ipv4() ? IPPROTO_IP : IPPROTO_IPV6;
  return setsockopt(socket_.fd(), level, option, &request, sizeof request) == 0 ? 0 : errno;
}

Result<bool> GroupSocket::join(const GroupAddress& to, std::size_t buffer) {
  if (joined() && same(to, address_)) return false;
  leave();
  auto opened = UdpSocket::open(to.group.family());
  if (!opened) return tl::unexpected(opened.error());
  socket_ = std::move(*opened);
  address_ = to;
  static_cast<void>(socket_.grow_buffers(buffer));
  int error = socket_.set(SOL_SOCKET, SO_REUSEADDR, 1);
  if (error == 0) error = socket_.bind(to.group);
  if (error == 0) error = change(MCAST_JOIN_GROUP);
  if (error == 0) return true;
  socket_.close();
  return system_failure("cannot join the multicast group " + to.group.text(), error);
}

void GroupSocket::leave() noexcept {
  if (!joined()) return;
  static_cast<void>(change(MCAST_LEAVE_GROUP));
  socket_.close();
}

// The coarse clock goes by ticks.
TimeNs report_delay() noexcept {
  timespec tick{};
  const bool known = clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0 && tick.tv_sec == 0;
  const TimeNs wide = known ? static_cast<TimeNs>(tick.tv_nsec) : kLongestTick;
  return kReportTicks * std::clamp(wide, kShortestTick, kLongestTick);
}

}  // namespace tally

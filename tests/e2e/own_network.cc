#include "own_network.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

namespace tally::e2e {
namespace {

std::string& reason() {
  static std::string text = "enter_own_network() was not called";
  return text;
}

bool change_loopback(const std::function<bool(int, ifreq&)>& change) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
  const bool done = fd >= 0 && change(fd, request);
  if (fd >= 0) close(fd);
  return done;
}

}  // namespace

std::string enter_own_network() {
  // A user who is not root becomes root of a namespace, if the kernel allows it.
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
    reason() = std::string("no network namespace of our own: ") + std::strerror(errno);
  else
    reason() = set_loopback(true) ? "" : "the loopback interface does not come up";
  return reason();
}

const std::string& why_no_own_network() { return reason(); }

bool set_loopback_mtu(int mtu) {
  return change_loopback([mtu](int fd, ifreq& request) {
    request.ifr_mtu = mtu;
    return ioctl(fd, SIOCSIFMTU, &request) == 0;
  });
}

bool set_loopback(bool up) {
  return change_loopback([up](int fd, ifreq& request) {
    if (ioctl(fd, SIOCGIFFLAGS, &request) != 0) return false;
    const auto flags = static_cast<unsigned>(request.ifr_flags);
    request.ifr_flags = static_cast<short>(up ? flags | IFF_UP : flags & ~static_cast<unsigned>(IFF_UP));
    return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  });
}

}  // namespace tally::e2e

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  static_cast<void>(tally::e2e::enter_own_network());
  return RUN_ALL_TESTS();
}

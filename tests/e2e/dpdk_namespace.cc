#include "dpdk_namespace.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tally/check.h"

// DPDK 22.11 miscounts the users of af_xdp's umem and never frees it.
extern "C" const char* __lsan_default_suppressions();   // NOLINT(bugprone-reserved-identifier): its name
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:xsk_umem__create\n";
}

namespace tally::e2e {
namespace {

constexpr std::array<unsigned char, 2> kType{0x88, 0xB5};  // IEEE 802, for experiments
constexpr std::array<unsigned char, 4> kTag{0x81, 0x00, 0x00, 0x07};

[[noreturn]] void skip(const char* what) {
  std::printf("skipped: %s: %s\n", what, std::strerror(errno));
  std::fflush(stdout);
  _exit(77);
}

// Before main(), and so before EAL and any thread.
[[maybe_unused]] const bool kAlone = [] {
  // A helper of a test is in the test's namespace already.
  if (std::getenv("TALLY_TEST_IN_NAMESPACE") != nullptr) return true;
  if (unshare(CLONE_NEWNET) != 0) skip("this user may not make a network namespace");
  // Nobody else shall send anything.
  std::ofstream("/proc/sys/net/ipv6/conf/default/disable_ipv6") << "1";
  if (std::system("ip link set lo up") != 0) skip("there is no command ip");
  return true;
}();

}  // namespace

void ip(const std::string& words) {
  const int status = std::system(("ip " + words).c_str());
  TALLY_CHECK(status == 0, "ip does what the test needs");
}

void make_veth(const std::string& name, std::uint16_t mtu) {
  const std::string wire = name + "-w";
  ip("link add " + name + " mtu " + std::to_string(mtu) + " type veth peer name " + wire + " mtu " +
     std::to_string(mtu));
  ip("link set " + name + " up");
  ip("link set " + wire + " up");
}

Wire::Wire(const std::string& interface) : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  const int on = 1;
  const int room = 8 << 20;
  const bool done = fd_ >= 0 && address.sll_ifindex != 0 &&
                    setsockopt(fd_, SOL_PACKET, PACKET_AUXDATA, &on, sizeof on) == 0 &&
                    setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) == 0 &&
                    bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  TALLY_CHECK(done, "a raw socket is bound");
}

Wire::~Wire() { close(fd_); }

void Wire::send(std::span<const std::byte> frame) const {
  TALLY_CHECK(::send(fd_, frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size()),
              "the kernel takes the test's frame");
}

std::vector<std::vector<std::byte>> Wire::receive(std::size_t wanted, std::chrono::seconds patience) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + patience;
  std::vector<std::vector<std::byte>> frames;
  std::vector<std::byte> room(65536);
  while (frames.size() < wanted && Clock::now() < end) {
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 50) <= 0) continue;
    sockaddr_ll from{};
    iovec part{room.data(), room.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata))> control{};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t bytes = recvmsg(fd_, &message, 0);
    if (bytes < 14 || from.sll_pkttype == PACKET_OUTGOING) continue;
    std::vector<std::byte> frame(room.begin(), room.begin() + bytes);
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_type == PACKET_AUXDATA) {
      tpacket_auxdata aux{};
      std::memcpy(&aux, CMSG_DATA(header), sizeof aux);
      const auto* const tag = reinterpret_cast<const std::byte*>(kTag.data());
      if ((aux.tp_status & TP_STATUS_VLAN_VALID) != 0)
        frame.insert(frame.begin() + 12, tag, tag + kTag.size());
    }
    if (is_test_frame(frame)) frames.push_back(std::move(frame));
  }
  return frames;
}

std::vector<std::byte> test_frame(std::size_t bytes, std::uint8_t number, bool tagged) {
  std::vector<std::byte> frame(12, std::byte{0xFF});
  frame[6] = std::byte{0x02};
  const auto append = [&frame](unsigned char byte) { frame.push_back(static_cast<std::byte>(byte)); };
  if (tagged) std::for_each(kTag.begin(), kTag.end(), append);
  std::for_each(kType.begin(), kType.end(), append);
  TALLY_CHECK(frame.size() < bytes, "the frame holds its headers");
  for (std::uint8_t byte = number; frame.size() < bytes; ++byte) append(byte);
  return frame;
}

bool is_test_frame(std::span<const std::byte> frame) {
  const auto has = [&frame](std::size_t at, std::span<const unsigned char> bytes) {
    return frame.size() >= at + bytes.size() && std::memcmp(&frame[at], bytes.data(), bytes.size()) == 0;
  };
  return has(12, kType) || (has(12, kTag) && has(16, kType));
}

}  // namespace tally::e2e

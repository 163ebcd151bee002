#pragma once
// Ports of the Linux kernel behind drivers of DPDK 22.11: what each takes, what it carries, and what it takes
// from the mempool. docs/ports.md says the same in words. Pure.
//
// Limits come from the drivers' sources (drivers/net/{af_packet,af_xdp,tap,pcap}) and from the kernel's
// (net/packet/af_packet.c, net/xdp/xdp_umem.c); tests/e2e/dpdk_kernel_*_test.cc meets them on real
// interfaces.

#include <cstdint>
#include <string>
#include <string_view>

#include "device/port_device.h"

namespace tally::device {

// An mbuf in memory: header of the mempool, rte_mbuf, headroom.
inline constexpr std::uint32_t kMbufOverhead = 64 + 128 + 128;
// Of an mbuf that af_xdp shares with the kernel, whose chunks are a page at most (xdp_umem_reg).
inline constexpr std::uint32_t kMostUmemRoom = 4096 - kMbufOverhead;  // 3,776
// What the kernel keeps free in front of a frame (XDP_PACKET_HEADROOM).
inline constexpr std::uint32_t kXdpHeadroom = 256;
// Behind a frame: a reply is written into the request's buffer, whose headers may have been longer than its
// own.
inline constexpr std::uint32_t kReplySlack = 64;
inline constexpr std::uint32_t kMostXdpMtu =
    kMostUmemRoom - kXdpHeadroom - kEthernetBytes - kReplySlack;  // 3,438

struct KernelDevice {
  DeviceKind kind = DeviceKind::kOther;  // not is_kernel(): some other port, and nothing below holds
  DeviceComplaints complaints{};         // empty: it can be opened as it is
  std::string device{};                  // for DPDK: with the arguments that have one right value
  std::string interface {};              // that must exist; empty: tap makes its own, files need none
  // Mbufs that the driver keeps for each queue.
  std::uint32_t receive_mbufs = 0;
  std::uint32_t transmit_mbufs = 0;
  std::uint32_t least_room = 0;  // bytes behind the headroom that an mbuf must have
  bool umem = false;             // the whole mempool is shared with the kernel: at most kMostUmemRoom
};

// descriptors: wished, of each queue. burst: frames that may arrive before we look, 0 if nobody knows; of
// af_packet, whose ring costs no mbufs. No complaint follows from it. No exceptions but std::bad_alloc.
[[nodiscard]] KernelDevice examine_kernel_device(std::string_view text, std::uint32_t mtu,
                                                 std::uint32_t queues, std::uint32_t descriptors,
                                                 std::uint32_t burst = 0);

}  // namespace tally::device

// net_af_xdp: the mempool itself is shared with the kernel (a umem of unaligned chunks), which writes frames
// into its mbufs and reads them out of them.

#include <algorithm>

#include "kernel_device.h"

namespace tally {
namespace {

constexpr std::uint32_t kFillRing = 2048;        // mbufs that wait for frames, from the queue's set-up on
constexpr std::uint32_t kCompletionRing = 2048;  // mbufs that were sent, until the driver looks
constexpr std::uint32_t kLeastChunk = 2048;      // XDP_UMEM_MIN_CHUNK_SIZE

void only(std::string_view key, std::uint32_t value, DeviceWords& words, KernelDevice& device,
          const char* why) {
  const auto before = device.complaints.size();
  static_cast<void>(words.number(key, value, value, value, device.complaints));
  if (device.complaints.size() != before) device.complaints.back().message += std::string(": ") + why;
  if (!words.has(key)) words.add(key, std::to_string(value));
}

}  // namespace

void examine_af_xdp(DeviceWords& words, std::uint32_t mtu, std::uint32_t queues, std::uint32_t descriptors,
                    KernelDevice& device) {
  auto& wrong = device.complaints;
  device.interface = required_interface(words, wrong);
  one_queue_only("net_af_xdp", queues, wrong);
  if (words.has("queue_count"))
    only("queue_count", 1, words, device, "this version reads one queue of an interface");
  static_cast<void>(words.number("start_queue", 0, 1023, 0, wrong));
  if (words.has("shared_umem"))
    only("shared_umem", 0, words, device, "each port shares all mbufs with the kernel by itself");
  only("busy_budget", 0, words, device,
       "the kernel would wait for system calls that an idle core does not make");
  // Zero copy with a driver that asks to be woken lets DPDK 22.11 wait up to a second in a receive burst.
  static_cast<void>(words.number("force_copy", 0, 1, 1, wrong));
  if (!words.has("force_copy")) words.add("force_copy", "1");
  if (mtu > kMostXdpMtu)
    wrong.push_back({"mtu",
                     "net_af_xdp carries an mtu of at most " + std::to_string(kMostXdpMtu) + ", not " +
                         std::to_string(mtu),
                     "lower mtu, or write net_af_packet"});
  device.umem = true;
  device.receive_mbufs = kFillRing;
  device.transmit_mbufs = descriptors + kCompletionRing;
  device.least_room = std::max(mtu + kFrameBytes + kReplySlack + kXdpHeadroom, kLeastChunk - kMbufOverhead);
}

}  // namespace tally

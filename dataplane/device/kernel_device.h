#pragma once
// Ports of the Linux kernel behind drivers of DPDK 22.11: what each takes, what it carries, and what it takes
// from the mempool. docs/ports.md says the same in words. Pure.
//
// Limits come from the drivers' sources (drivers/net/{af_packet,af_xdp,tap,pcap}) and from the kernel's
// (net/packet/af_packet.c, net/xdp/xdp_umem.c); tests/e2e/dpdk_kernel_*_test.cc meets them on real
// interfaces.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::device {

// The text of a virtual device, "net_tap0,iface=tap0,...", taken apart, and what is wrong with a word of it.

// What is wrong with a port and what to do about it. about: the argument of the device, or the port's own key
// "mtu" or "queues"; empty: the device as a whole.
struct DeviceComplaint {
  std::string about;
  std::string message;
  std::string help;
  bool operator==(const DeviceComplaint&) const = default;
};

class DeviceWords {
 public:
  explicit DeviceWords(std::string_view text);

  [[nodiscard]] const std::string* find(std::string_view key) const noexcept;
  [[nodiscard]] bool has(std::string_view key) const noexcept { return find(key) != nullptr; }
  // The number that `key` has, or `otherwise` when it is absent. Complains of what is no whole number of
  // [lowest, highest], and returns nothing then.
  [[nodiscard]] std::optional<std::uint32_t> number(std::string_view key, std::uint32_t lowest,
                                                    std::uint32_t highest, std::uint32_t otherwise,
                                                    std::vector<DeviceComplaint>& complaints) const;
  // The name of a network interface, empty when absent. Complains of a name that the kernel cannot have.
  [[nodiscard]] std::string interface(std::string_view key, std::vector<DeviceComplaint>& complaints) const;
  // The argument goes to the driver as well.
  void add(std::string_view key, std::string_view value);
  // What DPDK takes.
  [[nodiscard]] std::string text() const;

 private:
  struct Word {
    std::string key;
    std::string value;
  };
  std::string name_;
  std::vector<Word> words_;
};

enum class KernelDriver : std::uint8_t { kNone, kAfPacket, kAfXdp, kTap, kPcap };

// An mbuf in memory: header of the mempool, rte_mbuf, headroom.
inline constexpr std::uint32_t kMbufOverhead = 64 + 128 + 128;
// Of an mbuf that af_xdp shares with the kernel, whose chunks are a page at most (xdp_umem_reg).
inline constexpr std::uint32_t kMostUmemRoom = 4096 - kMbufOverhead;  // 3,776
// What the kernel keeps free in front of a frame (XDP_PACKET_HEADROOM).
inline constexpr std::uint32_t kXdpHeadroom = 256;
// Ethernet header and VLAN tag. Behind a frame: a reply is written into the request's buffer, whose headers
// may have been longer than its own.
inline constexpr std::uint32_t kFrameBytes = 18;
inline constexpr std::uint32_t kReplySlack = 64;
inline constexpr std::uint32_t kMostXdpMtu =
    kMostUmemRoom - kXdpHeadroom - kFrameBytes - kReplySlack;  // 3,438

struct KernelDevice {
  KernelDriver driver = KernelDriver::kNone;  // none: some other port, and nothing below holds
  std::vector<DeviceComplaint> complaints{};  // empty: it can be opened as it is
  std::string device{};                       // for DPDK: with the arguments that have one right value
  std::string interface {};                   // that must exist; empty: tap makes its own, files need none
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

// Of one driver each. `device` is filled in, `words` completed.
void examine_af_packet(DeviceWords& words, std::uint32_t mtu, std::uint32_t queues, std::uint32_t burst,
                       KernelDevice& device);
void examine_af_xdp(DeviceWords& words, std::uint32_t mtu, std::uint32_t queues, std::uint32_t descriptors,
                    KernelDevice& device);
void examine_tap(const DeviceWords& words, std::uint32_t mtu, std::uint32_t queues, std::uint32_t descriptors,
                 KernelDevice& device);
void examine_pcap(const DeviceWords& words, std::uint32_t queues, KernelDevice& device);

// The interface that must be there, or a complaint.
[[nodiscard]] std::string required_interface(const DeviceWords& words,
                                             std::vector<DeviceComplaint>& complaints);
// Drivers that are opened with one queue each way only.
void one_queue_only(std::string_view driver, std::uint32_t queues, std::vector<DeviceComplaint>& complaints);

}  // namespace tally::device

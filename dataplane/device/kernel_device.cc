#include "device/kernel_device.h"

#include <algorithm>
#include <numeric>

namespace tally::device {
namespace {

// The interface that must be there, or a complaint.
std::string required_interface(const PortDevice& words, DeviceComplaints& complaints) {
  if (!words.has("iface"))
    complaints.push_back({"", "iface is missing", "name the network interface: iface=eth1"});
  return words.interface("iface", complaints);
}

void one_queue_only(std::string_view driver, std::uint32_t queues, DeviceComplaints& complaints) {
  if (queues > 1)
    complaints.push_back({"queues",
                          std::to_string(queues) + " queues, but " + std::string(driver) + " has one here",
                          "write queues: 1; the cores divide the work among themselves"});
}

// net_af_packet: a ring of frames shared with the kernel (TPACKET_V2), copied into mbufs and out of them. The
// kernel cuts what does not fit into a frame of the ring, and nobody says so.

constexpr std::uint32_t kPage = 4096;
constexpr std::uint32_t kUsualFrame = 2048;  // DFLT_FRAME_SIZE
constexpr std::uint32_t kUsualCount = 512;   // DFLT_FRAME_COUNT
constexpr std::uint32_t kMostFrame = 65'424;
// In front of the IP packet of a received frame: header and address (52 bytes) and at least 16 for the
// Ethernet header, rounded up to 16. A VLAN tag comes beside the frame and is put back by the driver.
constexpr std::uint32_t kInFront = 80;
// The driver wants mbufs for the rest of a frame behind TPACKET2_HDRLEN - sizeof(sockaddr_ll).
constexpr std::uint32_t kNotCopied = 32;
constexpr std::uint32_t kAlignment = 16;  // TPACKET_ALIGNMENT
constexpr std::uint32_t kGrain = 1024;    // four frames of whole KiB fill whole pages
constexpr std::uint64_t kMostRing = 1ULL << 30;
// What rings for bursts may cost of a port: they are the kernel's memory, which is never swapped.
constexpr std::uint32_t kMostForBursts = 32U << 20;

std::string numbered(std::string_view key, std::uint32_t value) {
  return std::string(key) + "=" + std::to_string(value);
}

std::uint32_t frame_for(std::uint32_t mtu) {
  return mtu + kInFront <= kUsualFrame ? kUsualFrame : (mtu + kInFront + kGrain - 1) / kGrain * kGrain;
}

// Frames are counted through without looking at blocks, so a block must have no rest.
std::uint32_t block_for(std::uint32_t frame) { return std::lcm(frame, kPage); }

// Of each ring. The kernel spreads flows over the queues as it likes, so each may get all of a burst.
std::uint32_t count_for(std::uint32_t burst, std::uint32_t frame, std::uint32_t queues,
                        std::uint32_t in_block) {
  const std::uint32_t affordable = kMostForBursts / (2 * frame * queues);
  const std::uint32_t wanted = std::max(std::min(burst, affordable), kUsualCount);
  return (wanted + in_block - 1) / in_block * in_block;
}

void check_queues(PortDevice& words, std::uint32_t queues, DeviceComplaints& complaints) {
  const auto pairs = words.number("qpairs", 1, 256, queues, complaints);
  if (!words.has("qpairs") && queues > 1) words.add("qpairs", std::to_string(queues));
  if (pairs && *pairs != queues)
    complaints.push_back({"qpairs",
                          "qpairs is " + std::to_string(*pairs) + " and queues is " + std::to_string(queues) +
                              ": the kernel spreads frames over all pairs",
                          "leave qpairs out; it follows from queues"});
}

void examine_af_packet(PortDevice& words, std::uint32_t mtu, std::uint32_t queues, std::uint32_t burst,
                       KernelDevice& device) {
  auto& wrong = device.complaints;
  device.interface = required_interface(words, wrong);
  check_queues(words, queues, wrong);
  static_cast<void>(words.number("qdisc_bypass", 0, 1, 1, wrong));

  const std::uint32_t wanted = frame_for(mtu);
  const auto frame = words.number("framesz", kUsualFrame, kMostFrame, wanted, wrong);
  if (!frame) return;
  device.least_room = *frame - kNotCopied;
  if (*frame % kAlignment != 0) {
    wrong.push_back({"framesz", numbered("framesz", *frame) + " is not a multiple of 16",
                     "write " + numbered("framesz", wanted) + ", or leave it out: it follows from mtu"});
    return;
  }
  if (mtu + kInFront > *frame) {
    wrong.push_back({"framesz",
                     numbered("framesz", *frame) + " carries an mtu of " + std::to_string(*frame - kInFront) +
                         ", and the port's is " + std::to_string(mtu) + ": frames would be cut",
                     "leave framesz and blocksz out: they follow from mtu"});
    return;
  }
  const std::uint32_t fitting = block_for(*frame);
  const auto block = words.number("blocksz", kPage, 64U << 20, fitting, wrong);
  if (!block) return;
  if (*block % fitting != 0) {
    wrong.push_back(
        {"blocksz",
         numbered("blocksz", *block) + " is not a multiple of 4096 and of framesz, " + std::to_string(*frame),
         "write " + numbered("blocksz", fitting) + ", or leave it out"});
    return;
  }
  const std::uint32_t in_block = *block / *frame;
  const std::uint32_t usual = count_for(burst, *frame, queues, in_block);
  const auto count = words.number("framecnt", in_block, 1U << 20, usual, wrong);
  if (!count) return;
  if (*count % in_block != 0) {
    wrong.push_back({"framecnt",
                     numbered("framecnt", *count) + " is not a multiple of the " + std::to_string(in_block) +
                         " frames in a block",
                     "write " + numbered("framecnt", usual) + ", or leave it out"});
    return;
  }
  if (2ULL * *count * *frame > kMostRing) {
    wrong.push_back({"framecnt", "the rings of a queue would have more than 1 GiB",
                     "write " + numbered("framecnt", usual) + ", or leave it out"});
    return;
  }
  if (!words.has("framesz") && *frame != kUsualFrame) words.add("framesz", std::to_string(*frame));
  if (!words.has("blocksz") && *block != kPage) words.add("blocksz", std::to_string(*block));
  if (!words.has("framecnt") && *count != kUsualCount) words.add("framecnt", std::to_string(*count));
}

// net_af_xdp: the mempool itself is shared with the kernel (a umem of unaligned chunks), which writes frames
// into its mbufs and reads them out of them.

constexpr std::uint32_t kFillRing = 2048;        // mbufs that wait for frames, from the queue's set-up on
constexpr std::uint32_t kCompletionRing = 2048;  // mbufs that were sent, until the driver looks
constexpr std::uint32_t kLeastChunk = 2048;      // XDP_UMEM_MIN_CHUNK_SIZE

void only(std::string_view key, std::uint32_t value, PortDevice& words, KernelDevice& device,
          const char* why) {
  const auto before = device.complaints.size();
  static_cast<void>(words.number(key, value, value, value, device.complaints));
  if (device.complaints.size() != before) device.complaints.back().message += std::string(": ") + why;
  if (!words.has(key)) words.add(key, std::to_string(value));
}

void examine_af_xdp(PortDevice& words, std::uint32_t mtu, std::uint32_t queues, std::uint32_t descriptors,
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
  device.least_room =
      std::max(mtu + kEthernetBytes + kReplySlack + kXdpHeadroom, kLeastChunk - kMbufOverhead);
}

// net_tap: makes a network interface of the kernel, whose wire is this port.

constexpr std::uint32_t kTapMtu = 1500;  // the driver sends nothing longer, whatever mtu the interface has

void examine_tap(const PortDevice& words, std::uint32_t mtu, std::uint32_t queues, std::uint32_t descriptors,
                 KernelDevice& device) {
  auto& wrong = device.complaints;
  static_cast<void>(words.interface("iface", wrong));
  device.interface = words.interface("remote", wrong);
  // With more, the kernel spreads frames over the transmit queues too, and nobody reads those.
  one_queue_only("net_tap", queues, wrong);
  if (mtu > kTapMtu)
    wrong.push_back({"mtu", "net_tap carries an mtu of at most 1500, not " + std::to_string(mtu),
                     "lower mtu, or make a veth pair and write net_af_packet"});
  device.receive_mbufs = descriptors;
}

// net_pcap: frames from a file, into a file, or an interface through libpcap, for recording and replaying.

void examine_pcap(const PortDevice& words, std::uint32_t queues, KernelDevice& device) {
  auto& wrong = device.complaints;
  const auto need = [&](bool good, std::string_view about, std::string message, std::string help) {
    if (!good) wrong.push_back({std::string(about), std::move(message), std::move(help)});
  };
  one_queue_only("net_pcap", queues, wrong);
  std::string live;
  for (const std::string_view key : {"iface", "rx_iface", "rx_iface_in", "tx_iface"}) {
    const std::string name = words.interface(key, wrong);
    if (live.empty()) live = name;
  }
  device.interface = live;
  const int receivers =
      int{words.has("rx_pcap")} + int{words.has("rx_iface")} + int{words.has("rx_iface_in")};
  const int senders = int{words.has("tx_pcap")} + int{words.has("tx_iface")};
  need(words.has("iface") || receivers + senders > 0, "", "net_pcap has neither a file nor an interface",
       "add rx_pcap=FILE, tx_pcap=FILE or both, or iface=NAME");
  need(!words.has("iface") || receivers + senders == 0, "iface", "iface is both ways by itself",
       "remove the other files and interfaces, or iface");
  need(receivers <= 1, words.has("rx_pcap") ? "rx_pcap" : "rx_iface", "frames come from one place",
       "keep one of rx_pcap, rx_iface and rx_iface_in");
  need(senders <= 1, "tx_pcap", "frames go to one place", "keep one of tx_pcap and tx_iface");
  // What is sent on the same interface would be received again, and forwarded again.
  const DeviceArgument* const in = words.find("rx_iface");
  const DeviceArgument* const out = words.find("tx_iface");
  need(in == nullptr || out == nullptr || in->value != out->value, "rx_iface",
       "rx_iface also receives what tx_iface sends",
       "write iface=" + (in == nullptr ? std::string() : in->value) + " for both ways");
  need(!words.has("infinite_rx") || words.has("rx_pcap"), "infinite_rx", "infinite_rx repeats a file",
       "add rx_pcap=FILE, or remove it");
  need(!words.has("phy_mac") || words.has("iface"), "phy_mac", "phy_mac is an interface's",
       "add iface=NAME, or remove it");
  static_cast<void>(words.number("infinite_rx", 0, 1, 0, wrong));
  static_cast<void>(words.number("phy_mac", 0, 1, 0, wrong));
}

}  // namespace

KernelDevice examine_kernel_device(std::string_view text, std::uint32_t mtu, std::uint32_t queues,
                                   std::uint32_t descriptors, std::uint32_t burst) {
  DeviceComplaints of_text;
  PortDevice words = parse_device(text, of_text);
  KernelDevice device{.kind = words.kind, .device = std::string(text)};
  if (!is_kernel(device.kind)) return device;
  device.complaints = std::move(of_text);
  switch (device.kind) {
    case DeviceKind::kAfPacket:
      examine_af_packet(words, mtu, queues, burst, device);
      break;
    case DeviceKind::kAfXdp:
      examine_af_xdp(words, mtu, queues, descriptors, device);
      break;
    case DeviceKind::kTap:
      examine_tap(words, mtu, queues, descriptors, device);
      break;
    default:
      examine_pcap(words, queues, device);
      break;
  }
  device.device = words.for_driver();
  return device;
}

}  // namespace tally::device

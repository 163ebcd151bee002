// net_af_packet: a ring of frames shared with the kernel (TPACKET_V2), copied into mbufs and out of them. The
// kernel cuts what does not fit into a frame of the ring, and nobody says so.

#include <algorithm>
#include <numeric>

#include "kernel_device.h"

namespace tally {
namespace {

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

void check_queues(DeviceWords& words, std::uint32_t queues, std::vector<DeviceComplaint>& complaints) {
  const auto pairs = words.number("qpairs", 1, 256, queues, complaints);
  if (!words.has("qpairs") && queues > 1) words.add("qpairs", std::to_string(queues));
  if (pairs && *pairs != queues)
    complaints.push_back({"qpairs",
                          "qpairs is " + std::to_string(*pairs) + " and queues is " + std::to_string(queues) +
                              ": the kernel spreads frames over all pairs",
                          "leave qpairs out; it follows from queues"});
}

}  // namespace

void examine_af_packet(DeviceWords& words, std::uint32_t mtu, std::uint32_t queues, std::uint32_t burst,
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

}  // namespace tally

// The box's answers to whatever frame comes, in a heap block of its exact size. The first byte chooses the
// room behind the frame and whether checksums are mended; the rest is the frame.

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz_input.h"
#include "l2/box_answers.h"
#include "l2/forwarding.h"
#include "l2/l2_headers.h"
#include "tally/check.h"

namespace tally {
namespace {

const jobs::Box kBox{.mac = {2, 0, 0, 0, 0, 1},
                     .ipv4 = {10, 0, 0, 1},
                     .ipv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr std::size_t kMacs = 12;

using Bytes = std::vector<std::byte>;

Be<std::uint16_t> checksum(std::uint32_t sum) {
  return Be<std::uint16_t>(static_cast<std::uint16_t>(~folded(sum)));
}

// Where IP begins, and 0 if it does not.
std::size_t ip_of(const Bytes& frame, std::uint16_t wanted) {
  std::size_t at = kMacs;
  if (frame.size() < at + 2) return 0;
  auto type = wire_at<Be<std::uint16_t>>(frame.data() + at).host();
  if (type == kEtherVlan && frame.size() >= at + 6)
    type = wire_at<Be<std::uint16_t>>(frame.data() + (at += 4)).host();
  return type == wanted ? at + 2 : 0;
}

// Else the fuzzer would hardly pass them.
void mend_checksums(Bytes& frame) {
  if (const std::size_t at = ip_of(frame, kEtherIpv4); at != 0 && frame.size() >= at + 28) {
    auto ip = wire_at<Ipv4Header>(frame.data() + at);
    ip.checksum = {};
    ip.checksum = checksum(internet_sum(std::as_bytes(std::span{&ip, 1})));
    wire_put(frame.data() + at, ip);
    const std::size_t total = ip.total_length.host();
    if (total < 28 || at + total > frame.size()) return;
    wire_put(frame.data() + at + 22, Be<std::uint16_t>{});
    wire_put(frame.data() + at + 22, checksum(internet_sum({frame.data() + at + 20, total - 20})));
  }
  if (const std::size_t at = ip_of(frame, kEtherIpv6); at != 0 && frame.size() >= at + 48) {
    const auto ip = wire_at<Ipv6Header>(frame.data() + at);
    const std::size_t payload = ip.payload_length.host();
    if (payload < 8 || at + 40 + payload > frame.size()) return;
    wire_put(frame.data() + at + 42, Be<std::uint16_t>{});
    wire_put(frame.data() + at + 42, checksum(l2::icmp6_sum(ip, {frame.data() + at + 40, payload})));
  }
}

// What any answer has to be.
void check_answer(const Bytes& asked, const Bytes& reply, l2::SwitchFate fate) {
  const auto to = wire_at<EthernetHeader>(reply.data());
  TALLY_CHECK(to.source == kBox.mac, "the box says who it is");
  TALLY_CHECK(!l2::is_group(to.destination) || to.destination == l2::group_mac(l2::kAllNodes), "to one host");
  TALLY_CHECK(to.destination != kBox.mac && to.destination != Mac{}, "to another host");
  TALLY_CHECK(std::memcmp(asked.data() + kMacs, reply.data() + kMacs, 2) == 0, "the same type");
  if (const std::size_t at = ip_of(reply, kEtherIpv4); at != 0) {
    const auto ip = wire_at<Ipv4Header>(reply.data() + at);
    TALLY_CHECK(fate == l2::SwitchFate::kEchoAnswered && ip.source == kBox.ipv4, "an echo reply of the box");
    TALLY_CHECK(ip.destination != kBox.ipv4 && ip.destination[0] < 224, "for one other host");
    TALLY_CHECK(folded(internet_sum({reply.data() + at, 20})) == 0xFFFF, "with a right header");
    const std::span icmp(reply.data() + at + 20, ip.total_length.host() - 20U);
    TALLY_CHECK(folded(internet_sum(icmp)) == 0xFFFF, "and a right checksum");
  } else if (const std::size_t six = ip_of(reply, kEtherIpv6); six != 0) {
    const auto ip = wire_at<Ipv6Header>(reply.data() + six);
    TALLY_CHECK(ip.source == kBox.ipv6 && ip.destination != kBox.ipv6, "from the box to another");
    TALLY_CHECK(ip.destination[0] != 0xff || ip.destination == l2::kAllNodes, "no other group");
    TALLY_CHECK(six + 40 + ip.payload_length.host() <= reply.size(), "the packet is in the frame");
    TALLY_CHECK(l2::icmp6_sum(ip, {reply.data() + six + 40, ip.payload_length.host()}) == 0xFFFF, "right");
  } else {
    TALLY_CHECK(fate == l2::SwitchFate::kArpAnswered && reply.size() >= 42, "or an ARP reply");
  }
}

}  // namespace
}  // namespace tally

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tally;
  FuzzInput in(data, size);
  const std::uint8_t how = in.byte();
  const auto bytes = in.take(size);
  Bytes asked(bytes.begin(), bytes.end());
  if (asked.size() < sizeof(EthernetHeader)) return 0;
  if (l2::wrong_source(wire_at<EthernetHeader>(asked.data()).source, kBox.mac)) return 0;
  if ((how & 0x80) != 0) mend_checksums(asked);
  const std::size_t capacity = asked.size() + how % 16;
  const auto room = std::make_unique<std::byte[]>(capacity);  // NOLINT(modernize-avoid-c-arrays)
  std::memcpy(room.get(), asked.data(), asked.size());
  const l2::Answer out = l2::answer({.data = room.get(),
                                     .length = static_cast<std::uint32_t>(asked.size()),
                                     .capacity = static_cast<std::uint32_t>(capacity)},
                                    kBox);
  if (out.kind != l2::Answer::Kind::kAnswer) {
    TALLY_CHECK(std::memcmp(room.get(), asked.data(), asked.size()) == 0,
                "what is not answered is not written");
    const bool alone = wire_at<EthernetHeader>(asked.data()).destination == kBox.mac;
    TALLY_CHECK(!alone || out.kind == l2::Answer::Kind::kDropped, "nobody else gets the box's frames");
    return 0;
  }
  TALLY_CHECK(out.length >= 42 && out.length <= capacity, "the answer is in the buffer");
  check_answer(asked, Bytes(room.get(), room.get() + out.length), out.fate);
  return 0;
}

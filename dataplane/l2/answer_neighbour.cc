// Neighbour solicitations (RFC 4861, 7.1.1 and 7.2.4), also those of hosts that try out whether an address is
// free (RFC 4862, 5.4).

#include <optional>

#include "answer_parts.h"
#include "forwarding.h"
#include "l2_headers.h"

namespace tally {
namespace {

struct Options {
  bool right = true;
  std::optional<Mac> source;  // link-layer address of the asker
};

Options read_options(std::span<const std::byte> rest) noexcept {
  constexpr std::uint8_t kSourceAddress = 1;
  Options found;
  while (!rest.empty()) {
    const std::size_t bytes = rest.size() < 2 ? 0 : 8 * std::to_integer<std::size_t>(rest[1]);
    if (bytes == 0 || bytes > rest.size()) return {.right = false};
    if (rest[0] == std::byte{kSourceAddress}) {
      if (bytes != sizeof(LinkAddressOption)) return {.right = false};
      found.source = wire_at<LinkAddressOption>(rest.data()).mac;
    }
    rest = rest.subspan(bytes);
  }
  return found;
}

}  // namespace

// An advertisement may be longer than what it answers.
Answer answer_solicitation(const Question& q, const Box& box, const Ipv6Header& ip,
                           std::size_t payload) noexcept {
  constexpr std::uint8_t kHopLimit = 255;  // no router has passed it on
  constexpr std::uint8_t kTargetAddress = 2;
  std::byte* const at = q.at() + sizeof ip;
  if (payload < sizeof(NeighbourMessage)) return dropped(SwitchFate::kRunt);
  auto message = wire_at<NeighbourMessage>(at);
  if (message.target != box.ipv6) return ignored(q);
  if (ip.hop_limit != kHopLimit || message.icmp.code != 0) return dropped(SwitchFate::kNeighbourFields);
  if (icmp6_sum(ip, {at, payload}) != 0xFFFF) return dropped(SwitchFate::kChecksum);
  const Options options = read_options({at + sizeof message, payload - sizeof message});
  if (!options.right) return dropped(SwitchFate::kNeighbourFields);
  const bool probe = ip.source == Ipv6{};
  if (probe && (options.source || ip.destination == box.ipv6)) return dropped(SwitchFate::kNeighbourFields);
  if (ip.source == box.ipv6) return dropped(SwitchFate::kConflict);
  if (ip.source[0] == 0xff) return dropped(SwitchFate::kAsker);
  const Mac asker = options.source.value_or(asker_mac(q));
  if (wrong_source(asker, box.mac)) return dropped(SwitchFate::kNeighbourFields);
  constexpr std::size_t kBytes = sizeof(NeighbourMessage) + sizeof(LinkAddressOption);
  if (q.offset + sizeof ip + kBytes > q.frame.capacity) return dropped(SwitchFate::kRoom);

  Ipv6Header reply = ip;
  reply.payload_length = Be<std::uint16_t>(kBytes);
  reply.source = box.ipv6;
  reply.destination = probe ? kAllNodes : ip.source;
  message.icmp = {.type = kAdvertisement, .rest = Be<std::uint32_t>((probe ? 0 : kSolicited) | kOverride)};
  wire_put(q.at(), reply);
  wire_put(at, message);
  wire_put(at + sizeof message, LinkAddressOption{.type = kTargetAddress, .mac = box.mac});
  message.icmp.checksum = Be<std::uint16_t>(static_cast<std::uint16_t>(~icmp6_sum(reply, {at, kBytes})));
  wire_put(at, message.icmp);
  return answered(q, SwitchFate::kNeighbourAnswered, probe ? group_mac(kAllNodes) : asker, box.mac,
                  sizeof ip + kBytes);
}

}  // namespace tally

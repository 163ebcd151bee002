#include "forger.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "jobs.h"
#include "kernels/kernels.h"
#include "tally/wire.h"

namespace tally::sim {
namespace {

bool is_data(PacketType type) noexcept {
  return type == PacketType::kContribute || type == PacketType::kResult || type == PacketType::kAnswer ||
         type == PacketType::kPartial || type == PacketType::kZeroRun;
}

// The CRC of a payload is in sum1 of whatever control says and hears.
void seal_all(Bytes& datagram) {
  Header h = header_of(datagram);
  if (datagram.size() > kHeaderBytes)
    h.sum1 =
        Be{kernels::best_kernels().crc32c(datagram.data() + kHeaderBytes, datagram.size() - kHeaderBytes)};
  set_header(datagram, h);
}

}  // namespace

std::optional<Bytes> Forger::changed(const Bytes& frame) {
  if (frame.size() < kOuterBytes + kHeaderBytes) return std::nullopt;
  Bytes datagram(frame.begin() + kOuterBytes, frame.end());
  if (is_data(header_of(datagram).type)) return std::nullopt;
  const std::size_t payload = datagram.size() - kHeaderBytes;
  const auto times = rng_.between(1, 3);
  for (std::uint64_t i = 0; i < times; ++i) {
    // The counter, or the nonce, is in the first bytes of the payload.
    const bool counter = payload >= sizeof(CountedPayload) && rng_.chance(0.3);
    const std::size_t at = counter ? kHeaderBytes + rng_.below(sizeof(CountedPayload))
                           : payload != 0 && rng_.chance(0.4) ? kHeaderBytes + rng_.below(payload)
                                                              : 2 + rng_.below(kCheckedBytes - 2);
    datagram[at] ^= std::byte{static_cast<unsigned char>(rng_.between(1, 255))};
  }
  seal_all(datagram);
  Bytes out(frame.begin(), frame.begin() + kOuterBytes);
  out.insert(out.end(), datagram.begin(), datagram.end());
  return out;
}

Bytes Forger::made_up(bool for_box) {
  constexpr std::array<std::size_t, 7> kSizes{0,
                                              sizeof(CountedPayload) + kTagBytes,
                                              sizeof(CountedPayload) + kTagBytes + 4,
                                              sizeof(ChallengePayload),
                                              sizeof(JoinPayload) + kTagBytes + 4,
                                              sizeof(JoinedPayload) + kTagBytes,
                                              64};
  Bytes datagram(kHeaderBytes + kSizes[rng_.below(kSizes.size())]);
  for (std::byte& b : datagram) b = std::byte{static_cast<unsigned char>(rng_.below(256))};
  Header h = header_of(datagram);
  h.version = kWireVersion;
  h.type = static_cast<PacketType>(rng_.between(1, raw(PacketType::kZeroRun)));
  h.flags = rng_.chance(0.8) ? std::uint8_t{0} : h.flags;
  h.job = Be(static_cast<std::uint16_t>(rng_.below(4)));
  h.rank = Be(for_box ? static_cast<std::uint16_t>(rng_.below(4)) : raw(kSwitchRank));
  if (rng_.chance(0.5)) h.slot = Be(static_cast<std::uint32_t>(rng_.below(4)));  // the reason of a REJECT
  if (rng_.chance(0.5)) h.chunk = Be(static_cast<std::uint32_t>(rng_.below(64)));
  if (rng_.chance(0.3)) h.cookie = {};
  if (is_data(h.type) || h.type == PacketType::kQuery) h.elements = {};
  set_header(datagram, h);
  // A JOIN by its name and sizes, with no tag.
  if (h.type == PacketType::kJoin && datagram.size() == kHeaderBytes + sizeof(JoinPayload) + kTagBytes + 4) {
    JoinPayload join{};
    join.instance = Be(rng_.next() | 1U);
    join.nonce = Be(rng_.next());
    join.world = Be(static_cast<std::uint16_t>(rng_.between(1, 4)));
    join.elements = Be<std::uint16_t>(64);
    join.name_bytes = 4;
    wire_put(datagram.data() + kHeaderBytes, join);
    const std::array name{'j', 'o', 'b', static_cast<char>('0' + rng_.below(3))};
    std::memcpy(datagram.data() + kHeaderBytes + sizeof join, name.data(), name.size());
    h.job = {};
    h.epoch = {};
    h.cookie = {};
    set_header(datagram, h);
  }
  seal_all(datagram);
  return datagram;
}

Bytes Forger::made_up_for_box(const jobs::Binding& from) {
  return wrap(made_up(true), from, test_box(), static_cast<std::uint16_t>(kBasePort + rng_.below(3)));
}

// As the box's own frames, whose addresses everybody knows.
Bytes Forger::made_up_for_member(const jobs::Binding& to) {
  jobs::Box receiver;
  receiver.mac = to.mac;
  receiver.ipv4 = {to.address[12], to.address[13], to.address[14], to.address[15]};
  jobs::Binding box;
  box.mac = test_box().mac;
  box.address = mapped(test_box().ipv4);
  box.udp_port = kBasePort;
  return wrap(made_up(false), box, receiver, to.udp_port);
}

}  // namespace tally::sim

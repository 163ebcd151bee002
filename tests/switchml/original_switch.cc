#include "original_switch.h"

#include <algorithm>
#include <utility>

namespace tally::stock {
namespace {

Be<std::uint32_t> word_at(std::span<const std::byte> bytes, std::size_t i) noexcept {
  Be<std::uint32_t> word;
  std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
  return word;
}

}  // namespace

OriginalSwitch::OriginalSwitch(std::vector<StockAddresses> members, std::uint16_t payload,
                               std::uint16_t slots)
    : members_(std::move(members)), payload_(payload), frame_(kHeads + payload) {
  for (auto& set : sets_) {
    set.resize(slots);
    for (Slot& slot : set) {
      slot.sums.resize(payload / sizeof(std::uint32_t));
      slot.ports.resize(members_.size());
    }
  }
}

bool OriginalSwitch::ours(std::size_t rank, std::span<const std::byte> frame) const noexcept {
  if (frame.size() != frame_.size()) return false;
  const FrameHeads h = heads_of(frame);
  const StockAddresses& m = members_[rank];
  return h.ethernet.source == m.mac && h.ethernet.destination == m.switch_mac &&
         h.ethernet.type.host() == kEtherIpv4 && h.ip.version_ihl == 0x45 && h.ip.fragment.host() == 0 &&
         h.ip.protocol == kProtocolUdp && h.ip.total_length.host() == frame.size() - sizeof h.ethernet &&
         h.ip.source == m.ipv4 && h.ip.destination == m.switch_ipv4 &&
         h.udp.destination.host() == kSwitchPort &&
         h.udp.length.host() == frame.size() - sizeof h.ethernet - sizeof h.ip &&
         h.switchml.type_size == (kMessage | size_code(payload_)) &&
         (h.switchml.pool_index.host() & kSlotMask) < sets_[0].size();
}

void OriginalSwitch::add(Slot& slot, std::uint32_t bit, const StockHeader& h,
                         std::span<const std::byte> payload) const noexcept {
  const bool empty = slot.bitmap == 0;
  if (empty) {
    std::ranges::fill(slot.sums, 0U);
    slot.e0 = slot.e1 = INT8_MIN;
    slot.complete = false;
  }
  for (std::size_t i = 0; i < slot.sums.size(); ++i) slot.sums[i] += word_at(payload, i).host();
  slot.e0 = std::max(slot.e0, h.e0);
  slot.e1 = std::max(slot.e1, h.e1);
  slot.bitmap |= bit;
}

void OriginalSwitch::receive(std::size_t rank, std::span<const std::byte> frame, TimeNs /*now*/,
                             const Deliver& deliver) {
  if (!ours(rank, frame)) {
    ++counters_.strangers;
    return;
  }
  const FrameHeads h = heads_of(frame);
  const std::uint16_t index = h.switchml.pool_index.host();
  const std::size_t set = (index & kSetBit) != 0 ? 1 : 0;
  Slot& slot = sets_[set][index & kSlotMask];
  const std::uint32_t bit = 1U << rank;
  sets_[1 - set][index & kSlotMask].bitmap &= ~bit;
  slot.ports[rank] = h.udp.source.host();
  if ((slot.bitmap & bit) != 0) {
    if (!slot.complete) {
      ++counters_.duplicates;
      return;
    }
    ++counters_.repeated;
    return answer(rank, slot, h.switchml, deliver);
  }
  add(slot, bit, h.switchml, frame.subspan(kHeads));
  ++counters_.added;
  if (slot.bitmap != (~0U >> (32 - members_.size()))) return;
  slot.complete = true;
  ++counters_.completed;
  for (std::size_t to = 0; to < members_.size(); ++to) answer(to, slot, h.switchml, deliver);
}

// job_number and tsi are those of the packet that is answered.
void OriginalSwitch::answer(std::size_t rank, const Slot& slot, const StockHeader& asked,
                            const Deliver& deliver) {
  const StockAddresses& m = members_[rank];
  FrameHeads h;
  h.ethernet = {m.mac, m.switch_mac, Be{kEtherIpv4}};
  h.ip.total_length = Be{static_cast<std::uint16_t>(frame_.size() - sizeof h.ethernet)};
  h.ip.source = m.switch_ipv4;
  h.ip.destination = m.ipv4;
  h.ip.checksum = Be{ipv4_checksum(h.ip)};
  h.udp.source = Be{kSwitchPort};
  h.udp.destination = Be{slot.ports[rank]};
  h.udp.length = Be{static_cast<std::uint16_t>(frame_.size() - sizeof h.ethernet - sizeof h.ip)};
  h.switchml = asked;
  h.switchml.e0 = slot.e0;
  h.switchml.e1 = slot.e1;
  set_heads(frame_, h);
  for (std::size_t i = 0; i < slot.sums.size(); ++i) {
    const Be word{slot.sums[i]};
    std::memcpy(frame_.data() + kHeads + i * sizeof word, &word, sizeof word);
  }
  deliver(rank, frame_);
}

}  // namespace tally::stock

#pragma once
// The commonest packet, a member's contribution without anything special: known by one comparison with its
// template instead of the gates of frame.h and match_job(). Whatever is not known so is theirs to judge: this
// refuses nothing, and what it lets by they would let by.

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "jobs/contribution_template.h"
#include "jobs/job_table.h"
#include "jobs/layout.h"
#include "kernels/kernels.h"
#include "pipeline/decision.h"
#include "pipeline/frame.h"
#include "pipeline/pool.h"
#include "tally/net.h"
#include "tally/wire.h"

namespace tally::pipeline {

// Its slot, and where the registers of the chunk lie that no other register has to be asked for. The pool's
// are a mask away, without the sum of what other disciplines depend on.
inline void locate(Contribution& p, const jobs::NativeJob& job, const jobs::SharedRegion& shared) noexcept {
  if (job.discipline == Discipline::kPool) [[likely]] {
    p.slot = Pool::slot_of(p.chunk, job);
    p.line = Pool::line_of(p.chunk, job);
    return;
  }
  p.slot = SlotIndex{slot_of(jobs::slot_map(job), p.chunk)};
  const std::uint32_t local = raw(p.slot) / job.shards;
  if (job.discipline == Discipline::kShared) {
    p.row = job.slots.first * jobs::kLedgerRowsPerLine + local;
  } else {
    p.line = shared.line_of(local);
  }
}

// What the program is told of a data packet that was let by, beside where its registers are.
// bit: whom it speaks for; key: theirs.
[[gnu::always_inline]] inline void take_fields(Contribution& p, const Header& h, std::byte* datagram,
                                               const jobs::NativeJob& job, std::uint64_t bit,
                                               std::uint32_t key, bool vouched, Form form) noexcept {
  p.values = datagram + kHeaderBytes;
  p.epoch = job.epoch;
  p.rank = h.rank_id();
  p.bit = bit;
  p.key = key;
  p.sum = jobs::sum_of(h);
  p.direct = (h.flags & kFlagDirect) != 0;
  p.verify = !vouched;
  p.form = form;
  p.priority = std::min(h.priority, job.max_priority);
}
// Of a member's CONTRIBUTE: where its rank's register is.
inline void take_sequence(Contribution& p, const Header& h, const jobs::NativeJob& job) noexcept {
  p.sequence = h.sequence();
  p.missing = 0;
  p.number = raw(job.id) * kMaxRanks + raw(h.rank_id());
}

// The core that owns the slot.
inline std::uint8_t owner_of(SlotIndex slot, const jobs::NativeJob& job) noexcept {
  return job.shards == 1 ? 0 : static_cast<std::uint8_t>(raw(slot) % job.shards);
}
// Values that the frame's buffer can take behind this header.
inline std::uint32_t room_behind(const std::byte* datagram, const Frame& frame) noexcept {
  const auto in_front = static_cast<std::uint32_t>(datagram + kHeaderBytes - frame.data);
  return (frame.capacity - in_front) / 4;
}

class Recogniser {
 public:
  explicit Recogniser(const jobs::Box& box) noexcept {
    for (const bool tagged : {false, true})
      for (const bool ipv6 : {false, true})
        for (const bool halves : {false, true})
          box_[halves ? 1 : 0][jobs::Framing{tagged, ipv6}.index()] =
              jobs::box_likeness(box, {tagged, ipv6}, halves);
  }

  struct Known {
    const jobs::ContributionTemplate* as = nullptr;  // nullptr: let the gates judge it
    std::byte* datagram = nullptr;
    std::uint32_t bytes = 0;  // of the datagram
  };
  // halves: whether it looks for one with values of 16 bits, or of 32. They are asked for apart, so that one
  // kind does not cost the other anything.
  template <bool halves>
  [[nodiscard, gnu::always_inline]] Known know(const Frame& frame, const jobs::JobTable& table,
                                               const kernels::Kernels& kernels) const noexcept {
    if (frame.length < sizeof(jobs::ContributionTemplate) || !frame.single_segment) return {};
    constexpr std::size_t kType = offsetof(EthernetHeader, type);
    switch (be16(frame.data + kType)) {
      case kEtherIpv4:
        return know_as<jobs::Framing{}, halves>(frame, table, kernels);
      case kEtherIpv6:
        return know_as<jobs::Framing{.ipv6 = true}, halves>(frame, table, kernels);
      case kEtherVlan:
        return be16(frame.data + kType + sizeof(VlanTag)) == kEtherIpv6
                   ? know_as<jobs::Framing{.tagged = true, .ipv6 = true}, halves>(frame, table, kernels)
                   : know_as<jobs::Framing{.tagged = true}, halves>(frame, table, kernels);
      default:
        return {};
    }
  }

 private:
  static std::uint16_t be16(const std::byte* at) noexcept { return wire_at<Be<std::uint16_t>>(at).host(); }

  template <jobs::Framing framing, bool halves>
  [[nodiscard, gnu::always_inline]] Known know_as(const Frame& frame, const jobs::JobTable& table,
                                                  const kernels::Kernels& kernels) const noexcept {
    constexpr std::uint32_t kInFront = framing.in_front();
    constexpr std::uint32_t kLength =
        framing.ipv6
            ? kInFront - sizeof(UdpHeader) - sizeof(Ipv6Header) + offsetof(Ipv6Header, payload_length)
            : kInFront - sizeof(UdpHeader) - sizeof(Ipv4Header) + offsetof(Ipv4Header, total_length);
    constexpr std::uint32_t kCounted = framing.ipv6 ? 0 : sizeof(Ipv4Header);  // in the IP length, before UDP
    constexpr std::uint32_t kPerWord = halves ? 2 : 1;
    std::byte* const datagram = frame.data + kInFront;
    if (halves && datagram[offsetof(Header, dtype)] != std::byte{static_cast<std::uint8_t>(Dtype::kInt16)})
      return {};
    const auto* const known = table.contributions_of(JobId{be16(datagram + offsetof(Header, job))},
                                                     Rank{be16(datagram + offsetof(Header, rank))});
    if (known == nullptr) return {};
    const std::uint32_t elements = be16(datagram + offsetof(Header, elements));
    const auto bytes = static_cast<std::uint32_t>(kHeaderBytes + 4 / kPerWord * elements);
    const std::uint32_t udp_bytes = bytes + std::uint32_t{sizeof(UdpHeader)};
    const std::uint32_t lengths =
        (be16(datagram - sizeof(UdpHeader) + offsetof(UdpHeader, length)) ^ udp_bytes) |
        (be16(frame.data + kLength) ^ (udp_bytes + kCounted));
    const auto ports = static_cast<std::uint32_t>(raw(frame.port) ^ raw(known->port));
    if (differs(frame.data, box_[halves ? 1 : 0][framing.index()], *known) || (lengths | ports) != 0 ||
        elements > kPerWord * known->job->elements || frame.length < kInFront + bytes)
      return {};
    const auto check = wire_at<Be<std::uint32_t>>(datagram + kCheckedBytes);
    if (kernels.crc32c(datagram, kCheckedBytes) != check.host()) return {};
    return {known, datagram, bytes};
  }

  static bool differs(const std::byte* frame, const jobs::BoxLikeness& box,
                      const jobs::ContributionTemplate& known) noexcept {
    constexpr std::size_t kWords = sizeof(__m128i) / sizeof(std::uint64_t);
    __m128i all = _mm_setzero_si128();
    for (std::size_t i = 0; i < jobs::kLikenessWords; i += kWords) {
      const auto at = [i](const auto& words) {
        return _mm_load_si128(reinterpret_cast<const __m128i*>(&words[i]));
      };
      __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(frame + i * sizeof(std::uint64_t)));
      bits = _mm_xor_si128(_mm_and_si128(bits, at(box.mask)), at(known.likeness));
      if (i < jobs::BoxLikeness::kBoxWords) bits = _mm_xor_si128(bits, at(box.box));
      all = _mm_or_si128(all, bits);
    }
    return _mm_movemask_epi8(_mm_cmpeq_epi8(all, _mm_setzero_si128())) != 0xFFFF;
  }

  std::array<std::array<jobs::BoxLikeness, jobs::kFramings>, 2> box_;  // by whether values have 16 bits
};

}  // namespace tally::pipeline

#pragma once
// What the frames of a member's contributions have in common, for the data cores to know one by a single
// comparison. Made with the job's row (job_table.h), immutable.

#include <array>
#include <cstddef>
#include <cstdint>

#include "jobs/binding.h"
#include "tally/net.h"
#include "tally/wire.h"

namespace tally::jobs {

struct NativeJob;

// How a frame comes to our header: untagged or with a VLAN tag, over IPv4 or IPv6.
struct Framing {
  bool tagged = false;
  bool ipv6 = false;

  [[nodiscard]] constexpr std::size_t index() const noexcept { return (tagged ? 1U : 0U) + (ipv6 ? 2U : 0U); }
  // Bytes in front of our header.
  [[nodiscard]] constexpr std::uint32_t in_front() const noexcept {
    return (tagged ? 4U : 0U) + (ipv6 ? 62U : 42U);
  }
};
inline constexpr std::size_t kFramings = 4;

// A frame's first bytes: at least up to our header's cookie, in words.
inline constexpr std::size_t kLikenessWords = 14;
using Likeness = std::array<std::uint64_t, kLikenessWords>;
static_assert(sizeof(Likeness) >= kMaxEncapsulation + offsetof(Header, sum1));

// Line by line, so that no other member's lies in them.
struct alignas(64) ContributionTemplate {
  Likeness likeness{};  // masked; from a box without addresses
  const NativeJob* job = nullptr;
  std::uint32_t key = 0;  // k[rank]
  PortIndex port{};       // ingress
};
static_assert(sizeof(ContributionTemplate) == 128);

[[nodiscard]] Likeness contribution_likeness(const Binding& from, JobId job, Epoch epoch, Rank rank,
                                             Cookie cookie) noexcept;
// Of a rank that no frame can be of: it is not known where it is. (Some bit is set that no mask has.)
[[nodiscard]] constexpr Likeness unlike_any() noexcept {
  Likeness words{};
  words.fill(~std::uint64_t{0});
  return words;
}

// What of a frame the templates speak of, and what the box's own addresses change in it: with `like` a
// member's likeness, ((frame & mask) ^ box ^ like) == 0 says that the frame is to this box, from where the
// member sends, a CONTRIBUTE of job, epoch, rank and cookie, of one of the two dtypes of 4 bytes (halves: of
// 0 or the one of 2), with flags that any may have and elements of whole lines. Ports, lengths and the most
// elements are not in it, nor is ZERO, which the gates judge. A box without an address of the kind has no
// such frame.
struct BoxLikeness {
  static constexpr std::size_t kBoxWords = 8;  // its addresses lie in front
  alignas(64) Likeness mask{};
  alignas(64) std::array<std::uint64_t, kBoxWords> box{};
};
[[nodiscard]] BoxLikeness box_likeness(const Box& box, Framing framing, bool halves) noexcept;

}  // namespace tally::jobs

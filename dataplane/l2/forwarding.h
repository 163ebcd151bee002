#pragma once
// Where a frame that is not for the box goes, and what the switch learns from it (IEEE 802.1D, 7). No VLANs
// of its own: a host is behind one port whatever tag its frames carry, and tags are carried untouched.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "l2/mac_table.h"
#include "tally/ids.h"
#include "tally/net.h"
#include "tally/one_writer.h"
#include "tally/time.h"

namespace tally::l2 {

// What the L2 switch counts, of one data core. Written by that core only, read by control.

// What became of a frame that was not the pipeline's: exactly one of these. The frame of a port or core that
// then does not take it is counted there as well, as any other frame is.
enum class SwitchFate : std::uint8_t {
  kForwarded,
  kFlooded,
  kFiltered,
  kArpAnswered,
  kNeighbourAnswered,
  kEchoAnswered,
  // dropped
  kReserved,
  kSource,
  kOwnSource,
  kNotForUs,
  kNotServed,
  kConflict,
  kTooLong,
  kNoMbuf,
  kRunt,
  kLength,
  kIpHeader,
  kIpOptions,
  kFragment,
  kChecksum,
  kIcmp,
  kArpFields,
  kNeighbourFields,
  kAsker,
  kRoom,
  kCount,
};

inline constexpr std::size_t kSwitchFateCount = static_cast<std::size_t>(SwitchFate::kCount);
inline constexpr std::size_t kFirstSwitchDrop = static_cast<std::size_t>(SwitchFate::kReserved);

inline constexpr std::array<std::string_view, kSwitchFateCount> kSwitchFateNames{
    "forwarded",           // to the one port that its destination is behind
    "flooded",             // to all ports but its own: the destination is a group, or unknown
    "filtered",            // its destination is behind the port it came from
    "ARP answered",        // for the box's IPv4 address
    "neighbour answered",  // ... its IPv6 address
    "echo answered",       // ping, either IP version
    "reserved",            // 01:80:C2:00:00:00..0F: between neighbours only (802.1D)
    "source",              // the source MAC is a group or zero
    "own_source",          // the source MAC is the box's: a loop of cables, or a host that pretends
    "not_for_us",          // one-arm, and not for the box
    "not_served",          // to the box's MAC, and nothing that it serves
    "conflict",            // another host says that it has the box's address
    "too_long",            // longer than the MTU of its port allows
    "no_mbuf",             // a question in several buffers that found none for the whole
    "runt",                // shorter than its headers, or than any frame that may be sent (17 bytes)
    "length",              // lengths disagree
    "ip_header",           // IP version or header checksum is wrong
    "ip_options",          // IPv4 options or an IPv6 extension header
    "fragment",            // an IP fragment
    "checksum",            // of ICMP
    "icmp",                // an echo request with a code
    "arp_fields",          // the ARP sender's MAC is not one host's
    "neighbour_fields",    // hop limit, code, source or options of a neighbour solicitation are not allowed
    "asker",               // the IP source is not one host's that may be answered
    "room",                // the packet's buffer cannot hold the answer
};

constexpr std::string_view name_of(SwitchFate fate) noexcept {
  return kSwitchFateNames[static_cast<std::size_t>(fate)];
}

struct SwitchCounters {
  std::array<OneWriter<std::uint64_t>, kSwitchFateCount> fates{};
  OneWriter<std::uint64_t> copies = 0;       // frames made or shared for ports because one was flooded
  OneWriter<std::uint64_t> not_flooded = 0;  // ... not made: longer than the MTU or a buffer
  OneWriter<std::uint64_t> learned = 0;      // hosts that were not known
  OneWriter<std::uint64_t> moved = 0;        // hosts that came in by another port than before
  OneWriter<std::uint64_t> evicted = 0;      // hosts that were forgotten for others; the table is too small

  void add(SwitchFate fate) noexcept { ++fates[static_cast<std::size_t>(fate)]; }
  [[nodiscard]] std::uint64_t of(SwitchFate fate) const noexcept {
    return fates[static_cast<std::size_t>(fate)];
  }
  [[nodiscard]] std::uint64_t frames() const noexcept {
    std::uint64_t n = 0;
    for (const auto& fate : fates) n += fate;
    return n;
  }
  SwitchCounters& operator+=(const SwitchCounters& other) noexcept {
    for (std::size_t i = 0; i < kSwitchFateCount; ++i) fates[i] += other.fates[i].get();
    copies += other.copies.get();
    not_flooded += other.not_flooded.get();
    learned += other.learned.get();
    moved += other.moved.get();
    evicted += other.evicted.get();
    return *this;
  }
};

enum class BoxMode : std::uint8_t {
  kInline,  // workers hang on the box's ports, and the box is their switch
  kOneArm,  // the box hangs on a switch and forwards nothing
};

constexpr bool is_group(const Mac& mac) noexcept { return (mac[0] & 1) != 0; }

// Why a frame with this source is dropped, if it is.
[[nodiscard]] std::optional<SwitchFate> wrong_source(const Mac& source, const Mac& box) noexcept;

struct Route {
  SwitchFate fate{};  // kForwarded, kFlooded, kFiltered or kReserved
  PortIndex to{};     // kForwarded
};

class Forwarding {
 public:
  // hosts: shared with other cores. counters: of this core. Both outlive it.
  Forwarding(MacTable& hosts, SwitchCounters& counters) noexcept : hosts_(hosts), counters_(counters) {}

  // source: not wrong_source(). ingress: where it came in.
  void learn(const Mac& source, PortIndex ingress, TimeNs now) noexcept;
  // Learns, and says where the frame goes; never back to `ingress`. Counts nothing but what it learned.
  [[nodiscard]] Route route(PortIndex ingress, const Mac& destination, const Mac& source,
                            TimeNs now) noexcept;

 private:
  MacTable& hosts_;
  SwitchCounters& counters_;
};

}  // namespace tally::l2

#pragma once
// Where a frame that is not for the box goes, and what the switch learns from it (IEEE 802.1D, 7). No VLANs
// of its own: a host is behind one port whatever tag its frames carry, and tags are carried untouched.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "l2/mac_table.h"
#include "tally/counters.h"
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

// The first of them are no drops and need no advice.
inline constexpr std::array<DropReason, kSwitchFateCount> kSwitchFates{{
    {"forwarded", "To the one port that its destination is behind.", ""},
    {"flooded", "To all ports but its own: the destination is a group, or unknown.", ""},
    {"filtered", "Its destination is behind the port it came from.", ""},
    {"ARP answered", "A question for the box's IPv4 address.", ""},
    {"neighbour answered", "A question for the box's IPv6 address.", ""},
    {"echo answered", "A ping, of either IP version.", ""},
    {"reserved", "The frame is for neighbours only (01:80:C2:00:00:00 to 0F, as of spanning tree).",
     "Nothing to do: a switch does not pass such frames on."},
    {"source", "The source MAC of the frame is a group or zero.",
     "Look at the host behind that port: its MAC is broken."},
    {"own_source", "The source MAC of the frame is the box's own.",
     "Look for a loop of cables, for a second daemon of the same instance name, or for a host that "
     "pretends."},
    {"not_for_us", "The box hangs on a switch, and the frame is not for it.",
     "Normal for a moment, while the switch does not know where hosts are. If they are many, its table is "
     "too small."},
    {"not_served", "The frame is for the box's MAC, and is nothing that the box serves.",
     "Look at who sends what to the box's address: it serves its own protocol, ARP, neighbour discovery and "
     "ping."},
    {"conflict", "Another host says that it has the box's address.", "Give one of the two another address."},
    {"too_long", "The frame is longer than the MTU of its port allows.",
     "Lower the sender's MTU, or raise mtu of the port."},
    {"no_mbuf", "A question in several buffers found no buffer for the whole.",
     "Raise dataplane.memory; see 'no mbuf' of the cores."},
    {"runt", "The frame is shorter than its headers, or than any frame that may be sent.",
     "Look at its sender: a device cuts frames."},
    {"length", "The lengths in the frame disagree.", "Look at its sender."},
    {"ip_header", "The IP version or the header's checksum is wrong.",
     "Damage on the way, or a broken sender."},
    {"ip_options", "The packet has IPv4 options or an IPv6 extension header.",
     "Send what the box is to answer without them."},
    {"fragment", "The packet is a fragment of an IP packet.",
     "Send smaller pings, or raise the MTU of the path."},
    {"checksum", "The checksum of ICMP is wrong.", "Damage on the way, or a broken sender."},
    {"icmp", "A ping has a code that no ping has.", "Look at its sender."},
    {"arp_fields", "The sender's MAC in the ARP packet is not one host's.", "Look at its sender."},
    {"neighbour_fields", "Hop limit, code, source or options of a neighbour solicitation are not allowed.",
     "Look at its sender: it comes through a router, or is forged."},
    {"asker", "The IP source is not one host's that may be answered.",
     "Look at its sender: a group or the box itself asks."},
    {"room", "The buffer of the packet cannot hold the answer.", "Raise mtu of the port."},
}};
inline constexpr std::array kSwitchFateNames = names_of(kSwitchFates);

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

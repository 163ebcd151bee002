#pragma once
// What stands behind `udp:` in TALLY_TRANSPORT: KEY=VALUE, separated by commas. Pure.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tally/error.h"

namespace tally::udp {

enum class Gso : std::uint8_t {
  kOff,
  kOn,
  kAuto,  // where the kernel cuts the message into frames itself, before the interface sees it
};

struct UdpSettings {
  std::uint16_t port = 0;          // port=1024..65535: the socket's own; 0: the transport chooses
  std::size_t buffer = kBuffer;    // buffer=64KiB..1GiB: of the socket, each way
  Gso gso = Gso::kAuto;            // gso=on|off|auto: bursts to one port go to the kernel as one message
  std::uint32_t backlog = 0;       // backlog=16..16384: datagrams that may wait for the wire; 0: chosen
  std::uint32_t busy_poll_us = 0;  // busy-poll=1..1000: the kernel looks into the card's queue so long

  // A window of 1024 results of MTU 1500 fits: the kernel counts about 2.3 KiB for each.
  static constexpr std::size_t kBuffer = std::size_t{4} << 20;
  static constexpr std::size_t kLeastBuffer = std::size_t{64} << 10;
  static constexpr std::size_t kMostBuffer = std::size_t{1} << 30;
  static constexpr std::uint32_t kLeastBacklog = 16;
  static constexpr std::uint32_t kMostBacklog = 16'384;
};

// Errors name the key, its value and what would be right.
[[nodiscard]] Result<UdpSettings> parse_udp_settings(std::string_view text);

}  // namespace tally::udp

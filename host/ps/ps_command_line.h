#pragma once
// The command line of tally-ps.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ps/ps_options.h"
#include "tally/error.h"

namespace tally::ps {

struct PsSettings {
  std::vector<PsJobOptions> jobs;  // each name once
  std::string transport = "udp";   // udp, udp:KEY=VALUE,..., or dpdk:DEVICE
  std::vector<std::string> boxes;  // IP addresses, at least one: where to join, the first one first
  std::string address;             // of this server, 10.0.0.9/24; may be empty with udp
  std::uint16_t mtu = 1500;
  std::uint16_t elements = 0;  // 0: what the MTU carries
  std::size_t memory = 0;      // bytes
  bool poll = false;
  std::chrono::seconds statistics{10};  // 0: at the end only
  bool json = false;
};

// What --help or --version prints.
struct PsText {
  std::string text;
};

// Reads token files. Errors name the option, the value and what would be right.
[[nodiscard]] Result<std::variant<PsSettings, PsText>> parse_command_line(int argc, const char* const* argv);

}  // namespace tally::ps

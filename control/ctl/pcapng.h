#pragma once
// Captured frames as pcapng (draft-ietf-opsawg-pcapng), which Wireshark reads: with the port, the direction and
// a comment. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ctl {

struct CapturedFrame {
  std::uint64_t unix_ns = 0;
  std::uint32_t port = 0;  // of those that pcapng_head() was given
  bool out = false;
  std::uint32_t length = 0;            // of the frame; of what is captured at least
  std::span<const std::byte> bytes{};  // its beginning, from the Ethernet header on
  std::string_view comment{};          // UTF-8
};

// The beginning of a file. program: who made it; ports: names.
[[nodiscard]] std::string pcapng_head(const std::string& program, const std::vector<std::string>& ports);
// What is added for a frame.
[[nodiscard]] std::string pcapng_frame(const CapturedFrame& frame);

}  // namespace tally::ctl

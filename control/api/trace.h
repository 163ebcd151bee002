#pragma once
// A trace as the control interface offers it: a sample of frames, read in pieces while it runs. Plain data.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/request.h"

namespace tally::api {

// Empty texts let everything by.
struct TraceWish {
  std::string job{};
  std::string port{};
  std::string way = "both";  // in, out or both
  std::string drop{};        // a reason, or "any"; only frames that came in and were dropped
  std::uint32_t every = 1;   // of those that fit, one of so many
  std::uint32_t frames = 0;  // after which it ends
  std::uint32_t seconds = 0;
};

struct TraceStatus {
  bool running = false;
  std::string ended{};     // why it does not run; empty: there was none
  std::uint64_t read = 0;  // frames
  std::uint64_t lost = 0;  // that were not read in time
  TraceWish wish{};        // of the one that runs, or the last
};

struct TraceFrame {
  std::uint64_t unix_ns = 0;
  std::string port{};
  bool out = false;
  std::uint32_t length = 0;
  std::string comment{};           // what became of it
  std::vector<std::byte> bytes{};  // the beginning
};

inline constexpr std::size_t kTraceBatch = 64;  // frames of one answer

struct TraceBatch {
  std::vector<TraceFrame> frames{};  // none, and it does not run: that was all
  TraceStatus status{};
};

[[nodiscard]] Json to_json(const TraceStatus& status);
[[nodiscard]] Json to_json(const TraceBatch& batch);

}  // namespace tally::api

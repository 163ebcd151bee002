#pragma once
// The command line of tally-bench.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "load_frames.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::bench {

struct LoadRate {
  enum class Kind : std::uint8_t { kMax, kFixed, kSearch } kind = Kind::kMax;
  double per_s = 0;  // kFixed: contributions per second
};

// A number from 1 to 1e12, which may have k, M or G behind it, such as 1.2M.
[[nodiscard]] std::optional<double> parse_per_s(std::string_view text) noexcept;

// max, search, or such a number.
[[nodiscard]] Result<LoadRate> parse_rate(std::string_view text);

// MiB that --port memory takes: three rigs, each with rings of 4 MiB and their pools; and one more.
inline constexpr std::uint64_t kMemoryAlone = 240;
inline constexpr std::uint64_t kMemoryWithProfile = 320;

struct LoadOptions {
  std::vector<std::string>
      ports{};               // devices as a worker has them, without `dpdk:`; empty: the in-memory port
  std::string box{};         // IP address
  std::string address = "";  // of rank 0, with the network's length; the others have the next ones
  std::string job = "bench";
  std::string token{};
  std::uint16_t workers = 8;
  std::uint16_t elements = 256;
  bool elements_given = false;  // by the user: a job with fewer is refused
  LoadFormat format{};
  bool echo = false;           // the other end is no box, it sends every frame back
  std::uint32_t window = 256;  // echo: chunks in flight
  bool multicast = false;      // of the in-memory port; otherwise the job's configuration says it
  bool profile = false;        // of the in-memory port: cycles of each step of the loop, too
  LoadRate rate{};
  double seconds = 5;  // of the run that counts
  double trial_s = 0.5;
  double warm_up_s = 0.2;
  double resolution = 0.01;
  TimeNs deadline = 20 * kMillisecond;
  TimeNs join_timeout = 30 * kSecond;
  std::uint16_t mtu = 1500;
  std::optional<std::uint16_t> cpu{};
  std::uint64_t memory_mib = kMemoryAlone;
  std::optional<int> box_pid{};
  double line_rate = 0;       // Gbit/s of one port; 0: not known
  double ceiling = 0;         // packets per second, as given or as an echo run found; 0: not known
  bool allow_damage = false;  // damaged results do not fail the run
  bool hold = false;          // keeps the ports until standard input ends
  std::string json{};
  std::string csv{};
  std::string profile_csv{};
};

struct LoadHelp {
  std::string text;
};

// Reads the token's file and --ceiling's, too.
[[nodiscard]] Result<std::variant<LoadOptions, LoadHelp>> parse_load_options(int argc,
                                                                             const char* const* argv);

}  // namespace tally::bench

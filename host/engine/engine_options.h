#pragma once
// What the program tells the worker engine: once when it is created, and with every operation.

#include <cstdint>
#include <string>

#include "tally/ids.h"
#include "tally/priority.h"
#include "tally/time.h"

namespace tally {

inline constexpr TimeNs kPollRtoFloor = kMillisecond;           // the transport spins
inline constexpr TimeNs kAdaptiveRtoFloor = 20 * kMillisecond;  // transport or box may sleep between bursts

struct EngineOptions {
  std::string job;          // name, 1..64 bytes
  std::string token;        // 0..64 bytes
  Rank rank{};              // below world
  std::uint16_t world = 1;  // members of the job, 1..64
  std::uint16_t elements =
      352;  // wish: the most elements a packet of this path carries, 16..2224, multiple of 16
  std::uint64_t instance = 0;  // random per process: tells a restarted worker from a repeated JOIN
  std::uint64_t seed = 0;  // of all random words of the engine; the same seed and input give the same output
  TimeNs rto_floor = kAdaptiveRtoFloor;
  TimeNs unreachable_after =
      10 * kSecond;  // silence of control that fails the worker until JOINED says the lease
  std::uint8_t priority = kGreatestPriority;  // 0..254; its class is that of operations that choose none
};

struct OperationOptions {
  TimeNs deadline = kNever;  // absolute; passed without all results: kTimeout, and the job is aborted
  Priority priority{};
  bool mean = false;  // float only: each sum divided by the number of ranks in it
};

}  // namespace tally

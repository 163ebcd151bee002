#pragma once
// What the program tells the server engine, once.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tally/ids.h"
#include "tally/wire.h"

namespace tally {

struct PsJobOptions {
  std::string job;          // name, 1..64 bytes; each job once
  std::string token;        // 0..64 bytes
  std::uint32_t index = 0;  // which of the job's servers, 0..kMaxServers - 1
};

struct PsOptions {
  std::vector<PsJobOptions> jobs;  // 1..kMaxJobs
  std::uint16_t elements = 352;    // wish: the most elements a packet of this path carries, 16..2224, x 16
  std::uint64_t instance = 0;      // random per process: tells a restarted server from a repeated JOIN
  std::uint64_t seed = 0;          // of all nonces; the same seed and input give the same output
  std::size_t memory = std::size_t{64} << 20;  // bytes for partial and kept sums of all jobs together
};

}  // namespace tally

#pragma once
// What a worker of the demo tells its parent through a pipe. Both are the same program, so the bytes of the
// struct are the format; a write of one is atomic (PIPE_BUF).

#include <cstdint>
#include <type_traits>

namespace tally {

struct DemoRecord {
  enum class Kind : std::uint32_t { kJoined = 1, kTensor = 2, kFinished = 3 };
  Kind kind = Kind::kJoined;
  std::uint32_t iteration = 0;  // kTensor
  std::uint32_t tensor = 0;     // kTensor
  std::uint32_t crc = 0;        // kTensor: CRC32C of the result's bytes
  std::uint64_t wrong = 0;      // kTensor: elements outside the bound
  // kFinished: of the whole run
  std::uint64_t retransmissions = 0;
  std::uint64_t epochs = 0;  // entered; more than 1: the switch was restarted or a rank came anew
  double largest_error = 0;  // in parts of the bound
  double reducing_s = 0;     // wall clock from the first call of a batch to the end of its last operation
  double making_s = 0;       // CPU: making the values
  double checking_s = 0;     // CPU: checking the sums
};
static_assert(std::is_trivially_copyable_v<DemoRecord> && sizeof(DemoRecord) <= 512);

inline constexpr int kRecordsFd = 3;  // of the worker

}  // namespace tally

#pragma once
// The members as seen from the box's ports: endless contributions, and a check of every result that comes
// back. Members stream the same chunks, each a few chunks behind the one before, as in FrameRing.
//
// A frame's values stay in its buffer from one use to the next, so nothing but headers has to be written: the
// header that lies there tells the sums of the values behind it. A buffer that carried a result carries it as
// values from then on, so a wrong value would show as a wrong sum of the chunk it is contributed to.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "contributions.h"
#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "kernels/kernels.h"
#include "tally/wire.h"

namespace tally::bench {

// Of all chunks those that one of 2^bits data cores owns: index, index + 2^bits, ...
struct ChunkShard {
  std::uint32_t index = 0;
  std::uint32_t bits = 0;
};

class Traffic {
 public:
  static constexpr std::size_t kHeaders = MemberFrames::kHeaders;

  // ports: rank r sends to and receives from port r mod ports. lossy: results may get lost on their way back.
  // shard: of bits 1 and more, `ports` are queues that frames arrive by, and all results leave by queue 0.
  Traffic(const jobs::NativeJob& job, const jobs::Box& box, const kernels::Kernels& kernels,
          std::size_t ports, bool lossy = false, ChunkShard shard = {});

  // All rings together hold so many frames. Before any other call; not needed if they are well below
  // kUnderWay chunks.
  void hold(std::uint64_t frames);

  [[nodiscard]] std::uint32_t frame_bytes() const noexcept { return frame_bytes_; }

  // Small values into a buffer of frame_bytes(), if it has none or others: sums of sums grow.
  void paint(std::byte* frame, std::uint64_t seed) const noexcept;
  // The headers of the next contribution that arrives at `port` in `frame`, a painted buffer, to `out`, which
  // may be the frame itself.
  void next_headers(std::size_t port, const std::byte* frame, std::span<std::byte, kHeaders> out) noexcept;
  // A frame that left through `port`: Ethernet header and the rest of the encapsulation, then the datagram.
  void check(std::size_t port, const std::byte* encapsulation, const std::byte* datagram) noexcept;

  [[nodiscard]] std::uint64_t contributions() const noexcept { return contributions_; }
  [[nodiscard]] std::uint64_t chunks() const noexcept { return chunks_; }        // all contributions written
  [[nodiscard]] std::uint64_t delivered() const noexcept { return delivered_; }  // result at all receivers
  [[nodiscard]] std::uint64_t compared() const noexcept { return compared_; }    // results, value by value
  // What was wrong first; nullptr: nothing so far.
  [[nodiscard]] const char* wrong() const noexcept { return wrong_; }

 private:
  struct Sender {  // of one port
    std::vector<std::uint16_t> ranks{};
    std::size_t next = 0;
    std::uint32_t step = 0;
  };
  struct Expected {  // of one chunk; plain sums
    std::uint32_t chunk = 0;
    std::uint32_t sum1 = 0;
    std::uint32_t sum2 = 0;
    std::uint64_t contributed = 0;
    std::uint64_t delivered = 0;
  };
  // Chunks that may be anywhere between their first contribution and their last result: at least so many.
  static constexpr std::size_t kUnderWay = 8192;
  static constexpr std::uint32_t kSampleEvery = 128;

  [[nodiscard]] Expected& expected(std::uint32_t chunk) noexcept {
    return expected_[(chunk >> shard_.bits) & (expected_.size() - 1)];
  }
  [[nodiscard]] bool sampled(std::uint32_t chunk) const noexcept {
    return (chunk >> shard_.bits) % kSampleEvery == 0;
  }
  // Sums of the values of a sampled chunk.
  [[nodiscard]] std::span<std::uint32_t> sample(std::uint32_t chunk) noexcept {
    const std::size_t at = ((chunk >> shard_.bits) & (expected_.size() - 1)) / kSampleEvery;
    return std::span{samples_}.subspan(at * job_.elements, job_.elements);
  }
  void expect(std::uint32_t chunk, std::uint16_t rank, std::uint32_t sum1, std::uint32_t sum2,
              const std::byte* values) noexcept;
  void fail(const char* what) noexcept {
    if (wrong_ == nullptr) wrong_ = what;
  }

  jobs::NativeJob job_;
  const kernels::Kernels& kernels_;
  bool lossy_;
  ChunkShard shard_;
  std::uint32_t frame_bytes_;
  std::uint64_t receivers_;  // bitmap: ranks, or ports with multicast
  std::vector<Sender> senders_;
  std::vector<MemberFrames> frames_;  // by rank
  std::vector<Expected> expected_;    // a power of two
  std::vector<std::uint32_t> samples_;
  std::uint64_t contributions_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t compared_ = 0;
  const char* wrong_ = nullptr;
};

}  // namespace tally::bench

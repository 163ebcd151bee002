#pragma once
// Frames as they lie in a receive ring of several MiB, i.e. in the L3 cache, and the order in which they
// come, turn after turn of the ring without an end: packets of all jobs in turn, the members of each stream
// the same chunks, each some chunks behind the one before.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contributions.h"
#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "jobs/layout.h"
#include "kernels/kernels.h"
#include "pipeline/frame.h"

namespace tally::bench {

class FrameRing {
 public:
  // jobs: alike but for their ids and slots; ids 1, 2, ... in order. At least 4 MiB of frames.
  FrameRing(const std::vector<jobs::NativeJob>& jobs, const jobs::Box& box, const kernels::Kernels& kernels,
            std::uint32_t skew = kSkewChunks);

  // Writes fresh headers (98 bytes a frame, as the port's receive would) for the next turn. Payloads stay; a
  // frame that carried a result last time carries it as values now.
  void refill();

  [[nodiscard]] std::size_t size() const noexcept { return frames_; }
  // Turns until as many chunks are finished as begun.
  [[nodiscard]] std::size_t lead_in() const noexcept { return lead_in_; }
  // Of this turn.
  [[nodiscard]] std::size_t completed() const noexcept { return completed_; }
  [[nodiscard]] pipeline::Frame frame(std::size_t i, bool vouched) noexcept {
    return {.data = at(i),
            .length = frame_bytes_,
            .capacity = stride_,
            .port = PortIndex{0},
            .checksum_good = vouched};
  }
  [[nodiscard]] std::byte* values(std::size_t i) noexcept { return at(i) + kValuesOffset; }
  // Line of the entry that the i-th frame belongs to: for the raw kernel.
  [[nodiscard]] std::uint32_t entry(std::size_t i) const noexcept { return arrivals_[i].entry; }
  [[nodiscard]] bool completes(std::size_t i) const noexcept { return arrivals_[i].completes; }
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.size() * sizeof(jobs::Line); }

  static constexpr std::size_t kValuesOffset = MemberFrames::kHeaders;

 private:
  struct Arrival {
    std::uint32_t entry;
    bool completes;
  };
  std::byte* at(std::size_t i) noexcept { return reinterpret_cast<std::byte*>(memory_.data()) + i * stride_; }
  // Goes on to the next packet that there is.
  void advance() noexcept;

  const kernels::Kernels& kernels_;
  std::vector<jobs::NativeJob> jobs_;
  std::uint32_t skew_;
  std::uint32_t frame_bytes_;
  std::uint32_t stride_;
  std::size_t frames_;
  std::size_t lead_in_;
  std::size_t completed_ = 0;
  std::vector<jobs::Line> memory_;
  std::vector<MemberFrames> members_;  // job by job, rank by rank
  std::vector<Arrival> arrivals_;      // of this turn
  std::uint32_t step_ = 0;             // the next packet: of job_ and rank_, chunk step_ - skew x rank_
  std::uint16_t rank_ = 0;
  std::size_t job_ = 0;
};

}  // namespace tally::bench

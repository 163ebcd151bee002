#pragma once
// Frames as they lie in a receive ring of several MiB, i.e. in the L3 cache, and the order in which they
// come: members stream the same chunks, each a few chunks behind the one before.

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
  // chunks x world frames of job.elements elements; at least 4 MiB of them.
  FrameRing(const jobs::NativeJob& job, const jobs::Box& box, const kernels::Kernels& kernels);

  // Writes fresh headers (98 bytes a frame, as the port's receive would) for `chunks()` new chunks under the
  // job's present epoch. Payloads stay; a frame that carried a result last time carries it as values now.
  void refill(const jobs::NativeJob& job);

  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
  [[nodiscard]] std::size_t chunks() const noexcept { return chunks_; }
  [[nodiscard]] pipeline::Frame frame(std::size_t i, bool vouched) noexcept {
    return {.data = at(order_[i]),
            .length = frame_bytes_,
            .capacity = stride_,
            .port = PortIndex{0},
            .checksum_good = vouched};
  }
  [[nodiscard]] std::byte* values(std::size_t i) noexcept { return at(order_[i]) + kValuesOffset; }
  // Entry the i-th frame belongs to: for the raw kernel.
  [[nodiscard]] std::uint32_t entry(std::size_t i) const noexcept { return entries_[i]; }
  [[nodiscard]] bool completes(std::size_t i) const noexcept { return completes_[i] != 0; }
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.size() * sizeof(jobs::Line); }

  static constexpr std::size_t kValuesOffset = MemberFrames::kHeaders;

 private:
  struct Source {
    std::uint32_t chunk;
    std::uint16_t rank;
  };
  std::byte* at(std::size_t i) noexcept { return reinterpret_cast<std::byte*>(memory_.data()) + i * stride_; }

  const kernels::Kernels& kernels_;
  jobs::Box box_;
  std::size_t chunks_;
  std::uint32_t frame_bytes_;
  std::uint32_t stride_;
  std::vector<jobs::Line> memory_;
  std::vector<std::size_t> order_;       // arrival -> frame
  std::vector<Source> sources_;          // frame -> chunk, rank
  std::vector<std::uint32_t> entries_;   // arrival -> line of its entry
  std::vector<std::uint8_t> completes_;  // arrival -> last of its chunk
};

}  // namespace tally::bench

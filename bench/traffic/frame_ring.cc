#include "frame_ring.h"

#include <algorithm>
#include <cstring>

#include "pipeline/pool.h"
#include "tally/mix64.h"
#include "tally/wire.h"

namespace tally::bench {
namespace {

constexpr std::size_t kRingBytes = std::size_t{4} << 20;

}  // namespace

FrameRing::FrameRing(const jobs::NativeJob& job, const jobs::Box& box, const kernels::Kernels& kernels)
    : kernels_(kernels),
      box_(box),
      frame_bytes_(static_cast<std::uint32_t>(kValuesOffset + 4 * job.elements)),
      stride_((frame_bytes_ + 63) / 64 * 64) {
  const std::size_t frames = kRingBytes / stride_ + 1;
  const std::size_t versions =
      2 * job.window;  // whole turns of the pool, so that a refill meets the same entries
  chunks_ = (frames / job.world + versions) / versions * versions;
  memory_.resize(chunks_ * job.world * stride_ / sizeof(jobs::Line));
  for (std::uint32_t step = 0; step < chunks_ + kSkewChunks * (job.world - 1U); ++step) {
    for (std::uint16_t rank = 0; rank < job.world; ++rank) {
      const std::int64_t chunk = std::int64_t{step} - std::int64_t{kSkewChunks} * rank;
      if (chunk < 0 || chunk >= static_cast<std::int64_t>(chunks_)) continue;
      order_.push_back(sources_.size());
      sources_.push_back({static_cast<std::uint32_t>(chunk), rank});
      entries_.push_back(pipeline::Pool::line_of(Chunk{static_cast<std::uint32_t>(chunk)}, job));
      completes_.push_back(rank + 1 == job.world ? 1 : 0);
    }
  }
  std::uint64_t random = 1;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    std::byte* const values = at(i) + kValuesOffset;
    write_values(values, job.elements,
                 [&random](std::size_t) { return static_cast<std::int32_t>(mix64(random++) & 0xFFF); });
    write_sums(values - kHeaderBytes, kernels_.sums(values, job.elements));  // for the first refill
  }
}

void FrameRing::refill(const jobs::NativeJob& job) {
  std::vector<MemberFrames> members;
  for (std::uint16_t rank = 0; rank < job.world; ++rank) members.emplace_back(job, rank, box_);
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const auto [chunk, rank] = sources_[i];
    Header old;
    std::memcpy(&old, at(i) + kValuesOffset - kHeaderBytes, sizeof old);
    members[rank].write(std::span<std::byte, kValuesOffset>(at(i), kValuesOffset), Chunk{chunk},
                        plain_sums(job, old), kernels_);
  }
}

}  // namespace tally::bench

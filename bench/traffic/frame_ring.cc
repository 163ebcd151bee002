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

FrameRing::FrameRing(const std::vector<jobs::NativeJob>& jobs, const jobs::Box& box,
                     const kernels::Kernels& kernels, std::uint32_t skew)
    : kernels_(kernels),
      jobs_(jobs),
      skew_(skew),
      frame_bytes_(static_cast<std::uint32_t>(kValuesOffset + 4 * jobs.front().elements)),
      stride_((frame_bytes_ + 63) / 64 * 64) {
  const std::size_t whole = jobs_.size() * jobs_.front().world;  // every member once
  frames_ = (kRingBytes / stride_ + whole) / whole * whole;
  lead_in_ = skew_ * (jobs_.front().world - 1U) * whole / frames_ + 1;
  memory_.resize(frames_ * stride_ / sizeof(jobs::Line));
  arrivals_.resize(frames_);
  for (const jobs::NativeJob& job : jobs_)
    for (std::uint16_t rank = 0; rank < job.world; ++rank) members_.emplace_back(job, rank, box);
  std::uint64_t random = 1;
  for (std::size_t i = 0; i < frames_; ++i) {
    std::byte* const values = at(i) + kValuesOffset;
    const std::uint16_t elements = jobs_.front().elements;
    write_values(values, elements,
                 [&random](std::size_t) { return static_cast<std::int32_t>(mix64(random++) & 0xFFF); });
    write_sums(values - kHeaderBytes, kernels_.sums(values, elements));  // for the first refill
  }
}

void FrameRing::advance() noexcept {
  const std::uint16_t world = jobs_.front().world;
  do {
    if (++job_ < jobs_.size()) continue;
    job_ = 0;
    if (++rank_ < world) continue;
    rank_ = 0;
    ++step_;
  } while (step_ < skew_ * rank_);  // at the start the last members still wait
}

void FrameRing::refill() {
  completed_ = 0;
  for (std::size_t i = 0; i < frames_; ++i) {
    Header old;
    std::memcpy(&old, at(i) + kValuesOffset - kHeaderBytes, sizeof old);
    const jobs::NativeJob& was = jobs_[old.type == PacketType::kProbe ? 0 : old.job.host() - 1U];
    const jobs::NativeJob& job = jobs_[job_];
    const Chunk chunk{step_ - skew_ * rank_};
    members_[job_ * job.world + rank_].write(std::span<std::byte, kValuesOffset>(at(i), kValuesOffset), chunk,
                                             plain_sums(was, old), kernels_);
    arrivals_[i] = {pipeline::Pool::line_of(chunk, job), rank_ + 1 == job.world};
    completed_ += arrivals_[i].completes ? 1 : 0;
    advance();
  }
}

}  // namespace tally::bench

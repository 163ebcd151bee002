#pragma once
// What the loop is measured against: the add kernel alone (raw add) and the pipeline without I/O, over a
// FrameRing of their own each: a result replaces the values of the frame that completed, and raw add's sums
// must not leak into the headers of others.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "frame_ring.h"
#include "harness.h"
#include "pipeline/burst.h"
#include "pipeline/pipeline.h"

namespace tally::bench {

// Reads every payload once, untimed: what ran before on this core (other contenders, with rings of their own)
// has pushed them out to DRAM, and a refill touches headers only.
inline void bring_near(FrameRing& ring, std::size_t elements) {
  constexpr std::size_t kLine = 64;
  auto all = std::byte{0};
  for (std::size_t i = 0; i < ring.size(); ++i)
    for (std::size_t at = 0; at < 4 * elements; at += kLine) all |= ring.values(i)[at];
  asm volatile("" : : "r"(all));
}

// (N-1) adds and one add-and-emit for each chunk, nothing else.
class RawAdd {
 public:
  RawAdd(const jobs::NativeJob& job, const jobs::Box& box, const kernels::Kernels& kernels)
      : job_(job), kernels_(kernels), ring_(job, box, kernels), entries_(job.slots.count) {}

  [[nodiscard]] std::size_t ring_bytes() const noexcept { return ring_.bytes(); }

  Round round() {
    return round([] {});
  }
  // ready() is called before what is timed.
  template <class Ready>
  Round round(const Ready& ready) {
    ring_.refill(job_);
    bring_near(ring_, job_.elements);
    ready();
    const RoundTimer timer;
    bool overflow = false;
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      auto* const entry = reinterpret_cast<std::int32_t*>(&entries_[ring_.entry(i) + 1]);
      if (ring_.completes(i)) {
        overflow |= kernels_.add_emit(entry, ring_.values(i), job_.elements).overflow;
      } else {
        overflow |= kernels_.add(entry, ring_.values(i), job_.elements);
      }
    }
    const Round result = timer.done(ring_.size());
    asm volatile("" : : "r"(overflow));
    return result;
  }

 private:
  jobs::NativeJob job_;
  const kernels::Kernels& kernels_;
  FrameRing ring_;
  std::vector<jobs::Line> entries_;
};

// A pipeline and its job; each turn of the ring runs in an epoch of its own, so that every chunk is new.
template <class Exec>
class PipelineAlone {
 public:
  // vouched: the port's checksum verdict; else software verification.
  PipelineAlone(const jobs::NativeJob& job, const jobs::Box& box, const kernels::Kernels& kernels,
                bool vouched)
      : job_(job),
        ring_(job, box, kernels),
        memory_(job.slots.count),
        vouched_(vouched),
        pipeline_({.core = 0, .box = box}, memory_, kernels) {
    for (std::size_t i = 0; i < ring_.size(); ++i) completed_ += ring_.completes(i) ? 1 : 0;
  }

  Round round() {
    job_.epoch = Epoch{++epoch_};
    table_ = jobs::JobTable().with(job_.id, std::make_shared<jobs::NativeJob>(job_));
    pipeline_.adopt(table_.get());
    ring_.refill(job_);
    bring_near(ring_, job_.elements);
    const auto before = pipeline_.counters(job_.id);
    const RoundTimer timer;
    for (std::size_t i = 0; i < ring_.size(); i += pipeline::kBurst)
      burst(i, std::min(pipeline::kBurst, ring_.size() - i));
    const Round result = timer.done(ring_.size());
    const auto& after = pipeline_.counters(job_.id);
    require(after.of(Verdict::kComplete) - before.of(Verdict::kComplete) == completed_,
            "not every chunk completed with right sums");
    require(after.packets() - before.packets() == ring_.size(), "packets were lost");
    require(after.of(Verdict::kAbsorb) - before.of(Verdict::kAbsorb) == ring_.size() - completed_,
            "contributions were not absorbed");
    return result;
  }

 private:
  void burst(std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) frames_[i] = ring_.frame(first + i, vouched_);
    pipeline::run_burst(
        pipeline_, parsed_, std::span{frames_}.first(count), 1, [](std::size_t, std::size_t) {},
        [](std::size_t, const pipeline::Outcome&) {});
  }

  jobs::NativeJob job_;
  FrameRing ring_;
  std::vector<jobs::Line> memory_;
  bool vouched_;
  pipeline::Pipeline<Exec> pipeline_;
  std::shared_ptr<const jobs::JobTable> table_;
  std::uint64_t completed_ = 0;
  std::uint32_t epoch_ = 0;
  std::array<pipeline::Frame, pipeline::kBurst> frames_;
  pipeline::ParsedBurst parsed_;
};

}  // namespace tally::bench

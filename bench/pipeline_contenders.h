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

// Lines of slot memory that jobs which lie one behind the other take.
[[nodiscard]] inline std::uint32_t lines_of(const std::vector<jobs::NativeJob>& jobs) {
  return jobs.back().slots.first + jobs.back().slots.count;
}

// (N-1) adds and one add-and-emit for each chunk, nothing else.
class RawAdd {
 public:
  RawAdd(const std::vector<jobs::NativeJob>& jobs, const jobs::Box& box, const kernels::Kernels& kernels,
         std::uint32_t skew = kSkewChunks)
      : elements_(jobs.front().elements),
        kernels_(kernels),
        ring_(jobs, box, kernels, skew),
        entries_(lines_of(jobs)) {
    for (std::size_t i = 0; i < ring_.lead_in(); ++i) (void)round();
  }
  RawAdd(const jobs::NativeJob& job, const jobs::Box& box, const kernels::Kernels& kernels)
      : RawAdd(std::vector{job}, box, kernels) {}

  [[nodiscard]] std::size_t ring_bytes() const noexcept { return ring_.bytes(); }

  Round round() {
    return round([] {});
  }
  // ready() is called before what is timed.
  template <class Ready>
  Round round(const Ready& ready) {
    ring_.refill();
    bring_near(ring_, elements_);
    ready();
    const RoundTimer timer;
    bool overflow = false;
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      auto* const entry = reinterpret_cast<std::int32_t*>(&entries_[ring_.entry(i) + 1]);
      if (ring_.completes(i)) {
        overflow |= kernels_.add_emit(entry, ring_.values(i), elements_).overflow;
      } else {
        overflow |= kernels_.add(entry, ring_.values(i), elements_);
      }
    }
    const Round result = timer.done(ring_.size());
    asm volatile("" : : "r"(overflow));
    return result;
  }

 private:
  std::uint16_t elements_;
  const kernels::Kernels& kernels_;
  FrameRing ring_;
  std::vector<jobs::Line> entries_;
};

// A pipeline and its jobs.
template <class Exec>
class PipelineAlone {
 public:
  // vouched: the port's checksum verdict; else software verification.
  PipelineAlone(const std::vector<jobs::NativeJob>& jobs, const jobs::Box& box,
                const kernels::Kernels& kernels, bool vouched, std::uint32_t skew = kSkewChunks)
      : jobs_(jobs.size()),
        elements_(jobs.front().elements),
        ring_(jobs, box, kernels, skew),
        memory_(lines_of(jobs)),
        vouched_(vouched),
        pipeline_({.core = 0, .box = box}, memory_, kernels) {
    jobs::ChangedRows rows;
    for (const jobs::NativeJob& job : jobs) rows[job.id] = std::make_shared<const jobs::NativeJob>(job);
    table_ = jobs::JobTable().with(rows);
    pipeline_.adopt(table_.get());
    for (std::size_t i = 0; i < ring_.lead_in(); ++i) (void)round();
  }
  PipelineAlone(const jobs::NativeJob& job, const jobs::Box& box, const kernels::Kernels& kernels,
                bool vouched)
      : PipelineAlone(std::vector{job}, box, kernels, vouched) {}

  Round round() {
    ring_.refill();
    bring_near(ring_, elements_);
    const Counted before = counted();
    const RoundTimer timer;
    for (std::size_t i = 0; i < ring_.size(); i += pipeline::kBurst)
      burst(i, std::min(pipeline::kBurst, ring_.size() - i));
    const Round result = timer.done(ring_.size());
    const Counted after = counted();
    require(after.completed - before.completed == ring_.completed(),
            "not every chunk completed with right sums");
    require(after.packets - before.packets == ring_.size(), "packets were lost");
    require(after.absorbed - before.absorbed == ring_.size() - ring_.completed(),
            "contributions were not absorbed");
    return result;
  }

 private:
  struct Counted {  // of all jobs
    std::uint64_t packets = 0;
    std::uint64_t absorbed = 0;
    std::uint64_t completed = 0;
  };
  [[nodiscard]] Counted counted() const {
    Counted all;
    for (std::size_t i = 0; i < jobs_; ++i) {
      const JobCounters& of_job = pipeline_.counters(JobId{static_cast<std::uint16_t>(i + 1)});
      all.packets += of_job.packets();
      all.absorbed += of_job.of(Verdict::kAbsorb);
      all.completed += of_job.of(Verdict::kComplete);
    }
    return all;
  }

  void burst(std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) frames_[i] = ring_.frame(first + i, vouched_);
    pipeline::run_burst(
        pipeline_, parsed_, std::span{frames_}.first(count), 1, [](std::size_t, std::size_t) {},
        [](std::size_t, const pipeline::Outcome&) {});
  }

  std::size_t jobs_;
  std::uint16_t elements_;
  FrameRing ring_;
  std::vector<jobs::Line> memory_;
  bool vouched_;
  pipeline::Pipeline<Exec> pipeline_;
  std::shared_ptr<const jobs::JobTable> table_;
  std::array<pipeline::Frame, pipeline::kBurst> frames_;
  pipeline::ParsedBurst parsed_;
};

}  // namespace tally::bench

#pragma once
// Two jobs of one class, entries and frames in the L2 cache (frames from L3 cost no more, in order as here:
// they are fetched ahead): the packets that the disciplines with shared slots have and the pool has not, one
// kind at a time, beside the pool's. Through the production pipeline; every chunk is finished, and its sum
// checked, before the next batch.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "contributions.h"
#include "frame_ring.h"
#include "harness.h"
#include "kernels/kernels.h"
#include "pipeline/burst.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"

namespace tally::bench {

class SharedPackets {
 public:
  static constexpr std::uint32_t kChunks = 128;  // of each job in flight; as many shared entries
  static constexpr std::uint16_t kElements = 256;
  static constexpr std::uint16_t kWorld = 8;

  enum class Timed : std::uint8_t {
    kFirst,  // first arrivals; shared: each claims a free entry
    kAdd,    // those between the first and the last
    kSwap,   // first arrivals that each swap a filling entry out, of an epoch that is over: it goes nowhere
    kSwapAndMerge,  // as kSwap, and what leaves is taken by the embedded server
    kAddKernel,     // nothing but the kernel, over the same entries and frames
    kSwapKernel,
  };

  SharedPackets(Discipline discipline, const kernels::Kernels& kernels);

  // Some batches. Ends the process if a verdict or a sum is wrong.
  Round round(Timed timed);

 private:
  struct Sender {
    jobs::NativeJob job{};
    std::vector<std::byte*> frames{};  // rank by rank
  };
  // Starts a new epoch of both jobs with fresh headers for their values.
  void begin();
  void next_epoch(Sender& sender);
  void publish();
  void write_headers(const Sender& sender);
  // Brings entries, ledgers, states and the frames of one rank into L2, and every other frame out of it.
  void warm(const Sender& sender, std::uint16_t rank) const;

  void send(const Sender& sender, std::uint16_t rank, Verdict verdict);
  void send_timed(const Sender& sender, std::uint16_t rank, Verdict verdict);
  // The contributions of rank `from` and those behind it.
  void finish(const Sender& sender, std::uint16_t from);
  void finish_at_server(const Sender& sender, std::uint16_t from);

  void add();
  void swap(bool merge);
  void kernel(bool swaps);

  [[nodiscard]] std::byte* frame(const Sender& sender, std::uint16_t rank, std::uint32_t chunk) const {
    return sender.frames[rank * kChunks + chunk];
  }
  [[nodiscard]] kernels::Sums sums(const std::byte* frame) const {
    return kernels_.sums(frame + FrameRing::kValuesOffset, kElements);
  }

  const kernels::Kernels& kernels_;
  std::vector<jobs::Line> frames_;
  std::vector<jobs::Line> memory_;
  std::vector<jobs::Line> states_;  // of the server
  jobs::LineRange entries_{};       // in memory_
  pipeline::Pipeline<pipeline::Fused> pipeline_;
  std::array<Sender, 2> senders_;
  std::shared_ptr<const jobs::JobTable> table_;
  std::uint32_t epoch_ = 0;
  std::uint32_t first_ = 0;  // chunk of the batch
  Round total_;
  std::array<pipeline::Frame, pipeline::kBurst> burst_;
  pipeline::ParsedBurst parsed_;
};

// What packets of a job with shared slots cost beside the pool's, and the goal of the swap path. Prints.
[[nodiscard]] nlohmann::json run_shared(const kernels::Kernels& kernels);

}  // namespace tally::bench

#pragma once
// The production data plane on one data core or two, each a pinned thread with a receive queue of its own on
// the in-memory port; or raw add on as many threads. Frames arrive at the core that owns their slot, or not.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "contributions.h"
#include "io/core_time.h"
#include "io/data_plane.h"
#include "memory_port.h"
#include "pipeline_contenders.h"
#include "round_timer.h"
#include "traffic.h"

namespace tally::bench {

// Runs work(core) on the lcores of `cores` data cores at once; the caller sleeps until all have returned.
void on_lcores(unsigned cores, const std::function<void(unsigned core)>& work);

// A meeting of so many threads that run and do not sleep.
class SpinBarrier {
 public:
  explicit SpinBarrier(unsigned threads) : threads_(threads) {}
  void meet() noexcept;

 private:
  unsigned threads_;
  std::atomic<unsigned> arrived_{0};
};

struct CoresOptions {
  std::uint8_t cores = 1;   // 1 or 2: of the data plane
  std::uint8_t active = 1;  // of these, which run and get frames; the others own slots that nobody asks for
  // How many of the frames arrive at the core that does not own their slot (two cores).
  enum class HandedOver : std::uint8_t { kNone, kHalf, kAll } handed_over = HandedOver::kNone;
  ResultsMode results = ResultsMode::kUnicast;
};

class CoresRig {
 public:
  static constexpr unsigned kMostCores = 2;

  // EAL has been started with at least so many data cores. name, directory: as LoopRig's.
  CoresRig(const CoresOptions& options, const std::string& name, const std::string& directory);
  CoresRig(const CoresRig&) = delete;
  CoresRig& operator=(const CoresRig&) = delete;
  ~CoresRig() = default;

  // One turn of the receive rings to warm up, then one measured. Seconds and operations (contributions) are
  // those of one core, on average. Ends the process if a result is wrong or missing.
  Round round();

 private:
  void open_port(const std::string& name, const std::string& directory);
  void prepare(unsigned core);
  Round turn_ring(unsigned core);
  void check() const;

  CoresOptions options_;
  jobs::Job job_;
  std::vector<std::unique_ptr<Traffic>> traffic_;  // of the chunks that each core owns
  std::uint32_t descriptors_;                      // of each queue
  dpdk::Pools pools_{};                            // until the data plane has them
  rte_mempool* frames_ = nullptr;
  std::uint16_t ethdev_ = 0;
  std::vector<io::BoxPort> ports_;
  std::unique_ptr<io::DataPlane> plane_;
  std::vector<std::unique_ptr<MemoryPort>> queues_;  // of each core
  struct alignas(64) Progress {
    std::atomic<std::uint64_t> received{0};
  };
  std::array<Progress, kMostCores> progress_{};
  std::uint64_t turns_ = 0;  // of the rings
};

// Raw add on so many lcores at once, over entries and frames of their own.
class RawAddOnCores {
 public:
  RawAddOnCores(unsigned cores, const jobs::Job& job);
  Round round();

 private:
  std::vector<std::unique_ptr<RawAdd>> adds_;
};

}  // namespace tally::bench

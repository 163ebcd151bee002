#pragma once
// Rounds of the worker benchmark over one piece of memory: the engine against a MirrorBox, and what it cannot
// do without, its kernels or two copies, in the same order over the same memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/worker_engine.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "tally/wire.h"

namespace tally::bench {

// The box of one worker, in the same thread: it lets the worker into a job of two, and turns a contribution
// into the RESULT at once, in its place. The other rank is taken to have sent -2x, so that every sum is -x: a
// value that was not written is seen, and nothing grows however often the same memory is summed.
class MirrorBox {
 public:
  struct Shape {
    std::uint16_t elements = 352;
    std::uint32_t window = 256;
    bool sparse = false;  // zeros may be left out
  };
  static constexpr std::uint16_t kWorld = 2;

  MirrorBox(const Shape& shape, const kernels::Kernels& kernels);

  // The JOINED(running) to a JOIN, the echo of a HEARTBEAT; nothing to anything else.
  [[nodiscard]] std::optional<std::vector<std::byte>> control(std::span<const std::byte> datagram) const;
  // A contribution becomes its RESULT, a run of zeros that of their sums. Ends the process if it is neither, or its
  // sums are wrong.
  void mirror(std::span<std::byte> datagram) noexcept;

 private:
  const engine::Membership epoch_;
  const kernels::Kernels& kernels_;
  std::uint32_t own_key_ = 0;
  std::uint32_t all_keys_ = 0;
  std::vector<std::int32_t> entry_;
};

struct RunShape {
  std::uint16_t elements = 352;
  bool small = false;                                   // values in L2: few, read and written again and again
  bool sparse = false;                                  // zeros are looked for
  bool zeros = false;                                   // all values are; otherwise none
  std::uint64_t small_round = std::uint64_t{64} << 20;  // bytes that a round over small memory sums
};

constexpr std::uint32_t kWorkerWindow = 256;
constexpr std::size_t kWorkerBurst = 32;  // as the progress thread of libtally

// Time of one half of the work. A burst that took longer than any work of ours does was interrupted: the
// kernel gave the CPU to somebody else. It is left out, with its chunks.
class Half {
 public:
  void add(double seconds, std::uint64_t chunks) noexcept {
    if (seconds > kInterrupted) return;
    seconds_ += seconds;
    chunks_ += chunks;
  }
  [[nodiscard]] double ns_per_chunk() const noexcept { return 1e9 * seconds_ / static_cast<double>(chunks_); }
  [[nodiscard]] std::uint64_t chunks() const noexcept { return chunks_; }

 private:
  static constexpr double kInterrupted = 400e-6;
  double seconds_ = 0;
  std::uint64_t chunks_ = 0;
};

struct Spent {
  Half sending;
  Half receiving;
  double bytes_per_chunk = 0;  // of values
};

// T: float or std::int32_t.
template <class T>
class WorkerRun {
 public:
  WorkerRun(const RunShape& shape, const kernels::Kernels& kernels);
  WorkerRun(const WorkerRun&) = delete;
  WorkerRun& operator=(const WorkerRun&) = delete;
  ~WorkerRun();

  // One operation over all the memory. Ends the process when a sum is wrong.
  [[nodiscard]] Spent engine();
  // max_abs_bits and quantise, or pack; sums and dequantise, or unpack: nothing else.
  [[nodiscard]] Spent kernels();
  // memcpy of the values to the packet, and back.
  [[nodiscard]] Spent copies();
  [[nodiscard]] std::uint64_t chunks() const noexcept { return chunks_; }  // of data in an operation

 private:
  class Frames;

  void join();
  template <class Send, class Receive>
  [[nodiscard]] Spent in_bursts(Send send, Receive receive);
  void exchange(Spent& spent);
  void check(bool negative) const;
  [[nodiscard]] T value(std::uint64_t i) const noexcept;
  [[nodiscard]] std::span<T> out_of(std::uint64_t chunk) noexcept;
  [[nodiscard]] std::span<const T> in_of(std::uint64_t chunk) const noexcept;

  const RunShape shape_;
  const kernels::Kernels& kernels_;
  const std::uint64_t chunks_;
  const std::uint64_t here_;  // chunks that lie in memory: fewer, if it is small
  std::vector<T> out_;
  std::vector<T> in_;  // empty: in place
  std::vector<std::span<const T>> ins_;
  std::vector<std::span<T>> outs_;
  bool negative_ = false;  // what out_ holds
  MirrorBox box_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  std::unique_ptr<Frames> frames_;
  TimeNs now_ = 0;
};

extern template class WorkerRun<float>;
extern template class WorkerRun<std::int32_t>;

}  // namespace tally::bench

#pragma once
// What the simulated programs reduce: operation k of a generation is a pure function of (seed, generation,
// k), its values also of the rank. So every member knows the same plan without talking, and the oracle can
// recompute every sum. The float sum is recomputed here from protocol.md's formulas alone.

#include <cstdint>
#include <vector>

#include "engine/engine_operation.h"
#include "tally/engine_statistics.h"
#include "tally/ids.h"
#include "tally/sparse.h"

namespace tally::sim {

enum class OperationKind : std::uint8_t { kInt32, kFloat32, kBarrier };

struct PlannedOperation {
  OperationKind kind{};
  std::vector<std::uint32_t> spans;  // elements of each span
  bool in_place = false;             // this rank's choice does not change the sum; same for all here
  bool extremes = false;  // int32: magnitudes up to 2^31, so OVERFLOW is set; float: wild exponents
  bool sparse = false;    // most packets of most ranks are zeros
  bool broken = false;    // float: a few values are no numbers, and every rank gets NaN for their packet, or
                          // for them alone where sums are exact
  WireType wire = WireType::kInt32;  // float
  std::uint32_t width = 0;  // its elements are rows of so many, of which each rank has some; 0: it is dense

  [[nodiscard]] std::uint32_t elements() const noexcept;
  [[nodiscard]] TableShape table() const noexcept { return {elements() / width, width}; }
  // Of float: each value is 12 words, in packets of `words`.
  [[nodiscard]] bool exact(std::uint32_t words) const noexcept;
  // What the engine is told of it.
  [[nodiscard]] engine::OperationOptions options() const noexcept;
};

class Workload {
 public:
  // largest: most elements of an operation. tables: all are rows.
  Workload(std::uint64_t seed, std::uint32_t operations, std::uint32_t largest, bool tables = false)
      : seed_(seed), operations_(operations), largest_(largest), tables_(tables) {}

  [[nodiscard]] std::uint32_t operations() const noexcept { return operations_; }
  [[nodiscard]] PlannedOperation operation(Generation generation, std::uint32_t k) const;
  [[nodiscard]] std::vector<std::int32_t> ints(Generation generation, std::uint32_t k, Rank rank) const;
  [[nodiscard]] std::vector<float> floats(Generation generation, std::uint32_t k, Rank rank) const;

  // The exact sums over ranks 0..world-1; floats in blocks of `elements` as the job's packets carry them, or
  // of twice as many as int16.
  [[nodiscard]] std::vector<std::int32_t> int_sum(Generation generation, std::uint32_t k,
                                                  std::uint32_t world) const;
  // The same, but of the elements of `partial` only the ranks that it names.
  [[nodiscard]] std::vector<std::int32_t> named_sum(Generation generation, std::uint32_t k,
                                                    std::uint32_t world,
                                                    const std::vector<PartialSum>& partial) const;
  [[nodiscard]] std::vector<float> float_sum(Generation generation, std::uint32_t k, std::uint32_t world,
                                             std::uint32_t elements) const;
  // OVERFLOW of the whole operation: did any rank send a magnitude above floor((2^31-1)/N)?
  [[nodiscard]] bool overflow(Generation generation, std::uint32_t k, std::uint32_t world) const;

 private:
  std::uint64_t seed_;
  std::uint32_t operations_;
  std::uint32_t largest_;
  bool tables_;
};

}  // namespace tally::sim

#pragma once
// The switch kernels for any vector width, one loop for all operations. `Isa` names the instructions; what it
// must offer is seen in avx2.cc and avx512.cc.
//
// Include it below the target pragma of such a file, and everything else above: the pragma decides for which
// CPU a function is compiled. Hence the unnamed namespace too: with external linkage the linker could merge
// a function compiled for AVX-512 into the rest of the program.

#include <cstddef>
#include <cstdint>

#include "kernels.h"

namespace tally {
namespace {

struct Whole {};  // all lanes of a vector, where Isa::Part names the first few

// sum1 and sum2 lane by lane. A running sum of the sums counts block j of K (K - j) times, which gives the
// weights of sum2 without a multiplication per element.
template <class Isa>
struct LaneSums {
  typename Isa::Int sum{};  // not by an Isa function: implicit constructors escape the target pragma
  typename Isa::Int running{};

  void take(typename Isa::Int block) noexcept {
    sum = Isa::add(sum, block);
    running = Isa::add(running, sum);
  }
  // Lane l of block j is element L*j + l, so its weight L*j + l + 1 = (L*K + l + 1) - L*(K - j).
  [[nodiscard]] Sums folded(std::uint32_t blocks) const noexcept {
    const auto weight = Isa::add(Isa::all(Isa::kLanes * blocks + 1), Isa::lane_numbers());
    const auto weighted = Isa::subtract(Isa::multiply(sum, weight), Isa::times_lanes(running));
    return Isa::both_totals(sum, weighted);
  }
};

enum class Op { kWrite, kAdd, kAddSums, kAddEmit, kSubtract, kRead, kSwap, kSums };

template <class Isa>
class SwitchKernels {
 public:
  static void write(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
    run<Op::kWrite>(entry, wire, n);
  }
  static bool add(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
    return run<Op::kAdd>(entry, wire, n).overflow;
  }
  static Added add_sums(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
    return run<Op::kAddSums>(entry, wire, n);
  }
  static Added add_emit(std::int32_t* entry, std::byte* wire, std::uint32_t n) noexcept {
    return run<Op::kAddEmit>(entry, wire, n);
  }
  static void subtract(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
    run<Op::kSubtract>(entry, wire, n);
  }
  static void read(const std::int32_t* entry, std::byte* wire, std::uint32_t n) noexcept {
    run<Op::kRead>(entry, wire, n);
  }
  static void swap(std::int32_t* entry, std::byte* wire, std::uint32_t n) noexcept {
    run<Op::kSwap>(entry, wire, n);
  }
  static Sums sums(const std::byte* wire, std::uint32_t n) noexcept {
    return run<Op::kSums>(static_cast<std::int32_t*>(nullptr), wire, n).sums;
  }

 private:
  using Int = typename Isa::Int;

  struct Sticky {
    LaneSums<Isa> sums;
    Int overflow{};  // sign bits
  };

  // Values and Bytes are const where the operation only reads them.
  template <Op op, class Values, class Bytes>
  static void block(Values* entry, Bytes* wire, Sticky& sticky) noexcept {
    Int in{};
    Int old{};
    if constexpr (op != Op::kRead) in = Isa::swapped(Isa::load(wire, Whole{}));
    if constexpr (op != Op::kWrite && op != Op::kSums) old = Isa::load(entry, Whole{});
    if constexpr (op == Op::kSums || op == Op::kAddSums) sticky.sums.take(in);
    if constexpr (op == Op::kRead || op == Op::kSwap) Isa::store(wire, Isa::swapped(old), Whole{});
    if constexpr (op == Op::kWrite || op == Op::kSwap) Isa::store(entry, in, Whole{});
    if constexpr (op == Op::kSubtract) Isa::store(entry, Isa::subtract(old, in), Whole{});
    if constexpr (op == Op::kAdd || op == Op::kAddSums || op == Op::kAddEmit) {
      const Int result = Isa::add(old, in);
      sticky.overflow = Isa::or_overflow(sticky.overflow, old, in, result);
      Isa::store(entry, result, Whole{});
      if constexpr (op == Op::kAddEmit) {
        sticky.sums.take(result);
        Isa::store(wire, Isa::swapped(result), Whole{});
      }
    }
  }

  template <Op op, class Values, class Bytes>
  static Added run(Values* entry, Bytes* wire, std::uint32_t n) noexcept {
    Sticky sticky;
    const std::size_t elements = n;
    // Twice: add of 256 elements 9.7 ns instead of 12.2, add_sums 13.5 instead of 16.6 (g++ 12, AVX-512);
    // four times gains nothing more.
#pragma GCC unroll 2
    for (std::size_t i = 0; i < elements; i += Isa::kLanes)
      block<op>(op == Op::kSums ? entry : entry + i, wire + i * sizeof(std::int32_t), sticky);
    return {sticky.sums.folded(n / Isa::kLanes), Isa::any_sign(sticky.overflow)};
  }
};

}  // namespace
}  // namespace tally

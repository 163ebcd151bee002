#pragma once
// The table of one instruction set. Include below the target pragma.

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace tally::kernels {

// The switch kernels for any vector width, one loop for all operations. `Isa` names the instructions; what it
// must offer is seen in avx2.cc and avx512.cc.
//
// Include it below the target pragma of such a file, and everything else above: the pragma decides for which
// CPU a function is compiled. Hence the unnamed namespace too: with external linkage the linker could merge
// a function compiled for AVX-512 into the rest of the program.

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

// Of two values in a word, the first in its upper half: pairs have the weights of words. The first value of
// pair k has the weight 2k + 1, the second 2k + 2, so sum2 is twice the pairs' without the first values once.
template <class Isa>
struct HalfSums {
  LaneSums<Isa> pairs;
  typename Isa::Int first{};

  void take(typename Isa::Int block) noexcept {
    pairs.take(Isa::pair_sums(block));
    first = Isa::add(first, Isa::upper_halves(block));
  }
  [[nodiscard]] Sums folded(std::uint32_t blocks) const noexcept {
    const Sums of_pairs = pairs.folded(blocks);
    return {of_pairs.sum1, 2 * of_pairs.sum2 - Isa::both_totals(first, first).sum1};
  }
};

// What a word holds, for the loop over words.
template <class Isa>
struct AsWords {
  using Int = typename Isa::Int;
  using Sums = LaneSums<Isa>;
  static Int add(Int a, Int b) noexcept { return Isa::add(a, b); }
  static Int subtract(Int a, Int b) noexcept { return Isa::subtract(a, b); }
  static Int or_overflow(Int sticky, Int a, Int b, Int sum) noexcept {
    return Isa::or_overflow(sticky, a, b, sum);
  }
  static bool any_sign(Int v) noexcept { return Isa::any_sign(v); }
};
template <class Isa>
struct AsHalves {
  using Int = typename Isa::Int;
  using Sums = HalfSums<Isa>;
  static Int add(Int a, Int b) noexcept { return Isa::add_halves(a, b); }
  static Int subtract(Int a, Int b) noexcept { return Isa::subtract_halves(a, b); }
  static Int or_overflow(Int sticky, Int a, Int b, Int sum) noexcept {
    return Isa::or_overflow_of_halves(sticky, a, b, sum);
  }
  static bool any_sign(Int v) noexcept { return Isa::any_half_sign(v); }
};

enum class Op { kWrite, kAdd, kAddSums, kAddEmit, kSubtract, kRead, kSwap, kSums };

// n of every function: words.
template <class Isa, class As = AsWords<Isa>>
class SwitchKernels {
 public:
  // Fetch: Ahead, or nothing.
  template <class... Fetch>
  static void write(std::int32_t* entry, const std::byte* wire, std::uint32_t n, Fetch... ahead) noexcept {
    run<Op::kWrite>(entry, wire, n, ahead...);
  }
  template <class... Fetch>
  static bool add(std::int32_t* entry, const std::byte* wire, std::uint32_t n, Fetch... ahead) noexcept {
    return run<Op::kAdd>(entry, wire, n, ahead...).overflow;
  }
  template <class... Fetch>
  static Added add_sums(std::int32_t* entry, const std::byte* wire, std::uint32_t n,
                        Fetch... ahead) noexcept {
    return run<Op::kAddSums>(entry, wire, n, ahead...);
  }
  template <class... Fetch>
  static Added add_emit(std::int32_t* entry, std::byte* wire, std::uint32_t n, Fetch... ahead) noexcept {
    return run<Op::kAddEmit>(entry, wire, n, ahead...);
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

  static consteval RowsKernels rows() {
    return {
        .write = [](std::int32_t* entry, const SomeRows& in) noexcept { run_rows<Op::kWrite>(entry, in); },
        .add = [](std::int32_t* entry,
                  const SomeRows& in) noexcept { return run_rows<Op::kAdd>(entry, in).overflow != 0; },
        .add_sums = run_rows<Op::kAddSums>,
        .subtract = [](std::int32_t* entry,
                       const SomeRows& in) noexcept { run_rows<Op::kSubtract>(entry, in); },
        .sums = [](const SomeRows& in) noexcept { return run_rows<Op::kSums>(nullptr, in).sums; }};
  }

 private:
  using Int = typename Isa::Int;

  struct Sticky {
    typename As::Sums sums;
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
    if constexpr (op == Op::kSubtract) Isa::store(entry, As::subtract(old, in), Whole{});
    if constexpr (op == Op::kAdd || op == Op::kAddSums || op == Op::kAddEmit) {
      const Int result = As::add(old, in);
      sticky.overflow = As::or_overflow(sticky.overflow, old, in, result);
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
    return {sticky.sums.folded(n / Isa::kLanes), As::any_sign(sticky.overflow)};
  }
  template <Op op, class Bytes>
  static Added run(std::int32_t* entry, Bytes* wire, std::uint32_t n, Ahead ahead) noexcept {
    constexpr std::size_t kLine = 16;  // elements of 64 bytes
    Sticky sticky;
    const std::size_t elements = n;
    for (std::size_t line = 0; line < elements; line += kLine) {
      __builtin_prefetch(ahead.values + line * sizeof(std::int32_t));
      __builtin_prefetch(ahead.entry + line, 1);
      for (std::size_t i = line; i < line + kLine; i += Isa::kLanes)
        block<op>(entry + i, wire + i * sizeof(std::int32_t), sticky);
    }
    return {sticky.sums.folded(n / Isa::kLanes), As::any_sign(sticky.overflow)};
  }

  // A row that is not there is one of zeros: nothing to an addition, but it moves the weights of those behind it.
  template <Op op>
  static Added run_rows(std::int32_t* entry, const SomeRows& rows) noexcept {
    constexpr std::size_t kRow = 16;  // words
    constexpr std::uint32_t kWord = 64;
    Sticky sticky;
    const std::byte* wire = rows.wire;
    for (std::uint32_t row = 0; row < rows.count; ++row) {
      const bool there = (rows.present[row / kWord] >> row % kWord & 1) != 0;
      std::int32_t* const at = op == Op::kSums ? entry : entry + row * kRow;
      for (std::size_t i = 0; i < kRow; i += Isa::kLanes) {
        if (there) {
          block<op>(op == Op::kSums ? at : at + i, wire + i * sizeof(std::int32_t), sticky);
        } else {
          if constexpr (op == Op::kWrite) Isa::store(at + i, Int{}, Whole{});
          if constexpr (op == Op::kSums || op == Op::kAddSums) sticky.sums.take(Int{});
        }
      }
      if (there) wire += kRow * sizeof(std::int32_t);
    }
    return {sticky.sums.folded(rows.count * static_cast<std::uint32_t>(kRow) / Isa::kLanes),
            As::any_sign(sticky.overflow)};
  }
};

}  // namespace

// The worker kernels for any vector width; `Isa` is that of above. Any n:
// the last few elements are a vector whose other lanes are neither read nor written and count as zeros.

namespace {

template <class Isa>
class WorkerKernels {
 public:
  static std::uint32_t max_abs_bits(const float* in, std::size_t n) noexcept {
    Int max{};
    std::size_t i = 0;
#pragma GCC unroll 2
    for (; i + Isa::kLanes <= n; i += Isa::kLanes) max = Isa::max_abs_bits(max, Isa::load(in + i, Whole{}));
    if (i < n) max = Isa::max_abs_bits(max, Isa::load(in + i, Isa::first(n - i)));
    return Isa::largest(max);
  }

  static Packed quantise(const float* in, std::byte* wire, std::uint32_t n, float scale,
                         std::int32_t limit) noexcept {
    return packed(Quantised{Isa::all(scale), Isa::all(limit)}, in, wire, n);
  }
  static Packed pack(const std::int32_t* in, std::byte* wire, std::uint32_t n) noexcept {
    return packed(AsIs{}, in, wire, n);
  }
  static void dequantise(const std::byte* wire, float* out, std::uint32_t n, float scale) noexcept {
    unpacked(Dequantised{Isa::all(scale)}, wire, out, n);
  }
  static void unpack(const std::byte* wire, std::int32_t* out, std::uint32_t n) noexcept {
    unpacked(AsIs{}, wire, out, n);
  }
  static Sums copy_sums(const std::byte* wire, std::byte* to, std::uint32_t n) noexcept {
    LaneSums<Isa> sums;
    const std::uint32_t rest = n % Isa::kLanes;
    const std::size_t whole = n - rest;
#pragma GCC unroll 2
    for (std::size_t i = 0; i < whole; i += Isa::kLanes)
      copy_block(wire + i * kBytes, to + i * kBytes, Whole{}, sums);
    if (rest != 0) copy_block(wire + whole * kBytes, to + whole * kBytes, Isa::first(rest), sums);
    return sums.folded(n / Isa::kLanes + (rest != 0 ? 1 : 0));
  }

 private:
  using Int = typename Isa::Int;
  static constexpr std::size_t kBytes = sizeof(std::int32_t);

  // How a vector of the span becomes integers, and these what is sent; or how they become the span's again.
  struct AsIs {
    static Int integers(Int bits) noexcept { return bits; }
    static Int sent(Int value) noexcept { return value; }
    static Int received(Int value) noexcept { return value; }
  };
  struct Quantised {
    typename Isa::Float scale;
    Int limit;
    Int integers(Int bits) const noexcept { return Isa::scaled_and_rounded(bits, scale); }
    Int sent(Int value) const noexcept { return Isa::clipped(value, limit); }
  };
  struct Dequantised {
    typename Isa::Float scale;
    Int received(Int value) const noexcept { return Isa::as_scaled_float(value, scale); }
  };

  struct Totals {
    LaneSums<Isa> sums;
    Int magnitude{};
  };

  template <class Form, class Part>
  static void pack_block(const Form& form, const void* in, std::byte* wire, Part part,
                         Totals& totals) noexcept {
    const Int value = form.integers(Isa::load(in, part));
    const Int sent = form.sent(value);
    totals.magnitude = Isa::max_magnitude(totals.magnitude, value);
    totals.sums.take(sent);
    Isa::store(wire, Isa::swapped(sent), part);
  }

  template <class Form, class Value>
  static Packed packed(const Form& form, const Value* in, std::byte* wire, std::uint32_t n) noexcept {
    Totals totals;
    const std::uint32_t rest = n % Isa::kLanes;
    const std::size_t whole = n - rest;
#pragma GCC unroll 2
    for (std::size_t i = 0; i < whole; i += Isa::kLanes)
      pack_block(form, in + i, wire + i * sizeof(Value), Whole{}, totals);
    if (rest != 0) pack_block(form, in + whole, wire + whole * sizeof(Value), Isa::first(rest), totals);
    const std::uint32_t blocks = n / Isa::kLanes + (rest != 0 ? 1 : 0);
    return {totals.sums.folded(blocks), Isa::largest(totals.magnitude)};
  }

  template <class Part>
  static void copy_block(const std::byte* wire, std::byte* to, Part part, LaneSums<Isa>& sums) noexcept {
    const Int bits = Isa::load(wire, part);
    Isa::store(to, bits, part);
    sums.take(Isa::swapped(bits));
  }

  template <class Form, class Part>
  static void unpack_block(const Form& form, const std::byte* wire, void* out, Part part) noexcept {
    Isa::store(out, form.received(Isa::swapped(Isa::load(wire, part))), part);
  }

  template <class Form, class Value>
  static void unpacked(const Form& form, const std::byte* wire, Value* out, std::uint32_t n) noexcept {
    const std::uint32_t rest = n % Isa::kLanes;
    const std::size_t whole = n - rest;
#pragma GCC unroll 2
    for (std::size_t i = 0; i < whole; i += Isa::kLanes)
      unpack_block(form, wire + i * sizeof(Value), out + i, Whole{});
    if (rest != 0) unpack_block(form, wire + whole * sizeof(Value), out + whole, Isa::first(rest));
  }
};

}  // namespace

namespace {

// Two values in a word. The loops over words are the same; those of the worker are over floats.
template <class Isa>
class HalvesOf {
  using Switch = SwitchKernels<Isa, AsHalves<Isa>>;
  using Int = typename Isa::Int;
  static constexpr std::size_t kBytes = sizeof(std::int16_t);
  using Tail = std::byte[Isa::kLanes * kBytes];  // NOLINT(modernize-avoid-c-arrays): no code of its own

 public:
  static bool add(std::int32_t* entry, const std::byte* wire, std::uint32_t n, Ahead ahead) noexcept {
    return Switch::add(entry, wire, n / 2, ahead);
  }
  static Added add_sums(std::int32_t* entry, const std::byte* wire, std::uint32_t n, Ahead ahead) noexcept {
    return Switch::add_sums(entry, wire, n / 2, ahead);
  }
  static Added add_emit(std::int32_t* entry, std::byte* wire, std::uint32_t n, Ahead ahead) noexcept {
    return Switch::add_emit(entry, wire, n / 2, ahead);
  }
  static void subtract(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
    Switch::subtract(entry, wire, n / 2);
  }
  static Sums sums(const std::byte* wire, std::uint32_t n) noexcept { return Switch::sums(wire, n / 2); }

  static Packed quantise(const float* in, std::byte* wire, std::uint32_t n, float scale,
                         std::int32_t limit) noexcept {
    const auto scales = Isa::all(scale);
    const auto limits = Isa::all(limit);
    LaneSums<Isa> sums;
    Int magnitude{};
    const auto block = [&](Int bits, std::byte* to) {
      const Int value = Isa::scaled_and_rounded(bits, scales);
      const Int sent = Isa::clipped(value, limits);
      magnitude = Isa::max_magnitude(magnitude, value);
      sums.take(sent);
      Isa::store_halves(to, sent);
    };
    const std::uint32_t rest = n % Isa::kLanes;
    const std::size_t whole = n - rest;
    for (std::size_t i = 0; i < whole; i += Isa::kLanes) block(Isa::load(in + i, Whole{}), wire + i * kBytes);
    if (rest != 0) {
      Tail tail;
      block(Isa::load(in + whole, Isa::first(rest)), tail);
      __builtin_memcpy(wire + whole * kBytes, tail, rest * kBytes);
    }
    return {sums.folded(n / Isa::kLanes + (rest != 0 ? 1 : 0)), Isa::largest(magnitude)};
  }
  static void dequantise(const std::byte* wire, float* out, std::uint32_t n, float scale) noexcept {
    const auto scales = Isa::all(scale);
    const std::uint32_t rest = n % Isa::kLanes;
    const std::size_t whole = n - rest;
    for (std::size_t i = 0; i < whole; i += Isa::kLanes)
      Isa::store(out + i, Isa::as_scaled_float(Isa::load_halves(wire + i * kBytes), scales), Whole{});
    if (rest != 0) {
      Tail tail{};
      __builtin_memcpy(tail, wire + whole * kBytes, rest * kBytes);
      Isa::store(out + whole, Isa::as_scaled_float(Isa::load_halves(tail), scales), Isa::first(rest));
    }
  }
  static Sums copy_sums(const std::byte* wire, std::byte* to, std::uint32_t n) noexcept {
    HalfSums<Isa> sums;
    const std::size_t bytes = n * kBytes;
    for (std::size_t at = 0; at < bytes; at += sizeof(Int)) {
      const Int bits = Isa::load(wire + at, Whole{});
      Isa::store(to + at, bits, Whole{});
      sums.take(Isa::swapped(bits));
    }
    return sums.folded(static_cast<std::uint32_t>(bytes / sizeof(Int)));
  }
};

// Floats of 16 bits in the program's memory: kLanes of them loaded as floats of 32, and stored.
template <class Isa, auto load, auto store>
class ShortFloatsOf {
  static constexpr std::size_t kBytes = sizeof(std::uint16_t);
  using Tail = std::byte[Isa::kLanes * kBytes];  // NOLINT(modernize-avoid-c-arrays): no code of its own

 public:
  static void widen(const std::uint16_t* in, float* out, std::uint32_t n) noexcept {
    const std::uint32_t rest = n % Isa::kLanes;
    const std::size_t whole = n - rest;
    for (std::size_t i = 0; i < whole; i += Isa::kLanes) Isa::store(out + i, load(in + i), Whole{});
    if (rest != 0) {
      Tail tail{};
      __builtin_memcpy(tail, in + whole, rest * kBytes);
      Isa::store(out + whole, load(tail), Isa::first(rest));
    }
  }
  static void narrow(const float* in, std::uint16_t* out, std::uint32_t n) noexcept {
    const std::uint32_t rest = n % Isa::kLanes;
    const std::size_t whole = n - rest;
    for (std::size_t i = 0; i < whole; i += Isa::kLanes) store(out + i, Isa::load(in + i, Whole{}));
    if (rest != 0) {
      Tail tail;
      store(tail, Isa::load(in + whole, Isa::first(rest)));
      __builtin_memcpy(out + whole, tail, rest * kBytes);
    }
  }
};

template <class Isa>
consteval Kernels vector_kernels(std::string_view name) {
  using Switch = SwitchKernels<Isa>;
  using Worker = WorkerKernels<Isa>;
  using Halves = HalvesOf<Isa>;
  using Float16 = ShortFloatsOf<Isa, Isa::load_float16, Isa::store_float16>;
  using Bfloat16 = ShortFloatsOf<Isa, Isa::load_bfloat16, Isa::store_bfloat16>;
  return {
      .name = name,
      .write = Switch::template write<>,
      .add = Switch::template add<>,
      .add_sums = Switch::template add_sums<>,
      .add_emit = Switch::template add_emit<>,
      .fetching = {.write = Switch::template write<Ahead>,
                   .add = Switch::template add<Ahead>,
                   .add_sums = Switch::template add_sums<Ahead>,
                   .add_emit = Switch::template add_emit<Ahead>},
      .subtract = Switch::subtract,
      .read = Switch::read,
      .swap = Switch::swap,
      .sums = Switch::sums,
      .crc32c = crc32c_sse42,
      .max_abs_bits = Worker::max_abs_bits,
      .quantise = Worker::quantise,
      .dequantise = Worker::dequantise,
      .pack = Worker::pack,
      .unpack = Worker::unpack,
      .copy_sums = Worker::copy_sums,
      .rows = Switch::rows(),
      .halves = {.add = Halves::add,
                 .add_sums = Halves::add_sums,
                 .add_emit = Halves::add_emit,
                 .subtract = Halves::subtract,
                 .sums = Halves::sums,
                 .quantise = Halves::quantise,
                 .dequantise = Halves::dequantise,
                 .copy_sums = Halves::copy_sums},
      .half_rows = SwitchKernels<Isa, AsHalves<Isa>>::rows(),
      .float16 = {.widen = Float16::widen, .narrow = Float16::narrow},
      .bfloat16 = {.widen = Bfloat16::widen, .narrow = Bfloat16::narrow},
  };
}

}  // namespace

}  // namespace tally::kernels

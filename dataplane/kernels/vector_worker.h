#pragma once
// The worker kernels for any vector width; see vector_switch.h for `Isa` and where to include this. Any n:
// the last few elements are a vector whose other lanes are neither read nor written and count as zeros.

#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "vector_switch.h"

namespace tally {
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
}  // namespace tally

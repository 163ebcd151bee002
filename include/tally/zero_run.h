#pragma once
// What a ZERO RUN says of its chunks (docs/protocol_sparse.md, 19.2): the exponents, one in the header for all, or one
// for each behind it; and the sums that vouch for chunks and exponents.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tally/be.h"
#include "tally/ids.h"
#include "tally/mix64.h"
#include "tally/wire.h"

namespace tally {

// In the order of the bits; behind them 0.
using RunExponents = std::array<std::int8_t, kMostOfRun>;

// Of a run that has one for each of its chunks.
constexpr std::uint32_t run_exponents_bytes(std::uint64_t chunks) noexcept {
  return (static_cast<std::uint32_t>(std::popcount(chunks)) + 3) / 4 * 4;
}

// Nothing, or as many exponents as the header names chunks and none in the header, then zeros.
[[nodiscard]] inline bool are_run_exponents(const Header& h, const std::byte* payload,
                                            std::size_t bytes) noexcept {
  if (bytes == 0) return true;
  const std::uint64_t chunks = h.contributors.host();
  return bytes == run_exponents_bytes(chunks) && h.exponent == kNoExponent &&
         std::all_of(payload + std::popcount(chunks), payload + bytes,
                     [](std::byte b) { return b == std::byte{0}; });
}

// payload: for which are_run_exponents().
[[nodiscard]] inline RunExponents run_exponents(const Header& h,
                                                std::span<const std::byte> payload) noexcept {
  RunExponents exponents{};
  std::fill_n(exponents.begin(), std::popcount(h.contributors.host()), h.exponent);
  if (!payload.empty()) std::memcpy(exponents.data(), payload.data(), payload.size());
  return exponents;
}

// How the first n of `exponents`, one at least, are said: of_all in the header, and so many bytes of `exponents` behind
// it.
struct RunForm {
  std::int8_t of_all = kNoExponent;
  std::uint32_t bytes = 0;
};
[[nodiscard]] inline RunForm form_of_run(const RunExponents& exponents, std::uint64_t chunks) noexcept {
  const auto end = exponents.begin() + std::popcount(chunks);
  const bool alike = std::all_of(exponents.begin(), end, [&](std::int8_t e) { return e == exponents[0]; });
  return alike ? RunForm{exponents[0], 0} : RunForm{kNoExponent, run_exponents_bytes(chunks)};
}

// sum1 and sum2: as of 64 values, each that of the chunk's key or 0 where there is none, and behind them the words of
// the payload.
struct RunSums {
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;

  void add_chunk(std::uint32_t bit, std::uint32_t key, Chunk chunk) noexcept { add(bit, keyed(key, chunk)); }
  void add_exponents(std::span<const std::byte> payload) noexcept {
    for (std::uint32_t i = 0; 4 * i < payload.size(); ++i)
      add(kMostOfRun + i, wire_at<Be<std::uint32_t>>(payload.data() + 4 * std::size_t{i}).host());
  }
  [[nodiscard]] bool are_of(const Header& h) const noexcept {
    return h.sum1.host() == sum1 && h.sum2.host() == sum2;
  }

 private:
  void add(std::uint32_t place, std::uint32_t value) noexcept {
    sum1 += value;
    sum2 += (place + 1) * value;
  }
};

}  // namespace tally

#pragma once
// mix64 (docs/protocol.md, 4): the finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA'14). It keys the
// sums and hashes slots, so its bits are part of the wire protocol.

#include <cstdint>

#include "tally/ids.h"

namespace tally {

constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// k[rank]: odd and pairwise distinct within a generation, so that a contribution counted twice or missing
// changes sum1 of the finished chunk.
constexpr std::uint32_t rank_key(Generation generation, Rank rank) noexcept {
  const std::uint64_t mixed = mix64(raw(generation) + raw(rank)) & ((1U << 25) - 1);
  return static_cast<std::uint32_t>(mixed << 7) | (static_cast<std::uint32_t>(raw(rank)) << 1) | 1U;
}

// The same of worker `number`, below kMaxWorld, of a job of racks. The key of a rack is the sum of its workers'.
constexpr std::uint32_t racked_key(Generation generation, std::uint32_t number) noexcept {
  const std::uint64_t mixed = mix64(raw(generation) + number) & ((1U << 19) - 1);
  return static_cast<std::uint32_t>(mixed << 13) | (number << 1) | 1U;
}

// What rank's key adds to sum1 of a chunk: a contribution taken for another chunk changes the sum too.
constexpr std::uint32_t keyed(std::uint32_t key, Chunk chunk) noexcept {
  return key * (2U * raw(chunk) + 1U);
}

}  // namespace tally

#pragma once
// How floats travel, and what becomes of those that have no sum. All ranks choose the same for an operation:
// other wire types are named as a mismatch of the operation.

#include <cstdint>

namespace tally {

// Integers that stand for floats on their way (docs/protocol.md, 10).
enum class WireType : std::uint8_t {
  kInt32,  // exponents first, which takes a round trip more
  kInt16,  // half the packets, and coarse: off by up to 2^-12 of a packet's largest value with 2 ranks, 2^-8
           // with 8
  kExact,  // 12 for each float: twelve times the bytes, one round trip; the sum is exact and rounded once, in
           // whatever packets it travels
  kShortest,  // kExact where that is one packet (29 floats of an MTU of 1500, 185 of one of 9000), else kInt32
};

// The largest magnitude that a sum has room for, unless it is exact.
inline constexpr float kMostMagnitude = 0x1p126F;

// What NaN, Inf and magnitudes above 2^126 do. (kExact has sums for the latter, and its NaN is of that value
// alone.)
enum class NonFinite : std::uint8_t {
  kFail,       // the operation fails at every rank, by name
  kPropagate,  // every rank gets NaN for the whole packet's worth of values that one of them lies in
};

}  // namespace tally

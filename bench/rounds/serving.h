#pragma once
// What a pair of key and row costs a server: measured on production rows (host/kv), not modelled.

#include <cstdint>
#include <span>

namespace tally::rounds {

// ns of one thread for a pair that is pushed. Frequent keys are in a near cache, the others are not: what a server is
// spared if the former never come is less than their number says.
struct Serving {
  double exponent = 0;  // of Zipf's law, for 10^6 keys and batches of 13,312 lookups
  std::uint32_t width = 1;
  double near_ns = 0;  // of the kFrequent most frequent keys, among the others
  double far_ns = 0;   // of those behind, without the former
};
inline constexpr std::uint32_t kFrequent = 30'000;

// Pushes so many drawn batches, of each the whole and then its infrequent keys, and takes the medians.
[[nodiscard]] Serving measure(double exponent, std::uint32_t width, int batches);

// As measured, where docs/hot_keys.md says. The nearest exponent of those measured; width 1 or 16.
[[nodiscard]] const Serving& serving(double exponent, std::uint32_t width);
[[nodiscard]] std::span<const Serving> all_servings();

}  // namespace tally::rounds

#pragma once
// Vectors of values as the spans of an operation, and compared to the bit.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace tally {

// Cuts one vector into spans of these sizes, one behind the other.
template <class T, class V>
[[nodiscard]] std::vector<std::span<T>> cut(V& values, const std::vector<std::uint32_t>& sizes) {
  std::vector<std::span<T>> spans;
  std::size_t at = 0;
  for (const auto n : sizes) {
    spans.emplace_back(values.data() + at, n);
    at += n;
  }
  return spans;
}

template <class T>
[[nodiscard]] bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace tally

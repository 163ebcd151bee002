#pragma once
// A table of rows, of which each rank has some: what an embedding layer's gradient is (docs/sparse.md).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tally {

// The same at all ranks.
struct TableShape {
  std::uint32_t rows = 0;
  std::uint32_t width = 0;  // values in each row, 1 at least
};

// Rows of a rank; those it does not name are zeros, which cost next to nothing.
template <class T>
struct SparseRows {
  std::span<const std::uint32_t> ids{};  // increasing, each below the table's rows
  std::span<const T> values{};           // of each row one behind the other: ids.size() x width
};

// Rows of the sum that are not all zero, in the same form.
template <class T>
struct SparseSums {
  std::vector<std::uint32_t> ids{};
  std::vector<T> values{};
};

}  // namespace tally

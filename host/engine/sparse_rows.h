#pragma once
// A sparse operand: rows of a table as segments of an operation, in which what lies between them is zeros without
// memory; and the rows of a sum, for who does not want the whole table.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/engine_operation.h"
#include "tally/sparse.h"

namespace tally::engine {

// Why a program may not give these rows, with the index of the one at fault; empty if it may. values: how many
// there are.
[[nodiscard]] std::string objection_to(const TableShape& table, std::span<const std::uint32_t> ids,
                                       std::size_t values);

// The table as one concatenation. values: of the rows, words of 4 bytes; sums: where the whole table goes, or nullptr.
[[nodiscard]] std::vector<Segment> segments_of(const TableShape& table, std::span<const std::uint32_t> ids,
                                               const void* values, void* sums);

// Takes sums as they come, in any order, and keeps those that are not zero: memory is what the sum has, not what the
// table has.
class RowCollector {
 public:
  // Elements first .. first + n - 1 of the table, words of 4 bytes. Each element comes once.
  void take(std::uint64_t first, const void* sums, std::uint32_t n);

  // All are in: appends the rows that have a value, in order. Forgets them.
  template <class T>
  void finish(const TableShape& table, SparseSums<T>& out);

 private:
  // Values that follow each other in the table.
  struct Stretch {
    std::uint64_t first = 0;
    std::uint32_t count = 0;
    std::size_t at = 0;  // in values_
  };
  void sort();

  std::vector<Stretch> stretches_;
  std::vector<std::uint32_t> values_;
};

template <class T>
void RowCollector::finish(const TableShape& table, SparseSums<T>& out) {
  static_assert(sizeof(T) == sizeof(std::uint32_t));
  sort();
  out.ids.clear();
  out.values.clear();
  for (const Stretch& stretch : stretches_) {
    for (std::uint32_t i = 0; i < stretch.count; ++i) {
      const std::uint64_t element = stretch.first + i;
      const auto row = static_cast<std::uint32_t>(element / table.width);
      if (out.ids.empty() || out.ids.back() != row) {
        out.ids.push_back(row);
        out.values.resize(out.values.size() + table.width);
      }
      out.values[out.values.size() - table.width + element % table.width] =
          std::bit_cast<T>(values_[stretch.at + i]);
    }
  }
  stretches_ = {};
  values_ = {};
}

}  // namespace tally::engine

#include "engine/sparse_rows.h"

#include <algorithm>
#include <cstring>

namespace tally::engine {

std::string objection_to(const TableShape& table, std::span<const std::uint32_t> ids, std::size_t values) {
  if (table.width == 0) return "width 0: a row has one value at least";
  if (values != ids.size() * table.width)
    return std::to_string(ids.size()) + " rows of width " + std::to_string(table.width) + " have " +
           std::to_string(ids.size() * table.width) + " values, not " + std::to_string(values);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool above = i == 0 || ids[i - 1] < ids[i];
    if (above && ids[i] < table.rows) continue;
    const std::string here = "ids[" + std::to_string(i) + "] is " + std::to_string(ids[i]);
    if (above) return here + ", and the table has " + std::to_string(table.rows) + " rows";
    if (ids[i - 1] == ids[i]) return here + " once more: each row is given once, add what belongs together";
    return here + ", behind " + std::to_string(ids[i - 1]) + ": ids must increase";
  }
  return {};
}

std::vector<Segment> segments_of(const TableShape& table, std::span<const std::uint32_t> ids,
                                 const void* values, void* sums) {
  constexpr std::size_t kBytes = sizeof(std::uint32_t);
  const std::uint64_t width = table.width;
  std::vector<Segment> segments;
  std::uint64_t row = 0;  // the first without a segment
  const auto append = [&](const void* in, std::uint64_t rows) {
    if (rows == 0) return;
    void* const out = sums != nullptr ? static_cast<std::byte*>(sums) + row * width * kBytes : nullptr;
    segments.push_back({in, out, rows * width});
    row += rows;
  };
  for (std::size_t i = 0; i < ids.size();) {
    append(nullptr, ids[i] - row);
    std::size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    append(static_cast<const std::byte*>(values) + i * width * kBytes, end - i);
    i = end;
  }
  append(nullptr, table.rows - row);
  return segments;
}

void RowCollector::take(std::uint64_t first, const void* sums, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; ++i) {
    std::uint32_t value = 0;
    std::memcpy(&value, static_cast<const std::byte*>(sums) + i * sizeof value, sizeof value);
    if (value == 0) continue;
    if (stretches_.empty() || stretches_.back().first + stretches_.back().count != first + i)
      stretches_.push_back({first + i, 0, values_.size()});
    ++stretches_.back().count;
    values_.push_back(value);
  }
}

void RowCollector::sort() {
  std::sort(stretches_.begin(), stretches_.end(),
            [](const Stretch& a, const Stretch& b) { return a.first < b.first; });
}

}  // namespace tally::engine

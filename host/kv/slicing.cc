#include "kv/slicing.h"

#include <algorithm>
#include <numeric>

namespace tally::kv {

std::optional<Objection> objection_to_keys(std::span<const Key> keys) {
  if (keys.empty()) return Objection{"there are no keys"};
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (keys[i - 1] < keys[i]) continue;
    const std::string at = "key " + std::to_string(i) + " (" + std::to_string(keys[i]) + ")";
    return Objection{keys[i - 1] == keys[i] ? at + " is there twice; a request names each key once"
                                            : at + " is below the one before it (" +
                                                  std::to_string(keys[i - 1]) + "); keys are ascending",
                     static_cast<std::int64_t>(i)};
  }
  return std::nullopt;
}

std::optional<Objection> objection_to_lens(std::size_t keys, std::span<const int> lens,
                                           std::optional<std::size_t> vals) {
  if (lens.empty()) {
    if (!vals) return std::nullopt;
    if (*vals == 0) return Objection{"there are no values"};
    if (*vals % keys == 0) return std::nullopt;
    return Objection{std::to_string(*vals) + " values are not as many for each of " + std::to_string(keys) +
                     " keys; say in lens how many each has"};
  }
  if (lens.size() != keys)
    return Objection{
        "there are " + std::to_string(lens.size()) + " lens for " + std::to_string(keys) + " keys",
        static_cast<std::int64_t>(std::min(lens.size(), keys))};
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < lens.size(); ++i) {
    if (lens[i] < 0)
      return Objection{"lens[" + std::to_string(i) + "] is " + std::to_string(lens[i]),
                       static_cast<std::int64_t>(i)};
    sum += static_cast<std::uint64_t>(lens[i]);
    if (vals && sum > *vals)
      return Objection{"lens up to " + std::to_string(i) + " are " + std::to_string(sum) +
                           " values, and there are " + std::to_string(*vals),
                       static_cast<std::int64_t>(i)};
  }
  if (vals && sum != *vals)
    return Objection{
        "lens are " + std::to_string(sum) + " values together, and there are " + std::to_string(*vals),
        static_cast<std::int64_t>(lens.size()) - 1};
  return std::nullopt;
}

std::vector<Range> ranges_of(int servers) {
  std::vector<Range> ranges;
  if (servers <= 0) return ranges;
  const auto count = static_cast<std::uint64_t>(servers);
  const std::uint64_t width = kMaxKey / count;
  for (std::uint64_t i = 0; i < count; ++i)
    ranges.emplace_back(width * i, i + 1 == count ? kMaxKey : width * (i + 1));
  return ranges;
}

std::vector<Slice> slices_of(std::span<const Key> keys, std::span<const int> lens, std::size_t vals,
                             std::span<const Range> ranges) {
  std::vector<Slice> slices;
  slices.reserve(ranges.size());
  const std::size_t each = keys.empty() ? 0 : vals / keys.size();
  std::size_t key = 0;
  std::size_t val = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto from = keys.begin() + static_cast<std::ptrdiff_t>(key);
    const auto to = i + 1 == ranges.size() ? keys.end() : std::lower_bound(from, keys.end(), ranges[i].end());
    const auto count = static_cast<std::size_t>(to - from);
    std::size_t taken = 0;
    if (vals != 0) {
      taken = lens.empty()
                  ? count * each
                  : std::accumulate(lens.begin() + static_cast<std::ptrdiff_t>(key),
                                    lens.begin() + static_cast<std::ptrdiff_t>(key + count), std::size_t{0});
    }
    slices.push_back({key, count, val, taken});
    key += count;
    val += taken;
  }
  return slices;
}

}  // namespace tally::kv

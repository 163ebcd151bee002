#pragma once
// Invariant 2 for jobs with stragglers, whose sums follow from nothing but what the members were told:
// whoever finishes an operation first says what it got, and all others must have got the same.

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tally/engine_statistics.h"
#include "tally/ids.h"

namespace tally::sim {

class Agreement {
 public:
  // Of operation k of a generation: the values as they lie in memory, and what was said of them. False:
  // another member got something else.
  template <class T>
  bool agrees(const std::string& job, Generation generation, std::uint32_t k, const std::vector<T>& values,
              const OperationStats& stats) {
    Outcome mine{std::vector<std::uint8_t>(values.size() * sizeof(T)), stats.partial, stats.contributors,
                 stats.overflow};
    if (!values.empty()) std::memcpy(mine.bytes.data(), values.data(), mine.bytes.size());
    const auto [at, first] = outcomes_.try_emplace({job, raw(generation), k}, mine);
    return first || at->second == mine;
  }

 private:
  struct Outcome {
    std::vector<std::uint8_t> bytes;
    std::vector<PartialSum> partial;
    std::uint64_t contributors = 0;
    bool overflow = false;
    bool operator==(const Outcome&) const = default;
  };
  std::map<std::tuple<std::string, std::uint64_t, std::uint32_t>, Outcome> outcomes_;
};

}  // namespace tally::sim

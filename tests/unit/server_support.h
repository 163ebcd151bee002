#pragma once
// What the merge engine's tests share: guarded memory for a table, and Partials whose values depend on
// generation, chunk and rank only, as the protocol demands of contributions.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <utility>
#include <vector>

#include "jobs/job_table.h"
#include "kernels_support.h"
#include "server/merge_table.h"
#include "tally/mix64.h"

namespace tally {
namespace server {

inline void PrintTo(Merged m, std::ostream* out) {
  *out << "Merged(" << unsigned{static_cast<std::uint8_t>(m)} << ')';
}

inline bool operator==(const MergeResult& a, const MergeResult& b) {
  return a.merged == b.merged && a.missing == b.missing && a.held == b.held && a.stored == b.stored;
}
inline void PrintTo(const MergeResult& r, std::ostream* out) {
  PrintTo(r.merged, out);
  *out << " missing " << std::hex << r.missing << " held " << r.held << std::dec << " elements "
       << r.stored.elements;
}

}  // namespace server

inline std::uint32_t keys_of(Generation generation, std::uint64_t ranks) {
  std::uint32_t keys = 0;
  for (std::uint16_t r = 0; r < kMaxRanks; ++r)
    if (ranks >> r & 1) keys += rank_key(generation, Rank{r});
  return keys;
}

inline server::MergeJob merge_job(std::uint16_t id, std::uint64_t generation, std::uint32_t epoch,
                                  std::uint32_t world) {
  const std::uint64_t members = members_of(world);
  return {JobId{id}, Generation{generation}, Epoch{epoch}, members, keys_of(Generation{generation}, members)};
}

// A Partial and the frame that it lies in: `room` elements behind a header of odd size.
class Packet {
 public:
  // The sum of the contributions of `ranks`, right in every word.
  Packet(const server::MergeJob& job, Chunk chunk, std::uint64_t ranks, std::uint16_t elements,
         std::uint32_t room)
      : frame_(std::size_t{4} * std::max<std::uint32_t>(room, elements), 1) {
    Values sum(elements);
    partial = {.chunk = chunk,
               .contributors = ranks,
               .keys = keys_of(job.generation, ranks),
               .sum = {.shape = {.total = 7U * elements, .elements = elements}, .exponent = -128},
               .values = frame_.data(),
               .room = room};
    for (std::uint16_t r = 0; r < kMaxRanks; ++r) {
      if ((ranks >> r & 1) == 0) continue;
      const std::uint64_t seed = mix64(mix64(raw(job.generation) ^ raw(chunk)) + r);
      for (std::uint32_t i = 0; i < elements; ++i)
        sum[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum[i]) +
                                           static_cast<std::uint32_t>(mix64(seed + i)));
      partial.sum.exponent = std::max(partial.sum.exponent, static_cast<std::int8_t>(seed >> 32));
      if ((seed >> 40 & 7) == 7) partial.sum.marks |= jobs::kMarkOverflow;
    }
    put_wire(partial.values, sum);
    const kernels::Sums sums = naive_sums(sum);
    partial.sum.sum1 = sums.sum1 + keyed(partial.keys, chunk);
    partial.sum.sum2 = sums.sum2;
  }
  Packet(const server::MergeJob& job, Chunk chunk, std::uint64_t ranks, std::uint16_t elements)
      : Packet(job, chunk, ranks, elements, elements) {}
  Packet(const Packet&) = delete;
  Packet& operator=(const Packet&) = delete;

  [[nodiscard]] Values values() const { return wire_values(partial.values, partial.sum.shape.elements); }
  [[nodiscard]] bool intact() const { return frame_.intact(); }

  server::Partial partial;

 private:
  Guarded frame_;
};

// Do words and values of `a`, not contributors and keys, say the same sum as `b`'s?
inline testing::AssertionResult same_sum(const Packet& a, const Packet& b) {
  const server::Partial& x = a.partial;
  const server::Partial& y = b.partial;
  if (x.sum.shape != y.sum.shape) return testing::AssertionFailure() << "shapes differ";
  if (x.sum.exponent != y.sum.exponent)
    return testing::AssertionFailure() << int{x.sum.exponent} << " != " << int{y.sum.exponent};
  if (x.sum.marks != y.sum.marks) return testing::AssertionFailure() << "marks differ";
  if (x.sum.sum1 != y.sum.sum1 || x.sum.sum2 != y.sum.sum2)
    return testing::AssertionFailure() << "sums differ";
  if (a.values() != b.values()) return testing::AssertionFailure() << "values differ";
  return testing::AssertionSuccess();
}

// A table in memory of its own, of exactly `lines` lines, which began as rubbish.
class GuardedTable {
 public:
  GuardedTable(std::size_t lines, std::uint32_t elements, const kernels::Kernels& kernels)
      : memory_(lines * sizeof(jobs::Line), 0),
        region_(rubbish(memory_, lines)),
        table(region_, elements, kernels, server::Share::kOneEach) {}

  [[nodiscard]] bool intact() const { return memory_.intact(); }

 private:
  static jobs::Region rubbish(Guarded& memory, std::size_t lines) {
    std::memset(memory.data(), 0xdb, lines * sizeof(jobs::Line));
    return {memory.as<jobs::Line>(), lines};
  }
  Guarded memory_;
  jobs::Region region_;

 public:
  server::MergeTable table;
};

struct Counted {
  std::uint64_t merged = 0;
  std::uint64_t completed = 0;
  std::uint64_t forgotten = 0;
  std::uint64_t aged = 0;
  std::uint32_t incomplete = 0;
  std::uint32_t complete = 0;
  bool operator==(const Counted&) const = default;
};
inline Counted counted(const server::MergeTable& t) {
  const server::MergeCounters& c = t.counters();
  return {c.merged, c.completed, c.forgotten, c.aged, c.incomplete, c.complete};
}
inline void PrintTo(const Counted& c, std::ostream* out) {
  *out << "merged " << c.merged << " completed " << c.completed << " forgotten " << c.forgotten << " aged "
       << c.aged << " incomplete " << c.incomplete << " complete " << c.complete;
}

}  // namespace tally

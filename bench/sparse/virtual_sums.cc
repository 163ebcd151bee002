#include "virtual_sums.h"

#include <algorithm>
#include <span>
#include <vector>

#include "tally/mix64.h"
#include "virtual_rack.h"

namespace tally::sparse {
namespace {

using bench::has_values;

constexpr std::uint32_t kHeaders = 14 + 28 + 56 + bench::kFraming;  // Ethernet, IPv4 and UDP, ours

bench::RackOptions rack_of(const Conditions& c) {
  bench::RackOptions rack;
  rack.workers = c.workers;
  rack.gbps = c.gbps;
  rack.hop = c.hop;
  rack.box_cores = c.cores;
  rack.elements = c.elements;
  rack.window = c.window;
  rack.seed = c.seed;
  if (c.box == Box::kAsLinks) rack.box_packet_ns = rack.box_byte_ns = 0;
  return rack;
}

class Run {
 public:
  explicit Run(const Conditions& conditions)
      : c_(conditions), rack_(rack_of(conditions), [](std::uint32_t /*worker*/) {}) {}

  Result<Measured> go() {
    if (const auto joined = rack_.join(); !joined) return tl::unexpected<Error>(joined.error());
    const auto there_and_back = sum<std::int32_t>({.zeros = 100}, 16);
    if (!there_and_back) return tl::unexpected<Error>(there_and_back.error());
    for (int turn = 0; turn < 2; ++turn) {  // the first one warms timers up
      rack_.lines().forget();
      const auto took =
          c_.floats ? sum<float>(c_.blocks, c_.values) : sum<std::int32_t>(c_.blocks, c_.values);
      if (!took) return tl::unexpected<Error>(took.error());
      out_.time = *took;
    }
    out_.round_trip = *there_and_back;
    out_.ideal = ideal(false);
    out_.of_format = ideal(c_.floats);
    out_.up = rack_.lines().busiest(rack_.up(0), c_.workers) / rack_.wire_ns(1);
    out_.down = rack_.lines().busiest(rack_.down(0), c_.workers) / rack_.wire_ns(1);
    out_.box = rack_.lines().busiest(rack_.core(0), c_.cores) / static_cast<double>(out_.time);
    out_.again = rack_.sent_again();
    return out_;
  }

 private:
  [[nodiscard]] double ideal(bool exponents) const {
    const bench::Sum sum{
        .values = c_.values, .chunk = c_.elements, .headers = kHeaders, .exponents = exponents};
    double most = bench::least_bytes(c_.blocks, sum, (std::uint64_t{1} << c_.workers) - 1);
    for (std::uint32_t w = 0; w < c_.workers; ++w)
      most = std::max(most, bench::least_bytes(c_.blocks, sum, std::uint64_t{1} << w));
    return rack_.wire_ns(most) + (exponents ? 2 : 1) * static_cast<double>(out_.round_trip);
  }

  template <class T>
  Result<TimeNs> sum(const bench::Blocks& blocks, std::size_t n) {
    const TimeNs begin = rack_.clock().now();
    std::vector<std::vector<T>> values(c_.workers, std::vector<T>(n));
    std::vector<T> right(n);
    for (std::size_t i = 0; i < n; ++i) {
      // Neighbours of different sizes: floats have an exponent of its own for nearly each block.
      const T value = static_cast<T>((1 + i % 7) << mix64(i / 256) % 8);
      for (std::uint32_t w = 0; w < c_.workers; ++w) {
        if (!has_values(blocks, i / blocks.block, w)) continue;
        values[w][i] = value;
        right[i] += value;
      }
    }
    std::vector<engine::OperationId> ids;
    for (std::uint32_t w = 0; w < c_.workers; ++w) {
      const auto id = rack_.worker(w).engine().allreduce(std::span{values[w]}, begin);
      if (!id) return tl::unexpected<Error>(id.error());
      ids.push_back(*id);
    }
    const auto took = rack_.finish(ids, begin);
    for (const std::vector<T>& of : values)
      for (std::size_t i = 0; i < n; ++i) out_.wrong += of[i] == right[i] ? 0 : 1;
    return took;
  }

  Conditions c_;
  bench::Rack rack_;
  Measured out_;
};

}  // namespace

Result<Measured> run(const Conditions& conditions) { return Run(conditions).go(); }

}  // namespace tally::sparse

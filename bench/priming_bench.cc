// What the priming round trip of a float operation costs: ResNet-50's 161 tensors as one operation each, or
// as one operation over a list of 161. Virtual time: 10 Gbit/s links, RTT 50 us, 8 workers, window 256,
// production engines and pipeline; every sum is checked.

#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "harness.h"
#include "perf/layer_list.h"
#include "rack.h"

namespace tally::bench {
namespace {

constexpr std::uint16_t kWorkers = 8;
constexpr std::uint64_t kBitsPerSecond = 10'000'000'000;
constexpr TimeNs kOneWay = 25 * kMicrosecond;
constexpr std::uint16_t kElements = 352;

using Tensors = std::vector<std::span<float>>;

// Exact in float32 and in fixed point, so that the sum is known to the bit: multiples of 2^-12 below 1.
float value(std::size_t i, std::uint16_t rank) {
  return static_cast<float>((i * 31 + rank * 7) % 4093) * 0x1p-12F;
}

struct Model {
  explicit Model(std::span<const std::uint32_t> sizes) : sizes_(sizes.begin(), sizes.end()) {
    for (const auto n : sizes) parameters += n;
    values.resize(kWorkers, std::vector<float>(parameters));
  }
  void fill() {
    for (std::uint16_t r = 0; r < kWorkers; ++r) {
      for (std::size_t i = 0; i < parameters; ++i) values[r][i] = value(i, r);
    }
  }
  [[nodiscard]] Tensors tensors(std::uint16_t rank) {
    Tensors spans;
    std::size_t at = 0;
    for (const auto n : sizes_) {
      spans.emplace_back(values[rank].data() + at, n);
      at += n;
    }
    return spans;
  }
  void check() const {
    for (std::size_t i = 0; i < parameters; ++i) {
      float sum = 0;
      for (std::uint16_t r = 0; r < kWorkers; ++r) sum += value(i, r);
      for (std::uint16_t r = 0; r < kWorkers; ++r) require(values[r][i] == sum, "a sum differs");
    }
  }

  std::size_t parameters = 0;
  std::vector<std::vector<float>> values;

 private:
  std::vector<std::uint32_t> sizes_;
};

struct Way {
  std::string name;
  TimeNs took = 0;
  std::uint64_t packets = 0;
};

enum class Submission { kOneByOne, kAllAtOnce, kOneList };

Way run(Model& model, Submission how, const char* name) {
  model.fill();
  Rack rack({.workers = kWorkers,
             .window = 256,
             .elements = kElements,
             .link = {.delay = kOneWay, .bits_per_second = kBitsPerSecond, .vouched = true}});
  rack.join();
  std::vector<Tensors> tensors;
  for (std::uint16_t r = 0; r < kWorkers; ++r) tensors.push_back(model.tensors(r));
  std::vector<std::size_t> next(kWorkers);
  const auto submit_next = [&](std::uint16_t rank, engine::WorkerEngine& engine, TimeNs now) {
    if (next[rank] == tensors[rank].size()) return;
    require(engine.allreduce(tensors[rank][next[rank]++], now).has_value(), "an operation is refused");
  };
  const auto count = static_cast<std::uint32_t>(tensors.front().size());
  TimeNs took = 0;
  if (how == Submission::kOneList) {
    took = rack.run([&](std::uint16_t r, engine::WorkerEngine& e,
                        TimeNs now) { require(e.allreduce(tensors[r], now).has_value(), "refused"); },
                    1, {});
  } else if (how == Submission::kOneByOne) {
    took = rack.run(submit_next, count, submit_next);
  } else {
    took = rack.run(
        [&](std::uint16_t r, engine::WorkerEngine& e, TimeNs now) {
          while (next[r] < count) submit_next(r, e, now);
        },
        count, {});
  }
  require(rack.retransmissions() == 0, "packets were sent again on a lossless rack");
  model.check();
  return {name, took, rack.contributions() / kWorkers};
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  const std::string file = json_argument(argc, argv);
  Model model(tally::perf::kResnet50);
  // Bound: all data frames of a worker back to back on its link, then one round trip. 42 + 56 bytes of
  // headers, 24 of FCS, preamble and gap.
  const double frames = std::ceil(static_cast<double>(model.parameters) / kElements);
  const double bound_ms =
      (frames * (98 + 24 + 4 * kElements) * 8 / kBitsPerSecond + 2 * static_cast<double>(kOneWay) * 1e-9) *
      1e3;
  std::printf(
      "ResNet-50, %zu parameters, 161 tensors; %d workers, 10 Gbit/s, RTT 50 us, window 256, %d elements; "
      "virtual time\n",
      model.parameters, kWorkers, kElements);
  std::printf("%-42s %12s %14s %10s\n", "", "ms", "packets/worker", "of bound");
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& way : {run(model, Submission::kOneByOne, "161 operations, each awaited"),
                          run(model, Submission::kAllAtOnce, "161 operations, all in flight"),
                          run(model, Submission::kOneList, "1 operation over a list of 161")}) {
    const double ms = static_cast<double>(way.took) * 1e-6;
    std::printf("%-42s %12.3f %14lu %8.1f %%\n", way.name.c_str(), ms, way.packets, 100 * bound_ms / ms);
    rows.push_back({{"name", way.name},
                    {"virtual_ms", ms},
                    {"packets_per_worker", way.packets},
                    {"share_of_bound", bound_ms / ms}});
  }
  std::printf("bound: %.3f ms (frames back to back on one link, and one round trip)\n", bound_ms);
  write_json(file, {{"bound_ms", bound_ms}, {"rows", rows}});
  return 0;
}

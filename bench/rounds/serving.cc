#include "serving.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <vector>

#include "hot_workers.h"
#include "kv/rows.h"

namespace tally::rounds {
namespace {

// Of 27 November 2026, nothing else on the machine: an Intel Xeon with 2 MB of L2 for a core and much L3 (300 MB for
// all guests). Beside compilers they double.
constexpr std::array kMeasured{Serving{0.6, 1, 103.0, 90.6}, Serving{0.6, 16, 130.4, 126.0},
                               Serving{1.2, 1, 91.6, 117.1}, Serving{1.2, 16, 133.9, 177.0}};

using Batch = std::vector<kv::Key>;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of this thread, so that what else runs on the machine counts as little as can be.
double cpu_ns() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double ns_a_pair(kv::Rows& rows, const Batch& batch, std::uint32_t width, const std::vector<float>& values) {
  const double begin = cpu_ns();
  rows.push(batch, {}, width, values.data(), 0);
  return (cpu_ns() - begin) / static_cast<double>(batch.size());
}

}  // namespace

Serving measure(double exponent, std::uint32_t width, int batches) {
  constexpr std::uint32_t kKeys = 1'000'000;
  constexpr std::uint32_t kLookups = 13'312;
  bench::Batches drawn({kKeys, exponent, kLookups, 1}, 1);
  kv::Rows rows({.dimension = width});
  const std::vector<float> values(std::size_t{kLookups} * width, 1.F);
  for (std::uint32_t k = 0; k < kKeys; ++k) {
    const kv::Key key = bench::key_of(k);
    rows.push({&key, 1}, {}, width, values.data(), 0);
  }
  std::vector<double> whole_ns;
  std::vector<double> far_ns;
  double share = 0;  // of frequent keys
  for (int i = 0; i < batches; ++i) {
    // Of another batch, for what was just pushed is near.
    Batch whole;
    Batch far;
    for (const std::uint32_t k : drawn.draw()) whole.push_back(bench::key_of(k));
    const std::vector<std::uint32_t> other = drawn.draw();
    for (const std::uint32_t k : other)
      if (k >= kFrequent) far.push_back(bench::key_of(k));
    share += (1 - static_cast<double>(far.size()) / static_cast<double>(other.size())) / batches;
    std::sort(whole.begin(), whole.end());
    std::sort(far.begin(), far.end());
    whole_ns.push_back(ns_a_pair(rows, whole, width, values));
    far_ns.push_back(ns_a_pair(rows, far, width, values));
  }
  const double far = median(far_ns);
  return {exponent, width, (median(whole_ns) - (1 - share) * far) / share, far};
}

std::span<const Serving> all_servings() { return kMeasured; }

const Serving& serving(double exponent, std::uint32_t width) {
  return *std::min_element(kMeasured.begin(), kMeasured.end(), [&](const Serving& a, const Serving& b) {
    const auto away = [&](const Serving& s) {
      return std::abs(s.exponent - exponent) + (s.width == width ? 0 : 100);
    };
    return away(a) < away(b);
  });
}

}  // namespace tally::rounds

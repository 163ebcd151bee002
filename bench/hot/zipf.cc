#include "zipf.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tally::bench {
namespace {

double share_of(double probability, double lookups) {
  return probability >= 1 ? 1 : -std::expm1(lookups * std::log1p(-probability));
}

// Keys in groups that are alike: the first 10,000 by themselves, then such as differ by 0.1 % in rank.
struct Group {
  double first = 1;
  double keys = 1;
  double probability = 0;  // of each
};
std::vector<Group> groups_of(const Workload& load) {
  std::vector<Group> groups;
  double sum = 0;
  for (double first = 1; first <= load.keys;) {
    const double last = std::min<double>(load.keys, first < 10'000 ? first : std::floor(first * 1.001));
    const double keys = last - first + 1;
    const double each = std::pow(std::sqrt(first * last), -load.exponent);
    groups.push_back({first, keys, each});
    sum += keys * each;
    first = last + 1;
  }
  for (Group& group : groups) group.probability /= sum;
  return groups;
}

}  // namespace

Zipf::Zipf(std::uint32_t keys, double exponent) : below_(keys), guide_(65'537) {
  double sum = 0;
  for (std::uint32_t k = 0; k < keys; ++k) {
    below_[k] = sum;
    sum += std::pow(k + 1.0, -exponent);
  }
  for (double& below : below_) below /= sum;
  std::uint32_t key = 0;
  for (std::uint32_t i = 0; i + 1 < guide_.size(); ++i) {
    while (key + 1 < keys && below_[key + 1] <= i / 65'536.0) ++key;
    guide_[i] = key;
  }
  guide_.back() = keys - 1;
}

std::uint32_t Zipf::draw(std::mt19937_64& random) const {
  const double u = static_cast<double>(random() >> 11) * 0x1p-53;
  const auto at = static_cast<std::size_t>(u * 65'536);
  const auto first = below_.begin() + guide_[at];
  const auto last = below_.begin() + guide_[at + 1] + 1;
  return static_cast<std::uint32_t>(std::upper_bound(first, last, u) - below_.begin() - 1);
}

double Zipf::share(std::uint32_t key, std::uint32_t lookups) const {
  const double end = key + 1 < below_.size() ? below_[key + 1] : 1.0;
  return share_of(end - below_[key], lookups);
}

Batches::Batches(const Workload& load, std::uint64_t seed)
    : zipf_(load.keys, load.exponent), lookups_(load.lookups), random_(seed), drawn_(load.keys) {}

std::vector<std::uint32_t> Batches::draw() {
  ++batches_;
  std::vector<std::uint32_t> batch;
  for (std::uint32_t i = 0; i < lookups_; ++i) {
    const std::uint32_t key = zipf_.draw(random_);
    if (std::exchange(drawn_[key], batches_) != batches_) batch.push_back(key);
  }
  return batch;
}

Traffic expected(const Workload& load, std::uint32_t hot) {
  Traffic traffic;
  for (const Group& group : groups_of(load)) {
    const double share = share_of(group.probability, load.lookups);
    const double in = std::clamp(hot + 1 - group.first, 0.0, group.keys);
    traffic.pushed += group.keys * load.workers * share;
    traffic.cold += (group.keys - in) * load.workers * share;
    traffic.merged += in * share_of(share, load.workers);
  }
  return traffic;
}

double link_gain(const Workload& load, std::uint32_t hot, std::uint32_t servers, std::uint32_t width) {
  const double row = 4.0 * width;
  const double pair = 8 + row;
  const auto busiest = [&](const Traffic& t) {
    const double to_a_server = t.cold * pair / servers;
    const double from_a_worker = (t.cold * pair + (t.pushed - t.cold) * row) / load.workers;
    return std::max({to_a_server, from_a_worker, t.merged * row});  // the last one comes down to each worker
  };
  return busiest(expected(load, 0)) / busiest(expected(load, hot));
}

std::uint32_t size_of_fill(const Workload& load, double fill, std::uint32_t most) {
  double size = 0;
  double had = 0;
  double best = 0;
  for (const Group& group : groups_of(load)) {
    size += group.keys;
    had += group.keys * share_of(group.probability, load.lookups);
    if (size > most) break;
    if (had >= fill * size) best = size;
  }
  return static_cast<std::uint32_t>(best);
}

}  // namespace tally::bench

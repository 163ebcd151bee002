#include "members/rebalance.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tally::members {
namespace {

// Classes are strict: to a class, those below it want no more than what is reserved for them.
std::vector<Sharer> seen_by(std::uint8_t rank, std::span<ResidentJob* const> jobs,
                            std::vector<Sharer> sharers) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (class_of(jobs[i]->config().priority) < rank)
      sharers[i].demand = std::min(sharers[i].demand, sharers[i].reserved);
  }
  return sharers;
}

}  // namespace

void rebalance_shared(BoxState& box, std::span<const SharedDemand> demand) {
  std::vector<ResidentJob*> jobs;
  std::vector<Sharer> sharers;
  std::vector<std::uint32_t> wanted(kMaxJobs + 1);
  for (const SharedDemand& d : demand)
    if (raw(d.job) <= kMaxJobs) wanted[raw(d.job)] = d.denied ? Sharer::kEverything : d.entries;
  for (const JobId id : box.sharing) {
    ResidentJob* const job = box.find_resident(id);
    jobs.push_back(job);
    sharers.push_back(
        {job->config().quota.weight, job->quota().reserved, job->quota().limit, wanted[raw(id)]});
  }
  for (std::uint8_t rank = 0; rank <= class_of(kMaxPriority); ++rank) {
    const auto in_class = [rank](const ResidentJob* job) { return class_of(job->config().priority) == rank; };
    if (std::none_of(jobs.begin(), jobs.end(), in_class)) continue;
    const auto caps = divide(seen_by(rank, jobs, sharers), box.options.shared_entries);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (!in_class(jobs[i])) continue;
      jobs[i]->give_cap(caps[i]);
    }
  }
}

namespace {

// Water poured into vessels as wide as the weights: at `level` a sharer has weight x level, but not less than
// its `least` and not more than its `most`.
struct Vessel {
  double weight = 1;
  double least = 0;
  double most = 0;

  [[nodiscard]] double at(double level) const noexcept { return std::clamp(weight * level, least, most); }
};

Vessel vessel(const Sharer& s, std::uint32_t demand) noexcept {
  const std::uint32_t most = std::min(demand, s.limit);
  return {static_cast<double>(s.weight), static_cast<double>(std::min(s.reserved, most)),
          static_cast<double>(most)};
}

// What all vessels hold at a level: straight between the levels where one begins or ends to fill.
class Total {
 public:
  explicit Total(std::span<const Vessel> vessels) {
    double held = 0;
    std::vector<Bend> changes;
    for (const Vessel& v : vessels) {
      held += v.least;
      changes.push_back({v.least / v.weight, 0, v.weight});
      changes.push_back({v.most / v.weight, 0, -v.weight});
    }
    std::sort(changes.begin(), changes.end(), [](const Bend& a, const Bend& b) { return a.level < b.level; });
    bends_.push_back({0, held, 0});
    for (const Bend& change : changes) {
      const Bend& last = bends_.back();
      bends_.push_back({change.level, last.at(change.level), last.slope + change.slope});
    }
  }

  [[nodiscard]] double at(double level) const noexcept {
    const auto next = std::upper_bound(bends_.begin(), bends_.end(), level,
                                       [](double l, const Bend& bend) { return l < bend.level; });
    return std::prev(next)->at(level);
  }

 private:
  struct Bend {
    double level;
    double held;
    double slope;  // from here on
    [[nodiscard]] double at(double l) const noexcept { return held + slope * (l - level); }
  };
  std::vector<Bend> bends_;
};

}  // namespace

std::vector<std::uint32_t> divide(std::span<const Sharer> sharers, std::uint32_t entries) {
  constexpr int kHalvings = 80;       // from 2^32 to far below what rounding hides
  constexpr double kRounding = 1e-4;  // of an entry
  std::vector<Vessel> vessels;
  for (const Sharer& s : sharers) vessels.push_back(vessel(s, s.demand));
  const Total total(vessels);
  std::vector<std::uint32_t> caps;
  for (std::size_t i = 0; i < sharers.size(); ++i) {
    const Vessel greedy = vessel(sharers[i], Sharer::kEverything);
    double low = 0;
    double high = greedy.most / greedy.weight;  // there the greedy one is full
    for (int n = 0; n < kHalvings; ++n) {
      const double level = (low + high) / 2;
      const bool full = total.at(level) - vessels[i].at(level) + greedy.at(level) >= entries;
      (full ? high : low) = level;
    }
    const double cap = std::ceil(greedy.at(high) - kRounding);
    caps.push_back(std::max(static_cast<std::uint32_t>(cap), 1U));
  }
  return caps;
}

}  // namespace tally::members

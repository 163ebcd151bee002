// Random lives of a fleet: requests and answers lost and late, boxes killed, stopped and started, leases ended by the
// store, the store frozen, compacted. After each turn what must always hold does; in the end, with everything healed,
// the fleet is whole. A plan carries who wrote it, and boxes that think they may plan do, all the time.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <variant>

#include "fleet_bed.h"
#include "rng.h"

#ifndef TALLY_SEED_SHARE
#define TALLY_SEED_SHARE 1
#endif

namespace tally::fleet {
namespace {

// Reads the store's history as it was written, which is in the order of its revisions.
class Historian {
 public:
  void look(const FakeServer& server) {
    const auto& history = server.history();
    for (; next_ < history.size(); ++next_) {
      const Change& change = history[next_];
      const auto key = keys_.parse(change.pair.key);
      ASSERT_TRUE(key) << change.pair.key;
      if (std::holds_alternative<PlannerKey>(*key)) seat(change, planner_);
      if (const auto* const home = std::get_if<HomeKey>(&*key); home != nullptr) {
        seat(change, homes_[home->job]);
        taken_ += change.erased ? 0 : 1;
      }
      if (const auto* const plan = std::get_if<PlanKey>(&*key); plan != nullptr && !change.erased)
        plan_written(*plan, change);
    }
  }
  [[nodiscard]] std::size_t plans() const noexcept { return plans_; }
  [[nodiscard]] std::size_t planners() const noexcept { return planners_.size(); }
  [[nodiscard]] std::size_t homes_taken() const noexcept { return taken_; }

 private:
  // It is empty before somebody takes it.
  void seat(const Change& change, std::uint64_t& life) {
    if (change.erased) {
      life = 0;
      return;
    }
    EXPECT_EQ(life, 0U) << change.pair.key << " was taken from somebody";
    const auto record = read_seat(change.pair.value);
    ASSERT_TRUE(record) << record.error();
    life = record->life;
  }
  void plan_written(const PlanKey& key, const Change& change) {
    const auto plan = read_plan(key, change.pair.value);
    ASSERT_TRUE(plan) << plan.error();
    EXPECT_EQ(plan->facts, planner_) << "a plan of one who is not the planner";
    EXPECT_EQ(change.pair.created, change.pair.modified) << "a plan was written over";
    EXPECT_GT(key.number, epochs_[key.job]) << "an epoch that is behind";
    epochs_[key.job] = key.number;
    planners_.insert(planner_);
    ++plans_;
  }

  Keys keys_{"/tally"};
  std::size_t next_ = 0;
  std::uint64_t planner_ = 0;  // its life
  std::map<std::string, std::uint64_t> homes_{};
  std::map<std::string, std::uint32_t> epochs_{};
  std::set<std::uint64_t> planners_{};
  std::size_t plans_ = 0;
  std::size_t taken_ = 0;
};

class Life {
 public:
  explicit Life(std::uint64_t seed) : rng_(seed), bed_(seed ^ 0x5eedU) {
    const std::uint64_t boxes = rng_.between(2, 5);
    bed_.boxes.reserve(boxes);
    for (std::uint64_t i = 0; i < boxes; ++i) bed_.add(std::string(1, static_cast<char>('a' + i)));
    for (int i = 0; i < 3; ++i) bed_.give("j" + std::to_string(i));
    bed_.after_each_turn = [this] { turn(); };
  }

  void live() {
    for (int step = 0; step < 60; ++step) {
      blow();
      bed_.run(rng_.between(1, 40) * Member::kTurn);
      ASSERT_FALSE(::testing::Test::HasFatalFailure());
    }
    heal();
    ASSERT_TRUE(bed_.run_until([this] { return whole(); }, 60 * kSecond)) << state();
  }
  [[nodiscard]] const Historian& history() const noexcept { return history_; }
  [[nodiscard]] std::size_t fenced() const noexcept { return fenced_; }

 private:
  Bed::Box& any() { return bed_.boxes[rng_.below(bed_.boxes.size())]; }

  void blow() {
    Bed::Box& box = any();
    switch (rng_.below(12)) {
      case 0:
        Bed::kill(box);
        break;
      case 1:
        bed_.start(box);
        break;
      case 2:
        box.stopped = !box.stopped;
        break;
      case 3:
        box.store->faults.unreachable = !box.store->faults.unreachable;
        break;
      case 4:
        box.store->faults.delay = rng_.below(4) * kSecond;
        break;
      case 5:
        box.store->faults.lose_answer = rng_.chance(0.5) ? 0 : 0.3;
        break;
      case 6:
        box.store->faults.lose_request = rng_.chance(0.5) ? 0 : 0.3;
        break;
      case 7:  // it does not hear of it before its next keep-alive
        if (const auto at = bed_.server.pairs().find("/tally/planner"); at != bed_.server.pairs().end())
          bed_.server.end_lease(at->second.lease);
        break;
      case 8:
        bed_.server.freeze(rng_.chance(0.3));
        break;
      case 9:
        bed_.server.compact(bed_.server.revision());
        break;
      case 10:
        if (box.member) (void)box.member->declare({.name = "j" + std::to_string(rng_.below(3))}, bed_.now);
        break;
      default:
        if (box.member) (void)box.member->withdraw("j" + std::to_string(rng_.below(3)), bed_.now);
        break;
    }
  }

  // All that think they may plan do, with the next epoch of all jobs they know.
  void turn() {
    std::set<std::string> homes;
    for (Bed::Box& box : bed_.boxes) {
      for (const Outcome& outcome : box.outcomes)
        fenced_ += outcome.verdict == Outcome::Verdict::kFenced ? 1 : 0;
      box.outcomes.clear();
      if (!box.member || box.stopped || box.member->planner_since(bed_.now) == 0 || rng_.chance(0.8))
        continue;
      for (const auto& [name, job] : box.member->view().jobs()) {
        const auto newest = job.newest_plan();
        const std::uint32_t epoch = (newest ? newest->number : epochs_[name]) + 1;
        if (box.member->publish(plan_of(name, epoch, box.life), bed_.now))
          epochs_[name] = std::max(epochs_[name], epoch);
      }
    }
    history_.look(bed_.server);
  }

  void heal() {
    bed_.server.freeze(false);
    for (Bed::Box& box : bed_.boxes) {
      box.store->faults = {};
      box.stopped = false;
      if (!box.member) bed_.start(box);
    }
  }

  bool whole() {
    if (bed_.planners().size() != 1) return false;
    for (const Bed::Box& box : bed_.boxes) {
      const View& view = box.member->view();
      if (box.member->standing().kind != Standing::Kind::kMember || view.boxes().size() != bed_.boxes.size())
        return false;
      if (view.size() != bed_.server.pairs().size()) return false;
      for (const auto& [name, job] : view.jobs())
        if (job.record && (!job.home || bed_.homes(name).size() != 1)) return false;
    }
    return true;
  }
  std::string state() {
    std::string text = "planners: " + std::to_string(bed_.planners().size()) + "\n";
    for (const auto& [key, pair] : bed_.server.pairs()) text += key + " " + pair.value.substr(0, 80) + "\n";
    for (const Bed::Box& box : bed_.boxes)
      text += box.id + ": " + name_of(box.member->standing().kind) + " " + box.member->standing().text +
              ", keys " + std::to_string(box.member->view().size()) + ", boxes " +
              std::to_string(box.member->view().boxes().size()) + "\n";
    return text;
  }

  Rng rng_;
  Bed bed_;
  Historian history_;
  std::map<std::string, std::uint32_t> epochs_{};
  std::size_t fenced_ = 0;
};

TEST(FleetRandom, OnePlannerWritesAndEachHomeIsTakenOnce) {
  constexpr std::uint64_t kSeeds = 60 / TALLY_SEED_SHARE;
  std::size_t plans = 0;
  std::size_t fenced = 0;
  std::size_t handed_over = 0;
  std::size_t homes = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Life life(seed);
    life.live();
    if (::testing::Test::HasFailure()) return;
    plans += life.history().plans();
    fenced += life.fenced();
    handed_over += life.history().planners() > 1 ? 1 : 0;
    homes += life.history().homes_taken();
  }
  // Or it would not have been tried.
  EXPECT_GT(plans, 20 * kSeeds);
  EXPECT_GT(handed_over, kSeeds / 4);
  EXPECT_GT(homes, kSeeds);
  EXPECT_GT(fenced, kSeeds / 20);
  RecordProperty("plans", std::to_string(plans));
  std::printf("%zu plans, %zu fenced, %zu lives with several planners, %zu homes taken\n", plans, fenced,
              handed_over, homes);
}

}  // namespace
}  // namespace tally::fleet

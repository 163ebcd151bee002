// Random lives of a job of racks: loss and copies on both ways, workers that are restarted or fall silent, boxes that
// forget all or lose their data planes, slow cores, other windows, aborts. After every event what must always hold
// does; in the end, with everything healed, all workers are in one epoch.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "members_racks_support.h"
#include "tally/mix64.h"

namespace tally::members_test {
namespace {

struct Life {
  std::uint64_t state;
  Racks job{{2, 1, 3}};
  std::uint64_t loss = 0;  // percent
  std::vector<std::pair<std::size_t, Bytes>> copies_down{};
  std::vector<std::pair<std::size_t, Bytes>> copies_up{};
  std::set<std::uint16_t> silent{};
  // Of each box of a rack in its present life, the epochs that it told its workers; and those of former lives.
  std::vector<std::set<std::uint32_t>> former = std::vector<std::set<std::uint32_t>>(3);
  std::map<std::uint32_t, GenerationRecord> records{};  // by epoch
  std::size_t epochs = 0;
  std::map<std::uint16_t, std::size_t> seen{};
  std::map<std::uint32_t, std::uint32_t> window{};

  explicit Life(std::uint64_t seed) : state(mix64(seed)) {
    const auto way = [this](std::size_t, const Bytes&) { return below(100) >= loss; };
    job.up = way;
    job.down = way;
    for (RackWorker& w : job.all) w.instance = mix64(seed * 100 + w.number) | 1U;
  }

  std::uint64_t below(std::uint64_t n) { return mix64(state += 0x9e3779b97f4a7c15ULL) % n; }
  template <class List>
  auto& any_of(List& list) {
    return list[below(list.size())];
  }

  void step() {
    switch (below(16)) {
      case 0:
        loss = std::array<std::uint64_t, 4>{0, 10, 40, 90}.at(below(4));
        break;
      case 1:
        if (below(4) == 0) any_of(job.all).restart();
        break;
      case 2:
        if (below(3) == 0) forget(below(4));
        break;
      case 3:
        if (below(3) == 0) box(below(4)).members->restart_data_plane(job.now());
        break;
      case 4:
        if (below(4) == 0) silent.insert(any_of(job.all).number);
        break;
      case 5:
        silent.clear();
        break;
      case 6:
        if (below(2) == 0) (void)box(below(4)).members->resize("resnet", 16U << below(6), job.now());
        break;
      case 7: {
        RackWorker& w = any_of(job.all);
        if (below(4) == 0 && w.runs()) hear_after(w, w.abort("random"));
        break;
      }
      case 8: {
        RackWorker& w = any_of(job.all);
        if (w.runs()) w.next += static_cast<std::uint32_t>(below(1'000));
        if (w.runs() && below(8) == 0) w.next += 1U << 29U;
        break;
      }
      case 9:
        copy(job.went_down, [this](std::size_t rack, const Bytes& d) {
          job.racks[rack].members->receive(d, job.place_of_parent(), job.now());
        });
        break;
      case 10:
        copy(job.went_up, [this](std::size_t rack, const Bytes& d) {
          job.parent.members->receive(d, job.place_of(rack), job.now());
        });
        break;
      case 11:
        if (below(3) == 0) {
          Bench& slow = box(below(4));
          slow.cores_wait = !slow.cores_wait;
          slow.members->quiesced(slow.version, job.now());
        }
        break;
      default:
        live(std::array<TimeNs, 4>{50 * kMillisecond, kSecond, 3 * kSecond, 12 * kSecond}.at(below(4)));
    }
    job.run();
    check();
  }

  Bench& box(std::size_t b) { return b < 3 ? job.racks[b] : job.parent; }

  void forget(std::size_t b) {
    if (b < 3) {
      for (const RackWorker& w : job.all)
        if (w.rack == b) former[b].insert(w.epochs.begin(), w.epochs.end());
    }
    job.forget(box(b));
  }

  void hear_after(RackWorker& w, const Bytes& d) {
    if (below(100) >= loss) job.say(w, d);
  }

  template <class Deliver>
  void copy(const std::vector<std::pair<std::size_t, Bytes>>& went, Deliver deliver) {
    if (went.empty()) return;
    for (int i = 0; i < 5; ++i) {
      const auto [rack, d] = went[below(went.size())];
      deliver(rack, d);
    }
  }

  void live(TimeNs time) {
    for (const TimeNs end = job.now() + time; job.now() < end;) {
      for (RackWorker& w : job.all) {
        if (silent.contains(w.number)) continue;
        hear_after(w, w.runs() ? w.heartbeat() : w.join());
        check();
      }
      for (std::size_t b = 0; b < 4; ++b)
        if (box(b).cores_wait && below(2) == 0) box(b).members->quiesced(box(b).version, job.now());
      job.wait(std::min(end - job.now(), kSecond / 2));
    }
  }

  void check() {
    for (RackWorker& w : job.all) {
      for (std::size_t& known = seen[w.number]; known < w.epochs.size(); ++known) {
        const std::uint32_t epoch = w.epochs[known];
        ++epochs;
        // An epoch is of one generation, to all workers of all racks.
        const auto [is, anew] = records.emplace(epoch, w.last);
        ASSERT_EQ(is->second, w.last) << w.number;
        // The box of a rack that was restarted tells none that it told before.
        ASSERT_FALSE(former[w.rack].contains(epoch)) << w.number;
        // What the worker was told is what the cores of its box have, and all its rack.
        const jobs::NativeJob* const row = job.row(w.rack);
        if (row != nullptr && raw(row->epoch) == epoch) {
          ASSERT_EQ(row->ranks[w.rank].binding, w.binding);
          ASSERT_EQ(raw(row->generation), w.last.generation.host());
          ASSERT_LE(row->window, row->parent.window);
          ASSERT_TRUE(row->racked);
        }
      }
    }
    for (std::size_t r = 0; r < 3; ++r) {
      const auto s = job.status(r);
      // An epoch at a rack was begun by its parent, whose room for it is no smaller.
      if (s.epoch != Epoch{} && s.epoch == job.status_of_parent().epoch) {
        ASSERT_EQ(s.generation, job.status_of_parent().generation);
        ASSERT_LE(s.window, job.status_of_parent().window);
      }
      ASSERT_TRUE(s.phase != members::JobPhase::kRunning || s.epoch != Epoch{});
    }
    if (job.went_down.size() > 300) job.went_down.erase(job.went_down.begin(), job.went_down.begin() + 100);
    if (job.went_up.size() > 300) job.went_up.erase(job.went_up.begin(), job.went_up.begin() + 100);
  }

  void heal() {
    loss = 0;
    silent.clear();
    for (std::size_t b = 0; b < 4; ++b) {
      box(b).cores_wait = false;
      box(b).members->quiesced(box(b).version, job.now());
    }
    live(60 * kSecond);
  }
};

constexpr std::uint64_t kSeeds = 12 / TALLY_SEED_SHARE + 1;

TEST(MembersRacksRandom, WhatMustHoldHoldsAndTheJobHeals) {
  std::size_t epochs = 0;
  std::size_t aborts = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Life life(seed);
    for (int i = 0; i < 150 && !testing::Test::HasFatalFailure(); ++i) life.step();
    if (testing::Test::HasFatalFailure()) return;
    life.heal();
    if (testing::Test::HasFatalFailure()) return;
    ASSERT_EQ(life.job.running(), life.job.all.size());
    life.job.expect_one_epoch();
    epochs += life.epochs;
    for (const RackWorker& w : life.job.all) aborts += w.told.empty() ? 0 : 1;
  }
  // It is a life, and not a failure to join.
  EXPECT_GT(epochs, 20 * kSeeds);
  EXPECT_GT(aborts, 0U);
}

}  // namespace
}  // namespace tally::members_test

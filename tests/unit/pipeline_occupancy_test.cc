// Occupancy is exact to the slot, whatever jobs do: they come, claim, are killed with their entries filling,
// change their epoch, and are swapped, swept and completed in the meantime.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "rng.h"
#include "shared_core.h"

namespace tally {
namespace {

constexpr std::array kDisciplines{Discipline::kShared, Discipline::kFcfs, Discipline::kPreemptive};

class Occupancy : public SharedCore<pipeline::Fused> {
 protected:
  static constexpr std::uint16_t kIds = 6;
  static constexpr std::uint32_t kEntries = 24;

  // The id begins another life, or its next epoch. Of what was before only the ledger is wiped.
  void join(std::uint16_t id) {
    if (rows_[id]) release_ledger(id);
    rows_[id] = kinds_[id][rng_.below(kKinds)];
    rows_[id]->epoch = Epoch{++last_epoch_};
    cap(*rows_[id], static_cast<std::uint32_t>(rng_.chance(0.5) ? kEntries : 4));
    adopt(table_->with(JobId{id}, std::make_shared<const jobs::NativeJob>(*rows_[id])));
  }
  void release_ledger(std::uint16_t id) {
    if (rows_[id]->discipline == Discipline::kShared)
      pipeline_->release(rows_[id]->id, rows_[id]->slots, 0, rows_[id]->members);
  }
  void leave(std::uint16_t id) {
    release_ledger(id);
    adopt(table_->with(JobId{id}, {}));
    rows_[id].reset();
  }
  void make_kinds() {
    for (std::uint16_t id = 1; id <= kIds; ++id) {
      for (std::uint32_t kind = 0; kind < kKinds; ++kind) {
        const jobs::NativeJob job = make_job({.id = id,
                                              .epoch = 1,
                                              .world = 2,
                                              .first_line = (id - 1U) * 64,
                                              .discipline = kDisciplines[kind % 3],
                                              .reserved = kind / 3,
                                              .shared_slots = kEntries});
        kinds_[id].push_back(job);
      }
    }
  }
  void contribute(std::uint16_t id) {
    const jobs::NativeJob& job = *rows_[id];
    const auto rank = static_cast<std::uint32_t>(rng_.below(2));
    if (rng_.chance(0.1)) cap(job, static_cast<std::uint32_t>(rng_.below(kEntries)));  // and no new row
    const auto most = std::max(table_->cap(job.id), occupancy(job));
    send(job, rank, Chunk{static_cast<std::uint32_t>(rng_.below(8))},
         {.priority = static_cast<std::uint8_t>(rng_.below(255)),
          .flags = static_cast<std::uint8_t>(rng_.chance(0.05) ? kFlagDirect : 0),
          .corrupt = rng_.chance(0.01)});
    ASSERT_LE(occupancy(job), most) << "rose at the cap";
  }
  // All jobs here have two ranks.
  void check() {
    std::array<std::uint32_t, kIds + 1> counted{};
    std::uint32_t all = 0;
    for (std::uint32_t i = 0; i < kEntries; ++i) {
      const pipeline::Head h = head(i);
      const bool filling = h.tag != 0 && h.contributors != 0b11;
      ASSERT_EQ(filling, pipeline_->shared().filling(i)) << "entry " << i;
      if (!filling) continue;
      ++counted.at(peek<pipeline::OwnerReg>(region_.line_of(i)).job);
      ++all;
    }
    ASSERT_EQ(pipeline_->shared().filling(), all);
    for (std::uint16_t id = 1; id <= kIds; ++id)
      ASSERT_EQ(pipeline_->state(JobId{id}).occupancy, counted[id]) << "job " << id;
  }

  static constexpr std::uint32_t kKinds = 6;
  Rng rng_{11};
  std::array<std::vector<jobs::NativeJob>, kIds + 1> kinds_;
  std::array<std::optional<jobs::NativeJob>, kIds + 1> rows_;
  std::uint32_t last_epoch_ = 100;
};

TEST_F(Occupancy, is_exact_after_a_million_cycles_of_join_leave_and_kill) {
  constexpr int kCycles = 1'000'000 / TALLY_SEED_SHARE;
  start(kEntries, 16);
  make_kinds();
  for (int i = 0; i < kCycles; ++i) {
    const auto id = static_cast<std::uint16_t>(rng_.between(1, kIds));
    join(id);  // over a living one: a new epoch; over a dead one: id reuse
    for (std::uint64_t n = rng_.below(3); n > 0; --n) ASSERT_NO_FATAL_FAILURE(contribute(id));
    if (rng_.chance(0.3)) leave(id);
    now_ += 200 * kMicrosecond;
    if (rng_.chance(0.2)) sweep();
    if (i % 1000 != 0) continue;
    ASSERT_NO_FATAL_FAILURE(check());
  }
  for (std::uint16_t id = 1; id <= kIds; ++id) {
    if (rows_[id]) leave(id);
  }
  ASSERT_NO_FATAL_FAILURE(check());
  now_ += kSecond;
  while (sweep()) continue;
  for (std::uint16_t id = 1; id <= kIds; ++id) EXPECT_EQ(pipeline_->state(JobId{id}).occupancy, 0U);
  EXPECT_EQ(pipeline_->shared().filling(), 0U);
}

}  // namespace
}  // namespace tally

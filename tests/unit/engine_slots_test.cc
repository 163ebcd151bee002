// Where a chunk lies: slot and shard of each discipline, and what is sent and believed by them.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {
namespace {

using Slots = std::vector<std::uint32_t>;

// Chunks 2^32 - 3 .. 2^32 - 1, 0, 1, 2 of job 7 with window 16, largest window 32, 1,000 shared slots and
// this salt. The hashed slots come from another program (Python, docs/protocol.md).
JobShape rack_of(Discipline discipline) {
  JobShape shape;
  shape.largest_window = 32;
  shape.first_chunk = 0xFFFFFFFD;
  shape.shards = 3;
  shape.discipline = discipline;
  shape.shared_slots = 1000;
  shape.salt = 0x0123456789abcdef;
  return shape;
}
const Slots kPoolSlots{13, 14, 15, 0, 1, 2};
const Slots kSharedSlots{61, 62, 63, 0, 1, 2};
const Slots kHashedSlots{451, 196, 93, 781, 827, 355};

struct SlotsOf {
  Discipline discipline;
  const Slots& slots;
};
const std::vector<SlotsOf>& disciplines() {
  static const std::vector<SlotsOf> all{{Discipline::kPool, kPoolSlots},
                                        {Discipline::kShared, kSharedSlots},
                                        {Discipline::kFcfs, kHashedSlots},
                                        {Discipline::kPreemptive, kHashedSlots}};
  return all;
}

// Sends six chunks, a barrier each. A job of one rank waits for nobody, so results are made at once.
std::vector<Out> six(engine::WorkerEngine& engine, const Box& box) {
  std::vector<Out> sent;
  for (int i = 0; i < 6; ++i) {
    (void)engine.barrier(0);
    for (const Out& out : drain(engine, 0)) {
      sent.push_back(out);
      engine.receive(box.result_of(out.bytes), 0);
    }
  }
  return sent;
}

TEST(Slots, OfEachDisciplineOverTheWrapOfTheNumbers) {
  for (const auto& [discipline, slots] : disciplines()) {
    JobShape shape = rack_of(discipline);
    shape.world = 1;
    const Box box(shape);
    const auto engine = joined_engine(box, options_of(shape, 0));
    const auto sent = six(*engine, box);
    ASSERT_EQ(sent.size(), 6U);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const Header h = header_of(sent[i].bytes);
      EXPECT_EQ(h.chunk.host(), 0xFFFFFFFD + i - (i < 3 ? 0 : 0x100000000));
      EXPECT_EQ(box.slot_of(h.chunk.host()), slots[i])
          << "discipline " << static_cast<int>(discipline) << ", " << i;
      EXPECT_EQ(sent[i].port, kBasePort + slots[i] % 3);
    }
    EXPECT_EQ(engine->statistics().results, 6U) << "with these slots";
  }
}

TEST(Slots, TheHashUsesAllBitsOfJobAndSlots) {
  JobShape shape = rack_of(Discipline::kFcfs);
  shape.world = 1;
  shape.shared_slots = 0xFFFFFFFF;
  shape.shards = 64;
  Box box(shape);
  box.job = 1024;
  const auto engine = joined_engine(box, options_of(shape, 0));
  Slots seen;
  for (const Out& out : six(*engine, box)) {
    seen.push_back(box.slot_of(header_of(out.bytes).chunk.host()));
    EXPECT_EQ(out.port, kBasePort + seen.back() % 64);
  }
  EXPECT_EQ(engine->statistics().results, 6U) << "with these slots";
  EXPECT_EQ(seen, (Slots{2994273506, 837368639, 2515734718, 4029370810, 2407708060, 3801007993}));
}

TEST(Slots, AsManySharedSlotsAsShardsAreEnough) {
  JobShape shape = rack_of(Discipline::kPreemptive);
  shape.shared_slots = shape.shards;
  const Box box(shape);
  const auto engine = joined_engine(box, options_of(shape, 0));
  const engine::Membership& m = *engine->membership();
  EXPECT_EQ(m.discipline, Discipline::kPreemptive);
  EXPECT_EQ(m.shared_slots, 3U);
  EXPECT_EQ(m.salt, shape.salt);
}

// A new epoch has another salt and may have another window: the box checks every slot of every packet.
TEST(Slots, SumsOverTheWrapWithLossAndANewSalt) {
  for (const auto& [discipline, slots] : disciplines()) {
    Rig rig(rack_of(discipline));
    std::mt19937_64 random(21);
    rig.lose = [&](bool, std::uint16_t, const Header&) { return random() % 100 < 15; };
    std::vector<float> a(32 * 200, 1.5F);
    auto b = a;
    const auto id = *rig[0].allreduce(std::span<float>(a), 0);
    (void)rig[1].allreduce(std::span<float>(b), 0);
    ASSERT_TRUE(rig.run_until([&] { return rig[0].statistics().results > 60; }));
    rig.box.shape.salt ^= 0xFFFF;
    rig.box.shape.window = 32;
    rig.box.restart();
    for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
    for (const float y : a) ASSERT_EQ(y, 3.0F);
    EXPECT_EQ(a, b);
    EXPECT_GT(rig.box.queries, 0U) << "whose slots are checked";
  }
}

}  // namespace
}  // namespace tally::testbed

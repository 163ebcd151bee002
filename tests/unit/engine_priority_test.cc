// The priority byte: class of the operation or of the worker, and how little the operation has left.
#include <gtest/gtest.h>

#include <vector>

#include "engine/engine_operation.h"
#include "engine_testbed.h"

namespace tally::testbed {
namespace {

using Priorities = std::vector<int>;

TEST(Urgency, FallsFourStepsWithEachDoubling) {
  const std::vector<std::pair<std::uint64_t, std::uint32_t>> expected{
      {1, 63},    {2, 59},    {3, 57},    {4, 55},    {5, 54},         {6, 53},
      {7, 52},    {8, 51},    {9, 51},    {10, 50},   {1024, 23},      {32768, 3},
      {40960, 2}, {49152, 1}, {57343, 1}, {57344, 0}, {1ULL << 40, 0}, {0, 63}};
  for (const auto& [left, steps] : expected) EXPECT_EQ(engine::urgency(left), steps) << left;
  for (std::uint64_t left = 1; left < 100'000; ++left)
    ASSERT_GE(engine::urgency(left), engine::urgency(left + 1)) << left;
}

TEST(Urgency, KeepsItsOrderBelowAnyMaximum) {
  for (unsigned maximum = 0; maximum <= 254; ++maximum) {
    const auto of = [&](Priority chosen, std::uint64_t left) {
      return engine::packet_priority(chosen, 254, static_cast<std::uint8_t>(maximum), left);
    };
    EXPECT_EQ(of({}, 1), maximum) << "the box has nothing to lower";
    EXPECT_EQ(of({}, 1 << 20), maximum & 0xC0);
    for (std::uint64_t left = 1; left < 70'000; left += left / 8 + 1)
      ASSERT_GE(of({}, left), of({}, left + left / 8 + 1)) << maximum;
    for (int c = 0; c <= 3; ++c) {
      EXPECT_EQ(of(Priority::in_class(c), 1),
                std::min<unsigned>(64U * static_cast<unsigned>(c) + 63, maximum));
      EXPECT_EQ(of(Priority::in_class(c), 1 << 20) >> 6,
                std::min<unsigned>(static_cast<unsigned>(c), maximum >> 6));
    }
    EXPECT_EQ(of(Priority::exactly(170), 1), 170);
    EXPECT_EQ(of(Priority::exactly(170), 1 << 20), 170);
  }
}

// A job of one rank by hand. Integers: as many chunks as packets.
class OnTheWire : public testing::Test {
 protected:
  void join(std::uint8_t of_worker, std::uint8_t maximum) {
    JobShape shape;
    shape.world = 1;
    shape.max_priority = maximum;
    box_ = std::make_unique<Box>(shape);
    engine::EngineOptions options = options_of(shape, 0);
    options.priority = of_worker;
    engine_ = joined_engine(*box_, options);
  }
  Priorities send(Priority chosen, std::size_t chunks) {
    values_.assign(32 * chunks, 1);
    const auto issued = engine_->allreduce(std::span<std::int32_t>(values_), now_, {.priority = chosen});
    EXPECT_TRUE(issued);
    return due();
  }
  Priorities due() {
    Priorities priorities;
    sent_ = drain(*engine_, now_);
    for (const Out& out : sent_) priorities.push_back(header_of(out.bytes).priority);
    return priorities;
  }
  void answer(std::size_t first) {
    for (std::size_t i = first; i < sent_.size(); ++i)
      engine_->receive(box_->result_of(sent_[i].bytes), now_);
  }
  std::unique_ptr<Box> box_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  std::vector<std::int32_t> values_;
  std::vector<Out> sent_;
  TimeNs now_ = 0;
};

TEST_F(OnTheWire, TheDefaultIsTheHighestClassAndNever255) {
  join(254, 0);
  EXPECT_EQ(send({}, 1), Priorities{254});
  answer(0);
  EXPECT_EQ(send({}, 4), Priorities(4, 192 + 55 * 63 / 64));
}

TEST_F(OnTheWire, WhatIsLeftCountsAlsoForWhatIsSentAgain) {
  join(100, 0);  // class 1
  EXPECT_EQ(send({}, 20), Priorities(16, 64 + 46)) << "20 chunks left; the window holds 16";
  answer(4);
  const std::vector<Out> first(sent_.begin(), sent_.begin() + 4);
  EXPECT_EQ(due(), Priorities(4, 64 + 51)) << "8 left; the first four are overtaken";
  sent_ = first;
  answer(0);
  EXPECT_EQ(due(), Priorities(4, 64 + 55)) << "4 left";
}

TEST_F(OnTheWire, AnOperationMayHaveAClassOrAValue) {
  join(100, 0);
  const std::vector<std::pair<Priority, int>> expected{
      {Priority::in_class(0), 63}, {Priority::in_class(2), 191}, {Priority::in_class(3), 254}, {{}, 127},
      {Priority::exactly(0), 0},   {Priority::exactly(254), 254}};
  for (const auto& [chosen, byte] : expected) {
    EXPECT_EQ(send(chosen, 1), Priorities{byte});
    answer(0);
  }
}

TEST_F(OnTheWire, TheJobsMaximumBoundsClasses) {
  join(254, 100);
  EXPECT_EQ(send({}, 1), Priorities{100});
  answer(0);
  EXPECT_EQ(send({}, 8), Priorities(8, 64 + 51 * 37 / 64)) << "the urgency of 8 chunks, scaled to 0..36";
  answer(0);
  EXPECT_EQ(send(Priority::in_class(0), 1), Priorities{63});
}

TEST_F(OnTheWire, AQueryCarriesIt) {
  JobShape shape;
  const Box box(shape);
  const auto engine = joined_engine(box, options_of(shape, 0));
  (void)engine->barrier(0, {.priority = Priority::in_class(1)});
  for (TimeNs now = 0; now < 5 * kSecond; now = engine->deadline()) {
    for (const Out& out : drain(*engine, now)) {
      const Header h = header_of(out.bytes);
      if (is_control(h.type)) continue;
      EXPECT_EQ(h.priority, 127);
      if (h.type == PacketType::kQuery) return;
    }
  }
  FAIL() << "no QUERY";
}

TEST_F(OnTheWire, ImpossibleOnesAreRefusedByName) {
  join(254, 0);
  const std::vector<std::pair<Priority, std::string>> bad{
      {Priority::in_class(4), "priority: class 4 is not in 0..3"},
      {Priority::in_class(-1), "priority: class -1 is not in 0..3"},
      {Priority::exactly(255), "priority: 255 is not in 0..254"},
      {Priority::exactly(-1), "priority: -1 is not in 0..254"},
      {Priority::exactly(1 << 20), "priority: 1048576 is not in 0..254"}};
  for (const auto& [chosen, text] : bad) {
    const auto refused = engine_->barrier(0, {.priority = chosen});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().what, text);
  }
  EXPECT_EQ(engine_->pending_operations(), 0U);
}

}  // namespace
}  // namespace tally::testbed

// What a member knows of its fleet: records in the order of the store, and bad ones named, counted and not used.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fleet/view.h"
#include "fleet_bed.h"

namespace tally::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Change put(const std::string& key, const std::string& value, Revision at, LeaseId lease = 7) {
  return {false, {key, value, at, at, lease}};
}
Change gone(const std::string& key, Revision at) { return {true, {.key = key, .modified = at}}; }

std::vector<std::string> texts(View& view) {
  std::vector<std::string> all;
  for (const Note& note : view.take_notes()) all.push_back(note.text);
  return all;
}

TEST(FleetView, FollowsTheStore) {
  View view("/tally");
  view.reset({}, 1);
  view.apply({put("/tally/box/a", text_of(box_record("a", 1)), 2),
              put("/tally/job/j", text_of(JobRecord{.name = "j"}), 3),
              put("/tally/job/j/home", text_of(SeatRecord{"a", 1}), 4),
              put("/tally/plan/j/0000000001", text_of(plan_of("j", 1)), 5),
              put("/tally/planner", text_of(SeatRecord{"a", 1}), 6)},
             6);
  EXPECT_EQ(view.revision(), 6);
  EXPECT_EQ(view.boxes().at("a").record.cores, 4U);
  EXPECT_EQ(view.jobs().at("j").home->record.box, "a");
  EXPECT_EQ(view.jobs().at("j").newest_plan()->number, 1U);
  EXPECT_EQ(view.planner()->created, 6);
  EXPECT_THAT(texts(view), ElementsAre("box a is there", "job j is declared", "the home of job j is box a",
                                       "job j has plan 1", "box a is the planner"));
  view.apply({gone("/tally/planner", 7), gone("/tally/job/j/home", 7), gone("/tally/box/a", 7)}, 7);
  EXPECT_FALSE(view.planner());
  EXPECT_FALSE(view.planner_taken());
  EXPECT_FALSE(view.jobs().at("j").home);
  EXPECT_THAT(view.boxes(), IsEmpty());
  EXPECT_THAT(texts(view), ElementsAre("box a is the planner no longer", "job j has lost its home, box a",
                                       "box a is gone"));
  view.apply({gone("/tally/job/j", 8), gone("/tally/plan/j/0000000001", 8)}, 8);
  EXPECT_THAT(view.jobs(), IsEmpty());
  EXPECT_EQ(view.size(), 0U);
}

TEST(FleetView, ABadRecordIsNamedIgnoredAndCounted) {
  View view("/tally");
  view.reset({}, 1);
  view.apply({put("/tally/box/a", text_of(box_record("a", 1)), 2)}, 2);
  texts(view);
  view.apply({put("/tally/box/a", "{}", 3)}, 3);
  EXPECT_THAT(view.boxes(), IsEmpty());
  EXPECT_EQ(view.bad().at("/tally/box/a"), "format is missing");
  EXPECT_EQ(view.bad_total(), 1U);
  EXPECT_THAT(texts(view),
              ElementsAre("box a is gone", "the record /tally/box/a is ignored: format is missing"));
  view.apply({put("/tally/box/a", text_of(box_record("a", 1)), 4)}, 4);
  EXPECT_EQ(view.boxes().size(), 1U);
  EXPECT_THAT(view.bad(), IsEmpty());
  EXPECT_EQ(view.bad_total(), 1U);
  view.apply({put("/tally/what\n", "x", 5), put("/tally/planner", "x", 6), put("/tally/job/j/home", "x", 7)},
             7);
  EXPECT_EQ(view.bad_total(), 4U);
  EXPECT_THAT(texts(view)[1], HasSubstr("the record /tally/what"));
  EXPECT_TRUE(view.planner_taken());
  EXPECT_TRUE(view.jobs().at("j").bad_home);
  view.apply({gone("/tally/job/j/home", 8)}, 8);
  EXPECT_THAT(view.jobs(), IsEmpty());
}

TEST(FleetView, ABoxUnderNoLeaseIsNone) {
  View view("/tally");
  view.reset({{"/tally/box/a", text_of(box_record("a", 1)), 2, 2, 0}}, 2);
  EXPECT_THAT(view.boxes(), IsEmpty());
  EXPECT_EQ(view.bad().at("/tally/box/a"), "it is under no lease");
}

TEST(FleetView, AStoreFullOfBadRecordsDoesNotFloodTheLog) {
  View view("/tally");
  std::vector<Pair> pairs;
  for (int i = 0; i < 1000; ++i) pairs.push_back({"/tally/rubbish/" + std::to_string(i), "x", 2, 2, 0});
  view.reset(pairs, 2);
  EXPECT_EQ(view.bad_total(), 1000U);
  EXPECT_EQ(view.bad().size(), 1000U);
  EXPECT_EQ(texts(view).size(), 32U);
}

TEST(FleetView, MoreBoxesThanAPlanCanNameAreNone) {
  View view("/tally");
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < kMostBoxes + 1; ++i)
    pairs.push_back({"/tally/box/b" + std::to_string(i), text_of(box_record("b", i + 1)), 2, 2, 7});
  view.reset(pairs, 2);
  EXPECT_EQ(view.boxes().size(), kMostBoxes);
  ASSERT_EQ(view.bad().size(), 1U);
  EXPECT_EQ(view.bad().begin()->second, "the fleet has 64 boxes already");
}

TEST(FleetView, ABoxForWhichThereWasNoRoomIsThereOnceThereIs) {
  View view("/tally");
  const auto pair_of = [](std::size_t i) {
    return Pair{"/tally/box/b" + std::to_string(i), text_of(box_record("b", i + 1)), 2, 2, 7};
  };
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < kMostBoxes + 2; ++i) pairs.push_back(pair_of(i));
  view.reset(pairs, 2);
  ASSERT_EQ(view.bad().size(), 2U);
  texts(view);
  view.apply({{true, {.key = "/tally/box/b3"}}}, 3);
  EXPECT_EQ(view.boxes().size(), kMostBoxes);
  EXPECT_EQ(view.bad().size(), 1U);
  EXPECT_TRUE(view.boxes().contains("b64"));
  EXPECT_THAT(texts(view), ElementsAre("box b3 is gone", "box b64 is there"));
  // One that went while it waited does not come.
  view.apply({{true, {.key = "/tally/box/b65"}}, {true, {.key = "/tally/box/b4"}}}, 4);
  EXPECT_EQ(view.boxes().size(), kMostBoxes - 1);
  EXPECT_THAT(view.bad(), IsEmpty());
  // A record that is none any more makes room as well.
  view.apply({{false, pair_of(4)}, {false, pair_of(3)}}, 5);
  ASSERT_EQ(view.bad().size(), 1U);
  view.apply({{false, {"/tally/box/b5", "x", 2, 6, 7}}}, 6);
  EXPECT_TRUE(view.boxes().contains("b3"));
  EXPECT_FALSE(view.boxes().contains("b5"));
}

TEST(FleetView, ReadAnewIsWhatWatchingWouldHaveBeen) {
  View view("/tally");
  view.reset({{"/tally/box/a", text_of(box_record("a", 1)), 2, 2, 7},
              {"/tally/box/b", text_of(box_record("b", 2)), 3, 3, 8},
              {"/tally/rubbish", "x", 4, 4, 0}},
             4);
  texts(view);
  view.reset({{"/tally/box/b", text_of(box_record("b", 2)), 3, 3, 8},
              {"/tally/box/c", text_of(box_record("c", 3)), 9, 9, 9}},
             9);
  EXPECT_THAT(texts(view), ElementsAre("box a is gone", "box c is there"));
  EXPECT_THAT(view.bad(), IsEmpty());
  EXPECT_EQ(view.size(), 2U);
}

}  // namespace
}  // namespace tally::fleet

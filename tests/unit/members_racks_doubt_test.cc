// A parent that does not answer for half a lease is asked again, out of the epoch that the rack has: it loses nothing by
// that, whether its workers were told of the epoch or not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "members_racks_support.h"

namespace tally::members_test {
namespace {

using members::ParentState;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct MembersRacksInDoubt : testing::Test, Racks {
  MembersRacksInDoubt() : Racks({2, 3}) {}

  void lose_all() {
    up = down = [](std::size_t, const Bytes&) { return false; };
  }
  void heal() {
    up = down = [](std::size_t, const Bytes&) { return true; };
  }
  // The parent knows that rack 1 is in the epoch, and rack 1 does not know that it does.
  void form_without_echoes() {
    down = [](std::size_t rack, const Bytes& d) {
      return rack != 1 || type_of(d) != PacketType::kHeartbeat;
    };
    EXPECT_FALSE(form());
    EXPECT_EQ(running(), 2U);
  }
  // JOINs of rack 1 that say that it is in the epoch.
  [[nodiscard]] std::size_t asked_out_of(std::uint32_t epoch) const {
    return static_cast<std::size_t>(std::ranges::count_if(went_up, [epoch](const auto& one) {
      return one.first == 1 && type_of(one.second) == PacketType::kJoin &&
             wire_at<Header>(one.second.data()).epoch.host() == epoch;
    }));
  }
};

// Also in the first epoch of a generation, of which the workers' own JOINs knew nothing.
TEST_F(MembersRacksInDoubt, ARefusalWithoutTagEndsNoJobOfWhichTheParentIsInDoubt) {
  ASSERT_TRUE(form());
  down = [](std::size_t, const Bytes& d) { return type_of(d) == PacketType::kJoined; };
  ASSERT_TRUE(parent.members->withdraw("resnet"));
  pass(8 * kSecond);
  ASSERT_GE(count_in(went_down, PacketType::kJoined), 1U);
  EXPECT_EQ(running(), 5U);
  EXPECT_THAT(told(), Each(IsEmpty()));
  EXPECT_EQ(status(0).racks->state, ParentState::kDoubted);
}

TEST_F(MembersRacksInDoubt, ARefusalWithoutTagEndsNoEpochOfWhichNobodyWasToldYet) {
  form_without_echoes();
  down = [](std::size_t, const Bytes& d) {
    return type_of(d) == PacketType::kJoined || type_of(d) == PacketType::kChallenge;
  };
  ASSERT_TRUE(parent.members->withdraw("resnet"));
  pass(8 * kSecond);
  ASSERT_GE(count_in(went_down, PacketType::kJoined), 1U);
  EXPECT_EQ(all[4].told, "");
  EXPECT_THAT(status(1).racks->told, HasSubstr("is not declared on this box"));
  pass(8 * kSecond);
  EXPECT_THAT(all[4].told, HasSubstr("is not declared on this box")) << "the epoch has ended with its lease";
}

TEST_F(MembersRacksInDoubt, HalfALeaseOfSilenceIsAskedAboutAndTheWorkersGoOn) {
  ASSERT_TRUE(form());
  const std::uint32_t epoch = all[0].epoch;
  down = [](std::size_t, const Bytes& d) { return type_of(d) != PacketType::kHeartbeat; };
  went_up.clear();
  pass(30 * kSecond);
  EXPECT_EQ(running(), 5U);
  EXPECT_EQ(all[0].epoch, epoch);
  EXPECT_GE(count_in(went_up, PacketType::kJoin), 8U);
  for (const auto& [rack, d] : went_up) {
    EXPECT_TRUE(type_of(d) != PacketType::kJoin || wire_at<Header>(d.data()).epoch.host() == epoch);
  }
  expect_one_epoch();
}

class MembersRacksInDoubtFrom : public MembersRacksInDoubt, public testing::WithParamInterface<std::uint32_t> {};

TEST_P(MembersRacksInDoubtFrom, ARackWhoseWorkersWereNotToldYetHasLostNothing) {
  auto from = config({});
  from.first_chunk = Chunk{GetParam()};
  ASSERT_TRUE(parent.members->change(from, now()));
  form_without_echoes();
  const std::uint32_t epoch = all[0].epoch;
  pass(30 * kSecond);
  EXPECT_GE(asked_out_of(epoch), 4U);
  EXPECT_EQ(status(1).racks->state, ParentState::kJoining);
  EXPECT_EQ(running(), 2U);
  heal();
  pass(2 * kSecond);
  EXPECT_THAT(told(), Each(IsEmpty()));
  for (const RackWorker& w : all) EXPECT_THAT(w.epochs, ElementsAre(epoch)) << w.number;
  expect_one_epoch();
}

INSTANTIATE_TEST_SUITE_P(FirstChunks, MembersRacksInDoubtFrom, testing::Values(0U, 1'000U, 0xFFFF'FFFDU));

TEST_F(MembersRacksInDoubt, AGenerationOfWhichARackDidNotTellYetOutlivesTheParent) {
  form_without_echoes();
  const GenerationRecord record = all[0].last;
  pass(6 * kSecond);
  forget(parent);
  heal();
  pass(8 * kSecond);
  EXPECT_THAT(told(), Each(IsEmpty()));
  EXPECT_EQ(all[4].last, record);
  EXPECT_EQ(all[0].epochs.size(), 2U);
  expect_one_epoch();
}

// ... as it does when all are called back.
TEST_F(MembersRacksInDoubt, AGenerationOfWhichARackDidNotTellYetOutlivesACall) {
  form_without_echoes();
  const GenerationRecord record = all[0].last;
  parent.members->restart_data_plane(now());
  heal();
  pass(3 * kSecond);
  EXPECT_THAT(told(), Each(IsEmpty()));
  EXPECT_EQ(all[4].last, record);
  EXPECT_EQ(all[0].epochs.size(), 2U);
  expect_one_epoch();
}

TEST_F(MembersRacksInDoubt, WorkersThatWereNotToldAreNotRefusedForAGenerationThatCannotGoOn) {
  form_without_echoes();
  const GenerationRecord record = all[0].last;
  pass(6 * kSecond);
  forget(parent);
  up = [](std::size_t rack, const Bytes&) { return rack == 1; };  // the other rack does not come back
  down = [](std::size_t, const Bytes&) { return true; };
  pass(20 * kSecond);
  EXPECT_THAT(all[0].told, HasSubstr("was silent for"));
  for (std::size_t w = 2; w < 5; ++w) EXPECT_EQ(all[w].told, "") << w;
  heal();
  pass(5 * kSecond);
  EXPECT_EQ(running(), 5U);
  EXPECT_NE(all[0].last, record);
  expect_one_epoch();
}

TEST_F(MembersRacksInDoubt, AfterALeaseAnEpochOfWhichNobodyWasToldIsGivenUpAndItsWorkersWait) {
  form_without_echoes();
  const std::uint32_t epoch = all[0].epoch;
  up = down = [](std::size_t rack, const Bytes&) { return rack == 0; };
  pass(25 * kSecond);
  EXPECT_THAT(all[0].told, HasSubstr("rack 1 at 10.9.1.1 was silent for"));
  for (std::size_t w = 2; w < 5; ++w) EXPECT_EQ(all[w].told, "") << w;
  const std::size_t asked = asked_out_of(epoch);
  EXPECT_GE(asked, 1U);
  pass(10 * kSecond);
  EXPECT_EQ(asked_out_of(epoch), asked);
  heal();
  pass(5 * kSecond);
  EXPECT_EQ(running(), 5U);
  expect_one_epoch();
}

TEST_F(MembersRacksInDoubt, AParentThatForgotCostsOneEpoch) {
  ASSERT_TRUE(form());
  lose_all();
  pass(6 * kSecond);
  forget(parent);
  went_down.clear();
  heal();
  pass(8 * kSecond);
  for (const RackWorker& w : all) EXPECT_EQ(w.epochs.size(), 2U) << w.number;
  for (const auto& [rack, d] : went_down) {
    if (type_of(d) != PacketType::kJoined) continue;
    const std::uint32_t epoch = wire_at<Header>(d.data()).epoch.host();
    EXPECT_TRUE(epoch == 0 || epoch == all[0].epoch) << "another one was begun, in vain";
  }
  expect_one_epoch();
}

// The cores of its box do not have the row yet.
TEST_F(MembersRacksInDoubt, AnEpochThatWasOvertakenIsNotToldAnyMore) {
  racks[1].cores_wait = true;
  EXPECT_FALSE(form());
  const std::uint32_t first = all[0].epoch;
  lose_all();
  pass(6 * kSecond);
  forget(parent);
  up = [](std::size_t, const Bytes&) { return true; };
  down = [](std::size_t rack, const Bytes& d) { return rack != 1 || type_of(d) != PacketType::kHeartbeat; };
  pass(4 * kSecond);
  EXPECT_EQ(running(), 2U);
  ASSERT_NE(all[0].epoch, first);
  racks[1].cores_wait = false;
  racks[1].members->quiesced(racks[1].version, now());
  run();
  EXPECT_EQ(running(), 2U);
  heal();
  pass(2 * kSecond);
  for (std::size_t w = 2; w < 5; ++w) EXPECT_THAT(all[w].epochs, ElementsAre(all[0].epoch)) << w;
  expect_one_epoch();
}

}  // namespace
}  // namespace tally::members_test

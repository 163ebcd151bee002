// The rules of the original's switch, so that what clients do against it means something.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client_rack.h"
#include "original_switch.h"

namespace tally::stock {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint16_t kPayload = 128;

class OriginalSwitchTest : public testing::Test {
 protected:
  struct Answer {
    std::size_t rank;
    std::uint32_t sum;  // all values of a packet are alike
    bool operator==(const Answer&) const = default;
  };
  std::vector<Answer> send(std::size_t rank, unsigned slot, unsigned set, std::uint8_t value,
                           std::size_t bytes = 0) {
    std::vector<std::byte> frame(kHeads + kPayload);
    FrameHeads h = fresh_heads(members_[rank], 0, kPayload);
    h.switchml.pool_index = Be{static_cast<std::uint16_t>(slot | set << 15)};
    set_heads(frame, h);
    for (std::size_t i = kHeads + 3; i < frame.size(); i += 4) frame[i] = std::byte{value};
    if (bytes != 0) frame.resize(bytes);
    std::vector<Answer> answers;
    box_.receive(rank, frame, 0, [&](std::size_t to, std::span<const std::byte> reply) {
      Be<std::uint32_t> sum;
      std::memcpy(&sum, reply.data() + reply.size() - sizeof sum, sizeof sum);
      answers.push_back({to, sum.host()});
    });
    return answers;
  }
  std::vector<StockAddresses> members_ = rack_members(2);
  OriginalSwitch box_{members_, kPayload, 4};
};

TEST_F(OriginalSwitchTest, TheLastContributionIsAnsweredToAll) {
  EXPECT_THAT(send(0, 1, 0, 5), IsEmpty());
  EXPECT_THAT(send(1, 1, 0, 7), ElementsAre(Answer{0, 12}, Answer{1, 12}));
}

TEST_F(OriginalSwitchTest, ARepetitionIsAnsweredToItsSenderIfTheSlotIsComplete) {
  send(0, 1, 0, 5);
  EXPECT_THAT(send(0, 1, 0, 5), IsEmpty());
  send(1, 1, 0, 7);
  EXPECT_THAT(send(0, 1, 0, 5), ElementsAre(Answer{0, 12}));
  EXPECT_EQ(box_.counters().duplicates, 1U);
  EXPECT_EQ(box_.counters().repeated, 1U);
}

TEST_F(OriginalSwitchTest, TheOtherSetReleasesTheSendersBit) {
  for (const std::size_t rank : {0U, 1U}) send(rank, 1, 0, 5);
  send(0, 1, 1, 1);
  send(1, 1, 1, 2);
  EXPECT_THAT(send(0, 1, 0, 9), IsEmpty());
  EXPECT_THAT(send(1, 1, 0, 9), ElementsAre(Answer{0, 18}, Answer{1, 18}));
}

TEST_F(OriginalSwitchTest, SlotsDoNotTouchEachOther) {
  send(0, 1, 0, 5);
  EXPECT_THAT(send(1, 2, 0, 7), IsEmpty());
  EXPECT_THAT(send(1, 1, 0, 7), ElementsAre(Answer{0, 12}, Answer{1, 12}));
}

TEST_F(OriginalSwitchTest, WhatIsNotOfTheSessionIsCounted) {
  EXPECT_THAT(send(0, 4, 0, 1), IsEmpty());  // beyond its slots
  EXPECT_THAT(send(0, 1, 0, 1, kHeads + kPayload - 1), IsEmpty());
  EXPECT_EQ(box_.counters().strangers, 2U);
}

}  // namespace
}  // namespace tally::stock

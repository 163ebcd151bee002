// The judge of replies: a right one passes, and no byte may differ.

#include <gtest/gtest.h>

#include "client_rack.h"
#include "original_switch.h"
#include "reply_judge.h"

namespace tally::stock {
namespace {

constexpr std::uint16_t kJudged = 128;
constexpr std::size_t kRanks = 3;

class ReplyJudgeTest : public testing::Test {
 protected:
  std::vector<std::byte> request(std::uint8_t rank, std::uint8_t job, std::uint32_t tsi) const {
    std::vector<std::byte> frame(kHeads + kJudged, std::byte{static_cast<std::uint8_t>(0x70 + rank)});
    FrameHeads h = fresh_heads(members_[rank], rank, kJudged);
    h.switchml.job = job;
    set_tsi(h.switchml, tsi);
    h.switchml.pool_index = Be<std::uint16_t>{kSetBit | 5};
    h.switchml.e0 = static_cast<std::int8_t>(rank);
    h.switchml.e1 = static_cast<std::int8_t>(-rank);
    set_heads(frame, h);
    return frame;
  }
  // To the switch, and the judge sees it; the replies by rank.
  std::vector<std::vector<std::byte>> send(std::uint8_t rank, std::uint8_t job = 1, std::uint32_t tsi = 9) {
    std::vector<std::vector<std::byte>> replies(kRanks);
    const auto frame = request(rank, job, tsi);
    judge_.sent(rank, frame);
    box_.receive(rank, frame, 0, [&](std::size_t to, std::span<const std::byte> reply) {
      replies[to].assign(reply.begin(), reply.end());
    });
    return replies;
  }

  std::vector<StockAddresses> members_ = rack_members(kRanks);
  OriginalSwitch box_{members_, kJudged, 16};
  ReplyJudge judge_{members_, kJudged};
};

TEST_F(ReplyJudgeTest, ARightReplyPasses) {
  send(0);
  send(2);
  const auto replies = send(1);
  for (std::size_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(judge_.judge(rank, replies[rank]), "");
  EXPECT_NE(judge_.judge(0, replies[1]), "") << "another member's";
}

TEST_F(ReplyJudgeTest, NoBitMayDiffer) {
  send(0);
  send(2);
  auto reply = send(1)[0];
  for (std::size_t bit = 0; bit < 8 * reply.size(); ++bit) {
    reply[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_NE(judge_.judge(0, reply), "") << "bit " << bit;
    reply[bit / 8] ^= std::byte{1} << bit % 8;
  }
  reply.push_back(std::byte{0});
  EXPECT_NE(judge_.judge(0, reply), "") << "it grew";
  EXPECT_NE(judge_.judge(0, std::span(reply).first(kHeads)), "");
}

TEST_F(ReplyJudgeTest, AResultBeforeAllHaveSentIsWrong) {
  send(0);
  send(2);
  auto early = request(1, 1, 9);
  const auto replies = [&] {
    std::vector<std::byte> first;
    box_.receive(1, early, 0, [&](std::size_t to, std::span<const std::byte> reply) {
      if (to == 0) first.assign(reply.begin(), reply.end());
    });
    return first;
  }();
  EXPECT_NE(judge_.judge(0, replies).find("which rank 1 has not sent"), std::string::npos);
}

// As a switch would have to take it that adds a stale packet to the next chunk of the slot.
TEST_F(ReplyJudgeTest, RepeatsOfOlderChunksCountForNothing) {
  for (std::uint8_t rank = 0; rank < kRanks; ++rank) send(rank, 1, 9);
  for (std::uint8_t rank = 0; rank < kRanks; ++rank) judge_.sent(rank, request(rank, 1, 10));
  for (std::uint8_t rank = 0; rank < kRanks; ++rank) judge_.sent(rank, request(rank, 2, 0));
  judge_.sent(0, request(0, 1, 4));
  OriginalSwitch fresh(members_, kJudged, 16);
  std::vector<std::byte> reply;
  for (std::uint8_t rank = 0; rank < kRanks; ++rank)
    fresh.receive(rank, request(rank, 2, 0), 0, [&](std::size_t to, std::span<const std::byte> frame) {
      if (to == 0) reply.assign(frame.begin(), frame.end());
    });
  EXPECT_EQ(judge_.judge(0, reply), "");
}

}  // namespace
}  // namespace tally::stock

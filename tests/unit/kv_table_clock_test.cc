// The clock of an asynchronous table with hot keys, question by question, and at the server that has it.

#include "kv/table_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kv/table_state.h"

namespace tally::kv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

KVMeta of(int rank) {
  KVMeta from;
  from.sender = 9 + 2 * rank;
  return from;
}
std::vector<int> ranks(const std::vector<KVMeta>& to) {
  std::vector<int> ranks;
  for (const KVMeta& one : to) ranks.push_back(one.rank());
  return ranks;
}

// Three workers, of which two call a round.
class KvTableClock : public testing::Test {
 protected:
  [[nodiscard]] std::vector<int> ask(int rank, std::uint64_t rounds, TableAct says = TableAct::kAsk,
                                     TimeNs now = 0) {
    const TableClock::Call call = clock_.take(of(rank), says, rounds, now);
    if (!call.to.empty()) round_ = call.round;
    return ranks(call.to);
  }
  [[nodiscard]] std::vector<int> push(int rank, std::uint64_t rounds, TimeNs now = 0) {
    return ask(rank, rounds, TableAct::kAskPushed, now);
  }
  [[nodiscard]] std::vector<int> close(int rank, std::uint64_t rounds) {
    return ask(rank, rounds, TableAct::kAskCloses);
  }
  TableClock clock_{3, 2, 50 * kMillisecond};
  std::uint64_t round_ = 99;  // called last
};

TEST_F(KvTableClock, ARoundIsCalledToAllWhenEnoughHavePushed) {
  EXPECT_THAT(ask(2, 0), IsEmpty());
  EXPECT_THAT(push(0, 0), IsEmpty());
  EXPECT_THAT(push(1, 0), ElementsAre(2, 0, 1));
  EXPECT_EQ(round_, 0U);
  EXPECT_THAT(push(1, 1), IsEmpty()) << "what was said of the round before is forgotten";
  EXPECT_THAT(push(2, 1), ElementsAre(1, 2));
  EXPECT_EQ(round_, 1U);
}
TEST_F(KvTableClock, ARoundIsCalledOfAgeCountedFromItsFirstPush) {
  EXPECT_THAT(ask(0, 0), IsEmpty());
  EXPECT_EQ(clock_.due(), kNever);
  EXPECT_THAT(push(1, 0, kSecond), IsEmpty());
  EXPECT_THAT(close(2, 0), IsEmpty());
  EXPECT_EQ(clock_.due(), kSecond + 50 * kMillisecond);
  EXPECT_THAT(ranks(clock_.call().to), ElementsAre(0, 1, 2));
  EXPECT_EQ(clock_.due(), kNever);
}
TEST_F(KvTableClock, WhoHasNotHeardOfARoundHearsAtOnce) {
  EXPECT_THAT(push(0, 0), IsEmpty());
  EXPECT_THAT(push(1, 0), ElementsAre(0, 1));
  EXPECT_THAT(push(2, 0), ElementsAre(2));
  EXPECT_EQ(round_, 0U);
  EXPECT_EQ(clock_.due(), kNever) << "it is in that round, and calls no other";
}
TEST_F(KvTableClock, WhoPushesAfterItHasAskedIsAnsweredTwice) {
  EXPECT_THAT(ask(0, 0), IsEmpty());
  EXPECT_THAT(push(0, 0), IsEmpty());
  EXPECT_THAT(push(1, 0), ElementsAre(0, 0, 1));
}
TEST_F(KvTableClock, WhoClosesIsNotWaitedFor) {
  EXPECT_THAT(close(0, 0), IsEmpty());
  EXPECT_THAT(push(1, 0), IsEmpty());
  EXPECT_THAT(close(2, 0), ElementsAre(0, 1, 2));
  EXPECT_EQ(round_, 0U);
}
TEST_F(KvTableClock, TheEndIsCalledWhenAllCloseInOneRound) {
  EXPECT_THAT(close(0, 0), IsEmpty());
  EXPECT_THAT(close(1, 0), IsEmpty());
  EXPECT_THAT(push(2, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(close(2, 1), IsEmpty());
  EXPECT_THAT(close(0, 1), IsEmpty());
  EXPECT_THAT(close(1, 1), ElementsAre(2, 0, 1));
  EXPECT_EQ(round_, TableClock::kEnd);
}
TEST_F(KvTableClock, AQuestionAboutARoundThatCannotBeIsRefused) {
  const auto refused = [this](std::uint64_t rounds) {
    try {
      (void)ask(2, rounds);
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused(1), HasSubstr("worker 2 asks about round 1 of a table, and 0 are called"));
  for (std::uint64_t round = 0; round < 2; ++round) {
    EXPECT_THAT(push(0, round), IsEmpty());
    EXPECT_THAT(push(1, round), ElementsAre(0, 1));
  }
  EXPECT_THAT(refused(0), HasSubstr("asks about round 0 of a table, and 2 are called"));
}

// --- At its server. Two workers.

class KvTableCalledState : public testing::Test {
 protected:
  void say(int rank, TableMessage message) {
    if (message.life == 0) message.life = life_;
    message.terms = terms_;
    state_.take(of(rank), decode_table_message(encode(message)), answers_);
  }
  // What was answered since the last look: "rank: what", in order.
  [[nodiscard]] std::vector<std::string> answers() {
    std::vector<std::string> said;
    for (const TableAnswer& one : answers_)
      said.push_back(std::to_string(one.to.rank()) + ": " +
                     (one.failure ? one.failure->what() : std::to_string(one.round)));
    answers_.clear();
    return said;
  }
  TableTerms terms_{.width = 1, .most_hot = 8, .every = 16, .hot = true, .least = 1, .age = 50};
  TableState state_{7, 2};
  std::uint64_t life_ = 1;  // of both workers
  std::vector<TableAnswer> answers_{};
};

TEST_F(KvTableCalledState, ARoundIsOfAllHoweverFewCalledIt) {
  say(0, {.act = TableAct::kAsk});
  say(1, {.act = TableAct::kAskPushed});
  EXPECT_THAT(answers(), ElementsAre("0: 0", "1: 0"));
  say(1, {.act = TableAct::kPush});
  state_.pass_time(kSecond, answers_);
  EXPECT_THAT(answers(), IsEmpty()) << "neither its number nor its age ends it";
  say(0, {.act = TableAct::kPush});
  EXPECT_THAT(answers(), ElementsAre("0: 0", "1: 0"));
}
TEST_F(KvTableCalledState, TheServersTimeCallsARound) {
  terms_.least = 2;
  say(0, {.act = TableAct::kAsk});
  say(1, {.act = TableAct::kAskPushed});
  EXPECT_EQ(state_.due(), 50 * kMillisecond);
  state_.pass_time(state_.due() - 1, answers_);
  EXPECT_THAT(answers(), IsEmpty());
  state_.pass_time(state_.due(), answers_);
  EXPECT_THAT(answers(), ElementsAre("0: 0", "1: 0"));
  EXPECT_EQ(state_.due(), kNever);
}
TEST_F(KvTableCalledState, WhoWaitsForARoundHearsThatAWorkerIsLostOrHasLeft) {
  say(0, {.act = TableAct::kAskCloses});
  state_.lose(1, answers_);
  EXPECT_THAT(answers(), ElementsAre("0: worker 1 is lost"));
  say(0, {.act = TableAct::kAsk});
  EXPECT_THAT(answers(), ElementsAre("0: worker 1 is lost"));
  TableState other(8, 2);
  state_.take(of(0), {.life = 1}, answers_);
  answers_.clear();
  TableMessage message{.act = TableAct::kAsk, .life = 1, .terms = terms_};
  other.take(of(0), message, answers_);
  message.act = TableAct::kLeave;
  message.text = "tired";
  other.take(of(1), message, answers_);
  EXPECT_THAT(answers(), ElementsAre("0: worker 1 has left table 8: tired", "1: 0"));
}
TEST_F(KvTableCalledState, ATableWhoseRoundsEndByThemselvesHasNoClock) {
  for (const std::uint32_t age : {0U, 50U}) {
    TableState cold(7, 2);
    TableMessage message{.act = TableAct::kAsk, .life = 1, .terms = terms_};
    message.terms.hot = age == 0;
    message.terms.age = age;
    message.terms.least = 0;
    cold.take(of(0), message, answers_);
    EXPECT_THAT(answers(), ElementsAre("0: rounds of table 7 are not called"));
  }
}
TEST_F(KvTableCalledState, AnotherSessionBeginsWithRoundNone) {
  for (; life_ <= 2; ++life_) {
    say(0, {.act = TableAct::kAsk});
    say(1, {.act = TableAct::kAskPushed});
    say(0, {.act = TableAct::kPush});
    say(1, {.act = TableAct::kPush});
    say(0, {.act = TableAct::kAskCloses, .rounds = 1});
    say(1, {.act = TableAct::kAskCloses, .rounds = 1});
    say(0, {.act = TableAct::kClose, .rounds = 1});
    say(1, {.act = TableAct::kClose, .rounds = 1});
    const std::string end = std::to_string(TableClock::kEnd);
    EXPECT_THAT(answers(),
                ElementsAre("0: 0", "1: 0", "0: 0", "1: 0", "0: " + end, "1: " + end, "0: 0", "1: 0"));
  }
}

}  // namespace
}  // namespace tally::kv

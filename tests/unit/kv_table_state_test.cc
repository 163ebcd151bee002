// A table at its server: rounds of all and rounds that do not wait for all, and what does not fit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "kv/table_state.h"
#include "kv_table_state_bed.h"

namespace tally::kv {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(KvTableState, ARoundIsAppliedWhenAllHavePushedItAndThenAnswered) {
  const int first = push(1, 0, {1, 3}, {10, 30});
  EXPECT_TRUE(waits(first));
  EXPECT_THAT(rows_of(pull(0, 0, {1, 2, 3})), ElementsAre(0, 0, 0)) << "of a round that is not over";
  const int second = push(0, 0, {2, 3}, {2, 3});
  EXPECT_THAT(rows_of(first), IsEmpty());
  EXPECT_THAT(rows_of(second), IsEmpty());
  EXPECT_THAT(rows_of(pull(0, 1, {1, 2, 3})), ElementsAre(10, 2, 33));
}
TEST_F(KvTableState, ARoundWithoutKeysIsARound) {
  push(0, 0, {}, {});
  EXPECT_THAT(rows_of(push(1, 0, {}, {})), IsEmpty());
  EXPECT_EQ(state_->rounds(), 1U);
}
// 2^24 + 1 is not a float: the order of the sum can be seen.
TEST_F(KvTableState, SumsAreInTheOrderOfRanksWhoeverCameFirst) {
  constexpr float kLarge = 1 << 24;
  TableState three(7, 3);
  for (const bool reversed : {false, true}) {
    std::vector<TableAnswer> answers;
    for (int i = 0; i < 3; ++i) {
      const int rank = reversed ? 2 - i : i;
      const std::vector<Key> keys{reversed ? Key{1} : Key{2}};
      const std::vector<float> rows{rank == 0 ? kLarge : rank == 1 ? 1.F : -kLarge};
      KVMeta from;
      from.sender = 9 + 2 * rank;
      const auto bytes = encode({.act = TableAct::kPush,
                                 .life = 1,
                                 .terms = terms_,
                                 .rounds = reversed ? 1U : 0U,
                                 .keys = keys,
                                 .rows = rows});
      three.take(from, decode_table_message(bytes), answers);
    }
    ASSERT_EQ(answers.size(), 3U);
  }
  std::vector<TableAnswer> answers;
  const std::vector<Key> keys{1, 2};
  KVMeta from;
  from.sender = 9;
  three.take(from,
             decode_table_message(
                 encode({.act = TableAct::kPull, .life = 1, .terms = terms_, .rounds = 2, .keys = keys})),
             answers);
  EXPECT_THAT(answers.at(0).rows, ElementsAre(0, 0));
}
TEST_F(KvTableState, TheRuleIsAppliedToTheSum) {
  terms_.rule = Rule::kSgd;
  terms_.rate = 0.5F;
  round(0, {5}, 8);
  EXPECT_THAT(rows_of(pull(1, 1, {5})), ElementsAre(-8));
}
TEST_F(KvTableState, AnotherRoundThanTheServersIsRefused) {
  EXPECT_THAT(failure_of(pull(0, 1, {1})),
              HasSubstr("for worker 0 1 rounds of table 7 have ended, and for this server 0"));
}

// --- Rounds that do not wait for all.

// Three workers; a round waits for two of them, or 50 ms.
class KvTableLate : public KvTableState {
 protected:
  KvTableLate() {
    terms_.least = 2;
    terms_.age = 50;
    state_.emplace(7, 3);
    pass_time(kSecond);
  }
  [[nodiscard]] std::uint64_t round_of(int message) const {
    EXPECT_EQ(failure_of(message), "");
    return waits(message) ? kNever : answer_to(message)->round;
  }
};

TEST_F(KvTableLate, ARoundEndsWithAsManyAsItWaitsForAndWhoIsLateIsInTheNext) {
  const int first = push(0, 0, {1}, {1});
  EXPECT_TRUE(waits(first));
  EXPECT_THAT(rows_of(pull(0, 0, {1})), ElementsAre(0)) << "of a round that is not over";
  const int second = push(2, 0, {1, 2}, {10, 10});
  EXPECT_EQ(round_of(first), 0U);
  EXPECT_EQ(round_of(second), 0U);
  const int late = push(1, 0, {1}, {100});
  EXPECT_TRUE(waits(late));
  EXPECT_THAT(rows_of(pull(1, 0, {1, 2})), ElementsAre(11, 10)) << "of one who has not heard of the round";
  push(0, 1, {2}, {1000});
  EXPECT_EQ(round_of(late), 1U) << "carried";
  EXPECT_THAT(rows_of(pull(1, 2, {1, 2})), ElementsAre(111, 1010));
  EXPECT_EQ(state_->rounds(), 2U);
}
TEST_F(KvTableLate, ARoundEndsWhenItsAgeIsOverCountedFromItsFirstPush) {
  EXPECT_EQ(state_->due(), kNever);
  pass_time(2 * kSecond);
  EXPECT_EQ(state_->rounds(), 0U) << "nobody has pushed";
  const int alone = push(1, 0, {1}, {5});
  EXPECT_EQ(state_->due(), 2 * kSecond + 50 * kMillisecond);
  pass_time(state_->due() - 1);
  EXPECT_TRUE(waits(alone));
  pass_time(state_->due());
  EXPECT_EQ(round_of(alone), 0U);
  EXPECT_EQ(state_->due(), kNever);
  EXPECT_THAT(rows_of(pull(0, 0, {1})), ElementsAre(5));
}
TEST_F(KvTableLate, WithoutLeastARoundWaitsForAllOrItsAge) {
  terms_.least = 0;
  const int first = push(0, 0, {1}, {1});
  push(1, 0, {1}, {1});
  EXPECT_TRUE(waits(first));
  push(2, 0, {1}, {1});
  EXPECT_EQ(round_of(first), 0U);
  push(0, 1, {1}, {1});
  const TimeNs due = state_->due();
  pass_time(due - 1);
  push(1, 1, {1}, {1});
  EXPECT_EQ(state_->due(), due) << "it is the first that counts";
  pass_time(due);
  EXPECT_EQ(state_->rounds(), 2U);
}
TEST_F(KvTableLate, APushThatFindsNoRoomIsRefusedAndTheRoundOfTheOthersGoesOn) {
  const int first = push(0, 0, {1}, {1});
  state_->set_bound(state_->bytes() + 8);
  EXPECT_THAT(failure_of(push(1, 0, {1}, {10})), HasSubstr("no room for a round"));
  EXPECT_TRUE(waits(first));
  pass_time(state_->due());
  EXPECT_THAT(rows_of(pull(0, 1, {1})), ElementsAre(1));
}
TEST_F(KvTableLate, SumsAreAppliedOnceByTheRule) {
  terms_.rule = Rule::kSgd;
  terms_.rate = 0.5F;
  push(0, 0, {5}, {8});
  push(1, 0, {5}, {8});
  EXPECT_THAT(rows_of(pull(1, 1, {5})), ElementsAre(-8));
}
TEST_F(KvTableLate, ALostWorkersPushCountsAndNobodyWaitsForItsNext) {
  const int only = push(0, 0, {1}, {1});
  lose(0);
  EXPECT_TRUE(waits(only));
  EXPECT_EQ(round_of(push(1, 0, {1}, {10})), 0U);
  EXPECT_THAT(rows_of(pull(2, 0, {1})), ElementsAre(11));
  const int next = push(1, 1, {1}, {100});
  EXPECT_TRUE(waits(next));
  lose(2);
  EXPECT_EQ(round_of(next), 1U) << "nobody else is left";
  EXPECT_EQ(failure_of(close(1, 2)), "");
  push(1, 0, {1}, {1000});  // another session, without them
  EXPECT_THAT(rows_of(pull(1, 1, {1})), ElementsAre(1111));
}
TEST_F(KvTableLate, WhoClosesIsNotWaitedForAndWaitsForTheOthers) {
  const int first = close(0, 0);
  const int second = close(2, 0);
  EXPECT_EQ(round_of(push(1, 0, {1}, {1})), 0U);
  EXPECT_EQ(round_of(push(1, 1, {1}, {1})), 1U);
  EXPECT_TRUE(waits(first) && waits(second));
  lose(2);
  EXPECT_TRUE(waits(first));
  const int last = close(1, 2);
  EXPECT_EQ(failure_of(first) + failure_of(last), "");
  EXPECT_TRUE(waits(second)) << "nobody is there to hear it";
  EXPECT_THAT(rows_of(pull(1, 0, {1})), ElementsAre(2));
}
TEST_F(KvTableLate, ACloseDoesNotEndTheRoundOfOthersButForLackOfThem) {
  const int pushed = push(0, 0, {1}, {1});
  close(1, 0);
  EXPECT_TRUE(waits(pushed));
  close(2, 0);
  EXPECT_EQ(round_of(pushed), 0U);
}
TEST_F(KvTableLate, TheOthersGoOnWithoutWhoLeavesAndItIsToldSo) {
  const int pushed = push(0, 0, {1}, {1});
  leave(1, 0);
  EXPECT_TRUE(waits(pushed));
  EXPECT_THAT(failure_of(pull(1, 0, {1})), "worker 1 has left table 7, which the others go on with");
  EXPECT_EQ(failure_of(leave(1, 0)), "");
  EXPECT_EQ(round_of(push(2, 0, {1}, {1})), 0U);
  const int closed = close(0, 1);
  EXPECT_TRUE(waits(closed));
  close(2, 1);
  EXPECT_EQ(failure_of(closed), "");
  EXPECT_THAT(rows_of(pull(1, 0, {1})), ElementsAre(2)) << "a session begins";
}
TEST_F(KvTableLate, WhoLeavesInsteadOfWaitingForTheOthersToCloseKeepsNobodyFromIt) {
  push(0, 0, {1}, {1});
  close(0, 0);
  leave(0, 0);
  const int closed = close(1, 0);
  EXPECT_TRUE(waits(closed));
  close(2, 0);
  EXPECT_EQ(failure_of(closed), "");
}
// A program's own end is its own; a failure is one of the table.
TEST_F(KvTableLate, WhoLeavesBecauseTheTableFailedEndsItForAllButNotForASecondTime) {
  const int waiting = push(0, 0, {1}, {1});
  const int last = say(1, {.act = TableAct::kLeave, .for_all = true, .text = "no room"});
  EXPECT_THAT(failure_of(waiting), "worker 1 has left table 7: no room");
  EXPECT_EQ(failure_of(last), "");
  leave(0, 0);
  leave(2, 0);
  // The next one goes on without worker 1, which comes again and cannot end it.
  push(0, 0, {1}, {1});
  leave(1, 0);
  EXPECT_THAT(failure_of(push(1, 0, {1}, {1})), HasSubstr("has left table 7, which the others go on with"));
  say(1, {.act = TableAct::kLeave, .for_all = true, .text = "refused"});
  EXPECT_EQ(round_of(push(2, 0, {1}, {1})), 0U);
  EXPECT_THAT(rows_of(pull(0, 1, {1})), ElementsAre(2));
}
TEST_F(KvTableLate, WhatCannotBeIsRefusedAndHotRowsAreAmongIt) {
  EXPECT_THAT(failure_of(pull(0, 1, {1})), HasSubstr("1 rounds of table 7 have ended"));
  EXPECT_THAT(failure_of(fetch(0, 0, 1, {1})), HasSubstr("table 7 is asynchronous, and has no hot rows"));
  push(0, 0, {1}, {1});
  EXPECT_THAT(failure_of(push(0, 0, {1}, {1})), HasSubstr("pushed twice in a round"));
  terms_.age = 51;
  const int other = push(1, 0, {1}, {1});
  EXPECT_THAT(failure_of(other), AllOf(HasSubstr("age 50 at worker 0"), HasSubstr("age 51 at worker 1")));
  terms_.age = 50;
  EXPECT_THAT(failure_of(push(0, 0, {1}, {1})), HasSubstr("age 50 at worker 0")) << "it is over for all";
  for (int rank = 0; rank < 3; ++rank) leave(rank, 0);
  EXPECT_THAT(rows_of(pull(0, 0, {1})), ElementsAre(0)) << "and nothing of the round is left";
}

// --- What does not fit.

TEST_F(KvTableState, OptionsThatDifferAreToldToAll) {
  const int waiting = push(0, 0, {1}, {1});
  terms_.rate = 2;
  const auto both = AllOf(HasSubstr("rate 0 at worker 0"), HasSubstr("rate 2 at worker 1"));
  EXPECT_THAT(failure_of(pull(1, 0, {1})), both);
  EXPECT_THAT(failure_of(waiting), both);
}
// It had other options: its own rounds would end without it.
TEST_F(KvTableState, WhoLeftBeforeAnybodySpokeIsNamedInATableWhoseRoundsAreOfAll) {
  terms_.age = 50;
  leave(1, 0);
  terms_.age = 0;
  EXPECT_THAT(failure_of(push(0, 0, {1}, {1})), "worker 1 has left table 7");
}
TEST_F(KvTableState, WhoLeftBeforeAnybodySpokeAndComesAgainIsToldThatTheOthersGoOn) {
  terms_.age = 50;
  leave(1, 0);
  const int again = push(1, 0, {1}, {1});
  EXPECT_TRUE(waits(again)) << "nobody has said that they do";
  push(0, 0, {1}, {1});
  EXPECT_THAT(failure_of(again), "worker 1 has left table 7, which the others go on with");
}
TEST_F(KvTableState, MoreRowsThanAWorkerAsksForAtOnceAreRefused) {
  std::vector<Key> many((16U << 20) / sizeof(float) + 1);
  std::iota(many.begin(), many.end(), 0U);
  EXPECT_THAT(failure_of(pull(0, 0, many)), HasSubstr("worker 0 asks for 4194305 rows of table 7 at once"));
}
TEST_F(KvTableState, WithoutRoomForItsIndexATableDoesNotBegin) {
  state_->set_bound(20'000);
  EXPECT_THAT(failure_of(pull(0, 0, {1})), HasSubstr("no room for a round of table 7"));
  EXPECT_EQ(state_->bytes(), 0U);
}
TEST_F(KvTableState, AnotherWidthThanThatOfTheRowsIsRefused) {
  round(0, {1}, 1);
  leave(0, 0);
  leave(1, 0);
  terms_.width = 3;
  EXPECT_THAT(failure_of(pull(1, 0, {1})), "table 7 has rows of width 1, and worker 1 has width 3");
}
TEST_F(KvTableState, ARoundWhoseRowsExceedTheBoundChangesNothing) {
  round(0, {1}, 1);
  const int first = push(0, 1, {1}, {1});
  std::vector<Key> many(1000);  // for which the table must grow
  std::iota(many.begin(), many.end(), 1U);
  const std::vector<float> rows(many.size(), 1);
  state_->set_bound(state_->bytes() + bytes_of_push(many.size()));
  push(1, 1, many, rows);
  EXPECT_THAT(failure_of(first), AllOf(HasSubstr("no room for more rows: 1 row"),
                                       HasSubstr(" are for them (tally-kv --memory)")));
  EXPECT_THAT(rows_of(pull(0, 1, {1})), ElementsAre(2));
}
TEST_F(KvTableState, APushThatWaitsCountsAndOneTooManyEndsTheRoundForAllAndChangesNothing) {
  round(0, {1, 2}, 1);
  const std::size_t before = state_->bytes();
  for (const std::size_t room : {2 * bytes_of_push(2), 2 * bytes_of_push(2) - 1}) {
    const bool fits = room == 2 * bytes_of_push(2);
    state_->set_bound(before + room);
    const std::uint64_t rounds = fits ? 1 : 2;
    const int first = push(0, rounds, {1, 2}, {1, 1});
    EXPECT_EQ(state_->bytes(), before + bytes_of_push(2));
    const int second = push(1, rounds, {1, 2}, {1, 1});
    EXPECT_EQ(state_->bytes(), before);
    if (fits) {
      EXPECT_EQ(failure_of(first) + failure_of(second), "");
      continue;
    }
    const auto why = AllOf(
        HasSubstr("no room for a round of table 7"),
        HasSubstr("its rows have " + std::to_string(before) + " bytes, pushes that wait " +
                  std::to_string(room + 1) + ", and at most " + std::to_string(before + room) + " are left"),
        HasSubstr("--memory"));
    EXPECT_THAT(failure_of(first), why);
    EXPECT_THAT(failure_of(second), why);
    EXPECT_THAT(rows_of(pull(0, 2, {1, 2})), ElementsAre(4, 4))
        << "of the round that failed nothing is there";
  }
  // Both begin anew, with less.
  leave(0, 0);
  leave(1, 0);
  round(0, {1}, 1);
  EXPECT_THAT(rows_of(pull(0, 1, {1, 2})), ElementsAre(6, 4));
}
TEST_F(KvTableState, WhatWaitsForARowOrForTheOthersToLeaveCounts) {
  have_sets_up_to(1);
  fetch(0, 0, 1, {1});
  const std::size_t before = state_->bytes();
  state_->set_bound(before + 80);
  const int waiting = pull(1, 0, {1});
  EXPECT_TRUE(waits(waiting));
  EXPECT_GT(state_->bytes(), before);
  EXPECT_THAT(failure_of(pull(1, 0, {1})), HasSubstr("--memory")) << "no room for a second";
  bring(0, 0, 2, {1}, {4});
  EXPECT_THAT(rows_of(waiting), ElementsAre(4)) << "the first goes on";
  EXPECT_EQ(state_->bytes(), before);
  leave(1, 0);
  before_ = 0;
  const int early = pull(1, 0, {1});
  EXPECT_THAT(failure_of(pull(1, 0, {1})), HasSubstr("--memory"));
  leave(0, 0);
  EXPECT_THAT(rows_of(early), ElementsAre(4));
}
TEST(KvTableMessage, WhatCannotBeIsRefused) {
  const std::vector<Key> keys{1, 2};
  const std::vector<float> rows{1, 2};
  const auto text = [](TableMessage message, std::size_t cut = 0, std::uint64_t life = 1) -> std::string {
    message.life = life;
    SArray<std::byte> bytes = encode(message);
    try {
      (void)decode_table_message(bytes.segment(0, bytes.size() - cut));
      return "";
    } catch (const Failure& failure) {
      return failure.what();
    }
  };
  EXPECT_THAT(text({.act = TableAct::kPull}, 0, 0), HasSubstr("says nothing that is known"));
  EXPECT_EQ(text({.act = TableAct::kPush, .keys = keys, .rows = rows}), "");
  EXPECT_THAT(text({.act = TableAct::kPush, .keys = keys, .rows = rows}, 4),
              HasSubstr("not as long as it says"));
  EXPECT_THAT(text({.act = TableAct::kPull}, 1), HasSubstr("shorter than its header"));
  EXPECT_THAT(text({.act = TableAct::kPull, .keys = keys, .rows = rows}),
              HasSubstr("not as long as it says"));
  EXPECT_THAT(text({.act = static_cast<TableAct>(10)}), HasSubstr("says nothing that is known"));
  EXPECT_THAT(text({.act = TableAct::kPull, .terms = {.width = 0}}), HasSubstr("width of 0"));
  EXPECT_THAT(text({.act = TableAct::kPush, .keys = keys}), HasSubstr("not as long as it says"));
  std::vector<Key> many(1U << 20);  // a product of 32 bits with the width of 4096 would be 0
  std::iota(many.begin(), many.end(), 0U);
  EXPECT_THAT(text({.act = TableAct::kPush, .terms = {.width = 4096}, .keys = many}),
              HasSubstr("not as long as it says"));
  const std::vector<Key> descending{2, 1};
  EXPECT_THAT(text({.act = TableAct::kPull, .keys = descending}), HasSubstr("ascending"));
}

}  // namespace
}  // namespace tally::kv

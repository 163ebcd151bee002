// A table at its server, message by message: rounds, rows that move, and what becomes of both when workers go.

#include "kv/table_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace tally::kv {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two workers, rows of one value. What is answered is kept by the number of its message, in order of the answers.
class KvTableState : public testing::Test {
 protected:
  struct Answered {
    int message = 0;
    std::vector<float> rows{};
    std::string failure{};
    std::uint64_t round = 0;
  };

  int say(int rank, TableMessage message) {
    message.terms = terms_;
    message.rounds += before_;
    // As it comes from the wire.
    const SArray<std::byte> bytes = encode(message);
    KVMeta from;
    from.sender = 9 + 2 * rank;
    from.timestamp = next_;
    std::vector<TableAnswer> answers;
    state_->take(from, decode_table_message(bytes), answers);
    keep(answers);
    return next_++;
  }
  void lose(int rank) {
    std::vector<TableAnswer> answers;
    state_->lose(rank, answers);
    keep(answers);
  }
  void keep(std::vector<TableAnswer>& answers) {
    for (TableAnswer& one : answers)
      answered_.push_back({one.to.timestamp, std::move(one.rows),
                           one.failure ? one.failure->what() : std::string(), one.round});
  }
  void pass_time(TimeNs now) {
    std::vector<TableAnswer> answers;
    state_->pass_time(now, answers);
    keep(answers);
  }
  int pull(int rank, std::uint64_t rounds, const std::vector<Key>& keys) {
    return say(rank, {.act = TableAct::kPull, .rounds = rounds, .keys = keys});
  }
  int push(int rank, std::uint64_t rounds, const std::vector<Key>& keys, const std::vector<float>& rows) {
    return say(rank, {.act = TableAct::kPush, .rounds = rounds, .set = set_, .keys = keys, .rows = rows});
  }
  // Rounds of both, which those of the test come behind in the same session: a set more in each.
  void have_sets_up_to(std::uint32_t last) {
    for (set_ = 1; set_ <= last; ++set_, ++before_) {
      push(0, 0, {}, {});
      push(1, 0, {}, {});
    }
    --set_;
  }
  int fetch(int rank, std::uint64_t rounds, std::uint32_t set, const std::vector<Key>& keys) {
    return say(rank, {.act = TableAct::kFetch, .rounds = rounds, .set = set, .keys = keys});
  }
  int bring(int rank, std::uint64_t rounds, std::uint32_t set, const std::vector<Key>& keys,
            const std::vector<float>& rows) {
    return say(rank, {.act = TableAct::kBring, .rounds = rounds, .set = set, .keys = keys, .rows = rows});
  }
  int close(int rank, std::uint64_t rounds) { return say(rank, {.act = TableAct::kClose, .rounds = rounds}); }
  int leave(int rank, std::uint32_t set) {
    return say(rank, {.act = TableAct::kLeave, .set = set, .text = "tired"});
  }

  [[nodiscard]] const Answered* answer_to(int message) const {
    for (const Answered& one : answered_) {
      if (one.message == message) return &one;
    }
    return nullptr;
  }
  [[nodiscard]] bool waits(int message) const { return answer_to(message) == nullptr; }
  [[nodiscard]] std::vector<float> rows_of(int message) const {
    const Answered* const answer = answer_to(message);
    EXPECT_NE(answer, nullptr);
    if (answer == nullptr) return {};
    EXPECT_EQ(answer->failure, "");
    return answer->rows;
  }
  [[nodiscard]] std::string failure_of(int message) const {
    const Answered* const answer = answer_to(message);
    return answer == nullptr ? "no answer" : answer->failure;
  }
  static std::size_t bytes_of_push(std::size_t keys) { return 64 + keys * (sizeof(Key) + sizeof(float)); }
  // A round in which both push what is given to `key`.
  void round(std::uint64_t rounds, const std::vector<Key>& keys, float value) {
    const std::vector<float> rows(keys.size(), value);
    push(0, rounds, keys, rows);
    const int last = push(1, rounds, keys, rows);
    EXPECT_EQ(failure_of(last), "");
  }

  TableTerms terms_{.width = 1, .rule = Rule::kSum, .rate = 0, .most_hot = 8, .every = 16};
  std::optional<TableState> state_{std::in_place, 7, 2};
  std::uint64_t before_ = 0;
  std::uint32_t set_ = 0;  // of pushes
  std::vector<Answered> answered_;
  int next_ = 0;
};

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
  three.take(
      from,
      decode_table_message(encode({.act = TableAct::kPull, .terms = terms_, .rounds = 2, .keys = keys})),
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

// --- Rows that move.

TEST_F(KvTableState, AHotRowIsReadOnceMoreByWhoFetchesItAndWaitedForByWhoPulls) {
  have_sets_up_to(1);
  round(0, {1, 2}, 3);
  EXPECT_THAT(rows_of(fetch(0, 1, 1, {1})), ElementsAre(6));
  EXPECT_THAT(rows_of(fetch(1, 1, 1, {1})), ElementsAre(6));
  const int waiting = pull(1, 1, {1, 2});
  EXPECT_TRUE(waits(waiting));
  bring(0, 1, 2, {1}, {60});
  EXPECT_THAT(rows_of(waiting), ElementsAre(60, 6));
}
TEST_F(KvTableState, APushOfARowThatIsAwayWaitsUntilItIsBack) {
  have_sets_up_to(1);
  fetch(0, 0, 1, {1});
  const int first = push(0, 0, {1}, {5});
  const int second = push(1, 0, {}, {});
  EXPECT_TRUE(waits(first) && waits(second));
  bring(1, 0, 2, {1}, {100});
  EXPECT_FALSE(waits(first) || waits(second));
  EXPECT_THAT(rows_of(pull(0, 1, {1})), ElementsAre(105));
}
TEST_F(KvTableState, AFetchOfARowThatIsOnItsWayBackWaits) {
  have_sets_up_to(2);
  fetch(0, 0, 1, {1});
  const int early = fetch(1, 0, 3, {1});
  EXPECT_TRUE(waits(early));
  bring(0, 0, 2, {1}, {9});
  EXPECT_THAT(rows_of(early), ElementsAre(9));
  EXPECT_TRUE(waits(pull(0, 0, {1})));
}
TEST_F(KvTableState, AnOldFetchThatComesAgainTakesNothingAway) {
  have_sets_up_to(4);
  fetch(0, 0, 1, {1});
  bring(0, 0, 2, {1}, {4});
  EXPECT_THAT(rows_of(fetch(0, 0, 1, {1})), ElementsAre(4));
  EXPECT_THAT(rows_of(pull(1, 0, {1})), ElementsAre(4)) << "it is here";
  fetch(0, 0, 5, {9});
  EXPECT_THAT(rows_of(fetch(0, 0, 1, {1})), ElementsAre(4)) << "so old that its row's move is forgotten";
  EXPECT_THAT(rows_of(pull(1, 0, {1})), ElementsAre(4));
}
TEST_F(KvTableState, AnOldRowThatComesAgainChangesNothing) {
  have_sets_up_to(2);
  fetch(0, 0, 1, {1});
  bring(0, 0, 2, {1}, {4});
  round(0, {1}, 1);
  bring(0, 0, 2, {1}, {4});
  EXPECT_THAT(rows_of(pull(1, 1, {1})), ElementsAre(6));
  fetch(0, 1, 3, {1});
  bring(0, 0, 2, {1}, {4});
  EXPECT_TRUE(waits(pull(1, 1, {1})));
}
// By a mistake, or by somebody who means it: nothing that is older than the set one has heard of comes back.
TEST_F(KvTableState, ASetThatNoRoundHasLedToIsNotBelieved) {
  fetch(0, 0, 1, {1});
  const auto leap = HasSubstr("worker 1 speaks of set 900 of the hot keys of table 7, and the last round had set 0");
  EXPECT_THAT(failure_of(bring(1, 0, 900, {}, {})), leap);
  EXPECT_THAT(failure_of(fetch(1, 0, 900, {5})), leap);
  EXPECT_THAT(failure_of(bring(1, 0, 2, {}, {})), HasSubstr("set 2"));
  set_ = 1;
  push(0, 0, {}, {});
  set_ = 900;
  EXPECT_THAT(failure_of(push(1, 0, {}, {})), leap) << "in its push neither";
  set_ = 0;
  push(1, 0, {}, {});
  EXPECT_THAT(failure_of(bring(1, 1, 2, {}, {})), HasSubstr("set 2")) << "not all were in set 1";
  set_ = 1;
  push(0, 1, {}, {});
  push(1, 1, {}, {});
  EXPECT_THAT(rows_of(bring(1, 2, 2, {1}, {70})), IsEmpty());
  EXPECT_THAT(rows_of(pull(0, 2, {1})), ElementsAre(70));
}
TEST_F(KvTableState, ARowThatWasNeverFetchedIsNotBroughtBack) {
  have_sets_up_to(8);
  round(0, {1}, 1);
  bring(0, 9, 9, {1}, {1000});
  EXPECT_THAT(rows_of(pull(1, 1, {1})), ElementsAre(2));
}

// --- Ends.

TEST_F(KvTableState, CloseIsAnsweredWhenAllHaveClosedAndRowsOutliveIt) {
  round(0, {1}, 2);
  const int first = close(0, 1);
  EXPECT_TRUE(waits(first));
  const int second = close(1, 1);
  EXPECT_EQ(failure_of(first) + failure_of(second), "");
  EXPECT_THAT(rows_of(pull(1, 0, {1})), ElementsAre(4));
  round(0, {1}, 1);
  EXPECT_THAT(rows_of(pull(0, 1, {1})), ElementsAre(6));
}
TEST_F(KvTableState, ALostWorkerEndsTheRoundAndTheOthersBringTheRows) {
  round(0, {1, 2}, 1);
  fetch(0, 1, 1, {1});
  const int pushed = push(0, 1, {2}, {50});
  lose(1);
  EXPECT_EQ(failure_of(pushed), "worker 1 is lost");
  EXPECT_THAT(rows_of(pull(0, 1, {2})), ElementsAre(2)) << "of the round that did not end nothing is left";
  bring(0, 1, 1, {1}, {70});
  leave(0, 1);
  EXPECT_THAT(rows_of(pull(0, 0, {1, 2})), ElementsAre(70, 2));
  EXPECT_THAT(failure_of(push(0, 0, {1}, {1})), "worker 1 is lost") << "in the next session, too";
}
TEST_F(KvTableState, OfSeveralWhoBringARowTheOneWithTheMostRoundsHasItRight) {
  for (const bool late : {false, true}) {
    state_.emplace(7, 2);
    fetch(0, 0, 1, {1});
    fetch(1, 0, 1, {1});
    // Worker 1 has ended a round that worker 0 has not.
    const auto zero = [&] {
      bring(0, 0, 1, {1}, {5});
      leave(0, 1);
    };
    if (!late) zero();
    bring(1, 1, 1, {1}, {6});
    leave(1, 1);
    if (late) zero();
    EXPECT_THAT(rows_of(pull(0, 0, {1})), ElementsAre(6));
  }
}
TEST_F(KvTableState, WhoNeverHadALaterSetsRowsReleasesThem) {
  have_sets_up_to(1);
  round(0, {1, 2}, 1);
  fetch(0, 1, 1, {1});
  fetch(1, 1, 1, {1});
  fetch(1, 1, 2, {2});  // and is gone before it has done anything with it
  lose(1);
  bring(0, 1, 1, {1}, {30});
  leave(0, 1);
  before_ = 0;
  EXPECT_THAT(rows_of(pull(0, 0, {1, 2})), ElementsAre(30, 2));
}
TEST_F(KvTableState, ARowWhoseWorkersAreAllLostIsNamed) {
  state_.emplace(7, 3);
  for (int rank = 0; rank < 3; ++rank) push(rank, 0, {1}, {4});
  fetch(0, 1, 1, {1});
  lose(0);
  leave(1, 1);  // it says that it has brought the rows of set 1, and has not
  leave(2, 1);
  EXPECT_THAT(failure_of(pull(1, 0, {1})), "the row of key 1 is lost with the workers that had it");
  EXPECT_THAT(rows_of(pull(1, 0, {2})), ElementsAre(0));
}
TEST_F(KvTableState, WhoWaitsForARowThatALostWorkerHadIsTold) {
  fetch(0, 0, 1, {1});
  const int waiting = pull(0, 0, {1});
  EXPECT_TRUE(waits(waiting));
  lose(1);
  EXPECT_EQ(failure_of(waiting), "worker 1 is lost");
  EXPECT_EQ(failure_of(pull(0, 0, {1})), "worker 1 is lost");
}
TEST_F(KvTableState, WhoLeavesIsNamedToTheOthers) {
  const int pushed = push(0, 0, {1}, {1});
  leave(1, 0);
  EXPECT_EQ(failure_of(pushed), "worker 1 has left table 7: tired");
  EXPECT_EQ(failure_of(push(0, 0, {1}, {1})), "worker 1 has left table 7: tired");
  leave(0, 0);
  round(0, {1}, 1);
}
TEST_F(KvTableState, WhoIsBackBeforeTheOthersHaveLeftWaitsForThem) {
  leave(1, 0);
  const int early = pull(1, 0, {1});
  const int pushed = push(1, 0, {1}, {7});
  EXPECT_TRUE(waits(early) && waits(pushed));
  leave(0, 0);
  EXPECT_THAT(rows_of(early), ElementsAre(0));
  push(0, 0, {1}, {1});
  EXPECT_EQ(failure_of(pushed), "");
  EXPECT_THAT(rows_of(pull(1, 1, {1})), ElementsAre(8));
}
TEST_F(KvTableState, WhoGoesOnAfterACloseAndWhoCloses) {
  const int closed = close(1, 0);
  EXPECT_THAT(failure_of(push(0, 0, {1}, {1})),
              HasSubstr("worker 1 has closed table 7, and worker 0 goes on"));
  EXPECT_THAT(failure_of(closed), HasSubstr("worker 1 has closed table 7"));
  leave(0, 0);
  leave(1, 0);
  push(0, 0, {1}, {1});
  EXPECT_THAT(failure_of(close(1, 0)), HasSubstr("in a round of the others"));
}

// --- What does not fit.

TEST_F(KvTableState, OptionsThatDifferAreToldToAll) {
  const int waiting = push(0, 0, {1}, {1});
  terms_.rate = 2;
  const auto both = AllOf(HasSubstr("rate 0 at worker 0"), HasSubstr("rate 2 at worker 1"));
  EXPECT_THAT(failure_of(pull(1, 0, {1})), both);
  EXPECT_THAT(failure_of(waiting), both);
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
  EXPECT_THAT(failure_of(first), AllOf(HasSubstr("no room for more rows: 1 row"), HasSubstr("--memory")));
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
  const auto text = [](TableMessage message, std::size_t cut = 0) -> std::string {
    SArray<std::byte> bytes = encode(message);
    try {
      (void)decode_table_message(bytes.segment(0, bytes.size() - cut));
      return "";
    } catch (const Failure& failure) {
      return failure.what();
    }
  };
  EXPECT_EQ(text({.act = TableAct::kPush, .keys = keys, .rows = rows}), "");
  EXPECT_THAT(text({.act = TableAct::kPush, .keys = keys, .rows = rows}, 4),
              HasSubstr("not as long as it says"));
  EXPECT_THAT(text({.act = TableAct::kPull}, 1), HasSubstr("shorter than its header"));
  EXPECT_THAT(text({.act = TableAct::kPull, .keys = keys, .rows = rows}), HasSubstr("no row for each key"));
  EXPECT_THAT(text({.act = static_cast<TableAct>(9)}), HasSubstr("says nothing that is known"));
  EXPECT_THAT(text({.act = TableAct::kPull, .terms = {.width = 0}}), HasSubstr("width of 0"));
  const std::vector<Key> descending{2, 1};
  EXPECT_THAT(text({.act = TableAct::kPull, .keys = descending}), HasSubstr("ascending"));
}

}  // namespace
}  // namespace tally::kv

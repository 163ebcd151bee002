// A table at its server: rows that move to the workers and back, and what becomes of them and of the table when workers go.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kv/table_state.h"
#include "kv_table_state_bed.h"

namespace tally::kv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  const auto leap =
      HasSubstr("worker 1 speaks of set 900 of the hot keys of table 7, and the last round had set 0");
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
    set_ = 1;
    round(0, {}, 0);  // which worker 1 has ended, and worker 0 not
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
// At another server it could not close, as a worker was lost meanwhile. Seed 5781 of the simulator's tables: what it said then
// began a session that nobody could end.
// The first of the two tables had a round, the second none.
TEST_F(KvTableState, WhoLeavesAfterAllHaveClosedHereTouchesNoLaterSession) {
  const std::vector<Key> keys{1};
  const std::vector<float> rows{9};
  for (std::uint64_t life = 1; life <= 2; ++life) {
    const std::uint64_t rounds = life == 1 ? 1 : 0;
    if (rounds != 0) round(0, {1}, 3);
    close(0, rounds);
    close(1, rounds);
    const int late = pull(1, 0, {1});
    EXPECT_THAT(rows_of(late), ElementsAre(6)) << "the next one has begun";
    EXPECT_THAT(
        failure_of(say(
            0,
            {.act = TableAct::kBring, .life = life, .rounds = rounds, .set = 1, .keys = keys, .rows = rows})),
        HasSubstr("all workers have closed table 7 here"));
    EXPECT_EQ(failure_of(say(0, {.act = TableAct::kLeave, .life = life, .rounds = rounds, .text = "tired"})),
              "");
  }
  round(0, {1}, 1);
  EXPECT_THAT(rows_of(pull(0, 1, {1})), ElementsAre(8));
}
TEST_F(KvTableState, WhoseCloseIsRefusedLeavesAndTheNextSessionBegins) {
  leave(0, 0);
  EXPECT_THAT(failure_of(close(1, 0)), "worker 0 has left table 7: tired");
  leave(1, 0);
  round(0, {1}, 1);
  EXPECT_THAT(rows_of(pull(0, 1, {1})), ElementsAre(2));
}
TEST_F(KvTableState, WhoEndsItsNextTableAtOnceEndsItForAll) {
  close(0, 0);
  close(1, 0);
  const int waiting = push(1, 0, {1}, {1});
  leave(0, 0);
  EXPECT_THAT(failure_of(waiting), "worker 0 has left table 7: tired");
}
TEST_F(KvTableState, WhoLeavesAnAsynchronousTableOfWhichNobodyHasSpokenEndsItForNobody) {
  terms_ = {.width = 1, .rule = Rule::kSum, .rate = 0, .every = 16, .age = 50};
  leave(1, 0);
  EXPECT_EQ(failure_of(push(0, 0, {1}, {3})), "");
  EXPECT_THAT(rows_of(pull(0, 1, {1})), ElementsAre(3));
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

}  // namespace
}  // namespace tally::kv

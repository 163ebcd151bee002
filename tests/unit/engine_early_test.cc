// Repair before timers: what the box lacks is contributed again, what later ones overtook is asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "engine_early.h"

namespace tally::testbed {
namespace {

class EarlyTwoShards : public Early {
 protected:
  EarlyTwoShards() : Early(2) {}
};

TEST_F(Early, WhatTheBoxLacksIsContributedAtOnce) {
  send(8, kRtt);  // chunks 1 to 8, sequences 2 to 9
  nack(3, 0b101, 0, 2 * kRtt);
  EXPECT_EQ(engine_->deadline(), 0U);
  EXPECT_EQ(said(2 * kRtt), (Said{{2, 4}, {}}));
  EXPECT_EQ(engine_->statistics().early, 2U);
  EXPECT_EQ(engine_->statistics().nacks, 1U);
  EXPECT_EQ(engine_->statistics().rto, kRto) << "nothing ran out: no back-off";
  EXPECT_EQ(header_of(sent_.back()).sequence(), 11U) << "each sending has its own";
  nack(3, 0b101, 0, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), Said{}) << "those sendings are not the last any more";
  nack(11, 1, 0, 3 * kRtt);
  EXPECT_EQ(said(3 * kRtt), (Said{{4}, {}}));
}

TEST_F(Early, ANackOfWhatHasItsResultIsIgnored) {
  send(8, kRtt);
  answer({1, 2, 3, 4}, 2 * kRtt);
  nack(1, ~std::uint64_t{0}, 0, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{5, 6, 7, 8}, {}}));
}

TEST_F(Early, ANackOfWhatWasNeverSentIsIgnored) {
  send(8, kRtt);
  nack(10, ~std::uint64_t{0}, 0, 2 * kRtt);
  nack(0xFFFF'FFC8, 0xFF, 0, 2 * kRtt);
  nack(2, 1, 1, 2 * kRtt);  // no such shard
  EXPECT_EQ(said(2 * kRtt), Said{});
  EXPECT_EQ(engine_->statistics().of(Refused::kNotWaited), 1U);
}

// What the box asked for ran no timer out: the first QUERY to a peer comes after three that did.
TEST_F(Early, NacksDoNotCountTowardsQueries) {
  send(1, kRtt);
  TimeNs now = kRtt;
  for (std::uint32_t sequence = 2; sequence < 8; ++sequence) {
    nack(sequence, 1, 0, now);
    EXPECT_EQ(said(now), (Said{{1}, {}}));
  }
  std::vector<std::string> story;  // of its timer, which doubles each time
  while (story.size() < 4) {
    const TimeNs before = engine_->statistics().rto;
    const auto out = drain(*engine_, engine_->deadline());
    if (engine_->statistics().rto == before) continue;
    for (const Out& o : out) {
      const Header h = header_of(o.bytes);
      if (h.type == PacketType::kContribute) story.emplace_back("plain");
      if (h.type == PacketType::kQuery && h.contributors.host() != 0) story.emplace_back("a peer");
    }
  }
  EXPECT_EQ(story, (std::vector<std::string>{"plain", "plain", "plain", "a peer"}));
}

TEST_F(EarlyTwoShards, EachShardHasItsOwnSequences) {
  send(8, kRtt);  // odd chunks go to shard 1: sequences 1 to 4; even ones to shard 0: 2 to 5
  nack(1, 1, 1, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{1}, {}}));
  nack(2, 1, 0, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), (Said{{2}, {}}));
}

TEST_F(Early, WhatFourLaterOnesOvertookIsAskedForAfterARoundTrip) {
  send(8, kRtt);
  answer({2, 3, 4}, 2 * kRtt);
  EXPECT_EQ(engine_->deadline(), 2 * kRtt + kLeast) << "when nothing more comes";
  answer({5}, 2 * kRtt);
  const TimeNs due = engine_->deadline();
  EXPECT_GT(due, 2 * kRtt) << "a NACK may be on its way";
  EXPECT_LT(due, 5 * kRtt);
  EXPECT_EQ(said(due - 1), Said{});
  EXPECT_EQ(said(due), (Said{{}, {1}}));
  EXPECT_GT(engine_->deadline(), due) << "once";
  EXPECT_EQ(engine_->statistics().asks, 1U);
  EXPECT_EQ(named_, 0);
  EXPECT_EQ(engine_->statistics().retransmissions, 0U);
  answer({1}, due);
  EXPECT_EQ(engine_->statistics().results, 6U);
}

TEST_F(Early, WhoIsNotInTheChunkContributes) {
  send(8, kRtt);
  answer({2, 3, 4, 5}, 2 * kRtt);
  waiting(1, 0b0101, 2 * kRtt);
  EXPECT_EQ(said(2 * kRtt), Said{}) << "nobody has asked";
  const TimeNs due = engine_->deadline();
  ASSERT_EQ(said(due), (Said{{}, {1}}));
  waiting(1, 0b0101, due);
  EXPECT_EQ(said(due), (Said{{1}, {}}));
  waiting(1, 0b0101, due);
  EXPECT_EQ(said(due), Said{}) << "once for a question";
}

TEST_F(Early, WhoIsInTheChunkWaits) {
  send(8, kRtt);
  answer({2, 3, 4, 5}, 2 * kRtt);
  const TimeNs due = engine_->deadline();
  ASSERT_EQ(said(due), (Said{{}, {1}}));
  waiting(1, 0b0011, due);
  EXPECT_EQ(said(due), Said{});
  EXPECT_EQ(engine_->missing(), 0b1100U);
}

TEST_F(Early, WhatNobodyKnowsIsContributed) {
  send(8, kRtt);
  answer({2, 3, 4, 5}, 2 * kRtt);
  const TimeNs due = engine_->deadline();
  ASSERT_EQ(said(due), (Said{{}, {1}}));
  waiting(1, 0, due);
  EXPECT_EQ(said(due), (Said{{1}, {}}));
  EXPECT_EQ(engine_->missing(), 0U) << "it says nothing of the others";
}

// Behind the last ones no four can come, so three are enough; not while more are on their way.
TEST_F(Early, OfTheLastOnesThreeLaterOnesAreEnough) {
  send(8, kRtt);
  answer({1, 2, 3, 4, 6, 7}, 2 * kRtt);
  EXPECT_EQ(engine_->deadline(), 2 * kRtt + kLeast);
  answer({8}, 2 * kRtt);
  EXPECT_EQ(said(engine_->deadline()), (Said{{}, {5}}));
}

TEST_F(EarlyTwoShards, OnlyTheSameShardOvertakes) {
  send(8, kRtt);
  answer({2, 4, 6, 8}, 2 * kRtt);  // another core is faster
  EXPECT_EQ(engine_->deadline(), 2 * kRtt + kLeast);
  answer({5}, 2 * kRtt);
  EXPECT_EQ(said(engine_->deadline()), (Said{{}, {1}}));
}

// The box may have had that result stored: it says nothing of what the other ranks have sent since.
TEST_F(Early, WhatWasSentTwiceOvertakesNothing) {
  send(8, kRtt);
  const TimeNs ran_out = kRtt + kRto;
  EXPECT_EQ(said(ran_out), (Said{{1, 2, 3, 4, 5, 6, 7, 8}, {}}));
  answer({5, 6, 7, 8}, ran_out + kRtt);
  EXPECT_EQ(said(ran_out + kRtt + kLeast - 1), Said{});
}

// Others than the oldest chunk are asked for three times: then it is not loss, and they wait for their
// timers.
TEST_F(Early, LostAgainItWaitsForARoundTripAndNotForTheTimer) {
  send(9, kRtt);
  answer({3, 4, 5, 6, 7, 8, 9}, 2 * kRtt);
  const auto asked_for = [&](TimeNs until) {
    std::vector<TimeNs> at;
    for (TimeNs now = engine_->deadline(); now < until; now = engine_->deadline()) {
      const Said all = said(now);
      EXPECT_EQ(std::count(all.again.begin(), all.again.end(), 2U), 0);
      at.insert(at.end(), static_cast<std::size_t>(std::count(all.asked.begin(), all.asked.end(), 2U)), now);
    }
    return at;
  };
  const auto at = asked_for(kRto / 2);
  ASSERT_EQ(at.size(), 3U);
  EXPECT_LE(at[0], 4 * kRtt);
  EXPECT_GE(at[1] - at[0], kLeast);
  EXPECT_LE(at[2] - at[0], 3 * kLeast);
}

// The oldest one goes on, more and more rarely, until its timer comes earlier.
TEST_F(Early, TheOldestIsAskedForUntilItsTimerComesEarlier) {
  send(8, kRtt);
  answer({2, 3, 4, 5, 6, 7, 8}, 2 * kRtt);
  TimeNs now = engine_->deadline();
  int n = 0;
  for (const TimeNs leasts : std::vector<TimeNs>{1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32, 64}) {
    const bool nobody_knew = ++n == 8;
    EXPECT_EQ(said(now), nobody_knew ? (Said{{1}, {}}) : (Said{{}, {1}})) << n;
    EXPECT_EQ(engine_->deadline() - now, std::min(leasts * kLeast, kRto));
    now = engine_->deadline();
  }
  EXPECT_EQ(said(now), (Said{{1}, {}})) << "after the RTO";
  EXPECT_EQ(named_, 3) << "of 14, the 3rd, the 7th and the 11th";
  answer({1}, now);
  EXPECT_EQ(engine_->deadline(), kSecond) << "only a heartbeat is left";
}

// Nothing follows that could overtake the last one: when nothing has come for a while it is asked for once,
// and then again at growing intervals; its timer is left alone.
TEST_F(Early, TheOldestIsAskedForWhenNothingComes) {
  send(2, kRtt);
  answer({1}, 2 * kRtt);
  TimeNs now = engine_->deadline();
  EXPECT_EQ(now, 2 * kRtt + kLeast) << "since the newest result";
  EXPECT_EQ(said(now - 1), Said{});
  for (const TimeNs leasts : std::vector<TimeNs>{1, 1, 1, 2, 2, 4, 4, 8, 8}) {
    const TimeNs wait = leasts * kLeast;
    EXPECT_EQ(said(now), (Said{{}, {2}}));
    EXPECT_EQ(engine_->deadline() - now, wait);
    waiting(2, 0b0011, now);  // others are awaited
    now += wait;
  }
  EXPECT_EQ(engine_->statistics().retransmissions, 0U);
  answer({2}, now);
  EXPECT_EQ(engine_->deadline(), kSecond) << "only a heartbeat is left";
}

// A box whose memory is full forgets chunks that are not complete; that one it holds again shows in its answer.
// What is behind others in a queue is late with all of them: as long as results come of what was sent before it, its timer
// begins anew (RFC 6298, 5.3).
TEST_F(Early, ATimerBeginsAnewWithEachResultOfWhatWasSentBefore) {
  const TimeNs sent = kRtt;
  send(8, sent);
  (void)said(sent + kLeast);  // asks for the oldest
  const TimeNs came = sent + kRto - kMillisecond;
  answer({1, 2}, came);
  EXPECT_EQ(said(came + kRto - kMillisecond).again, Chunks{});
  EXPECT_EQ(said(came + 2 * kRto).again, (Chunks{4, 5, 6, 7, 8}));
}

TEST_F(Early, TheOldestThatNobodyKnowsIsContributedInTheTurnOfAQuestion) {
  send(2, kRtt);
  answer({1}, 2 * kRtt);
  TimeNs now = engine_->deadline();
  for (int n = 1; n <= 12; ++n) {
    EXPECT_EQ(said(now), n == 8 ? (Said{{2}, {}}) : (Said{{}, {2}})) << n;
    now = engine_->deadline();
  }
}

TEST_F(Early, OnlyTheOldestIsProbed) {
  send(8, kRtt);
  EXPECT_EQ(said(kRtt + kLeast), (Said{{}, {1}}));
}

TEST_F(Early, ALateRankIsNotAskedAboutForEver) {
  send(2, kRtt);
  answer({1}, 2 * kRtt);
  for (TimeNs now = 2 * kRtt; now < 2 * kSecond; now = std::max(now + 1, engine_->deadline())) {
    (void)drain(*engine_, now);
    waiting(2, 0b0011, now);
  }
  EXPECT_LE(engine_->statistics().asks, 24U);
}

TEST_F(Early, EverySecondQuestionGoesOnToTheServer) {
  send(2, kRtt);
  answer({1}, 2 * kRtt);
  std::vector<bool> direct;
  for (int i = 0; i < 4; ++i) {
    for (const Out& o : drain(*engine_, engine_->deadline()))
      direct.push_back((header_of(o.bytes).flags & kFlagDirect) != 0);
  }
  EXPECT_EQ(direct, (std::vector<bool>{false, true, false, true}));
}

// What waits for a rank that stands still, or behind a loss, takes long. That must not make the next question
// late, as it makes the timer late.
TEST_F(Early, AStallDoesNotDelayTheNextQuestion) {
  send(8, kRtt);
  answer({1, 2, 3, 4, 5, 6, 7, 8}, 15 * kMillisecond);
  send(8, 15 * kMillisecond);
  answer({10, 11, 12, 13, 14, 15, 16}, 15 * kMillisecond + kRtt);
  EXPECT_LE(engine_->deadline(), 15 * kMillisecond + 3 * kRtt);
  EXPECT_EQ(said(engine_->deadline()), (Said{{}, {9}}));
}

// While results come that a server made, any may be such a one, and they take longer.
TEST_F(Early, WhatAServerMayBeMakingIsNotOvertakenSoon) {
  constexpr TimeNs kServed = 4 * kMillisecond;
  send(8, kRtt);
  answer({1, 2, 3, 4, 5, 6, 7}, 2 * kRtt);
  served(8, kRtt + kServed);
  const TimeNs now = kRtt + kServed;
  send(8, now);
  answer({10, 11, 12, 13, 14, 15, 16}, now + kRtt);
  EXPECT_GE(engine_->deadline(), now + kServed);
  EXPECT_LE(engine_->deadline(), now + 2 * kServed);
  // Asked for, it is the server's turn at once after the peers'.
  const TimeNs due = engine_->deadline();
  std::vector<bool> direct;
  for (const Out& o : drain(*engine_, due)) direct.push_back((header_of(o.bytes).flags & kFlagDirect) != 0);
  EXPECT_EQ(direct, (std::vector<bool>{false, true}));
}

// Where 16 chunks in a row were asked for and nothing of them had been lost, the server needs longer than that;
// where it were 64, longer still.
TEST_F(Early, QuestionsInVainMakeItPatientWithServers) {
  constexpr TimeNs kServed = 4 * kMillisecond;
  send(8, kRtt);
  answer({1, 2, 3, 4, 5, 6, 7}, 2 * kRtt);
  served(8, kRtt + kServed);
  TimeNs now = kRtt + kServed;
  // How long the first of eight chunks waits for its question behind the newest result of the server, which took
  // others of them kRtt, the least, and kServed. Then its own comes, of the server, or again.
  const auto waits = [&](bool lost) {
    const auto first = static_cast<std::uint32_t>(sent_.size());
    send(8, now);
    for (std::uint32_t c = first + 1; c < first + 6; ++c) answer({c}, now + kRtt);
    served(first + 6, now + kRtt);
    served(first + 7, now + kServed);
    const TimeNs due = engine_->deadline();
    (void)drain(*engine_, due);
    if (lost) {
      Bytes result = box_.result_of(sent_.at(first));
      Header h = header_of(result);
      h.flags |= kFlagRetransmit;
      engine_->receive(sealed(h, payload_of(result)), due + kRtt);
    } else {
      served(first, due + kRtt);
    }
    return due - kServed - std::exchange(now, due + kRtt);
  };
  for (int i = 0; i < 16; ++i) EXPECT_EQ(waits(false), kRtt) << i;
  for (int i = 16; i < 64; ++i) EXPECT_EQ(waits(false), 2 * kRtt) << i;
  EXPECT_EQ(waits(false), 4 * kRtt);
  EXPECT_EQ(waits(true), 4 * kRtt) << "it is not known yet";
  EXPECT_EQ(waits(false), kRtt);
}

// A queue has grown in front of a server, all is asked for in vain, and each answer makes the queue longer: eight
// such chunks tell how long it takes. (With four jobs on daemons, each question was asked three times, and the server's
// link carried seven results for a chunk.)
TEST_F(Early, WhatIsAskedForInVainTellsHowLongAServerTakes) {
  constexpr TimeNs kServed = 4 * kMillisecond;
  constexpr TimeNs kLonger = 5 * kServed;
  send(8, kRtt);
  answer({1, 2, 3, 4, 5, 6, 7}, 2 * kRtt);
  served(8, kRtt + kServed);
  TimeNs now = kRtt + kServed;
  const auto asked = [&] {
    const auto before = engine_->statistics().asks;
    const auto first = static_cast<std::uint32_t>(sent_.size());
    send(8, now);
    for (std::uint32_t c = first + 1; c < first + 8; ++c) answer({c}, now + kRtt);
    while (engine_->deadline() < now + kLonger) (void)drain(*engine_, engine_->deadline());
    served(first, now += kLonger);
    return engine_->statistics().asks != before;
  };
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(asked()) << i;
  for (int i = 8; i < 40; ++i) EXPECT_FALSE(asked()) << i;
}

// ... also where an older question waits for its next turn.
TEST_F(Early, TheServersTurnWaitsForNoOlderQuestion) {
  constexpr TimeNs kServed = 4 * kMillisecond;
  send(8, kRtt);
  answer({1, 2, 3, 4, 5, 6, 7}, 2 * kRtt);
  served(8, kRtt + kServed);
  const TimeNs now = kRtt + kServed;
  send(1, now);
  send(8, now + kMillisecond);
  answer({11, 12, 13, 14, 15, 16, 17}, now + kMillisecond + kRtt);
  std::vector<std::pair<std::uint32_t, bool>> asked;
  for (int i = 0; i < 2; ++i) {
    for (const Out& o : drain(*engine_, engine_->deadline())) {
      const Header h = header_of(o.bytes);
      asked.emplace_back(h.chunk.host(), (h.flags & kFlagDirect) != 0);
    }
  }
  EXPECT_EQ(asked,
            (std::vector<std::pair<std::uint32_t, bool>>{{9, false}, {9, true}, {10, false}, {10, true}}));
}

// Each time it comes late it looks first at what has arrived, but the second time it has looked.
TEST_F(Early, WhoAlwaysComesLateRepairsAllTheSame) {
  send(2, kRtt);
  answer({1}, 2 * kRtt);
  TimeNs now = engine_->deadline() + 150 * kMillisecond;
  EXPECT_EQ(said(now), Said{});
  now = engine_->deadline() + 150 * kMillisecond;
  EXPECT_EQ(said(now), (Said{{2}, {}})) << "its timer has run out too";
}

TEST_F(Early, ServersThatHaveNothingToDoAreForgotten) {
  send(8, kRtt);
  answer({1, 2, 3, 4, 5, 6, 7}, 2 * kRtt);
  served(8, 5 * kMillisecond);
  TimeNs now = 5 * kMillisecond;
  for (std::uint32_t first = 9; first < 9 + 4 * 32; first += 8) {
    send(8, now);
    now += kRtt;
    for (std::uint32_t c = first; c < first + 8; ++c) answer({c}, now);
  }
  const auto first = static_cast<std::uint32_t>(sent_.size());
  send(8, now);
  for (std::uint32_t c = first + 1; c < first + 8; ++c) answer({c}, now + kRtt);
  EXPECT_LE(engine_->deadline(), now + 3 * kRtt);
}

TEST_F(Early, ANewEpochStartsAnew) {
  send(8, kRtt);
  answer({2, 3, 4, 5}, 2 * kRtt);
  const TimeNs due = engine_->deadline();
  ASSERT_EQ(said(due), (Said{{}, {1}}));
  engine_->receive(box_.call_back(1), 2 * kRtt);
  const auto join = drain(*engine_, kSecond);
  ASSERT_EQ(join.size(), 1U);
  JoinPayload p;
  std::memcpy(&p, join[0].bytes.data() + kHeaderBytes, sizeof p);
  ++box_.epoch;
  engine_->receive(box_.joined(JoinStatus::kRunning, p.nonce.host(), 1), kSecond);
  EXPECT_EQ(said(kSecond), (Said{{1, 6, 7, 8}, {}})) << "what has no result, once each";
  EXPECT_EQ(header_of(sent_.back()).sequence(), 4U) << "counted from 1 again";
  EXPECT_EQ(engine_->statistics().early, 0U);
}

}  // namespace
}  // namespace tally::testbed

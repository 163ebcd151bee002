// What comes in, and what goes out for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps_support.h"

namespace tally::psbed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PsMerge : public testing::Test {
 protected:
  PsMerge() : server({job}) {
    server.join(job);
    (void)server.events();
  }
  // The bytes of a whole answer to a chunk's end.
  void expect_complete(Chunk chunk, std::uint16_t n = 16) {
    const auto out = server.drain();
    ASSERT_EQ(out.size(), 2U);
    job.expect_result(out[0].bytes, 0b111, chunk, n);
    job.expect_bare(out[1].bytes, PacketType::kFlush, 0, chunk);
    for (const Out& o : out) EXPECT_EQ(o.port, kBasePort + raw(chunk) % 32 % 2);
  }
  BoxJob job;
  Server server;
};

TEST_F(PsMerge, TheLastContributionBringsTheResultToAllAndOneFlush) {
  for (const Chunk chunk : {Chunk{0}, Chunk{1}, Chunk{15}}) {
    server.hear(job.contribution(2, chunk));
    server.hear(job.contribution(0, chunk));
    server.none();
    server.hear(job.contribution(1, chunk));
    expect_complete(chunk);
  }
  EXPECT_EQ(server.counted().contributions, 9U);
  EXPECT_EQ(server.counted().merged, 6U);
  EXPECT_EQ(server.counted().completed, 3U);
  EXPECT_EQ(server.counted().results, 3U);
  EXPECT_EQ(server.counted().flushes, 3U);
}

TEST_F(PsMerge, PartialsAreAddedAsContributionsAre) {
  server.hear(job.partial(0b101, Chunk{4}, 32));
  server.hear(job.contribution(1, Chunk{4}, 32));
  expect_complete(Chunk{4}, 32);
}

TEST_F(PsMerge, ABarrierHasNoValuesAndIsSummedAllTheSame) {
  for (std::uint16_t r = 0; r < 3; ++r) server.hear(job.contribution(r, Chunk{4}, 0));
  expect_complete(Chunk{4}, 0);
  server.hear(job.contribution(1, Chunk{4}, 0));
  job.expect_result(server.one(), 0b010, Chunk{4}, 0);
}

TEST_F(PsMerge, TheLargestExponentAndAnyOverflowPassOn) {
  for (std::uint16_t r = 0; r < 3; ++r) {
    Header h = job.part(PacketType::kContribute, bit_of(Rank{r}), Chunk{4});
    h.rank = Be{r};
    h.dtype = 1;
    h.exponent = static_cast<std::int8_t>(r == 1 ? 12 : -96);
    h.flags = r == 2 ? kFlagOverflow | kFlagDirect : kFlagRetransmit;
    server.hear(sealed(h, job.offered(r, Chunk{4}, 16)));
  }
  const auto out = server.drain();
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].header().exponent, 12);
  EXPECT_EQ(out[0].header().dtype, 1);
  EXPECT_EQ(out[0].header().flags, kFlagOverflow);
}

TEST_F(PsMerge, WhoAsksForAKnownChunkGetsItAlone) {
  server.hear(job.partial(0b111, Chunk{4}));
  expect_complete(Chunk{4});
  server.hear(job.contribution(1, Chunk{4}));
  const Bytes again = server.one();
  job.expect_result(again, 0b010, Chunk{4});
  EXPECT_EQ(header_of(again).flags, kFlagRetransmit);
  server.hear(job.partial(0b101, Chunk{4}));
  job.expect_result(server.one(), 0b101, Chunk{4});
  EXPECT_EQ(server.counted().known, 2U);
}

TEST_F(PsMerge, AQuestionForAKnownChunkIsAnsweredToTheAskerAlone) {
  server.hear(job.partial(0b111, Chunk{4}));
  expect_complete(Chunk{4});
  server.hear(job.query(1, Chunk{4}));
  const Bytes again = server.one();
  job.expect_result(again, 0b010, Chunk{4});
  EXPECT_EQ(header_of(again).flags, kFlagRetransmit);
  EXPECT_EQ(server.counted().queries, 1U);
  EXPECT_EQ(server.counted().contributions, 0U);
}

// Who asks has found the chunk nowhere else: what the state lacks was lost, and nobody waits for the timer.
TEST_F(PsMerge, AQuestionForAStateThatWaitsAsksForWhatItLacks) {
  server.hear(job.contribution(0, Chunk{4}));
  server.hear(job.query(0, Chunk{4}));
  job.expect_bare(server.one(), PacketType::kResend, 0b110, Chunk{4});
  server.hear(job.query(1, Chunk{4}));
  job.expect_bare(server.one(), PacketType::kResend, 0b010, Chunk{4});  // itself alone: the others are asked
  server.hear(job.query(0, Chunk{4}));
  server.none();
  server.hear(job.contribution(1, Chunk{4}));
  server.hear(job.contribution(2, Chunk{4}));
  expect_complete(Chunk{4});
}

TEST_F(PsMerge, AQuestionForAnUnknownChunkAsksTheAsker) {
  server.hear(job.query(2, Chunk{4}));
  job.expect_bare(server.one(), PacketType::kResend, 0b100, Chunk{4});
  EXPECT_EQ(server.engine->memory().incomplete, 0U);
}

TEST_F(PsMerge, AQuestionInAnotherRanksNameIsRefused) {
  Header h = header_of(job.query(1, Chunk{4}));
  h.contributors = Be{std::uint64_t{0b101}};
  server.expect_refused(sealed(h), Refused::kContributors);
  h.contributors = Be{std::uint64_t{0b1000}};
  h.rank = Be{std::uint16_t{3}};
  server.expect_refused(sealed(h), Refused::kRank);
}

TEST_F(PsMerge, WhatIsInsideIsIgnored) {
  server.hear(job.partial(0b011, Chunk{4}));
  server.hear(job.contribution(0, Chunk{4}));
  server.hear(job.partial(0b011, Chunk{4}));
  server.none();
  EXPECT_EQ(server.counted().inside, 2U);
  server.hear(job.contribution(2, Chunk{4}));
  expect_complete(Chunk{4});
}

TEST_F(PsMerge, WhatContainsTheStateReplacesIt) {
  server.hear(job.contribution(0, Chunk{4}));
  server.hear(job.partial(0b011, Chunk{4}));
  server.none();
  server.hear(job.contribution(2, Chunk{4}));
  expect_complete(Chunk{4});
}

TEST_F(PsMerge, AnOverlapAsksItsOtherRanksAgain) {
  server.hear(job.partial(0b011, Chunk{4}));
  server.hear(job.partial(0b110, Chunk{4}));
  job.expect_bare(server.one(), PacketType::kResend, 0b100, Chunk{4});
  EXPECT_EQ(server.counted().overlaps, 1U);
  server.hear(job.contribution(2, Chunk{4}));
  expect_complete(Chunk{4});
}

// Of what the box had finished and still keeps, all heard; who came here instead may not have.
TEST_F(PsMerge, ASumOfTheBoxCompletesTheStateForThoseWhoAreInIt) {
  server.hear(job.contribution(1, Chunk{4}));
  server.hear(job.result(Chunk{4}));
  const auto out = server.drain();
  ASSERT_EQ(out.size(), 2U);
  job.expect_result(out[0].bytes, 0b010, Chunk{4});
  job.expect_bare(out[1].bytes, PacketType::kFlush, 0, Chunk{4});
  server.hear(job.result(Chunk{4}));
  server.none();
  EXPECT_EQ(server.counted().sums, 2U);
  EXPECT_EQ(server.counted().completed, 1U);
}

// What its own server does for a box: the job must end, or its ranks would wait for ever.
TEST_F(PsMerge, OtherSizesAreCountedAndAbortTheJob) {
  server.hear(job.contribution(0, Chunk{4}, 16));
  server.hear(job.contribution(1, Chunk{4}, 32));
  const Bytes sent = server.one();
  const Header h = header_of(sent);
  EXPECT_EQ(h.type, PacketType::kAbort);
  EXPECT_EQ(h.rank_id(), server_rank(0));
  EXPECT_EQ(h.job.host(), job.id);
  EXPECT_EQ(h.epoch.host(), job.epoch);
  EXPECT_EQ(h.cookie.host(), job.cookie());
  EXPECT_EQ(sealed(h, payload_of(sent)), sent);
  const Bytes payload = payload_of(sent);
  EXPECT_TRUE(auth::verify(job.membership().session, h, payload));
  const auto text = auth::body_of(payload).subspan(sizeof(CountedPayload));
  EXPECT_THAT(std::string(reinterpret_cast<const char*>(text.data()), text.size()),
              testing::StartsWith("rank 1 sent 32 of 32 elements for chunk 4"));
  EXPECT_EQ(server.counted().mismatches, 1U);
  EXPECT_THAT(server.events(),
              ElementsAre(HasSubstr("rank 1 sent 32 of 32 elements for chunk 4, rank 0 16 of 16")));
  server.hear(job.contribution(1, Chunk{4}, 32));
  server.none();
  std::size_t aborts = 1;
  for (int i = 0; i < 60; ++i) {  // until the box answers, a few times
    server.now += 100 * kMillisecond;
    for (const Out& out : server.drain()) aborts += out.header().type == PacketType::kAbort ? 1 : 0;
  }
  EXPECT_EQ(aborts, 5U);
  server.hear(job.abort("server 0: rank 1 sent ..."));
  EXPECT_EQ(header_of(server.one()).type, PacketType::kJoin);
}

// An ABORT that nobody answered is not the last word of the epoch.
TEST_F(PsMerge, AMismatchAfterTheLastAbortIsToldAgain) {
  server.hear(job.contribution(0, Chunk{4}, 16));
  std::size_t aborts = 0;
  for (int i = 0; i < 120; ++i) {
    if (i == 0 || i == 10 || i == 60) server.hear(job.contribution(1, Chunk{4}, 32));
    for (const Out& out : server.drain()) aborts += out.header().type == PacketType::kAbort ? 1 : 0;
    server.now += 100 * kMillisecond;
    server.hear(job.echo());
    if (i == 59) {
      EXPECT_EQ(aborts, 5U) << "while one is told the next is not";
      server.hear(job.contribution(0, Chunk{4}, 16));  // its state was dropped meanwhile
    }
  }
  EXPECT_EQ(aborts, 10U);
  EXPECT_EQ(server.events().size(), 2U);
}

TEST_F(PsMerge, ADamagedPayloadChangesNothing) {
  Bytes bad = job.contribution(0, Chunk{4});
  bad.back() ^= std::byte{4};
  server.expect_refused(bad, Refused::kSum);
  EXPECT_EQ(server.engine->memory().incomplete, 0U);
  EXPECT_EQ(server.counted().taken(), 0U);
  // Right values under the key of another rank.
  Header h = job.part(PacketType::kContribute, bit_of(Rank{0}), Chunk{4});
  h.rank = Be{std::uint16_t{1}};
  h.contributors = Be{bit_of(Rank{1})};
  server.expect_refused(sealed(h, job.offered(0, Chunk{4}, 16)), Refused::kSum);
}

TEST_F(PsMerge, OnlyTheBoxOfThisEpochIsBelieved) {
  const Header good = job.part(PacketType::kPartial, 0b011, Chunk{4});
  const Values values = job.sum(0b011, Chunk{4}, 16);
  const auto with = [&](auto change) {
    Header h = good;
    change(h);
    return sealed(h, values);
  };
  server.expect_refused(with([](Header& h) { h.epoch = Be{99U}; }), Refused::kEpoch);
  server.expect_refused(with([](Header& h) { h.job = Be{std::uint16_t{9}}; }), Refused::kJob);
  server.expect_refused(with([](Header& h) { h.job = Be{std::uint16_t{9999}}; }), Refused::kJob);
  server.expect_refused(with([](Header& h) { h.cookie = Be{std::uint64_t{1}}; }), Refused::kCookie);
  server.expect_refused(with([&](Header& h) { h.cookie = Be{job.cookie()}; }), Refused::kCookie);
  server.expect_refused(with([](Header& h) { h.rank = Be{std::uint16_t{0}}; }), Refused::kRank);
  server.expect_refused(with([](Header& h) { h.rank = Be{std::uint16_t{0xFF00}}; }), Refused::kRank);
  server.expect_refused(with([](Header& h) { h.slot = Be{5U}; }), Refused::kSlot);
  server.expect_refused(with([](Header& h) { h.contributors = {}; }), Refused::kContributors);
  server.expect_refused(with([](Header& h) { h.contributors = Be{std::uint64_t{0b1001}}; }),
                        Refused::kContributors);
  server.expect_refused(with([](Header& h) { h.flags = kFlagIncomplete; }), Refused::kIncomplete);
  server.expect_refused(with([](Header& h) { h.flags = 64; }), Refused::kFlags);
  server.expect_refused(with([](Header& h) { h.dtype = 3; }), Refused::kShape);
  server.expect_refused(with([](Header& h) { h.elements = Be{std::uint16_t{32}}; }), Refused::kLength);
  server.expect_refused(with([](Header& h) { h.type = PacketType::kResult; }), Refused::kContributors);
  server.expect_refused(with([](Header& h) { h.type = PacketType::kAnswer; }), Refused::kType);
  server.expect_refused(with([](Header& h) { h.type = PacketType::kQuery; }), Refused::kLength);
  server.expect_refused(with([](Header& h) { h.type = PacketType::kContribute; }), Refused::kRank);
  server.expect_refused(job.partial(0b011, Chunk{4}, 48), Refused::kShape);
  Header of_two = good;
  of_two.type = PacketType::kContribute;
  of_two.rank = Be{std::uint16_t{1}};
  server.expect_refused(sealed(of_two, values), Refused::kContributors);
  of_two.rank = Be{std::uint16_t{3}};
  server.expect_refused(sealed(of_two, values), Refused::kRank);
  server.expect_refused(Bytes(20), Refused::kRunt);
  EXPECT_EQ(server.counted().taken(), 0U);
}

// Nobody can want a chunk that is a span behind the newest: everybody has its result.
TEST_F(PsMerge, WhatIsASpanOldIsLate) {
  server.hear(job.contribution(0, Chunk{0x8000'0020}));
  server.expect_refused(job.contribution(1, Chunk{0x8000'0000}), Refused::kLate);
  server.hear(job.contribution(1, Chunk{0x8000'0001}));
  EXPECT_EQ(server.counted().contributions, 2U);
  server.hear(job.contribution(1, Chunk{0x8000'0021}));
  server.expect_refused(job.contribution(2, Chunk{0x8000'0001}), Refused::kLate);
}

TEST_F(PsMerge, ChunkNumbersWrap) {
  for (std::uint32_t c = 0xFFFF'FFFD; c != 3; ++c) {
    server.hear(job.partial(0b011, Chunk{c}));
    server.hear(job.contribution(2, Chunk{c}));
    expect_complete(Chunk{c});
  }
}

// What is too much for the memory is refused by name, and comes again.
TEST(PsMemory, IsBoundedAndWhatExceedsItIsCounted) {
  const BoxJob job;
  Server server({job}, 4);
  server.join(job);
  ASSERT_EQ(server.engine->capacity(), 4U);
  for (std::uint32_t c = 0; c < 6; ++c) server.hear(job.contribution(0, Chunk{c}));
  EXPECT_EQ(server.counted().merged, 4U);
  EXPECT_EQ(server.counted().no_room, 2U);
  EXPECT_EQ(server.engine->memory().incomplete, 4U);
  server.hear(job.partial(0b110, Chunk{2}));
  job.expect_result(server.drain().at(0).bytes, 0b111, Chunk{2});
  server.hear(job.contribution(0, Chunk{4}));  // in the place of the finished one
  EXPECT_EQ(server.counted().no_room, 2U);
  EXPECT_EQ(server.engine->memory().incomplete, 4U);
  EXPECT_EQ(server.engine->memory().complete, 0U);
}

// An earlier chunk of the job may have the place of the one that has waited longest; its timer goes with it.
TEST(PsMemory, AnEarlierChunkTakesTheOldestStatesPlace) {
  const BoxJob job;
  Server server({job}, 2);
  server.join(job);
  server.hear(job.contribution(0, Chunk{8}));
  server.hear(job.contribution(0, Chunk{9}));
  server.now += kMillisecond;
  server.hear(job.contribution(0, Chunk{1}));
  EXPECT_EQ(server.counted().no_room, 0U);
  server.now += kMillisecond;
  job.expect_bare(server.one(), PacketType::kFlush, 0, Chunk{9});
  server.now += kMillisecond;
  job.expect_bare(server.one(), PacketType::kFlush, 0, Chunk{1});
}

// The newcomer may be complete at once: the timer of the state that gave way ends all the same, and the place
// may become another job's.
TEST(PsMemory, ACompleteNewcomerEndsTheTimerOfTheStateItReplaces) {
  const BoxJob a;
  BoxJob b;
  b.name = "b", b.id = 8, b.epoch = 200, b.generation = 0xBBBB;
  Server server({a, b}, 1);
  const auto joins = server.drain();
  server.hear(a.joined(JoinStatus::kRunning, join_payload(joins.at(0).bytes).nonce.host()));
  server.hear(b.joined(JoinStatus::kRunning, join_payload(joins.at(1).bytes).nonce.host()));
  server.hear(a.contribution(0, Chunk{9}));
  server.hear(a.partial(0b111, Chunk{1}));
  ASSERT_EQ(server.drain().size(), 2U);
  server.hear(b.contribution(1, Chunk{4}));
  EXPECT_EQ(server.engine->memory().incomplete, 1U);
  server.now += 2 * kMillisecond;
  b.expect_bare(server.one(), PacketType::kFlush, 0, Chunk{4});
  server.now += kSecond / 2;
  (void)server.drain();
  EXPECT_EQ(server.counted(0).flushes, 1U) << "the one after its sum";
}

// The same with a sum of the box, and another state of the job still waiting.
TEST(PsMemory, ASumOfTheBoxEndsTheTimerOfTheLaterStateItReplaces) {
  const BoxJob a;
  BoxJob b;
  b.name = "b", b.id = 8, b.epoch = 200, b.generation = 0xBBBB;
  Server server({a, b}, 2);
  const auto joins = server.drain();
  server.hear(a.joined(JoinStatus::kRunning, join_payload(joins.at(0).bytes).nonce.host()));
  server.hear(b.joined(JoinStatus::kRunning, join_payload(joins.at(1).bytes).nonce.host()));
  server.hear(a.contribution(0, Chunk{8}));
  server.hear(a.contribution(0, Chunk{9}));
  server.hear(a.result(Chunk{5}));
  EXPECT_EQ(server.engine->memory().complete, 1U);
  server.hear(b.contribution(1, Chunk{1}));
  EXPECT_EQ(server.engine->memory().complete, 0U);
  EXPECT_EQ(server.engine->memory().incomplete, 2U);
  (void)server.drain();
  server.now += 2 * kMillisecond;
  const auto out = server.drain();
  ASSERT_EQ(out.size(), 2U) << "one timer each";
  a.expect_bare(out[0].bytes, PacketType::kFlush, 0, Chunk{9});
  b.expect_bare(out[1].bytes, PacketType::kFlush, 0, Chunk{1});
  for (int i = 0; i < 1000; ++i) {
    server.now += kMillisecond;
    (void)server.drain();
  }
  EXPECT_EQ(server.engine->memory().incomplete, 0U);
  EXPECT_EQ(server.counted(0).fruitless, 1U);
  EXPECT_EQ(server.counted(1).fruitless, 1U);
}

// Late answers to FLUSHes: each takes the other chunk's place. To ask the box again what is left of the chunk
// would bring the same RESULT again, for ever, and twice as often with each copy that the network makes.
TEST(PsMemory, AnswersThatComeTooLateBringNoOthers) {
  const BoxJob job;
  Server server({job}, 1);
  server.join(job);
  for (int i = 0; i < 3; ++i) {
    server.hear(job.result(Chunk{4}));
    server.hear(job.result(Chunk{5}));
  }
  server.none();
  EXPECT_EQ(server.counted().flushes, 0U);
  EXPECT_EQ(server.engine->memory().complete, 1U);
}

// A sum that was forgotten before its turn to be sent is counted; its workers send again.
TEST(PsMemory, ASumMayBeGoneBeforeItsTurn) {
  const BoxJob job;
  Server server({job}, 1);
  server.join(job);
  server.hear(job.partial(0b111, Chunk{0}));
  server.hear(job.partial(0b011, Chunk{1}));
  const auto out = server.drain();
  ASSERT_EQ(out.size(), 1U);
  job.expect_bare(out[0].bytes, PacketType::kFlush, 0, Chunk{0});
  EXPECT_EQ(server.counted().overtaken, 1U);
}

TEST(PsMemory, TheQueueIsBounded) {
  const BoxJob job;
  Server server({job});
  server.join(job);
  server.hear(job.partial(0b111, Chunk{0}));
  (void)server.drain();
  for (std::uint32_t i = 0; i < ps::SendQueue::kRoom + 10; ++i) server.hear(job.contribution(0, Chunk{0}));
  EXPECT_EQ(server.counted().queue_full, 10U);
  EXPECT_EQ(server.drain().size(), ps::SendQueue::kRoom);
}

}  // namespace
}  // namespace tally::psbed

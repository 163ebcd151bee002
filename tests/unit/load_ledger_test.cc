// What tally-bench remembers of its contributions, and what it believes of results.

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "load_ledger.h"
#include "tally/mix64.h"

namespace tally::bench {
namespace {

constexpr std::uint16_t kElements = 16;
constexpr TimeNs kDeadline = 20 * kMillisecond;

engine::Membership job_of(std::uint32_t world, std::uint32_t window) {
  engine::Membership m;
  m.job = JobId{3};
  m.epoch = Epoch{77};
  m.result_cookie = Cookie{0xfeed};
  m.generation = Generation{0x1234};
  m.first_chunk = Chunk{0xFFFFFFF0};  // wraps soon
  m.window = m.largest_window = m.lookahead = window;
  m.world = world;
  m.elements = kElements;
  for (std::uint16_t r = 0; r < world; ++r) m.key_sum += rank_key(m.generation, Rank{r});
  return m;
}

struct Rack {
  explicit Rack(std::uint32_t world = 2, std::uint16_t ports = 1, std::uint32_t window = 16,
                Dtype dtype = Dtype::kInt32)
      : Rack(job_of(world, window), ports, dtype) {}
  Rack(const engine::Membership& membership, std::uint16_t ports, Dtype dtype)
      : job(membership),
        images(kElements, dtype, kernels::best_kernels()),
        ledger(job, ports, images, kernels::best_kernels(), kDeadline) {}

  // Sends all that may be sent through a port; the images go round.
  std::vector<Contributed> send_all(std::size_t port = 0) {
    std::vector<Contributed> out;
    while (const auto what = ledger.next(port)) {
      ledger.sent(*what, static_cast<ImageIndex>(next_image++ % LoadImages::kImages), now);
      out.push_back(*what);
    }
    return out;
  }

  // The right result of a chunk, all of whose contributions were sent.
  struct Result {
    Header header{};
    std::vector<std::byte> values{};
  };
  [[nodiscard]] Result result_of(std::uint64_t chunk) const {
    std::vector<std::uint32_t> sum(kElements);
    for (std::uint16_t r = 0; r < job.world; ++r) {
      const auto values = images.values(ledger.image_of({chunk, r}));
      for (std::size_t k = 0; k < kElements; ++k) {
        Be<std::uint32_t> value;
        std::memcpy(&value, values.data() + 4 * k, 4);
        sum[k] += value.host();
      }
    }
    Result out;
    for (const std::uint32_t value : sum) {
      const Be<std::uint32_t> big{value};
      const auto* const bytes = reinterpret_cast<const std::byte*>(&big);
      out.values.insert(out.values.end(), bytes, bytes + 4);
    }
    Header& h = out.header;
    h.type = PacketType::kResult;
    h.job = Be{raw(job.job)};
    h.epoch = Be{raw(job.epoch)};
    h.cookie = Be{raw(job.result_cookie)};
    h.chunk = Be{raw(ledger.number_of(chunk))};
    h.elements = Be{kElements};
    h.contributors = Be{job.members()};
    h.dtype = static_cast<std::uint8_t>(images.dtype());
    h.total = Be{images.total()};
    for (std::uint16_t r = 0; r < job.world; ++r)
      h.exponent = std::max(h.exponent, images.exponent(ledger.image_of({chunk, r})));
    seal_sums(out);
    return out;
  }
  void seal_sums(Result& r) const {
    const kernels::Sums sums = kernels::best_kernels().sums(r.values.data(), kElements);
    r.header.sum1 = Be{sums.sum1 + keyed(job.key_sum, r.header.chunk_id())};
    r.header.sum2 = Be{sums.sum2};
  }
  void take(const Result& r, std::uint16_t rank, bool multicast = false, std::size_t port = 0) {
    ledger.receive({r.header, r.values}, port, rank, multicast, now);
  }
  void answer(std::uint64_t chunk) {
    const Result r = result_of(chunk);
    for (std::uint16_t rank = 0; rank < job.world; ++rank) take(r, rank);
  }
  std::vector<Contributed> again(std::size_t port = 0) {
    std::vector<Contributed> out;
    while (const auto what = ledger.next_again(port)) {
      ledger.sent_again();
      out.push_back(*what);
    }
    return out;
  }

  engine::Membership job;
  LoadImages images;
  ChunkLedger ledger;
  TimeNs now = kSecond;
  std::size_t next_image = 0;
};

TEST(LoadLedger, EveryRankSendsEveryChunkOnceAndNeverAheadOfTheWindow) {
  Rack rack(3, 2);  // ranks 0 and 2 behind port 0
  std::map<std::uint64_t, std::set<std::uint16_t>> sent;
  std::uint64_t lowest = 0;
  for (int round = 0; round < 60; ++round) {
    for (const std::size_t port : {0U, 1U}) {
      for (const Contributed& what : rack.send_all(port)) {
        EXPECT_EQ(what.rank % 2, port);
        EXPECT_LT(what.chunk, lowest + 16);
        EXPECT_TRUE(sent[what.chunk].insert(what.rank).second) << "twice";
      }
    }
    ASSERT_EQ(sent[lowest].size(), 3U) << "the window is stuck";
    const Rack::Result r = rack.result_of(lowest);
    rack.take(r, 0, false, 0);
    rack.take(r, 1, false, 1);
    rack.take(r, 2, false, 0);
    ++lowest;
  }
  EXPECT_EQ(rack.ledger.counts().chunks, 60U);
  EXPECT_EQ(rack.ledger.counts().results, 180U);
  EXPECT_EQ(rack.ledger.wrong(), nullptr);
  EXPECT_GT(rack.ledger.counts().compared, 0U);
}

TEST(LoadLedger, MeasuresFromTheLastContributionToEachResult) {
  Rack rack;
  rack.send_all();
  rack.now += 5000;
  rack.answer(0);
  EXPECT_EQ(rack.ledger.latency().count(), 2U);
  EXPECT_EQ(rack.ledger.latency().max(), 5000U);
}

TEST(LoadLedger, AResultThatIsNotTheSumIsWrong) {
  Rack rack;
  rack.send_all();
  Rack::Result r = rack.result_of(1);
  r.values[7] ^= std::byte{1};
  rack.seal_sums(r);
  rack.take(r, 0);
  EXPECT_STREQ(rack.ledger.wrong(), "a RESULT is not the sum of what was contributed");
}

TEST(LoadLedger, ValuesThatCancelInBothSumsAreFoundWhereAllAreCompared) {
  Rack rack;
  rack.send_all();
  Rack::Result r = rack.result_of(0);  // chunk 0 is one of those
  r.values[0] ^= std::byte{0x80};      // bit 31 of two values at an even distance: docs/protocol.md, 13
  r.values[8] ^= std::byte{0x80};
  Rack::Result right = rack.result_of(0);
  rack.seal_sums(r);
  ASSERT_EQ(r.header.sum1, right.header.sum1);
  ASSERT_EQ(r.header.sum2, right.header.sum2);
  rack.take(r, 0);
  EXPECT_STREQ(rack.ledger.wrong(), "a value of a RESULT is not the sum of the values contributed");
}

TEST(LoadLedger, TheExponentOfAResultIsTheGreatestOfThoseContributedWhoeverCameLast) {
  for (const Dtype dtype : {Dtype::kInt32, Dtype::kFloat32}) {
    Rack rack(3, 1, 64, dtype);
    bool first_was_greatest = false, last_was_greatest = false;
    for (int round = 0; round < 40; ++round) {
      rack.send_all();
      const std::uint64_t chunk = rack.ledger.counts().chunks;
      const Rack::Result r = rack.result_of(chunk);
      const auto of = [&](std::uint16_t rank) {
        return rack.images.exponent(rack.ledger.image_of({chunk, rank}));
      };
      first_was_greatest |= of(0) > of(2);
      last_was_greatest |= of(2) > of(0);
      EXPECT_EQ(r.header.exponent == kNoExponent, dtype == Dtype::kInt32);
      rack.answer(chunk);
      ASSERT_EQ(rack.ledger.wrong(), nullptr) << chunk;
    }
    EXPECT_EQ(rack.ledger.counts().chunks, 40U);
    EXPECT_EQ(first_was_greatest && last_was_greatest, dtype == Dtype::kFloat32);
    rack.send_all();
    for (const int by : {-1, 1}) {
      Rack wrong(3, 1, 64, dtype);
      wrong.send_all();
      Rack::Result r = wrong.result_of(1);
      r.header.exponent = static_cast<std::int8_t>(r.header.exponent + by);
      wrong.take(r, 0);
      EXPECT_STREQ(wrong.ledger.wrong(), "the exponent of a RESULT is not the greatest of those contributed");
    }
  }
}

TEST(LoadLedger, ExponentsOfAllRanksMayBeNegative) {
  Rack rack(2, 1, 16, Dtype::kFloat32);
  for (const Contributed& what : {Contributed{0, 0}, Contributed{0, 1}})
    rack.ledger.sent(what, 0, rack.now);  // image 0: the exponent of zeros
  const Rack::Result r = rack.result_of(0);
  EXPECT_EQ(r.header.exponent, -127);
  rack.take(r, 0);
  EXPECT_EQ(rack.ledger.wrong(), nullptr);
}

TEST(LoadLedger, FloatsWaitForTheResultThatBringsTheirExponent) {
  engine::Membership job = job_of(2, 64);
  job.lookahead = 16;
  const auto newest = [&job](Dtype dtype) {
    Rack rack(job, 1, dtype);
    return std::ranges::max(rack.send_all(), {}, &Contributed::chunk).chunk;
  };
  EXPECT_EQ(newest(Dtype::kFloat32), 15U);
  EXPECT_EQ(newest(Dtype::kInt32), 63U);
}

TEST(LoadLedger, AResultOfAnotherShapeIsWrong) {
  const auto spoil = [](auto change) {
    Rack rack;
    rack.send_all();
    Rack::Result r = rack.result_of(1);
    change(r.header);
    rack.take(r, 0);
    return std::string(rack.ledger.wrong() == nullptr ? "" : rack.ledger.wrong());
  };
  const std::string why =
      "a RESULT has other elements, dtype or total than its contributions, or OVERFLOW or ZERO, which no sum "
      "has";
  EXPECT_EQ(spoil([](Header&) {}), "");
  EXPECT_EQ(spoil([](Header& h) { h.elements = Be<std::uint16_t>{kElements / 2}; }), why);
  EXPECT_EQ(spoil([](Header& h) { h.dtype = 1; }), why);
  EXPECT_EQ(spoil([](Header& h) { h.total = Be<std::uint32_t>{kElements + 1}; }), why);
  EXPECT_EQ(spoil([](Header& h) { h.flags = kFlagOverflow; }), why);
  EXPECT_EQ(spoil([](Header& h) { h.flags = kFlagZero; }), why) << "there are no values to look at";
}

TEST(LoadLedger, ADamagedResultIsCountedAndAskedForAgain) {
  Rack rack;
  rack.send_all();
  Rack::Result r = rack.result_of(0);
  r.values[7] ^= std::byte{1};
  rack.take(r, 0);
  EXPECT_EQ(rack.ledger.wrong(), nullptr);
  EXPECT_EQ(rack.ledger.counts().corrupt, 1U);
  EXPECT_EQ(rack.ledger.counts().results, 0U);
}

TEST(LoadLedger, AResultNobodyCanHaveSentIsWrong) {
  Rack unfinished(2, 2);
  unfinished.send_all(0);  // rank 1 has sent nothing
  Rack::Result r = unfinished.result_of(0);
  unfinished.take(r, 0);
  EXPECT_NE(unfinished.ledger.wrong(), nullptr);
  Rack unsent;
  r = unsent.result_of(0);
  unsent.take(r, 0);
  EXPECT_STREQ(unsent.ledger.wrong(), "a RESULT is of a chunk that nobody has sent");
}

TEST(LoadLedger, WhatIsOfAnotherJobIsPassedOver) {
  Rack rack;
  rack.send_all();
  Rack::Result r = rack.result_of(0);
  r.header.cookie = Be<std::uint64_t>{1};
  rack.take(r, 0);
  EXPECT_EQ(rack.ledger.wrong(), nullptr);
  EXPECT_EQ(rack.ledger.counts().foreign, 1U);
  EXPECT_EQ(rack.ledger.counts().results, 0U);
}

TEST(LoadLedger, ALateChunkIsOfferedAgainByThoseWhoLackItWithTheSameValues) {
  Rack rack;
  rack.send_all();
  rack.take(rack.result_of(0), 0);
  for (std::uint64_t chunk = 1; chunk < 12; ++chunk) rack.answer(chunk);
  rack.now += kDeadline - 1;
  rack.ledger.scan(rack.now);
  EXPECT_TRUE(rack.again().empty());
  const ImageIndex image = rack.ledger.image_of({0, 1});
  rack.now += 1;
  rack.ledger.scan(rack.now);
  rack.ledger.scan(rack.now);
  const auto again = rack.again();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].chunk, 0U);
  EXPECT_EQ(again[0].rank, 1);
  EXPECT_EQ(rack.ledger.image_of(again[0]), image);
  rack.now += kDeadline;
  rack.ledger.scan(rack.now);
  EXPECT_EQ(rack.again().size(), 1U) << "until it is there";
  EXPECT_EQ(rack.ledger.counts().late, 1U) << "a chunk is late once";
  EXPECT_EQ(rack.ledger.counts().resent, 2U);
  rack.take(rack.result_of(0), 1);
  rack.now += kDeadline;
  rack.ledger.scan(rack.now);
  EXPECT_TRUE(rack.again().empty());
}

TEST(LoadLedger, AResultThatCameMeanwhileIsNotAskedForAgain) {
  Rack rack;
  rack.send_all();
  rack.now += kDeadline;
  rack.ledger.scan(rack.now);
  for (std::uint64_t chunk = 0; chunk < 12; ++chunk) rack.answer(chunk);
  EXPECT_TRUE(rack.again().empty());
}

TEST(LoadLedger, RepeatedResultsChangeNothing) {
  Rack rack;
  rack.send_all();
  const Rack::Result r = rack.result_of(1);
  rack.take(r, 0);
  rack.take(r, 0);
  rack.take(r, 1);
  rack.answer(0);
  rack.take(r, 1);
  EXPECT_EQ(rack.ledger.counts().results, 4U);
  EXPECT_EQ(rack.ledger.counts().repeats, 2U);
  EXPECT_EQ(rack.ledger.counts().chunks, 2U);
}

TEST(LoadLedger, AMulticastResultServesAllBehindItsPort) {
  Rack rack(4, 2);
  rack.send_all(0);
  rack.send_all(1);
  const Rack::Result r = rack.result_of(0);
  rack.take(r, 0, true, 0);
  EXPECT_EQ(rack.ledger.counts().chunks, 0U);
  rack.take(r, 1, true, 1);
  EXPECT_EQ(rack.ledger.counts().chunks, 1U);
  EXPECT_EQ(rack.ledger.counts().results, 2U);
}

TEST(LoadLedger, WindingUpFinishesWhatIsBegunAndGoingOnBeginsBehindIt) {
  Rack rack(2, 1, 64);  // rank 1 is 4 chunks behind
  std::uint64_t newest = 0;
  for (int i = 0; i < 21; ++i) {
    const auto what = rack.ledger.next(0);
    ASSERT_TRUE(what);
    rack.ledger.sent(*what, 0, rack.now);
    newest = std::max(newest, what->chunk);
  }
  rack.ledger.wind_up();
  EXPECT_FALSE(rack.ledger.done());
  for (const Contributed& what : rack.send_all()) EXPECT_LE(what.chunk, newest);
  for (std::uint64_t chunk = 0; chunk <= newest; ++chunk) rack.answer(chunk);
  EXPECT_TRUE(rack.ledger.done());
  EXPECT_EQ(rack.ledger.counts().chunks, newest + 1);
  rack.ledger.go_on();
  const auto what = rack.ledger.next(0);
  ASSERT_TRUE(what);
  EXPECT_EQ(what->chunk, newest + 1);
}

TEST(LoadLedger, AnEchoAnswersEachContributionByItself) {
  Rack rack;
  rack.send_all();
  rack.ledger.receive_echo(rack.ledger.number_of(0), 0, rack.now);
  rack.ledger.receive_echo(rack.ledger.number_of(0), 0, rack.now);
  EXPECT_EQ(rack.ledger.counts().repeats, 1U);
  EXPECT_EQ(rack.ledger.counts().chunks, 0U);
  rack.ledger.receive_echo(rack.ledger.number_of(0), 1, rack.now + 300);
  EXPECT_EQ(rack.ledger.counts().chunks, 1U);
  EXPECT_EQ(rack.ledger.latency().max(), 300U);
}

}  // namespace
}  // namespace tally::bench

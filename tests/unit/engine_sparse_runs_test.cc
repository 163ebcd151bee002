// Chunks of zeros that share a packet, and the exponents of blocks of floats that go with them (docs/sparse.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {
namespace {

using Ints = std::vector<std::int32_t>;

// 64 chunks of zeros in a packet, and as many results.
TEST(SparseRuns, AreOfAllThatMayBeSent) {
  Rig rig({.window = 64, .largest_window = 64, .sparse = true});
  ASSERT_TRUE(rig.run_until_running());
  std::uint64_t there = 0;
  std::uint64_t back = 0;
  rig.lose = [&](bool to_box, std::uint16_t, const Header& h) {
    there += to_box && !is_control(h.type) ? 1 : 0;
    back += !to_box && !is_control(h.type) ? 1 : 0;
    return false;
  };
  Ints a(32 * 640);
  Ints b(32 * 640);
  const auto id = *rig[0].allreduce(std::span(a), rig.now);
  (void)rig[1].allreduce(std::span(b), rig.now);
  for (const auto& r : rig.finish(id)) {
    ASSERT_TRUE(r);
    EXPECT_EQ(r->packets, 10U) << "of 640 chunks";
  }
  EXPECT_EQ(a, Ints(32 * 640));
  EXPECT_EQ(there, 20U);
  EXPECT_EQ(back, 20U);
  EXPECT_EQ(rig.box.result_runs, 10U);
  EXPECT_EQ(rig[0].statistics().zeros, 640U);
  EXPECT_EQ(rig[0].statistics().results, 640U);
}

// Floats: of zeros the exponents, too.
TEST(SparseRuns, OfFloatsAreOfTheirExponentsToo) {
  Rig rig({.window = 64, .largest_window = 64, .lookahead = 64, .sparse = true});
  ASSERT_TRUE(rig.run_until_running());
  std::vector<float> a(32 * 640);
  std::vector<float> b = a;
  b[32 * 77] = 1.0F;
  engine::OperationOptions options;
  options.wire = WireType::kInt32;
  const auto id = *rig[0].allreduce(std::span(a), rig.now, options);
  (void)rig[1].allreduce(std::span(b), rig.now, options);
  for (const auto& r : rig.finish(id)) {
    ASSERT_TRUE(r);
    EXPECT_LT(r->packets, 30U) << "of 704 chunks";
  }
  EXPECT_EQ(a[32 * 77], 1.0F);
  EXPECT_EQ(std::accumulate(a.begin(), a.end(), 0.0F), 1.0F);
  EXPECT_EQ(a, b);
}

// The first window of a dense sum's blocks has exponents alone, each its own: they go in runs, and come back so.
TEST(SparseRuns, BeginDenseFloats) {
  for (const std::uint8_t shards : {std::uint8_t{1}, std::uint8_t{4}}) {
    Rig rig({.window = 64, .largest_window = 64, .lookahead = 64, .shards = shards, .sparse = true});
    ASSERT_TRUE(rig.run_until_running());
    std::vector<float> a(32 * 640);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::ldexp(1.0F, static_cast<int>(i / 32 % 50) - 20);
    std::vector<float> b(a.rbegin(), a.rend());
    std::vector<float> right(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) right[i] = a[i] + b[i];
    engine::OperationOptions options;
    options.wire = WireType::kInt32;
    const auto id = *rig[0].allreduce(std::span(a), rig.now, options);
    (void)rig[1].allreduce(std::span(b), rig.now, options);
    for (const auto& r : rig.finish(id)) {
      ASSERT_TRUE(r);
      EXPECT_LE(r->packets, 640U + 2 * shards) << "of 704 chunks, 640 of which have values";
    }
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], right[i], right[i] * 1e-6F) << i;
    EXPECT_EQ(a, b);
    EXPECT_GE(rig.box.result_runs, shards);
  }
}

// NaN in a chunk that would have gone along: the sum fails by its name, as if it had gone alone.
TEST(SparseRuns, AreNotSentWithAChunkThatIsNoNumber) {
  Box box{JobShape{.window = 32, .largest_window = 32, .lookahead = 32, .sparse = true}};
  const auto engine = joined_engine(box, options_of(box.shape, 0));
  std::vector<float> values(32 * 20, 1.0F);
  values[32 * 7 + 3] = std::numeric_limits<float>::quiet_NaN();
  engine::OperationOptions options;
  options.wire = WireType::kInt32;
  ASSERT_TRUE(engine->allreduce(std::span(values), 0, options).has_value());
  for (const Out& out : drain(*engine, 1)) EXPECT_NE(header_of(out.bytes).type, PacketType::kZeroRun);
  const auto done = engine->next_completion();
  ASSERT_TRUE(done && !done->result);
  EXPECT_NE(done->result.error().text().find("NaN in tensor 0 at offset 227"), std::string::npos)
      << done->result.error().text();
}

// Each result moves the window by a chunk or a few. Were zeros said as soon as they may be, each would soon go alone.
TEST(SparseRuns, StayLongThoughTheWindowMovesALittleAtATime) {
  constexpr std::uint32_t kChunks = 2'560;
  Rig rig({.window = 256, .largest_window = 256, .shards = 4, .sparse = true});
  ASSERT_TRUE(rig.run_until_running());
  Ints a(32 * kChunks);
  for (std::uint32_t chunk = 0; chunk < kChunks; chunk += 50) a[std::size_t{32} * chunk] = 1;
  Ints b = a;
  const auto id = *rig[0].allreduce(std::span(a), rig.now);
  (void)rig[1].allreduce(std::span(b), rig.now);
  for (const auto& r : rig.finish(id)) {
    ASSERT_TRUE(r);
    EXPECT_LT(r->packets, 52 + kChunks / 10) << "of 52 chunks with values, and runs of zeros";
  }
  EXPECT_EQ(std::accumulate(a.begin(), a.end(), 0), 2 * 52);
  EXPECT_EQ(a, b);
}

// An epoch that comes after has its runs, of what has no result yet.
TEST(SparseRuns, AreSentAgainInANewEpoch) {
  Rig rig({.window = 32, .largest_window = 32, .sparse = true});
  ASSERT_TRUE(rig.run_until_running());
  rig.lose = [&](bool to_box, std::uint16_t, const Header& h) {
    return !to_box && h.type == PacketType::kZeroRun;
  };
  Ints a(32 * 200);
  Ints b(32 * 200);
  b[32 * 9] = 3;
  const auto id = *rig[0].allreduce(std::span(a), rig.now);
  (void)rig[1].allreduce(std::span(b), rig.now);
  (void)rig.run_until([&] { return rig.box.runs >= 2; });
  rig.lose = nullptr;
  rig.box.restart();
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r) << r.error().text();
  EXPECT_EQ(a[32 * 9], 3);
  EXPECT_EQ(a, b);
  EXPECT_GE(rig[0].statistics().epochs, 2U);
}

// One worker, whose first operation has 20 chunks. A packet of a box stands for many sequences' worth: what is lost with it
// comes again at once, chunk by chunk, when the box says so, and a run that was lost on its way back is asked for.
class SparseRun : public testing::Test {
 protected:
  // Of these chunks, from 0 on, as the box sends it; of floats there is an exponent for each.
  [[nodiscard]] Bytes run_of(std::uint64_t chunks, const std::vector<int>& exponents = {}) const {
    Header h = box_.from_box(PacketType::kZeroRun);
    const Header said = header_of(sent_.front().bytes);
    h.chunk = said.chunk;
    h.dtype = said.dtype;
    h.elements = said.elements;
    h.total = said.total;
    h.contributors = Be{chunks};
    std::vector<std::int32_t> v(64);
    for (std::uint32_t i = 0; i < v.size(); ++i) {
      const std::uint32_t key = keyed(engine_->membership()->key_sum, Chunk{said.chunk.host() + i});
      if ((chunks >> i & 1) != 0) v[i] = static_cast<std::int32_t>(key);
    }
    Bytes payload((exponents.size() + 3) / 4 * 4);
    for (std::size_t i = 0; i < exponents.size(); ++i) payload[i] = static_cast<std::byte>(exponents[i]);
    for (std::size_t i = 0; i < payload.size(); i += 4)
      v.push_back(static_cast<std::int32_t>(wire_at<Be<std::uint32_t>>(&payload[i]).host()));
    h.sum1 = Be{plain_sum1(v)};
    h.sum2 = Be{plain_sum2(v)};
    return sealed(h, payload);
  }
  void refuse(Refused why, const Bytes& datagram) {
    const std::uint64_t before = engine_->statistics().of(why);
    const std::uint64_t results = engine_->statistics().results;
    engine_->receive(datagram, 2);
    EXPECT_EQ(engine_->statistics().of(why), before + 1) << name_of(why);
    EXPECT_EQ(engine_->statistics().results, results);
  }
  // What comes again when the box misses the worker's first packet.
  std::vector<Out> without_the_first() {
    Header nack = box_.from_box(PacketType::kNack);
    nack.slot = Be<std::uint32_t>{1};
    nack.contributors = Be<std::uint64_t>{1};
    engine_->receive(sealed(nack), 2);
    return drain(*engine_, 2);
  }
  // What a peer gets that asks for a chunk.
  Header answer_of(std::uint32_t chunk) {
    (void)drain(*engine_, 3);
    Header query = box_.from_box(PacketType::kQuery);
    query.rank = Be<std::uint16_t>{1};
    query.chunk = Be{chunk};
    query.contributors = Be<std::uint64_t>{1};
    engine_->receive(sealed(query), 3);
    const std::vector<Out> out = drain(*engine_, 3);
    EXPECT_EQ(out.size(), 1U);
    return header_of(out.at(0).bytes);
  }

  Box box_{JobShape{.window = 32, .largest_window = 32, .lookahead = 32, .sparse = true}};
  std::unique_ptr<engine::WorkerEngine> engine_ = joined_engine(box_, options_of(box_.shape, 0));
  std::vector<Out> sent_;
};

// Of integers.
class SparseAlone : public SparseRun {
 protected:
  SparseAlone() {
    values_[32 * 5] = 1;  // chunk 5 has a value
    EXPECT_TRUE(engine_->allreduce(std::span(values_), 0).has_value());
    sent_ = drain(*engine_, 1);
  }
  static Bytes changed(const Bytes& datagram, const std::function<void(Header&)>& change) {
    Header h = header_of(datagram);
    change(h);
    return sealed(h);
  }

  Ints values_ = Ints(32 * 20);
};

constexpr std::uint64_t kAllChunks = 0xFFFFF;
constexpr std::uint64_t kAllButOne = kAllChunks & ~(1U << 5);

TEST_F(SparseAlone, ARunLeavesOutWhatHasAValueAndThatFollows) {
  ASSERT_EQ(sent_.size(), 2U);
  const Header run = header_of(sent_[0].bytes);
  EXPECT_EQ(run.type, PacketType::kZeroRun);
  EXPECT_EQ(run.contributors.host(), kAllButOne);
  EXPECT_EQ(run.sequence(), 1U);
  const Header other = header_of(sent_[1].bytes);
  EXPECT_EQ(other.type, PacketType::kContribute);
  EXPECT_EQ(other.chunk.host(), 5U);
  EXPECT_EQ(other.flags & ~kFlagSparse, 0);
  EXPECT_EQ(other.sequence(), 2U);
}

TEST_F(SparseAlone, ARunThatIsLostComesAgainChunkByChunk) {
  const std::vector<Out> again = without_the_first();
  ASSERT_EQ(again.size(), 19U);
  for (const Out& out : again) {
    const Header h = header_of(out.bytes);
    EXPECT_EQ(h.type, PacketType::kContribute);
    EXPECT_EQ(h.flags, kFlagZero | kFlagRetransmit);
    EXPECT_NE(h.chunk.host(), 5U);
  }
}

// Its first chunk got its result in another way, and its place in the window is another chunk's.
TEST_F(SparseAlone, TheLossIsFoundWhenTheFirstChunkIsDone) {
  Header first = header_of(sent_[0].bytes);
  first.type = PacketType::kContribute;
  first.flags = kFlagZero;
  first.sum1 = Be{keyed(engine_->membership()->key, Chunk{0})};
  first.sum2 = {};
  engine_->receive(box_.result_of(sealed(first)), 2);
  EXPECT_EQ(engine_->statistics().results, 1U);
  EXPECT_EQ(without_the_first().size(), 18U);
}

TEST_F(SparseAlone, ARunOfResultsIsTakenOnceAndEachChunkOnce) {
  engine_->receive(run_of(0b1011), 2);
  EXPECT_EQ(engine_->statistics().results, 3U);
  refuse(Refused::kLate, run_of(0b1011));
  engine_->receive(run_of(kAllButOne), 3);
  EXPECT_EQ(engine_->statistics().results, 19U) << "those that had none yet";
  engine_->receive(box_.result_of(sent_[1].bytes), 3);
  const auto done = engine_->next_completion();
  ASSERT_TRUE(done && done->result);
  EXPECT_EQ(std::accumulate(values_.begin(), values_.end(), 0), 1);
}

TEST_F(SparseAlone, ARunIsRefusedWholeWhateverIsWrongWithOneOfItsChunks) {
  refuse(Refused::kNotWaited, run_of(kAllChunks));        // chunk 5 is no zeros here
  refuse(Refused::kNotWaited, run_of(0x100001));          // chunk 20 was never offered
  refuse(Refused::kNotWaited, run_of(0x8000'0000'0001));  // and 47 is outside the window
  refuse(Refused::kSum, changed(run_of(0b1011), [](Header& h) { h.sum1 = Be{h.sum1.host() + 1}; }));
  refuse(Refused::kSum, changed(run_of(0b1011), [](Header& h) { h.sum2 = Be{h.sum2.host() + 1}; }));
  refuse(Refused::kSum,
         changed(run_of(0b1011), [](Header& h) { h.contributors = Be<std::uint64_t>{0b1101}; }));
  refuse(Refused::kSum, changed(run_of(0b1011), [](Header& h) { h.chunk = Be<std::uint32_t>{1}; }));
  refuse(Refused::kFlags, changed(run_of(0b1011), [](Header& h) { h.flags = kFlagZero; }));
  refuse(Refused::kShape, changed(run_of(0b1011), [](Header& h) { h.elements = Be<std::uint16_t>{16}; }));
  refuse(Refused::kExponent, changed(run_of(0b1011), [](Header& h) { h.exponent = -127; }));
  EXPECT_EQ(engine_->state(), engine::EngineState::kRunning);
  engine_->receive(run_of(kAllButOne), 3);
  EXPECT_EQ(engine_->statistics().results, 19U);
}

TEST_F(SparseAlone, ZerosThatTheWindowCutsOffWaitUntilItHasMovedByAQuarter) {
  Ints more(32 * 100);  // chunks 20 to 119, and the window is 32
  ASSERT_TRUE(engine_->allreduce(std::span(more), 2).has_value());
  std::vector<Out> sent = drain(*engine_, 2);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(header_of(sent[0].bytes).contributors.host(), 0xFFFU);
  engine_->receive(run_of(0b11111), 3);
  EXPECT_TRUE(drain(*engine_, 3).empty());
  engine_->receive(box_.result_of(sent_[1].bytes), 3);
  EXPECT_TRUE(drain(*engine_, 3).empty()) << "six more may be sent";
  EXPECT_GT(engine_->deadline(), TimeNs{3}) << "a timer, and nothing at once";
  engine_->receive(run_of(0b1100'0000), 3);
  sent = drain(*engine_, 3);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(header_of(sent[0].bytes).type, PacketType::kZeroRun);
  EXPECT_EQ(header_of(sent[0].bytes).chunk.host(), 32U);
  EXPECT_EQ(header_of(sent[0].bytes).contributors.host(), 0xFFU);
}

TEST_F(SparseAlone, TheLastZerosOfAnOperationAndValuesWaitForNothing) {
  Ints more(32 * 13);  // chunks 20 to 32
  Ints values(32 * 100, 1);
  ASSERT_TRUE(engine_->allreduce(std::span(more), 2).has_value());
  ASSERT_TRUE(engine_->allreduce(std::span(values), 2).has_value());
  ASSERT_EQ(drain(*engine_, 2).size(), 1U);
  engine_->receive(run_of(0b1), 3);
  std::vector<Out> sent = drain(*engine_, 3);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(header_of(sent[0].bytes).chunk.host(), 32U);
  EXPECT_EQ(header_of(sent[0].bytes).flags, kFlagZero);
  engine_->receive(run_of(0b10), 3);
  sent = drain(*engine_, 3);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(header_of(sent[0].bytes).chunk.host(), 33U);
}

// A copy of such a result answers peers as others do.
TEST_F(SparseAlone, PeersAreAnsweredOfARun) {
  engine_->receive(run_of(kAllButOne), 2);
  const Header h = answer_of(7);
  EXPECT_EQ(h.type, PacketType::kAnswer);
  EXPECT_EQ(h.flags, kFlagZero);
  EXPECT_EQ(h.elements.host(), 32U);
  EXPECT_EQ(h.contributors.host(), 3U);
  EXPECT_EQ(h.sum1.host(), keyed(engine_->membership()->key_sum, Chunk{7}));
  EXPECT_EQ(h.sum2.host(), 0U);
}

// Of 20 blocks of floats the exponents, and what may be said of them.
class SparseExponents : public SparseRun {
 protected:
  SparseExponents() {
    for (std::size_t i = 0; i < values_.size(); ++i)
      values_[i] = i / 32 == 5 ? 0.0F : std::ldexp(1.0F, static_cast<int>(i / 32) - 4);
    engine::OperationOptions options;
    options.wire = WireType::kInt32;
    EXPECT_TRUE(engine_->allreduce(std::span(values_), 0, options).has_value());
    sent_ = drain(*engine_, 1);
  }

  std::vector<float> values_ = std::vector<float>(32 * 20);
  std::vector<int> own_{-4, -3, -2, -1, 0, -127, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
};

TEST_F(SparseExponents, OfAllChunksGoInOneRun) {
  ASSERT_EQ(sent_.size(), 1U);
  const Header run = header_of(sent_[0].bytes);
  EXPECT_EQ(run.type, PacketType::kZeroRun);
  EXPECT_EQ(run.contributors.host(), kAllChunks);
  EXPECT_EQ(run.exponent, kNoExponent);
  ASSERT_EQ(sent_[0].bytes.size(), kHeaderBytes + 20);
  for (std::size_t i = 0; i < own_.size(); ++i)
    EXPECT_EQ(static_cast<std::int8_t>(sent_[0].bytes[kHeaderBytes + i]), own_[i]) << i;
}

// E(j) is what the run says of chunk j: so are the values of data chunk j scaled.
TEST_F(SparseExponents, OfEachSumAreTakenByItsChunk) {
  std::vector<int> greatest = own_;
  greatest[3] = 7;
  greatest[5] = -20;
  engine_->receive(run_of(kAllChunks, greatest), 2);
  EXPECT_EQ(engine_->statistics().results, 20U);
  const std::vector<Out> data = drain(*engine_, 3);
  ASSERT_EQ(data.size(), 20U);
  for (const Out& out : data) {
    const Header h = header_of(out.bytes);
    ASSERT_EQ(h.type, PacketType::kContribute);
    const std::size_t j = h.chunk.host() - 20;
    ASSERT_EQ((h.flags & kFlagZero) != 0, j == 5);
    if (j == 5) continue;
    // Of two ranks 2^E is 2^29.
    EXPECT_EQ(values_of(out.bytes)[0], 1 << (29 - greatest[j] + own_[j])) << j;
  }
}

TEST_F(SparseExponents, ThatCannotBeAreRefusedWithTheWholeRun) {
  auto with = [&](std::size_t i, int exponent) {
    std::vector<int> exponents = own_;
    exponents[i] = exponent;
    return run_of(kAllChunks, exponents);
  };
  const auto changed = [&](const auto& change) {
    Bytes run = run_of(kAllChunks, own_);
    change(run);
    return run;
  };
  refuse(Refused::kExponent, with(7, 2));  // the own one is greater
  refuse(Refused::kExponent, with(5, kNoExponent));
  // The third would end the job.
  refuse(Refused::kSum, changed([](Bytes& run) { run[kHeaderBytes + 7] ^= std::byte{1}; }));
  refuse(Refused::kSum,
         changed([](Bytes& run) { std::swap(run[kHeaderBytes + 3], run[kHeaderBytes + 12]); }));
  refuse(Refused::kSum, changed([](Bytes& run) { run.resize(kHeaderBytes); }));
  refuse(Refused::kLength, changed([](Bytes& run) { run.resize(run.size() - 4); }));
  refuse(Refused::kLength, changed([](Bytes& run) { run.resize(run.size() + 4); }));
  Bytes padded = run_of(0b111, {own_.begin(), own_.begin() + 3});
  padded.back() = std::byte{1};
  refuse(Refused::kLength, padded);
  Header one = header_of(run_of(kAllChunks, own_));
  one.exponent = 15;
  refuse(Refused::kLength, sealed(one, Bytes(20)));
  EXPECT_EQ(engine_->state(), engine::EngineState::kRunning);
  engine_->receive(run_of(kAllChunks, own_), 3);
  EXPECT_EQ(engine_->statistics().results, 20U);
}

TEST_F(SparseExponents, ArePassedOnToPeersThatAsk) {
  engine_->receive(run_of(kAllChunks, own_), 2);
  const Header h = answer_of(7);
  EXPECT_EQ(h.type, PacketType::kAnswer);
  EXPECT_EQ(h.exponent, 3);
}

}  // namespace
}  // namespace tally::testbed

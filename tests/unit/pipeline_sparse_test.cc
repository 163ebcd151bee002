// Rows of zeros that are left out, and zero runs (docs/protocol_sparse.md): whatever form each rank chooses, the sums
// are those of the values, in both executions byte by byte.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "frames.h"
#include "jobs.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/staged.h"
#include "rng.h"
#include "tally/mix64.h"
#include "tally/rows.h"

namespace tally {
namespace {

using Values = std::vector<std::int32_t>;
constexpr std::uint8_t kInt16 = static_cast<std::uint8_t>(Dtype::kInt16);

// Of a zero run, in the order of its chunks.
std::vector<int> exponents_told(const Bytes& run) {
  const Header h = header_of(run);
  const auto n = static_cast<std::size_t>(std::popcount(h.contributors.host()));
  if (run.size() == kHeaderBytes) return std::vector<int>(n, h.exponent);
  EXPECT_EQ(run.size(), kHeaderBytes + (n + 3) / 4 * 4);
  EXPECT_EQ(h.exponent, kNoExponent);
  std::vector<int> exponents;
  for (std::size_t i = 0; i < n; ++i) exponents.push_back(static_cast<std::int8_t>(run.at(kHeaderBytes + i)));
  EXPECT_NE(std::count(exponents.begin(), exponents.end(), exponents[0]), static_cast<std::ptrdiff_t>(n));
  for (std::size_t i = kHeaderBytes + n; i < run.size(); ++i) EXPECT_EQ(run[i], std::byte{0}) << "padding";
  return exponents;
}

// What a packet of the box says of each chunk that it is about. Its sums hold.
std::map<std::uint32_t, Values> told(const jobs::NativeJob& job, const Bytes& datagram) {
  const Header h = header_of(datagram);
  const std::uint32_t n = h.elements.host();
  EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
  std::map<std::uint32_t, Values> chunks;
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  if (h.type == PacketType::kZeroRun) {
    EXPECT_EQ(h.contributors.host() & 1, 1U);
    EXPECT_EQ(exponents_told(datagram).size(),
              static_cast<std::size_t>(std::popcount(h.contributors.host())));
    for (std::uint32_t i = 0; i < kMostOfRun; ++i) {
      if ((h.contributors.host() >> i & 1) == 0) continue;
      const Chunk chunk = h.chunk_id() + i * job.shards;
      chunks[raw(chunk)] = Values(n, 0);
      sum1 += keyed(job.key_sum, chunk);
      sum2 += (i + 1) * keyed(job.key_sum, chunk);
    }
    for (std::size_t i = 0; i < (datagram.size() - kHeaderBytes) / 4; ++i) {
      const auto word = wire_at<Be<std::uint32_t>>(datagram.data() + kHeaderBytes + 4 * i).host();
      sum1 += word;
      sum2 += static_cast<std::uint32_t>(kMostOfRun + i + 1) * word;
    }
  } else {
    EXPECT_EQ(h.type, PacketType::kResult);
    EXPECT_EQ(h.contributors.host(), job.members);
    const std::uint32_t rows = rows_of(n, h.dtype);
    Bytes dense(std::size_t{kRowBytes} * rows);
    if ((h.flags & kFlagSparse) != 0) {
      EXPECT_TRUE(are_rows(datagram.data() + kHeaderBytes, rows, datagram.size() - kHeaderBytes));
      unpack_rows(datagram.data() + kHeaderBytes, dense.data(), rows, datagram.size() - kHeaderBytes);
    } else if ((h.flags & kFlagZero) == 0) {
      EXPECT_EQ(datagram.size(), kHeaderBytes + dense.size());
      std::copy(datagram.begin() + kHeaderBytes, datagram.end(), dense.begin());
    }
    Values& values = chunks[h.chunk.host()];
    sum1 = keyed(job.key_sum, h.chunk_id());
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::byte* const at = dense.data() + std::size_t{4} * i / values_per_word(h.dtype);
      values.push_back(h.dtype == kInt16 ? static_cast<std::int16_t>(wire_at<Be<std::uint16_t>>(at).host())
                                         : static_cast<std::int32_t>(wire_at<Be<std::uint32_t>>(at).host()));
      sum1 += static_cast<std::uint32_t>(values.back());
      sum2 += (i + 1) * static_cast<std::uint32_t>(values.back());
    }
  }
  EXPECT_EQ(h.sum1.host(), sum1);
  EXPECT_EQ(h.sum2.host(), sum2);
  return chunks;
}

struct Done {
  Verdict verdict{};
  Drop drop{};
  bool nack = false;
  std::vector<Bytes> sent;  // to whom the verdict says
};

template <class Exec>
class SparseBox {
 public:
  explicit SparseBox(const jobs::NativeJob& job, const kernels::Kernels& kernels = kernels::best_kernels(),
                     std::uint8_t core = 0)
      : job_(job),
        memory_(jobs::pool_lines(job.window, job.shards, job.elements)),
        pipeline_({.core = core, .box = test_box()}, memory_.region(), kernels),
        table_(jobs::JobTable(std::make_shared<jobs::SharedCaps>())
                   .with(job.id, std::make_shared<const jobs::NativeJob>(job))) {
    pipeline_.adopt(table_.get());
  }

  // vouched: the port has found the UDP checksum good.
  Done take(const Bytes& datagram, bool vouched = true, std::size_t tail_room = 4 * kMaxElements) {
    const jobs::Binding& from = job_.ranks[header_of(datagram).rank.host()].binding;
    ReceivedFrame frame(wrap(datagram, from, test_box(), kBasePort), from.port, vouched, tail_room);
    const pipeline::Outcome out = pipeline_.process(frame.frame(), kSecond);
    Done done{out.verdict, out.drop, out.nack, {}};
    if (out.verdict == Verdict::kComplete || out.verdict == Verdict::kRepeat ||
        out.verdict == Verdict::kRelay)
      done.sent.emplace_back(out.payload, out.payload + out.payload_bytes);
    while (pipeline_.owes()) {
      Bytes room(kHeaderBytes + std::size_t{4} * job_.elements);
      const pipeline::Outcome owed = pipeline_.owed(room);
      EXPECT_EQ(owed.verdict, Verdict::kComplete);
      EXPECT_EQ(owed.ranks, job_.members);
      done.sent.emplace_back(owed.payload, owed.payload + owed.payload_bytes);
    }
    return done;
  }
  [[nodiscard]] const jobs::NativeJob& job() const { return job_; }
  [[nodiscard]] const JobCounters& counters() const { return pipeline_.counters(job_.id); }
  pipeline::Pipeline<Exec>& pipeline() { return pipeline_; }

 private:
  jobs::NativeJob job_;
  SlotMemory memory_;
  pipeline::Pipeline<Exec> pipeline_;
  std::shared_ptr<const jobs::JobTable> table_;
};

// All ranks' values of a window of chunks, in forms that are drawn for each.
class RandomRound {
 public:
  RandomRound(Rng& rng, const jobs::NativeJob& job, std::uint32_t n, std::uint8_t dtype)
      : rng_(rng), job_(job), n_(n), dtype_(dtype) {}

  // Packets of `chunks` to the core, in any order; some again. What must come of it: sums().
  std::vector<Bytes> packets(const std::vector<Chunk>& chunks) {
    std::vector<Bytes> all;
    for (const Chunk chunk : chunks) sums_[raw(chunk)] = Values(n_, 0);
    for (std::uint16_t r = 0; r < job_.world; ++r) {
      std::vector<Chunk> zeros;
      for (const Chunk chunk : chunks) {
        Values values = some_values(raw(chunk) % 3);
        for (std::uint32_t i = 0; i < n_; ++i) sums_[raw(chunk)][i] += values[i];
        const bool zero = std::all_of(values.begin(), values.end(), [](std::int32_t v) { return v == 0; });
        if (zero && rng_.chance(0.7)) {
          zeros.push_back(chunk);
          continue;
        }
        const bool leaves_out = rng_.chance(0.8);
        ContributionSpec spec{.rank = Rank{r}, .chunk = chunk, .values = std::move(values), .dtype = dtype_};
        if (zero && leaves_out) spec.flags = kFlagZero;
        Bytes packet = make_contribution(job_, spec);
        if (!zero && leaves_out) packet = made_sparse(packet);
        dense_[raw(chunk)] |=
            !zero && packet.size() == kHeaderBytes + std::size_t{kRowBytes} * rows_of(n_, dtype_);
        dense_[raw(chunk)] |= zero && !leaves_out;
        if (rng_.chance(0.1)) all.push_back(sent_again(job_, packet));
        all.push_back(std::move(packet));
      }
      add_runs(r, zeros, all);
    }
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[rng_.below(i)]);
    return all;
  }
  [[nodiscard]] const Values& sum_of(std::uint32_t chunk) const { return sums_.at(chunk); }
  [[nodiscard]] bool anybody_sent_all_rows(std::uint32_t chunk) { return dense_[chunk]; }

 private:
  Values some_values(std::uint32_t kind) {
    Values values(n_, 0);
    if (kind == 0 || rng_.chance(0.3)) return values;
    const std::uint32_t row = kElementGranule * values_per_word(dtype_);
    for (std::uint32_t i = 0; i < n_; ++i)
      if (kind == 2 || (mix64(i / row + kind) & 3) == 0)
        values[i] = static_cast<std::int32_t>(rng_.below(1000)) - 500;
    return values;
  }
  void add_runs(std::uint16_t rank, const std::vector<Chunk>& zeros, std::vector<Bytes>& all) {
    for (std::size_t i = 0; i < zeros.size();) {
      std::uint64_t run = 0;
      const Chunk first = zeros[i];
      const std::size_t most = 1 + rng_.below(20);
      for (std::size_t taken = 0; i < zeros.size() && taken < most; ++i, ++taken)
        run |= std::uint64_t{1} << (raw(zeros[i]) - raw(first)) / job_.shards;
      all.push_back(make_zero_run(
          job_, {.rank = Rank{rank}, .chunk = first, .values = Values(n_, 0), .dtype = dtype_}, run));
    }
  }

  Rng& rng_;
  const jobs::NativeJob& job_;
  std::uint32_t n_;
  std::uint8_t dtype_;
  std::map<std::uint32_t, Values> sums_;
  std::map<std::uint32_t, bool> dense_;
};

void run(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  forget_sequences();
  Rng rng(seed);
  const auto elements = static_cast<std::uint16_t>(16 * (rng.chance(0.1) ? kMaxRows : 1 + rng.below(9)));
  const std::uint8_t dtype = rng.chance(0.3) ? kInt16 : std::uint8_t{0};
  const jobs::NativeJob job = make_job({.world = static_cast<std::uint8_t>(2 + rng.below(4)),
                                        .shards = static_cast<std::uint8_t>(1 + rng.below(3)),
                                        .window = 32,
                                        .elements = elements,
                                        .sparse = true});
  const auto core = static_cast<std::uint8_t>(rng.below(job.shards));
  const auto tables = kernels::usable_kernels();
  SparseBox<pipeline::Fused> fused(job, *tables[rng.below(tables.size())], core);
  SparseBox<pipeline::Staged> staged(job, *tables.front(), core);
  for (std::uint32_t round = 0; round < 5; ++round) {
    const std::uint32_t first = 0xFFFF'FFC0U + 32 * round;  // a window each; their numbers wrap
    std::vector<Chunk> chunks;
    for (std::uint32_t c = first; c != first + 32; ++c)
      if (c % job.window % job.shards == core) chunks.push_back(Chunk{c});
    RandomRound values(rng, job, elements * values_per_word(dtype), dtype);
    std::map<std::uint32_t, Values> results;
    for (const Bytes& packet : values.packets(chunks)) {
      const bool vouched = rng.chance(0.5);
      const auto done = fused.take(packet, vouched);
      const auto same = staged.take(packet, vouched);
      ASSERT_EQ(done.verdict, same.verdict);
      ASSERT_EQ(done.drop, same.drop) << name_of(done.drop) << " / " << name_of(same.drop);
      ASSERT_EQ(done.nack, same.nack);
      ASSERT_EQ(done.sent, same.sent) << "the same bytes";
      for (const Bytes& sent : done.sent) {
        const bool sparse = (header_of(sent).flags & kFlagSparse) != 0;
        for (auto& [chunk, sum] : told(job, sent)) {
          EXPECT_EQ(sum, values.sum_of(chunk)) << chunk;
          EXPECT_FALSE(sparse && values.anybody_sent_all_rows(chunk));
          if (done.verdict == Verdict::kRepeat) continue;
          EXPECT_TRUE(results.emplace(chunk, std::move(sum)).second) << chunk << " is told twice";
        }
      }
    }
    ASSERT_EQ(results.size(), chunks.size());
    for (const Chunk chunk : chunks) {
      const auto asked = fused.take(make_query(job, Rank{0}, chunk));
      ASSERT_EQ(asked.sent, staged.take(make_query(job, Rank{0}, chunk)).sent);
      ASSERT_EQ(asked.verdict, Verdict::kRepeat);
      EXPECT_EQ(told(job, asked.sent.at(0)).at(raw(chunk)), values.sum_of(raw(chunk)));
    }
  }
  EXPECT_TRUE(fused.counters() == staged.counters());
}

TEST(Sparse, AnyMixOfFormsGivesTheSameSumsAndBytesInBothExecutions) {
  for (std::uint64_t seed = 1; seed <= 25; ++seed) ASSERT_NO_FATAL_FAILURE(run(seed));
}

// One rule each, in both executions.
template <class Exec>
class SparseRules : public testing::Test {
 protected:
  void SetUp() override { forget_sequences(); }
  static Bytes run_of(const jobs::NativeJob& job, std::uint16_t rank, std::uint32_t first,
                      std::uint64_t chunks, std::uint32_t sequence = 0) {
    return make_zero_run(
        job, {.rank = Rank{rank}, .chunk = Chunk{first}, .values = Values(32, 0), .sequence = sequence},
        chunks);
  }
  static Bytes values_of(const jobs::NativeJob& job, std::uint16_t rank, std::uint32_t chunk) {
    Values values(32, 0);
    values[20] = rank + 1;
    return make_contribution(job, {.rank = Rank{rank}, .chunk = Chunk{chunk}, .values = values});
  }
  static jobs::NativeJob job(bool sparse = true, std::uint8_t shards = 1) {
    return make_job({.shards = shards, .elements = 128, .sparse = sparse});
  }
};
using BothExecutions = testing::Types<pipeline::Fused, pipeline::Staged>;
TYPED_TEST_SUITE(SparseRules, BothExecutions);

TYPED_TEST(SparseRules, AJobThatDoesNotUseItTakesNeitherForm) {
  SparseBox<TypeParam> box(this->job(false));
  EXPECT_EQ(box.take(this->run_of(box.job(), 0, 0, 1)).drop, Drop::kType);
  EXPECT_EQ(box.take(made_sparse(this->values_of(box.job(), 0, 0))).drop, Drop::kFlags);
  EXPECT_EQ(box.counters().packets(), 2U);
}

TYPED_TEST(SparseRules, ARunIsTheContributionsThatItStandsFor) {
  SparseBox<TypeParam> box(this->job());
  EXPECT_EQ(box.take(this->run_of(box.job(), 0, 3, 0b1011)).verdict, Verdict::kAbsorb);
  EXPECT_EQ(box.counters().of(Verdict::kAbsorb), 3U);
  // Of the same chunks: 4 has values of this rank, and 5 of nobody yet.
  box.take(this->values_of(box.job(), 1, 4));
  const auto done = box.take(this->run_of(box.job(), 1, 3, 0b1101));
  EXPECT_EQ(done.verdict, Verdict::kComplete);
  ASSERT_EQ(done.sent.size(), 1U);
  EXPECT_EQ(header_of(done.sent[0]).contributors.host(), 0b1001U) << "3 and 6";
  EXPECT_EQ(told(box.job(), done.sent[0]).size(), 2U);
  EXPECT_EQ(box.counters().of(Verdict::kComplete), 3U);
  EXPECT_EQ(box.counters().of(Verdict::kAbsorb), 4U);
}

TYPED_TEST(SparseRules, ARunThatFinishesValuesOwesThemBehindItself) {
  SparseBox<TypeParam> box(this->job());
  for (const std::uint32_t chunk : {0U, 2U}) box.take(this->values_of(box.job(), 0, chunk));
  box.take(this->run_of(box.job(), 0, 1, 0b101));
  const auto done = box.take(this->run_of(box.job(), 1, 0, 0b1111));
  ASSERT_EQ(done.sent.size(), 3U);
  EXPECT_EQ(header_of(done.sent[0]).type, PacketType::kZeroRun);
  EXPECT_EQ(header_of(done.sent[0]).chunk.host(), 1U) << "the first that is zero";
  EXPECT_EQ(header_of(done.sent[0]).before(), 0b1U);
  for (const std::size_t i : {1U, 2U}) {
    const Header h = header_of(done.sent[i]);
    EXPECT_EQ(h.type, PacketType::kResult);
    EXPECT_EQ(h.chunk.host(), 2 * i - 2);
    EXPECT_EQ(h.flags, 0U) << "the first, and a rank sent all rows";
    EXPECT_EQ(h.before(), i == 1 ? 0U : 0b11U);
    EXPECT_EQ(told(box.job(), done.sent[i]).begin()->second[20], 1);
  }
}

// Of each chunk the greatest, whichever form the runs have, and whatever place it has among those that are told.
TYPED_TEST(SparseRules, EachSumOfARunHasItsOwnExponent) {
  for (const bool alike : {false, true}) {
    SparseBox<TypeParam> box(this->job());
    const jobs::NativeJob& job = box.job();
    const auto floats = [&](std::uint16_t rank, std::int8_t exponent) {
      return ContributionSpec{
          .rank = Rank{rank}, .chunk = Chunk{7}, .values = Values(32, 0), .dtype = 1, .exponent = exponent};
    };
    ContributionSpec values = floats(0, 2);
    values.chunk = Chunk{8};
    values.values[3] = 5;
    box.take(make_contribution(job, values));
    box.take(make_zero_run(job, floats(0, 0), 0b101101, {-3, 4, kNoExponent, kNotANumber}));
    const auto done = box.take(alike ? make_zero_run(job, floats(1, 1), 0b101111)
                                     : make_zero_run(job, floats(1, 0), 0b101111, {-7, 9, 5, -127, 6}));
    ASSERT_EQ(done.sent.size(), 2U);
    EXPECT_EQ(header_of(done.sent[0]).chunk.host(), 7U);
    EXPECT_EQ(header_of(done.sent[0]).contributors.host(), 0b101101U);
    EXPECT_EQ(exponents_told(done.sent[0]),
              (alike ? std::vector<int>{1, 4, 1, 127} : std::vector<int>{-3, 5, -127, 127}));
    EXPECT_EQ(told(job, done.sent[0]).size(), 4U);
    EXPECT_EQ(header_of(done.sent[1]).chunk.host(), 8U);
    EXPECT_EQ(header_of(done.sent[1]).exponent, alike ? 2 : 9);
    // As a result that is asked for has it.
    EXPECT_EQ(header_of(box.take(make_query(job, Rank{0}, Chunk{9})).sent.at(0)).exponent, alike ? 4 : 5);
  }
}

TYPED_TEST(SparseRules, SumsOfOneExponentAreToldByAHeader) {
  SparseBox<TypeParam> box(this->job());
  const ContributionSpec zeros{.rank = Rank{0}, .chunk = Chunk{0}, .values = Values(32, 0), .dtype = 1};
  box.take(make_zero_run(box.job(), zeros, 0b111, {-3, 4, -5}));
  ContributionSpec others = zeros;
  others.rank = Rank{1};
  const auto done = box.take(make_zero_run(box.job(), others, 0b111, {4, -9, 4}));
  ASSERT_EQ(done.sent.size(), 1U);
  EXPECT_EQ(done.sent[0].size(), kHeaderBytes);
  EXPECT_EQ(header_of(done.sent[0]).exponent, 4);
}

TYPED_TEST(SparseRules, ChangedExponentsOfARunAreFound) {
  SparseBox<TypeParam> box(this->job());
  const jobs::NativeJob& job = box.job();
  const ContributionSpec zeros{.rank = Rank{0}, .chunk = Chunk{0}, .values = Values(32, 0), .dtype = 1};
  const Bytes right = make_zero_run(job, zeros, 0b11111, {-3, 4, -5, 6, 7});
  ASSERT_EQ(right.size(), kHeaderBytes + 8);
  const auto drop_of = [&](const auto& change) {
    Bytes changed = right;
    Header h = header_of(changed);
    change(changed, h);
    set_header(changed, h);
    return box.take(changed).drop;
  };
  EXPECT_EQ(drop_of([](Bytes& run, Header&) { run[kHeaderBytes] ^= std::byte{1}; }), Drop::kSum);
  EXPECT_EQ(drop_of([](Bytes& run, Header&) { std::swap(run[kHeaderBytes], run[kHeaderBytes + 4]); }),
            Drop::kSum);
  EXPECT_EQ(drop_of([](Bytes& run, Header&) { run.back() = std::byte{1}; }), Drop::kLength) << "padding";
  EXPECT_EQ(drop_of([](Bytes& run, Header&) { run.resize(kHeaderBytes + 4); }), Drop::kLength);
  EXPECT_EQ(drop_of([](Bytes& run, Header&) { run.resize(kHeaderBytes + 12); }), Drop::kLength);
  EXPECT_EQ(drop_of([](Bytes&, Header& h) { h.exponent = 1; }), Drop::kLength) << "two exponents";
  EXPECT_EQ(drop_of([](Bytes& run, Header&) { run.resize(kHeaderBytes); }), Drop::kSum) << "none is left";
  EXPECT_EQ(box.take(right).verdict, Verdict::kAbsorb) << "nothing was counted";
}

// What leaves may be longer than what came.
TYPED_TEST(SparseRules, ARunThatCouldNotLeaveWithExponentsIsDropped) {
  SparseBox<TypeParam> box(this->job());
  const jobs::NativeJob& job = box.job();
  const auto floats = [&](std::uint16_t rank) {
    return ContributionSpec{.rank = Rank{rank}, .chunk = Chunk{0}, .values = {}, .dtype = 1, .exponent = 1};
  };
  const Bytes first = make_zero_run(job, floats(0), 0x1FFF, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2});
  EXPECT_EQ(box.take(first).verdict, Verdict::kAbsorb);
  const Bytes last = make_zero_run(job, floats(1), 0x1FFF);
  EXPECT_EQ(box.take(last, true, 15).drop, Drop::kRoom);
  const auto done = box.take(last, true, 16);
  ASSERT_EQ(done.verdict, Verdict::kComplete);
  EXPECT_EQ(exponents_told(done.sent.at(0)), (std::vector<int>{1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 1, 2}));
}

TYPED_TEST(SparseRules, ARunIsRefusedWholeByItsGates) {
  SparseBox<TypeParam> box(this->job(true, 3));
  const jobs::NativeJob& job = box.job();
  EXPECT_EQ(box.take(this->run_of(job, 0, 0, 0b10)).drop, Drop::kRun) << "not its own chunk";
  EXPECT_EQ(box.take(this->run_of(job, 0, 12, 0b111)).drop, Drop::kRun) << "18 is slot 2, of shard 2";
  Bytes wrong = this->run_of(job, 0, 0, 0b101);
  Header h = header_of(wrong);
  h.contributors = Be{std::uint64_t{0b11}};
  set_header(wrong, h);
  EXPECT_EQ(box.take(wrong).drop, Drop::kSum) << "the sums are of other chunks";
  h = header_of(this->run_of(job, 1, 0, 0b101));
  h.rank = Be{std::uint16_t{0}};
  h.cookie = Be{raw(job.ranks[0].cookie)};
  set_header(wrong, h);
  EXPECT_EQ(box.take(wrong).drop, Drop::kSum) << "they are another rank's";
  const Bytes right = this->run_of(job, 0, 0, 0b101, 9);
  EXPECT_EQ(box.take(right).verdict, Verdict::kAbsorb) << "nothing was counted";
  EXPECT_EQ(box.take(right).drop, Drop::kReplay);
  EXPECT_EQ(box.take(this->run_of(job, 1, 0, 0b101), true, 0).drop, Drop::kRoom);
  EXPECT_EQ(box.counters().of(Verdict::kAbsorb), 2U);
  EXPECT_EQ(box.counters().packets(), 7U) << "of the last nobody looked whose it is";
}

// What a copy from long ago meets: entries of newer chunks, and results.
TYPED_TEST(SparseRules, AnOldRunChangesNothing) {
  SparseBox<TypeParam> box(this->job());
  const jobs::NativeJob& job = box.job();
  for (std::uint16_t r = 0; r < 2; ++r) box.take(this->run_of(job, r, 0, 0b11));
  box.take(this->values_of(job, 0, 32));  // its entry is chunk 0's
  const auto old = box.take(this->run_of(job, 0, 0, 0b11));
  EXPECT_EQ(old.verdict, Verdict::kDrop);
  EXPECT_TRUE(old.sent.empty()) << "whoever misses a result sends alone";
  EXPECT_EQ(box.counters().of(Drop::kStale), 1U);
  EXPECT_EQ(box.counters().of(Drop::kDuplicate), 1U);
  EXPECT_EQ(box.take(this->run_of(job, 1, 64, 1)).drop, Drop::kAhead);
  EXPECT_EQ(box.take(this->run_of(job, 1, 20, 0x1'0000'0001)).drop, Drop::kRun) << "two of one entry";
  EXPECT_EQ(box.take(this->run_of(job, 1, 20, 0x1'0001)).drop, Drop::kRun) << "a window apart";
  const auto done = box.take(this->values_of(job, 1, 32));
  EXPECT_EQ(told(job, done.sent.at(0)).at(32)[20], 3);
}

TYPED_TEST(SparseRules, ARunOfAnotherSizeIsReported) {
  SparseBox<TypeParam> box(this->job());
  box.take(this->values_of(box.job(), 0, 1));
  const auto done = box.take(
      make_zero_run(box.job(), {.rank = Rank{1}, .chunk = Chunk{0}, .values = Values(16, 0)}, 0b111));
  EXPECT_EQ(done.verdict, Verdict::kAbsorb);
  EXPECT_EQ(box.counters().of(Drop::kMismatch), 1U);
  const auto event = box.pipeline().events().pop();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, pipeline::EventKind::kMismatch);
  EXPECT_EQ(event->chunk, Chunk{1});
}

TYPED_TEST(SparseRules, ALostRunIsToldByItsSequence) {
  SparseBox<TypeParam> box(this->job());
  const jobs::NativeJob& job = box.job();
  box.take(this->run_of(job, 0, 0, 0b1, 1));
  box.take(this->run_of(job, 0, 8, 0b111, 3));  // 2 is lost
  box.take(this->run_of(job, 0, 11, 0b1, 4));
  const auto done = box.take(this->run_of(job, 0, 12, 0b1, 5));
  EXPECT_TRUE(done.nack);
  EXPECT_EQ(box.pipeline().nack().first, 2U);
  EXPECT_EQ(box.pipeline().nack().missing, 1U);
}

TYPED_TEST(SparseRules, ADamagedSparseContributionChangesNothing) {
  SparseBox<TypeParam> box(make_job({.world = 3, .elements = 128, .sparse = true}));
  const jobs::NativeJob& job = box.job();
  box.take(made_sparse(this->values_of(job, 0, 0)), false);
  Bytes damaged = made_sparse(this->values_of(job, 1, 0));
  damaged[kHeaderBytes + 5] ^= std::byte{4};
  EXPECT_EQ(box.take(damaged, false).drop, Drop::kSum);
  damaged = made_sparse(this->values_of(job, 1, 0));
  ASSERT_LT(damaged.size(), kHeaderBytes + 128U);
  damaged.back() ^= std::byte{3};  // the other row
  EXPECT_EQ(box.take(damaged, false).drop, Drop::kSum);
  damaged.back() = std::byte{3};  // more rows than there are
  EXPECT_EQ(box.take(damaged, false).drop, Drop::kRows);
  for (std::uint16_t r = 1; r < 3; ++r) {
    const auto done = box.take(made_sparse(this->values_of(job, r, 0)), false);
    EXPECT_EQ(r == 2 ? told(job, done.sent.at(0)).at(0)[20] : 6, 6);
  }
}

// A rank that lost a sparse result gets it of a peer as that has it.
TYPED_TEST(SparseRules, AnAnswerMayLeaveOutRows) {
  SparseBox<TypeParam> box(this->job());
  const jobs::NativeJob& job = box.job();
  box.take(made_sparse(this->values_of(job, 0, 0)));
  const auto done = box.take(made_sparse(this->values_of(job, 1, 0)));
  Bytes answer = done.sent.at(0);
  ASSERT_EQ(header_of(answer).flags, kFlagSparse);
  Header h = header_of(answer);
  h.type = PacketType::kAnswer;
  h.rank = Be{std::uint16_t{1}};
  h.cookie = Be{raw(job.ranks[1].cookie)};
  h.slot = Be{std::uint32_t{0}};
  set_header(answer, h);
  const auto relayed = box.take(answer);
  EXPECT_EQ(relayed.verdict, Verdict::kRelay);
  EXPECT_EQ(header_of(relayed.sent.at(0)).flags, kFlagSparse | kFlagRetransmit);
  EXPECT_EQ(told(job, relayed.sent.at(0)).at(0), told(job, done.sent.at(0)).at(0));
  answer[kHeaderBytes + 7] ^= std::byte{1};
  EXPECT_EQ(box.take(answer).drop, Drop::kSum);
}

}  // namespace
}  // namespace tally

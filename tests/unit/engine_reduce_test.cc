// Sums through the ideal box: every length, lists, in place, several operations, wrap of the chunk numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine_testbed.h"

namespace tally::testbed {
namespace {

using testing::HasSubstr;

std::vector<float> random_floats(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> v(n);
  for (auto& x : v) x = static_cast<float>(static_cast<double>(random() % 2'000'001) / 1e6 - 1.0);
  return v;
}

std::vector<std::int32_t> random_ints(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> v(n);
  for (auto& x : v) x = static_cast<std::int32_t>(random());
  return v;
}

std::vector<std::size_t> lengths() {
  const std::size_t window = std::size_t{16} * 32;
  return {0, 1, 15, 16, 17, 31, 32, 33, window - 1, window, window + 1, 3 * window + 5};
}

TEST(Reduce, IntegersOfAnyLengthWrapLikeTheProtocol) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  for (const std::size_t n : lengths()) {
    auto a = random_ints(n, n);
    auto b = random_ints(n, n + 1);
    std::vector<std::int32_t> want(n);
    for (std::size_t i = 0; i < n; ++i)
      want[i] =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(a[i]) + static_cast<std::uint32_t>(b[i]));
    const auto id = *rig[0].allreduce(std::span<std::int32_t>(a), rig.now);
    EXPECT_EQ(*rig[1].allreduce(std::span<std::int32_t>(b), rig.now), id);
    for (const auto& r : rig.finish(id)) {
      ASSERT_TRUE(r) << n;
      EXPECT_EQ(r->elements, n);
      EXPECT_EQ(r->chunks, std::max<std::size_t>(1, (n + 31) / 32));
      EXPECT_EQ(r->packets, r->chunks);
      EXPECT_EQ(r->retransmissions, 0U);
      EXPECT_GE(r->finished, r->started);
    }
    EXPECT_EQ(a, want) << n;
    EXPECT_EQ(b, want) << n;
  }
}

TEST(Reduce, FloatsOfAnyLengthStayInTheBound) {
  JobShape shape;
  shape.world = 3;
  Rig rig(shape);
  ASSERT_TRUE(rig.run_until_running());
  for (const std::size_t n : lengths()) {
    std::vector<std::vector<float>> x;
    for (std::uint64_t r = 0; r < 3; ++r) x.push_back(random_floats(n, 10 * n + r));
    const auto in = x;
    engine::OperationId id{};
    for (std::size_t r = 0; r < 3; ++r) id = *rig[r].allreduce(std::span<float>(x[r]), rig.now);
    for (const auto& r : rig.finish(id)) {
      ASSERT_TRUE(r) << n;
      EXPECT_FALSE(r->overflow);
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double want = double{in[0][i]} + double{in[1][i]} + double{in[2][i]};
      ASSERT_NEAR(x[0][i], want, 3 * std::ldexp(1.0, -30) + std::ldexp(std::fabs(want), -24))
          << n << " " << i;
      ASSERT_EQ(x[0][i], x[1][i]);
      ASSERT_EQ(x[0][i], x[2][i]);
    }
  }
}

TEST(Reduce, ListOfSpansIsTheirConcatenation) {
  Rig rig({});
  const std::size_t n = 1500;
  auto whole = random_floats(n, 5);
  auto parts = whole;
  const std::vector<std::span<float>> list{{parts.data(), 0},         {parts.data(), 1},
                                           {parts.data() + 1, 700},   {parts.data() + 701, 0},
                                           {parts.data() + 701, 799}, {parts.data() + n, 0}};
  const auto id = *rig[0].allreduce(std::span<float>(whole), 0);
  (void)rig[1].allreduce(list, 0);
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  EXPECT_EQ(whole, parts);
}

TEST(Reduce, InPlaceIsOutOfPlaceAlsoUnderLoss) {
  Rig rig({});
  std::mt19937_64 random(3);
  rig.lose = [&](bool, std::uint16_t, const Header&) { return random() % 100 < 20; };
  const std::size_t n = 4000;
  auto a = random_floats(n, 1);
  const auto b = random_floats(n, 2);
  std::vector<float> out(n, -1);
  const std::vector<std::span<const float>> in{{b.data(), 1000}, {b.data() + 1000, n - 1000}};
  const std::vector<std::span<float>> to{{out.data(), 1000}, {out.data() + 1000, n - 1000}};
  const auto id = *rig[0].allreduce(std::span<float>(a), 0);
  (void)rig[1].allreduce(in, to, 0);
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  EXPECT_EQ(a, out);
  EXPECT_EQ(b, random_floats(n, 2));
  EXPECT_GT(rig[0].statistics().retransmissions, 0U);
}

TEST(Reduce, ShapesMustAgree) {
  Rig rig({});
  const std::vector<float> x(10);
  std::vector<float> y(9);
  const std::vector<std::span<const float>> in{x};
  const auto wrong = rig[0].allreduce(in, std::vector<std::span<float>>{y}, 0);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().what, HasSubstr("span 0 has 10 elements in but 9 out"));
  EXPECT_FALSE(rig[0].allreduce(in, {}, 0));
  EXPECT_EQ(rig[0].pending_operations(), 0U);
}

TEST(Reduce, ThreeOperationsInFlightOverTheWrap) {
  JobShape shape;
  shape.first_chunk = 0xFFFFFFFD;
  shape.shards = 3;
  Rig rig(shape);
  std::mt19937_64 random(9);
  rig.lose = [&](bool, std::uint16_t, const Header&) { return random() % 100 < 10; };
  ASSERT_TRUE(rig.run_until_running());
  auto f0 = random_floats(900, 1);
  auto f1 = random_floats(900, 2);
  auto i0 = random_ints(100, 3);
  auto i1 = random_ints(100, 4);
  auto g0 = random_floats(5, 5);
  auto g1 = random_floats(5, 6);
  const auto expect_f = f0[899] + f1[899];
  const auto expect_i =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(i0[99]) + static_cast<std::uint32_t>(i1[99]));
  const auto expect_g = g0[4] + g1[4];
  for (auto& [engine, f, i, g] :
       std::vector<std::tuple<engine::WorkerEngine*, std::vector<float>*, std::vector<std::int32_t>*,
                              std::vector<float>*>>{{&rig[0], &f0, &i0, &g0}, {&rig[1], &f1, &i1, &g1}}) {
    (void)engine->allreduce(std::span<float>(*f), rig.now);
    (void)engine->allreduce(std::span<std::int32_t>(*i), rig.now);
    (void)engine->allreduce(std::span<float>(*g), rig.now);
    (void)engine->barrier(rig.now);
    EXPECT_EQ(engine->pending_operations(), 4U);
  }
  for (std::uint64_t id = 1; id <= 4; ++id)
    for (const auto& r : rig.finish(engine::OperationId{id})) ASSERT_TRUE(r);
  EXPECT_NEAR(f0[899], expect_f, 1e-6);
  EXPECT_EQ(i0[99], expect_i);
  EXPECT_NEAR(g0[4], expect_g, 1e-6);
  EXPECT_EQ(f0, f1);
  EXPECT_EQ(i0, i1);
  EXPECT_EQ(g0, g1);
}

TEST(Reduce, ManyOperationsOverManyWindows) {
  JobShape shape;
  shape.world = 4;
  shape.first_chunk = 0xFFFFFF00;
  Rig rig(shape);
  std::mt19937_64 random(11);
  rig.lose = [&](bool, std::uint16_t, const Header&) { return random() % 100 < 5; };
  std::vector<std::vector<std::vector<float>>> x(4);
  engine::OperationId last{};
  for (std::size_t op = 0; op < 60; ++op) {
    const std::size_t n = (op * 131) % 700;
    for (std::size_t r = 0; r < 4; ++r) x[r].push_back(std::vector<float>(n, static_cast<float>(op + r)));
  }
  for (std::size_t op = 0; op < 60; ++op)
    for (std::size_t r = 0; r < 4; ++r) last = *rig[r].allreduce(std::span<float>(x[r][op]), 0);
  for (const auto& r : rig.finish(last)) ASSERT_TRUE(r);
  ASSERT_TRUE(rig.run_until([&] { return rig.completed.size() == 240; }));
  for (std::size_t op = 0; op < 60; ++op)
    for (std::size_t r = 0; r < 4; ++r)
      for (const float y : x[r][op]) ASSERT_EQ(y, static_cast<float>(4 * op + 6));
}

TEST(Reduce, WorldOfOne) {
  JobShape shape;
  shape.world = 1;
  Rig rig(shape);
  std::uint64_t n = 0;
  rig.lose = [&](bool, std::uint16_t, const Header&) { return ++n % 3 == 0; };
  auto x = random_floats(1000, 1);
  const auto in = x;
  const auto id = *rig[0].allreduce(std::span<float>(x), 0);
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], in[i], std::ldexp(1.0, -24));
  EXPECT_EQ(rig.box.queries, 0U) << "there is nobody to ask";
}

TEST(Reduce, SixtyFourRanks) {
  JobShape shape;
  shape.world = 64;
  Rig rig(shape);
  std::vector<std::vector<std::int32_t>> x(64, std::vector<std::int32_t>(40, 3));
  engine::OperationId id{};
  for (std::size_t r = 0; r < 64; ++r) id = *rig[r].allreduce(std::span<std::int32_t>(x[r]), 0);
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  EXPECT_EQ(x[63], std::vector<std::int32_t>(40, 192));
}

TEST(Reduce, OverflowIsFlaggedByTheSenderAtTheLimit) {
  constexpr std::int32_t kLimit = 0x7fffffff / 2;
  for (const auto& [value, flagged] :
       std::vector<std::pair<std::int32_t, bool>>{{kLimit, false},
                                                  {kLimit + 1, true},
                                                  {-kLimit, false},
                                                  {-kLimit - 1, true},
                                                  {std::numeric_limits<std::int32_t>::min(), true}}) {
    Rig rig({});
    std::vector<std::int32_t> a(40, 1);
    std::vector<std::int32_t> b(40, 1);
    a[35] = value;
    const auto id = *rig[0].allreduce(std::span<std::int32_t>(a), 0);
    (void)rig[1].allreduce(std::span<std::int32_t>(b), 0);
    for (const auto& r : rig.finish(id)) {
      ASSERT_TRUE(r);
      EXPECT_EQ(r->overflow, flagged) << value;
    }
    EXPECT_EQ(rig[0].statistics().overflows, flagged ? 1U : 0U);
    EXPECT_EQ(rig.box.overflow_results, flagged ? 1U : 0U);
  }
}

TEST(Reduce, BadElementFailsHereByNameAndAbortsTheJob) {
  for (const auto& [bad, name] : std::vector<std::pair<float, std::string>>{
           {std::nanf(""), "NaN"},
           {-INFINITY, "Inf"},
           {std::numeric_limits<float>::max(), "a magnitude above 2^126"}}) {
    Rig rig({});
    auto a = random_floats(2000, 1);
    auto b = a;
    b[1200] = bad;
    const std::vector<std::span<float>> list{{b.data(), 1000}, {b.data() + 1000, 1000}};
    const auto id = *rig[0].allreduce(std::span<float>(a), 0);
    (void)rig[1].allreduce(list, 0);
    const auto after = *rig[1].barrier(0);
    ASSERT_TRUE(rig.run_until([&] {
      return rig[0].state() == engine::EngineState::kClosed && rig.completed.contains({1, after});
    }));
    const auto& culprit = rig.completed.at({1, id});
    ASSERT_FALSE(culprit);
    EXPECT_EQ(culprit.error().code, ErrorCode::kQuantise);
    EXPECT_THAT(culprit.error().what, HasSubstr(name + " in tensor 1 at offset 200"));
    EXPECT_EQ(rig.completed.at({1, after}).error().code, ErrorCode::kAborted);
    EXPECT_THAT(rig[0].why_closed().what, HasSubstr("rank 1: operation 1: " + name));
    EXPECT_EQ(rig.box.aborts.size(), 1U);
    EXPECT_FALSE(rig[1].barrier(rig.now));
  }
}

TEST(Reduce, LargestFiniteBlocks) {
  Rig rig({});
  std::vector<float> a(40, std::ldexp(1.0F, 126));
  std::vector<float> b(40, -std::ldexp(1.0F, 125));
  const auto id = *rig[0].allreduce(std::span<float>(a), 0);
  (void)rig[1].allreduce(std::span<float>(b), 0);
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  EXPECT_EQ(a, std::vector<float>(40, std::ldexp(1.0F, 125)));
}

TEST(Reduce, ZeroDenormalAndTinyBlocks) {
  Rig rig({});
  std::vector<float> a(96, 0.0F);
  std::vector<float> b(96, 0.0F);
  for (std::size_t i = 32; i < 64; ++i) a[i] = std::numeric_limits<float>::denorm_min();
  for (std::size_t i = 64; i < 96; ++i) a[i] = std::ldexp(1.0F, -96);
  const auto id = *rig[0].allreduce(std::span<float>(a), 0);
  (void)rig[1].allreduce(std::span<float>(b), 0);
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(a[i], 0.0F);
  for (std::size_t i = 64; i < 96; ++i) EXPECT_EQ(a[i], std::ldexp(1.0F, -96));
}

// A chunk of zeros is a header, its result too; and where others have values they arrive.
TEST(Reduce, ZerosAreLeftOut) {
  Rig rig({.elements = 32});
  ASSERT_TRUE(rig.run_until_running());
  std::size_t headers = 0;
  std::size_t results = 0;
  rig.lose = [&](bool to_box, std::uint16_t, const Header& h) {
    const bool zero = (h.flags & kFlagZero) != 0;
    headers += zero && to_box && h.type == PacketType::kContribute ? 1 : 0;
    results += zero && !to_box && h.type == PacketType::kResult ? 1 : 0;
    return false;
  };
  std::vector<std::int32_t> a(100, 0);
  std::vector<std::int32_t> b(100, 0);
  b[40] = 7;
  const auto id = *rig[0].allreduce(std::span<std::int32_t>(a), rig.now);
  (void)rig[1].allreduce(std::span<std::int32_t>(b), rig.now);
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  EXPECT_EQ(a[40], 7);
  a[40] = 0;
  EXPECT_EQ(a, std::vector<std::int32_t>(100, 0));
  EXPECT_EQ(headers, 7U) << "of 4 chunks, rank 0 has none with a value, rank 1 one";
  EXPECT_EQ(results, 6U) << "3 to each";
  EXPECT_EQ(rig[0].statistics().zeros + rig[1].statistics().zeros, 7U);
}

// Twice the values in a packet, and the same number of bytes.
TEST(Reduce, Int16TakesHalfThePackets) {
  Rig rig({.elements = 32});
  std::vector<float> a(1000, 0.25F);
  std::vector<float> b(1000, -1.0F);
  engine::OperationOptions options;
  options.wire = WireType::kInt16;
  const auto id = *rig[0].allreduce(std::span<float>(a), 0, options);
  (void)rig[1].allreduce(std::span<float>(b), 0, options);
  for (const auto& r : rig.finish(id)) {
    ASSERT_TRUE(r);
    EXPECT_EQ(r->chunks, 2U * 16) << "1000 values, 64 in a packet, and as many that prime them";
  }
  EXPECT_EQ(a, std::vector<float>(1000, -0.75F));
  EXPECT_EQ(b, a);
}

TEST(Reduce, OptionsOfFloatsAreRefusedForIntegers) {
  Rig rig({});
  std::vector<std::int32_t> x(16, 1);
  engine::OperationOptions half;
  half.wire = WireType::kInt16;
  engine::OperationOptions exact;
  exact.wire = WireType::kExact;
  engine::OperationOptions any;
  any.non_finite = NonFinite::kPropagate;
  EXPECT_EQ(rig[0].allreduce(std::span<std::int32_t>(x), 0, half).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(rig[0].allreduce(std::span<std::int32_t>(x), 0, exact).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(rig[0].allreduce(std::span<std::int32_t>(x), 0, any).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(rig[0].barrier(0, half).error().code, ErrorCode::kInvalidArgument);
}

// The window is anchored: with the first result lost for good, nothing at or beyond lowest + W is sent.
TEST(Reduce, WindowIsAnchored) {
  Rig rig({});
  ASSERT_TRUE(rig.run_until_running());
  std::uint32_t highest = 0;
  bool hold = true;
  rig.lose = [&](bool to_box, std::uint16_t rank, const Header& h) {
    if (to_box && h.type == PacketType::kContribute && rank == 0) highest = std::max(highest, h.chunk.host());
    return hold && !to_box && rank == 0 && h.type == PacketType::kResult && h.chunk.host() == 3;
  };
  std::vector<std::int32_t> a(2000, 1);
  std::vector<std::int32_t> b(2000, 1);
  const auto id = *rig[0].allreduce(std::span<std::int32_t>(a), rig.now);
  (void)rig[1].allreduce(std::span<std::int32_t>(b), rig.now);
  EXPECT_FALSE(rig.run_until([&] { return rig.completed.contains({0, id}); }, 5 * kSecond));
  EXPECT_EQ(highest, 18U);
  EXPECT_EQ(rig[0].statistics().results, 18U);
  hold = false;
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
}

}  // namespace
}  // namespace tally::testbed

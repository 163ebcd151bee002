// Arrays of any type, in place and out of place, and the bytes that travel as sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "api_loopback.h"
#include "kernels/kernels.h"
#include "tally/tally.h"

namespace tally::api_test {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;
using Shorts = std::vector<std::uint16_t>;

const kernels::ShortFloatKernels& of(ElementType type) {
  return type == ElementType::kFloat16 ? kernels::best_kernels().float16 : kernels::best_kernels().bfloat16;
}
Shorts narrowed(ElementType type, const std::vector<float>& values) {
  Shorts out(values.size());
  of(type).narrow(values.data(), out.data(), static_cast<std::uint32_t>(values.size()));
  return out;
}
std::vector<float> widened(ElementType type, const Shorts& values) {
  std::vector<float> out(values.size());
  of(type).widen(values.data(), out.data(), static_cast<std::uint32_t>(values.size()));
  return out;
}

std::vector<float> some_floats(std::size_t rank, std::size_t n) {
  Rng rng(rank * 77 + n);
  std::vector<float> out(n);
  for (float& v : out) v = static_cast<float>(rng.unit() * 2 - 1);
  return out;
}

Bytes bytes_of_rank(std::size_t rank, std::size_t n) {
  Bytes out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(rank * 100 + i);
  return out;
}

class ApiTypes : public testing::Test {
 protected:
  void join(const BoxOptions& options) {
    box_ = std::make_unique<LoopbackBox>(options);
    workers_ = join_all(*box_, options.workers);
    ASSERT_EQ(workers_.size(), options.workers);
  }
  std::unique_ptr<LoopbackBox> box_;
  std::vector<Worker> workers_;
};

class ApiShortFloats : public ApiTypes, public testing::WithParamInterface<ElementType> {};

// What a program would get that widened, summed floats, and narrowed by itself: bit by bit, at every rank.
TEST_P(ApiShortFloats, AreSummedAsFloatsAndRoundedOnce) {
  const ElementType type = GetParam();
  join({.workers = 3, .loss = 0.01, .seed = 5});
  for (const std::size_t n : {1UL, 4UL, 70UL, 300UL, 4'001UL}) {
    std::array<Shorts, 3> in;
    std::array<Shorts, 3> out;
    std::array<std::vector<float>, 3> floats;
    on_all(3, [&](std::size_t rank) {
      in.at(rank) = narrowed(type, some_floats(rank, n));
      out.at(rank).resize(n);
      floats.at(rank) = widened(type, in.at(rank));
      const Shorts before = in.at(rank);
      const std::array<Buffer, 1> buffer{{{in.at(rank).data(), out.at(rank).data(), n}}};
      const auto sum = workers_[rank].allreduce_async(type, buffer).wait(kPatience);
      ASSERT_TRUE(sum) << sum.error().text();
      EXPECT_EQ(in.at(rank), before) << "the input changed";
      ASSERT_TRUE(workers_[rank].allreduce_async(std::span(floats.at(rank))).wait(kPatience));
    });
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(out.at(rank), narrowed(type, floats.at(rank))) << n << " elements";
      EXPECT_EQ(out.at(rank), out[0]);
    }
  }
}

TEST_P(ApiShortFloats, HaveAMeanAndANaNThatPropagates) {
  const ElementType type = GetParam();
  join({.workers = 2});
  on_all(2, [&](std::size_t rank) {
    Shorts values = narrowed(type, std::vector<float>(200, static_cast<float>(2 * rank + 1)));
    const std::array<Buffer, 1> buffer{{{values.data(), values.data(), values.size()}}};
    ASSERT_TRUE(workers_[rank].allreduce_async(type, buffer, {.mean = true}).wait(kPatience));
    EXPECT_EQ(widened(type, values), std::vector<float>(200, 2.0F));
    const float bad = rank == 1 ? std::numeric_limits<float>::infinity() : 1.0F;
    const Shorts infinite = narrowed(type, std::vector<float>(200, bad));
    std::copy(infinite.begin(), infinite.end(), values.begin());
    const auto sum =
        workers_[rank].allreduce_async(type, buffer, {.non_finite = NonFinite::kPropagate}).wait(kPatience);
    ASSERT_TRUE(sum) << sum.error().text();
    for (const float v : widened(type, values)) EXPECT_TRUE(std::isnan(v));
  });
}

// Half the bytes of the program and half of those on the wire.
TEST_P(ApiShortFloats, TravelAsInt16WhereThatIsAsked) {
  const ElementType type = GetParam();
  join({.workers = 2});
  on_all(2, [&](std::size_t rank) {
    Shorts values = narrowed(type, some_floats(rank, 1'000));
    std::vector<float> exact = some_floats(0, 1'000);
    const std::vector<float> other = some_floats(1, 1'000);
    for (std::size_t i = 0; i < exact.size(); ++i) exact[i] += other[i];
    const std::array<Buffer, 1> buffer{{{values.data(), values.data(), values.size()}}};
    const auto sum = workers_[rank].allreduce_async(type, buffer, {.wire = WireType::kInt16}).wait(kPatience);
    ASSERT_TRUE(sum) << sum.error().text();
    const std::vector<float> got = widened(type, values);
    // Of the wire 2^-12 of the largest value (float_options.h), of bfloat16 2^-9 of each of the three.
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], exact[i], 2e-2F);
  });
}

INSTANTIATE_TEST_SUITE_P(All, ApiShortFloats, testing::Values(ElementType::kFloat16, ElementType::kBfloat16),
                         [](const auto& one) {
                           return one.param == ElementType::kFloat16 ? "Float16" : "Bfloat16";
                         });

TEST_F(ApiTypes, OutOfPlaceLeavesTheInputAlone) {
  join({.workers = 2, .loss = 0.01, .seed = 3});
  on_all(2, [&](std::size_t rank) {
    const std::vector<float> in = some_floats(rank, 1'000);
    std::vector<float> same = in;
    std::vector<float> out(1'000, 7.0F);
    ASSERT_TRUE(workers_[rank].allreduce_async(std::span<const float>(in), std::span(out)).wait(kPatience));
    ASSERT_TRUE(workers_[rank].allreduce_async(std::span(same)).wait(kPatience));
    EXPECT_EQ(out, same);
    EXPECT_EQ(in, some_floats(rank, 1'000));
    const std::vector<std::int32_t> ones(100, 1);
    std::vector<std::int32_t> twos(100);
    ASSERT_TRUE(
        workers_[rank].allreduce_async(std::span<const std::int32_t>(ones), std::span(twos)).wait(kPatience));
    EXPECT_EQ(twos, std::vector<std::int32_t>(100, 2));
    const auto refused =
        workers_[rank].allreduce_async(std::span<const float>(in), std::span(out).first(9)).wait(kPatience);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().what, "allreduce: 1000 elements in but 9 out");
  });
}

// Each rank has another part of the array; nobody writes zeros, and nobody reads what he does not want.
TEST_F(ApiTypes, ABufferWithoutInputIsZerosAndOneWithoutOutputIsDropped) {
  join({.workers = 2});
  on_all(2, [&](std::size_t rank) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kInt32}) {
      std::vector<std::int32_t> mine(1'000,
                                     type == ElementType::kInt32 ? 5 : std::bit_cast<std::int32_t>(5.0F));
      std::vector<std::int32_t> theirs(1'000, -1);
      const std::vector<std::int32_t> fives = mine;
      const Buffer said{mine.data(), nullptr, mine.size()};
      const Buffer heard{nullptr, theirs.data(), theirs.size()};
      const std::array<Buffer, 2> both{rank == 0 ? said : heard, rank == 0 ? heard : said};
      const auto sum = workers_[rank].allreduce_async(type, both).wait(kPatience);
      ASSERT_TRUE(sum) << sum.error().text();
      EXPECT_EQ(theirs, fives);
      EXPECT_EQ(mine, fives);
    }
  });
  // The half of which a rank has nothing to say travelled as headers.
  EXPECT_GE(workers_[0].statistics().zeros, 2 * (1'000U / 64));
}

TEST_F(ApiTypes, ABufferThatIsNotAlignedIsRefusedByName) {
  join({.workers = 1});
  std::array<float, 4> room{};
  const std::array<Buffer, 2> buffers{
      {{room.data(), room.data(), 1}, {reinterpret_cast<std::byte*>(room.data()) + 1, nullptr, 1}}};
  const auto refused = workers_[0].allreduce_async(ElementType::kFloat32, buffers).wait(kPatience);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "allreduce: buffer 1 is not aligned to 4 bytes");
}

TEST_F(ApiTypes, ABroadcastReachesAllWhateverItsSizeAndPlace) {
  join({.workers = 3, .loss = 0.01, .seed = 9});
  for (const std::size_t n : {0UL, 1UL, 3UL, 4UL, 257UL, 4'096UL}) {
    for (const std::size_t offset : {0UL, 1UL}) {
      on_all(3, [&](std::size_t rank) {
        Bytes room = bytes_of_rank(rank, n + offset + 1);
        const Bytes before = room;
        const auto data = std::span(room).subspan(offset, n);
        const auto sum = workers_[rank].broadcast_async(data, 1).wait(kPatience);
        ASSERT_TRUE(sum) << sum.error().text();
        const Bytes said = bytes_of_rank(1, n + offset + 1);
        EXPECT_TRUE(std::equal(data.begin(), data.end(), said.begin() + static_cast<std::ptrdiff_t>(offset)));
        EXPECT_EQ(room.back(), before.back()) << "wrote behind the end";
        EXPECT_EQ(offset == 0 || room.front() == before.front(), true) << "wrote before the start";
      });
    }
  }
  const auto refused = workers_[0].broadcast_async({}, 3).wait(kPatience);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "broadcast: root 3 is not below the world, 3");
}

TEST_F(ApiTypes, AGatherPutsEveryRanksBytesInItsPlace) {
  join({.workers = 3, .loss = 0.01, .seed = 4});
  for (const std::size_t n : {0UL, 1UL, 4UL, 37UL, 1'000UL}) {
    on_all(3, [&](std::size_t rank) {
      const Bytes mine = bytes_of_rank(rank, n);
      Bytes all(3 * n, std::byte{0xAA});
      const auto sum = workers_[rank].all_gather_async(mine, all).wait(kPatience);
      ASSERT_TRUE(sum) << sum.error().text();
      // In place: mine is where the sum goes.
      Bytes again(3 * n, std::byte{0xBB});
      const auto place = std::span(again).subspan(rank * n, n);
      std::copy(mine.begin(), mine.end(), place.begin());
      ASSERT_TRUE(workers_[rank].all_gather_async(place, again).wait(kPatience));
      for (std::size_t r = 0; r < 3; ++r) {
        const Bytes theirs = bytes_of_rank(r, n);
        const auto at = all.begin() + static_cast<std::ptrdiff_t>(r * n);
        EXPECT_TRUE(std::equal(theirs.begin(), theirs.end(), at)) << n << " bytes of rank " << r;
      }
      EXPECT_EQ(again, all);
    });
  }
  Bytes odd(5);
  const auto refused = workers_[0].all_gather_async(std::span(odd).first(2), odd).wait(kPatience);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "all_gather: 2 bytes of each of 3 ranks do not make 5");
}

TEST_F(ApiTypes, AReduceScatterGivesEachRankItsPartOfTheSums) {
  join({.workers = 3});
  on_all(3, [&](std::size_t rank) {
    std::vector<float> in = some_floats(rank, 300);
    std::vector<float> sums = in;
    std::vector<float> out(100);
    const auto part = workers_[rank]
                          .reduce_scatter_async(ElementType::kFloat32, in.data(), out.data(), 100)
                          .wait(kPatience);
    ASSERT_TRUE(part) << part.error().text();
    ASSERT_TRUE(workers_[rank].allreduce_async(std::span(sums)).wait(kPatience));
    const auto first = sums.begin() + static_cast<std::ptrdiff_t>(100 * rank);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), first));
    EXPECT_EQ(in, some_floats(rank, 300));
  });
}

TEST_F(ApiTypes, TheEventDescriptorTellsThatSomethingIsDone) {
  join({.workers = 2});
  const int fd = workers_[0].event_fd();
  ASSERT_GE(fd, 0);
  EXPECT_EQ(workers_[0].event_fd(), fd);
  pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&readable, 1, 0), 0);
  std::vector<std::int32_t> mine(10, 1);
  std::vector<std::int32_t> theirs(10, 2);
  const Operation operation = workers_[0].allreduce_async(std::span(mine));
  EXPECT_EQ(poll(&readable, 1, 10), 0) << "nothing is done before the other rank has come";
  ASSERT_TRUE(workers_[1].allreduce_async(std::span(theirs)).wait(kPatience));
  EXPECT_EQ(poll(&readable, 1, static_cast<int>(kPatience.count())), 1);
  EXPECT_TRUE(operation.done());
  eventfd_t done = 0;
  ASSERT_EQ(eventfd_read(fd, &done), 0);
  EXPECT_EQ(done, 1U);
}

struct Heard {
  int calls = 0;
  tally_code code = TALLY_SYSTEM;
  std::uint64_t elements = 0;
  std::string text;
};
void note(void* user, tally_code code, const tally_operation_stats* stats) {
  auto& heard = *static_cast<Heard*>(user);
  ++heard.calls;
  heard.code = code;
  heard.elements = stats != nullptr ? stats->elements : 0;
  heard.text = stats != nullptr ? "" : tally_last_error();
}

TEST(ApiCTypes, EveryFunctionAndTheCallback) {
  LoopbackBox box({.workers = 1});
  tally_worker* const worker = join_in_c(box.worker(0));
  ASSERT_NE(worker, nullptr);
  EXPECT_GE(tally_event_fd(worker), 0);
  EXPECT_EQ(tally_event_fd(nullptr), -1);

  Heard heard;
  tally_reduce_options how = TALLY_REDUCE_OPTIONS_INIT;
  how.done = note;
  how.user = &heard;
  tally_operation* operation = nullptr;
  const auto finish = [&](tally_code issued) {
    ASSERT_EQ(issued, TALLY_OK) << tally_last_error();
    ASSERT_EQ(tally_wait(operation, TALLY_FOREVER, nullptr), TALLY_OK) << tally_last_error();
    tally_operation_free(operation);
  };
  std::array<float, 3> in{1, 2, 3};
  std::array<float, 3> out{};
  const tally_buffer buffer{in.data(), out.data(), 3};
  finish(tally_allreduce_async(worker, TALLY_FLOAT32, &buffer, 1, &how, &operation));
  EXPECT_EQ(out, in);
  EXPECT_EQ(heard.calls, 1);
  EXPECT_EQ(heard.code, TALLY_OK);
  EXPECT_EQ(heard.elements, 3U);

  std::array<char, 5> text{"tall"};
  finish(tally_broadcast_async(worker, text.data(), 5, 0, nullptr, &operation));
  std::array<char, 5> gathered{};
  finish(tally_all_gather_async(worker, text.data(), gathered.data(), 5, nullptr, &operation));
  EXPECT_EQ(gathered, text);
  out = {};
  finish(tally_reduce_scatter_async(worker, TALLY_FLOAT32, in.data(), out.data(), 3, nullptr, &operation));
  EXPECT_EQ(out, in);

  // What cannot be issued calls nobody.
  EXPECT_EQ(tally_allreduce_async(worker, 9, &buffer, 1, &how, &operation), TALLY_INVALID_ARGUMENT);
  EXPECT_STREQ(tally_last_error(), "type: 9 is none; see tally_type");
  EXPECT_EQ(tally_allreduce_async(worker, TALLY_FLOAT32, nullptr, 1, &how, &operation),
            TALLY_INVALID_ARGUMENT);
  EXPECT_EQ(tally_broadcast_async(worker, nullptr, 1, 0, &how, &operation), TALLY_INVALID_ARGUMENT);
  EXPECT_EQ(tally_all_gather_async(worker, in.data(), nullptr, 1, &how, &operation), TALLY_INVALID_ARGUMENT);
  EXPECT_EQ(tally_reduce_scatter_async(worker, TALLY_INT32, nullptr, out.data(), 1, &how, &operation),
            TALLY_INVALID_ARGUMENT);
  EXPECT_EQ(heard.calls, 1);

  // What fails on its way does.
  in[1] = std::nanf("");
  ASSERT_EQ(tally_allreduce_async(worker, TALLY_FLOAT32, &buffer, 1, &how, &operation), TALLY_OK);
  EXPECT_EQ(tally_wait(operation, TALLY_FOREVER, nullptr), TALLY_QUANTISE);
  tally_operation_free(operation);
  EXPECT_EQ(heard.calls, 2);
  EXPECT_EQ(heard.code, TALLY_QUANTISE);
  EXPECT_THAT(heard.text, HasSubstr("NaN in tensor 0 at offset 1"));
  tally_worker_free(worker);
}

}  // namespace
}  // namespace tally::api_test

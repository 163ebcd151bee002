// Each switch kernel of each table against a definition in 64-bit arithmetic.
#include <functional>
#include <tuple>

#include "kernels_support.h"

namespace tally {
namespace {

struct SwitchOp {
  std::string name;
  std::function<kernels::Added(const kernels::Kernels&, std::int32_t*, std::byte*, std::uint32_t)> run;
  std::function<kernels::Added(Values&, Values&)> expect;  // of entry and packet
};

bool naive_add(Values& entry, const Values& packet) {
  bool overflow = false;
  for (std::size_t i = 0; i < entry.size(); ++i) {
    const std::int64_t exact = std::int64_t{entry[i]} + packet[i];
    overflow |= exact < INT32_MIN || exact > INT32_MAX;
    entry[i] = static_cast<std::int32_t>(static_cast<std::uint64_t>(exact) & 0xffffffff);
  }
  return overflow;
}

// Nobody's memory: what is fetched is not read.
kernels::Ahead ahead() {
  return {reinterpret_cast<const std::byte*>(std::uintptr_t{0x1000}),
          reinterpret_cast<const std::int32_t*>(std::uintptr_t{0x2000})};
}

const std::vector<SwitchOp> kOps = {
    {"write",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return k.write(e, w, n), kernels::Added{};
     },
     [](Values& e, Values& p) { return e = p, kernels::Added{}; }},
    {"add",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return kernels::Added{{}, k.add(e, w, n)};
     },
     [](Values& e, Values& p) {
       return kernels::Added{{}, naive_add(e, p)};
     }},
    {"add_sums",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return k.add_sums(e, w, n);
     },
     [](Values& e, Values& p) {
       return kernels::Added{naive_sums(p), naive_add(e, p)};
     }},
    {"add_emit",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return k.add_emit(e, w, n);
     },
     [](Values& e, Values& p) {
       const bool overflow = naive_add(e, p);
       p = e;
       return kernels::Added{naive_sums(e), overflow};
     }},
    {"fetching_write",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return k.fetching.write(e, w, n, ahead()), kernels::Added{};
     },
     [](Values& e, Values& p) { return e = p, kernels::Added{}; }},
    {"fetching_add",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return kernels::Added{{}, k.fetching.add(e, w, n, ahead())};
     },
     [](Values& e, Values& p) {
       return kernels::Added{{}, naive_add(e, p)};
     }},
    {"fetching_add_sums",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return k.fetching.add_sums(e, w, n, ahead());
     },
     [](Values& e, Values& p) {
       return kernels::Added{naive_sums(p), naive_add(e, p)};
     }},
    {"fetching_add_emit",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return k.fetching.add_emit(e, w, n, ahead());
     },
     [](Values& e, Values& p) {
       const bool overflow = naive_add(e, p);
       p = e;
       return kernels::Added{naive_sums(e), overflow};
     }},
    {"subtract",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return k.subtract(e, w, n), kernels::Added{};
     },
     [](Values& e, Values& p) {
       for (std::size_t i = 0; i < e.size(); ++i)
         e[i] = static_cast<std::int32_t>(static_cast<std::uint64_t>(std::int64_t{e[i]} - p[i]) & 0xffffffff);
       return kernels::Added{};
     }},
    {"read",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return k.read(e, w, n), kernels::Added{};
     },
     [](Values& e, Values& p) { return p = e, kernels::Added{}; }},
    {"swap",
     [](const kernels::Kernels& k, std::int32_t* e, std::byte* w, std::uint32_t n) {
       return k.swap(e, w, n), kernels::Added{};
     },
     [](Values& e, Values& p) { return e.swap(p), kernels::Added{}; }},
    {"sums",
     [](const kernels::Kernels& k, std::int32_t*, std::byte* w, std::uint32_t n) {
       return kernels::Added{k.sums(w, n)};
     },
     [](Values&, Values& p) { return kernels::Added{naive_sums(p)}; }},
};

class SwitchKernelsTest
    : public testing::TestWithParam<std::tuple<const kernels::Kernels*, const SwitchOp*>> {
 protected:
  const kernels::Kernels& kernels_ = *std::get<0>(GetParam());
  const SwitchOp& op_ = *std::get<1>(GetParam());

  // Runs the kernel on guarded memory; the packet at `offset` after a cache line.
  void check(Values entry, Values packet, std::size_t offset) {
    const auto n = static_cast<std::uint32_t>(packet.size());
    Guarded slot(n * sizeof(std::int32_t), 0);
    Guarded wire(n * sizeof(std::int32_t), offset);
    std::copy(entry.begin(), entry.end(), slot.as<std::int32_t>());
    put_wire(wire.data(), packet);

    const kernels::Added got = op_.run(kernels_, slot.as<std::int32_t>(), wire.data(), n);
    const kernels::Added expected = op_.expect(entry, packet);

    const std::string where = op_.name + ", n " + std::to_string(n) + ", offset " + std::to_string(offset);
    ASSERT_EQ(got.sums, expected.sums) << where;
    ASSERT_EQ(got.overflow, expected.overflow) << where;
    ASSERT_TRUE(std::equal(entry.begin(), entry.end(), slot.as<std::int32_t>())) << where;
    ASSERT_EQ(wire_values(wire.data(), n), packet) << where;
    ASSERT_TRUE(slot.intact() && wire.intact()) << where;
  }
};

TEST_P(SwitchKernelsTest, EverySizeAtEveryOffset) {
  std::mt19937_64 random(1);
  const Values entry = some_values(random, kMaxElements);
  const Values packet = some_values(random, kMaxElements);
  for (std::uint32_t n = 0; n <= kMaxElements; n += 16)
    for (std::size_t offset = n <= 256 || n == kMaxElements ? 0 : 34; offset < 64;
         offset += n <= 256 ? 1 : 15)
      ASSERT_NO_FATAL_FAILURE(
          check({entry.begin(), entry.begin() + n}, {packet.begin(), packet.begin() + n}, offset));
}

TEST_P(SwitchKernelsTest, RandomPackets) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = 16 * (random() % 32);
    ASSERT_NO_FATAL_FAILURE(check(some_values(random, n), some_values(random, n), random() % 64));
  }
}

TEST_P(SwitchKernelsTest, OneElementAtTheEdgeOfInt32) {
  constexpr std::pair<std::int32_t, std::int32_t> kEdges[] = {
      {INT32_MAX, 0},         {INT32_MAX, 1},      {INT32_MAX - 1, 1},     {INT32_MIN, 0},
      {INT32_MIN, -1},        {INT32_MIN + 1, -1}, {INT32_MIN, INT32_MIN}, {INT32_MAX, INT32_MAX},
      {INT32_MIN, INT32_MAX}, {-1, INT32_MIN}};
  for (std::size_t i = 0; i < 48; ++i) {
    for (const auto& [old, in] : kEdges) {
      Values entry(48, 1000);
      Values packet(48, -1001);
      entry[i] = old;
      packet[i] = in;
      ASSERT_NO_FATAL_FAILURE(check(entry, packet, 34));
    }
  }
}

TEST_P(SwitchKernelsTest, ReadsNothingOutside) {
  for (const auto fence : {Fenced::Fence::kBehind, Fenced::Fence::kBefore}) {
    for (std::uint32_t n = 0; n <= 512; n += 16) {
      Fenced slot(n * sizeof(std::int32_t), fence);
      Fenced wire(n * sizeof(std::int32_t), fence);
      op_.run(kernels_, slot.as<std::int32_t>(), wire.as<std::byte>(), n);
    }
  }
}

std::vector<const SwitchOp*> all_ops() {
  std::vector<const SwitchOp*> ops(kOps.size());
  std::transform(kOps.begin(), kOps.end(), ops.begin(), [](const SwitchOp& op) { return &op; });
  return ops;
}

INSTANTIATE_TEST_SUITE_P(All, SwitchKernelsTest,
                         testing::Combine(all_kernels(), testing::ValuesIn(all_ops())),
                         [](const auto& combination) {
                           return std::string(std::get<0>(combination.param)->name) + "_" +
                                  std::get<1>(combination.param)->name;
                         });

class SwitchAlgebraTest : public KernelsTest {};

TEST_P(SwitchAlgebraTest, SubtractUndoesAddEvenThroughOverflow) {
  std::mt19937_64 random(3);
  Values entry = some_values(random, 352);
  const Values before = entry;
  std::vector<std::byte> wire(352 * sizeof(std::int32_t));
  put_wire(wire.data(), some_values(random, 352));
  EXPECT_TRUE(kernels_.add(entry.data(), wire.data(), 352));
  EXPECT_NE(entry, before);
  kernels_.subtract(entry.data(), wire.data(), 352);
  EXPECT_EQ(entry, before);
}

TEST_P(SwitchAlgebraTest, SumsAddUpLikeTheValuesInAnyOrder) {
  std::mt19937_64 random(4);
  std::vector<std::vector<std::byte>> packets(5, std::vector<std::byte>(256 * sizeof(std::int32_t)));
  for (auto& packet : packets) put_wire(packet.data(), some_values(random, 256));
  Values first_result;
  for (int order = 0; order < 5; ++order) {
    std::shuffle(packets.begin(), packets.end(), random);
    Values entry(256);
    kernels::Sums total = kernels_.sums(packets[0].data(), 256);
    kernels_.write(entry.data(), packets[0].data(), 256);
    for (std::size_t i = 1; i < 5; ++i) {
      const kernels::Added added = kernels_.add_sums(entry.data(), packets[i].data(), 256);
      total = {total.sum1 + added.sums.sum1, total.sum2 + added.sums.sum2};
    }
    std::vector<std::byte> result(256 * sizeof(std::int32_t));
    kernels_.read(entry.data(), result.data(), 256);
    EXPECT_EQ(kernels_.sums(result.data(), 256), total);
    if (order == 0) first_result = entry;
    EXPECT_EQ(entry, first_result);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SwitchAlgebraTest, all_kernels(), kernels_name);

}  // namespace
}  // namespace tally

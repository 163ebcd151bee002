// A member's template knows its contributions and nothing else: of whatever frame, the pipeline finds out the
// same as by the gates alone. (Fixtures and fuzz corpora go through both, too.)

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <ostream>
#include <utility>

#include "agree.h"
#include "frames.h"
#include "heap_frame.h"
#include "jobs.h"
#include "pipeline/fused.h"
#include "pipeline/recognise.h"
#include "rng.h"

namespace tally {
namespace {

struct Way {
  bool tagged = false;
  bool ipv6 = false;
  Discipline discipline = Discipline::kPool;
  std::uint8_t shards = 1;
};
void PrintTo(const Way& w, std::ostream* out) {
  *out << (w.tagged ? "tagged " : "untagged ") << (w.ipv6 ? "IPv6" : "IPv4") << ", discipline "
       << static_cast<int>(w.discipline) << ", " << static_cast<int>(w.shards) << " shards";
}

jobs::Box box_of_both() {
  jobs::Box box = test_box();
  box.ipv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return box;
}

jobs::NativeJob job_of(const Way& way) {
  jobs::NativeJob job = make_job({.id = 700,
                                  .world = 3,
                                  .shards = way.shards,
                                  .elements = 48,
                                  .discipline = way.discipline,
                                  .max_priority = 9,
                                  .shared_slots = shares_slots(way.discipline) ? 16U : 0U});
  for (std::uint16_t r = 0; r < job.world; ++r) {
    jobs::Binding& b = job.ranks[r].binding;
    if (way.ipv6)
      b.address = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, static_cast<std::uint8_t>(r + 2)};
    if (way.tagged) b.vlan = static_cast<std::uint16_t>(100 * r);
  }
  return job;
}

class Template : public testing::TestWithParam<Way> {
 protected:
  explicit Template(const jobs::Box& box = box_of_both())
      : box_(box),
        job_(job_of(GetParam())),
        memory_(job_.slots.count + jobs::shared_lines(16, 48)),
        pipeline_(
            {.core = 0,
             .box = box,
             .shared = jobs::shared_region(static_cast<std::uint32_t>(memory_.region().size()), 16, 48)},
            memory_.region(), kernels::best_kernels()),
        table_(jobs::JobTable().with(job_.id, std::make_shared<const jobs::NativeJob>(job_))) {
    pipeline_.adopt(table_.get());
  }

  [[nodiscard]] Bytes frame(Rank rank, std::uint32_t elements, std::uint8_t flags = 0,
                            Dtype dtype = Dtype::kInt32) const {
    const std::vector<std::int32_t> values(elements, (flags & kFlagZero) != 0 ? 0 : 7);
    const Bytes datagram = make_contribution(job_, {.rank = rank,
                                                    .chunk = Chunk{5},
                                                    .values = values,
                                                    .flags = flags,
                                                    .dtype = static_cast<std::uint8_t>(dtype),
                                                    .total = 500,
                                                    .priority = 12});
    return frame_from(job_.ranks[raw(rank)].binding, box_of_both(), datagram, kBasePort + 3);
  }
  [[nodiscard]] PortIndex port_of(Rank rank) const { return job_.ranks[raw(rank)].binding.port; }
  [[nodiscard]] std::size_t header_at() const {
    return jobs::Framing{GetParam().tagged, GetParam().ipv6}.in_front();
  }
  // Makes the header's check right, wherever the header would be.
  void seal_at(Bytes& bytes, std::size_t at) const {
    if (bytes.size() < at + kHeaderBytes) return;
    wire_put(bytes.data() + at + kCheckedBytes,
             Be{kernels::best_kernels().crc32c(bytes.data() + at, kCheckedBytes)});
  }
  bool agrees(const Bytes& bytes, PortIndex port, bool single_segment = true, std::size_t tail = 0) {
    HeapFrame f(bytes, tail);
    return template_agrees_with_gates(pipeline_, f.frame(port, true, single_segment)) &&
           template_agrees_with_gates(pipeline_, f.frame(port, false, single_segment));
  }
  [[nodiscard]] bool known(const Bytes& bytes, PortIndex port) const {
    HeapFrame f(bytes);
    const pipeline::Recogniser recogniser(box_);
    const pipeline::Frame received = f.frame(port, true);
    const bool words = recogniser.know<false>(received, *table_, kernels::best_kernels()).as != nullptr;
    const bool halves = recogniser.know<true>(received, *table_, kernels::best_kernels()).as != nullptr;
    EXPECT_FALSE(words && halves);
    return words || halves;
  }

  jobs::Box box_;
  jobs::NativeJob job_;
  SlotMemory memory_;
  pipeline::Pipeline<pipeline::Fused> pipeline_;
  std::shared_ptr<const jobs::JobTable> table_;
};

TEST_P(Template, KnowsEveryMembersContributionsWhateverTheirSize) {
  for (const std::uint32_t elements : {16U, 32U, 48U}) {
    for (std::uint16_t r = 0; r < job_.world; ++r) {
      const Bytes f = frame(Rank{r}, elements, kFlagRetransmit | kFlagOverflow);
      EXPECT_TRUE(known(f, port_of(Rank{r}))) << elements << " of " << r;
      EXPECT_TRUE(agrees(f, port_of(Rank{r}), true, 500));
      const PortIndex other{static_cast<std::uint16_t>(raw(port_of(Rank{r})) + 1)};
      EXPECT_FALSE(known(f, other));
      EXPECT_TRUE(agrees(f, other));
      EXPECT_TRUE(agrees(f, port_of(Rank{r}), /*single_segment=*/false));
    }
  }
  for (const std::uint32_t elements : {32U, 64U, 96U}) {
    const Bytes f = frame(Rank{1}, elements, kFlagRetransmit, Dtype::kInt16);
    EXPECT_TRUE(known(f, port_of(Rank{1}))) << elements << " of 16 bits";
    EXPECT_TRUE(agrees(f, port_of(Rank{1})));
  }
  for (const std::uint32_t elements : {16U, 48U, 112U, 128U}) {
    const Bytes f = frame(Rank{1}, elements, 0, Dtype::kInt16);
    EXPECT_FALSE(known(f, port_of(Rank{1}))) << elements << ": not whole lines, or more than the job's";
    EXPECT_TRUE(agrees(f, port_of(Rank{1})));
  }
  for (const Dtype dtype : {Dtype::kInt32, Dtype::kInt16}) {
    const Bytes zero = frame(Rank{1}, 32, kFlagZero, dtype);
    EXPECT_FALSE(known(zero, port_of(Rank{1}))) << "left to the gates";
    EXPECT_TRUE(agrees(zero, port_of(Rank{1}), true, 500));
    EXPECT_TRUE(agrees(zero, port_of(Rank{1})));
  }
  EXPECT_TRUE(agrees(frame(Rank{0}, 0), port_of(Rank{0}))) << "a barrier";
  EXPECT_TRUE(agrees(frame(Rank{0}, 64), port_of(Rank{0}))) << "more than the job's";
}

// With the header's check as it was, and made right again.
TEST_P(Template, AgreesWithTheGatesWhicheverBitIsFlipped) {
  const Rank rank{1};
  for (const Dtype dtype : {Dtype::kInt32, Dtype::kInt16}) {
    const Bytes good = frame(rank, 32, 0, dtype);
    ASSERT_TRUE(known(good, port_of(rank)));
    std::size_t still_known = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (unsigned flip : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 128U, 255U}) {
        Bytes bad = good;
        bad[at] ^= static_cast<std::byte>(flip);
        ASSERT_TRUE(agrees(bad, port_of(rank))) << "byte " << at << " ^ " << flip;
        seal_at(bad, header_at());
        ASSERT_TRUE(agrees(bad, port_of(rank))) << "byte " << at << " ^ " << flip << ", sealed";
        still_known += known(bad, port_of(rank)) ? 1 : 0;
      }
    }
    EXPECT_GT(still_known, 9 * good.size() / 2)
        << "payload, TOS, hops, chunk, sequence and sums are no part of it";
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
      ASSERT_TRUE(agrees({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)}, port_of(rank)))
          << bytes;
  }
}

TEST_P(Template, AgreesWithTheGatesOnRandomMutations) {
  Rng rng(GetParam().tagged + 2U * GetParam().ipv6 + 4U * GetParam().shards);
  for (int round = 0; round < 20'000; ++round) {
    const Rank rank{static_cast<std::uint16_t>(rng.below(job_.world))};
    Bytes bytes = frame(rank, static_cast<std::uint32_t>(16 * rng.below(5)), 0,
                        rng.chance(0.5) ? Dtype::kInt32 : Dtype::kInt16);
    for (auto flips = 1 + rng.below(3); flips > 0; --flips) {
      const auto at = rng.below(header_at() + kHeaderBytes);
      bytes[at] = rng.chance(0.3) ? bytes[rng.below(bytes.size())] : static_cast<std::byte>(rng.below(256));
    }
    seal_at(bytes, header_at());
    ASSERT_TRUE(agrees(bytes, port_of(rank))) << round;
  }
}

TEST_P(Template, OfABoxWithoutTheAddressKnowsNothing) {
  jobs::Box none = box_of_both();
  if (GetParam().ipv6) {
    none.ipv6 = {};
  } else {
    none.ipv4 = {};
  }
  const std::vector<std::int32_t> values(32, 7);
  const Bytes datagram = make_contribution(job_, {.rank = Rank{0}, .chunk = Chunk{5}, .values = values});
  const Bytes bytes = frame_from(job_.ranks[0].binding, none, datagram, kBasePort);
  HeapFrame f(bytes);
  const pipeline::Frame received = f.frame(port_of(Rank{0}), true);
  EXPECT_EQ(pipeline::Recogniser(none).know<false>(received, *table_, kernels::best_kernels()).as, nullptr);
  pipeline::Pipeline<pipeline::Fused> pipeline({.core = 0, .box = none}, memory_.region(),
                                               kernels::best_kernels());
  pipeline.adopt(table_.get());
  EXPECT_TRUE(template_agrees_with_gates(pipeline, received));
}

// A row that is replaced or cleared takes its templates along.
TEST_P(Template, GoesWithItsRow) {
  const Bytes f = frame(Rank{2}, 48);
  jobs::NativeJob next = job_;
  next.epoch = Epoch{raw(job_.epoch) + 1};
  for (const jobs::Row& row : {jobs::Row{std::make_shared<const jobs::NativeJob>(next)}, jobs::Row{}}) {
    ASSERT_TRUE(known(f, port_of(Rank{2})));
    const auto before = std::exchange(table_, table_->with(job_.id, row));
    pipeline_.adopt(table_.get());
    EXPECT_FALSE(known(f, port_of(Rank{2})));
    EXPECT_TRUE(agrees(f, port_of(Rank{2})));
    pipeline_.adopt(before.get());  // as the publisher does: a table lives until the next one is adopted
    table_ = before;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Template,
                         testing::Values(Way{}, Way{.tagged = true}, Way{.ipv6 = true},
                                         Way{.tagged = true, .ipv6 = true, .shards = 3},
                                         Way{.discipline = Discipline::kShared},
                                         Way{.ipv6 = true, .discipline = Discipline::kFcfs, .shards = 2}));

}  // namespace
}  // namespace tally

// Whole sessions over a switch of the original's rules: every sum of every rank and every byte of every
// reply.

#include <gtest/gtest.h>

#include <tuple>

#include "client_rack.h"
#include "original_switch.h"

namespace tally::stock {
namespace {

constexpr std::uint16_t kReduceWindow = 8;

SessionOptions session_of(std::size_t members, std::uint16_t threads, std::uint16_t payload,
                          std::vector<StockOperation> operations) {
  return {.members = rack_members(members),
          .payload = payload,
          .threads = threads,
          .window = kReduceWindow,
          .operations = std::move(operations),
          .seed = members * 1000 + threads * 100 + payload};
}

OriginalSwitch switch_for(const SessionOptions& options) {
  return {options.members, options.payload, static_cast<std::uint16_t>(2 * options.window * options.threads)};
}

using Shape = std::tuple<std::size_t, std::uint16_t, std::uint16_t>;

class StockReduce : public testing::TestWithParam<Shape> {
 protected:
  // Sizes as a thread sees them: more than a window of packets and an odd rest.
  [[nodiscard]] SessionOptions long_session() const {
    const auto [members, threads, payload] = GetParam();
    const std::uint64_t packet = payload / 4, many = (3 * kReduceWindow + 2) * packet * threads;
    return session_of(members, threads, payload,
                      {{false, many}, {true, many + 1}, {false, many + packet / 2 + 3}, {true, many - 7}});
  }
};

INSTANTIATE_TEST_SUITE_P(Shapes, StockReduce,
                         testing::Combine(testing::Values(2, 3, 8, 16), testing::Values(1, 4),
                                          testing::Values(128, 256, 512, 1024)),
                         [](const auto& shape) {
                           return std::to_string(std::get<0>(shape.param)) + "Workers" +
                                  std::to_string(std::get<1>(shape.param)) + "Threads" +
                                  std::to_string(std::get<2>(shape.param)) + "Bytes";
                         });

TEST_P(StockReduce, EverySumIsRight) {
  SessionOptions options = long_session();
  const std::uint64_t packet = options.payload / 4;
  for (const std::uint64_t size :
       {std::uint64_t{1}, packet - 1, packet, packet + 1, 3 * packet * options.threads + 5})
    for (const bool floats : {false, true}) options.operations.push_back({floats, size});
  StockSession session(options);
  OriginalSwitch box = switch_for(options);
  ASSERT_EQ(ClientRack(session, box).run(), "");
  double error = 0;
  EXPECT_EQ(session.check(error), "");
  EXPECT_GT(error, 0.1);  // floats were rounded, and compared with what is exact
  const SessionFigures figures = session.figures();
  EXPECT_EQ(figures.judged, figures.counters.answered);
  EXPECT_EQ(figures.counters.resent, 0U);
  EXPECT_EQ(box.counters().strangers, 0U);
}

TEST_P(StockReduce, EverySumIsRightWithLoss) {
  SessionOptions options = long_session();
  options.loss = 0.01;
  StockSession session(options);
  OriginalSwitch box = switch_for(options);
  ASSERT_EQ(ClientRack(session, box).run(), "");
  double error = 0;
  EXPECT_EQ(session.check(error), "");
  const SessionFigures figures = session.figures();
  EXPECT_GT(figures.lost_requests + figures.lost_replies, 0U);
  EXPECT_GT(figures.counters.resent, 0U);
  EXPECT_GT(box.counters().duplicates + box.counters().repeated, 0U);
}

// A check that cannot fail is none.
TEST(StockReduceCheck, AWrongSumIsFound) {
  class OneWrong : public OriginalSwitch {
   public:
    using OriginalSwitch::OriginalSwitch;
    void receive(std::size_t rank, std::span<const std::byte> frame, TimeNs now,
                 const Deliver& deliver) override {
      OriginalSwitch::receive(rank, frame, now, [&](std::size_t to, std::span<const std::byte> reply) {
        std::vector<std::byte> bytes(reply.begin(), reply.end());
        if (++replies_ == 8) bytes[kHeads + 7] ^= std::byte{64};
        deliver(to, bytes);
      });
    }

   private:
    int replies_ = 0;
  };
  for (const bool floats : {false, true}) {
    SessionOptions options = session_of(2, 1, 256, {{floats, 192}, {floats, 192}});
    OneWrong judged(options.members, 256, 2 * kReduceWindow);
    StockSession strict(options);
    EXPECT_NE(ClientRack(strict, judged).run().find("byte 59 of 308"), std::string::npos);
    options.judged = false;
    OneWrong box(options.members, 256, 2 * kReduceWindow);
    StockSession session(options);
    ASSERT_EQ(ClientRack(session, box).run(), "");
    double error = 0;
    EXPECT_NE(session.check(error), "");
  }
}

// A switch that loses a member's contribution for good: the session says who waits.
TEST(StockReduceCheck, WhoWaitsIsNamed) {
  class Deaf : public OriginalSwitch {
   public:
    using OriginalSwitch::OriginalSwitch;
    void receive(std::size_t rank, std::span<const std::byte> frame, TimeNs now,
                 const Deliver& deliver) override {
      if (rank != 1 || tsi_of(heads_of(frame).switchml) != 2)
        OriginalSwitch::receive(rank, frame, now, deliver);
    }
  };
  const SessionOptions options = session_of(2, 1, 128, {{false, 100}});
  StockSession session(options);
  Deaf box(options.members, 128, 2 * kReduceWindow);
  EXPECT_EQ(ClientRack(session, box).run(),
            "nothing moves: rank 0 thread 0 for packet 2 of operation 0; rank 1 thread 0 for packet 2 of "
            "operation 0");
}

}  // namespace
}  // namespace tally::stock

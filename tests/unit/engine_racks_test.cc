// A worker of a job of racks (docs/protocol_racks.md, 18.4): two numbers, the keys of all, questions to other racks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <vector>

#include "box_says.h"
#include "engine/chunk_codec.h"
#include "engine_testbed.h"
#include "tally/mix64.h"

namespace tally::testbed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint32_t kMostAdvanced = 0xFFFFFFFF;

// Racks of 2, 3 and 1 workers; the worker is number 3, rank 1 of rack 1.
class OfRacks : public testing::Test {
 protected:
  OfRacks() {
    epoch_.job = JobId{7};
    epoch_.epoch = Epoch{100};
    epoch_.cookie = Cookie{0xC0};
    epoch_.result_cookie = Cookie{0xAB};
    epoch_.generation = Generation{0x1234567890abcdefULL};
    epoch_.largest_window = epoch_.lookahead = epoch_.window = 16;
    epoch_.elements = 32;
    epoch_.lease = 10 * kSecond;
    epoch_.rank = Rank{1};
    epoch_.place.workers = {2, 3, 1};
    epoch_.place.racks = 3;
    epoch_.place.rack = 1;
    epoch_.place.first = 2;
    epoch_.place.most_advanced = 2;
    epoch_.most_advanced = Rank{2};
    resize();
  }

  void resize() {
    const auto& workers = epoch_.place.workers;
    epoch_.world = std::accumulate(workers.begin(), workers.end(), 0U);
  }
  [[nodiscard]] std::uint16_t number() const {
    return static_cast<std::uint16_t>(epoch_.place.first + raw(epoch_.rank));
  }
  [[nodiscard]] std::uint32_t key_sum() const {
    std::uint32_t sum = 0;
    for (std::uint32_t g = 0; g < epoch_.world; ++g) sum += racked_key(epoch_.generation, g);
    return sum;
  }

  // A process that has said its JOIN.
  void make() {
    JobShape shape;
    shape.world = static_cast<std::uint16_t>(epoch_.world);
    shape.elements = 32;
    const auto options = options_of(shape, number());
    epoch_.session = auth::session_key(Box::job_key(), epoch_.generation, epoch_.epoch, epoch_.result_cookie,
                                       epoch_.cookie, options.instance, epoch_.rank);
    engine_ = std::move(*engine::WorkerEngine::create(options, kernels::best_kernels()));
    join_ = drain(*engine_, now_).at(0).bytes;
  }
  [[nodiscard]] std::uint64_t nonce() const {
    return wire_at<JoinPayload>(join_.data() + kHeaderBytes).nonce.host();
  }
  void join() {
    make();
    engine_->receive(box_joined(epoch_, JoinStatus::kRunning, nonce(), Box::job_key()), now_);
    ASSERT_EQ(engine_->state(), engine::EngineState::kRunning);
  }

  // The next datagram of a type, while time goes on; of nothing else anything is heard.
  std::optional<Bytes> next_of(PacketType type, const std::function<bool(const Header&)>& wanted = {}) {
    for (; now_ < 300 * kSecond; now_ = std::max(now_ + 1, engine_->deadline())) {
      for (const auto& out : drain(*engine_, now_)) {
        const Header h = header_of(out.bytes);
        if (h.type == PacketType::kHeartbeat)
          engine_->receive(box_tells(epoch_, box_header(epoch_, PacketType::kHeartbeat)), now_);
        if (h.type == type && (!wanted || wanted(h))) return out.bytes;
      }
    }
    return std::nullopt;
  }
  // As the rack's box passes it on: the values are this worker's, `keys` what the others' sums leave.
  [[nodiscard]] Bytes result_of(const Bytes& contribution, std::uint32_t keys) const {
    Header h = header_of(contribution);
    const auto values = values_of(contribution);
    h.type = PacketType::kResult;
    h.rank = Be{raw(kSwitchRank)};
    h.cookie = Be{raw(epoch_.result_cookie)};
    h.slot = {};
    h.contributors = Be{epoch_.members()};
    h.sum1 = Be{keyed(keys, h.chunk_id()) + plain_sum1(values)};
    return sealed(h, values);
  }
  [[nodiscard]] Bytes query(std::uint16_t rank, std::uint32_t chunk) const {
    Header h = box_header(epoch_, PacketType::kQuery);
    h.rank = Be{rank};
    h.chunk = Be{chunk};
    h.contributors = Be{bit_of(epoch_.rank)};
    return sealed(h);
  }

  engine::Membership epoch_;
  std::unique_ptr<engine::WorkerEngine> engine_;
  Bytes join_;
  TimeNs now_ = 0;
  std::vector<std::int32_t> values_ = std::vector<std::int32_t>(20, 3);
};

TEST_F(OfRacks, JoinsWithItsNumberAndSpeaksWithItsRank) {
  join();
  EXPECT_EQ(header_of(join_).rank.host(), 3);
  const auto said = wire_at<JoinPayload>(join_.data() + kHeaderBytes);
  EXPECT_EQ(said.world.host(), 6);
  EXPECT_EQ(said.rack_workers, 0);
  ASSERT_TRUE(engine_->allreduce(values_, now_));
  const auto sent = next_of(PacketType::kContribute);
  ASSERT_TRUE(sent);
  const Header h = header_of(*sent);
  EXPECT_EQ(h.rank.host(), 1);
  EXPECT_EQ(h.contributors.host(), 0b010U);
  EXPECT_EQ(h.sum1.host(), keyed(racked_key(epoch_.generation, 3), h.chunk_id()) + 60U);
  const auto beat = next_of(PacketType::kHeartbeat);
  ASSERT_TRUE(beat);
  EXPECT_EQ(header_of(*beat).rank.host(), 1);
  engine_->abort("enough", now_);
  const auto abort = next_of(PacketType::kAbort);
  ASSERT_TRUE(abort);
  EXPECT_EQ(header_of(*abort).rank.host(), 1);
  EXPECT_TRUE(auth::verify(epoch_.session, header_of(*abort), std::span(*abort).subspan(kHeaderBytes)))
      << "its session is the rank's";
}

TEST_F(OfRacks, WhatContradictsItselfIsNotEntered) {
  const auto refuses = [this](const char* what, const std::function<void()>& change) {
    const engine::Membership whole = epoch_;
    make();
    change();
    engine_->receive(box_joined(epoch_, JoinStatus::kRunning, nonce(), Box::job_key()), now_);
    EXPECT_EQ(engine_->statistics().of(Refused::kJoined), 1U) << what;
    EXPECT_EQ(engine_->state(), engine::EngineState::kJoining) << what;
    epoch_ = whole;
  };
  refuses("a rack more than said", [this] { epoch_.place.rack = 3; });
  refuses("the most advanced is none", [this] { epoch_.place.most_advanced = 3; });
  refuses("an empty rack", [this] { epoch_.place.workers = {3, 3, 0}; });
  refuses("a rack too large", [this] { epoch_.place.workers = {2, 65, 1}, resize(); });
  refuses("another world", [this] { ++epoch_.world; });
  refuses("its number is before the rack", [this] { epoch_.place.workers = {4, 1, 1}; });
  refuses("its number is behind the rack", [this] { epoch_.place.workers = {1, 2, 3}; });
  refuses("whom to ask is none of the rack", [this] { epoch_.most_advanced = Rank{3}; });
  refuses("multicast", [this] { epoch_.results = ResultsMode::kMulticast; });
  refuses("stragglers", [this] { epoch_.stragglers = true; });
  refuses("shared slots", [this] { epoch_.discipline = Discipline::kShared, epoch_.shared_slots = 8; });
}

TEST_F(OfRacks, TextsOfAnotherLengthAreNotEntered) {
  const std::vector<std::byte> whole = racks_text(epoch_.place);
  EXPECT_TRUE(engine::read_racks(whole));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(engine::read_racks(std::span(whole).first(bytes))) << bytes;
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{1});
  EXPECT_FALSE(engine::read_racks(longer));
  std::vector<std::byte> marked = whole;
  marked[3] = std::byte{1};
  EXPECT_FALSE(engine::read_racks(marked));
  epoch_.place.racks = 0;
  EXPECT_FALSE(engine::read_racks(racks_text(epoch_.place)));
}

TEST_F(OfRacks, SumsAreCheckedWithTheKeysOfAll) {
  join();
  ASSERT_TRUE(engine_->allreduce(values_, now_));
  const auto sent = next_of(PacketType::kContribute);
  ASSERT_TRUE(sent);
  std::uint32_t of_rack = 0;
  for (std::uint32_t g = 2; g < 5; ++g) of_rack += racked_key(epoch_.generation, g);
  engine_->receive(result_of(*sent, of_rack), now_);
  EXPECT_EQ(engine_->statistics().of(Refused::kSum), 1U) << "what only the rack is in";
  EXPECT_FALSE(engine_->next_completion());
  engine_->receive(result_of(*sent, key_sum()), now_);
  const auto done = engine_->next_completion();
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->result);
}

// Number 5 is the most advanced; then the own rack from its rank 2 on, then the other racks, in which each worker of the rack
// begins elsewhere: what one of them finds comes to all.
TEST_F(OfRacks, AsksTheMostAdvancedRackThenItsOwnThenAllAndNotInStepWithItsPeers) {
  using Asked = std::array<std::uint32_t, 3>;  // DIRECT, bits, total
  const Asked ahead{1, 0b100, kMostAdvanced};
  const std::array<Asked, 3> own{Asked{0, 0b100, 0}, Asked{0, 0b001, 0}, Asked{0, 0b010, 0}};
  const std::array<Asked, 3> others{Asked{1, 0b100, 0}, Asked{1, 0b001, 0}, Asked{1, 0b001, 1}};
  const auto names = [](const Header& h) {
    const bool of_nobody = h.contributors.host() == 0;
    EXPECT_FALSE(of_nobody && (h.flags & kFlagDirect) != 0) << "there is no server to be asked";
    return !of_nobody;
  };
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    epoch_.rank = Rank{static_cast<std::uint16_t>(rank)};
    now_ = 0;
    join();
    ASSERT_TRUE(engine_->allreduce(values_, now_));
    std::vector<Asked> asked;
    while (asked.size() < 8) {
      const auto query = next_of(PacketType::kQuery, names);
      ASSERT_TRUE(query);
      const Header h = header_of(*query);
      EXPECT_EQ(h.rank.host(), rank);
      const bool direct = (h.flags & kFlagDirect) != 0;
      asked.push_back(
          {direct, static_cast<std::uint32_t>(h.contributors.host()), direct ? h.total.host() : 0});
    }
    std::vector<Asked> wanted{ahead};
    std::ranges::copy_if(own, std::back_inserter(wanted),
                         [rank](const Asked& peer) { return peer[1] != 1U << rank; });
    for (std::uint32_t i = 0; i < 3; ++i) wanted.push_back(others.at((rank + i) % 3));
    wanted.insert(wanted.end(), wanted.begin(), wanted.begin() + 2);
    EXPECT_EQ(asked, wanted) << "rank " << rank;
  }
}

TEST_F(OfRacks, WhereTheOwnRackIsTheMostAdvancedItIsAskedFirst) {
  epoch_.place.most_advanced = 1;
  epoch_.place.workers = {1, 1, 1};
  epoch_.place.first = 1;
  epoch_.rank = epoch_.most_advanced = Rank{0};
  resize();
  join();
  ASSERT_TRUE(engine_->allreduce(values_, now_));
  std::vector<std::uint64_t> racks;
  const auto names = [](const Header& h) { return h.contributors.host() != 0; };
  while (racks.size() < 3) {
    const auto query = next_of(PacketType::kQuery, names);
    ASSERT_TRUE(query);
    EXPECT_NE(header_of(*query).flags & kFlagDirect, 0) << "it is alone in its rack";
    racks.push_back(header_of(*query).contributors.host());
  }
  EXPECT_THAT(racks, ElementsAre(0b100U, 0b001U, 0b100U));
}

TEST_F(OfRacks, AnswersWhoAsksFromAnotherRack) {
  join();
  ASSERT_TRUE(engine_->allreduce(values_, now_));
  const auto sent = next_of(PacketType::kContribute);
  ASSERT_TRUE(sent);
  engine_->receive(result_of(*sent, key_sum()), now_);
  const std::uint32_t chunk = header_of(*sent).chunk.host();
  engine_->receive(query(kRackRankBase + 1, chunk), now_);
  engine_->receive(query(kRackRankBase + 3, chunk), now_);
  engine_->receive(query(3, chunk), now_);
  EXPECT_EQ(engine_->statistics().of(Refused::kPeer), 3U) << "the own rack, and ranks that there are none of";
  for (const std::uint16_t asker : {std::uint16_t{kRackRankBase + 2}, std::uint16_t{2}}) {
    engine_->receive(query(asker, chunk), now_);
    const auto answer = next_of(PacketType::kAnswer);
    ASSERT_TRUE(answer) << asker;
    const Header h = header_of(*answer);
    EXPECT_EQ(h.slot.host(), asker);
    EXPECT_EQ(h.rank.host(), 1);
    EXPECT_EQ(h.contributors.host(), 0b111U) << "its own rack, whoever asks";
    EXPECT_EQ(h.sum1.host(), keyed(key_sum(), h.chunk_id()) + 60U);
  }
}

TEST_F(OfRacks, QuantisesForAllOfFourThousandAndNinetySix) {
  EXPECT_EQ(engine::sum_shift(kMaxWorld), 18);
  EXPECT_EQ(engine::sum_shift(kMaxWorld, Dtype::kInt16), 2);
  epoch_.place.workers.fill(64);
  epoch_.place.racks = 64;
  epoch_.place.rack = 63;
  epoch_.place.first = 63 * 64;
  epoch_.rank = Rank{63};
  resize();
  join();
  std::vector<float> values(32, 1.0F);
  values[1] = -0.5F;
  engine::OperationOptions options;
  options.mean = true;
  ASSERT_TRUE(engine_->allreduce(std::span(values), now_, options));
  const auto priming = next_of(PacketType::kContribute);
  ASSERT_TRUE(priming);
  EXPECT_EQ(header_of(*priming).exponent, 0);
  EXPECT_EQ(header_of(*priming).rank.host(), 63);
  engine_->receive(result_of(*priming, key_sum()), now_);
  const auto data = next_of(PacketType::kContribute);
  ASSERT_TRUE(data);
  const auto sent = values_of(*data);
  EXPECT_EQ(sent[0], 1 << 18);
  EXPECT_EQ(sent[1], -(1 << 17));
  EXPECT_EQ(header_of(*data).flags & kFlagOverflow, 0);
  engine_->receive(result_of(*data, key_sum()), now_);
  ASSERT_TRUE(engine_->next_completion());
  EXPECT_EQ(values[0], 1.0F / 4096) << "the mean is over all, not over the rack";
}

TEST_F(OfRacks, IntegersMayOverflowByTheNumberOfAll) {
  epoch_.place.workers = {64, 3, 64};
  epoch_.place.first = 64;
  resize();
  join();
  values_.assign(16, 0x7fffffff / 131);
  ASSERT_TRUE(engine_->allreduce(values_, now_));
  EXPECT_EQ(header_of(*next_of(PacketType::kContribute)).flags & kFlagOverflow, 0);
  std::vector<std::int32_t> more(16, 0x7fffffff / 131 + 1);
  ASSERT_TRUE(engine_->allreduce(more, now_));
  const auto second = next_of(PacketType::kContribute, [](const Header& h) { return h.chunk.host() == 1; });
  EXPECT_NE(header_of(*second).flags & kFlagOverflow, 0);
}

TEST_F(OfRacks, ExactSumsEndWithSixtyFourWorkers) {
  std::vector<float> few{1.0F};
  engine::OperationOptions exact;
  exact.wire = WireType::kExact;
  engine::OperationOptions shortest;
  shortest.wire = WireType::kShortest;
  for (const std::uint8_t others : {std::uint8_t{58}, std::uint8_t{59}}) {
    epoch_.place.workers = {2, 3, 1, others};
    epoch_.place.racks = 4;
    resize();
    join();
    const auto wish = engine_->allreduce(std::span(few), now_, exact);
    EXPECT_EQ(wish.has_value(), epoch_.world == 64);
    if (!wish) {
      EXPECT_EQ(wish.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(wish.error().what, HasSubstr("up to 64 workers; this one has 65"));
    }
    ASSERT_TRUE(engine_->allreduce(std::span(few), now_, shortest));
    const auto first = next_of(PacketType::kContribute);
    ASSERT_TRUE(first);
    EXPECT_EQ(header_of(*first).exponent, epoch_.world == 64 ? kNoExponent : 0) << "its own choice";
  }
}

TEST_F(OfRacks, WhoIsMissingIsNamedByItsNumber) {
  make();
  engine_->receive(box_joined(epoch_, JoinStatus::kForming, nonce(), Box::job_key(), 0b100), now_);
  EXPECT_EQ(engine_->missing(), 0b100U);
  EXPECT_EQ(engine_->first_rank(), 2U) << "who forms is told already";
  join();
  engine::OperationOptions options;
  options.deadline = 60 * kSecond;
  ASSERT_TRUE(engine_->allreduce(values_, now_, options));
  const auto query = next_of(PacketType::kQuery);
  ASSERT_TRUE(query);
  Header waiting = box_header(epoch_, PacketType::kReject);
  waiting.chunk = header_of(*query).chunk;
  waiting.slot = Be{static_cast<std::uint32_t>(RejectReason::kWaiting)};
  waiting.contributors = Be{std::uint64_t{0b011}};
  engine_->receive(sealed(waiting), now_);
  now_ = options.deadline;
  (void)drain(*engine_, now_);
  const auto late = engine_->next_completion();
  ASSERT_TRUE(late);
  ASSERT_FALSE(late->result);
  EXPECT_THAT(late->result.error().what, HasSubstr("waiting for rank 4"));
}

TEST_F(OfRacks, AFlatJobKeepsItsKeys) {
  JobShape shape;
  const Box box(shape);
  const auto engine = joined_engine(box, options_of(shape, 1));
  const auto& m = *engine->membership();
  EXPECT_FALSE(m.has_racks());
  EXPECT_EQ(m.rank, Rank{1});
  EXPECT_EQ(m.key, rank_key(m.generation, Rank{1}));
  EXPECT_EQ(m.key_sum, rank_key(m.generation, Rank{0}) + rank_key(m.generation, Rank{1}));
}

}  // namespace
}  // namespace tally::testbed

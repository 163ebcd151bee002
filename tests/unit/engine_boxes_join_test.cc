// A job over several boxes: how a worker finds its home, gets the plan, and is known at the plan's other boxes
// (docs/protocol_boxes.md, 17.1 to 17.3).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "box_says.h"
#include "engine_boxes_scene.h"
#include "tally/be.h"

namespace tally::testbed {
namespace {

using engine::EngineState;
using engine::GuestState;
using testing::HasSubstr;

class BoxesJoin : public testing::Test {
 protected:
  static BoxesScene two() { return {planned_shape(2), even_plan(3, 2)}; }
  // With another list of boxes to join at.
  static void join_at(BoxesScene& scene, const std::vector<std::size_t>& boxes) {
    for (std::uint16_t r = 0; r < scene.sum.shape.world; ++r) {
      engine::EngineOptions options = options_of(scene.sum.shape, r);
      for (const std::size_t box : boxes) options.boxes.push_back(address_of_box(box));
      scene.engines[r] = std::move(*engine::WorkerEngine::create(options, kernels::best_kernels()));
    }
  }
};

TEST_F(BoxesJoin, AnEpochWithAPlanIsEnteredWhenThePlanIsHere) {
  BoxesScene scene = two();
  scene.lose = [](bool to_box, std::size_t, std::uint16_t, const Header& h) {
    return !to_box && h.type == PacketType::kPlan;
  };
  EXPECT_TRUE(scene.run_for(2 * kSecond));
  EXPECT_EQ(scene[0].state(), EngineState::kJoining);
  EXPECT_GT(scene.at(kHome).of(PacketType::kPlan), 8U) << "asked for again";
  EXPECT_LT(scene.at(kHome).of(PacketType::kPlan), 100U) << "but not without end";
  scene.lose = {};
  ASSERT_TRUE(scene.run_until_running());
  ASSERT_NE(scene[0].membership()->plan, nullptr);
  EXPECT_EQ(scene[0].membership()->plan->plan, scene.plan);
  EXPECT_EQ(scene[0].statistics().plans, 1U);
}

TEST_F(BoxesJoin, LostPagesAloneAreAskedForAgain) {
  BoxesScene scene(planned_shape(2), random_plan(8, 2, 5));
  std::uint64_t pages = 0;
  scene.lose = [&](bool to_box, std::size_t box, std::uint16_t, const Header& h) {
    return h.type == PacketType::kPlan && box == kHome && !to_box && ++pages % 3 == 0;
  };
  ASSERT_TRUE(scene.run_until_running());
  const auto all = plan_pages(scene.plan_written.size());
  EXPECT_EQ(pages, scene.at(kHome).of(PacketType::kPlan));
  EXPECT_LE(pages, 2 * (all + all / 2 + 2)) << "of " << all << " pages, by 2 ranks";
}

TEST_F(BoxesJoin, WrongBytesUnderTheNameOfThePlanAreNotBelieved) {
  BoxesScene scene = two();
  scene.lose = [](bool, std::size_t, std::uint16_t, const Header& h) { return h.type == PacketType::kPlan; };
  scene.run_for(kSecond);
  ASSERT_EQ(scene[0].state(), EngineState::kJoining);
  // Each page with its right tag, but of other bytes.
  auto wrong = scene.plan_written;
  wrong.back() ^= std::byte{1};
  for (std::uint8_t page = 0; page < plan_pages(wrong.size()); ++page) {
    const std::size_t from = page * kPlanPageBytes;
    const auto part = std::span(wrong).subspan(from, std::min(kPlanPageBytes, wrong.size() - from));
    PlanPayload said{scene.plan_name, Be{static_cast<std::uint32_t>(wrong.size())}, page, 4,
                     Be{static_cast<std::uint16_t>(part.size())}};
    Bytes body(sizeof said);
    wire_put(body.data(), said);
    const Bytes name = text_bytes("test");
    body.insert(body.end(), name.begin(), name.end());
    body.insert(body.end(), part.begin(), part.end());
    Header header;
    header.type = PacketType::kPlan;
    header.rank = Be{raw(kSwitchRank)};
    scene.deliver(kHome, 0, box_says(header, body, Box::job_key()));
  }
  EXPECT_EQ(scene[0].state(), EngineState::kJoining);
  EXPECT_EQ(scene[0].statistics().of(Refused::kJoined), 1U) << "the last page shows it";
  scene.lose = {};
  ASSERT_TRUE(scene.run_until_running());
  EXPECT_EQ(scene[0].membership()->plan->plan, scene.plan);
}

TEST_F(BoxesJoin, APageWithoutTheTagOfTheJobChangesNothing) {
  BoxesScene scene = two();
  scene.lose = [](bool, std::size_t, std::uint16_t, const Header& h) { return h.type == PacketType::kPlan; };
  scene.run_for(kSecond);
  PlanPayload said{scene.plan_name, Be{static_cast<std::uint32_t>(scene.plan_written.size())}, 0, 4,
                   Be{static_cast<std::uint16_t>(kPlanPageBytes)}};
  Bytes body(sizeof said + 4 + kPlanPageBytes);
  wire_put(body.data(), said);
  Header header;
  header.type = PacketType::kPlan;
  header.rank = Be{raw(kSwitchRank)};
  scene.deliver(kHome, 0, box_says(header, body, auth::job_key("test", "guessed")));
  EXPECT_EQ(scene[0].statistics().of(Refused::kTag), 1U);
}

TEST_F(BoxesJoin, APlanOfAnotherWorldIsNoOffer) {
  BoxesScene scene(planned_shape(2), even_plan(3, 3));
  EXPECT_TRUE(scene.run_for(5 * kSecond));
  EXPECT_EQ(scene[0].state(), EngineState::kJoining);
  EXPECT_GT(scene[0].statistics().of(Refused::kJoined), 0U);
}

TEST_F(BoxesJoin, ABoxThatIsNotTheHomeNamesIt) {
  BoxesScene scene = two();
  join_at(scene, {2});
  scene.at(2).elsewhere = address_of_box(kHome);
  ASSERT_TRUE(scene.run_until_running());
  EXPECT_LT(scene.now, 10 * kMillisecond) << "no interval of JOIN is waited for";
  EXPECT_EQ(scene[0].boxes()[0], address_of_box(kHome));
  EXPECT_TRUE(scene.reduce(100));
}

// The cursor that the first of them sets back is before what waits for the second.
TEST_F(BoxesJoin, BoxesThatKnowTheWorkerAtTheSameMomentAllGetTheirChunks) {
  BoxesScene scene = two();
  ASSERT_TRUE(scene.run_until_running());
  ASSERT_EQ(scene.at(1).enlisted.size() + scene.at(2).enlisted.size(), 0U);
  EXPECT_TRUE(scene.reduce(100, kSecond));
}

TEST_F(BoxesJoin, WhoIsSentInACircleGoesOnWithTheIntervalOfJoin) {
  BoxesScene scene = two();
  join_at(scene, {1});
  scene.at(1).elsewhere = address_of_box(2);
  scene.at(2).elsewhere = address_of_box(1);
  EXPECT_TRUE(scene.run_for(9 * kSecond));
  // At 0, 100, 300, 700, 1500, 2500 ... 8500 ms; each time 4 hops, at each a CHALLENGE and its answer.
  const std::uint64_t joins = scene[0].statistics().joins;
  EXPECT_GT(joins, 12U);
  EXPECT_LE(joins, 12U * 10);
  EXPECT_TRUE(scene.run_until([&] { return scene[0].state() == EngineState::kClosed; }, 5 * kSecond));
  EXPECT_EQ(scene[0].why_closed().code, ErrorCode::kUnreachable) << "nobody's home is no answer";
}

TEST_F(BoxesJoin, ElsewhereWithoutATagLeadsNowhere) {
  BoxesScene scene = two();
  ASSERT_TRUE(scene.run_until([&] { return scene[0].statistics().joins == 2; }));
  const std::uint32_t before = scene[0].boxes_version();
  std::uint64_t nonce = 0;
  scene.watch = [&](std::size_t, const Header& h, const Bytes& bytes, TimeNs) {
    if (h.type == PacketType::kJoin && h.rank.host() == 0)
      nonce = wire_at<JoinPayload>(bytes.data() + kHeaderBytes).nonce.host();
  };
  scene.lose = [](bool to_box, std::size_t, std::uint16_t, const Header&) { return !to_box; };
  scene.run_for(kSecond);
  const Ipv6 bad = address_of_box(9);
  const auto bytes = std::as_bytes(std::span(bad));
  const Bytes text(bytes.begin(), bytes.end());
  scene.deliver(
      kHome, 0,
      box_joined(scene.sum.epoch_of(0), JoinStatus::kElsewhere, nonce, auth::job_key("test", "x"), 0, text));
  EXPECT_EQ(scene[0].statistics().of(Refused::kTag), 1U);
  EXPECT_EQ(scene[0].boxes_version(), before);
  EXPECT_EQ(scene[0].boxes()[0], address_of_box(kHome));
}

TEST_F(BoxesJoin, ASilentBoxOfTheListGivesWayToTheNext) {
  BoxesScene scene = two();
  join_at(scene, {1, 2, kHome});
  scene.at(1).silent = true;
  scene.at(2).unknown = true;
  ASSERT_TRUE(scene.run_until_running());
  EXPECT_EQ(scene[0].boxes()[0], address_of_box(kHome));
  EXPECT_LT(scene.now, 2 * kSecond);
}

TEST_F(BoxesJoin, WhenNoBoxOfTheListKnowsTheJobItSaysSo) {
  BoxesScene scene = two();
  join_at(scene, {1, 2});
  scene.at(1).unknown = scene.at(2).unknown = true;
  ASSERT_TRUE(scene.run_until([&] { return scene[0].state() == EngineState::kClosed; }));
  EXPECT_EQ(scene[0].why_closed().code, ErrorCode::kRefused);
  EXPECT_THAT(scene[0].why_closed().what, HasSubstr("no job of that name"));
}

TEST_F(BoxesJoin, AWorkerOfAJobWithoutAPlanKnowsOneBox) {
  BoxesScene scene(planned_shape(2), Plan{}, 1);
  ASSERT_TRUE(scene.run_until_running());
  EXPECT_EQ(scene[0].boxes().size(), 1U);
  EXPECT_EQ(scene[0].max_datagram_bytes(), engine::max_datagram_bytes(scene.sum.shape.elements));
  EXPECT_EQ(scene[0].statistics().enlists, 0U);
  EXPECT_EQ(scene.at(kHome).of(PacketType::kPlan), 0U);
}

TEST_F(BoxesJoin, ACallBackWhileThePlanIsFetchedIsHeard) {
  BoxesScene scene = two();
  scene.lose = [](bool to_box, std::size_t, std::uint16_t, const Header& h) {
    return !to_box && h.type == PacketType::kPlan;
  };
  ASSERT_TRUE(scene.run_until([&] { return scene.sum.running(); }));
  scene.run_for(200 * kMillisecond);
  scene.lose = {};
  scene.change_plan(random_plan(3, 2, 7));
  ASSERT_TRUE(scene.run_until_running());
  EXPECT_EQ(scene[0].membership()->plan->plan, scene.plan);
  EXPECT_LT(scene.now, 400 * kMillisecond) << "no page of the former plan is waited for";
}

// The other boxes.

TEST_F(BoxesJoin, EnlistsAtEachOtherBoxWithWhatTheHomeSaid) {
  BoxesScene scene = two();
  ASSERT_TRUE(scene.run_until_enlisted());
  EXPECT_LT(scene.now, 20 * kMillisecond) << "pages and all, without an interval";
  for (std::size_t b = 1; b < 3; ++b) {
    EXPECT_EQ(scene.at(b).enlisted.size(), 2U);
    EXPECT_EQ(scene.at(b).pages.size(), plan_pages(scene.plan_written.size()));
    EXPECT_EQ(raw(scene[0].guest(b).job()), scene.at(b).job);
    EXPECT_EQ(scene[0].guest(b).shards(), scene.at(b).shards);
    EXPECT_EQ(scene[0].boxes()[b], address_of_box(b));
  }
  EXPECT_EQ(scene.at(kHome).of(PacketType::kEnlist), 0U) << "the home knows them";
}

TEST_F(BoxesJoin, PagesThatABoxLacksAreSentUntilItHasThem) {
  BoxesScene scene = two();
  std::uint64_t n = 0;
  scene.lose = [&](bool to_box, std::size_t box, std::uint16_t, const Header& h) {
    return to_box && box != kHome && h.type == PacketType::kPlan && ++n % 2 == 0;
  };
  ASSERT_TRUE(scene.run_until_enlisted());
  EXPECT_EQ(scene.at(1).pages.size(), plan_pages(scene.plan_written.size()));
}

// Who makes up an answer that pages are missing would have a worker flood a box; but JOINED bears a tag. A box that
// never has enough is answered with the interval of JOIN.
TEST_F(BoxesJoin, ABoxThatNeverHasAllPagesIsNotFlooded) {
  BoxesScene scene = two();
  scene.lose = [](bool to_box, std::size_t box, std::uint16_t, const Header& h) {
    return to_box && box == 1 && h.type == PacketType::kPlan;
  };
  std::uint64_t pushed = 0;
  const auto lose = scene.lose;
  scene.lose = [&](bool to_box, std::size_t box, std::uint16_t r, const Header& h) {
    if (!lose(to_box, box, r, h)) return false;
    pushed += r == 0 ? 1 : 0;
    return true;
  };
  ASSERT_TRUE(scene.run_until_running());
  EXPECT_TRUE(scene.run_for(5 * kSecond));
  // ENLIST at 0, 100, 300, 700, 1500 ... ms, and once more behind the pages each time.
  EXPECT_LE(pushed, 22 * plan_pages(scene.plan_written.size()));
  EXPECT_EQ(scene[0].guest(1).state(), GuestState::kEnlisting) << "it answers, so it is not gone";
}

TEST_F(BoxesJoin, ForAnEpochThatItWasCalledBackFromNobodyEnlists) {
  BoxesScene scene = two();
  scene.at(1).holds = true;
  ASSERT_TRUE(scene.run_until_running());
  scene.run_for(300 * kMillisecond);
  scene.lose = [](bool to_box, std::size_t, std::uint16_t, const Header& h) {
    return to_box && h.type == PacketType::kJoin;
  };
  scene.change_plan(random_plan(3, 2, 1));
  scene.run_for(10 * kMillisecond);
  ASSERT_EQ(scene[0].state(), EngineState::kJoining);
  const std::uint64_t enlists = scene[0].statistics().enlists;
  scene.run_for(2 * kSecond);
  EXPECT_EQ(scene[0].statistics().enlists, enlists);
  scene.at(1).holds = false;
  scene.lose = {};
  ASSERT_TRUE(scene.run_until_enlisted());
  EXPECT_EQ(scene[0].membership()->plan->plan, scene.plan);
  EXPECT_TRUE(scene.reduce(64));
}

TEST_F(BoxesJoin, AttemptsAndCountersGrowThroughAllEpochs) {
  BoxesScene scene = two();
  ASSERT_TRUE(scene.run_until_enlisted());
  scene.run_for(kSecond);  // each box has heard HEARTBEATs
  const auto attempt = scene.at(1).attempts.at(0);
  const auto counter = scene.at(1).counters.at(0);
  ASSERT_GT(counter, 0U);
  for (std::uint64_t i = 0; i < 3; ++i) {
    scene.change_plan(random_plan(3, 2, 10 + i));
    ASSERT_TRUE(scene.run_until([&] { return scene[0].statistics().epochs == 2U + i; }));
    ASSERT_TRUE(scene.run_until_enlisted());
  }
  scene.run_for(kSecond);
  EXPECT_GT(scene.at(1).attempts.at(0), attempt);
  EXPECT_GT(scene.at(1).counters.at(0), counter);
}

TEST_F(BoxesJoin, HeartbeatsGoToEachBoxEachQuarterOfItsSilenceLimit) {
  BoxesScene scene = two();
  ASSERT_TRUE(scene.run_until_enlisted());
  const auto beats = [&](std::size_t box) { return scene.at(box).of(PacketType::kHeartbeat); };
  const std::uint64_t home = beats(kHome);
  const std::uint64_t other = beats(1);
  scene.run_for(10 * kSecond);
  EXPECT_NEAR(static_cast<double>(beats(kHome) - home), 2 * 10, 2) << "one a second of each rank";
  EXPECT_NEAR(static_cast<double>(beats(1) - other), 2 * 40, 2);
}

TEST_F(BoxesJoin, ARefusalWithoutATagIsSilence) {
  BoxesScene scene = two();
  scene.at(1).unknown = true;
  ASSERT_TRUE(scene.run_until_running());
  const TimeNs from = scene.now;
  EXPECT_FALSE(scene.run_until([&] { return !scene.lost.empty(); }, kGuestSilence - 10 * kMillisecond));
  ASSERT_TRUE(scene.run_until([&] { return !scene.lost.empty(); }));
  EXPECT_NEAR(static_cast<double>(scene.now - from), static_cast<double>(kGuestSilence), 2.0 * kMillisecond);
}

}  // namespace
}  // namespace tally::testbed

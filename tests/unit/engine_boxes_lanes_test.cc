// A job over several boxes: which box a chunk goes to, what is counted and timed for each box, and that nobody waits
// for another box's chunks (docs/protocol_boxes.md, 17.4). The scene checks of every packet that it came to the box of
// its route, under that box's job id, to the port of the shard there, under a new sequence, and not too early.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "box_says.h"
#include "engine_boxes_scene.h"

namespace tally::testbed {
namespace {

using engine::EngineState;

class BoxesLanes : public testing::Test {
 protected:
  explicit BoxesLanes(std::uint32_t window = 64) : scene_(planned_shape(2, window), even_plan(3, 2)) {
    scene_.watch = [this](std::size_t box, const Header& h, const Bytes& bytes, TimeNs at) {
      if (!is_control(h.type)) sent_.push_back({box, h, bytes, at});
    };
  }
  void enlist() { ASSERT_TRUE(scene_.run_until_enlisted()); }
  struct Seen {
    std::size_t box;
    Header header;
    Bytes bytes;
    TimeNs at;
  };
  [[nodiscard]] std::size_t count(PacketType type, std::size_t box, std::uint16_t rank = 0) const {
    return static_cast<std::size_t>(std::count_if(sent_.begin(), sent_.end(), [&](const Seen& s) {
      return s.header.type == type && s.box == box && s.header.rank.host() == rank;
    }));
  }
  BoxesScene scene_;
  std::vector<Seen> sent_;
};

TEST_F(BoxesLanes, EachChunkGoesToTheBoxOfItsRoute) {
  enlist();
  ASSERT_TRUE(scene_.reduce(1200));  // more than there are groups
  std::array<std::size_t, 3> expected{};
  for (std::uint32_t chunk = 0; chunk < 1200; ++chunk) ++expected[chunk % 1024 % 3];
  for (std::size_t box = 0; box < 3; ++box) {
    EXPECT_EQ(count(PacketType::kContribute, box), expected[box]);
    EXPECT_EQ(scene_[0].traffic(box).contributions, expected[box]);
    EXPECT_EQ(scene_[0].traffic(box).results, expected[box]);
  }
}

TEST_F(BoxesLanes, ChunksOfABoxThatDoesNotKnowTheWorkerYetWaitAndOthersDoNot) {
  scene_.at(1).holds = true;
  ASSERT_TRUE(scene_.run_until_running());
  const auto id = scene_.submit(0, 40);
  (void)scene_.submit(1, 40);
  scene_.run_for(300 * kMillisecond);
  EXPECT_EQ(count(PacketType::kContribute, 1), 0U);
  EXPECT_GE(count(PacketType::kContribute, 0), 14U) << "all of its chunks of the window";
  EXPECT_GE(count(PacketType::kContribute, 2), 13U);
  scene_.at(1).holds = false;
  ASSERT_TRUE(scene_.run_until([&] { return scene_.completed.contains({0, id}); }, 2 * kSecond));
  EXPECT_TRUE(scene_.completed.at({0, id}));
}

// After a pause 4 chunks go, and those that cannot go are not counted among them.
TEST_F(BoxesLanes, AfterAPauseFourChunksGoWhateverBoxesAreMissing) {
  scene_.at(1).holds = true;
  scene_.at(2).holds = true;
  ASSERT_TRUE(scene_.run_until_running());
  scene_.run_for(300 * kMillisecond);
  (void)scene_.submit(0, 60);
  scene_.run_for(kMillisecond);
  EXPECT_EQ(count(PacketType::kContribute, kHome), 4U) << "chunks 0, 3, 6 and 9";
}

TEST_F(BoxesLanes, WhatABoxWaitedForGoesSlowlyTooWhenNothingElseIsUnderWay) {
  Plan all_at_one = even_plan(3, 2);
  for (auto& table : all_at_one.tables)
    for (auto& route : table) route.box = 1;
  BoxesScene scene(planned_shape(2, 64), all_at_one);
  scene.at(1).holds = true;
  std::size_t sent = 0;
  scene.watch = [&](std::size_t, const Header& h, const Bytes&, TimeNs) {
    sent += h.type == PacketType::kContribute ? 1 : 0;
  };
  ASSERT_TRUE(scene.run_until_running());
  (void)scene.submit(0, 60);
  scene.run_for(300 * kMillisecond);
  ASSERT_EQ(sent, 0U);
  scene.at(1).holds = false;
  ASSERT_TRUE(scene.run_until([&] { return sent != 0; }, 2 * kSecond));
  scene.run_for(kMillisecond);
  EXPECT_EQ(sent, 4U);
}

TEST_F(BoxesLanes, APacketOfAnotherBoxThanTheRoutesIsNotTaken) {
  enlist();
  scene_.lose = [](bool to_box, std::size_t, std::uint16_t, const Header& h) {
    return !to_box && h.type == PacketType::kResult;
  };
  (void)scene_.submit(0, 3);
  (void)scene_.submit(1, 3);
  scene_.run_for(kMillisecond);
  const auto first = std::find_if(sent_.begin(), sent_.end(), [](const Seen& s) {
    return s.header.rank.host() == 0 && s.header.chunk.host() == 1;
  });
  ASSERT_NE(first, sent_.end());
  ASSERT_EQ(first->box, 1U);
  Bytes result = scene_.sum.result_of(first->bytes);
  Header h = header_of(result);
  h.job = Be{scene_.at(2).job};
  const std::uint64_t before = scene_[0].statistics().of(Refused::kNotWaited);
  scene_.deliver(2, 0, sealed(h, payload_of(result)));
  EXPECT_EQ(scene_[0].statistics().of(Refused::kNotWaited), before + 1);
  scene_.deliver(1, 0, sealed(h, payload_of(result)));
  EXPECT_EQ(scene_[0].statistics().of(Refused::kJob), 1U) << "box 1 names the job otherwise";
}

TEST_F(BoxesLanes, ANackIsOfTheBoxThatSaysIt) {
  enlist();
  bool lost = false;
  scene_.lose = [&](bool to_box, std::size_t box, std::uint16_t rank, const Header& h) {
    if (to_box && rank == 0 && box == 2 && h.type == PacketType::kContribute && !lost) return lost = true;
    return false;
  };
  (void)scene_.submit(0, 4);
  scene_.run_for(kMillisecond);
  ASSERT_TRUE(lost);
  Header nack = scene_.sum.from_box(PacketType::kNack);
  nack.job = Be{scene_.at(2).job};
  nack.slot = Be<std::uint32_t>{1};
  nack.contributors = Be<std::uint64_t>{1};
  // Chunk 2 is slot 2, of 3 shards there.
  nack.total = Be<std::uint32_t>{2};
  const std::size_t before = count(PacketType::kContribute, 2);
  const std::uint64_t at_home = count(PacketType::kContribute, kHome);
  scene_.deliver(2, 0, sealed(nack));
  scene_.run_for(kMillisecond);
  EXPECT_EQ(count(PacketType::kContribute, 2), before + 1);
  EXPECT_EQ(scene_[0].traffic(2).nacks, 1U);
  Header other = nack;
  other.job = Be{scene_.at(kHome).job};
  other.total = Be<std::uint32_t>{0};
  scene_.deliver(kHome, 0, sealed(other));
  scene_.run_for(kMillisecond);
  EXPECT_EQ(count(PacketType::kContribute, kHome), at_home + 1) << "the home's first is its own chunk 0";
  EXPECT_EQ(count(PacketType::kContribute, 2), before + 1);
  other.total = Be<std::uint32_t>{1};
  scene_.deliver(kHome, 0, sealed(other));
  EXPECT_EQ(scene_[0].statistics().of(Refused::kNotWaited), 1U) << "the home has one shard, box 2 three";
}

// All results of one box are lost, for good: the others' chunks are not asked for any later because of it.
TEST_F(BoxesLanes, ASilentBoxKeepsNobodysRepairWaiting) {
  enlist();
  ASSERT_TRUE(scene_.reduce(600));  // round trips are known
  const std::uint64_t queries = scene_[0].traffic(2).queries;
  bool once = false;
  TimeNs lost_at = 0;
  scene_.lose = [&](bool to_box, std::size_t box, std::uint16_t rank, const Header& h) {
    if (is_control(h.type) || rank != 0) return false;
    if (box == 1) return true;
    if (!to_box && box == 2 && h.type == PacketType::kResult && !once) {
      lost_at = scene_.now;
      return once = true;
    }
    return false;
  };
  (void)scene_.submit(0, 300);
  (void)scene_.submit(1, 300);
  ASSERT_TRUE(
      scene_.run_until([&] { return once && scene_[0].traffic(2).queries > queries; }, 50 * kMillisecond));
  EXPECT_LE(scene_.now - lost_at, 5 * kMillisecond)
      << "its timer alone would take longer only by a back-off of box 1";
}

TEST_F(BoxesLanes, RoundTripsAndBackOffAreKeptForEachBox) {
  enlist();
  ASSERT_TRUE(scene_.reduce(100));
  const TimeNs before = scene_[0].traffic(kHome).rto;
  scene_.lose = [](bool, std::size_t box, std::uint16_t, const Header& h) {
    return box == 1 && !is_control(h.type);
  };
  (void)scene_.submit(0, 60);
  (void)scene_.submit(1, 60);
  scene_.run_for(2 * kSecond);
  EXPECT_GT(scene_[0].traffic(1).rto, 100 * kMillisecond) << "doubled again and again";
  EXPECT_LE(scene_[0].traffic(kHome).rto, before * 2);
  scene_.lose = {};
  EXPECT_TRUE(scene_.run_until([&] { return scene_[0].pending_operations() == 0; }, 5 * kSecond));
}

// Everything passes through the boxes to servers in turn, and results of the last server come 30 ms later.
class BoxesWays : public testing::Test {
 protected:
  [[nodiscard]] static Plan plan_with(std::uint32_t boxes, std::uint32_t servers) {
    Plan plan = even_plan(boxes, 2);
    plan.server_count = static_cast<std::uint8_t>(servers);
    for (std::uint32_t group = 0; group < kPlanGroups; ++group)
      plan.servers[group] = static_cast<std::uint8_t>(group / boxes % servers);
    for (RouteTable& table : plan.tables)
      for (Route& route : table) route.direct = true;
    return plan;
  }
  explicit BoxesWays(std::uint32_t boxes = 2, std::uint32_t servers = 2)
      : scene_(planned_shape(2, 64), plan_with(boxes, servers)) {
    scene_.lose = [this](bool to_box, std::size_t, std::uint16_t rank, const Header& h) {
      if (is_control(h.type)) return late_ = false;
      const bool slow = scene_.plan.server(h.chunk_id()) + 1U == scene_.plan.server_count;
      late_ = slow && !to_box;
      return lose_ && lose_(slow, to_box, rank, h);
    };
    scene_.delay = [this] { return late_ ? 30 * kMillisecond : 0; };
  }
  BoxesScene scene_;
  std::function<bool(bool slow, bool to_box, std::uint16_t rank, const Header&)> lose_;
  bool late_ = false;
};

TEST_F(BoxesWays, RoundTripsAreKeptForEachServerBehindABox) {
  ASSERT_TRUE(scene_.run_until_enlisted());
  ASSERT_TRUE(scene_.reduce(1200));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(scene_[rank].statistics().queries, 0U) << "rank " << rank;
    EXPECT_EQ(scene_[rank].statistics().retransmissions, 0U) << "rank " << rank;
  }
}

// Nothing comes from one server, for good: what the other one's chunks lose is not asked for any later because of it.
TEST_F(BoxesWays, ASilentServerKeepsNobodysRepairWaiting) {
  ASSERT_TRUE(scene_.run_until_enlisted());
  ASSERT_TRUE(scene_.reduce(600));
  std::optional<TimeNs> lost_at;
  std::optional<TimeNs> asked_at;
  lose_ = [&](bool slow, bool to_box, std::uint16_t rank, const Header& h) {
    if (slow) return true;
    if (to_box && lost_at && !asked_at && h.type == PacketType::kQuery) asked_at = scene_.now;
    if (to_box || rank != 0 || lost_at) return false;
    lost_at = scene_.now;
    return true;
  };
  (void)scene_.submit(0, 300);
  (void)scene_.submit(1, 300);
  ASSERT_TRUE(scene_.run_until([&] { return asked_at.has_value(); }, 50 * kMillisecond));
  EXPECT_LE(*asked_at - *lost_at, 5 * kMillisecond);
}

// Of 20 boxes and 16 servers there are 320: then they are the boxes'.
class BoxesManyWays : public BoxesWays {
 protected:
  BoxesManyWays() : BoxesWays(20, 16) {}
};

TEST_F(BoxesManyWays, MoreWaysThanAreToldApart) {
  ASSERT_TRUE(scene_.run_until_enlisted());
  EXPECT_TRUE(scene_.reduce(1200));
  for (std::size_t box = 0; box < 20; ++box) EXPECT_GE(scene_[0].traffic(box).results, 58U);
}

TEST_F(BoxesLanes, WhatIsKnownOfABoxStaysOverEpochs) {
  enlist();
  ASSERT_TRUE(scene_.reduce(100));
  const TimeNs srtt = scene_[0].traffic(2).srtt;
  const std::uint64_t results = scene_[0].traffic(2).results;
  ASSERT_GT(srtt, 0U);
  Plan without = even_plan(3, 2);
  without.boxes.erase(without.boxes.begin() + 1);
  for (auto& table : without.tables)
    for (auto& route : table) route.box = static_cast<BoxIndex>(route.box % 2);
  scene_.change_plan(without);
  ASSERT_TRUE(scene_.run_until([&] { return scene_[0].statistics().epochs == 2; }));
  EXPECT_EQ(scene_[0].boxes().size(), 2U);
  EXPECT_EQ(scene_[0].boxes()[1], address_of_box(2));
  EXPECT_EQ(scene_[0].traffic(1).srtt, srtt);
  EXPECT_EQ(scene_[0].traffic(1).results, results);
  EXPECT_TRUE(scene_.reduce(100));
}

TEST_F(BoxesLanes, AnAnswerGoesThroughTheBoxOfTheQuery) {
  enlist();
  ASSERT_TRUE(scene_.reduce(30));
  // Rank 1 asks for chunk 4 through box 2, though rank 0 itself has it from box 1.
  Header q = scene_.sum.from_box(PacketType::kQuery);
  q.job = Be{scene_.at(2).job};
  q.rank = Be<std::uint16_t>{1};
  q.chunk = Be<std::uint32_t>{4};
  q.contributors = Be<std::uint64_t>{1};
  sent_.clear();
  scene_.lose = [](bool to_box, std::size_t, std::uint16_t, const Header&) { return !to_box; };
  scene_.deliver(2, 0, sealed(q));
  scene_.run_for(kMillisecond);
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].header.type, PacketType::kAnswer);
  EXPECT_EQ(sent_[0].box, 2U);
  EXPECT_EQ(sent_[0].header.job.host(), scene_.at(2).job);
}

TEST_F(BoxesLanes, WhatAServerLacksItGetsThroughTheBoxOfTheRoute) {
  enlist();
  scene_.lose = [](bool to_box, std::size_t, std::uint16_t, const Header& h) {
    return !to_box && h.type == PacketType::kResult;
  };
  (void)scene_.submit(0, 3);
  scene_.run_for(kMillisecond);
  Header r = scene_.sum.from_box(PacketType::kResend);
  r.job = Be{scene_.at(1).job};
  r.rank = Be<std::uint16_t>{raw(server_rank(1))};
  r.chunk = Be<std::uint32_t>{1};
  r.contributors = Be<std::uint64_t>{1};
  sent_.clear();
  scene_.deliver(1, 0, sealed(r));
  scene_.run_for(kMillisecond);
  ASSERT_GE(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].box, 1U);
  EXPECT_NE(sent_[0].header.flags & kFlagDirect, 0);
}

TEST_F(BoxesLanes, AHomeThatIsNoneOfThePlansBoxesGetsNoData) {
  Plan plan = even_plan(3, 2);
  plan.boxes.erase(plan.boxes.begin());
  for (auto& table : plan.tables)
    for (auto& route : table) route.box = static_cast<BoxIndex>(route.box % 2);
  BoxesScene scene(planned_shape(2, 64), plan, 1);
  ASSERT_TRUE(scene.run_until_enlisted());
  EXPECT_EQ(scene[0].boxes().size(), 3U);
  ASSERT_TRUE(scene.reduce(200));
  EXPECT_EQ(scene.at(kHome).of(PacketType::kContribute), 0U);
  EXPECT_GT(scene.at(1).of(PacketType::kContribute), 0U);
  EXPECT_GT(scene.at(2).of(PacketType::kContribute), 0U);
}

TEST_F(BoxesLanes, AChangeOfPlanOffersAgainWhatHasNoResult) {
  enlist();
  std::uint64_t n = 0;
  scene_.lose = [&](bool, std::size_t box, std::uint16_t, const Header& h) {
    return box == 1 && !is_control(h.type) && ++n % 3 != 0;
  };
  const auto id = scene_.submit(0, 500);
  (void)scene_.submit(1, 500);
  for (std::uint64_t i = 0; i < 5; ++i) {
    scene_.run_for(20 * kMillisecond);
    scene_.change_plan(random_plan(3, 2, 100 + i));
  }
  scene_.lose = {};
  ASSERT_TRUE(scene_.run_until([&] {
    return scene_.completed.contains({0, id}) && scene_.completed.contains({1, id});
  }));
  EXPECT_TRUE(scene_.completed.at({0, id}));
  EXPECT_GE(scene_[0].statistics().epochs, 2U);
  EXPECT_EQ(scene_[0].statistics().generations, 1U);
}

TEST_F(BoxesLanes, FloatsWaitForTheirExponentsAndForTheirBox) {
  scene_.at(2).holds = true;
  ASSERT_TRUE(scene_.run_until_running());
  std::vector<float> x(2000, 0.5F);
  std::vector<float> y(2000, 0.25F);
  (void)*scene_[0].allreduce(std::span<float>(x), scene_.now);
  (void)*scene_[1].allreduce(std::span<float>(y), scene_.now);
  scene_.run_for(300 * kMillisecond);
  scene_.at(2).holds = false;
  ASSERT_TRUE(scene_.run_until(
      [&] { return scene_[0].pending_operations() == 0 && scene_[1].pending_operations() == 0; },
      5 * kSecond));
  EXPECT_TRUE(std::all_of(x.begin(), x.end(), [](float v) { return v == 0.75F; }));
}

}  // namespace
}  // namespace tally::testbed

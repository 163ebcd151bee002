// Hazards of docs/hazards.md that come with a job over several boxes: one of them lost, or without its memory, a
// plan that changes, members that do not see the same boxes, and what of a former plan comes late.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

constexpr auto kEnlist = PacketType::kEnlist;
constexpr TimeNs kLeastSilence = 500 * kMillisecond;  // of the limit; a lease of 3 s does not make it longer

// Racks of two ranks, the first with the home, the second with the last box that can be used.
RackOptions racks(RackOptions o = {}) {
  o.world = 4;
  o.boxes = std::max<std::uint8_t>(o.boxes, 2);
  o.servers = std::max<std::uint8_t>(o.servers, 1);
  o.discipline = Discipline::kShared;
  o.shared_entries = 64;
  o.plans = rack_for_each_half;
  return o;
}
// Each box has every second or third chunk, of all ranks: it finishes them by itself.
RackOptions alike(RackOptions o = {}) {
  o = racks(std::move(o));
  o.plans = members::even_plan;
  return o;
}

void join(HazardRack& rack) {
  rack.join();
  ASSERT_TRUE(rack.until([&] { return rack.enlisted(); }));
}

// One generation, and so many epochs at every rank.
void expect_epochs(HazardRack& rack, std::uint64_t epochs) {
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_EQ(rack.counted(r).epochs, epochs) << "rank " << r;
    EXPECT_EQ(rack.counted(r).generations, 1U) << "rank " << r;
  }
}

// A reduction that is under way when this returns; its number.
std::size_t begin(HazardRack& rack, std::uint32_t chunks = 300) {
  const std::size_t number = rack.reduce(16 * chunks);
  rack.run_for(150 * kMicrosecond);
  for (const std::uint16_t r : rack.ranks()) EXPECT_FALSE(rack.done(r, number));
  return number;
}

TEST(HazardBoxes, racks_meet_at_the_server_once_each) {
  HazardRack rack(racks({.servers = 2}));
  join(rack);
  rack.expect_exact(rack.reduce(16 * 100));
  std::uint64_t partials = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const ps::PsJobStatistics& counted = rack.server(i).counted();
    EXPECT_EQ(counted.completed, 50U) << "chunks fall to the servers in turn";
    partials += counted.partials;
  }
  EXPECT_EQ(partials, 200U) << "one of each box for each chunk";
  for (const std::uint16_t r : rack.ranks()) EXPECT_EQ(rack.counted(r).retransmissions, 0U);
  for (std::size_t box = 0; box < 2; ++box)
    EXPECT_EQ(rack.box(box).occupancy(rack.box(box).jobs().at(0)), 0U);
  expect_epochs(rack, 1);
}

TEST(HazardBoxes, boxes_that_everybody_sends_to_finish_alone) {
  HazardRack rack(alike({.boxes = 3}));
  join(rack);
  rack.expect_exact(rack.reduce(16 * 300));
  const ps::PsJobStatistics& counted = rack.server().counted();
  EXPECT_EQ(counted.partials + counted.contributions, 0U);
  for (std::size_t box = 0; box < 3; ++box)
    EXPECT_EQ(rack.box(box).counters(rack.box(box).jobs().at(0)).of(Verdict::kComplete), 100U)
        << "box " << box;
}

TEST(HazardBoxes, box_lost_in_mid_reduction) {
  for (const bool whole : {false, true}) {
    HazardRack rack(whole ? alike({.boxes = 3}) : racks({.boxes = 3}));
    join(rack);
    const std::size_t sum = begin(rack);
    const TimeNs before = rack.now();
    rack.cut_off(2);
    rack.expect_exact(sum);
    EXPECT_GT(rack.now() - before, kLeastSilence);
    EXPECT_LT(rack.now() - before, kLeastSilence + 500 * kMillisecond);
    EXPECT_TRUE(rack.left_out(2));
    EXPECT_FALSE(rack.planned(2));
    expect_epochs(rack, 2);
    rack.expect_healthy();
  }
}

// Its members come back, and so do those who are enlisted at the other: its number of the epoch is another one.
TEST(HazardBoxes, home_restarted) {
  for (const bool everything : {false, true}) {
    HazardRack rack(racks());
    join(rack);
    const std::size_t sum = begin(rack);
    everything ? rack.box(0).restart() : rack.box(0).restart_data_plane();
    rack.expect_exact(sum);
    expect_epochs(rack, 2);
    EXPECT_FALSE(rack.left_out(1));
    rack.expect_healthy();
  }
}

// The home is gone for good, and the fleet has said so to the others: what its members bring goes on there.
TEST(HazardBoxes, home_lost_and_its_job_taken_over) {
  HazardRack rack(racks({.boxes = 3}));
  join(rack);
  const std::size_t sum = begin(rack);
  rack.cut_off(0);
  rack.run_for(kLeastSilence / 2);
  rack.sim().take_over("job0", 1, 100 * kMillisecond);
  rack.expect_exact(sum);
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_EQ(rack.counted(r).generations, 1U) << "rank " << r;
    EXPECT_EQ(rack.worker(r).engine().membership()->home_box, 0) << "of the plan's boxes, which are 1 and 2";
  }
  EXPECT_EQ(rack.worker(0).engine().boxes().size(), 2U);
  rack.expect_healthy();
}

// It has only not heard of it: for a while there are two homes. Members stay with the one that they are with.
TEST(HazardBoxes, two_homes_at_once) {
  HazardRack rack(racks({.boxes = 3}));
  join(rack);
  const std::size_t sum = begin(rack);
  rack.sim().box(1).set_home("job0", mapped(test_box(1).ipv4));
  rack.sim().box(2).set_home("job0", mapped(test_box(1).ipv4));
  rack.expect_exact(sum);
  rack.run_for(kSecond);
  EXPECT_TRUE(rack.running()) << "at the home that knows of no other";
  EXPECT_TRUE(rack.left_out(1)) << "where nobody enlists any more";
  const std::size_t next = begin(rack);
  rack.sim().take_over("job0", 1, 0);
  rack.expect_exact(next);
  EXPECT_TRUE(rack.box(0).is_elsewhere("job0"));
  for (const std::uint16_t r : rack.ranks()) EXPECT_EQ(rack.counted(r).generations, 1U) << "rank " << r;
  rack.expect_healthy();
}

// Its configuration calls it the home. Who runs elsewhere is not disturbed, and it is told better in time.
TEST(HazardBoxes, former_home_comes_back) {
  HazardRack rack(racks());
  join(rack);
  rack.sim().take_over("job0", 1, 0);
  rack.expect_exact(begin(rack));
  ASSERT_TRUE(rack.until([&] { return rack.counted(0).epochs == 2; }));
  const std::size_t sum = begin(rack);
  rack.box(0).restart();
  rack.run_for(100 * kMillisecond);
  rack.sim().tell_homes(0);
  rack.expect_exact(sum);
  rack.box(1).replan("job0");
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).engine().boxes().size() == 2; }));
  rack.expect_healthy();
  for (const std::uint16_t r : rack.ranks()) EXPECT_EQ(rack.counted(r).generations, 1U) << "rank " << r;
}

TEST(HazardBoxes, guest_restarted) {
  for (const bool everything : {false, true}) {
    HazardRack rack(racks());
    join(rack);
    const std::size_t sum = begin(rack);
    everything ? rack.box(1).restart() : rack.box(1).restart_data_plane();
    rack.expect_exact(sum);
    expect_epochs(rack, 2);
    EXPECT_FALSE(rack.left_out(1)) << "it lives, and has only forgotten";
    EXPECT_TRUE(rack.planned(1));
    rack.expect_healthy();
  }
}

TEST(HazardBoxes, plan_changed_under_load) {
  constexpr std::uint64_t kChanges = 10;
  std::uint64_t plans = 0;
  RackOptions options = racks({.boxes = 3});
  options.plans = [&plans](const members::PlanRequest& request) {
    return ++plans % 2 == 0 ? members::even_plan(request) : rack_for_each_half(request);
  };
  HazardRack rack(options);
  rack.sim().network().set_faults({.loss = 0.01, .duplicate = 0.01, .reorder = 0.02});
  join(rack);
  const std::size_t sum = rack.reduce(16 * 3'000);
  for (std::uint64_t i = 0; i < kChanges; ++i) {
    ASSERT_TRUE(rack.until([&] { return rack.enlisted(); }));
    ASSERT_FALSE(rack.done(0, sum)) << "change " << i;
    const std::uint64_t epochs = rack.counted(0).epochs;
    rack.box().replan("job0");
    ASSERT_TRUE(rack.until([&] { return rack.counted(0).epochs > epochs; }));
  }
  rack.expect_exact(sum);
  EXPECT_GT(plans, kChanges);
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_GE(rack.counted(r).epochs, kChanges + 1);
    EXPECT_EQ(rack.counted(r).generations, 1U);
  }
}

TEST(HazardBoxes, server_lost) {
  HazardRack rack(racks({.servers = 2}));
  join(rack);
  const std::size_t sum = begin(rack);
  rack.server(1).crash();
  rack.run_for(20 * kMillisecond);
  for (const std::uint16_t r : rack.ranks())
    ASSERT_FALSE(rack.done(r, sum)) << "every second chunk is the server's";
  rack.server(1).start();
  rack.expect_exact(sum);
  EXPECT_GT(rack.server(1).counted().completed, 0U);
  expect_epochs(rack, 1);
  rack.expect_healthy();
}

// All ranks send everything by one box, half of it to a server whose link takes 40 ms of what is under way. Who took that
// for a loss, as the other server's results make it look, would send it again and make it longer.
TEST(HazardBoxes, slow_and_fast_server_behind_one_box) {
  RackOptions options = racks({.window = 64, .servers = 2, .rto_floor = engine::kAdaptiveRtoFloor});
  options.plans = [](const members::PlanRequest& request) {
    Plan plan = rack_for_each_half(request);
    for (RouteTable& table : plan.tables) table.fill(Route{.box = 0, .direct = true});
    return plan;
  };
  HazardRack rack(options);
  constexpr std::uint64_t kRate = 5'000'000;
  rack.sim().network().set_rate(rack.server_link(0), false, kRate);
  join(rack);
  const TimeNs before = rack.now();
  rack.expect_exact(rack.reduce(16 * 1'000));
  constexpr std::uint64_t kBits = 8 * (kOuterBytes + kHeaderBytes + 64);
  EXPECT_LT(rack.now() - before, 500 * 4 * kBits * kSecond / kRate * 3 / 2)
      << "its link is busy, and with little twice";
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_LT(rack.counted(r).retransmissions, 128U)
        << "rank " << r << ": until it knows how long the queue is";
    EXPECT_LT(rack.counted(r).queries, 64U) << "rank " << r;
  }
}

// Of a rank that sends here and there, newer chunks that come by a box without a queue say nothing of those in another
// one's: a server that asked for them would have all ranks of that box send what is under way as one sum.
TEST(HazardBoxes, queue_before_one_box_makes_nobody_late_at_the_server) {
  RackOptions options = racks({.window = 64, .rto_floor = engine::kAdaptiveRtoFloor});
  options.plans = [](const members::PlanRequest& request) {
    Plan plan = rack_for_each_half(request);
    plan.table_of = {0, 0, 0, 1};
    for (RouteTable& table : plan.tables) table.fill(Route{.box = 0, .direct = true});
    for (std::uint32_t group = 0; group < kPlanGroups; group += 2) plan.tables[0][group] = Route{.box = 1};
    return plan;
  };
  HazardRack rack(options);
  for (std::uint16_t r = 0; r < 3; ++r) rack.sim().network().set_rate(rack.link_to(1, r), true, 1'500'000);
  join(rack);
  rack.expect_exact(rack.reduce(16 * 600));
  const ps::PsJobStatistics& counted = rack.server().counted();
  EXPECT_LT(counted.contributions, 1'200U + 300U + 100U) << "direct ones of four ranks, and of the last one";
  EXPECT_EQ(counted.partials, 300U);
  EXPECT_LT(counted.resends, 20U);
}

// A server that never comes back ends the job, as with one box.
TEST(HazardBoxes, server_that_stays_away_ends_the_job_by_name) {
  HazardRack rack(racks());
  join(rack);
  const std::size_t sum = begin(rack);
  rack.server().crash();
  ASSERT_TRUE(rack.until([&] { return rack.failed(0, sum) && rack.failed(3, sum); }));
  EXPECT_THAT(rack.error(3, sum), testing::HasSubstr("server 0"));
}

// Contributions of the former epoch, from when the ranks of the second rack were with the other box.
TEST(HazardBoxes, late_packets_of_the_former_plan) {
  bool moved = false;
  RackOptions options = racks();
  options.plans = [&moved](const members::PlanRequest& request) {
    return moved ? members::even_plan(request) : rack_for_each_half(request);
  };
  HazardRack rack(options);
  join(rack);
  const std::size_t link = rack.link_to(1, 3);
  const Rule& sent = rack.record({.worker = link, .up = true, .type = kContribution});
  const std::size_t sum = begin(rack, 600);
  ASSERT_GT(sent.hits(), 3U);
  const std::vector<Bytes> frames(sent.frames);
  moved = true;
  rack.box().replan("job0");
  ASSERT_TRUE(rack.until([&] { return rack.counted(3).epochs == 2 && rack.enlisted(); }));
  const JobCounters before = rack.box(1).counters(rack.box(1).jobs().at(0));
  for (const Bytes& frame : frames) rack.sim().network().inject(link, true, frame);
  rack.expect_exact(sum);
  const JobCounters after = rack.box(1).counters(rack.box(1).jobs().at(0));
  EXPECT_EQ(after.of(Drop::kEpoch) - before.of(Drop::kEpoch), frames.size());
  expect_epochs(rack, 2);
}

// An ENLIST of the former epoch, with a good challenge, that its box never heard of before: all of them were lost. If
// it took the newer one's place, whoever is enlisted for that would be forgotten.
TEST(HazardBoxes, late_enlist_of_an_epoch_that_the_box_never_heard_of) {
  HazardRack rack(racks());
  // What a member says first has no challenge, and is answered by one. Whatever bears one is lost: of everybody in the
  // first epoch, and then of rank 3.
  bool bears = false;
  rack.change({.up = true, .type = kEnlist}, [&bears](Bytes& frame) {
    bears = wire_at<EnlistPayload>(frame.data() + kOuterBytes + kHeaderBytes).challenge != Tag{};
  });
  const auto with_challenge = [&bears](const Header&) { return bears; };
  const std::size_t link = rack.link_to(1, 3);
  Rule& of_rank = rack.lose({.worker = link, .up = true, .type = kEnlist, .also = with_challenge});
  Rule& of_all = rack.lose({.up = true, .type = kEnlist, .also = with_challenge});
  rack.join();
  ASSERT_TRUE(rack.until([&] { return of_rank.hits() != 0; }, kLeastSilence / 2));
  const Bytes old = of_rank.frames.front();
  of_all.left = 0;
  rack.box().replan("job0");
  ASSERT_TRUE(
      rack.until([&] { return rack.counted(0).epochs == 2 && rack.worker(0).engine().guest(1).running(); },
                 kLeastSilence / 2));
  rack.sim().network().inject(link, true, old);
  rack.run_for(kMillisecond);
  of_rank.left = 0;
  ASSERT_TRUE(rack.until([&] { return rack.enlisted(); }, kLeastSilence / 2));
  rack.expect_healthy();
  expect_epochs(rack, 2);
  EXPECT_FALSE(rack.left_out(1));
}

// The others know the box, and do without it: a plan is one for all.
TEST(HazardBoxes, member_that_reaches_the_home_but_not_one_box) {
  for (const std::uint16_t rank :
       {std::uint16_t{0}, std::uint16_t{3}}) {  // one that needs it, and one that does not
    HazardRack rack(racks({.boxes = 3}));
    join(rack);
    const std::size_t sum = begin(rack);
    rack.cut(rack.link_to(2, rank));
    rack.expect_exact(sum);
    ASSERT_TRUE(rack.until([&] { return rack.left_out(2) && rack.enlisted(); }));
    expect_epochs(rack, 2);
    rack.expect_healthy();
  }
}

// From the beginning: who cannot enlist says so.
TEST(HazardBoxes, member_that_never_reached_one_box) {
  HazardRack rack(racks({.boxes = 3}));
  rack.cut(rack.link_to(2, 1));
  rack.join();
  const std::size_t sum = rack.reduce(16 * 50);
  rack.expect_exact(sum);
  ASSERT_TRUE(rack.until([&] { return rack.left_out(2) && rack.enlisted(); }));
  EXPECT_FALSE(rack.left_out(1));
  rack.expect_healthy();
}

TEST(HazardBoxes, two_members_with_different_views_of_what_is_lost) {
  RackOptions options = alike({.boxes = 4});
  HazardRack rack(options);
  join(rack);
  const std::size_t sum = begin(rack, 600);
  rack.cut(rack.link_to(1, 0));
  rack.cut(rack.link_to(2, 3));
  rack.expect_exact(sum);
  ASSERT_TRUE(rack.until([&] { return rack.left_out(1) && rack.left_out(2) && rack.enlisted(); }));
  EXPECT_FALSE(rack.left_out(3));
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_LE(rack.counted(r).epochs, 3U);
    EXPECT_EQ(rack.counted(r).generations, 1U);
  }
  rack.expect_healthy();
}

// All but the home are gone: it goes on alone.
TEST(HazardBoxes, only_the_home_is_left) {
  HazardRack rack(racks({.boxes = 3}));
  join(rack);
  const std::size_t sum = begin(rack);
  rack.cut_off(1);
  rack.cut_off(2);
  rack.expect_exact(sum);
  for (const std::uint16_t r : rack.ranks()) EXPECT_EQ(rack.worker(r).engine().boxes().size(), 1U);
  rack.expect_healthy();
}

// A box that was lost comes back when somebody asks for another plan, and not by itself.
TEST(HazardBoxes, box_that_was_lost_comes_back_with_another_plan) {
  HazardRack rack(racks());
  join(rack);
  const std::size_t ends = rack.server_link(1);
  for (std::size_t i = 0; i < ends; ++i)
    rack.sim().network().cut(rack.sim().link(i, 1), true, rack.now() + kSecond);
  rack.expect_exact(begin(rack));
  ASSERT_TRUE(rack.until([&] { return rack.left_out(1); }));
  rack.run_for(2 * kSecond);
  EXPECT_TRUE(rack.left_out(1));
  rack.box().replan("job0");
  ASSERT_TRUE(rack.until([&] { return rack.planned(1) && rack.enlisted(); }));
  rack.expect_healthy();
  expect_epochs(rack, 3);
}

}  // namespace
}  // namespace tally::sim

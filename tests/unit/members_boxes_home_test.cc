// The home of a job over several boxes (docs/protocol_boxes.md, 17.2).

#include <algorithm>
#include <array>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_boxes_support.h"

namespace tally::members_test {
namespace {

using members::JobPhase;
using members::MembershipDrop;
using testing::HasSubstr;

TEST_F(MembersBoxesHome, JoinedRunningNamesThePlan) {
  std::vector<Sent> sent;
  for (Member& m : all) {
    const auto some = home().send(m, m.join());
    sent.insert(sent.end(), some.begin(), some.end());
  }
  for (Member& m : all) {
    m.take_home(sent);
    const Sent s =
        sent.at(static_cast<std::size_t>(std::find_if(sent.begin(), sent.end(),
                                                      [&](const Sent& one) {
                                                        return one.to == m.binding &&
                                                               one.type() == PacketType::kJoined &&
                                                               one.status() == JoinStatus::kRunning;
                                                      }) -
                                         sent.begin()));
    EXPECT_EQ(s.header.flags, kFlagPlanned);
    EXPECT_EQ(s.joined().results, ResultsMode::kUnicast);
    ASSERT_EQ(s.text().size(), sizeof(PlannedText));
    EXPECT_TRUE(m.believes(s));
    EXPECT_EQ(m.planned.home, 0);
    EXPECT_EQ(m.planned.zero, decltype(m.planned.zero){});
    EXPECT_EQ(m.planned.bytes.host(), plan_bytes(3, 2, 1));
    ASSERT_TRUE(fetch(m)) << m.rank;
    EXPECT_EQ(*m.plan, *all[0].plan);
  }
  const jobs::NativeJob* const at_home = row(0);
  ASSERT_TRUE(at_home != nullptr && at_home->part != nullptr);
  const jobs::PlanPart part = jobs::part_of(*all[0].plan, 0);
  EXPECT_EQ(at_home->part->here, part.here);
  EXPECT_EQ(at_home->part->server, part.server);
  EXPECT_EQ(at_home->enlisted, 0b11U);
}

TEST_F(MembersBoxesHome, AJobOfThisBoxAloneHasNoPlan) {
  Bench alone(shared_box(65'536, 100));
  const JobId id = alone.declare(served_of(1, 1));
  Peer worker(0, 1);
  Peer server = Peer::server(0);
  alone.send(server, server.join());
  const auto sent = alone.send(worker, worker.join());
  for (const Sent& s : sent) {
    EXPECT_EQ(s.header.flags, 0);
    EXPECT_TRUE(s.text().empty());
  }
  ASSERT_NE(alone.row(id), nullptr);
  EXPECT_EQ(alone.row(id)->part, nullptr);
  EXPECT_FALSE(alone.status(id).boxes);
  EXPECT_FALSE(alone.members->replan("resnet", alone.now));
  EXPECT_FALSE(alone.members->set_home("resnet", box_address(1), alone.now));
}

TEST_F(MembersBoxesHome, AllBoxesAreAlikeWhereNobodySaysOtherwise) {
  const std::array addresses{box_address(0), box_address(1), box_address(2), box_address(3)};
  const Plan plan = members::even_plan(
      {.job = "resnet", .world = 5, .servers = 3, .addresses = addresses, .usable = 0b1011});
  EXPECT_EQ(plan.boxes, (std::vector{box_address(0), box_address(1), box_address(3)}));
  std::array<std::uint32_t, 3> groups{};
  std::array<std::uint32_t, 3> served{};
  for (std::uint32_t g = 0; g < kPlanGroups; ++g) {
    const BoxIndex box = plan.route(Rank{0}, Chunk{g}).box;
    EXPECT_EQ(plan.here(box, g), 0b11111U) << "a group is one box's for all ranks";
    EXPECT_TRUE(g == 0 || box != plan.route(Rank{0}, Chunk{g - 1}).box) << "neighbours are apart";
    ++groups.at(box);
    ++served.at(plan.server(Chunk{g}));
  }
  EXPECT_EQ(groups, (std::array<std::uint32_t, 3>{342, 341, 341}));
  EXPECT_EQ(served, groups);
}

TEST_F(MembersBoxesHome, TheSourceIsAskedAtEachOffer) {
  ASSERT_TRUE(form());
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].world, 2);
  EXPECT_EQ(asked[0].servers, 2);
  EXPECT_EQ(asked[0].usable, 0b111U);
  source = [](const members::PlanRequest& request) {
    Plan plan = members::even_plan(request);
    plan.tables[0][7] = {.box = 1, .direct = true};
    return plan;
  };
  ASSERT_TRUE(home().members->replan("resnet", home().now));
  expect_called_back(home().settle());
  const std::uint64_t generation = all[0].last.generation.host();
  const std::uint32_t epoch = all[0].epoch;
  ASSERT_TRUE(form());
  EXPECT_EQ(asked.size(), 2U);
  EXPECT_EQ(all[0].plan->route(Rank{1}, Chunk{7}), (Route{.box = 1, .direct = true}));
  EXPECT_EQ(all[0].last.generation.host(), generation) << "a new epoch of the same generation";
  EXPECT_NE(all[0].epoch, epoch);
  EXPECT_FALSE(status(0).boxes->stand_in);
}

TEST_F(MembersBoxesHome, TheSourceHearsWhereEverybodyIs) {
  std::vector<Ipv6> ranks;
  std::vector<Ipv6> places;
  source = [&](const members::PlanRequest& request) {
    ranks.assign(request.rank_addresses.begin(), request.rank_addresses.end());
    places.assign(request.server_addresses.begin(), request.server_addresses.end());
    return members::even_plan(request);
  };
  ASSERT_TRUE(form());
  EXPECT_EQ(ranks, (std::vector{all[0].binding.address, all[1].binding.address}));
  EXPECT_EQ(places, (std::vector{all[2].binding.address, all[3].binding.address}));
}

TEST_F(MembersBoxesHome, OnlyTheLostBoxesThatAreNamedAreTakenBack) {
  ASSERT_TRUE(form());
  expect_called_back(home().send_bare(all[1], all[1].lost(0b110, 0)));
  EXPECT_EQ(plan_now().boxes, (std::vector{box_address(0)}));
  ASSERT_TRUE(home().members->replan("resnet", home().now, 0b100));
  home().settle();
  EXPECT_EQ(plan_now().boxes, (std::vector{box_address(0), box_address(2)}));
  EXPECT_TRUE(status(0).boxes->boxes[1].left_out);
  ASSERT_TRUE(home().members->replan("resnet", home().now, 0));
  home().settle();
  EXPECT_EQ(plan_now().boxes.size(), 2U);
  ASSERT_TRUE(home().members->replan("resnet", home().now));
  home().settle();
  EXPECT_EQ(plan_now().boxes.size(), 3U);
}

TEST_F(MembersBoxesHome, APlanThatDoesNotFitIsNotTaken) {
  using Spoil = void (*)(Plan&);
  const std::array<std::pair<const char*, Spoil>, 9> ways{{
      {"no box", [](Plan& p) { p.boxes.clear(); }},
      {"a box of others", [](Plan& p) { p.boxes[0] = box_address(9); }},
      {"a box twice", [](Plan& p) { p.boxes[0] = p.boxes[1]; }},
      {"another world", [](Plan& p) { p.table_of.push_back(0); }},
      {"other servers", [](Plan& p) { p.server_count = 3; }},
      {"no table", [](Plan& p) { p.tables.clear(); }},
      {"a table that it lacks", [](Plan& p) { p.table_of[1] = 1; }},
      {"a box that it lacks", [](Plan& p) { p.tables[0][1'023].box = 3; }},
      {"a server that it lacks", [](Plan& p) { p.servers[5] = 2; }},
  }};
  const Plan even = plan_now();
  for (const auto& [name, spoil] : ways) {
    SCOPED_TRACE(name);
    source = [spoil = spoil](const members::PlanRequest& request) {
      Plan plan = members::even_plan(request);
      spoil(plan);
      return plan;
    };
    ASSERT_TRUE(home().members->replan("resnet", home().now));
    home().settle();
    EXPECT_EQ(plan_now(), even);
    EXPECT_TRUE(status(0).boxes->stand_in);
  }
}

// Also a box that was lost is none that the source may use.
TEST_F(MembersBoxesHome, APlanWithALostBoxIsNotTaken) {
  const Plan whole = plan_now();
  source = [whole](const members::PlanRequest&) { return whole; };
  home().send_bare(all[0], all[0].lost(0b010, 0));
  EXPECT_EQ(plan_now().boxes, (std::vector{box_address(0), box_address(2)}));
  EXPECT_TRUE(status(0).boxes->stand_in);
}

TEST_F(MembersBoxesHome, AHomeThatIsNoneOfThePlansBoxesSaysSo) {
  source = [](members::PlanRequest request) {
    request.usable &= ~std::uint64_t{1};
    return members::even_plan(request);
  };
  ASSERT_TRUE(form());
  EXPECT_EQ(all[0].planned.home, PlannedText::kNoBox);
  EXPECT_EQ(all[0].plan->boxes.size(), 2U);
  ASSERT_NE(row(0)->part, nullptr);
  for (const std::uint64_t through : row(0)->part->through)
    ASSERT_EQ(through, 0U) << "nobody sends it anything";
  EXPECT_FALSE(status(0).boxes->boxes[0].planned);
  EXPECT_TRUE(enlist_all(1));
  EXPECT_TRUE(enlist_all(2));
}

TEST_F(MembersBoxesHome, OnlyMembersHaveThePlanAndOnlyWhereTheyJoined) {
  const auto nothing_but = [this](const Peer& from, const Bytes& datagram, MembershipDrop why) {
    const std::uint64_t before = dropped(0, why);
    EXPECT_TRUE(home().send_bare(from, datagram).empty());
    EXPECT_EQ(dropped(0, why), before + 1) << members::name_of(why);
  };
  Member& m = all[0];
  home().send(m, m.join());
  m.planned.bytes = Be<std::uint32_t>(plan_bytes(3, 2, 1));
  nothing_but(m, m.wish(0), MembershipDrop::kPlan);  // there is none yet
  ASSERT_TRUE(form());
  EXPECT_EQ(home().send_bare(m, m.wish(0)).size(), 1U);
  EXPECT_EQ(home().send_bare(m, m.wish(1)).size(), 1U) << "it asks for what was lost";

  Member elsewhere = m;
  elsewhere.binding.udp_port ^= 1U;
  nothing_but(elsewhere, m.wish(0), MembershipDrop::kSource);
  Member stranger = m;
  stranger.token = "guessed";
  nothing_but(m, stranger.wish(0), MembershipDrop::kTag);
  stranger = m;
  stranger.job = "resnte";
  nothing_but(m, stranger.wish(0), MembershipDrop::kUnknownJob);
  stranger = m;
  stranger.rank = 2;
  nothing_but(m, stranger.wish(0), MembershipDrop::kRank);
  stranger = m;
  stranger.planned.plan[0] ^= 1U;
  nothing_but(m, stranger.wish(0), MembershipDrop::kPlan);
  nothing_but(m, m.page(0), MembershipDrop::kPlan);
  nothing_but(m, m.wish(plan_pages(m.planned.bytes.host())), MembershipDrop::kField);
  // Who is called back hears of the next plan.
  ASSERT_TRUE(home().members->replan("resnet", home().now));
  home().settle();
  nothing_but(m, m.wish(0), MembershipDrop::kPlan);
}

TEST_F(MembersBoxesHome, ALostBoxIsLeftOutOfTheNextPlan) {
  ASSERT_TRUE(form());
  const GenerationRecord record = all[0].last;
  expect_called_back(home().send_bare(all[1], all[1].lost(0b100, 0)));
  EXPECT_EQ(status(0).phase, JobPhase::kForming);
  EXPECT_EQ(row(0), nullptr);
  EXPECT_TRUE(status(0).boxes->boxes[2].left_out);
  EXPECT_EQ(plan_now().boxes, (std::vector{box_address(0), box_address(1)}));
  EXPECT_EQ(asked.back().usable, 0b011U);
  EXPECT_EQ(all[0].last, record) << "the generation goes on";
  // And out of all after it, whatever begins them.
  home().members->restart_data_plane(home().now);
  home().settle();
  EXPECT_EQ(plan_now().boxes.size(), 2U);
  // The index is of the plan's boxes, not of the job's.
  home().send_bare(all[0], all[0].lost(0b010, 0));
  EXPECT_EQ(plan_now().boxes, std::vector{box_address(0)});
  EXPECT_TRUE(status(0).boxes->boxes[1].left_out);
}

TEST_F(MembersBoxesHome, AServerLosesABoxAsAWorkerDoes) {
  ASSERT_TRUE(form());
  expect_called_back(home().send_bare(all[2], all[2].lost(0b010, 0)));
  EXPECT_EQ(plan_now().boxes, (std::vector{box_address(0), box_address(2)}));
}

TEST_F(MembersBoxesHome, ABoxThatForgotIsInTheNextPlan) {
  ASSERT_TRUE(form());
  const std::uint32_t epoch = all[0].epoch;
  expect_called_back(home().send_bare(all[0], all[0].lost(0, 0b110)));
  EXPECT_EQ(plan_now().boxes.size(), 3U);
  EXPECT_NE(all[0].epoch, epoch);
}

// They lose different ones at the same moment.
TEST_F(MembersBoxesHome, WhatSeveralMembersLostIsLeftOutTogether) {
  ASSERT_TRUE(form());
  home().send_bare(all[0], all[0].lost(0b010, 0));
  const auto sent = home().send_bare(all[1], all[1].lost(0b100, 0));
  EXPECT_TRUE(all[1].believes(only(sent, PacketType::kReject, all[1])))
      << "the first word may have been lost";
  EXPECT_EQ(plan_now().boxes, std::vector{box_address(0)});
}

TEST_F(MembersBoxesHome, LostIsJudgedAsAnyWordOfAMember) {
  ASSERT_TRUE(form());
  const auto nothing_but = [this](const Peer& from, const Bytes& datagram, MembershipDrop why) {
    const std::uint64_t before = dropped(0, why);
    EXPECT_TRUE(home().send_bare(from, datagram).empty());
    EXPECT_EQ(dropped(0, why), before + 1) << members::name_of(why);
    EXPECT_EQ(status(0).phase, JobPhase::kRunning);
  };
  Member& m = all[0];
  Member other = m;
  other.token = "guessed";
  nothing_but(m, other.lost(0b010, 0), MembershipDrop::kTag);
  other = m;
  other.cookie ^= 1U;
  nothing_but(m, other.lost(0b010, 0), MembershipDrop::kCookie);
  other = m;
  other.binding.udp_port ^= 1U;
  nothing_but(other, m.lost(0b010, 0), MembershipDrop::kSource);
  nothing_but(m, m.lost(0b1000, 0), MembershipDrop::kField);
  nothing_but(m, m.lost(0b010, 0b1000), MembershipDrop::kField);
  nothing_but(m, m.lost(0b001, 0), MembershipDrop::kField);
  nothing_but(m, m.lost(0, 0b001), MembershipDrop::kField);
  nothing_but(m, m.lost(0, 0), MembershipDrop::kField);
  Bytes cut = m.lost(0b010, 0);
  cut.pop_back();
  nothing_but(m, cut, MembershipDrop::kLength);
  const Bytes old = m.lost(0b010, 0);
  home().send_bare(m, m.heartbeat());
  nothing_but(m, old, MembershipDrop::kReplay);

  // A job without a plan has no boxes to lose.
  Bench alone(shared_box(65'536, 100));
  alone.declare(served_of(1, 1));
  Member worker(Peer(0, 1));
  Peer server = Peer::server(0);
  ASSERT_TRUE(alone.form({&worker, &server}));
  EXPECT_TRUE(alone.send_bare(worker, worker.lost(1, 0)).empty());
  EXPECT_EQ(alone.members->counters().of(MembershipDrop::kType), 1U);
}

TEST_F(MembersBoxesHome, ALostBoxComesBackByReplanAlone) {
  ASSERT_TRUE(form());
  home().send_bare(all[0], all[0].lost(0b010, 0));
  EXPECT_EQ(plan_now().boxes.size(), 2U);
  // Also a new generation goes without.
  for (const Member& m : all) {
    if (!m.serves()) home().send_bare(m, m.leave());
  }
  EXPECT_EQ(status(0).phase, JobPhase::kEnded);
  for (Member& m : all) m.restart();
  EXPECT_EQ(plan_now().boxes.size(), 2U);
  ASSERT_TRUE(home().members->replan("resnet", home().now));
  expect_called_back(home().settle());
  EXPECT_EQ(plan_now().boxes.size(), 3U);
}

TEST_F(MembersBoxesHome, ReplanReplacesAPlanThatNobodyWasToldOf) {
  home().cores_wait = true;
  for (Member& m : all) home().send(m, m.join());
  EXPECT_EQ(asked.size(), 1U);
  ASSERT_TRUE(home().members->replan("resnet", home().now));
  EXPECT_EQ(asked.size(), 2U);
  home().cores_wait = false;
  EXPECT_TRUE(form());
}

TEST_F(MembersBoxesHome, ReplanFailsWhereThereIsNothingToPlan) {
  EXPECT_FALSE(home().members->replan("resnte", home().now));
  const auto elsewhere = boxes[1].members->replan("resnet", boxes[1].now);
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().text(), HasSubstr("10.9.0.1"));
  ASSERT_TRUE(form());
  home().send_bare(all[0], all[0].leave());
  EXPECT_FALSE(home().members->replan("resnet", home().now)) << "it drains";
  EXPECT_EQ(status(0).phase, JobPhase::kDraining);
  // Nor does a box that is lost now matter to anybody.
  EXPECT_TRUE(home().send_bare(all[1], all[1].lost(0b010, 0)).empty());
  EXPECT_EQ(status(0).phase, JobPhase::kDraining);
  EXPECT_EQ(accepted(0, PacketType::kLost), 1U);
}

TEST_F(MembersBoxesHome, ElsewhereAMemberHearsWhereTheHomeIs) {
  Member& m = all[0];
  const Sent s = only(boxes[2].send(m, m.join()), PacketType::kJoined, m);
  EXPECT_EQ(s.status(), JoinStatus::kElsewhere);
  EXPECT_EQ(s.joined().nonce.host(), m.nonce);
  EXPECT_TRUE(m.believes(s));
  const Ipv6 home_is = box_address(0);
  EXPECT_EQ(s.text(), std::string(home_is.begin(), home_is.end()));
  EXPECT_EQ(s.header.epoch.host(), 0U);
  EXPECT_EQ(status(2).phase, JobPhase::kDeclared) << "nothing is remembered of it";
  // Who may not join the job does not hear it.
  Member stranger = m;
  stranger.token = "guessed";
  EXPECT_EQ(only(boxes[2].send(stranger, stranger.join()), PacketType::kJoined, m).status(),
            JoinStatus::kRefused);
  stranger = Member(Peer(0, 3));
  EXPECT_EQ(only(boxes[2].send(stranger, stranger.join()), PacketType::kJoined, m).status(),
            JoinStatus::kRefused);
}

TEST_F(MembersBoxesHome, ItsBoxesDoNotChangeByAReload) {
  members::NativeConfig wanted = config(0);
  wanted.boxes->addresses.push_back(box_address(3));
  EXPECT_FALSE(home().members->change(wanted, home().now));
  wanted.boxes.reset();
  EXPECT_FALSE(home().members->change(wanted, home().now));
  // The home is what it became, not what is written.
  ASSERT_TRUE(home().members->set_home("resnet", box_address(2), home().now));
  wanted = config(0);
  wanted.packet_rate = 1'000'000;
  ASSERT_TRUE(home().members->change(wanted, home().now));
  EXPECT_EQ(status(0).boxes->home, 2);
  EXPECT_EQ(status(0).packet_rate, 1'000'000U);
}

TEST_F(MembersBoxesHome, StatusSaysWhereItsBoxesAre) {
  EXPECT_EQ(status(0).boxes->plan_bytes, 0U);
  ASSERT_TRUE(form());
  const members::BoxesStatus s = *status(0).boxes;
  EXPECT_EQ(s.here, 0);
  EXPECT_EQ(s.home, 0);
  EXPECT_EQ(s.plan, all[0].planned.plan);
  EXPECT_EQ(s.plan_bytes, all[0].planned.bytes.host());
  ASSERT_EQ(s.boxes.size(), 3U);
  for (std::size_t box = 0; box < 3; ++box)
    EXPECT_EQ(s.boxes[box], (members::BoxStatus{box_address(box), true, false}));
}

}  // namespace
}  // namespace tally::members_test

// Clients that meet on a port: order, errors, who waits for whom.

#include "session_service_scene.h"

namespace tally::session_service {
namespace {

using testing::HasSubstr;

TEST(SessionGroup, TheOriginalsOrderEndsInASessionThatRuns) {
  Scene scene;
  const ConnectionId zero = scene.connect(), one = scene.connect();
  const CallId waits = scene.broadcast(one, 1, 2);
  EXPECT_TRUE(scene.waits(waits));
  const CallId root = scene.broadcast(zero, 0, 2, 99);
  EXPECT_EQ(scene.answers.at(root).value, 99U);
  EXPECT_EQ(scene.answers.at(waits).value, 99U);
  const CallId session = scene.session(zero, 0, 2, 11);
  ASSERT_EQ(scene.code(session), Code::kOk);
  EXPECT_EQ(scene.answers.at(session).value, 42U);
  EXPECT_EQ(scene.answers.at(session).mac, 0x0200000000FEU);
  EXPECT_EQ(scene.answers.at(session).ipv4, 0x0A000001U);
  const CallId first = scene.barrier(zero, 2);
  EXPECT_TRUE(scene.waits(first));
  EXPECT_EQ(scene.code(scene.barrier(one, 2)), Code::kOk);
  EXPECT_EQ(scene.code(first), Code::kOk);
  const CallId last = scene.barrier(zero, 2);
  EXPECT_EQ(scene.code(scene.session(one, 1, 2, 12)), Code::kOk);
  EXPECT_TRUE(scene.box.sessions.empty());
  EXPECT_TRUE(scene.waits(last));
  const CallId end = scene.barrier(one, 2);
  EXPECT_TRUE(scene.waits(end)) << "the box has it, and nobody has seen it run";
  scene.pass(kSecond / 2);
  EXPECT_EQ(scene.code(last), Code::kOk);
  EXPECT_EQ(scene.code(end), Code::kOk);
  ASSERT_TRUE(scene.box.sessions.contains("switchml.a"));
  EXPECT_EQ(scene.box.sessions["switchml.a"].job["members"][1]["ipv4"], "10.0.0.12");
}

TEST(SessionGroup, OneClientAloneIsASession) {
  Scene scene;
  const auto all = scene.meet(1);
  scene.pass(kSecond / 2);
  EXPECT_EQ(scene.service.sessions(), 1U);
  EXPECT_EQ(scene.code(scene.barrier(all[0], 1)), Code::kOk);
}

TEST(SessionGroup, SixtyFourClientsAreASession) {
  Scene scene;
  scene.run(64);
  EXPECT_EQ(scene.box.sessions["switchml.a"].job["members"].size(), 64U);
}

TEST(SessionGroup, FourPortsFormBesideOneAnother) {
  Scene scene(settings_of(4));
  // Interleaved call by call: a Barrier names neither session nor rank.
  std::vector<std::vector<ConnectionId>> groups;
  for (std::uint32_t port = 0; port < 4; ++port) {
    groups.emplace_back();
    for (std::uint32_t rank = 0; rank < 2 + port % 2; ++rank) groups.back().push_back(scene.connect(port));
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    for (const auto& all : groups) {
      if (rank < all.size()) scene.broadcast(all[rank], rank, static_cast<std::uint32_t>(all.size()));
    }
  }
  for (std::uint32_t port = 0; port < 4; ++port) scene.register_all(groups[port], 11 + 10 * port);
  std::vector<CallId> calls;
  for (std::uint32_t port = 0; port + 1 < 4; ++port) {
    for (const CallId call : scene.last_barriers(groups[port])) calls.push_back(call);
  }
  scene.pass(kSecond);
  for (const CallId call : calls) EXPECT_EQ(scene.code(call), Code::kOk);
  EXPECT_EQ(scene.service.sessions(), 3U);
  scene.last_barriers(groups[3]);
  scene.pass(kSecond);
  EXPECT_EQ(scene.service.sessions(), 4U);
}

TEST(SessionGroup, ASecondOfARankIsRefusedAndWipesNothing) {
  Scene scene;
  const ConnectionId zero = scene.connect(), one = scene.connect(), again = scene.connect();
  scene.broadcast(zero, 0, 2);
  scene.broadcast(one, 1, 2);
  const CallId second = scene.broadcast(again, 1, 2);
  EXPECT_EQ(scene.code(second), Code::kAlreadyExists);
  EXPECT_THAT(scene.text(second), HasSubstr("rank 1 (10.0.0.2:4000) is there already"));
  const CallId root = scene.broadcast(again, 0, 2);
  EXPECT_EQ(scene.code(root), Code::kAlreadyExists);
  scene.close(again);
  scene.register_all({zero, one});
  scene.last_barriers({zero, one});
  scene.pass(kSecond);
  EXPECT_EQ(scene.service.sessions(), 1U);
}

TEST(SessionGroup, WorldsThatDisagreeAreRefusedInWords) {
  Scene scene;
  const ConnectionId zero = scene.connect(), one = scene.connect();
  scene.broadcast(zero, 0, 2);
  const CallId call = scene.broadcast(one, 1, 3);
  EXPECT_EQ(scene.code(call), Code::kInvalidArgument);
  EXPECT_THAT(scene.text(call), HasSubstr("num_workers is 3"));
  EXPECT_THAT(scene.text(call), HasSubstr("2, as rank 0 (10.0.0.1:4000) said first"));
  scene.broadcast(one, 1, 2);
  const CallId barrier = scene.barrier(one, 3);
  EXPECT_EQ(scene.code(barrier), Code::kInvalidArgument);
}

TEST(SessionGroup, RootsThatDisagreeAreRefused) {
  Scene scene;
  scene.broadcast(scene.connect(), 0, 2);
  EXPECT_EQ(scene.code(scene.ask(scene.connect(), Broadcast{0, 1, 2, 1})), Code::kInvalidArgument);
}

TEST(SessionGroup, OneConnectionIsOneRank) {
  Scene scene;
  const ConnectionId zero = scene.connect();
  scene.broadcast(zero, 0, 2);
  EXPECT_EQ(scene.code(scene.broadcast(zero, 1, 2)), Code::kFailedPrecondition);
  const CallId other = scene.ask(zero, Scene::wish(1, 2, 11));
  EXPECT_EQ(scene.code(other), Code::kInvalidArgument);
  EXPECT_THAT(scene.text(other), HasSubstr("was rank 0 in its Broadcast"));
}

TEST(SessionGroup, CallsOutOfOrderAreRefusedInWords) {
  Scene scene;
  const ConnectionId zero = scene.connect();
  EXPECT_EQ(scene.code(scene.barrier(zero, 2)), Code::kFailedPrecondition);
  EXPECT_EQ(scene.code(scene.session(zero, 0, 2, 11)), Code::kFailedPrecondition);
  scene.broadcast(zero, 0, 2);
  const CallId early = scene.barrier(zero, 2);
  EXPECT_EQ(scene.code(early), Code::kFailedPrecondition);
  EXPECT_THAT(scene.text(early), HasSubstr("UdpSession comes before this Barrier"));
}

TEST(SessionGroup, AnotherRanksSecondBarrierNeedsItsSession) {
  Scene scene;
  const ConnectionId zero = scene.connect(), one = scene.connect();
  scene.broadcast(zero, 0, 2);
  scene.broadcast(one, 1, 2);
  scene.session(zero, 0, 2, 11);
  scene.barrier(zero, 2);
  scene.barrier(one, 2);
  const CallId waits = scene.barrier(zero, 2);
  EXPECT_EQ(scene.code(scene.barrier(one, 2)), Code::kFailedPrecondition);
  EXPECT_EQ(scene.code(waits), Code::kAborted);
  EXPECT_THAT(scene.text(waits), HasSubstr("rank 1 (10.0.0.2:4000) was refused"));
}

TEST(SessionGroup, ACallBesideOneThatWaitsIsRefused) {
  Scene scene;
  const ConnectionId zero = scene.connect(), one = scene.connect();
  scene.broadcast(zero, 0, 2);
  scene.broadcast(one, 1, 2);
  const CallId waits = scene.barrier(one, 2);
  const CallId beside = scene.barrier(one, 2);
  EXPECT_EQ(scene.code(beside), Code::kFailedPrecondition);
  EXPECT_EQ(scene.code(waits), Code::kAborted);
}

TEST(SessionGroup, PayloadsThatDisagreeEndItForAllInWords) {
  Scene scene;
  const ConnectionId zero = scene.connect(), one = scene.connect();
  scene.broadcast(zero, 0, 2);
  scene.broadcast(one, 1, 2);
  scene.session(zero, 0, 2, 11);
  const CallId waits = scene.barrier(zero, 2);
  UdpSession wish = Scene::wish(1, 2, 12);
  wish.packet_size = 1;
  const CallId wrong = scene.ask(one, wish);
  EXPECT_EQ(scene.code(wrong), Code::kInvalidArgument);
  EXPECT_THAT(scene.text(wrong), HasSubstr("256 bytes of values, the ranks before it of 1024"));
  EXPECT_EQ(scene.code(waits), Code::kAborted);
  EXPECT_THAT(scene.text(waits), HasSubstr("packet_numel"));
  EXPECT_EQ(scene.code(scene.barrier(one, 2)), Code::kInvalidArgument) << "it learns the same again";
}

TEST(SessionGroup, AddressesOfOthersAreRefused) {
  Scene scene(settings_of(2));
  const auto first = scene.meet(2, 0, 11);  // forms
  const ConnectionId zero = scene.connect(1);
  scene.broadcast(zero, 0, 1);
  const CallId call = scene.session(zero, 0, 1, 12);
  EXPECT_EQ(scene.code(call), Code::kAlreadyExists);
  EXPECT_THAT(scene.text(call), HasSubstr("'switchml.a' on port 50099"));
  scene.last_barriers(first);
  scene.pass(kSecond);  // runs
  scene.broadcast(zero, 0, 1);
  EXPECT_EQ(scene.code(scene.session(zero, 0, 1, 11)), Code::kAlreadyExists);
  scene.broadcast(zero, 0, 1);
  EXPECT_EQ(scene.code(scene.session(zero, 0, 1, 13)), Code::kOk);
}

TEST(SessionGroup, OneAddressIsOneMembers) {
  Scene scene;
  const ConnectionId zero = scene.connect(), one = scene.connect();
  scene.broadcast(zero, 0, 2);
  scene.broadcast(one, 1, 2);
  scene.session(zero, 0, 2, 11);
  UdpSession wish = Scene::wish(1, 2, 12);
  wish.ipv4 = 0x0A00000BU;
  const CallId call = scene.ask(one, wish);
  EXPECT_EQ(scene.code(call), Code::kInvalidArgument);
  EXPECT_THAT(scene.text(call), HasSubstr("10.0.0.11 is taken: rank 0"));
}

TEST(SessionGroup, WhoIsMissingIsNamedAtTheDeadline) {
  Scene scene;
  const ConnectionId zero = scene.connect(), two = scene.connect();
  scene.broadcast(zero, 0, 4);
  scene.session(zero, 0, 4, 11);
  scene.broadcast(two, 2, 4);
  const CallId waits = scene.barrier(zero, 4);
  scene.pass(59 * kSecond);
  EXPECT_TRUE(scene.waits(waits));
  scene.pass(kSecond);
  EXPECT_EQ(scene.code(waits), Code::kDeadlineExceeded);
  EXPECT_THAT(scene.text(waits),
              HasSubstr("ranks 1, 3 have not come; rank 2 (10.0.0.2:4000) asked nothing more"));
  EXPECT_EQ(scene.code(scene.barrier(two, 4)), Code::kDeadlineExceeded);
}

TEST(SessionGroup, ABroadcastWithoutItsRootEndsAtTheDeadlineToo) {
  Scene scene;
  const CallId waits = scene.broadcast(scene.connect(), 1, 2);
  scene.pass(61 * kSecond);
  EXPECT_EQ(scene.code(waits), Code::kDeadlineExceeded);
  EXPECT_THAT(scene.text(waits), HasSubstr("rank 0 has not come within 60 s; 1 of 2 workers were there"));
}

TEST(SessionGroup, ARootThatSleepsHoldsItsPortNoLongerThanTheDeadline) {
  Scene scene;
  scene.broadcast(scene.connect(), 0, 2);
  const ConnectionId other = scene.connect();
  EXPECT_EQ(scene.code(scene.broadcast(other, 0, 2)), Code::kAlreadyExists);
  scene.pass(61 * kSecond);
  EXPECT_EQ(scene.code(scene.broadcast(other, 0, 2)), Code::kOk);
}

TEST(SessionGroup, APeerThatLeavesReleasesTheOthersAtOnce) {
  Scene scene;
  const ConnectionId zero = scene.connect(), one = scene.connect(), two = scene.connect();
  for (const auto& [c, rank] : {std::pair{zero, 0U}, {one, 1U}, {two, 2U}}) scene.broadcast(c, rank, 3);
  const CallId waits = scene.barrier(one, 3);
  scene.close(two);
  EXPECT_EQ(scene.code(waits), Code::kAborted);
  EXPECT_THAT(scene.text(waits), HasSubstr("rank 2 (10.0.0.3:4000) has left"));
  // Rank 0 was between two calls: it learns it with its next one, and a new group is free of it.
  const CallId next = scene.session(zero, 0, 3, 11);
  EXPECT_EQ(scene.code(next), Code::kAborted);
  EXPECT_EQ(scene.code(scene.broadcast(zero, 0, 3)), Code::kOk);
}

TEST(SessionGroup, AWaiterThatGivesUpIsNotCountedInTheNextBarrier) {
  Scene scene;
  const ConnectionId zero = scene.connect(), one = scene.connect();
  scene.broadcast(zero, 0, 2);
  scene.broadcast(one, 1, 2);
  scene.session(zero, 0, 2, 11);
  const CallId gone = scene.barrier(one, 2);
  scene.service.cancelled(gone);
  scene.settle();
  const CallId next = scene.barrier(zero, 2);
  EXPECT_EQ(scene.code(next), Code::kAborted);
  EXPECT_THAT(scene.text(next), HasSubstr("rank 1 (10.0.0.2:4000) has given up its call"));
}

TEST(SessionGroup, RdmaIsUnimplementedInWords) {
  Scene scene;
  const CallId call = scene.ask(scene.connect(), RdmaSession{});
  EXPECT_EQ(scene.code(call), Code::kUnimplemented);
  EXPECT_THAT(scene.text(call), HasSubstr("no RDMA"));
}

TEST(SessionGroup, BarriersOfARunningSessionCountItsOwnClients) {
  Scene scene;
  const auto all = scene.run(2);
  const CallId first = scene.barrier(all[0], 2);
  EXPECT_TRUE(scene.waits(first));
  EXPECT_EQ(scene.code(scene.barrier(all[1], 2)), Code::kOk);
  EXPECT_EQ(scene.code(first), Code::kOk);
  const CallId second = scene.barrier(all[0], 2);
  scene.close(all[1]);
  EXPECT_EQ(scene.code(second), Code::kAborted);
  EXPECT_EQ(scene.code(scene.barrier(all[0], 2)), Code::kAborted);
}

TEST(SessionGroup, ABarrierOfARunningSessionHasADeadlineToo) {
  Scene scene;
  const auto all = scene.run(2);
  const CallId call = scene.barrier(all[0], 2);
  scene.pass(61 * kSecond);
  EXPECT_EQ(scene.code(call), Code::kDeadlineExceeded);
  EXPECT_EQ(scene.service.sessions(), 1U);
}

TEST(SessionGroup, StoppingAnswersEveryCall) {
  Scene scene;
  const CallId waits = scene.broadcast(scene.connect(), 1, 2);
  const auto all = scene.connect();
  (void)all;
  scene.service.stop();
  scene.settle();
  EXPECT_EQ(scene.code(waits), Code::kUnavailable);
}

TEST(SessionGroup, ACrowdOfStrangersIsDispensableAndMembersAreNot) {
  Scene scene;
  const auto members = scene.run(2);
  EXPECT_FALSE(scene.service.dispensable());
  const ConnectionId stranger = scene.connect();
  const ConnectionId forms = scene.connect();
  scene.broadcast(forms, 1, 2);
  ASSERT_TRUE(scene.service.dispensable());
  EXPECT_EQ(*scene.service.dispensable(), stranger);
  scene.close(stranger);
  EXPECT_FALSE(scene.service.dispensable());
}

}  // namespace
}  // namespace tally::session_service

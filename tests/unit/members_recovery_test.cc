// New epochs of a living generation: the data plane restarts, control loses everything, numbers run out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/layout.h"
#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

struct MembersRecovery : testing::Test, Bench {
  JobId id = declare(config_of(3));
  std::vector<Peer> peers{Peer(0, 3), Peer(1, 3), Peer(2, 3)};
  Generation generation{};
  std::uint32_t old_epoch = 0;
  MembersRecovery() {
    EXPECT_TRUE(form(peers));
    for (auto& p : peers) {
      p.lowest = 100;
      p.next = 110U + p.rank;
      send(p, p.heartbeat());
    }
    generation = status(id).generation;
    old_epoch = peers[0].epoch;
  }
};

TEST_F(MembersRecovery, RestartOfTheDataPlaneKeepsTheGeneration) {
  const jobs::LineRange slots = status(id).slots;
  const Peer before = peers[1];
  members->restart_data_plane(now);
  auto sent = settle();
  EXPECT_EQ(row(id), nullptr);
  EXPECT_EQ(status(id).phase, members::JobPhase::kForming);
  EXPECT_EQ(status(id).missing, 0b111U);
  for (const auto& p : peers) {  // called back, idle or not
    const Sent s = only(sent, PacketType::kReject, p);
    EXPECT_EQ(s.header.slot.host(), 1U);
    EXPECT_EQ(s.header.epoch.host(), old_epoch);
    EXPECT_EQ(s.header.job.host(), raw(id));
  }
  EXPECT_EQ(only(send(peers[0], peers[0].heartbeat()), PacketType::kReject, peers[0]).header.slot.host(), 1U);
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(status(id).generation, generation);
  EXPECT_NE(peers[1].epoch, old_epoch);
  EXPECT_NE(peers[1].cookie, before.cookie);
  EXPECT_NE(peers[1].result_cookie, before.result_cookie);
  EXPECT_EQ(peers[1].last, before.last);
  EXPECT_EQ(status(id).slots, slots);
  EXPECT_EQ(row(id)->generation, generation);
}

TEST_F(MembersRecovery, MostAdvancedIsTheLargestNextInSerialOrder) {
  peers[0].lowest = peers[0].next = 0xFFFFFFF0;
  peers[1].lowest = peers[1].next = 3;
  peers[2].lowest = peers[2].next = 2;
  members->restart_data_plane(now);
  settle();
  send(peers[0], peers[0].join());
  send(peers[1], peers[1].join());
  const auto sent = send(peers[2], peers[2].join());
  EXPECT_EQ(sent.back().joined().most_advanced.host(), 1);
}

TEST_F(MembersRecovery, RestartWhileTheCoresAreAwaitedPublishesAgain) {
  cores_wait = true;
  members->restart_data_plane(now);
  for (auto& p : peers) send(p, p.join());
  const std::uint64_t first = version;
  const Epoch offered = status(id).epoch;
  members->restart_data_plane(now);
  settle();
  EXPECT_GT(version, first);
  ASSERT_NE(row(id), nullptr);
  members->quiesced(first, now);  // of the data plane that is gone
  EXPECT_TRUE(answers().empty());
  members->quiesced(version, now);
  EXPECT_EQ(answers().size(), 3U);
  EXPECT_EQ(status(id).epoch, offered);
}

TEST_F(MembersRecovery, MemberThatDoesNotComeBackIsNamedToTheOthers) {
  now += 5 * kSecond;
  members->restart_data_plane(now);
  settle();
  std::vector<Sent> sent;
  for (int i = 0; i < 10; ++i) {
    for (const int r : {0, 1}) {
      Peer& p = peers[static_cast<std::size_t>(r)];
      EXPECT_EQ(only(send(p, p.join()), PacketType::kJoined, p).joined().missing.host(),
                r == 0 && i == 0 ? 0b110U : 0b100U);
    }
    sent = advance(kSecond);
  }
  for (const int r : {0, 1}) {
    const Peer& p = peers[static_cast<std::size_t>(r)];
    const Sent s = only(sent, PacketType::kAbort, p);  // under the epoch it still lives in
    EXPECT_EQ(s.header.epoch.host(), old_epoch);
    EXPECT_EQ(s.header.cookie.host(), p.result_cookie);
    EXPECT_THAT(s.text(), HasSubstr("rank 2 at 10.0.0.2 was silent for 10.0 s"));
    EXPECT_EQ(only(sent, PacketType::kJoined, p).joined().nonce.host(), p.nonce);
  }
  EXPECT_EQ(status(id).phase, members::JobPhase::kAborted);
}

TEST_F(MembersRecovery, OtherProcessCannotTakeTheRankOfAMemberThatIsCalledBack) {
  members->restart_data_plane(now);
  settle();
  Peer other = peers[2];
  other.restart();
  EXPECT_EQ(only(send(other, other.join()), PacketType::kJoined, other).text(),
            "rank 2 is held by a live process at 10.0.0.2");
}

TEST_F(MembersRecovery, FailureWhileCalledBackStillAborts) {
  members->restart_data_plane(now);
  settle();
  send(peers[0], peers[0].join());
  const auto sent = send(peers[1], peers[1].abort("out of memory"));
  for (const auto& p : peers) EXPECT_EQ(only(sent, PacketType::kAbort, p).text(), "rank 1: out of memory");
  EXPECT_EQ(status(id).phase, members::JobPhase::kAborted);
}

TEST_F(MembersRecovery, MemberThatLostItsRecordMeansANewGeneration) {
  members->restart_data_plane(now);
  settle();
  peers[2].last = {};
  ASSERT_TRUE(form(peers));
  EXPECT_NE(status(id).generation, generation);
  for (const auto& p : peers) EXPECT_EQ(p.last, peers[0].last);
}

// Who has left will not come back to contribute, and who remains lacks nothing but the last barrier's result:
// to form again would wait for ever.
TEST_F(MembersRecovery, RestartWhileDrainingEndsTheJob) {
  send(peers[0], peers[0].leave());
  members->restart_data_plane(now);
  settle();
  EXPECT_EQ(status(id).phase, members::JobPhase::kEnded);
  EXPECT_EQ(row(id), nullptr);
  EXPECT_EQ(count_of(send(peers[1], peers[1].leave()), PacketType::kLeave, peers[1]), 1U);
  const Sent refused = only(send(peers[2], peers[2].join()), PacketType::kJoined, peers[2]);
  EXPECT_NE(refused.text().find("ended"), std::string::npos) << refused.text();
}

// Its first LEAVE was lost, and the box called the members back meanwhile.
TEST_F(MembersRecovery, LeaveWhileCalledBackEndsTheJob) {
  members->restart_data_plane(now);
  settle();
  EXPECT_EQ(status(id).phase, members::JobPhase::kForming);
  EXPECT_EQ(count_of(send(peers[0], peers[0].leave()), PacketType::kLeave, peers[0]), 1U);
  EXPECT_EQ(status(id).phase, members::JobPhase::kEnded);
}

TEST_F(MembersRecovery, AllControlStateLostIsAdoptedFromTheMembers) {
  const GenerationRecord record = peers[0].last;
  forget_everything();
  const Sent s = only(send(peers[0], peers[0].heartbeat()), PacketType::kReject, peers[0]);
  EXPECT_EQ(s.header.slot.host(), static_cast<std::uint32_t>(RejectReason::kJob));
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(status(id).generation, generation);
  EXPECT_NE(peers[0].epoch, old_epoch);
  for (const auto& p : peers) EXPECT_EQ(p.last, record);
  EXPECT_EQ(row(id)->span, 2 * record.largest_window.host());
}

TEST_F(MembersRecovery, AdoptedGenerationKeepsItsSizesWhateverTheConfigurationSays) {
  const GenerationRecord record = peers[0].last;
  jobs[0].window = 1024;  // never above the generation's largest
  jobs[0].elements = 704;
  jobs[0].first_chunk = Chunk{5};
  forget_everything();
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(peers[0].last, record);
  EXPECT_EQ(status(id).window, 256U);
  EXPECT_EQ(status(id).elements, 352);
  jobs[0].window = 64;  // a smaller window, the same span
  forget_everything();
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(status(id).window, 64U);
  EXPECT_EQ(row(id)->span, 512U);
  EXPECT_EQ(peers[0].last, record);
}

TEST_F(MembersRecovery, RecordsThatDifferMeanANewGeneration) {
  for (const int field : {0, 1, 2, 3, 4}) {
    Bench bench(65'536, 1, 2);
    const JobId job = bench.declare(config_of(3));
    std::vector<Peer> all = peers;
    GenerationRecord& r = all[1].last;
    if (field == 0) r.generation = Be<std::uint64_t>(r.generation.host() + 1);
    if (field == 1) r.first_chunk = Be<std::uint32_t>(r.first_chunk.host() + 1);
    if (field == 2) r.largest_window = Be<std::uint32_t>(512);
    if (field == 3) r.lookahead = Be<std::uint32_t>(128);
    if (field == 4) r.elements = Be<std::uint16_t>(336);
    ASSERT_TRUE(bench.form(all));
    EXPECT_NE(bench.status(job).generation, generation) << field;
    EXPECT_EQ(all[0].last, all[1].last);
    EXPECT_EQ(all[0].last.first_chunk.host(), 0U);
  }
}

// The refusal crosses a JOIN that is on its way and is not its answer. Its sender joins each second, and
// would bring the dead generation again and again, in step with the patience with it.
TEST_F(MembersRecovery, RefusalThatCrossesAJoinIsSaidAgain) {
  forget_everything();
  send(peers[0], peers[0].join());
  const TimeNs until = now + 10 * kSecond;
  while (now + kSecond < until) {
    advance(kSecond);
    send(peers[0], peers[0].join());
  }
  now = until;
  const std::vector<Sent> sent = send(peers[0], peers[0].join());
  const Sent s = sent.back();
  EXPECT_EQ(s.status(), JoinStatus::kRefused);
  EXPECT_EQ(s.joined().nonce.host(), peers[0].nonce);
  EXPECT_EQ(s.text(), "the job's generation cannot go on: ranks 1 and 2 did not come back within 10.0 s");
  const Sent late = only(send(peers[1], peers[1].join()), PacketType::kJoined, peers[1]);
  EXPECT_EQ(late.status(), JoinStatus::kRefused) << "it comes too late";
}

// The patience with a generation begins when somebody brings it, not when somebody did who gave it up since.
TEST_F(MembersRecovery, WhoGivesTheGenerationUpEndsThePatienceWithIt) {
  forget_everything();
  send(peers[0], peers[0].join());
  advance(2 * kSecond);
  peers[0].last = {};
  send(peers[0], peers[0].join());
  const auto stay = [&](Peer& p, TimeNs until) {
    while (now < until) {
      advance(kSecond);
      send(peers[0], peers[0].join());
      if (&p != &peers[0]) send(p, p.join());
    }
  };
  stay(peers[0], now + 7 * kSecond);
  send(peers[1], peers[1].join());
  const TimeNs came = now;
  stay(peers[1], came + 5 * kSecond);
  EXPECT_EQ(only(send(peers[1], peers[1].join()), PacketType::kJoined, peers[1]).status(),
            JoinStatus::kForming);
}

TEST_F(MembersRecovery, MissingRankIsNamedToThoseWhoCameBack) {
  forget_everything();
  std::vector<Sent> sent;
  for (int i = 0; i < 10; ++i) {
    send(peers[0], peers[0].join());
    send(peers[2], peers[2].join());
    EXPECT_TRUE(sent.empty());
    sent = advance(kSecond);
  }
  for (const int r : {0, 2}) {
    const Sent s = only(sent, PacketType::kJoined, peers[static_cast<std::size_t>(r)]);
    EXPECT_EQ(s.status(), JoinStatus::kRefused);
    EXPECT_EQ(s.joined().nonce.host(), peers[static_cast<std::size_t>(r)].nonce);
    EXPECT_EQ(s.text(), "the job's generation cannot go on: rank 1 did not come back within 10.0 s");
  }
  EXPECT_EQ(sent.size(), 2U);
  EXPECT_EQ(status(id).phase, members::JobPhase::kDeclared);
  EXPECT_EQ(members->deadline(), kNever);
}

TEST_F(MembersRecovery, ThoseWhoBringNothingGoOnWaiting) {
  forget_everything();
  peers[2].restart();
  std::vector<Sent> sent;
  for (int i = 0; i < 10; ++i) {
    send(peers[0], peers[0].join());
    send(peers[2], peers[2].join());
    sent = advance(kSecond);
  }
  EXPECT_EQ(only(sent, PacketType::kJoined, peers[0]).status(), JoinStatus::kRefused);
  EXPECT_EQ(count_of(sent, PacketType::kJoined, peers[2]), 0U);
  EXPECT_EQ(status(id).missing, 0b011U);
}

TEST_F(MembersRecovery, LateRankIsInTimeWithinTheLease) {
  forget_everything();
  send(peers[0], peers[0].join());
  send(peers[2], peers[2].join());
  advance(9 * kSecond);
  ASSERT_TRUE(form({&peers[0], &peers[1], &peers[2]}));
  EXPECT_EQ(status(id).generation, generation);
}

TEST_F(MembersRecovery, EpochIsRenewedBeforeTheNumbersHaveGoneHalfWayRound) {
  const auto beat_at = [&](std::uint32_t next) {
    peers[1].next = next;
    return send(peers[1], peers[1].heartbeat());
  };
  EXPECT_EQ(beat_at((1U << 29) - 1).size(), 1U);
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
  const auto sent = beat_at(1U << 29);
  EXPECT_EQ(count_of(sent, PacketType::kHeartbeat, peers[1]), 1U);
  for (const auto& p : peers) EXPECT_EQ(count_of(sent, PacketType::kReject, p), 1U);
  EXPECT_EQ(status(id).phase, members::JobPhase::kForming);
  EXPECT_EQ(row(id), nullptr);
  for (auto& p : peers) p.lowest = p.next = 1U << 29;
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(status(id).generation, generation);
  EXPECT_NE(peers[0].epoch, old_epoch);
  // From the new base another 2^29, over the wrap and for ever.
  for (std::uint32_t epochs = 2; epochs < 12; ++epochs) {
    EXPECT_EQ(beat_at(epochs * (1U << 29) - 1).size(), 1U) << epochs;
    EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
    beat_at(epochs * (1U << 29));
    EXPECT_EQ(status(id).phase, members::JobPhase::kForming);
    for (auto& p : peers) p.lowest = p.next = epochs * (1U << 29);
    ASSERT_TRUE(form(peers));
  }
  EXPECT_EQ(status(id).generation, generation);
  EXPECT_TRUE(freed.empty());  // the slots stay the job's
}

TEST_F(MembersRecovery, NumbersOfAnEarlierGenerationDoNotRenewANewOne) {
  for (auto& p : peers) {
    p.restart();
    p.lowest = p.next = 0x7000'0000;  // as an engine might leave them
  }
  forget_everything();
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(send(peers[0], peers[0].heartbeat()).size(), 1U);
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
}

TEST_F(MembersRecovery, EpochsAreNewEveryTime) {
  std::vector<std::uint32_t> seen_epochs{old_epoch};
  for (int i = 0; i < 50; ++i) {
    members->restart_data_plane(now);
    settle();
    ASSERT_TRUE(form(peers));
    EXPECT_THAT(seen_epochs, testing::Not(testing::Contains(peers[0].epoch)));
    seen_epochs.push_back(peers[0].epoch);
  }
}

// No INCOMPLETE result for what a member may have a result of, or has offered, in an earlier epoch.
TEST_F(MembersRecovery, StragglersAreFencedOffByTheLargestNext) {
  members::NativeConfig config = config_of(2, "late");
  config.stragglers = {50 * kMillisecond, 2};
  config.first_chunk = Chunk{0xFFFFFFFD};
  const JobId late = declare(config);
  std::vector<Peer> two{Peer(0, 2), Peer(1, 2)};
  for (auto& p : two) p.job = "late";
  ASSERT_TRUE(form(two));
  EXPECT_EQ(row(late)->stragglers.timeout, jobs::stamp(50 * kMillisecond));
  EXPECT_EQ(row(late)->stragglers.least, 2);
  EXPECT_EQ(row(late)->stragglers.fence, config.first_chunk) << "nothing was before it";
  two[0].lowest = 0xFFFFFFFE;
  two[0].next = 1;
  two[1].lowest = two[1].next = 5;
  members->restart_data_plane(now);
  settle();
  ASSERT_TRUE(form(two));
  EXPECT_EQ(row(late)->stragglers.fence, Chunk{5});
  forget_everything();
  two[0].lowest = two[0].next = 40;
  ASSERT_TRUE(form(two));
  // Adopted: the JOINs may be old copies, until every member has shown that it knows the epoch.
  const auto held = [&] { return serial_difference(row(late)->stragglers.fence, Chunk{40}) >= 1 << 29; };
  EXPECT_TRUE(held());
  send(two[0], two[0].heartbeat());
  EXPECT_TRUE(held());
  send(two[1], two[1].heartbeat());
  EXPECT_EQ(row(late)->stragglers.fence, Chunk{40});
}

TEST_F(MembersRecovery, OnlyWorkersOfSuchAJobAreToldOfStragglers) {
  members::NativeConfig config = config_of(1, "late");
  config.stragglers = {50 * kMillisecond, 1};
  declare(config);
  Peer one(0, 1);
  one.job = "late";
  const auto sent = send(one, one.join());
  EXPECT_EQ(sent.front().status(), JoinStatus::kForming);
  EXPECT_EQ(sent.front().header.flags, 0U);
  EXPECT_EQ(sent.back().status(), JoinStatus::kRunning);
  EXPECT_EQ(sent.back().header.flags, kFlagIncomplete);
  members->restart_data_plane(now);
  settle();
  send(peers[0], peers[0].join());
  send(peers[1], peers[1].join());
  EXPECT_EQ(send(peers[2], peers[2].join()).back().header.flags, 0U);
  EXPECT_EQ(row(id)->stragglers.timeout, 0U);
}

// Control has lost everything, and old copies of JOINs form the epoch before the members' own come.
TEST_F(MembersRecovery, the_fence_of_stragglers_is_what_the_members_say_now) {
  members::NativeConfig config = config_of(2, "late");
  config.stragglers = {50 * kMillisecond, 1};
  const JobId late = declare(config);
  std::vector<Peer> two{Peer(0, 2), Peer(1, 2)};
  for (Peer& peer : two) {
    peer.job = "late";
    peer.next = peer.lowest = 10;
  }
  ASSERT_TRUE(form(two));
  members->restart_data_plane(now);
  settle();
  const Bytes old = two[0].join();  // next = 10
  send(two[0], old);
  ASSERT_TRUE(form(two));
  two[0].next = two[0].lowest = 200;  // it went on without rank 1
  forget_everything();
  send(two[0], old);
  Bench::take(two[1], send(two[1], two[1].join()));
  Bench::take(two[0], send(two[0], two[0].join()));
  ASSERT_TRUE(form(two));
  // Rank 1's may have been an old copy, too.
  EXPECT_NE(row(late)->stragglers.fence, Chunk{200});
  for (const Peer& peer : two) send(peer, peer.heartbeat());
  EXPECT_EQ(row(late)->stragglers.fence, Chunk{200});
}

}  // namespace
}  // namespace tally::members_test

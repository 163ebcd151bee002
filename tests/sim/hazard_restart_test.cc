// Hazards of docs/hazards.md: the box loses its slots or everything, and the epochs that follow.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

// How much the box forgets.
class HazardRestart : public testing::TestWithParam<bool> {
 protected:
  static void restart(HazardRack& rack) {
    GetParam() ? rack.box().restart() : rack.box().restart_data_plane();
  }
  // Nobody noticed more than a new epoch.
  static void expect_same_generation(HazardRack& rack, const engine::Membership& before,
                                     std::uint64_t epochs) {
    for (const std::uint16_t r : rack.ranks()) {
      EXPECT_EQ(rack.membership(r).generation, before.generation);
      EXPECT_NE(rack.membership(r).epoch, before.epoch);
      EXPECT_EQ(rack.counted(r).generations, 1U);
      EXPECT_EQ(rack.counted(r).epochs, epochs);
      EXPECT_FALSE(rack.worker(r).closed());
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Forgets, HazardRestart, testing::Bool(),
                         [](const auto& p) { return p.param ? "everything" : "slots"; });

TEST_P(HazardRestart, switch_restart_with_all_state_lost_in_mid_operation) {
  HazardRack rack({.world = 3, .first_chunk = Chunk{0xFFFF'FFFDU}, .cores = 2});
  rack.join();
  const engine::Membership before = rack.membership(0);
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  ASSERT_FALSE(rack.done(0, sum));
  ASSERT_GT(rack.counted(0).results, 50U);
  restart(rack);
  rack.expect_exact(sum);
  expect_same_generation(rack, before, 2);
  rack.expect_healthy();
}

// No hint that the box has forgotten everything arrives, for whatever reason: the workers ask by themselves
// before they give it up.
TEST(Hazard, restart_of_everything_and_no_reject_arrives) {
  HazardRack rack({.lease = 10 * kSecond});
  rack.join();
  rack.expect_healthy();
  const Rule& hints = rack.lose({.up = false, .type = PacketType::kReject});
  const TimeNs before = rack.now();
  rack.box().restart();
  const std::size_t sum = rack.reduce(16 * 4);
  rack.expect_exact(sum);
  EXPECT_LT(rack.now() - before, 6 * kSecond);
  EXPECT_GT(hints.hits(), 0U);
  EXPECT_EQ(rack.counted(0).generations, 1U);
}

// While results come control may be as late as its lease allows: nobody stops to ask.
TEST(Hazard, control_that_is_late_while_results_come) {
  HazardRack rack;
  rack.join();
  const std::uint64_t joins = rack.counted(0).joins;
  Rule& echoes = rack.lose({.up = false, .type = PacketType::kHeartbeat});
  for (TimeNs end = rack.now() + rack.options().lease - kSecond / 2; rack.now() < end;) {
    rack.expect_healthy();
    rack.run_for(100 * kMillisecond);
  }
  EXPECT_EQ(rack.counted(0).joins, joins);
  echoes.left = 0;
  rack.run_for(rack.options().lease);
  rack.expect_healthy();
}

// Who has another port cannot use up the answers that the members need to come back: datagrams of unknown
// jobs from sources that share the victims' place in a core's table, and control packets in their names.
TEST(Hazard, restart_of_everything_while_another_port_uses_up_rejects) {
  HazardRack rack({.rivals = {Rank{0}}});
  rack.join();
  rack.expect_healthy();
  const auto inject = [&](PacketType type, const jobs::Binding& from) {
    Header h;
    h.version = kWireVersion;
    h.type = type;
    h.job = Be<std::uint16_t>{777};
    h.epoch = Be<std::uint32_t>{0x1234'5678};
    h.contributors = Be<std::uint64_t>{1};
    Bytes datagram(kHeaderBytes);
    set_header(datagram, h);
    rack.sim().network().inject(2, true, wrap(datagram, from, test_box(), kBasePort));
  };
  std::uint8_t other = 0;
  const auto flood = [&] {
    for (const std::uint16_t victim : rack.ranks()) {
      jobs::Binding from = rack.worker(victim).options().binding;
      from.port = PortIndex{2};
      inject(PacketType::kHeartbeat, from);
      from.address.back() = ++other;
      inject(PacketType::kContribute, from);
    }
    rack.run_for(kMillisecond);
  };
  for (int i = 0; i < 1'000; ++i) flood();
  rack.box().restart();
  const TimeNs before = rack.now();
  for (int i = 0; i < 20; ++i) flood();
  const std::size_t sum = rack.reduce(16 * 4);
  while (!rack.done(sum) && rack.now() < before + rack.options().lease) flood();
  EXPECT_LT(rack.now() - before, kSecond);
  rack.expect_exact(sum);
}

// No ABORT can name who is not the process that it was: the box knows nothing of it.
TEST(Hazard, restart_of_everything_and_a_rank_as_a_new_process_is_named) {
  HazardRack rack({.world = 3});
  rack.join();
  const std::size_t sum = rack.reduce(16 * 1000);
  rack.run_for(300 * kMicrosecond);
  rack.box().restart();
  rack.worker(2).crash();
  rack.worker(2).start();
  ASSERT_TRUE(rack.until([&] { return rack.failed(0, sum) && rack.failed(1, sum); }));
  for (const std::uint16_t r : {std::uint16_t{0}, std::uint16_t{1}})
    EXPECT_EQ(rack.error(r, sum), "job0: the job began a new generation: rank 2 joined anew");
  ASSERT_TRUE(rack.until([&] { return rack.running(); }));
}

// Rank 0 has the sum and does not offer its value again: only it can tell.
TEST_P(HazardRestart, switch_restart_with_one_result_lost) {
  HazardRack rack({.world = 3});
  rack.join();
  const engine::Membership before = rack.membership(0);
  Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{4}});
  const std::size_t sum = rack.reduce(16 * 10);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, sum) && rack.done(2, sum); }));
  EXPECT_EQ(rack.counted(1).results, 9U);
  const Rule& offered = rack.record({.up = true, .type = kContribution, .also = [&](const Header& h) {
                                       return h.epoch_id() != before.epoch;
                                     }});
  restart(rack);
  lost.left = 0;
  rack.expect_exact(sum);
  expect_same_generation(rack, before, 2);
  EXPECT_GE(rack.counted(1).queries, 1U);
  const std::uint64_t asked_of_peers = rack.counted(1).queries - rack.counted(1).asks;
  // Those of the old epoch came to nobody.
  EXPECT_GE(rack.counted(0).answers + rack.counted(2).answers, 1U);
  EXPECT_LE(rack.counted(0).answers + rack.counted(2).answers, asked_of_peers);
  for (const Bytes& frame : offered.frames) {
    EXPECT_EQ(header_in(frame).rank.host(), 1U) << "who has the result does not offer it again";
    EXPECT_EQ(header_in(frame).chunk.host(), 4U);
  }
  rack.expect_healthy();
}

// The others have all sums and offer nothing again, so of no chunk can the box say more than that it waits. A rank
// that asked the box alone again and again would lose these rounds for each chunk that it lacks, one after the
// other.
TEST_P(HazardRestart, switch_restart_with_all_results_of_a_rank_lost) {
  HazardRack rack({.world = 3});
  rack.join();
  rack.expect_healthy();  // a round is known
  Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult});
  const std::size_t sum = rack.reduce(16 * 16);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, sum) && rack.done(2, sum); }));
  const Epoch old = rack.membership(1).epoch;
  std::map<std::uint32_t, unsigned> alone;  // questions for a chunk that named nobody before one named a peer
  std::map<std::uint32_t, bool> named;
  rack.record({.worker = 1, .up = true, .type = PacketType::kQuery, .also = [&](const Header& h) {
                 if (h.epoch_id() == old || named[h.chunk.host()]) return true;
                 named[h.chunk.host()] = h.contributors.host() != 0;
                 if (h.contributors.host() == 0) ++alone[h.chunk.host()];
                 return true;
               }});
  restart(rack);
  lost.left = 0;
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(1).epochs, 2U);
  unsigned most = 0;
  for (const auto& [chunk, n] : alone) most = std::max(most, n);
  EXPECT_EQ(most, 2U);
  EXPECT_FALSE(named.empty());
  for (const auto& [chunk, yes] : named) EXPECT_TRUE(yes) << chunk;
}

// Both lack a result that the other has: each asks, each answers, nobody waits for the other's offer.
TEST_P(HazardRestart, switch_restart_with_different_results_lost) {
  HazardRack rack;
  rack.join();
  Rule& first = rack.lose({.worker = 0, .up = false, .type = kResult, .chunk = Chunk{2}});
  Rule& second = rack.lose({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{5}});
  const std::size_t sum = rack.reduce(16 * 10);
  rack.run_for(10 * kMillisecond);
  EXPECT_FALSE(rack.done(0, sum));
  EXPECT_FALSE(rack.done(1, sum));
  restart(rack);
  first.left = second.left = 0;
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(0).answers, 1U);
  EXPECT_EQ(rack.counted(1).answers, 1U);
  rack.expect_healthy();
}

// A contribution that alone reached its entry is offered again in the new epoch, with the same values.
TEST_P(HazardRestart, switch_restart_with_a_chunk_half_full) {
  HazardRack rack;
  rack.join();
  const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution});
  rack.reduce_at(0, 0, 16);
  rack.run_for(kMillisecond);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 1U);
  restart(rack);
  ASSERT_TRUE(rack.until([&] { return rack.counted(0).epochs == 2; }));
  rack.run_for(kMillisecond);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 1U);
  rack.reduce_at(1, 0, 16);
  rack.expect_exact(0);
  ASSERT_GE(sent.hits(), 2U);
  EXPECT_NE(header_in(sent.frames.front()).epoch.host(), header_in(sent.frames.back()).epoch.host());
  for (const Bytes& frame : sent.frames)
    EXPECT_EQ(header_in(frame).sum1.host(), header_in(sent.frames.front()).sum1.host());
}

// Rank 0 has everything and sleeps; only its heartbeat can tell it that there is a new epoch to answer in.
TEST_P(HazardRestart, idle_peer_after_a_restart) {
  HazardRack rack;
  rack.join();
  rack.expect_healthy();
  Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult});
  const std::size_t sum = rack.reduce(16);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, sum); }));
  const std::uint64_t contributions = rack.counted(0).contributions;
  const Rule& hint = rack.lose({.worker = 0, .up = false, .type = PacketType::kReject}, 1);
  const Rule& beats = rack.record({.worker = 0, .up = true, .type = PacketType::kHeartbeat});
  restart(rack);
  lost.left = 0;
  rack.expect_exact(sum);
  EXPECT_EQ(hint.hits(), 1U);
  EXPECT_GE(beats.hits(), GetParam() ? 2U : 1U) << "what calls it back";
  EXPECT_EQ(rack.counted(0).epochs, 2U);
  EXPECT_EQ(rack.counted(0).contributions, contributions);
  EXPECT_EQ(rack.counted(0).answers, 1U);
  rack.expect_healthy();
}

// JOINED of the new epoch is lost to one rank; the others are in it already.
TEST_P(HazardRestart, joined_of_the_new_epoch_lost) {
  HazardRack rack({.world = 3});
  rack.join();
  const engine::Membership before = rack.membership(0);
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  restart(rack);
  const Rule& lost = rack.lose({.worker = 2,
                                .up = false,
                                .type = PacketType::kJoined,
                                .also = [](const Header& h) { return h.epoch.host() != 0; }},
                               3);
  rack.expect_exact(sum);
  EXPECT_EQ(lost.hits(), 3U);
  expect_same_generation(rack, before, 2);
}

TEST_P(HazardRestart, restart_while_the_members_are_called_back) {
  HazardRack rack({.world = 3});
  rack.join();
  const engine::Membership before = rack.membership(0);
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  rack.lose({.worker = 1, .up = true, .type = PacketType::kJoin}, 1);  // so that forming takes a while
  for (int i = 0; i < 5; ++i) {
    restart(rack);
    rack.run_for(30 * kMillisecond);
  }
  rack.expect_exact(sum);
  EXPECT_EQ(rack.membership(2).generation, before.generation);
  rack.expect_healthy();
}

// The box comes back with less memory for the job, because another one was quicker, and later with more.
TEST(Hazard, window_shrink_and_growth_with_history) {
  HazardRack rack({.jobs = 2, .window = 64, .first_chunk = Chunk{0xFFFF'FFFDU}, .slot_lines = 320});
  rack.join(0);
  ASSERT_EQ(rack.membership(0).window, 64U);
  // Rank 1 has not one of 64 results, rank 0 all: they are in its history only.
  Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult});
  const std::size_t sum = rack.reduce(16 * 64);
  const std::size_t next = rack.reduce(16 * 300);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, sum); }));
  for (const std::uint16_t r : rack.ranks()) rack.worker(r).pause(rack.now() + 500 * kMillisecond);
  rack.box().restart();
  rack.join(1);
  ASSERT_EQ(rack.membership(0, 1).window, 64U);
  // Rank 1 begins 64 chunks behind rank 0, four small windows: that is neither stale nor ahead.
  rack.lose({.worker = 0, .up = true, .type = kContribution}, 16);
  lost.left = 0;
  rack.expect_exact(sum);
  rack.expect_exact(next);
  EXPECT_EQ(rack.drops(Drop::kAhead), 0U);
  EXPECT_EQ(rack.membership(0).window, 16U);
  EXPECT_EQ(rack.membership(0).largest_window, 64U);
  EXPECT_EQ(rack.counted(0).generations, 1U);
  EXPECT_GE(rack.counted(0).answers, 64U);

  // Within the small window a span is 8 windows: a packet of an earlier chunk of the same entry passes the
  // order test, and must not destroy the stored result.
  const Chunk first = Chunk{0xFFFF'FFFDU} + (64 + 300);
  const Rule& stale = rack.record({.worker = 0, .up = true, .type = kContribution, .chunk = first});
  rack.expect_exact(rack.reduce(16 * 32));
  ASSERT_EQ(stale.hits(), 1U);
  lost.left = 1 << 20;
  const std::size_t stored = rack.reduce(16);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, stored); }));
  const std::uint64_t answers = rack.counted(0).answers;
  const std::uint64_t drops = rack.drops(Drop::kStale);
  rack.replay_forgotten(stale, 0);
  EXPECT_EQ(rack.drops(Drop::kStale), drops + 1);
  lost.left = 0;
  rack.expect_exact(stored);
  EXPECT_EQ(rack.counted(0).answers, answers) << "the stored result was enough";

  // Growth, with results lost under the small window.
  lost.left = 1 << 20;
  const std::size_t last = rack.reduce(16 * 16);
  ASSERT_TRUE(rack.until([&] { return rack.done(0, last); }));
  rack.box().withdraw("job1");
  rack.box().restart_data_plane();
  lost.left = 0;
  rack.expect_exact(last);
  EXPECT_EQ(rack.membership(0).window, 64U);
  EXPECT_EQ(rack.counted(0).generations, 1U);
  EXPECT_GE(rack.counted(0).answers, answers + 16);
  const Rule& wide = rack.record({.worker = 0, .up = true, .type = kContribution});
  rack.reduce_at(0, 5, 16 * 300);
  rack.run_for(100 * kMicrosecond);
  EXPECT_EQ(wide.hits(), 64U);
  rack.reduce_at(1, 5, 16 * 300);
  rack.expect_exact(5);
}

// JOINED leaves when every data core knows the job: nobody's first packet is rejected, and none is lost.
TEST(Hazard, joined_before_the_cores_know_the_job) {
  HazardRack rack({.world = 4, .cores = 3});
  for (const std::uint16_t r : rack.ranks()) {
    rack.worker(r).start();
    rack.reduce_at(r, 0, 16 * 40);  // goes out with JOINED
  }
  rack.expect_exact(0);
  rack.box().restart_data_plane();
  rack.run_for(20 * kMicrosecond);
  ASSERT_EQ(rack.worker(0).engine().state(), engine::EngineState::kJoining);
  rack.expect_exact(rack.reduce(16 * 40));
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_EQ(rack.counted(r).rejects, 1U) << "what called it back";
    EXPECT_EQ(rack.counted(r).epochs, 2U);
  }
  EXPECT_EQ(rack.box().counters(JobId{0}).of(Drop::kJob), 0U);
  EXPECT_EQ(rack.drops(Drop::kEpoch), 0U);
}

// A REJECT that was on its way while the new epoch was entered is of no concern.
TEST(Hazard, late_reject) {
  HazardRack rack;
  rack.join();
  const Rule& rejects = rack.record({.worker = 0, .up = false, .type = PacketType::kReject});
  rack.box().restart_data_plane();
  ASSERT_TRUE(rack.until([&] { return rack.running() && rack.counted(0).epochs == 2; }));
  ASSERT_GE(rejects.hits(), 1U);
  const std::size_t sum = rack.reduce(16 * 300);
  rack.run_for(50 * kMicrosecond);
  const std::uint64_t joins = rack.counted(0).joins;
  const std::uint64_t refused = rack.counted(0).of(Refused::kEpoch);
  const std::size_t replayed = rejects.hits();
  rack.replay(rejects, 0, false);
  EXPECT_EQ(rack.counted(0).of(Refused::kEpoch) - refused, replayed);
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(0).joins, joins);
  EXPECT_EQ(rack.counted(0).epochs, 2U);
}

// JOINED of the epoch that ended, while the worker waits for that of the next one.
TEST(Hazard, late_joined) {
  HazardRack rack;
  const Rule& joined = rack.record({.worker = 0, .up = false, .type = PacketType::kJoined});
  rack.join();
  const engine::Membership before = rack.membership(0);
  Rule& lost = rack.lose({.worker = 1, .up = true, .type = PacketType::kJoin});
  rack.box().restart_data_plane();
  rack.run_for(150 * kMillisecond);  // a JOIN per 100 ms
  ASSERT_EQ(rack.worker(0).engine().state(), engine::EngineState::kJoining);
  const std::size_t old = joined.hits();
  const std::uint64_t refused = rack.counted(0).of(Refused::kNonce);
  rack.replay(joined, 0, false);
  EXPECT_EQ(rack.worker(0).engine().state(), engine::EngineState::kJoining);
  EXPECT_GE(rack.counted(0).of(Refused::kNonce) - refused, old - 1);  // the last one answers the newest JOIN
  lost.left = 0;
  rack.expect_healthy();
  EXPECT_NE(rack.membership(0).epoch, before.epoch);
  EXPECT_EQ(rack.counted(0).epochs, 2U);
}

class HazardLeave : public testing::Test {
 protected:
  static void leave(HazardRack& rack) {
    for (const std::uint16_t r : rack.ranks()) {
      rack.worker(r).engine().leave(rack.now());
      rack.worker(r).resume_service();
    }
  }
  static bool all_left(HazardRack& rack) {
    for (const std::uint16_t r : rack.ranks()) {
      if (!rack.worker(r).closed()) return false;
    }
    return true;
  }
  static void expect_left(HazardRack& rack) {
    ASSERT_TRUE(rack.until([&] { return all_left(rack); }));
    for (const std::uint16_t r : rack.ranks())
      EXPECT_EQ(rack.worker(r).engine().why_closed().text(), "left the job");
    EXPECT_EQ(rack.status().phase, members::JobPhase::kEnded);
    EXPECT_EQ(rack.status().slots.count, 0U);
  }
};

// Nobody leaves before everybody has everything: the others must be there to answer, also after a restart.
TEST_F(HazardLeave, leave_with_the_last_result_lost) {
  for (const bool restarts : {false, true}) {
    HazardRack rack({.world = 3});
    rack.join();
    Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{1}});
    const std::size_t sum = rack.reduce(16 * 2);
    leave(rack);
    rack.run_for(2 * kSecond);
    EXPECT_TRUE(rack.done(0, sum));
    EXPECT_FALSE(rack.done(1, sum));
    EXPECT_FALSE(rack.worker(0).closed());
    EXPECT_FALSE(rack.worker(2).closed());
    EXPECT_GE(lost.hits(), 2U);
    if (restarts) rack.box().restart();
    lost.left = 0;
    rack.expect_exact(sum);
    expect_left(rack);
    EXPECT_EQ(rack.counted(0).answers + rack.counted(2).answers != 0, restarts);
  }
}

// The others have all their sums. They end with the job, and only the one that failed comes again: it waits
// for a job that nobody else wants, and is told so.
TEST_F(HazardLeave, a_rank_that_fails_while_the_others_leave) {
  HazardRack rack({.world = 3});
  rack.join();
  rack.change({.worker = 0, .up = false, .type = kResult},
              [](Bytes& frame) { frame.back() ^= std::byte{1}; });
  const std::size_t sum = rack.reduce(16);
  for (const std::uint16_t r : {std::uint16_t{1}, std::uint16_t{2}})
    rack.worker(r).engine().leave(rack.now());
  ASSERT_TRUE(rack.until([&] { return all_left(rack); }));
  rack.expect_exact_at(1, sum);
  rack.expect_exact_at(2, sum);
  EXPECT_NE(rack.error(0, sum).find("three results of chunk 0 were wrong"), std::string::npos);
  for (const std::uint16_t r : {std::uint16_t{1}, std::uint16_t{2}})
    EXPECT_NE(rack.worker(r).engine().why_closed().text().find("rank 0: "), std::string::npos);
  rack.worker(0).program_again();
  rack.run_for(60 * kSecond);
  EXPECT_TRUE(rack.worker(0).waits_to_join());
  EXPECT_EQ(rack.worker(0).engine().missing(), 0b110U);
}

// The barrier's own result is lost to rank 1 for good when the others have left. That they could leave says
// that everybody has everything, and so the next heartbeat's echo sets it free.
TEST_F(HazardLeave, leave_with_the_result_of_the_barrier_lost) {
  HazardRack rack({.world = 3});
  rack.join();
  const Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{2}});
  const std::size_t sum = rack.reduce(16 * 2);
  leave(rack);
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).closed() && rack.worker(2).closed(); }));
  rack.expect_exact(sum);
  EXPECT_FALSE(rack.worker(1).closed());
  EXPECT_EQ(rack.status().phase, members::JobPhase::kDraining);
  EXPECT_TRUE(rack.until([&] { return rack.worker(1).closed(); }, rack.options().lease / 10 + kMillisecond));
  expect_left(rack);
  EXPECT_GE(lost.hits(), 1U);
}

// As before, and then the box forgets its slots: nobody is left to answer. Rank 1 has every sum and only its
// farewell to lose.
TEST_F(HazardLeave, leave_with_the_result_of_the_barrier_lost_and_a_restart) {
  HazardRack rack({.world = 2});
  rack.join();
  Rule& lost = rack.lose({.worker = 1, .up = false, .type = kResult, .chunk = Chunk{2}});
  const std::size_t sum = rack.reduce(16 * 2);
  leave(rack);
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).closed(); }));
  rack.expect_exact(sum);
  rack.box().restart();
  lost.left = 0;
  EXPECT_TRUE(rack.until([&] { return rack.worker(1).closed(); }, rack.options().lease + kSecond));
}

TEST_F(HazardLeave, leave_with_its_echo_lost) {
  HazardRack rack;
  rack.join();
  rack.expect_healthy();
  const Rule& lost = rack.lose({.up = false, .type = PacketType::kLeave}, 4);
  leave(rack);
  expect_left(rack);
  EXPECT_EQ(lost.hits(), 4U);
}

}  // namespace
}  // namespace tally::sim

// Hazards of docs/hazards.md: who is dead, who only seems so, and who claims to be somebody else.
// Invariant 3, without loss: a lease and a second after a death every live member knows it by name.

#include <gtest/gtest.h>

#include <array>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

bool says(const WorkerNode& worker, const std::string& text) {
  return worker.closed() && worker.engine().why_closed().text().find(text) != std::string::npos;
}

// From now on, every one of `who` must be closed with this text within `limit` (0: a lease) and a second.
void expect_told(HazardRack& rack, const std::vector<std::uint16_t>& who, const std::string& text,
                 TimeNs limit = 0) {
  if (limit == 0) limit = rack.options().lease;
  const TimeNs since = rack.now();
  rack.until(
      [&] {
        for (const std::uint16_t r : who) {
          if (!rack.worker(r).closed()) return false;
        }
        return true;
      },
      limit + kSecond);
  for (const std::uint16_t r : who) EXPECT_TRUE(says(rack.worker(r), text)) << rack.worker(r).describe();
  EXPECT_LE(rack.now() - since, limit + kSecond);
}

TEST(Hazard, worker_crash_mid_chunk) {
  HazardRack rack({.world = 4, .first_chunk = Chunk{0xFFFF'FFFDU}});
  rack.join();
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  rack.worker(2).crash();
  EXPECT_FALSE(rack.done(0, sum));
  rack.run_for(kMillisecond);
  EXPECT_GT(rack.box().occupancy(rack.id()), 0U) << "some chunk lacks only rank 2";
  expect_told(rack, {0, 1, 3}, "rank 2 at 10.0.0.3 was silent for 3.0 s");
  for (const std::uint16_t r : {std::uint16_t{0}, std::uint16_t{1}, std::uint16_t{3}})
    EXPECT_NE(rack.error(r, sum).find("rank 2"), std::string::npos);
  rack.run_for(kMillisecond);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
  // A new process and the others' programs begin anew, in another generation from the first chunk.
  const Generation before = rack.membership(0).generation;
  rack.worker(2).start();
  for (const std::uint16_t r : rack.ranks()) rack.worker(r).program_again();
  ASSERT_TRUE(rack.until([&] { return rack.running(); }));
  EXPECT_NE(rack.membership(0).generation, before);
  rack.expect_healthy();
}

// The same for every phase of a job. When the box has restarted at the same moment, two things are added: an
// idle member notices at its next heartbeat, and forming waits for three JOINs however short the lease is.
enum class Phase : std::uint8_t {
  kFirstChunk,
  kMidOperation,
  kIdle,
  kCalledBack,    // after the loss of the slots
  kAdopting,      // after the loss of everything
  kIdleAdopting,  // the same, and only heartbeats notice
  kLeaving
};

struct Death {
  Phase phase;
  TimeNs lease;
};

class HazardDeath : public testing::TestWithParam<Death> {};

std::vector<Death> deaths() {
  std::vector<Death> all;
  for (const TimeNs lease : {kSecond, 2 * kSecond, 3 * kSecond, 10 * kSecond}) {
    for (std::uint8_t phase = 0; phase <= static_cast<std::uint8_t>(Phase::kLeaving); ++phase)
      all.push_back({Phase{phase}, lease});
  }
  return all;
}

std::string death_name(const testing::TestParamInfo<Death>& p) {
  constexpr std::array kNames{"first_chunk", "mid_operation", "idle",   "called_back",
                              "adopting",    "idle_adopting", "leaving"};
  std::string name = kNames.at(static_cast<std::size_t>(p.param.phase));
  name += "_lease_";
  name += std::to_string(p.param.lease / kSecond);
  return name;
}

INSTANTIATE_TEST_SUITE_P(Phases, HazardDeath, testing::ValuesIn(deaths()), death_name);

TEST_P(HazardDeath, every_live_member_knows_within_lease_and_a_second) {
  HazardRack rack({.world = 3, .lease = GetParam().lease});
  rack.join();
  const TimeNs lease = GetParam().lease;
  const TimeNs after_a_restart = std::max(lease, 3 * kSecond) + lease / 10;
  TimeNs limit = lease;
  switch (GetParam().phase) {
    case Phase::kFirstChunk:
      rack.reduce_at(0, 0, 16);
      rack.reduce_at(2, 0, 16);
      rack.run_for(kMillisecond);
      break;
    case Phase::kMidOperation:
      rack.expect_healthy();
      rack.reduce(16 * 1000);
      rack.run_for(300 * kMicrosecond);
      break;
    case Phase::kIdle:
      rack.expect_healthy();
      rack.run_for(10 * kSecond);
      break;
    case Phase::kCalledBack:
      rack.reduce(16 * 1000);
      rack.run_for(300 * kMicrosecond);
      rack.box().restart_data_plane();
      limit = after_a_restart;
      break;
    case Phase::kAdopting:
      rack.reduce(16 * 1000);
      rack.run_for(300 * kMicrosecond);
      rack.box().restart();
      limit = after_a_restart;
      break;
    case Phase::kIdleAdopting:
      rack.expect_healthy();
      rack.run_for(rack.options().lease);
      rack.box().restart();
      limit = after_a_restart;
      break;
    case Phase::kLeaving:
      rack.expect_healthy();
      for (const std::uint16_t r : {std::uint16_t{0}, std::uint16_t{2}}) {
        rack.worker(r).engine().leave(rack.now());
        rack.worker(r).resume_service();
      }
      rack.run_for(10 * kMillisecond);
      break;
  }
  rack.worker(1).crash();
  expect_told(rack, {0, 2}, "rank 1", limit);
}

// Forming for the first time nobody has anything to lose: the others wait, know for whom, and a new process
// takes the place.
TEST(Hazard, worker_crash_while_forming) {
  HazardRack rack({.world = 3});
  rack.worker(0).start();
  rack.worker(1).start();
  rack.run_for(kSecond);
  rack.worker(1).crash();
  rack.run_for(10 * kSecond);
  EXPECT_EQ(rack.worker(0).engine().state(), engine::EngineState::kJoining);
  EXPECT_EQ(rack.worker(0).engine().missing(), 6U);
  rack.join();
  rack.expect_healthy();
}

// A program that has no patience frees its place at once: else the next rank would complete a job with who is gone. Of the
// three copies of its word two are lost.
TEST(Hazard, worker_gives_up_while_forming) {
  HazardRack rack({.world = 2, .rivals = {Rank{1}}});
  rack.worker(1).start();
  rack.run_for(10 * kMillisecond);
  const Rule& lost = rack.lose({.worker = 1, .up = true}, 2);
  rack.worker(1).engine().abort("out of patience", rack.now());
  rack.worker(1).resume_service();
  rack.run_for(200 * kMillisecond);  // as long as a worker that is destroyed waits
  EXPECT_EQ(lost.hits(), 2U);
  rack.worker(0).start();
  rack.run_for(kSecond);
  EXPECT_EQ(rack.worker(0).engine().state(), engine::EngineState::kJoining);
  EXPECT_EQ(rack.worker(0).engine().missing(), 2U);
  rack.rival(0).start();
  EXPECT_TRUE(rack.until([&] { return rack.worker(0).engine_running() && rack.rival(0).engine_running(); }));
}

// The JOINED(running) and its word that it gives up cross: the others hear who is missing from the box, and not of a
// silence.
TEST(Hazard, worker_gives_up_as_the_job_begins) {
  HazardRack rack({.world = 2});
  rack.worker(1).start();
  rack.run_for(10 * kMillisecond);
  const Rule& joined = rack.lose({.worker = 1, .up = false, .type = PacketType::kJoined});
  rack.worker(0).start();
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).engine_running(); }));
  EXPECT_GT(joined.hits(), 0U);
  ASSERT_EQ(rack.worker(1).engine().state(), engine::EngineState::kJoining);
  rack.worker(1).engine().abort("out of patience", rack.now());
  rack.worker(1).resume_service();
  const TimeNs since = rack.now();
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).closed(); }));
  EXPECT_TRUE(says(rack.worker(0), "rank 1 gave up joining"));
  EXPECT_LT(rack.now() - since, 100 * kMillisecond);
}

// The ABORT itself is lost: the next heartbeat asks for it.
TEST(Hazard, worker_crash_and_the_abort_lost) {
  HazardRack rack({.world = 3});
  rack.join();
  rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  rack.worker(1).crash();
  const Rule& lost = rack.lose({.up = false, .type = PacketType::kAbort}, 2);
  expect_told(rack, {0, 2}, "rank 1");
  EXPECT_EQ(lost.hits(), 2U);
}

// A rank that cannot be reached is as good as dead; it knows itself whom it cannot reach.
TEST(Hazard, unreachable_rank) {
  HazardRack rack({.world = 3});
  rack.join();
  rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  rack.lose({.worker = 1});
  const TimeNs since = rack.now();
  expect_told(rack, {0, 2}, "rank 1");
  rack.until([&] { return rack.worker(1).closed(); });
  EXPECT_LE(rack.now() - since, rack.options().lease + kSecond);
  EXPECT_TRUE(says(rack.worker(1), "switch unreachable"));
}

TEST(Hazard, unreachable_switch) {
  HazardRack rack({.world = 3});
  rack.join();
  rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  rack.box().pause(rack.now() + 3600 * kSecond);
  expect_told(rack, {0, 1, 2}, "switch unreachable");
}

// It answers heartbeats and contributes nothing. Only an operation with a timeout minds, and says who.
TEST(Hazard, straggler_and_a_timeout) {
  std::vector<std::int32_t> values(32, 1);
  std::vector<std::int32_t> others(32, 2);
  HazardRack rack({.world = 3});
  rack.join();
  WorkerNode& impatient = rack.worker(0);
  WorkerNode& patient = rack.worker(2);
  const auto with =
      *impatient.engine().allreduce(std::span{values}, rack.now(), {.deadline = rack.now() + 7 * kSecond});
  const auto without = *patient.engine().allreduce(std::span{others}, rack.now());
  impatient.resume_service();
  patient.resume_service();
  rack.run_for(7 * kSecond - kMillisecond);
  EXPECT_EQ(impatient.outcome(with), nullptr);
  ASSERT_TRUE(rack.until([&] { return patient.outcome(without) != nullptr; }, kSecond));
  ASSERT_NE(impatient.outcome(with), nullptr);
  ASSERT_FALSE(impatient.outcome(with)->has_value());
  EXPECT_EQ(impatient.outcome(with)->error().code, ErrorCode::kTimeout);
  EXPECT_NE(impatient.outcome(with)->error().what.find("waiting for rank 1"), std::string::npos);
  ASSERT_FALSE(patient.outcome(without)->has_value());
  EXPECT_NE(patient.outcome(without)->error().what.find("rank 0: operation 1 timed out; waiting for rank 1"),
            std::string::npos);
}

TEST(Hazard, two_workers_one_rank) {
  HazardRack rack({.world = 2, .rivals = {Rank{1}}});
  rack.join();
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  ASSERT_FALSE(rack.done(1, sum));
  rack.rival(0).start();
  rack.expect_exact(sum);
  ASSERT_TRUE(rack.until([&] { return rack.rival(0).closed(); }));
  EXPECT_TRUE(says(rack.rival(0), "rank 1 is held by a live process at 10.0.0.2"));
  EXPECT_EQ(rack.control_drops(members::MembershipDrop::kHeld), 1U);
  EXPECT_EQ(rack.counted(1).epochs, 1U);
  EXPECT_EQ(rack.counted(1).joins, rack.counted(0).joins);
  rack.expect_healthy();
}

TEST(Hazard, two_workers_one_rank_while_forming) {
  HazardRack rack({.world = 2, .rivals = {Rank{1}}});
  rack.worker(1).start();
  rack.run_for(10 * kMillisecond);
  rack.rival(0).start();
  ASSERT_TRUE(rack.until([&] { return rack.rival(0).closed(); }));
  EXPECT_TRUE(says(rack.rival(0), "rank 1 is held by a live process at 10.0.0.2"));
  rack.join();
  rack.expect_healthy();
}

// The first is called back to a new epoch when the second comes.
TEST(Hazard, two_workers_one_rank_while_called_back) {
  HazardRack rack({.world = 2, .rivals = {Rank{1}}});
  rack.join();
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  rack.worker(1).pause(rack.now() + kSecond);
  rack.box().restart_data_plane();
  rack.rival(0).start();
  ASSERT_TRUE(rack.until([&] { return rack.rival(0).closed(); }));
  EXPECT_TRUE(says(rack.rival(0), "rank 1 is held by a live process"));
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(1).generations, 1U);
}

// The rival after the first is dead gets its place when the lease is over.
TEST(Hazard, two_workers_one_rank_one_of_them_dead) {
  HazardRack rack({.world = 2, .rivals = {Rank{1}}});
  rack.join();
  rack.worker(1).crash();
  rack.rival(0).start();
  rack.run_for(kSecond);
  EXPECT_TRUE(says(rack.rival(0), "is held by a live process"));
  rack.run_for(3 * kSecond);
  EXPECT_TRUE(says(rack.worker(0), "rank 1"));
  rack.rival(0).program_again();
  rack.worker(0).program_again();
  EXPECT_TRUE(rack.until([&] { return rack.rival(0).engine_running() && rack.worker(0).engine_running(); }));
}

// A JOIN of the present process comes again, late: it is known for what it is.
TEST(Hazard, replayed_join_changes_nothing) {
  HazardRack rack({.world = 2});
  const Rule& joins = rack.record({.worker = 1, .up = true, .type = PacketType::kJoin});
  rack.join();
  rack.box().restart_data_plane();
  ASSERT_TRUE(rack.until([&] { return rack.counted(0).epochs == 2 && rack.counted(1).epochs == 2; }));
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  const std::size_t said = joins.hits();
  rack.replay(joins, 1, true);
  // All but the first, which brought no challenge, and which is told so again.
  EXPECT_EQ(rack.control_drops(members::MembershipDrop::kOldAttempt), said - 1);
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(1).epochs, 2U);
  EXPECT_EQ(rack.counted(0).of(Refused::kState), 0U);
}

// The box forgets everything while one rank is replaced: the others bring a generation, the new process none.
// It cannot go on.
TEST(Hazard, worker_replaced_while_the_box_restarts) {
  HazardRack rack({.world = 3});
  rack.join();
  const Generation before = rack.membership(0).generation;
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  rack.worker(1).crash();
  rack.box().restart();
  rack.worker(1).start();
  ASSERT_TRUE(rack.until([&] { return rack.failed(0, sum) && rack.failed(2, sum); }));
  EXPECT_NE(rack.error(0, sum).find("new generation"), std::string::npos) << rack.error(0, sum);
  ASSERT_TRUE(rack.until([&] { return rack.running(); }));
  for (const std::uint16_t r : rack.ranks()) EXPECT_NE(rack.membership(r).generation, before);
  rack.expect_healthy();
}

// A worker gives up before the box has heard anything of it, and its ABORT is lost: control takes the JOIN of
// its program's second try for one whose JOINED was lost. It must not come back into what it gave up.
TEST(Hazard, local_abort_lost_and_joined_again) {
  HazardRack rack({.world = 2});
  rack.join();
  const Generation before = rack.membership(0).generation;
  Rule& lost = rack.lose({.worker = 1, .up = true});
  const std::size_t given_up = rack.reduce(16 * 40);
  rack.run_for(50 * kMillisecond);
  rack.worker(1).engine().abort("interrupted", rack.now());
  rack.worker(1).resume_service();
  rack.run_for(50 * kMillisecond);
  lost.left = 0;
  rack.worker(1).program_again();
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).closed(); }));
  EXPECT_NE(rack.error(0, given_up).find("rank 1: gave up its membership"), std::string::npos);
  rack.worker(0).program_again();
  ASSERT_TRUE(rack.until([&] { return rack.running(); }));
  EXPECT_NE(rack.membership(0).generation, before);
  EXPECT_EQ(rack.membership(1).generation, rack.membership(0).generation);
  rack.expect_healthy();
}

// An aborted worker's late contributions find no job: REJECT, and nothing else.
TEST(Hazard, contributions_after_an_abort) {
  HazardRack rack({.world = 2});
  rack.join();
  const Rule& sent = rack.record({.worker = 0, .up = true, .type = kContribution});
  const std::size_t sum = rack.reduce(16 * 400);
  rack.run_for(200 * kMicrosecond);
  rack.worker(1).engine().abort("out of patience", rack.now());
  rack.worker(1).resume_service();
  ASSERT_TRUE(rack.until([&] { return rack.worker(0).closed(); }));
  EXPECT_EQ(rack.error(0, sum), "job0: rank 1: aborted here: out of patience");
  rack.run_for(kSecond);
  const std::uint64_t before = rack.box().counters(JobId{0}).of(Drop::kJob);
  const std::size_t many = sent.hits();
  rack.replay(sent, 0, true);
  EXPECT_EQ(rack.box().counters(JobId{0}).of(Drop::kJob) - before, many);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
}

}  // namespace
}  // namespace tally::sim

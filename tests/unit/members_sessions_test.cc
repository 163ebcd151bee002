// Sessions of SwitchML's clients beside native jobs: declared, admitted, published, withdrawn.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

members::ConfiguredMember member(std::uint16_t rank, std::uint8_t host,
                                 std::uint16_t port = switchml::kBasePort) {
  return {rank, {2, 0, 0, 0, 0, host}, {10, 0, 0, host}, port};
}

// Ranks 0, 1, ... at the hosts from first_host on.
members::SessionConfig session_of(std::uint16_t members, const std::string& name = "legacy",
                                  std::uint8_t first_host = 11, std::uint32_t slots = 64) {
  members::SessionConfig c;
  c.name = name;
  c.slots = slots;
  for (std::uint16_t r = 0; r < members; ++r)
    c.members.push_back(member(r, static_cast<std::uint8_t>(first_host + r)));
  return c;
}

struct MembersSessions : testing::Test {
  JobId declare(members::SessionConfig config) {
    const auto id = bench.members->declare(std::move(config));
    EXPECT_TRUE(id) << (id ? "" : id.error().text());
    return id.value_or(JobId{});
  }
  std::string refused(members::SessionConfig config) {
    const auto id = bench.members->declare(std::move(config));
    EXPECT_FALSE(id);
    return id ? "" : id.error().text();
  }
  // The only lines freed since the last call.
  jobs::FreedLines only_freed() {
    EXPECT_EQ(bench.freed.size(), 1U);
    const jobs::FreedLines freed = bench.freed.empty() ? jobs::FreedLines{} : bench.freed.back();
    bench.freed.clear();
    return freed;
  }
  [[nodiscard]] members::JobPhase phase(JobId id) const { return bench.status(id).phase; }

  Bench bench{65'536, 4};
};

TEST_F(MembersSessions, AResetIsAnotherEpochInTheSameMemory) {
  const JobId id = declare(session_of(2));
  bench.settle();
  const members::JobStatus before = bench.status(id);
  bench.freed.clear();
  EXPECT_TRUE(bench.members->reset_session("legacy", bench.now));
  EXPECT_EQ(phase(id), members::JobPhase::kForming) << "the cores have the old row";
  EXPECT_THAT(bench.settle(), IsEmpty());
  const members::JobStatus after = bench.status(id);
  EXPECT_EQ(after.phase, members::JobPhase::kRunning);
  EXPECT_NE(after.epoch, before.epoch);
  EXPECT_EQ(after.slots, before.slots);
  EXPECT_TRUE(bench.freed.empty());
}

TEST_F(MembersSessions, OnlyASessionIsReset) {
  EXPECT_THAT(bench.members->reset_session("legacy", bench.now).error().text(),
              HasSubstr("no job of this name"));
  EXPECT_TRUE(bench.members->declare(config_of(2)));
  EXPECT_THAT(bench.members->reset_session("resnet", bench.now).error().text(),
              HasSubstr("it is no session"));
}

TEST_F(MembersSessions, RunsFromItsDeclarationAndNobodyIsTold) {
  const JobId id = declare(session_of(3));
  EXPECT_EQ(phase(id), members::JobPhase::kForming) << "the cores do not have the row yet";
  EXPECT_THAT(bench.settle(), IsEmpty());
  EXPECT_EQ(phase(id), members::JobPhase::kRunning);
  EXPECT_THAT(bench.advance(3'600 * kSecond), IsEmpty());
  EXPECT_EQ(phase(id), members::JobPhase::kRunning) << "no lease";
}

TEST_F(MembersSessions, TheRowSaysWhatTheConfigurationSays) {
  members::SessionConfig config = session_of(17, "legacy", 11, 100);
  config.payload = 256;
  config.tsi = jobs::TsiRule::kOpaque;
  config.members[3].port = 48870;
  std::swap(config.members[0], config.members[5]);  // they may stand in any order
  declare(session_of(1, "first", 200));
  const JobId id = declare(config);
  bench.settle();
  const jobs::SessionJob* const row = bench.session(id);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->id, id);
  EXPECT_EQ(row->payload, 256);
  EXPECT_EQ(row->tsi, jobs::TsiRule::kOpaque);
  EXPECT_EQ(row->slot_count, 100U);
  EXPECT_EQ(row->home, raw(id) % 4);
  EXPECT_EQ(row->elements, 64);
  EXPECT_EQ(row->world, 17);
  EXPECT_EQ(row->members, 0x1FFFFU);
  EXPECT_EQ(row->slots.count, jobs::session_lines(100, 17, 256));
  for (std::uint16_t r = 0; r < 17; ++r) {
    const jobs::Binding& binding = row->ranks.at(r).binding;
    EXPECT_EQ(binding.mac, (Mac{2, 0, 0, 0, 0, static_cast<std::uint8_t>(11 + r)}));
    EXPECT_EQ(binding.address, mapped({10, 0, 0, static_cast<std::uint8_t>(11 + r)}));
    EXPECT_EQ(binding.udp_port, r == 3 ? 48870 : 48864);
    EXPECT_NE(raw(row->ranks.at(r).cookie), 0U);
  }
}

TEST_F(MembersSessions, TheLower24BitsOfAnEpochAreNotZeroAndItsOwn) {
  // The source of random words says the same thing again and again, with lower bits 0.
  bench.members.emplace(bench.options, [] { return std::uint64_t{0x0700'0000}; });
  std::set<std::uint32_t> bits;
  for (std::uint8_t i = 0; i < 10; ++i) {
    const JobId id = declare(session_of(1, "s" + std::to_string(i), static_cast<std::uint8_t>(11 + i)));
    bench.settle();
    bits.insert(raw(bench.session(id)->epoch) & 0xFF'FFFFU);
  }
  EXPECT_EQ(bits.size(), 10U);
  EXPECT_FALSE(bits.contains(0));
}

TEST_F(MembersSessions, WithoutRoomItStaysDeclaredWithTheNumbersAndRunsWhenLinesAreFreed) {
  const JobId first = declare(session_of(2, "first", 11, 1'500));
  bench.settle();
  const JobId second = declare(session_of(2, "second", 21, 1'500));
  bench.settle();
  EXPECT_EQ(phase(second), members::JobPhase::kDeclared);
  EXPECT_EQ(bench.session(second), nullptr);
  EXPECT_EQ(bench.status(second).slots.count, 0U);
  // 2 x 1500 entries of 18 lines are 3,375 KiB, of 4 MiB.
  EXPECT_EQ(
      bench.status(second).reason,
      "admission: 1500 slots of 1024 bytes for 2 members take 3375 KiB of slot memory per core; 721 KiB "
      "of 4096 KiB are free, the largest hole has 721 KiB: raise dataplane.slots, lower slots, or give "
      "other jobs less. Tried again when some come free");
  EXPECT_EQ(bench.status(second).session->lacks, members::SessionLacks::kRoom);
  const jobs::LineRange lines = bench.status(first).slots;
  ASSERT_TRUE(bench.members->withdraw("first"));
  bench.advance(0);
  EXPECT_EQ(phase(second), members::JobPhase::kRunning);
  EXPECT_EQ(bench.status(second).reason, "");
  EXPECT_EQ(bench.status(second).session->lacks, members::SessionLacks::kNothing);
  EXPECT_EQ(bench.status(second).slots, lines);
  EXPECT_EQ(only_freed().lines, lines) << "zeroed before the second has them";
}

TEST_F(MembersSessions, ANativeJobsLinesAreTakenWhenItEnds) {
  bench.declare(config_of(1));
  std::vector<Peer> peers{Peer(0, 1)};
  ASSERT_TRUE(bench.form(peers));
  const JobId id = declare(session_of(2, "legacy", 11, 1'800));
  bench.settle();
  EXPECT_EQ(phase(id), members::JobPhase::kDeclared);
  bench.send(peers[0], peers[0].leave());
  bench.advance(0);
  EXPECT_EQ(phase(id), members::JobPhase::kRunning);
}

// Neither does it call pools back, nor do jobs of higher priority take its lines.
TEST_F(MembersSessions, NeitherTakesSlotMemoryByPriorityNorGivesAny) {
  members::NativeConfig urgent = config_of(1);
  urgent.priority = 254;
  const JobId pool = bench.declare(urgent);
  const JobId id = declare(session_of(2, "legacy", 11, 1'800));
  bench.settle();
  std::vector<Peer> peers{Peer(0, 1)};
  ASSERT_TRUE(bench.form(peers)) << "with the window that is left";
  EXPECT_LT(bench.status(pool).window, bench.status(pool).wanted_window);
  EXPECT_EQ(phase(id), members::JobPhase::kRunning);
  const Epoch epoch = bench.status(pool).epoch;
  const JobId late = declare(session_of(2, "late", 31, 64));
  bench.settle();
  EXPECT_EQ(phase(late), members::JobPhase::kDeclared);
  EXPECT_EQ(bench.status(pool).epoch, epoch);
  EXPECT_EQ(phase(pool), members::JobPhase::kRunning);
}

// What a pool gives is for the job that asked for it.
TEST_F(MembersSessions, WaitsWhileAJobOfHigherPriorityHasPoolsCalledBack) {
  Bench small(2'000);
  bench = std::move(small);
  members::NativeConfig bulk = config_of(1, "bulk");
  bulk.priority = 1;
  bulk.window = 32;  // 64 entries of 23 lines
  members::NativeConfig urgent = config_of(1, "urgent");
  urgent.window = 32;
  bench.declare(bulk);
  const JobId taker = bench.declare(urgent);
  std::vector<Peer> bulks{Peer(0, 1)};
  std::vector<Peer> urgents{Peer(1, 1)};
  bulks[0].job = "bulk";
  urgents[0].job = "urgent";
  urgents[0].rank = 0;
  ASSERT_TRUE(bench.form(bulks));
  EXPECT_FALSE(bench.form(urgents)) << "bulk is called back first";
  const JobId id = declare(session_of(1, "legacy", 11, 4));  // 144 lines, and 528 are free
  bench.settle();
  EXPECT_EQ(phase(id), members::JobPhase::kDeclared);
  EXPECT_EQ(bench.status(id).reason, "admission: waits until job 'urgent' has its slot memory");
  EXPECT_EQ(bench.status(id).session->lacks, members::SessionLacks::kTurn);
  bench.form(bulks);
  bench.advance(0);
  EXPECT_EQ(phase(taker), members::JobPhase::kRunning);
  EXPECT_EQ(phase(id), members::JobPhase::kRunning);
}

TEST_F(MembersSessions, WithdrawClearsTheRowAndFreesItsLines) {
  const JobId id = declare(session_of(3));
  bench.settle();
  const jobs::LineRange lines = bench.status(id).slots;
  ASSERT_TRUE(bench.members->withdraw("legacy"));
  EXPECT_THAT(bench.settle(), IsEmpty()) << "its clients know no farewell";
  EXPECT_EQ(bench.session(id), nullptr);
  EXPECT_FALSE(bench.members->status(id, bench.now).has_value());
  const jobs::FreedLines freed = only_freed();
  EXPECT_EQ(freed.job, id);
  EXPECT_EQ(freed.lines, lines);
  EXPECT_EQ(freed.elements, 256);
  EXPECT_EQ(freed.members, 0b111U);
  EXPECT_EQ(freed.in_front, jobs::session_front_lines(3));
  EXPECT_FALSE(bench.members->withdraw("legacy"));
}

TEST_F(MembersSessions, OfAnOpaqueSessionTheCoresOnlyZeroTheLines) {
  members::SessionConfig config = session_of(2);
  config.tsi = jobs::TsiRule::kOpaque;
  declare(config);
  bench.settle();
  ASSERT_TRUE(bench.members->withdraw("legacy"));
  bench.settle();
  EXPECT_EQ(only_freed().elements, 0);
}

TEST_F(MembersSessions, ASessionThatNeverHadRoomFreesNothing) {
  const JobId id = declare(session_of(2, "huge", 11, 16'384));
  bench.settle();
  EXPECT_EQ(phase(id), members::JobPhase::kDeclared);
  ASSERT_TRUE(bench.members->withdraw("huge"));
  bench.settle();
  EXPECT_THAT(bench.freed, IsEmpty());
}

TEST_F(MembersSessions, SeveralHaveIdsNamesAndLinesOfTheirOwn) {
  const JobId native = bench.declare(config_of(2));
  const JobId a = declare(session_of(2, "a", 11));
  const JobId b = declare(session_of(2, "b", 21));
  bench.settle();
  EXPECT_EQ((std::set<JobId>{native, a, b}).size(), 3U);
  EXPECT_THAT(refused(session_of(1, "a", 31)), HasSubstr("a job of this name is declared already"));
  EXPECT_THAT(refused(session_of(1, "resnet", 31)), HasSubstr("a job of this name is declared already"));
  EXPECT_FALSE(bench.members->declare(config_of(2, "b")));
  const jobs::LineRange one = bench.session(a)->slots;
  const jobs::LineRange other = bench.session(b)->slots;
  EXPECT_TRUE(one.first + one.count <= other.first || other.first + other.count <= one.first);
  ASSERT_TRUE(bench.members->withdraw("a"));
  bench.settle();
  EXPECT_EQ(phase(b), members::JobPhase::kRunning) << "what one does is nothing to the other";
  EXPECT_NE(bench.session(b), nullptr);
}

TEST_F(MembersSessions, KeepsItsIdWhenTheNumbersComeRound) {
  const JobId id = declare(session_of(2));
  for (std::uint32_t i = 0; i < kMaxJobs; ++i) {
    const auto other = bench.members->declare(config_of(1, "other"));
    ASSERT_TRUE(other);
    ASSERT_NE(*other, id);
    ASSERT_TRUE(bench.members->withdraw("other"));
  }
  EXPECT_EQ(bench.status(id).name, "legacy");
}

TEST_F(MembersSessions, AMemberOfTwoSessionsIsRefusedByTheNameOfTheOther) {
  declare(session_of(3, "a", 11));
  EXPECT_EQ(refused(session_of(2, "b", 12)),
            "job 'b': rank 0 has the addresses of rank 1 of job 'a': a packet could be of either");
  members::SessionConfig other_port = session_of(2, "b", 12);
  for (auto& m : other_port.members) m.port = 48865;
  declare(other_port);
  ASSERT_TRUE(bench.members->withdraw("a"));
  declare(session_of(1, "c", 11));
}

TEST_F(MembersSessions, AJoinForItsNameIsToldWhatItIs) {
  declare(session_of(2));
  Peer stranger(0);
  stranger.job = "legacy";
  const Sent sent = only(bench.send(stranger, stranger.join()), PacketType::kJoined, stranger);
  EXPECT_EQ(sent.status(), JoinStatus::kRefused);
  EXPECT_THAT(sent.text(), HasSubstr("job 'legacy' is a session of SwitchML's clients (dialect: switchml)"));
  EXPECT_EQ(bench.members->counters().of(members::MembershipDrop::kUnknownJob), 1U);
}

TEST_F(MembersSessions, NativePacketsWithItsIdAreRejected) {
  const JobId id = declare(session_of(2));
  bench.settle();
  Peer stranger(0);
  stranger.job_id = raw(id);
  stranger.epoch = raw(bench.status(id).epoch);
  for (const Bytes& packet : {stranger.heartbeat(), stranger.leave(), stranger.abort("no")})
    EXPECT_TRUE(bench.send(stranger, packet).empty());
  EXPECT_EQ(bench.members->counters().of(members::MembershipDrop::kJob), 3U);
  bench.members->report_mismatch(id, bench.status(id).epoch, Rank{0}, 2, 16, 32, 1, 2, bench.now);
  EXPECT_FALSE(bench.members->resize("legacy", 64, bench.now));
  EXPECT_EQ(phase(id), members::JobPhase::kRunning);
}

TEST_F(MembersSessions, ADataPlaneThatStartsAnewGetsANewEpoch) {
  const JobId id = declare(session_of(2));
  bench.settle();
  const Epoch epoch = bench.status(id).epoch;
  const jobs::LineRange lines = bench.status(id).slots;
  bench.members->restart_data_plane(bench.now);
  EXPECT_EQ(phase(id), members::JobPhase::kForming);
  bench.settle();
  EXPECT_EQ(phase(id), members::JobPhase::kRunning);
  EXPECT_NE(bench.session(id)->epoch, epoch);
  EXPECT_EQ(bench.session(id)->slots, lines);
}

TEST_F(MembersSessions, AClosedBoxEndsItAtOnce) {
  const JobId id = declare(session_of(2));
  bench.settle();
  EXPECT_EQ(bench.members->close("the box is shutting down"), 0U);
  EXPECT_THAT(bench.settle(), IsEmpty());
  EXPECT_EQ(bench.session(id), nullptr);
  EXPECT_EQ(only_freed().job, id);
}

TEST_F(MembersSessions, ShowsWhenEachRankWasLastSeen) {
  const JobId id = declare(session_of(2));
  bench.saw(id, Rank{0}, bench.now);
  bench.settle();
  EXPECT_EQ(bench.status(id).live, 0U) << "nobody since it runs";
  bench.advance(kSecond);
  bench.saw(id, Rank{1}, bench.now);
  const members::JobStatus status = bench.status(id);
  ASSERT_EQ(status.ranks.size(), 2U);
  EXPECT_EQ(status.ranks[1].last_seen, bench.now);
  EXPECT_EQ(status.ranks[0].last_seen, bench.now - kSecond);
  EXPECT_EQ(status.live, 0b10U);
  EXPECT_EQ(status.ranks[1].binding.address, mapped({10, 0, 0, 12}));
  EXPECT_EQ(status.session,
            (members::SessionStatus{1024, 64, jobs::TsiRule::kPacket, 1, bench.options.box_mac,
                                    members::SessionLacks::kNothing, members::SessionConfig::kSystem}));
  EXPECT_EQ(status.world, 2);
}

}  // namespace
}  // namespace tally::members_test

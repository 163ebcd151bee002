// Jobs that share slots: what rows and JOINED say, ledgers, reservations, caps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members/room.h"
#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

// Two jobs of two workers; those of the second sit behind other ports.
struct Sharers : Bench {
  Sharers(const members::MembershipOptions& o, const members::NativeConfig& a, const members::NativeConfig& b)
      : Bench(o) {
    first = declare(a);
    second = declare(b);
    for (auto& p : as) p.job = a.name;
    for (auto& p : bs) {
      p.job = b.name;
      p.binding.udp_port = static_cast<std::uint16_t>(p.binding.udp_port + 100);
    }
  }
  JobId first{};
  JobId second{};
  std::vector<Peer> as{Peer(0), Peer(1)};
  std::vector<Peer> bs{Peer(0), Peer(1)};
};

TEST(MembersShared, TheRowSaysHowTheJobShares) {
  Bench bench(shared_box(0, 100, 2));
  members::NativeConfig config = sharer_of(2, Discipline::kPreemptive);
  config.decay = Decay::kDenial;
  config.quota = {.reserved_ppm = 255'000, .weight = 2, .cap_ppm = 509'999};
  const JobId id = bench.declare(config);
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  const jobs::NativeJob& row = *bench.row(id);
  EXPECT_EQ(row.discipline, Discipline::kPreemptive);
  EXPECT_EQ(row.server, ServerKind::kEmbedded);
  EXPECT_EQ(row.decay, Decay::kDenial);
  EXPECT_EQ(row.shared_slots, 200U);
  EXPECT_EQ(row.reserved, 25U);  // of the 100 of each core
  EXPECT_EQ(bench.table->cap(id), 50U);
  EXPECT_EQ(row.slots, jobs::LineRange{});
  EXPECT_EQ(row.window, 256U);
  EXPECT_EQ(bench.status(id).discipline, Discipline::kPreemptive);
  EXPECT_EQ(bench.status(id).reserved, 25U);
  EXPECT_EQ(bench.status(id).cap, 50U);
}

TEST(MembersShared, JoinedTellsTheWorkerWhereItsSlotsLie) {
  Bench bench(shared_box(0, 100, 2));
  const JobId id = bench.declare(sharer_of(2, Discipline::kFcfs));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  bench.send(peers[0], peers[0].join());
  const auto running = [&](std::vector<Sent> sent) {
    std::erase_if(sent, [](const Sent& s) {
      return s.type() != PacketType::kJoined || s.status() != JoinStatus::kRunning;
    });
    Bench::take(peers[0], sent);
    Bench::take(peers[1], sent);
    return only(sent, PacketType::kJoined, peers[1]).joined();
  };
  const JoinedPayload joined = running(bench.send(peers[1], peers[1].join()));
  EXPECT_EQ(joined.discipline, Discipline::kFcfs);
  EXPECT_EQ(joined.shared_slots.host(), 200U);
  EXPECT_EQ(joined.salt.host(), bench.row(id)->salt);
  bench.members->restart_data_plane(bench.now);
  bench.settle();
  bench.send(peers[0], peers[0].join());
  const JoinedPayload again = running(bench.send(peers[1], peers[1].join()));
  EXPECT_NE(again.salt.host(), joined.salt.host());
  EXPECT_EQ(again.salt.host(), bench.row(id)->salt);
}

TEST(MembersShared, APoolBesideSharedSlotsKnowsNothingOfThem) {
  Bench bench(shared_box(jobs::pool_lines(16, 1, 352), 100));
  const JobId id = bench.declare(config_of(2));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.row(id)->slots, (jobs::LineRange{0, jobs::pool_lines(16, 1, 352)}));
  EXPECT_EQ(bench.row(id)->shared_slots, 0U);
  EXPECT_EQ(bench.table->cap(id), 0U);
  EXPECT_EQ(bench.row(id)->server, ServerKind::kNone);
}

TEST(MembersShared, TheLedgerLiesInFrontOfTheSharedRegionAndItsWindowIsHalvedToFit) {
  const std::uint32_t room = jobs::ledger_lines(2 * 64, 2) + 3;
  Bench bench(shared_box(room, 100, 2));
  const JobId id = bench.declare(sharer_of(2, Discipline::kShared));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.row(id)->window, 64U);
  EXPECT_EQ(bench.row(id)->span, 128U);
  EXPECT_EQ(bench.row(id)->slots, (jobs::LineRange{0, jobs::ledger_lines(128, 2)}));
}

TEST(MembersShared, ALedgerThatDoesNotFitIsRefusedWithNumbers) {
  Bench bench(shared_box(jobs::ledger_lines(2 * 16, 1) - 1, 100));
  bench.declare(sharer_of(2, Discipline::kShared));
  Peer a(0);
  Peer b(1);
  bench.send(a, a.join());
  const auto sent = bench.send(b, b.join());
  EXPECT_EQ(
      only(sent, PacketType::kJoined, a).text(),
      "admission: job 'resnet' needs 1 KiB of slot memory per core for the ledger of a window of 16 chunks; "
      "1 KiB of 1 KiB are free, the largest hole has 1 KiB: raise dataplane.slots or give other jobs less");
}

// The window may shrink within a generation, the span may not: packets of all its chunks are under way.
TEST(MembersShared, TheLedgerCoversTheLargestWindowOfTheGeneration) {
  Bench bench(shared_box(65'536, 100));
  const JobId id = bench.declare(sharer_of(2, Discipline::kShared));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  bench.jobs[0].window = 64;
  bench.forget_everything();
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.row(id)->window, 64U);
  EXPECT_EQ(bench.row(id)->span, 512U);
  EXPECT_EQ(bench.row(id)->slots.count, jobs::ledger_lines(512, 1));
}

TEST(MembersShared, TheLedgerIsZeroedWithEveryNewEpochAlsoWhereItStays) {
  Bench bench(shared_box(65'536, 100));
  const JobId id = bench.declare(sharer_of(2, Discipline::kShared));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  EXPECT_TRUE(bench.freed.empty());
  const jobs::LineRange ledger = bench.row(id)->slots;
  for (Peer& p : peers) p.next = 1U << 29U;
  bench.send(peers[0], peers[0].heartbeat());  // half way round: a new epoch
  ASSERT_EQ(bench.row(id), nullptr);
  EXPECT_TRUE(bench.freed.empty());
  bench.send(peers[0], peers[0].join());
  EXPECT_TRUE(bench.freed.empty());
  bench.members->receive(bench.with_challenge(peers[1], peers[1].join()), peers[1].binding, bench.now);
  const auto publication = bench.members->publication();
  ASSERT_TRUE(publication);
  ASSERT_NE(publication->table->find(id), nullptr);
  EXPECT_EQ(publication->table->find(id)->slots, ledger);
  ASSERT_EQ(publication->freed.size(), 1U);
  EXPECT_EQ(publication->freed[0].job, id);
  EXPECT_EQ(publication->freed[0].elements, 0);
  EXPECT_EQ(publication->freed[0].lines, ledger);
}

TEST(MembersShared, TheLedgerIsZeroedWhenItIsGivenBack) {
  Bench bench(shared_box(65'536, 100));
  const JobId id = bench.declare(sharer_of(2, Discipline::kShared));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  const jobs::LineRange ledger = bench.row(id)->slots;
  for (const Peer& p : peers) bench.send(p, p.leave());
  ASSERT_EQ(bench.freed.size(), 1U);
  EXPECT_EQ(bench.freed[0].elements, 0);
  EXPECT_EQ(bench.freed[0].lines, ledger);
  EXPECT_EQ(bench.status(id).cap, 0U);
}

TEST(MembersShared, JobsByHashNeedNoMemoryOfTheirOwn) {
  Sharers box(shared_box(0, 100), sharer_of(2, Discipline::kFcfs, "a"),
              sharer_of(2, Discipline::kPreemptive, "b"));
  EXPECT_TRUE(box.form(box.as));
  EXPECT_TRUE(box.form(box.bs));
  for (const auto& p : box.as) box.send(p, p.leave());
  EXPECT_TRUE(box.freed.empty());
}

TEST(MembersShared, AGenerationOfLargerPacketsThanTheBoxNowHoldsIsRefused) {
  Bench bench(shared_box(65'536, 100));
  bench.declare(sharer_of(2, Discipline::kShared));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  bench.options = shared_box(65'536, 100, 1, 256);
  bench.jobs[0].elements = 256;
  bench.forget_everything();
  bench.send(peers[0], peers[0].join());
  const auto sent = bench.send(peers[1], peers[1].join());
  for (const Peer& p : peers) {
    EXPECT_EQ(
        only(sent, PacketType::kJoined, p).text(),
        "admission: job 'resnet' goes on with packets of 352 elements, and a shared slot holds 256: raise "
        "dataplane.shared.elements, or start its workers anew");
  }
}

TEST(MembersShared, ReservationsBeyondTheRegionAreRefusedAndComeBack) {
  members::NativeConfig a = sharer_of(2, Discipline::kShared, "a");
  a.quota.reserved_ppm = 600'000;
  members::NativeConfig b = sharer_of(2, Discipline::kFcfs, "b");
  b.quota.reserved_ppm = 410'000;
  Sharers box(shared_box(65'536, 100), a, b);
  ASSERT_TRUE(box.form(box.as));
  box.send(box.bs[0], box.bs[0].join());
  const auto sent = box.send(box.bs[1], box.bs[1].join());
  EXPECT_EQ(
      only(sent, PacketType::kJoined, box.bs[0]).text(),
      "admission: job 'b' reserves 41 of the 100 shared slots of each core, and 60 are reserved for other "
      "jobs: lower quota.reserved or raise dataplane.shared.slots");
  EXPECT_EQ(box.row(box.second), nullptr);
  for (const auto& p : box.as) box.send(p, p.leave());
  ASSERT_TRUE(box.form(box.bs));
  EXPECT_EQ(box.row(box.second)->reserved, 41U);
}

// A re-forming job keeps its reservation: its workers are on their way back.
TEST(MembersShared, WhoFormsAnewDoesNotCountItsOwnReservation) {
  members::NativeConfig a = sharer_of(2, Discipline::kShared, "a");
  a.quota.reserved_ppm = 1'000'000;
  Sharers box(shared_box(65'536, 100), a, sharer_of(2, Discipline::kFcfs, "b"));
  ASSERT_TRUE(box.form(box.as));
  box.members->restart_data_plane(box.now);
  box.settle();
  EXPECT_EQ(box.status(box.first).reserved, 100U);
  ASSERT_TRUE(box.form(box.as));
  ASSERT_TRUE(box.form(box.bs));
}

TEST(MembersShared, CapsFollowTheDemand) {
  Sharers box(shared_box(65'536, 1'000), sharer_of(2, Discipline::kShared, "a"),
              sharer_of(2, Discipline::kShared, "b"));
  ASSERT_TRUE(box.form(box.as));
  ASSERT_TRUE(box.form(box.bs));
  const auto caps = [&](std::vector<members::SharedDemand> demand) {
    box.members->rebalance(demand);
    EXPECT_TRUE(box.settle().empty()) << "nobody is told of a cap";
    return std::pair(box.table->cap(box.first), box.table->cap(box.second));
  };
  EXPECT_EQ(caps({{box.first, 700, false}, {box.second, 100, false}}), std::pair(900U, 500U));
  EXPECT_EQ(caps({{box.first, 890, true}, {box.second, 200, false}}), std::pair(800U, 500U));
  EXPECT_EQ(caps({{box.first, 900, true}, {box.second, 500, true}}), std::pair(500U, 500U));
  const Epoch epoch = box.row(box.first)->epoch;
  EXPECT_EQ(caps({{box.first, 100, false}}), std::pair(1'000U, 900U));
  EXPECT_EQ(box.row(box.first)->epoch, epoch);
  EXPECT_EQ(box.status(box.second).cap, 900U);
}

// A class is bounded by those beside and above it, and by what is reserved below it; by nothing else that is
// wanted below.
TEST(MembersShared, CapsAreStrictByClass) {
  members::NativeConfig bulk = sharer_of(2, Discipline::kShared, "bulk");
  bulk.priority = 100;
  bulk.quota.reserved_ppm = 250'000;
  members::NativeConfig urgent = sharer_of(2, Discipline::kShared, "urgent");
  urgent.priority = 254;
  Sharers box(shared_box(65'536, 1'000), bulk, urgent);
  ASSERT_TRUE(box.form(box.as));
  ASSERT_TRUE(box.form(box.bs));
  box.members->rebalance(std::vector<members::SharedDemand>{{box.first, 900, true}, {box.second, 100, true}});
  EXPECT_TRUE(box.settle().empty());
  EXPECT_EQ(box.table->cap(box.second), 750U);
  EXPECT_EQ(box.table->cap(box.first), 500U);
}

// The table that the cores have says it at once, and the row is the one they had.
TEST(MembersShared, ACapChangesWithoutANewRow) {
  Sharers box(shared_box(65'536, 1'000), sharer_of(2, Discipline::kShared, "a"),
              sharer_of(2, Discipline::kShared, "b"));
  ASSERT_TRUE(box.form(box.as));
  ASSERT_TRUE(box.form(box.bs));
  const auto table = box.table;
  const std::uint64_t version = box.version;
  const auto cap = [&](std::uint32_t held_by_the_other) {
    box.members->rebalance({{{box.first, 0, true}, {box.second, held_by_the_other, false}}});
    box.settle();
    return table->cap(box.first);
  };
  EXPECT_EQ(cap(100), 900U);
  EXPECT_EQ(cap(101), 899U) << "a little is followed too";
  EXPECT_EQ(cap(300), 700U);
  EXPECT_EQ(box.version, version);
  EXPECT_EQ(box.table, table);
}

// A core may still use the table of an epoch before, or of a job that is gone.
TEST(MembersShared, AnOldTableOutlivesTheMembershipThatMadeItWithItsCaps) {
  Bench bench(shared_box(0, 100));
  const JobId id = bench.declare(sharer_of(2, Discipline::kFcfs));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  const auto table = bench.table;
  bench.forget_everything();
  ASSERT_TRUE(bench.form(peers));
  bench.members->rebalance({{{id, 10, true}}});
  EXPECT_EQ(table->cap(id), 100U);
}

// The cores' tables carry one row of each job that changed, however often it did.
TEST(MembersShared, WhatChangedInOneTurnIsOnePublication) {
  Sharers box(shared_box(65'536, 1'000), sharer_of(2, Discipline::kShared, "a"),
              sharer_of(2, Discipline::kShared, "b"));
  ASSERT_TRUE(box.form(box.as));
  ASSERT_TRUE(box.form(box.bs));
  for (const std::uint16_t port : {std::uint16_t{4'321}, std::uint16_t{4'322}}) {
    for (Peer* peer : {&box.as[1], &box.bs[1]}) {
      peer->binding.udp_port = port;
      box.challenge(*peer);
      box.members->receive(box.with_challenge(*peer, peer->join()), peer->binding, box.now);
    }
  }
  const auto publication = box.members->publication();
  ASSERT_TRUE(publication);
  EXPECT_FALSE(box.members->publication());
  for (const JobId id : {box.first, box.second})
    EXPECT_EQ(publication->table->find(id)->ranks[1].binding.udp_port, 4'322);
}

TEST(MembersShared, AMoveOfAMemberKeepsTheCap) {
  Sharers box(shared_box(65'536, 1'000), sharer_of(2, Discipline::kShared, "a"),
              sharer_of(2, Discipline::kShared, "b"));
  ASSERT_TRUE(box.form(box.as));
  ASSERT_TRUE(box.form(box.bs));
  box.members->rebalance({{{box.first, 0, true}, {box.second, 0, true}}});
  box.settle();
  box.as[1].binding.udp_port = 4'321;
  box.send(box.as[1], box.as[1].join());
  EXPECT_EQ(box.row(box.first)->ranks[1].binding.udp_port, 4'321);
  EXPECT_EQ(box.table->cap(box.first), 500U);
}

TEST(MembersShared, OnlyRunningSharersAreRebalanced) {
  Bench bench(shared_box(65'536, 1'000));
  const JobId pool = bench.declare(config_of(2));
  const JobId idle = bench.declare(sharer_of(2, Discipline::kShared, "idle"));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  const std::uint64_t before = bench.version;
  bench.members->rebalance({{{pool, 10, true}, {idle, 10, true}, {JobId{77}, 1, true}}});
  bench.settle();
  EXPECT_EQ(bench.version, before);
}

}  // namespace
}  // namespace tally::members_test

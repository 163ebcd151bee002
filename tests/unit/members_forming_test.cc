// From the first JOIN to JOINED(running): who is awaited, what is negotiated, when members are told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

TEST(MembersForming, NamesTheMissingRanks) {
  Bench bench;
  const JobId id = bench.declare(config_of(3));
  Peer a(0, 3);
  Peer b(1, 3);
  Peer c(2, 3);
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kDeclared);
  Sent s = only(bench.send(c, c.join()), PacketType::kJoined, c);
  EXPECT_EQ(s.status(), JoinStatus::kForming);
  EXPECT_EQ(s.joined().missing.host(), 0b011U);
  s = only(bench.send(a, a.join()), PacketType::kJoined, a);
  EXPECT_EQ(s.joined().missing.host(), 0b010U);
  EXPECT_EQ(bench.status(id).missing, 0b010U);
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kForming);
  EXPECT_EQ(bench.row(id), nullptr);
  EXPECT_TRUE(bench.form({&b}));
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kRunning);
}

TEST(MembersForming, WaitsForTheDataCoresAndAnswersTheNewestJoin) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  bench.cores_wait = true;
  bench.settle();
  Peer a(0);
  Peer b(1);
  bench.send(a, a.join());
  Sent s = only(bench.send(b, b.join()), PacketType::kJoined, b);
  EXPECT_EQ(s.status(), JoinStatus::kForming);
  EXPECT_EQ(s.joined().missing.host(), 0U);
  ASSERT_NE(bench.row(id), nullptr);
  const std::uint64_t version = bench.version;
  EXPECT_EQ(only(bench.send(a, a.join()), PacketType::kJoined, a).status(), JoinStatus::kForming);
  EXPECT_EQ(bench.version, version);
  bench.members->quiesced(version - 1, bench.now);
  EXPECT_TRUE(bench.answers().empty());
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kForming);
  bench.members->quiesced(version, bench.now);
  const auto sent = bench.answers();
  EXPECT_EQ(sent.size(), 2U);
  EXPECT_EQ(only(sent, PacketType::kJoined, a).joined().nonce.host(), a.nonce);
  EXPECT_EQ(only(sent, PacketType::kJoined, a).status(), JoinStatus::kRunning);
  EXPECT_EQ(only(sent, PacketType::kJoined, b).joined().nonce.host(), b.nonce);
  bench.members->quiesced(version, bench.now);
  EXPECT_TRUE(bench.answers().empty());
}

// What the epoch may use: the cores' row and the members say the same.
TEST(MembersForming, ZerosAreLeftOutWhereEverybodyUnderstandsThat) {
  const auto forms = [](const members::NativeConfig& config, std::uint64_t of_the_last) {
    Bench bench;
    const JobId id = bench.declare(config);
    std::vector<Peer> peers;
    for (std::uint16_t r = 0; r < config.workers; ++r) peers.emplace_back(r, config.workers).features = ~0ULL;
    peers.back().features = of_the_last;
    EXPECT_TRUE(bench.form(peers));
    for (Peer& p : peers)
      EXPECT_EQ(only(bench.send(p, p.join()), PacketType::kJoined, p).header.contributors.host(),
                bench.row(id)->sparse ? kFeatureSparse : 0);
    return bench.row(id)->sparse;
  };
  EXPECT_TRUE(forms(config_of(3), kFeatureSparse));
  EXPECT_FALSE(forms(config_of(3), ~kFeatureSparse)) << "other features of a later version";
  EXPECT_FALSE(forms(config_of(1), kFeatureSparse)) << "its packet is the sum";
  members::NativeConfig config = config_of(3);
  config.stragglers = {{50 * kMillisecond, 1}};
  EXPECT_FALSE(forms(config, kFeatureSparse));
}

// A process that takes another's place may understand less.
TEST(MembersForming, AnOfferRestsOnWhatTheNewestProcessesUnderstand) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  bench.cores_wait = true;
  bench.settle();
  Peer a(0);
  Peer b(1);
  a.features = b.features = kFeatureSparse;
  bench.send(a, a.join());
  bench.send(b, b.join());
  ASSERT_TRUE(bench.row(id)->sparse);
  b.features = 0;
  bench.send(b, b.join());
  EXPECT_FALSE(bench.row(id)->sparse);
}

// A JOIN for 0 elements.
TEST(MembersForming, WhoGivesUpFreesItsPlaceAtOnce) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  Peer a(0);
  Peer b(1);
  Peer gone = a;
  bench.send(gone, gone.join());
  const Bytes late = gone.join();
  ASSERT_EQ(bench.status(id).missing, 0b10U);
  gone.elements = 0;
  const Bytes gives_up = gone.join();
  EXPECT_TRUE(bench.send_bare(gone, gives_up).empty()) << "nobody waits for an answer";
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kDeclared);
  bench.send(gone, late);
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kDeclared) << "a JOIN of before that comes late";
  a.instance = 77;
  EXPECT_TRUE(bench.form({&b, &a})) << "another process";
  bench.send_bare(gone, gives_up);
  bench.send_bare(gone, gone.join());
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kRunning) << "it has no place to give up";
}

TEST(MembersForming, OnlyWhoHasThePlaceGivesItUp) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  Peer a(0);
  bench.send(a, a.join());
  const auto drops = [&](members::MembershipDrop why) {
    return bench.members->counters().drops.at(static_cast<std::size_t>(why));
  };
  const auto stays = [&](Peer from, members::MembershipDrop why) {
    const auto before = drops(why);
    from.elements = 0;
    EXPECT_TRUE(bench.send_bare(from, from.join()).empty());
    EXPECT_EQ(drops(why), before + 1);
    EXPECT_EQ(bench.status(id).missing, 0b10U);
  };
  Peer other = a;
  other.instance = 77;
  stays(other, members::MembershipDrop::kEpoch);
  stays(Peer(1), members::MembershipDrop::kEpoch);
  Peer copied = a;  // by somebody on its path
  copied.binding.udp_port += 1;
  stays(copied, members::MembershipDrop::kSource);
  Peer stranger = a;
  stranger.token = "guessed";
  stays(stranger, members::MembershipDrop::kTag);
  Peer elsewhere = a;
  elsewhere.job = "bert";
  stays(elsewhere, members::MembershipDrop::kJob);
  Peer beyond = a;
  beyond.rank = 2;
  stays(beyond, members::MembershipDrop::kRank);
  Peer behind = a;
  behind.attempt -= 2;
  stays(behind, members::MembershipDrop::kOldAttempt);
  Peer in_an_epoch = a;
  in_an_epoch.last = {
      Be<std::uint64_t>{5}, {}, Be<std::uint32_t>{64}, Be<std::uint32_t>{64}, Be<std::uint16_t>{32}};
  stays(in_an_epoch, members::MembershipDrop::kField);
  stays(Peer::server(0), members::MembershipDrop::kField);
}

// The group of a job is made by who joins it, not by who gives up.
TEST(MembersForming, GivingUpMakesNoGroup) {
  Bench bench;
  members::NativeConfig config = config_of(2);
  config.admit = {{.groups = 4}};
  bench.declare(config);
  Peer a(0);
  a.job = "resnet/1";
  a.elements = 0;
  EXPECT_TRUE(bench.send_bare(a, a.join()).empty());
  EXPECT_EQ(bench.members->counters().drops.at(static_cast<std::size_t>(members::MembershipDrop::kJob)), 1U);
}

TEST(MembersForming, WhoGivesUpTakesTheOfferBack) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  bench.cores_wait = true;
  bench.settle();
  Peer a(0);
  Peer b(1);
  bench.send(a, a.join());
  bench.send(b, b.join());
  ASSERT_NE(bench.row(id), nullptr);
  Peer gone = b;
  gone.elements = 0;
  bench.send_bare(gone, gone.join());
  EXPECT_EQ(bench.row(id), nullptr);
  EXPECT_EQ(bench.status(id).missing, 0b10U);
  bench.members->quiesced(bench.version, bench.now);
  EXPECT_TRUE(bench.answers().empty());
  bench.cores_wait = false;
  b.instance = 77;
  EXPECT_TRUE(bench.form({&a, &b}));
}

// Its JOINED(running) was lost, or crosses it.
TEST(MembersForming, WhoGivesUpAsTheJobBeginsEndsIt) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  Peer a(0);
  Peer b(1);
  bench.send(a, a.join());
  Bench::take(a, bench.send(b, b.join()));
  ASSERT_EQ(bench.status(id).phase, members::JobPhase::kRunning);
  b.elements = 0;
  const auto sent = bench.send_bare(b, b.join());
  EXPECT_EQ(only(sent, PacketType::kAbort, a).text(), "rank 1 gave up joining");
  EXPECT_EQ(count_of(sent, PacketType::kAbort, b), 0U);
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kAborted);
}

TEST(MembersForming, RowIsWhatTheMembersAreTold) {
  Bench bench(65'536, 4);
  members::NativeConfig config = config_of(3);
  config.priority = 100;
  config.window = 64;
  const JobId id = bench.declare(config);
  std::vector<Peer> peers{Peer(0, 3), Peer(1, 3), Peer(2, 3)};
  ASSERT_TRUE(bench.form(peers));
  const jobs::NativeJob* row = bench.row(id);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->id, id);
  EXPECT_EQ(row->world, 3);
  EXPECT_EQ(row->shards, 4);
  EXPECT_EQ(row->max_priority, 100);
  EXPECT_EQ(row->members, 0b111U);
  EXPECT_EQ(row->elements, 352);
  EXPECT_EQ(row->window, 64U);
  EXPECT_EQ(row->span, 128U);
  EXPECT_EQ(row->slots.count, jobs::pool_lines(64, 4, 352));
  std::uint32_t key_sum = 0;
  for (const auto& p : peers) {
    EXPECT_EQ(p.epoch, raw(row->epoch));
    EXPECT_EQ(p.result_cookie, raw(row->result_cookie));
    EXPECT_EQ(p.cookie, raw(row->ranks[p.rank].cookie));
    EXPECT_EQ(p.last.generation.host(), raw(row->generation));
    EXPECT_EQ(row->ranks[p.rank].binding, p.binding);
    EXPECT_EQ(row->ranks[p.rank].key, rank_key(row->generation, Rank{p.rank}));
    key_sum += row->ranks[p.rank].key;
    EXPECT_NE(p.cookie, p.result_cookie);
  }
  EXPECT_EQ(row->key_sum, key_sum);
  EXPECT_NE(peers[0].cookie, peers[1].cookie);
}

TEST(MembersForming, ElementsAreTheLeastWish) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  peers[1].elements = 336;
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.status(id).elements, 336);
  EXPECT_EQ(peers[0].last.elements.host(), 336);
  EXPECT_EQ(bench.row(id)->elements, 336);
}

TEST(MembersForming, NewGenerationStartsAtTheConfiguredChunk) {
  Bench bench;
  members::NativeConfig config = config_of(2);
  config.first_chunk = Chunk{0xFFFFFFFD};
  bench.declare(config);
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(peers[0].last.first_chunk.host(), 0xFFFFFFFDU);
  EXPECT_NE(peers[0].last.generation.host(), 0U);
  EXPECT_EQ(peers[0].last.largest_window.host(), 256U);
  EXPECT_EQ(peers[0].last.lookahead.host(), 256U);
  EXPECT_EQ(peers[0].last, peers[1].last);
}

TEST(MembersForming, OlderOrEqualAttemptIsIgnored) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  Peer a(0);
  const Bytes first = a.join();
  bench.send(a, a.join());
  const auto before = bench.status(id);
  EXPECT_TRUE(bench.send(a, first).empty());
  EXPECT_TRUE(bench.send(a, a.join_again()).empty());
  EXPECT_EQ(bench.status(id), before);
  EXPECT_EQ(bench.members->counters().of(members::MembershipDrop::kOldAttempt), 2U);
  a.attempt = 0x80000001;  // 2^31 - 1 ahead of 2: newer
  EXPECT_EQ(bench.send(a, a.join_again()).size(), 1U);
}

TEST(MembersForming, SecondProcessForARankIsRefusedOnceTheFirstIsKnownToLive) {
  Bench bench;
  bench.declare(config_of(4));
  Peer first(3, 4);
  Peer second(3, 4);
  second.instance = 5;
  second.binding.udp_port = 5;
  bench.send(first, first.join());
  Sent s = only(bench.send(second, second.join()), PacketType::kJoined, second);
  EXPECT_EQ(s.status(), JoinStatus::kForming);
  EXPECT_EQ(s.joined().missing.host(), 0b1111U);  // its own place is not its
  bench.send(first, first.join());
  s = only(bench.send(second, second.join()), PacketType::kJoined, second);
  EXPECT_EQ(s.status(), JoinStatus::kRefused);
  EXPECT_EQ(s.text(), "rank 3 is held by a live process at 10.0.0.3");
}

TEST(MembersForming, WaitsForeverForTheFirstTime) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  Peer a(0);
  for (int i = 0; i < 100; ++i) {
    const auto sent = bench.send(a, a.join());
    EXPECT_EQ(only(sent, PacketType::kJoined, a).status(), JoinStatus::kForming);
    EXPECT_TRUE(bench.advance(kSecond).empty());
  }
  EXPECT_EQ(bench.status(id).missing, 0b10U);
  Peer b(1);
  EXPECT_TRUE(bench.form({&b}));
}

TEST(MembersForming, SilentMemberLosesItsPlace) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  Peer a(0);
  Peer b(1);
  bench.send(a, a.join());
  bench.advance(10 * kSecond);
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kDeclared);
  EXPECT_EQ(only(bench.send(b, b.join()), PacketType::kJoined, b).joined().missing.host(), 0b01U);
  ASSERT_TRUE(bench.form({&a, &b}));
}

TEST(MembersForming, SilenceWhileTheCoresAreAwaitedTakesTheOfferBack) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  bench.cores_wait = true;
  Peer a(0);
  Peer b(1);
  bench.send(a, a.join());
  bench.advance(9 * kSecond);
  bench.send(b, b.join());
  ASSERT_NE(bench.row(id), nullptr);
  bench.advance(kSecond);
  EXPECT_EQ(bench.row(id), nullptr);
  EXPECT_EQ(bench.status(id).missing, 0b01U);
  EXPECT_EQ(bench.freed.size(), 1U);
  bench.members->quiesced(bench.version, bench.now);
  EXPECT_TRUE(bench.answers().empty());
}

TEST(MembersForming, MoveWhileTheCoresAreAwaitedIsPublishedFirst) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  bench.cores_wait = true;
  Peer a(0);
  Peer b(1);
  bench.send(a, a.join());
  bench.send(b, b.join());
  const std::uint64_t first = bench.version;
  a.binding.udp_port = 999;
  bench.send(a, a.join());
  EXPECT_GT(bench.version, first);
  bench.members->quiesced(first, bench.now);
  EXPECT_TRUE(bench.answers().empty());
  EXPECT_EQ(bench.row(id)->ranks[0].binding.udp_port, 999);
  bench.members->quiesced(bench.version, bench.now);
  EXPECT_EQ(only(bench.answers(), PacketType::kJoined, a).status(), JoinStatus::kRunning);
}

// A process that joins, gives up and joins again before the cores are ready brings another record.
TEST(MembersForming, ChangedReportReplacesTheOffer) {
  Bench bench;
  const JobId id = bench.declare(config_of(2));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  const Generation generation = bench.status(id).generation;
  bench.forget_everything();
  bench.cores_wait = true;
  bench.send(peers[0], peers[0].join());
  bench.send(peers[1], peers[1].join());
  EXPECT_EQ(bench.row(id)->generation, generation);
  const std::uint64_t first = bench.version;
  peers[1].last = {};
  bench.send(peers[1], peers[1].join());
  EXPECT_NE(bench.row(id)->generation, generation);
  bench.members->quiesced(first, bench.now);
  EXPECT_TRUE(bench.answers().empty());
  bench.members->quiesced(bench.version, bench.now);
  EXPECT_EQ(bench.answers().size(), 2U);
}

TEST(MembersForming, OneWorkerIsAJob) {
  Bench bench;
  const JobId id = bench.declare(config_of(1));
  Peer a(0, 1);
  ASSERT_TRUE(bench.form({&a}));
  EXPECT_EQ(bench.row(id)->members, 1U);
  const Sent echo = only(bench.send(a, a.leave()), PacketType::kLeave, a);
  EXPECT_EQ(echo.header.cookie.host(), a.result_cookie);
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kEnded);
}

TEST(MembersForming, SixtyFourRanks) {
  Bench bench;
  const JobId id = bench.declare(config_of(64));
  std::vector<Peer> peers;
  for (std::uint16_t r = 0; r < 64; ++r) peers.emplace_back(r, std::uint16_t{64});
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.row(id)->members, ~std::uint64_t{0});
  EXPECT_EQ(bench.status(id).live, ~std::uint64_t{0});
}

TEST(MembersForming, MulticastGroupFollowsTheAddressFamily) {
  members::NativeConfig config = config_of(2);
  config.results = ResultsMode::kMulticast;
  Ipv6 v6{0xfd};
  for (const int count : {0, 1, 2}) {
    Bench bench;
    const JobId id = bench.declare(config);
    std::vector<Peer> peers{Peer(0), Peer(1)};
    for (int i = 0; i < count; ++i) {
      v6[15] = static_cast<std::uint8_t>(i);
      peers[static_cast<std::size_t>(i)].binding.address = v6;
    }
    bench.send(peers[0], peers[0].join());
    const auto sent = bench.send(peers[1], peers[1].join());
    const JoinedPayload p = sent.back().joined();
    const bool mixed = count == 1;  // one frame cannot carry both families
    EXPECT_EQ(p.results, mixed ? ResultsMode::kUnicast : ResultsMode::kMulticast);
    EXPECT_EQ(bench.row(id)->results, p.results);
    EXPECT_EQ(p.group, mixed ? Ipv6{} : jobs::multicast_group(id, count == 2));
    EXPECT_EQ(p.group_port.host(), mixed ? 0 : kMulticastPort);
  }
  EXPECT_EQ(jobs::multicast_group(JobId{0x0102}, true),
            (Ipv6{0xff, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2}));
}

TEST(MembersConfig, ANameInUseIsRefused) {
  Bench bench;
  bench.declare(config_of(2));
  const auto id = bench.members->declare(config_of(2));
  ASSERT_FALSE(id);
  EXPECT_EQ(id.error().text(), "job 'resnet': a job of this name is declared already");
  EXPECT_EQ(bench.members->status(bench.now).size(), 1U);
}

TEST(MembersConfig, AThousandJobsAndNoMore) {
  Bench bench;
  for (std::uint32_t i = 0; i < kMaxJobs; ++i) {
    EXPECT_EQ(raw(bench.declare(config_of(1, "job" + std::to_string(i)))), i + 1);
  }
  EXPECT_FALSE(bench.members->declare(config_of(1, "one more")));
  EXPECT_TRUE(bench.members->withdraw("job7"));
  EXPECT_FALSE(bench.members->withdraw("job7"));
  const auto id = bench.members->declare(config_of(1, "one more"));
  ASSERT_TRUE(id);
  EXPECT_EQ(raw(*id), 8);
}

// A generator that is stuck must not make an endless loop or a zero secret.
TEST(MembersConfig, StuckRandomWordsStillGiveDistinctEpochs) {
  members::MembershipEngine members({{2}, 1, 65'536}, [] { return std::uint64_t{0}; });
  for (const std::string name : {"a", "b"}) {
    ASSERT_TRUE(members.declare(config_of(1, name)));
    Peer p(0, 1);
    p.job = name;
    members.receive(p.join(), p.binding, kSecond);
    Bytes out(members::kMaxMembershipBytes);
    const auto challenge = members.next(out);
    ASSERT_TRUE(challenge);
    JoinPayload join = p.join_payload();
    join.challenge = wire_at<ChallengePayload>(out.data() + kHeaderBytes).challenge;
    Bytes body(sizeof join);
    wire_put(body.data(), join);
    const Bytes text = bytes_of(name);
    body.insert(body.end(), text.begin(), text.end());
    Header h;
    h.type = PacketType::kJoin;
    members.receive(tagged(h, body, p.job_key()), p.binding, kSecond);
    while (members.next(out)) continue;
  }
  const auto publication = members.publication();
  ASSERT_TRUE(publication);
  const jobs::NativeJob* a = publication->table->find(JobId{1});
  const jobs::NativeJob* b = publication->table->find(JobId{2});
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_NE(a->epoch, b->epoch);
  for (const jobs::NativeJob* job : {a, b}) {
    EXPECT_NE(raw(job->epoch), 0U);
    EXPECT_NE(raw(job->generation), 0U);
    EXPECT_NE(raw(job->result_cookie), 0U);
    EXPECT_NE(raw(job->ranks[0].cookie), 0U);
  }
}

}  // namespace
}  // namespace tally::members_test

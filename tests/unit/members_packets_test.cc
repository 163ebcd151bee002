// The gate of membership: what is not a correct packet of a known member changes one counter; the bytes of
// JOINED; REJECT, PROBE and their limits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "members/box_state.h"
#include "members/control_packet.h"
#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

Header header_of(const Bytes& datagram) {
  Header h;
  std::memcpy(&h, datagram.data(), kHeaderBytes);
  return h;
}

Bytes payload_of(const Bytes& datagram) { return {datagram.begin() + kHeaderBytes, datagram.end()}; }

// With another header, and checks that are right all the same.
Bytes forged_with(const Bytes& datagram, const std::function<void(Header&)>& change) {
  Header h = header_of(datagram);
  change(h);
  return sealed(h, payload_of(datagram));
}

struct RunningJob : Bench {
  JobId id = declare(config_of(2));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  RunningJob() { EXPECT_TRUE(form(peers)); }

  std::uint64_t drops() const {
    std::uint64_t n = 0;
    for (const auto d : members->counters().drops) n += d;
    return n;
  }

  // The packet moves the counter of `why` by one and nothing else that anyone can see.
  void expect_drop(const Peer& from, const Bytes& datagram, members::MembershipDrop why,
                   std::size_t replies = 0) {
    SCOPED_TRACE(members::name_of(why));
    members::MembershipCounters expected = members->counters();
    ++expected.drops[static_cast<std::size_t>(why)];
    const auto before = members->status(now);
    const std::uint64_t version_before = version;
    const TimeNs deadline = members->deadline();
    EXPECT_EQ(send(from, datagram).size(), replies);
    EXPECT_EQ(members->counters(), expected);
    EXPECT_EQ(members->status(now), before);
    EXPECT_EQ(version, version_before);
    EXPECT_EQ(members->deadline(), deadline);
  }
};

struct MembersPackets : testing::Test, RunningJob {
  Peer joiner{0};
  MembersPackets() {
    joiner = peers[0];
    joiner.attempt += 100;
  }
  // A JOIN of a member with one field of its payload changed, its CRCs right.
  Bytes join_with(const std::function<void(JoinPayload&)>& change) {
    const Bytes original = joiner.join();
    Bytes payload = payload_of(original);
    JoinPayload p;
    std::memcpy(&p, payload.data(), sizeof p);
    change(p);
    std::memcpy(payload.data(), &p, sizeof p);
    payload.resize(payload.size() - kTagBytes);
    return tagged(header_of(original), payload, joiner.job_key());
  }
};

TEST_F(MembersPackets, EveryTruncationIsARuntOrALength) {
  const Bytes whole = joiner.join();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    constexpr std::size_t kOfAllVersions = kHeaderBytes + offsetof(JoinPayload, challenge);
    const auto why = n < kHeaderBytes     ? members::MembershipDrop::kRunt
                     : n < kOfAllVersions ? members::MembershipDrop::kLength
                                          : members::MembershipDrop::kPayload;
    expect_drop(joiner, cut, why);
  }
}

TEST_F(MembersPackets, EveryFlippedBitIsANamedDrop) {
  const Bytes whole = joiner.join();
  const auto before = members->status(now);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Bytes flipped = whole;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const std::uint64_t count = drops();
    EXPECT_TRUE(send(joiner, flipped).empty()) << bit;
    EXPECT_EQ(drops(), count + 1) << bit;
  }
  EXPECT_EQ(members->status(now), before);
}

TEST_F(MembersPackets, JoinOfAnotherVersionIsRefusedInThatVersion) {
  Header h = header_of(joiner.join());
  const Bytes payload = payload_of(joiner.join_again());
  JoinPayload asked;
  std::memcpy(&asked, payload.data(), sizeof asked);
  h.version = 1;
  const auto said = send(joiner, sealed(h, payload));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].header.version, 1);
  EXPECT_EQ(said[0].header.type, PacketType::kJoined);
  JoinedPayload joined;
  std::memcpy(&joined, said[0].payload.data(), sizeof joined);
  EXPECT_EQ(joined.status, JoinStatus::kRefused);
  EXPECT_EQ(joined.nonce, asked.nonce);
  const std::string text(reinterpret_cast<const char*>(said[0].payload.data()) + sizeof joined,
                         joined.text_bytes.host());
  EXPECT_EQ(text, "this box speaks version 2 of the protocol, the worker 1");
  EXPECT_EQ(said[0].payload.size(), sizeof joined + text.size()) << "version 1 knows no tag";
}

TEST_F(MembersPackets, HeaderFieldsAreChecked) {
  Header h = header_of(joiner.join());
  const Bytes payload = payload_of(joiner.join_again());
  const auto with = [&](auto change) {
    Header changed = h;
    change(changed);
    return sealed(changed, payload);
  };
  expect_drop(joiner, with([](Header& x) { x.version = 1; }), members::MembershipDrop::kVersion, 1);
  expect_drop(joiner, with([](Header& x) { x.type = PacketType{0}; }), members::MembershipDrop::kType);
  expect_drop(joiner, with([](Header& x) { x.type = PacketType{255}; }), members::MembershipDrop::kType);
  expect_drop(joiner, with([](Header& x) { x.type = PacketType::kJoined; }), members::MembershipDrop::kType);
  expect_drop(joiner, with([](Header& x) { x.type = PacketType::kContribute; }),
              members::MembershipDrop::kType);
  expect_drop(joiner, with([](Header& x) { x.flags = 64; }), members::MembershipDrop::kFlags);
  expect_drop(joiner, with([](Header& x) { x.rank = Be<std::uint16_t>(0xFFFF); }),
              members::MembershipDrop::kRank);
  expect_drop(joiner, with([](Header& x) { x.job = Be<std::uint16_t>(1); }), members::MembershipDrop::kField);
  expect_drop(joiner, with([](Header& x) { x.epoch = Be<std::uint32_t>(1); }),
              members::MembershipDrop::kField);
  expect_drop(joiner, with([](Header& x) { x.cookie = Be<std::uint64_t>(1); }),
              members::MembershipDrop::kField);
}

TEST_F(MembersPackets, LengthsOfTextsMustAddUp) {
  expect_drop(joiner, join_with([](auto& p) { p.name_bytes = 0; }), members::MembershipDrop::kLength);
  expect_drop(joiner, join_with([](auto& p) { p.name_bytes = 65; }), members::MembershipDrop::kLength);
  expect_drop(joiner, join_with([](auto& p) { p.rack_workers = 65; }), members::MembershipDrop::kField);
  expect_drop(joiner, join_with([](auto& p) { --p.name_bytes; }), members::MembershipDrop::kLength);
  const Bytes join = joiner.join();
  const Bytes cut(join.begin() + kHeaderBytes,
                  join.begin() + kHeaderBytes + sizeof(JoinPayload) + kTagBytes - 1);
  expect_drop(joiner, sealed(header_of(join), cut), members::MembershipDrop::kLength);
  expect_drop(peers[0], peers[0].packet(PacketType::kHeartbeat), members::MembershipDrop::kLength);
  expect_drop(peers[0], peers[0].packet(PacketType::kHeartbeat, bytes_of(std::string(65, 'x'))),
              members::MembershipDrop::kLength);
  expect_drop(peers[0], peers[0].packet(PacketType::kLeave, bytes_of("x")), members::MembershipDrop::kLength);
  expect_drop(peers[0], peers[0].abort(std::string(kMaxTextBytes + 1, 'x')),
              members::MembershipDrop::kLength);
  expect_drop(peers[0], peers[0].packet(PacketType::kProbe, Bytes(4 * kMaxElements + 1)),
              members::MembershipDrop::kLength);
}

TEST_F(MembersPackets, JoinFieldsHaveRanges) {
  const auto bad = [&](auto change) {
    expect_drop(joiner, join_with(change), members::MembershipDrop::kField);
  };
  bad([](auto& p) { p.instance = Be<std::uint64_t>(0); });
  bad([](auto& p) { p.world = Be<std::uint16_t>(0); });
  bad([](auto& p) { p.world = Be<std::uint16_t>(kMaxWorld + 1); });
  bad([](auto& p) {  // of racks
    p.rack_workers = 1;
    p.world = Be<std::uint16_t>(kMaxRacks + 1);
  });
  bad([](auto& p) { p.elements = Be<std::uint16_t>(0); });
  bad([](auto& p) { p.elements = Be<std::uint16_t>(8); });
  bad([](auto& p) { p.elements = Be<std::uint16_t>(2240); });
  bad([](auto& p) { p.next = Be<std::uint32_t>(p.lowest.host() - 1); });
  bad([](auto& p) { p.last.generation = Be<std::uint64_t>(0); });  // the rest of the record is not zero
  bad([](auto& p) { p.last.largest_window = Be<std::uint32_t>(48); });
  bad([](auto& p) { p.last.largest_window = Be<std::uint32_t>(32'768); });
  bad([](auto& p) { p.last.lookahead = Be<std::uint32_t>(8); });
  bad([](auto& p) { p.last.lookahead = Be<std::uint32_t>(2 * p.last.largest_window.host()); });
  bad([](auto& p) { p.last.elements = Be<std::uint16_t>(8); });
}

TEST_F(MembersPackets, RefusalsSayWhy) {
  Peer p(1);
  p.instance = 77;
  const auto refusal = [&](members::MembershipDrop why) {
    const std::uint64_t count = members->counters().of(why);
    const Sent s = only(send(p, p.join()), PacketType::kJoined, p);
    EXPECT_EQ(members->counters().of(why), count + 1);
    EXPECT_EQ(s.status(), JoinStatus::kRefused);
    EXPECT_EQ(s.joined().nonce.host(), p.nonce);
    EXPECT_EQ(s.header.epoch.host(), 0U);
    EXPECT_EQ(s.header.cookie.host(), 0U);
    EXPECT_EQ(s.joined().cookie.host(), 0U);
    EXPECT_EQ(s.joined().text_bytes.host(), s.text().size());
    return s.text();
  };
  p.job = "vgg";
  EXPECT_EQ(refusal(members::MembershipDrop::kUnknownJob), "job 'vgg' is not declared on this box");
  p.job = "v\x1b[g";
  EXPECT_EQ(refusal(members::MembershipDrop::kUnknownJob), "job 'v [g' is not declared on this box");
  p.job = "resnet";
  p.token.clear();
  EXPECT_THAT(refusal(members::MembershipDrop::kToken), testing::HasSubstr("none came"));
  for (const std::string token : {"secres", "secre", "secretsecret", "Secret"}) {
    p.token = token;
    EXPECT_EQ(refusal(members::MembershipDrop::kToken), "job 'resnet': wrong token") << token;
  }
  p.token = "secret";
  p.world = 3;
  EXPECT_EQ(refusal(members::MembershipDrop::kWorld),
            "job 'resnet' has 2 workers here, this worker expects 3");
  p.world = 2;
  p.rank = 2;
  EXPECT_EQ(refusal(members::MembershipDrop::kRank), "job 'resnet' has ranks 0 to 1, not 2");
  p.rank = 1;
  EXPECT_EQ(refusal(members::MembershipDrop::kHeld), "rank 1 is held by a live process at 10.0.0.1");
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
}

TEST_F(MembersPackets, RefusalsAreLimitedPerSource) {
  Peer liar(1);
  liar.token = "guess";
  for (int i = 0; i < 10; ++i) {
    const auto sent = send(liar, liar.join());
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_FALSE(peers[1].believes(sent[0])) << "nothing that a worker could take for the box's word";
  }
  for (int i = 0; i < 10; ++i) expect_drop(liar, liar.join(), members::MembershipDrop::kToken);
  now += 100 * kMillisecond;
  EXPECT_EQ(send(liar, liar.join()).size(), 1U);
  expect_drop(liar, liar.join(), members::MembershipDrop::kToken);
  Peer other(1);
  other.binding.address = mapped({10, 9, 9, 9});
  other.token = "guess";
  EXPECT_EQ(send(other, other.join()).size(), 1U);
}

TEST_F(MembersPackets, ForgedMemberPacketsAreDropped) {
  for (const auto type : {PacketType::kHeartbeat, PacketType::kLeave, PacketType::kAbort}) {
    const Bytes name = type == PacketType::kHeartbeat ? bytes_of("resnet") : Bytes{};
    Peer forger = peers[1];
    forger.cookie ^= 1;
    expect_drop(forger, forger.packet(type, name), members::MembershipDrop::kCookie);
    forger = peers[1];
    forger.cookie = peers[0].cookie;
    expect_drop(forger, forger.packet(type, name), members::MembershipDrop::kCookie);
    forger.cookie = peers[1].result_cookie;
    expect_drop(forger, forger.packet(type, name), members::MembershipDrop::kCookie);
    forger = peers[1];
    forger.binding.udp_port ^= 1;
    expect_drop(forger, forger.packet(type, name), members::MembershipDrop::kSource);
    forger = peers[1];
    forger.binding.port = PortIndex{9};
    expect_drop(forger, forger.packet(type, name), members::MembershipDrop::kSource);
    const Peer& honest = peers[1];
    forger = honest;
    forger.token = "guess";
    expect_drop(honest, forger.packet(type, name), members::MembershipDrop::kTag);
    expect_drop(honest,
                forged_with(honest.packet(type, name), [](Header& h) { h.chunk = Be<std::uint32_t>(99); }),
                members::MembershipDrop::kTag);
    forger = peers[1];
    forger.rank = 2;
    expect_drop(forger, forger.packet(type, name), members::MembershipDrop::kRank);
    forger.rank = 0xFF00;
    expect_drop(forger, forger.packet(type, name), members::MembershipDrop::kRank);
  }
}

TEST_F(MembersPackets, DeadEpochAndUnknownJobGetAReject) {
  Peer stale = peers[1];
  stale.epoch ^= 1;
  stale.next = 4711;
  const auto expect_reject = [&](members::MembershipDrop why, RejectReason reason) {
    const std::uint64_t count = members->counters().of(why);
    const Sent s = only(send(stale, stale.heartbeat()), PacketType::kReject, stale);
    EXPECT_EQ(members->counters().of(why), count + 1);
    EXPECT_EQ(s.header.slot.host(), static_cast<std::uint32_t>(reason));
    EXPECT_EQ(s.header.job.host(), stale.job_id);
    EXPECT_EQ(s.header.epoch.host(), stale.epoch);
    EXPECT_EQ(s.header.cookie.host(), 0U);
    EXPECT_EQ(s.counter(), stale.counter) << "it answers this one and no other";
    EXPECT_TRUE(auth::verify(stale.job_key(), s.header, s.payload));
  };
  expect_reject(members::MembershipDrop::kEpoch, RejectReason::kJob);
  stale.epoch = 0;
  expect_reject(members::MembershipDrop::kEpoch, RejectReason::kJob);
  stale.epoch = peers[1].epoch;
  stale.job_id = 2;
  expect_reject(members::MembershipDrop::kJob, RejectReason::kJob);
  stale.job_id = 0;
  expect_reject(members::MembershipDrop::kJob, RejectReason::kJob);
  stale.job_id = 0xFFFF;
  expect_reject(members::MembershipDrop::kJob, RejectReason::kJob);
  // Who does not have the token gets no tag to try tokens on.
  Peer guesses = stale;
  guesses.token = "guess";
  expect_drop(guesses, guesses.heartbeat(), members::MembershipDrop::kTag);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(send(stale, stale.heartbeat()).size(), 1U);
  expect_drop(stale, stale.heartbeat(), members::MembershipDrop::kJob);  // 10 per second and source
  now += kSecond;
  expect_drop(stale, stale.leave(), members::MembershipDrop::kJob);
  expect_drop(stale, stale.abort("x"), members::MembershipDrop::kJob);
  stale.job = "nobody";
  expect_drop(stale, stale.heartbeat(), members::MembershipDrop::kJob);
}

// What was said once says nothing the second time: a dead rank does not live by its recorded heartbeats.
TEST_F(MembersPackets, CopiesOfMemberPacketsAreDropped) {
  const Bytes first = peers[1].heartbeat();
  const Bytes second = peers[1].heartbeat();
  EXPECT_EQ(send(peers[1], second).size(), 1U);
  expect_drop(peers[1], second, members::MembershipDrop::kReplay);
  expect_drop(peers[1], first, members::MembershipDrop::kReplay);
  const Bytes leave = peers[1].leave();
  EXPECT_EQ(send(peers[1], leave).size(), 1U);
  expect_drop(peers[1], leave, members::MembershipDrop::kReplay);
}

TEST_F(MembersPackets, AStrangersJoinIsChallengedAndLeavesNothingBehind) {
  Peer stranger(1);
  const Bytes join = stranger.join();
  const auto before = members->status(now);
  const Sent s = only(send_bare(stranger, join), PacketType::kChallenge, stranger);
  EXPECT_EQ(s.header.job.host() | s.header.epoch.host() | s.header.cookie.host(), 0U);
  const auto said = wire_at<ChallengePayload>(s.payload.data());
  EXPECT_EQ(said.nonce.host(), stranger.nonce);
  EXPECT_LT(s.payload.size(), join.size() - kHeaderBytes) << "who forges sources gains nothing by it";
  EXPECT_EQ(members->status(now), before);
}

// A challenge is good for its binding, for its process, for four to eight seconds, and for one box.
TEST_F(MembersPackets, AChallengeIsGoodForWhomItWasMadeAndNotForLong) {
  challenge(joiner);
  const auto answer = [&](const Peer& from) {
    const auto sent = send_bare(from, with_challenge(joiner, joiner.join()));
    EXPECT_EQ(sent.size(), 1U);
    return sent.empty() ? PacketType{} : sent[0].type();
  };
  EXPECT_EQ(answer(joiner), PacketType::kJoined);
  Peer elsewhere = joiner;
  elsewhere.binding.udp_port ^= 1;
  EXPECT_EQ(answer(elsewhere), PacketType::kChallenge);
  const Tag mine = challenges[joiner.instance];
  Peer other = joiner;
  other.instance = 999;
  challenges[999] = mine;
  EXPECT_EQ(send_bare(other, with_challenge(other, other.join())).at(0).type(), PacketType::kChallenge);
  now += 4 * kSecond;
  send(peers[0], peers[0].heartbeat());
  EXPECT_EQ(answer(joiner), PacketType::kJoined);
  now += 4 * kSecond;
  EXPECT_EQ(answer(joiner), PacketType::kChallenge);
  challenge(joiner);
  const Bytes recorded = with_challenge(joiner, joiner.join());
  forget_everything();
  EXPECT_EQ(send_bare(joiner, recorded).at(0).type(), PacketType::kChallenge)
      << "a JOIN of the time before begins nothing";
}

// What the box knew of its members' attempts went with the job.
TEST_F(MembersPackets, AJobOfTheSameNameObeysNoJoinOfTheFormer) {
  challenge(joiner);
  const Bytes recorded = with_challenge(joiner, joiner.join());
  ASSERT_TRUE(members->withdraw("resnet"));
  settle();
  declare(config_of(2));
  EXPECT_EQ(send_bare(joiner, recorded).at(0).type(), PacketType::kChallenge);
}

TEST_F(MembersPackets, ProbesAreEchoedAHundredTimesASecond) {
  Peer anyone(9);
  anyone.binding.address = mapped({192, 168, 1, 1});
  anyone.cookie = 5;
  const Bytes large(4 * kMaxElements, std::byte{0x5a});
  const Sent s = only(send(anyone, anyone.packet(PacketType::kProbe, large)), PacketType::kProbe, anyone);
  EXPECT_EQ(s.payload, large);
  EXPECT_EQ(s.header.cookie.host(), 5U);
  for (int i = 1; i < 100; ++i) EXPECT_EQ(send(anyone, anyone.packet(PacketType::kProbe)).size(), 1U);
  expect_drop(anyone, anyone.packet(PacketType::kProbe), members::MembershipDrop::kRate);
  now += 10 * kMillisecond;
  EXPECT_EQ(send(anyone, anyone.packet(PacketType::kProbe)).size(), 1U);
  expect_drop(anyone, anyone.packet(PacketType::kProbe), members::MembershipDrop::kRate);
  EXPECT_EQ(members->counters().of(PacketType::kProbe), 101U);
}

TEST_F(MembersPackets, AnAnswerThatDoesNotFitIsDiscarded) {
  members->receive(peers[0].packet(PacketType::kProbe, Bytes(100)), peers[0].binding, now);
  members->receive(peers[0].heartbeat(), peers[0].binding, now);
  std::array<std::byte, kHeaderBytes + sizeof(CountedPayload) + kTagBytes> small{};
  const auto got = members->next(small);
  ASSERT_TRUE(got);
  EXPECT_EQ(PacketType(small[1]), PacketType::kHeartbeat);
  EXPECT_FALSE(members->next(small));
}

// The layout of docs/protocol.md, byte by byte.
TEST(MembersJoined, RunningIsByteExact) {
  Bench bench;
  members::NativeConfig config = config_of(2);
  config.results = ResultsMode::kMulticast;
  config.first_chunk = Chunk{0xFFFFFFFD};
  config.lease = 2500 * kMillisecond;
  for (int i = 0; i < 257; ++i) {
    config.name = "job" + std::to_string(i);
    bench.declare(config);
  }
  const JobId id{0x0101};
  std::vector<Peer> peers{Peer(0), Peer(1)};
  for (auto& p : peers) p.job = "job256";
  EXPECT_EQ(bench.send(peers[0], peers[0].join()).size(), 1U);
  const auto sent = bench.send(peers[1], peers[1].join());
  const Sent& s = sent.back();
  ASSERT_EQ(s.to, peers[1].binding);
  const jobs::NativeJob* row = bench.row(id);
  ASSERT_NE(row, nullptr);

  Bytes expected;
  const auto put = [&](std::uint64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
      expected.push_back(static_cast<std::byte>((value >> shift) & 0xFFU));
  };
  put(peers[1].nonce, 8);
  put(0, 8);  // missing
  put(raw(row->ranks[1].cookie), 8);
  put(s.joined().salt.host(), 8);  // random
  put(raw(row->generation), 8);
  put(0xFFFFFFFD, 4);  // first chunk
  put(256, 4);         // largest window
  put(256, 4);         // lookahead
  put(352, 2);         // elements
  put(2, 2);           // world
  put(256, 4);         // window
  put(0, 4);           // shared slots
  put(2500, 4);        // lease in ms
  put(0, 2);           // most advanced
  put(0xBFFF, 2);      // group port
  for (const int b : {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 192, 1, 1})
    put(static_cast<std::uint64_t>(b), 1);
  for (const int b : {2, 1, 2, 3, 4, 5}) put(static_cast<std::uint64_t>(b), 1);  // MAC of the box
  put(1, 1);                                                                     // running
  put(1, 1);                                                                     // pool
  put(2, 1);                                                                     // multicast
  put(1, 1);                                                                     // shards
  put(0, 2);                                                                     // text bytes
  EXPECT_EQ(Bytes(s.payload.begin(), s.payload.end() - kTagBytes), expected);
  EXPECT_TRUE(peers[1].believes(s));

  EXPECT_EQ(s.header.type, PacketType::kJoined);
  EXPECT_EQ(s.header.flags, 0);
  EXPECT_EQ(s.header.job.host(), 0x0101);
  EXPECT_EQ(s.header.epoch.host(), raw(row->epoch));
  EXPECT_EQ(s.header.cookie.host(), raw(row->result_cookie));
  EXPECT_EQ(s.header.elements.host(), 0);
  EXPECT_EQ(s.header.contributors.host(), 0U);
}

TEST(MembersJoined, FormingShowsNoSecrets) {
  Bench bench;
  bench.declare(config_of(3));
  Peer p(1, 3);
  const Sent s = only(bench.send(p, p.join()), PacketType::kJoined, p);
  JoinedPayload expected;
  expected.nonce = Be<std::uint64_t>(p.nonce);
  expected.missing = Be<std::uint64_t>(0b101);
  expected.world = Be<std::uint16_t>(3);
  expected.lease_ms = Be<std::uint32_t>(10'000);
  expected.box_mac = bench.options.box_mac;
  expected.status = JoinStatus::kForming;
  expected.discipline = Discipline::kPool;
  expected.results = ResultsMode::kUnicast;
  expected.shards = 1;
  ASSERT_EQ(s.payload.size(), sizeof expected + kTagBytes);
  EXPECT_TRUE(p.believes(s));
  EXPECT_EQ(std::memcmp(s.payload.data(), &expected, sizeof expected), 0);
  EXPECT_EQ(s.header.job.host(), 0);
  EXPECT_EQ(s.header.epoch.host(), 0U);
  EXPECT_EQ(s.header.cookie.host(), 0U);
}

TEST(MembersNames, EveryDropHasItsOwnName) {
  for (std::size_t i = 0; i < members::kMembershipDropCount; ++i) {
    EXPECT_FALSE(members::kMembershipDropNames[i].empty());
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(members::kMembershipDropNames[i], members::kMembershipDropNames[j]);
  }
}

}  // namespace
}  // namespace tally::members_test

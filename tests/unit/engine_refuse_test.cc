// Every datagram that is refused changes the counter of its reason and nothing else: a twin that never got it
// behaves the same, packet by packet.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "box_says.h"
#include "engine_testbed.h"

namespace tally::testbed {
namespace {

// Two engines of rank 0 of 2 with the same seed, in the middle of an operation of three integer and one float
// primed chunk.
class Twins {
 public:
  Twins() : box(JobShape{}) {
    for (std::size_t i = 0; i < 2; ++i) {
      x[i].assign(80, 5);
      y[i].assign(20, 1.5F);
      engine[i] = std::move(*engine::WorkerEngine::create(options_of({}, 0), kernels::best_kernels()));
      JoinPayload p;
      std::memcpy(&p, drain(*engine[i], 0)[0].bytes.data() + kHeaderBytes, sizeof p);
      engine[i]->receive(box.joined(JoinStatus::kRunning, p.nonce.host(), 0), 0);
      (void)engine[i]->allreduce(std::span<std::int32_t>(x[i]), 0);
      (void)engine[i]->allreduce(std::span<float>(y[i]), 0);
      sent = drain(*engine[i], 1);
      EXPECT_EQ(sent.size(), 4U);
      engine[i]->receive(box.result_of(sent[1].bytes), 2);  // chunk 1 has its result
    }
  }

  // Feeds the first twin only and compares.
  void refuse(const std::string& name, Refused reason, const Bytes& datagram) {
    SCOPED_TRACE(name);
    const auto before = engine[0]->statistics().refused;
    engine[0]->receive(datagram, now);
    auto after = engine[0]->statistics().refused;
    EXPECT_EQ(after[static_cast<std::size_t>(reason)], before[static_cast<std::size_t>(reason)] + 1)
        << "counter of " << name_of(reason);
    after[static_cast<std::size_t>(reason)] -= 1;
    EXPECT_EQ(after, before) << "and no other";
    compare();
  }

  void compare() {
    EXPECT_EQ(engine[0]->state(), engine[1]->state());
    EXPECT_EQ(engine[0]->deadline(), engine[1]->deadline());
    EXPECT_EQ(engine[0]->missing(), engine[1]->missing());
    EXPECT_EQ(engine[0]->live(), engine[1]->live());
    EXPECT_EQ(engine[0]->pending_operations(), engine[1]->pending_operations());
    EXPECT_EQ(x[0], x[1]);
    EXPECT_EQ(y[0], y[1]);
    EngineStatistics a = engine[0]->statistics();
    EngineStatistics b = engine[1]->statistics();
    a.refused = b.refused = {};
    EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0);
  }

  // Lets both finish and compares all they send on the way.
  void finish() {
    for (int round = 0; round < 200 && engine[1]->pending_operations() != 0; ++round) {
      const auto a = drain(*engine[0], now);
      const auto b = drain(*engine[1], now);
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_EQ(a[i].bytes, b[i].bytes);
        if (header_of(a[i].bytes).type != PacketType::kContribute) continue;
        for (auto& e : engine) e->receive(box.result_of(a[i].bytes), now);
      }
      compare();
      if (const TimeNs next = engine[1]->deadline(); next > now && next != kNever) now = next;
    }
    EXPECT_EQ(engine[0]->pending_operations(), 0U);
    EXPECT_EQ(y[0], std::vector<float>(20, 1.5F));
  }

  Box box;
  std::array<std::unique_ptr<engine::WorkerEngine>, 2> engine;
  std::array<std::vector<std::int32_t>, 2> x;
  std::array<std::vector<float>, 2> y;
  std::vector<Out> sent;
  TimeNs now = 3;
};

struct Case {
  const char* name;
  Refused reason;
  std::function<Bytes(Twins&)> datagram;
};

Bytes changed(const Bytes& datagram, const std::function<void(Header&)>& change) {
  Header h = header_of(datagram);
  change(h);
  Bytes out = datagram;
  std::memcpy(out.data(), &h, sizeof h);
  return resealed(out);
}

Bytes resealed_control(const Bytes& datagram) { return sealed(header_of(datagram), payload_of(datagram)); }

Bytes result(Twins& t, std::size_t i = 0) { return t.box.result_of(t.sent[i].bytes); }

Bytes waiting(Twins& t, const std::function<void(Header&)>& change) {
  return changed(t.box.reject(RejectReason::kWaiting, header_of(t.sent[0].bytes), t.box.result_cookie(), 1),
                 change);
}

Bytes nack(Twins& t, const std::function<void(Header&)>& change) {
  Header n = t.box.from_box(PacketType::kNack);
  n.slot = Be<std::uint32_t>{1};
  n.contributors = Be<std::uint64_t>{1};
  return changed(sealed(n), change);
}

Bytes query(Twins& t, const std::function<void(Header&)>& change) {
  Header q = t.box.from_box(PacketType::kQuery);
  q.rank = Be<std::uint16_t>{1};
  q.chunk = Be<std::uint32_t>{1};
  q.contributors = Be<std::uint64_t>{1};
  return changed(sealed(q), change);
}

Bytes control(Twins& t, PacketType type, const std::function<void(Header&)>& change) {
  return changed(t.box.echo(type, 0), change);
}

Bytes bare(Twins& t, PacketType type) { return sealed(t.box.from_box(type)); }

void next_epoch(Header& h) { h.epoch = Be<std::uint32_t>{h.epoch.host() + 1}; }
void other_cookie(Header& h) { h.cookie = Be<std::uint64_t>{h.cookie.host() ^ 1}; }
void other_job(Header& h) { h.job = Be<std::uint16_t>{9}; }
void from_rank_one(Header& h) { h.rank = Be<std::uint16_t>{1}; }
void nothing(Header&) {}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"empty", Refused::kRunt, [](Twins&) { return Bytes{}; }},
      {"55 bytes", Refused::kRunt,
       [](Twins& t) {
         auto b = result(t);
         b.resize(55);
         return b;
       }},
      {"version 1", Refused::kVersion,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.version = 1; }); }},
      {"flipped header bit", Refused::kCheck,
       [](Twins& t) {
         auto b = result(t);
         b[14] ^= std::byte{4};
         return b;
       }},
      {"type 0", Refused::kType,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.type = PacketType{0}; }); }},
      {"type 21", Refused::kType,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.type = PacketType{21}; }); }},
      {"a run in an epoch without", Refused::kType,
       [](Twins& t) {
         Header h = header_of(result(t));
         h.type = PacketType::kZeroRun;
         h.contributors = Be<std::uint64_t>{1};
         return sealed(h);
       }},
      {"a run with values", Refused::kLength,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.type = PacketType::kZeroRun; }); }},
      {"CONTRIBUTE", Refused::kType, [](Twins& t) { return t.sent[0].bytes; }},
      {"ANSWER", Refused::kType,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.type = PacketType::kAnswer; }); }},
      {"PARTIAL", Refused::kType,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.type = PacketType::kPartial; }); }},
      {"unknown flag", Refused::kFlags,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.flags = 128; }); }},
      {"rows in an epoch without", Refused::kFlags,
       [](Twins& t) {
         std::vector<std::int32_t> values(32);
         values[3] = 10;
         return without_zero_rows(sealed(header_of(result(t)), values));
       }},
      {"rows that are as long", Refused::kLength,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.flags = kFlagSparse; }); }},
      {"payload cut", Refused::kLength,
       [](Twins& t) {
         auto b = result(t);
         b.pop_back();
         return b;
       }},
      {"payload too long", Refused::kLength,
       [](Twins& t) {
         auto b = result(t);
         b.resize(b.size() + 4);
         return b;
       }},
      {"elements not of 16", Refused::kLength,
       [](Twins& t) {
         auto b = changed(result(t), [](Header& h) { h.elements = Be<std::uint16_t>{20}; });
         b.resize(kHeaderBytes + 80);
         return b;
       }},
      {"elements 65535", Refused::kLength,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.elements = Be<std::uint16_t>{65535}; }); }},
      {"RESULT of another job", Refused::kJob, [](Twins& t) { return changed(result(t), other_job); }},
      {"RESULT from a rank", Refused::kRank, [](Twins& t) { return changed(result(t), from_rank_one); }},
      {"RESULT of another epoch", Refused::kEpoch, [](Twins& t) { return changed(result(t), next_epoch); }},
      {"RESULT with another cookie", Refused::kCookie,
       [](Twins& t) { return changed(result(t), other_cookie); }},
      {"RESULT once more", Refused::kLate, [](Twins& t) { return result(t, 1); }},
      {"RESULT below the window", Refused::kLate,
       [](Twins& t) {
         return changed(result(t), [](Header& h) { h.chunk = Be<std::uint32_t>{0xFFFFFFFF}; });
       }},
      {"RESULT half the numbers away", Refused::kLate,
       [](Twins& t) {
         return changed(result(t), [](Header& h) { h.chunk = Be<std::uint32_t>{0x80000000}; });
       }},
      {"RESULT beyond the window", Refused::kNotWaited,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.chunk = Be<std::uint32_t>{16}; }); }},
      {"RESULT never offered", Refused::kNotWaited,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.chunk = Be<std::uint32_t>{5}; }); }},
      {"INCOMPLETE", Refused::kIncomplete,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.flags = kFlagIncomplete; }); }},
      {"contributors too few", Refused::kContributors,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.contributors = Be<std::uint64_t>{1}; }); }},
      {"contributors too many", Refused::kContributors,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.contributors = Be<std::uint64_t>{7}; }); }},
      {"fewer elements", Refused::kShape,
       [](Twins& t) {
         auto b = changed(result(t), [](Header& h) { h.elements = Be<std::uint16_t>{16}; });
         b.resize(kHeaderBytes + 64);
         return b;
       }},
      {"dtype", Refused::kShape, [](Twins& t) { return changed(result(t), [](Header& h) { h.dtype = 1; }); }},
      {"dtype unknown", Refused::kShape,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.dtype = 9; }); }},
      {"total", Refused::kShape,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.total = Be<std::uint32_t>{81}; }); }},
      {"exponent on integers", Refused::kExponent,
       [](Twins& t) { return changed(result(t), [](Header& h) { h.exponent = 3; }); }},
      {"exponent below ours", Refused::kExponent,
       [](Twins& t) { return changed(result(t, 3), [](Header& h) { h.exponent = 0; }); }},
      {"exponent missing", Refused::kExponent,
       [](Twins& t) { return changed(result(t, 3), [](Header& h) { h.exponent = kNoExponent; }); }},
      {"sum1", Refused::kSum,
       [](Twins& t) { return changed(result(t, 2), [](Header& h) { h.sum1 = Be<std::uint32_t>{1}; }); }},
      {"flipped payload bit", Refused::kSum,
       [](Twins& t) {
         auto b = result(t);
         b[100] ^= std::byte{16};
         return b;
       }},
      {"swapped elements", Refused::kSum,
       [](Twins& t) {
         auto h = header_of(result(t));
         auto v = values_of(result(t));
         v[0] += 1;
         v[9] -= 1;
         return sealed(h, v);
       }},
      {"JOINED unasked", Refused::kState, [](Twins& t) { return t.box.joined(JoinStatus::kRunning, 1, 0); }},
      {"JOINED refused unasked", Refused::kState,
       [](Twins& t) { return t.box.joined(JoinStatus::kRefused, 1, 0, "no"); }},
      {"JOINED from a rank", Refused::kRank,
       [](Twins& t) { return changed(t.box.joined(JoinStatus::kRunning, 1, 0), from_rank_one); }},
      {"JOINED cut", Refused::kLength,
       [](Twins& t) {
         return sealed(t.box.from_box(PacketType::kJoined), Bytes(sizeof(JoinedPayload) + kTagBytes - 1));
       }},
      {"JOINED text length", Refused::kLength,
       [](Twins& t) {
         Bytes p(sizeof(JoinedPayload) + 1 + kTagBytes);
         return sealed(t.box.from_box(PacketType::kJoined), p);
       }},
      {"JOINED flipped payload", Refused::kPayload,
       [](Twins& t) {
         auto b = t.box.joined(JoinStatus::kRunning, 1, 0);
         b[70] ^= std::byte{1};
         return b;
       }},
      {"REJECT with payload", Refused::kLength,
       [](Twins& t) {
         auto b = waiting(t, nothing);
         b.resize(60);
         return b;
       }},
      {"REJECT of control without the session's key", Refused::kTag,
       [](Twins& t) {
         const Bytes b = t.box.call_back(0);
         return box_says(header_of(b), next_counter(), auth::job_key("test", "guess"));
       }},
      {"REJECT of control to another rank", Refused::kTag, [](Twins& t) { return t.box.call_back(1); }},
      {"REJECT(job) that answers no HEARTBEAT", Refused::kReplay,
       [](Twins& t) {
         Header h = header_of(t.box.call_back(0));
         h.slot = Be<std::uint32_t>{2};
         return box_says(h, next_counter(), Box::job_key());
       }},
      {"REJECT(job) under a session key", Refused::kTag,
       [](Twins& t) {
         Header h = header_of(t.box.call_back(0));
         h.slot = Be<std::uint32_t>{2};
         return box_tells(t.box.epoch_of(0), h);
       }},
      {"REJECT of control of another kind", Refused::kReason,
       [](Twins& t) {
         Header h = header_of(t.box.call_back(0));
         h.slot = Be<std::uint32_t>{4};
         return box_tells(t.box.epoch_of(0), h);
       }},
      {"CHALLENGE unasked", Refused::kState, [](Twins& t) { return t.box.challenge(1); }},
      {"CHALLENGE cut", Refused::kLength,
       [](Twins&) {
         Header h;
         h.type = PacketType::kChallenge;
         h.rank = Be{raw(kSwitchRank)};
         return sealed(h, Bytes(sizeof(ChallengePayload) - 1));
       }},
      {"REJECT from a rank", Refused::kRank, [](Twins& t) { return waiting(t, from_rank_one); }},
      {"REJECT reason", Refused::kReason,
       [](Twins& t) { return waiting(t, [](Header& h) { h.slot = Be<std::uint32_t>{4}; }); }},
      {"REJECT(epoch) of another epoch", Refused::kEpoch,
       [](Twins& t) {
         return waiting(t, [](Header& h) {
           h.slot = Be<std::uint32_t>{1};
           next_epoch(h);
         });
       }},
      {"REJECT(job) of another job", Refused::kJob,
       [](Twins& t) {
         return waiting(t, [](Header& h) {
           h.slot = Be<std::uint32_t>{2};
           other_job(h);
         });
       }},
      {"NACK from a rank", Refused::kRank, [](Twins& t) { return nack(t, from_rank_one); }},
      {"NACK job", Refused::kJob, [](Twins& t) { return nack(t, other_job); }},
      {"NACK epoch", Refused::kEpoch, [](Twins& t) { return nack(t, next_epoch); }},
      {"NACK cookie", Refused::kCookie, [](Twins& t) { return nack(t, other_cookie); }},
      {"NACK of no shard", Refused::kNotWaited,
       [](Twins& t) { return nack(t, [](Header& h) { h.total = Be<std::uint32_t>{64}; }); }},
      {"NACK with values", Refused::kLength,
       [](Twins& t) {
         auto b = nack(t, nothing);
         b.resize(60);
         return b;
       }},
      {"REJECT(waiting) job", Refused::kJob, [](Twins& t) { return waiting(t, other_job); }},
      {"REJECT(waiting) epoch", Refused::kEpoch, [](Twins& t) { return waiting(t, next_epoch); }},
      {"REJECT(waiting) cookie", Refused::kCookie, [](Twins& t) { return waiting(t, other_cookie); }},
      {"REJECT(waiting) of a finished chunk", Refused::kLate,
       [](Twins& t) { return waiting(t, [](Header& h) { h.chunk = Be<std::uint32_t>{1}; }); }},
      {"REJECT(waiting) of an old chunk", Refused::kLate,
       [](Twins& t) { return waiting(t, [](Header& h) { h.chunk = Be<std::uint32_t>{0xFFFFFFF0}; }); }},
      {"REJECT(waiting) never offered", Refused::kNotWaited,
       [](Twins& t) { return waiting(t, [](Header& h) { h.chunk = Be<std::uint32_t>{9}; }); }},
      {"QUERY job", Refused::kJob, [](Twins& t) { return query(t, other_job); }},
      {"QUERY epoch", Refused::kEpoch, [](Twins& t) { return query(t, next_epoch); }},
      {"QUERY with a member's cookie", Refused::kCookie,
       [](Twins& t) {
         return query(t, [&](Header& h) { h.cookie = Be<std::uint64_t>{t.box.cookie_of(1)}; });
       }},
      {"QUERY for another", Refused::kPeer,
       [](Twins& t) { return query(t, [](Header& h) { h.contributors = Be<std::uint64_t>{2}; }); }},
      {"QUERY for all", Refused::kPeer,
       [](Twins& t) { return query(t, [](Header& h) { h.contributors = Be<std::uint64_t>{3}; }); }},
      {"QUERY by nobody", Refused::kPeer,
       [](Twins& t) { return query(t, [](Header& h) { h.rank = Be<std::uint16_t>{2}; }); }},
      {"QUERY by ourselves", Refused::kPeer,
       [](Twins& t) { return query(t, [](Header& h) { h.rank = Be<std::uint16_t>{0}; }); }},
      {"QUERY with payload", Refused::kLength,
       [](Twins& t) {
         auto b = query(t, nothing);
         b.resize(120);
         return b;
       }},
      {"ABORT epoch", Refused::kEpoch, [](Twins& t) { return changed(t.box.abort("x"), next_epoch); }},
      {"ABORT cookie", Refused::kCookie, [](Twins& t) { return changed(t.box.abort("x"), other_cookie); }},
      {"ABORT job", Refused::kJob, [](Twins& t) { return changed(t.box.abort("x"), other_job); }},
      {"ABORT from a rank", Refused::kRank,
       [](Twins& t) { return changed(t.box.abort("x"), from_rank_one); }},
      {"ABORT flipped text", Refused::kPayload,
       [](Twins& t) {
         auto b = t.box.abort("text");
         b.back() ^= std::byte{1};
         return b;
       }},
      {"ABORT without the session's key", Refused::kTag,
       [](Twins& t) {
         return box_says(t.box.from_box(PacketType::kAbort), next_counter(), Box::job_key(), text_bytes("x"));
       }},
      {"ABORT to another rank", Refused::kTag, [](Twins& t) { return t.box.abort("x", 1); }},
      {"ABORT with another text", Refused::kTag,
       [](Twins& t) {
         Bytes b = t.box.abort("text");
         b[kHeaderBytes + sizeof(CountedPayload)] ^= std::byte{1};
         return resealed_control(b);
       }},
      {"ABORT that was a HEARTBEAT", Refused::kTag,
       [](Twins& t) {
         return changed(t.box.echo(PacketType::kHeartbeat, 0),
                        [](Header& h) { h.type = PacketType::kAbort; });
       }},
      {"ABORT without tag", Refused::kLength, [](Twins& t) { return bare(t, PacketType::kAbort); }},
      {"ABORT too long", Refused::kLength, [](Twins& t) { return t.box.abort(std::string(513, 'x')); }},
      {"HEARTBEAT epoch", Refused::kEpoch,
       [](Twins& t) { return control(t, PacketType::kHeartbeat, next_epoch); }},
      {"HEARTBEAT cookie", Refused::kCookie,
       [](Twins& t) { return control(t, PacketType::kHeartbeat, other_cookie); }},
      {"HEARTBEAT from a rank", Refused::kRank,
       [](Twins& t) { return control(t, PacketType::kHeartbeat, from_rank_one); }},
      {"HEARTBEAT without tag", Refused::kLength, [](Twins& t) { return bare(t, PacketType::kHeartbeat); }},
      {"HEARTBEAT that names other ranks", Refused::kTag,
       [](Twins& t) {
         return control(t, PacketType::kHeartbeat, [](Header& h) { h.contributors = Be<std::uint64_t>{1}; });
       }},
      {"LEAVE unasked", Refused::kState, [](Twins& t) { return control(t, PacketType::kLeave, nothing); }},
      {"JOIN", Refused::kType, [](Twins& t) { return control(t, PacketType::kJoin, nothing); }},
      {"PROBE", Refused::kType, [](Twins& t) { return control(t, PacketType::kProbe, nothing); }},
  };
  return all;
}

TEST(Refuse, EveryClassIsOneCounterAndNothingElse) {
  for (const Case& c : cases()) {
    Twins twins;
    twins.refuse(c.name, c.reason, c.datagram(twins));
    if (testing::Test::HasFailure()) break;
    twins.finish();
    ASSERT_FALSE(testing::Test::HasFailure()) << c.name;
  }
}

TEST(Refuse, EveryReasonHasACase) {
  std::array<bool, kRefusedCount> seen{};
  for (const Case& c : cases()) seen[static_cast<std::size_t>(c.reason)] = true;
  for (std::size_t i = 0; i < kRefusedCount; ++i) {
    const auto r = static_cast<Refused>(i);
    if (r == Refused::kNonce || r == Refused::kJoined) continue;  // engine_join_test.cc
    if (r == Refused::kSlot) continue;                            // of servers: ps_merge_test.cc
    EXPECT_TRUE(seen[i]) << name_of(r);
  }
}

TEST(Refuse, BeforeJoiningNothingIsBelieved) {
  Box box(JobShape{});
  const auto engine = std::move(*engine::WorkerEngine::create(options_of({}, 0), kernels::best_kernels()));
  (void)drain(*engine, 0);
  Header data = box.from_box(PacketType::kContribute);
  engine->receive(box.reject(RejectReason::kEpoch, data), 1);
  engine->receive(box.abort("no"), 1);
  engine->receive(box.echo(PacketType::kHeartbeat, 0), 1);
  engine->receive(box.call_back(0), 1);
  engine->receive(sealed(box.from_box(PacketType::kResult)), 1);
  engine->receive(sealed(box.from_box(PacketType::kQuery)), 1);
  EXPECT_EQ(engine->statistics().of(Refused::kState), 6U);
  EXPECT_EQ(engine->statistics().refused_total(), 6U);
  EXPECT_EQ(engine->state(), engine::EngineState::kJoining);
}

// What was said once says nothing the second time, in whatever order copies come.
TEST(Refuse, CopiesOfControlAreNothingNew) {
  Twins t;
  const Bytes first = t.box.echo(PacketType::kHeartbeat, 0);
  const Bytes second = t.box.echo(PacketType::kHeartbeat, 0);
  const Bytes third = t.box.call_back(0);
  for (auto& engine : t.engine) engine->receive(second, t.now);
  t.refuse("older", Refused::kReplay, first);
  t.refuse("again", Refused::kReplay, second);
  for (auto& engine : t.engine) engine->receive(third, t.now);
  EXPECT_EQ(t.engine[0]->state(), engine::EngineState::kJoining);
  t.refuse("called back again", Refused::kReplay, third);
}

// Anything at all, on exact-size heap copies so that a read behind the end is found by ASan.
TEST(Refuse, RandomBytesAndBitFlips) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    Twins t;
    std::vector<Bytes> good{result(t),
                            result(t, 3),
                            waiting(t, nothing),
                            query(t, nothing),
                            t.box.abort("bye"),
                            t.box.joined(JoinStatus::kRunning, 1, 0),
                            control(t, PacketType::kHeartbeat, nothing)};
    for (int i = 0; i < 500; ++i) {
      Bytes b = good[random() % good.size()];
      const std::size_t flips = 1 + random() % 4;
      for (std::size_t k = 0; k < flips; ++k)
        b[random() % b.size()] ^= static_cast<std::byte>(1U << random() % 8);
      if (random() % 3 == 0) b.resize(random() % (b.size() + 1));
      if (b.size() >= kHeaderBytes && random() % 2 == 0) b = resealed(b);
      const auto copy = std::make_unique<std::byte[]>(b.size());
      std::copy(b.begin(), b.end(), copy.get());
      t.engine[0]->receive({copy.get(), b.size()}, 3);
      (void)drain(*t.engine[0], 3);
    }
    EXPECT_GT(t.engine[0]->statistics().refused_total(), 200U);
  }
}

}  // namespace
}  // namespace tally::testbed

// Sessions of the dialect switchml, rule by rule, in both executions: what real clients do, and what keeps
// several of them apart (docs/switchml.md).

#include "session_core.h"

namespace tally {
namespace {

template <class Exec>
class SessionRules : public SessionCore<Exec> {
 protected:
  std::string drop_of(const jobs::SessionJob& job, const Bytes& frame) {
    const pipeline::Outcome out = this->take(frame, job.ranks[0].binding.port).out;
    return out.verdict == Verdict::kDrop ? std::string(name_of(out.drop)) : std::string(name_of(out.verdict));
  }
  Bytes good(const jobs::SessionJob& job) { return session_frame(job, {}, test_box()); }
};
TYPED_TEST_SUITE(SessionRules, BothExecutions);

TYPED_TEST(SessionRules, stale_resends_are_never_added) {
  const jobs::SessionJob job = this->publish({});
  this->reduce(job, 3, 10);
  this->reduce(job, 4, 2);
  // Of the operation before, of an earlier chunk, of operations long ago; onto a complete entry.
  for (const auto& [number, tsi] : {std::pair{3, 10U}, {3, 11U}, {4, 1U}, {0, 0U}, {254, 7U}, {150, 7U}})
    EXPECT_EQ(this->says(job, this->chunk(0, static_cast<std::uint8_t>(number), tsi)), "drop stale")
        << number;
  // And onto a filling one.
  EXPECT_EQ(this->says(job, this->chunk(0, 5, 0)), "absorb");
  EXPECT_EQ(this->says(job, this->chunk(1, 4, 2)), "drop stale");
  EXPECT_EQ(this->says(job, this->chunk(1, 3, 10)), "drop stale");
  this->expect_result(job, this->chunk(1, 5, 0), Verdict::kComplete,
                      {this->chunk(0, 5, 0).value, this->chunk(1, 5, 0).value});
}

TYPED_TEST(SessionRules, tsi_is_a_little_endian_number) {
  const jobs::SessionJob job = this->publish({});
  this->reduce(job, 1, 0x0000'0100);
  EXPECT_EQ(this->says(job, this->chunk(0, 1, 0x0000'00ff)), "drop stale");
  EXPECT_EQ(this->says(job, this->chunk(0, 1, 0xff00'0000)), "absorb");
}

TYPED_TEST(SessionRules, wrong_checksums_are_accepted_and_replies_are_exact_to_the_byte) {
  const jobs::SessionJob job = this->publish({.world = 2, .payload = 1024});
  SessionSent one{.rank = 0, .slot = 3, .set = 1, .job_number = 200, .tsi = 0x01020304, .value = -7};
  one.exponent0 = -100;
  one.exponent1 = 30;
  one.udp_source = 4001;
  SessionSent two = one;
  two.rank = 1;
  two.value = 0x7fff'ff00;
  two.exponent0 = 5;
  two.exponent1 = -128;
  two.udp_source = 4003;
  two.flags = 0x08;  // the unused bit, which a reply does not have
  EXPECT_EQ(this->says(job, one), "absorb");
  const auto taken = this->send(job, two);
  ASSERT_EQ(taken.frames.size(), 2U);
  const auto values = this->sums(job, {one.value, two.value});
  EXPECT_EQ(taken.frames[0].second, session_reply(job, two, test_box(), 0, 4001, 5, 30, values));
  EXPECT_EQ(taken.frames[1].second, session_reply(job, two, test_box(), 1, 4003, 5, 30, values));
  // The stored one goes to where the member is now.
  one.udp_source = 4002;
  const auto again = this->send(job, one);
  ASSERT_EQ(again.frames.size(), 1U);
  EXPECT_EQ(again.frames[0].second, session_reply(job, one, test_box(), 0, 4002, 5, 30, values));
}

// Also a duplicate of a chunk that still fills says where its sender is.
TYPED_TEST(SessionRules, a_duplicate_renews_the_return_path) {
  for (const jobs::TsiRule tsi : {jobs::TsiRule::kPacket, jobs::TsiRule::kOpaque}) {
    const jobs::SessionJob job =
        this->publish({.id = static_cast<std::uint16_t>(1 + static_cast<int>(tsi)), .tsi = tsi});
    SessionSent one = this->chunk(0, 1, 1);
    EXPECT_EQ(this->says(job, one), "absorb");
    one.udp_source = 4711;
    EXPECT_EQ(this->take(session_frame(job, one, test_box()), PortIndex{9}).out.drop, Drop::kDuplicate);
    EXPECT_EQ(this->send(job, this->chunk(1, 1, 1)).out.verdict, Verdict::kComplete);
    EXPECT_EQ(this->pipeline_.return_paths()[0].udp_port, 4711);
    EXPECT_EQ(this->pipeline_.return_paths()[0].port, PortIndex{9});
  }
}

TYPED_TEST(SessionRules, all_payloads_and_up_to_64_members) {
  std::uint16_t id = 1;
  for (const std::uint16_t payload : std::array<std::uint16_t, 4>{128, 256, 512, 1024}) {
    for (const std::uint8_t world : std::array<std::uint8_t, 4>{1, 16, 17, 64})
      this->reduce(this->publish({.id = id++, .world = world, .payload = payload, .slots = 2}), 1, 1, 1);
    const jobs::SessionJob opaque = this->publish(
        {.id = id++, .world = 32, .payload = payload, .slots = 2, .tsi = jobs::TsiRule::kOpaque});
    this->reduce(opaque, 1, 1, 1);
  }
}

// Float clients send exponents a batch ahead, and at the end one batch whose values mean nothing.
TYPED_TEST(SessionRules, float_clients_extra_batch_is_summed_like_any_other) {
  const jobs::SessionJob job = this->publish({});
  for (std::uint32_t r = 0; r < 2; ++r) {
    SessionSent garbage = this->chunk(r, 1, 9);
    garbage.value = r == 0 ? -0x7fff'ffff : -0x1234'5678;
    garbage.exponent0 = -128;
    if (r == 0) {
      EXPECT_EQ(this->says(job, garbage), "absorb");
    } else {
      const auto taken = this->send(job, garbage);
      ASSERT_EQ(taken.frames.size(), 2U);
      const auto values = this->sums(job, {-0x7fff'ffff, -0x1234'5678});
      EXPECT_EQ(taken.frames[0].second, session_reply(job, garbage, test_box(), 0, 4000, -128, 0, values));
    }
  }
  EXPECT_EQ(this->state(job).overflows, 1U) << "wraps around, and is counted";
}

TYPED_TEST(SessionRules, opaque_takes_any_tsi_and_job_number) {
  const jobs::SessionJob job = this->publish({.tsi = jobs::TsiRule::kOpaque});
  SessionSent one{.rank = 0, .job_number = 9, .tsi = 0xdead, .value = 1};
  SessionSent two{.rank = 1, .job_number = 3, .tsi = 0xbeef, .value = 10};
  EXPECT_EQ(this->says(job, one), "absorb");
  this->expect_result(job, two, Verdict::kComplete, {1, 10});
  this->expect_result(job, one, Verdict::kRepeat, {1, 10});
}

TYPED_TEST(SessionRules, opaque_adds_nothing_to_a_complete_set_that_others_have_not_released) {
  const jobs::SessionJob job = this->publish({.world = 3, .tsi = jobs::TsiRule::kOpaque});
  const auto sent = [](std::uint32_t rank, std::uint32_t set) {
    return SessionSent{.rank = rank, .set = set, .value = static_cast<std::int32_t>(1 + rank)};
  };
  EXPECT_EQ(this->says(job, sent(0, 0)), "absorb");
  EXPECT_EQ(this->says(job, sent(1, 0)), "absorb");
  this->expect_result(job, sent(2, 0), Verdict::kComplete, {1, 2, 3});
  EXPECT_EQ(this->says(job, sent(0, 1)), "absorb");  // released set 0
  EXPECT_EQ(this->says(job, sent(0, 0)), "drop foreign");
  this->expect_result(job, sent(1, 0), Verdict::kRepeat, {1, 2, 3});
  EXPECT_EQ(this->says(job, sent(1, 1)), "absorb");
  this->expect_result(job, sent(2, 1), Verdict::kComplete, {1, 2, 3});
}

// No client does that while the first set fills; a sum that has lost one of its bits must not be finished.
TYPED_TEST(SessionRules, opaque_begins_a_set_again_that_a_contributor_left_unfinished) {
  const jobs::SessionJob job = this->publish({.world = 3, .tsi = jobs::TsiRule::kOpaque});
  const auto sent = [](std::uint32_t rank, std::uint32_t set, std::int32_t value) {
    return SessionSent{.rank = rank, .set = set, .value = value};
  };
  EXPECT_EQ(this->says(job, sent(0, 0, 1)), "absorb");
  EXPECT_EQ(this->says(job, sent(1, 0, 2)), "absorb");
  EXPECT_EQ(this->says(job, sent(0, 1, 50)), "absorb");
  EXPECT_EQ(this->says(job, sent(2, 0, 4)), "absorb") << "not the third of them, but the first again";
  EXPECT_EQ(this->says(job, sent(1, 0, 2)), "absorb");
  this->expect_result(job, sent(0, 0, 1), Verdict::kComplete, {1, 2, 4});
}

TYPED_TEST(SessionRules, each_refusal_has_its_name_and_its_job) {
  const jobs::SessionJob job = this->publish({.payload = 256});
  EXPECT_EQ(this->drop_of(job, this->good(job)), "absorb");
  const auto refused = [&](std::size_t at, int value, const char* why) {
    Bytes frame = this->good(job);
    frame[at] = static_cast<std::byte>(value);
    EXPECT_EQ(this->drop_of(job, frame), why) << "byte " << at;
  };
  constexpr std::size_t kHeader = 42;
  refused(kHeader, 0x01, "type");
  refused(kHeader, 0x21, "type");
  refused(kHeader, 0x10, "elements");
  refused(kHeader, 0x17, "elements");
  refused(kHeader + 7, 8, "slot");
  refused(kHeader + 6, 0x40, "slot");
  refused(17, 0x00, "length");  // of IP
  refused(39, 0x00, "length");  // of UDP
  refused(14, 0x46, "ip_header");
  refused(20, 0x20, "fragment");
  EXPECT_EQ(this->pipeline_.counters(job.id).of(Drop::kSlot), 2U);
  // A source that no member has.
  refused(11, 99, "member");
  refused(29, 99, "member");
  refused(37, 0xe1, "member");
  EXPECT_EQ(this->pipeline_.counters(JobId{0}).of(Drop::kMember), 3U);
  // A whole datagram of another size; and one that ends within the header.
  Bytes frame = session_frame(make_session({.payload = 128}), {.flags = 1}, test_box());
  EXPECT_EQ(this->drop_of(job, frame), "length");
  frame.resize(42 + 9);
  frame[17] = std::byte{20 + 8 + 9};
  frame[16] = std::byte{0};
  frame[39] = std::byte{8 + 9};
  frame[38] = std::byte{0};
  EXPECT_EQ(this->drop_of(job, frame), "runt");
}

// A frame for these ports that no client sends is UDP to the box like any other: the switch says 'not
// served'.
TYPED_TEST(SessionRules, tagged_frames_and_broadcasts_are_not_the_dialects) {
  const jobs::SessionJob job = this->publish({});
  Bytes tagged = this->good(job);
  const std::array tag{std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{5}};
  tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
  EXPECT_EQ(this->drop_of(job, tagged), "forward");
  Bytes broadcast = this->good(job);
  std::fill_n(broadcast.begin(), 6, std::byte{0xff});
  EXPECT_EQ(this->drop_of(job, broadcast), "forward");
}

TYPED_TEST(SessionRules, without_a_session_the_senders_name_is_unknown) {
  EXPECT_EQ(this->drop_of(make_session({}), this->good(make_session({}))), "member");
  const jobs::SessionJob job = this->publish({});
  EXPECT_EQ(this->drop_of(job, this->good(job)), "absorb");
  this->adopt(this->table_->with(job.id, {}));
  EXPECT_EQ(this->drop_of(job, this->good(job)), "member");
}

TYPED_TEST(SessionRules, several_sessions_do_not_touch_each_other) {
  std::vector<jobs::SessionJob> jobs;
  for (std::uint16_t id = 1; id <= 3; ++id)
    jobs.push_back(this->publish({.id = id,
                                  .payload = id == 2 ? std::uint16_t{256} : std::uint16_t{128},
                                  .tsi = id == 3 ? jobs::TsiRule::kOpaque : jobs::TsiRule::kPacket}));
  for (const jobs::SessionJob& job : jobs) EXPECT_EQ(this->says(job, this->chunk(0, 1, 1)), "absorb");
  for (const jobs::SessionJob& job : jobs) {
    this->expect_result(job, this->chunk(1, 1, 1), Verdict::kComplete,
                        {this->chunk(0, 1, 1).value, this->chunk(1, 1, 1).value});
    EXPECT_EQ(this->pipeline_.counters(job.id).of(Verdict::kAbsorb), 1U);
    EXPECT_EQ(this->pipeline_.counters(job.id).of(Verdict::kComplete), 1U);
    EXPECT_EQ(this->state(job).last_seen[0].get(), this->now_);
  }
  // A member of one with the address of another's: of none.
  Bytes mixed = this->good(jobs[0]);
  const Bytes other = this->good(jobs[1]);
  std::copy_n(other.begin() + 26, 4, mixed.begin() + 26);
  EXPECT_EQ(this->drop_of(jobs[0], mixed), "member");
}

TYPED_TEST(SessionRules, no_native_packet_finds_a_session) {
  const jobs::SessionJob job = this->publish({});
  EXPECT_EQ(this->table_->find(job.id), nullptr);
  EXPECT_EQ(jobs::job_of(this->table_->row(job.id))->id, job.id);
  jobs::NativeJob native = make_job({.id = raw(job.id), .epoch = raw(job.epoch)});
  const Bytes datagram =
      make_contribution(native, {.rank = Rank{0}, .values = std::vector<std::int32_t>(16, 1), .total = 16});
  const Bytes frame = wrap(datagram, native.ranks[0].binding, test_box(), kBasePort);
  EXPECT_EQ(this->drop_of(job, frame), "job");
  // And the other way round: a row that becomes a native job's is no session any more.
  this->adopt(this->table_->with(job.id, std::make_shared<const jobs::NativeJob>(native)));
  EXPECT_EQ(this->drop_of(job, this->good(job)), "member");
  EXPECT_EQ(this->table_->find(job.id)->id, job.id);
}

TYPED_TEST(SessionRules, a_session_lives_on_its_home_core) {
  const jobs::SessionJob job = this->publish({.home = 1});
  const Bytes frame = this->good(job);
  const auto taken = this->take(frame);
  EXPECT_EQ(taken.out.verdict, Verdict::kHandOver);
  EXPECT_EQ(taken.out.owner, 1);
  pipeline::Pipeline<TypeParam> home({.core = 1, .box = test_box()}, this->memory_.region(),
                                     kernels::best_kernels());
  home.adopt(this->table_.get());
  ReceivedFrame received(frame, PortIndex{0}, false);
  EXPECT_EQ(home.process(received.frame(), this->now_).verdict, Verdict::kAbsorb);
}

TYPED_TEST(SessionRules, lines_that_are_given_back_leave_the_occupancy) {
  const jobs::SessionJob job = this->publish({.world = 3});
  EXPECT_EQ(this->says(job, this->chunk(0, 1, 0, 0)), "absorb");
  EXPECT_EQ(this->says(job, this->chunk(0, 1, 1, 7)), "absorb");
  this->reduce(job, 1, 2, 3);
  EXPECT_EQ(this->state(job).occupancy, 2U);
  this->pipeline_.release(job.id, job.slots, job.elements, job.members, jobs::session_front_lines(job.world));
  EXPECT_EQ(this->state(job).occupancy, 0U);
  this->reduce(job, 1, 0, 0);
}

// An epoch ends with its session: what the one before left in the same lines is nobody's.
TYPED_TEST(SessionRules, an_entry_of_another_epoch_is_free) {
  jobs::SessionJob job = this->publish({});
  EXPECT_EQ(this->says(job, this->chunk(0, 9, 9)), "absorb");
  job.epoch = Epoch{raw(job.epoch) + 77};
  this->adopt(this->table_->with(job.id, std::make_shared<const jobs::SessionJob>(job)));
  this->reduce(job, 1, 1);
  EXPECT_EQ(this->state(job).occupancy, 0U);
}

}  // namespace
}  // namespace tally

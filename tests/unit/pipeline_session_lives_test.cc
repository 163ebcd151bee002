// Sessions of the dialect switchml in time, in both executions: members that are late or silent for seconds,
// operations whose numbers come again, clients that are started again, and what the published client's timers
// send (docs/switchml.md, session_pool.h).

#include "session_core.h"

namespace tally {
namespace {

constexpr TimeNs kLong = 100 * kSecond;

template <class Exec>
class SessionLives : public SessionCore<Exec> {
 protected:
  jobs::SessionJob publish_with(jobs::TsiRule tsi, std::uint8_t world = 2) {
    return this->publish(
        {.id = static_cast<std::uint16_t>(1 + static_cast<int>(tsi)), .world = world, .tsi = tsi});
  }
  // As control does it: another epoch, the same memory.
  void reset(jobs::SessionJob& job) {
    job.epoch = Epoch{raw(job.epoch) + 77};
    this->adopt(this->table_->with(job.id, std::make_shared<const jobs::SessionJob>(job)));
  }
  std::vector<std::int32_t> values(const jobs::SessionJob& job, const SessionSent& chunk) {
    std::vector<std::int32_t> of;
    for (std::uint32_t r = 0; r < job.world; ++r)
      of.push_back(this->chunk(r, chunk.job_number, chunk.tsi).value);
    return of;
  }
  // The same chunk again, with other values.
  void reduce_anew(const jobs::SessionJob& job, const SessionSent& first) {
    std::vector<std::int32_t> of;
    for (std::uint32_t r = 0; r < job.world; ++r) {
      SessionSent sent = first;
      sent.rank = r;
      sent.value = 9'000'000 + static_cast<std::int32_t>(r);
      of.push_back(sent.value);
      if (r + 1U == job.world) {
        this->expect_result(job, sent, Verdict::kComplete, of);
      } else {
        EXPECT_EQ(this->says(job, sent), "absorb") << "rank " << r;
      }
    }
  }
  // Operations from `first` up to, not with, `end`, each of one chunk in slot 1.
  void reduce_operations(const jobs::SessionJob& job, int first, int end) {
    for (int number = first; number < end; ++number)
      this->reduce(job, static_cast<std::uint8_t>(number), 0, 1);
  }
};
TYPED_TEST_SUITE(SessionLives, BothExecutions);

constexpr std::array<jobs::TsiRule, 2> kRules{jobs::TsiRule::kPacket, jobs::TsiRule::kOpaque};

TYPED_TEST(SessionLives, a_contribution_is_added_however_late_it_comes) {
  for (const jobs::TsiRule tsi : kRules) {
    const jobs::SessionJob job = this->publish_with(tsi, 3);
    EXPECT_EQ(this->says(job, this->chunk(0, 1, 0)), "absorb");
    this->wait(kLong);
    EXPECT_EQ(this->says(job, this->chunk(0, 1, 0)), "drop duplicate");
    EXPECT_EQ(this->says(job, this->chunk(1, 1, 0)), "absorb");
    this->wait(kLong);
    this->expect_result(job, this->chunk(2, 1, 0), Verdict::kComplete,
                        this->values(job, this->chunk(0, 1, 0)));
    this->wait((TimeNs{1} << 32U) * 1024);  // once round the stamps of registers
    this->expect_result(job, this->chunk(1, 1, 0), Verdict::kRepeat, this->values(job, this->chunk(0, 1, 0)));
  }
}

// Nobody sent, for instance because all clients and their hosts stood still; somebody lacks a result.
TYPED_TEST(SessionLives, a_result_that_was_lost_before_everybody_was_silent_is_still_there) {
  for (const jobs::TsiRule tsi : kRules) {
    const jobs::SessionJob job = this->publish_with(tsi);
    this->reduce(job, 7, 1, 1);
    EXPECT_EQ(this->says(job, this->chunk(1, 7, 2, 2)), "absorb");
    this->wait(kLong);
    EXPECT_EQ(this->says(job, this->chunk(1, 7, 2, 2)), "drop duplicate");
    this->expect_result(job, this->chunk(0, 7, 1, 1), Verdict::kRepeat,
                        this->values(job, this->chunk(0, 7, 1)));
    this->expect_result(job, this->chunk(0, 7, 2, 2), Verdict::kComplete,
                        this->values(job, this->chunk(0, 7, 2)));
  }
}

// The published client's first timer of packet p says p + 1, with p's slot and the values of p + 1.
TYPED_TEST(SessionLives, a_first_timer_that_is_numbered_one_too_high_neither_takes_nor_changes_an_entry) {
  for (const jobs::TsiRule tsi : kRules) {
    const jobs::SessionJob job = this->publish_with(tsi);
    EXPECT_EQ(this->says(job, this->chunk(0, 4, 6, 3)), "absorb");
    for (int i = 0; i < 20; ++i) {
      this->wait(5 * kSecond);
      EXPECT_EQ(this->says(job, this->chunk(0, 4, 7, 3)), "drop duplicate");
    }
    this->expect_result(job, this->chunk(1, 4, 6, 3), Verdict::kComplete,
                        this->values(job, this->chunk(0, 4, 6)));
  }
}

// It left before the result came. As an answer it would be taken for the next packet's.
TYPED_TEST(SessionLives, nor_does_it_take_a_complete_one_or_get_its_result) {
  const jobs::SessionJob job = this->publish({});
  this->reduce(job, 4, 6, 3);
  EXPECT_EQ(this->says(job, this->chunk(0, 4, 7, 3)), "drop foreign");
  this->expect_result(job, this->chunk(1, 4, 6, 3), Verdict::kRepeat,
                      this->values(job, this->chunk(0, 4, 6)));
  this->reduce(job, 4, 8, 3);  // two windows on, with the smallest window
}

TYPED_TEST(SessionLives, a_filling_entry_is_kept_for_its_chunk) {
  const jobs::SessionJob job = this->publish({.world = 3});
  this->reduce_operations(job, 0, 2);
  EXPECT_EQ(this->says(job, this->chunk(0, 1, 4)), "absorb");
  this->wait(kLong);
  EXPECT_EQ(this->says(job, this->chunk(1, 1, 6)), "drop foreign");
  EXPECT_EQ(this->says(job, this->chunk(1, 2, 0)), "drop foreign") << "one member is no proof that 1 is over";
  EXPECT_EQ(this->says(job, this->chunk(1, 1, 2)), "drop stale");
  EXPECT_EQ(this->state(job).occupancy, 1U);
  EXPECT_EQ(this->says(job, this->chunk(1, 1, 4)), "absorb");
  this->expect_result(job, this->chunk(2, 1, 4), Verdict::kComplete, this->values(job, this->chunk(0, 1, 4)));
  EXPECT_EQ(this->state(job).occupancy, 0U);
}

// What fills it can only be an old timer's: with a chunk of operation 3 complete, everybody has all of 2.
TYPED_TEST(SessionLives, a_filling_entry_of_an_operation_that_is_over_is_taken) {
  const jobs::SessionJob job = this->publish({});
  this->reduce_operations(job, 0, 3);
  EXPECT_EQ(this->says(job, this->chunk(0, 2, 90)), "absorb");
  EXPECT_EQ(this->says(job, this->chunk(1, 3, 0)), "drop foreign");
  this->reduce(job, 3, 2, 1);
  EXPECT_EQ(this->state(job).occupancy, 1U);
  this->reduce(job, 3, 0);
  EXPECT_EQ(this->state(job).occupancy, 0U);
}

// Clients that compute for long, and whose old timers then fire.
TYPED_TEST(SessionLives, a_stale_resend_after_a_long_rest_takes_no_sleeping_slot) {
  const jobs::SessionJob job = this->publish({});
  this->reduce(job, 3, 10, 1);
  this->wait(kLong);
  EXPECT_EQ(this->says(job, this->chunk(0, 4, 0, 0)), "absorb")
      << "the next operation begins in another slot";
  EXPECT_EQ(this->says(job, this->chunk(0, 3, 8, 1)), "drop stale");
  EXPECT_EQ(this->says(job, this->chunk(1, 2, 90, 1)), "drop stale");
  EXPECT_EQ(this->says(job, this->chunk(1, 2, 90, 5)), "drop stale") << "nor one that was never used";
  this->expect_result(job, this->chunk(1, 3, 10, 1), Verdict::kRepeat,
                      this->values(job, this->chunk(0, 3, 10)));
}

TYPED_TEST(SessionLives, a_slot_may_sleep_through_200_jobs) {
  const jobs::SessionJob job = this->publish({});
  this->reduce(job, 3, 50, 5);
  this->reduce_operations(job, 4, 203);
  this->reduce(job, 203, 0, 5);
  this->reduce_operations(job, 204, 1100);
  this->reduce(job, static_cast<std::uint8_t>(1100), 0, 5);
}

TYPED_TEST(SessionLives, a_slot_may_sleep_through_256_jobs_and_gets_its_own_sums) {
  const jobs::SessionJob job = this->publish({});
  this->reduce(job, 3, 50, 5);
  this->reduce_operations(job, 4, 259);
  this->reduce_anew(job, this->chunk(0, 3, 50, 5));
}

TYPED_TEST(SessionLives, only_the_numbers_of_this_operation_and_the_next_are_not_stale) {
  const jobs::SessionJob job = this->publish({});
  this->reduce_operations(job, 0, 300);
  const int newest = 299;
  for (const int back : {1, 15, 127, 128, 129, 248, 254})
    EXPECT_EQ(this->says(job, this->chunk(0, static_cast<std::uint8_t>(newest - back), 9, 1)), "drop stale")
        << back;
  EXPECT_EQ(this->says(job, this->chunk(0, static_cast<std::uint8_t>(newest + 2), 9, 2)), "drop stale");
  EXPECT_EQ(this->says(job, this->chunk(0, static_cast<std::uint8_t>(newest + 1), 9, 2)), "absorb");
  // One worker alone is no witness of an operation: the count stays where all of them are.
  EXPECT_EQ(this->says(job, this->chunk(0, static_cast<std::uint8_t>(newest + 2), 9, 3)), "drop stale");
  this->reduce_operations(job, newest + 1, newest + 3);
}

// Nothing is known of a session whose box was started again, until all members vouch for an operation.
TYPED_TEST(SessionLives, an_old_packet_that_is_heard_first_is_no_measure_of_what_follows) {
  const jobs::SessionJob job = this->publish({});
  EXPECT_EQ(this->says(job, this->chunk(0, 200, 0, 3)), "absorb") << "an old timer's, before the box knows";
  EXPECT_EQ(this->says(job, this->chunk(1, 41, 0, 3)), "drop foreign");
  this->reduce(job, 41, 2, 1);
  this->reduce(job, 41, 0, 3);
  EXPECT_EQ(this->says(job, this->chunk(0, 20, 0, 1)), "drop stale") << "the result is still there";
  this->expect_result(job, this->chunk(1, 41, 2, 1), Verdict::kRepeat,
                      this->values(job, this->chunk(0, 41, 2)));
  EXPECT_EQ(this->state(job).occupancy, 0U);
}

// Silence is no word for it: an old timer says the same.
TYPED_TEST(SessionLives, clients_started_again_are_refused_until_the_session_is_reset) {
  jobs::SessionJob job = this->publish({});
  this->reduce_operations(job, 0, 20);
  EXPECT_EQ(this->says(job, this->chunk(0, 19, 70, 2)), "absorb") << "left behind unfinished";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(this->says(job, this->chunk(0, 0, 0, 1)), "drop stale");
    EXPECT_EQ(this->says(job, this->chunk(1, 0, 0, 1)), "drop stale");
    this->wait(kLong);
  }
  this->reset(job);
  for (int number = 0; number < 20; ++number) {
    this->reduce(job, static_cast<std::uint8_t>(number), 0, 1);
    this->reduce(job, static_cast<std::uint8_t>(number), 2, 2);
  }
  EXPECT_EQ(this->state(job).occupancy, 0U);
}

// The daily case: the same program once more. Nothing on the wire is different but the values.
TYPED_TEST(SessionLives, after_a_reset_nothing_of_the_run_before_is_in_a_sum_or_an_answer) {
  for (const jobs::TsiRule tsi : kRules) {
    jobs::SessionJob job = this->publish_with(tsi);
    this->reduce(job, 0, 0);
    EXPECT_EQ(this->says(job, this->chunk(0, 0, 2, 2)), "absorb") << "left behind unfinished";
    this->reset(job);
    this->reduce_anew(job, this->chunk(0, 0, 0));
    this->reduce_anew(job, this->chunk(0, 0, 2, 2));
    EXPECT_EQ(this->state(job).occupancy, 0U);
  }
}

// The original's limit: its bitmaps too are cleared by its controller alone. docs/switchml.md says so.
TYPED_TEST(SessionLives, without_a_reset_an_operation_of_the_same_number_meets_the_run_before) {
  for (const jobs::TsiRule tsi : kRules) {
    const jobs::SessionJob job = this->publish_with(tsi);
    this->reduce(job, 0, 0);
    EXPECT_EQ(this->says(job, this->chunk(0, 0, 2, 2)), "absorb");
    this->wait(kLong);
    SessionSent anew = this->chunk(0, 0, 0);
    anew.value = 12345;
    this->expect_result(job, anew, Verdict::kRepeat, this->values(job, anew));
    anew = this->chunk(0, 0, 2, 2);
    anew.value = 12345;
    EXPECT_EQ(this->says(job, anew), "drop duplicate");
  }
}

TYPED_TEST(SessionLives, members_that_ask_for_seconds_while_nothing_moves_are_told_to_control) {
  for (const jobs::TsiRule tsi : kRules) {
    const jobs::SessionJob job = this->publish_with(tsi, 3);
    auto& events = this->pipeline_.events();
    EXPECT_EQ(this->says(job, this->chunk(1, 7, 2, 5)), "absorb");
    const TimeNs asked = this->now_ += kSecond;
    for (int i = 0; i < 50; ++i) {
      EXPECT_FALSE(events.pop()) << "after " << i;
      EXPECT_EQ(this->says(job, this->chunk(1, 7, 2, 5)), "drop duplicate");
      this->wait(kSecond / 10);
    }
    EXPECT_EQ(this->says(job, this->chunk(1, 7, 2, 5)), "drop duplicate");
    const auto event = events.pop();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, pipeline::EventKind::kStalled);
    EXPECT_EQ(event->job, job.id);
    EXPECT_EQ(event->rank, Rank{1});
    EXPECT_EQ(event->chunk, Chunk{2});
    EXPECT_EQ(event->pool_index, 5);
    EXPECT_EQ(event->job_number, 7);
    EXPECT_EQ(event->others, 0b10U);
    EXPECT_EQ(event->since, asked);
    EXPECT_FALSE(event->refused);
    for (int i = 0; i < 590; ++i) {
      EXPECT_EQ(this->says(job, this->chunk(1, 7, 2, 5)), "drop duplicate");
      this->wait(kSecond / 10);
    }
    EXPECT_FALSE(events.pop()) << "once a minute";
    this->wait(2 * kSecond);
    EXPECT_EQ(this->says(job, this->chunk(1, 7, 2, 5)), "drop duplicate");
    EXPECT_TRUE(events.pop());
    EXPECT_EQ(this->says(job, this->chunk(0, 7, 2, 5)), "absorb");
    this->wait(kLong);
    EXPECT_EQ(this->says(job, this->chunk(1, 7, 2, 5)), "drop duplicate");
    EXPECT_FALSE(events.pop()) << "something moved since, and nobody asked";
  }
}

TYPED_TEST(SessionLives, so_are_members_that_are_refused) {
  const jobs::SessionJob job = this->publish({});
  this->reduce_operations(job, 0, 20);
  EXPECT_EQ(this->says(job, this->chunk(0, 0, 0, 1)), "drop stale");
  this->wait(6 * kSecond);
  EXPECT_EQ(this->says(job, this->chunk(0, 0, 0, 1)), "drop stale");
  const auto event = this->pipeline_.events().pop();
  ASSERT_TRUE(event);
  EXPECT_TRUE(event->refused);
  EXPECT_EQ(event->others, job.members);
}

}  // namespace
}  // namespace tally

// Sessions of the dialect switchml in time, in both executions: operations whose numbers come again, clients
// that are started again, and entries that were left behind (docs/switchml.md, session_pool.h).

#include "session_core.h"

namespace tally {
namespace {

template <class Exec>
class SessionLives : public SessionCore<Exec> {
 protected:
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
};
TYPED_TEST_SUITE(SessionLives, BothExecutions);

// Clients that compute for longer than the box is patient, and whose old timers then fire.
TYPED_TEST(SessionLives, a_stale_resend_after_a_long_rest_takes_no_sleeping_slot) {
  const jobs::SessionJob job = this->publish({});
  this->reduce(job, 3, 10, 1);
  this->wait(10 * kSecond);
  EXPECT_EQ(this->says(job, this->chunk(0, 4, 0, 0)), "absorb")
      << "the next operation begins in another slot";
  EXPECT_EQ(this->says(job, this->chunk(0, 3, 8, 1)), "drop stale");
  EXPECT_EQ(this->says(job, this->chunk(1, 2, 90, 1)), "drop stale");
  // The other worker comes late, while the first one asks again and again.
  for (int i = 0; i < 40; ++i) {
    this->wait(kSecond / 10);
    EXPECT_EQ(this->says(job, this->chunk(0, 4, 0, 0)), "drop duplicate");
    EXPECT_EQ(this->says(job, this->chunk(0, 3, 8, 1)), "drop stale");
  }
  this->expect_result(job, this->chunk(1, 3, 10, 1), Verdict::kRepeat,
                      {this->chunk(0, 3, 10, 1).value, this->chunk(1, 3, 10, 1).value});
}

TYPED_TEST(SessionLives, a_slot_may_sleep_through_200_jobs) {
  const jobs::SessionJob job = this->publish({});
  this->reduce(job, 3, 50, 5);
  for (int number = 4; number < 203; ++number) this->reduce(job, static_cast<std::uint8_t>(number), 0, 1);
  this->reduce(job, 203, 0, 5);
  for (int number = 204; number < 1100; ++number) this->reduce(job, static_cast<std::uint8_t>(number), 0, 1);
  this->reduce(job, static_cast<std::uint8_t>(1100), 0, 5);
}

// Job numbers begin anew, and what the last run left in the slots is older news than it looks.
TYPED_TEST(SessionLives, clients_that_were_started_again_are_heard_after_a_second_of_silence) {
  const jobs::SessionJob job = this->publish({});
  for (int number = 0; number < 20; ++number) this->reduce(job, static_cast<std::uint8_t>(number), 0, 1);
  EXPECT_EQ(this->says(job, this->chunk(0, 19, 70, 2)), "absorb") << "left behind unfinished";
  EXPECT_EQ(this->says(job, this->chunk(0, 0, 0, 1)), "drop stale");
  this->wait(kSecond + kMillisecond);
  for (int number = 0; number < 20; ++number) {
    this->reduce(job, static_cast<std::uint8_t>(number), 0, 1);
    this->reduce(job, static_cast<std::uint8_t>(number), 1, 2);
  }
  EXPECT_EQ(this->state(job).occupancy, 0U);
}

// The daily case: the same program once more. Nothing on the wire is different but the values.
TYPED_TEST(SessionLives, clients_that_were_started_again_never_get_the_sums_of_the_last_run) {
  for (const jobs::TsiRule tsi : {jobs::TsiRule::kPacket, jobs::TsiRule::kOpaque}) {
    const jobs::SessionJob job =
        this->publish({.id = static_cast<std::uint16_t>(1 + static_cast<int>(tsi)), .tsi = tsi});
    this->reduce(job, 0, 0);
    this->expect_result(job, this->chunk(0, 0, 0), Verdict::kRepeat,
                        {this->chunk(0, 0, 0).value, this->chunk(1, 0, 0).value});
    this->wait(kSecond + kMillisecond);
    this->reduce_anew(job, this->chunk(0, 0, 0));
    this->wait((TimeNs{1} << 32U) * 1024);  // once round the stamps of registers
    this->reduce(job, 0, 0);
    EXPECT_EQ(this->state(job).occupancy, 0U);
  }
}

TYPED_TEST(SessionLives, a_slot_may_sleep_through_256_jobs_and_gets_its_own_sums) {
  const jobs::SessionJob job = this->publish({});
  this->reduce(job, 3, 50, 5);
  for (int number = 4; number < 259; ++number) this->reduce(job, static_cast<std::uint8_t>(number), 0, 1);
  this->reduce_anew(job, this->chunk(0, 3, 50, 5));
}

// The others wait for it, and ask again and again; nobody takes that for silence.
TYPED_TEST(SessionLives, a_worker_that_was_stopped_for_two_seconds_gets_the_result_it_lost) {
  for (const jobs::TsiRule tsi : {jobs::TsiRule::kPacket, jobs::TsiRule::kOpaque}) {
    const jobs::SessionJob job =
        this->publish({.id = static_cast<std::uint16_t>(1 + static_cast<int>(tsi)), .tsi = tsi});
    this->reduce(job, 7, 1, 1);
    EXPECT_EQ(this->says(job, this->chunk(1, 7, 2, 2)), "absorb");
    for (int i = 0; i < 20; ++i) {
      this->wait(kSecond / 10);
      EXPECT_EQ(this->says(job, this->chunk(1, 7, 2, 2)), "drop duplicate");
    }
    this->expect_result(job, this->chunk(0, 7, 1, 1), Verdict::kRepeat,
                        {this->chunk(0, 7, 1, 1).value, this->chunk(1, 7, 1, 1).value});
    this->expect_result(job, this->chunk(0, 7, 2, 2), Verdict::kComplete,
                        {this->chunk(0, 7, 2, 2).value, this->chunk(1, 7, 2, 2).value});
  }
}

TYPED_TEST(SessionLives, a_filling_entry_is_taken_only_when_nobody_came_to_it_for_a_second) {
  const jobs::SessionJob job = this->publish({.world = 3});
  EXPECT_EQ(this->says(job, this->chunk(0, 1, 0)), "absorb");
  this->wait(kSecond / 2);
  EXPECT_EQ(this->says(job, this->chunk(1, 1, 0)), "absorb");
  this->wait(kSecond * 3 / 4);
  EXPECT_EQ(this->says(job, this->chunk(0, 1, 0)), "drop duplicate") << "it is waited for";
  this->wait(kSecond * 3 / 4);
  EXPECT_EQ(this->says(job, this->chunk(0, 2, 0)), "drop foreign");
  EXPECT_EQ(this->state(job).occupancy, 1U);
  this->wait(kSecond / 2);
  EXPECT_EQ(this->says(job, this->chunk(0, 2, 0)), "absorb");
  EXPECT_EQ(this->state(job).occupancy, 1U);
  EXPECT_EQ(this->says(job, this->chunk(2, 1, 0)), "drop stale") << "too late";
}

// What it holds may be of clients that are gone, under numbers that come again: nothing is added to it.
TYPED_TEST(SessionLives, an_entry_left_behind_is_begun_again_by_its_own_chunk_too) {
  const jobs::SessionJob job = this->publish({});
  SessionSent gone = this->chunk(0, 1, 0);
  gone.value = 12345;
  EXPECT_EQ(this->says(job, gone), "absorb");
  // Another slot is busy meanwhile, so that the session is not silent.
  for (std::uint32_t tsi = 1; tsi < 4; ++tsi) {
    this->wait(kSecond / 2);
    this->reduce(job, 1, tsi, 3);
  }
  this->reduce(job, 1, 0);
}

TYPED_TEST(SessionLives, numbers_of_248_operations_ago_are_stale_and_a_few_ahead_are_new) {
  const jobs::SessionJob job = this->publish({});
  for (int number = 0; number < 300; ++number) this->reduce(job, static_cast<std::uint8_t>(number), 0, 1);
  const int newest = 299;
  for (const int back : {1, 15, 127, 128, 129, 248})
    EXPECT_EQ(this->says(job, this->chunk(0, static_cast<std::uint8_t>(newest - back), 9, 1)), "drop stale")
        << back;
  EXPECT_EQ(this->says(job, this->chunk(0, static_cast<std::uint8_t>(newest + 7), 9, 2)), "absorb");
  // One worker alone is no witness of an operation: the count stays where all of them are.
  this->reduce(job, static_cast<std::uint8_t>(newest + 1), 0, 1);
  EXPECT_EQ(this->says(job, this->chunk(0, static_cast<std::uint8_t>(newest - 247), 9, 1)), "drop stale");
  this->reduce(job, static_cast<std::uint8_t>(newest + 2), 0, 1);
}

// An old timer that fires first after a rest makes the count begin too far ahead, until all vouch for
// another.
TYPED_TEST(SessionLives, an_old_packet_that_is_heard_first_after_a_silence_does_not_move_the_count_for_good) {
  const jobs::SessionJob job = this->publish({});
  for (int number = 0; number < 41; ++number) this->reduce(job, static_cast<std::uint8_t>(number), 0, 1);
  this->wait(2 * kSecond);
  EXPECT_EQ(this->says(job, this->chunk(0, 10, 0, 3)), "absorb");
  this->reduce(job, 41, 0, 1);
  EXPECT_EQ(this->says(job, this->chunk(0, 20, 0, 1)), "drop stale") << "the result is still there";
  this->expect_result(job, this->chunk(1, 41, 0, 1), Verdict::kRepeat,
                      {this->chunk(0, 41, 0, 1).value, this->chunk(1, 41, 0, 1).value});
}

// The box itself was stopped: its clients wait, though nothing was heard of them.
TYPED_TEST(SessionLives, a_box_that_stood_still_has_not_forgotten_its_results) {
  for (const jobs::TsiRule tsi : {jobs::TsiRule::kPacket, jobs::TsiRule::kOpaque}) {
    const jobs::SessionJob job =
        this->publish({.id = static_cast<std::uint16_t>(1 + static_cast<int>(tsi)), .tsi = tsi});
    this->reduce(job, 7, 1, 1);
    this->wait(5 * kSecond);
    this->pipeline_.unheard(5 * kSecond);
    this->expect_result(job, this->chunk(0, 7, 1, 1), Verdict::kRepeat,
                        {this->chunk(0, 7, 1, 1).value, this->chunk(1, 7, 1, 1).value});
    this->wait(kSecond + kMillisecond);
    this->reduce_anew(job, this->chunk(0, 7, 1, 1));
  }
}

// Packets that are refused are no sign of life, or clients started again within the second would shut
// themselves out.
TYPED_TEST(SessionLives, clients_that_were_started_again_too_early_are_heard_a_second_later) {
  const jobs::SessionJob job = this->publish({});
  this->reduce(job, 4, 5);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(this->says(job, this->chunk(0, 0, 0)), "drop stale");
    this->wait(kSecond / 10);
  }
  this->wait(kMillisecond);
  this->reduce(job, 0, 0);
}

}  // namespace
}  // namespace tally

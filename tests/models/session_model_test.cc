// Every state of small sessions (docs/hazards.md has the numbers): what the rules of both tsi promise, for
// clients that are late or silent for any time, and what the published client does on top of that.

#include "session_model.h"

#include <gtest/gtest.h>

#include "explorer.h"

namespace tally::models {
namespace {

using jobs::TsiRule;
using Operations = std::vector<SessionCase::Operation>;

Findings explore(const SessionCase& c) { return models::explore(SessionModel(c)); }
void expect_exact(const SessionCase& c) { expect_live(explore(c)); }

// The entries are used two and three times. kMixed also has operations smaller than a window.
const Operations kLong{{5, 1}, {1, 1}, {2, 1}, {3, 1}};
const Operations kMixed{{6, 2}, {1, 1}, {7, 2}, {1, 1}};

TEST(SessionModelPacket, late_members_without_a_loss) {
  expect_exact({.window = 1, .operations = kLong});
  expect_exact({.window = 2, .operations = kMixed});
  expect_exact({.members = 3, .window = 2, .operations = kMixed});
}

TEST(SessionModelPacket, late_members_whose_timers_are_numbered_as_published) {
  expect_exact(
      {.window = 1, .operations = kLong, .timers_one_too_high = true, .timers_behind_the_result = true});
  expect_exact({.window = 2,
                .operations = kMixed,
                .timers_one_too_high = true,
                .timers_behind_the_result = true,
                .old_timers = true});
  expect_exact({.members = 3,
                .window = 2,
                .operations = kMixed,
                .timers_one_too_high = true,
                .timers_behind_the_result = true,
                .old_timers = true});
}

TEST(SessionModelPacket, anything_lost_late_doubled_and_out_of_order) {
  expect_exact({.window = 1, .operations = kLong, .loses = true, .replays = true});
  expect_exact({.window = 2, .operations = kMixed, .loses = true, .replays = true});
  expect_exact({.members = 3, .window = 2, .operations = kMixed, .loses = true, .replays = true});
}

TEST(SessionModelPacket, clients_started_again_after_a_reset) {
  expect_exact(
      {.window = 1, .operations = {{2, 1}, {1, 1}}, .loses = true, .replays = true, .starts_again = 2});
}

// The original's limit too: nothing on the wire says that a process is another one.
TEST(SessionModelPacket, clients_started_again_without_a_reset_get_sums_of_the_dead) {
  EXPECT_NE(explore({.window = 1, .operations = {{1, 1}}, .starts_again = 1, .reset = false}).violation, "");
}

TEST(SessionModelOpaque, late_members_without_a_loss) {
  expect_exact({.window = 1, .operations = kLong, .tsi = TsiRule::kOpaque});
  expect_exact({.window = 2, .operations = kMixed, .tsi = TsiRule::kOpaque});
  expect_exact({.members = 3, .window = 2, .operations = kMixed, .tsi = TsiRule::kOpaque});
}

TEST(SessionModelOpaque, late_members_whose_timers_are_numbered_as_published) {
  expect_exact({.window = 1, .operations = kLong, .tsi = TsiRule::kOpaque, .timers_one_too_high = true});
  expect_exact({.window = 2, .operations = kMixed, .tsi = TsiRule::kOpaque, .timers_one_too_high = true});
}

// As the original switch does: it answers with what the place has, under the number that it was asked for.
TEST(SessionModelOpaque, a_timer_numbered_as_published_behind_its_result_gets_another_packets_sum) {
  EXPECT_NE(explore({.window = 2,
                     .operations = {{2, 2}},
                     .tsi = TsiRule::kOpaque,
                     .timers_one_too_high = true,
                     .timers_behind_the_result = true})
                .violation,
            "");
}

TEST(SessionModelOpaque, anything_lost_where_the_order_stays) {
  expect_exact({.window = 1, .operations = kLong, .tsi = TsiRule::kOpaque, .loses = true});
  expect_exact({.window = 2, .operations = {{5, 2}, {2, 2}, {3, 2}}, .tsi = TsiRule::kOpaque, .loses = true});
}

TEST(SessionModelOpaque, clients_started_again_after_a_reset) {
  expect_exact({.window = 1,
                .operations = {{2, 1}, {1, 1}},
                .tsi = TsiRule::kOpaque,
                .loses = true,
                .starts_again = 2});
}

}  // namespace
}  // namespace tally::models

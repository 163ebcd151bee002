#pragma once
// A home and its desk, beside a membership of few words.

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "planning/desk.h"
#include "planning_support.h"

namespace tally::planning {

// A home with one job, its membership as far as the desk sees it: whoever is told to plan anew is called back and has
// another epoch a round trip later.
class PlanningDesk : public testing::Test {
 protected:
  static constexpr TimeNs kTrip = 2 * kMillisecond;

  members::PlanRequest request() const { return request_of(facts_); }
  void look() {
    desk_.saw("vgg", {.running = running_, .epoch = Epoch{epoch_}, .left_out = 3 & ~facts_.usable}, now_);
  }
  void new_epoch() {
    running_ = false;
    look();
    now_ += kTrip;
    plan_ = desk_.plan(request(), now_);
    ++epoch_;
    running_ = true;
    look();
  }
  // Work is done at once.
  void turn() {
    if (auto work = desk_.work(now_)) {
      ++works_;
      desk_.done(do_work(std::move(*work)));
    }
    for (const Desk::Wish& wish : desk_.wishes(now_)) {
      ++wishes_;
      last_wish_ = now_;
      facts_.usable |= wish.take_back & 3;
      new_epoch();
    }
  }
  void run(TimeNs time) {
    for (const TimeNs end = now_ + time; now_ < end; now_ += 5 * kMillisecond) turn();
  }
  // Of contributions, while all four meet here for each chunk.
  void saw_misses(double share) {
    const auto denied = static_cast<std::uint64_t>(4e6 * share);
    desk_.saw_slots("vgg", 1'000'000 - denied / 4, denied, now_);
  }
  const Desk::Job& job() { return desk_.jobs().at("vgg"); }
  std::string notes() {
    std::string all;
    for (const Desk::Note& note : desk_.take_notes()) all += note.text + "\n";
    return all;
  }

  Desk desk_{{at(1, 1)}};
  JobFacts facts_ = four_workers("vgg");
  TimeNs now_ = 1'000 * kSecond;
  bool running_ = false;
  std::uint32_t epoch_ = 0;
  Plan plan_{};
  int works_ = 0;
  int wishes_ = 0;
  TimeNs last_wish_ = 0;
};

}  // namespace tally::planning

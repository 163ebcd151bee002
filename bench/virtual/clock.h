#pragma once
// Virtual time of a run, until something has happened or something is broken.

#include <string>
#include <utility>

#include "schedule.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::bench {

class Clock {
 public:
  // give_up: when nothing has happened by then, it never will.
  explicit Clock(TimeNs give_up) : give_up_(give_up) {}

  [[nodiscard]] sim::Schedule& schedule() noexcept { return schedule_; }
  [[nodiscard]] TimeNs now() const noexcept { return schedule_.now(); }

  // False if it does not happen, or anything is broken. Looks now and then, for a look costs as much as an event.
  template <class Done>
  [[nodiscard]] bool until(const Done& done) {
    while (!done()) {
      for (int i = 0; i < kEventsBetweenLooks; ++i)
        if (!broken_.empty() || !schedule_.step(give_up_)) return broken_.empty() && done();
    }
    return broken_.empty();
  }
  // Why until() was false: what broke first, or what does not happen.
  [[nodiscard]] tl::unexpected<Error> stuck(const std::string& what) const {
    return fail(ErrorCode::kTimeout, broken_.empty() ? what : broken_);
  }
  void alarm(std::string what) {
    if (broken_.empty()) broken_ = std::move(what);
  }

 private:
  static constexpr int kEventsBetweenLooks = 64;

  TimeNs give_up_;
  sim::Schedule schedule_;
  std::string broken_;
};

}  // namespace tally::bench

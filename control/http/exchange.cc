#include "http/exchange.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace tally::http {

Exchange::Exchange() : bell_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

bool Exchange::take_wish(TimeNs now) noexcept {
  if (asked_.load(std::memory_order_relaxed) == 0 || (taken_ != 0 && now < taken_ + kBetween)) return false;
  // Before the snapshot is made: who asks from here on wants another.
  const TimeNs asked = asked_.exchange(0, std::memory_order_acq_rel);
  if (now > asked + kPatience) return false;
  taken_ = now;
  return true;
}

void Exchange::publish(std::shared_ptr<const api::Snapshot> box, TimeNs now) {
  auto made = std::make_shared<Published>();
  made->at = now;
  made->box = std::move(box);
  std::shared_ptr<const Published> old;  // goes behind the lock
  {
    const std::lock_guard lock(mutex_);
    made->number = newest_ ? newest_->number + 1 : 1;
    old = std::exchange(newest_, std::move(made));
  }
  ring();
}

void Exchange::tell(std::uint64_t number, std::string text) {
  {
    const std::lock_guard lock(mutex_);
    if (events_.size() == kMostWaiting) events_.pop_front();
    events_.push_back({number, std::move(text)});
  }
  ring();
}

std::shared_ptr<const Published> Exchange::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

std::deque<ToldEvent> Exchange::take_events() {
  std::deque<ToldEvent> all;
  const std::lock_guard lock(mutex_);
  all.swap(events_);
  return all;
}

void Exchange::ring() const noexcept {
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);  // fails only where it rings already
}

void Exchange::silence() const noexcept {
  std::uint64_t rings = 0;
  (void)!::read(bell_.get(), &rings, sizeof rings);
}

}  // namespace tally::http

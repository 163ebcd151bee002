#include "ps/state_timers.h"

#include <algorithm>
#include <bit>

#include "tally/check.h"

namespace tally::ps {

void StateTimers::forget_times() noexcept {
  flush_times_ = {};
  flush_time_ = 0;
}

void StateTimers::start(server::StateIndex at, Chunk chunk, BoxIndex box, bool whole, TimeNs now) noexcept {
  StateTimer& timer = pool_[at];
  TALLY_DCHECK(!timer.running || timer.job == job_, "an incomplete state went to another job unnoticed");
  if (!timer.running || timer.chunk != chunk) timer.flushed = timer.whole = 0;
  stop(at);
  if (timer.chunk != chunk) timer.asked_at = 0;
  const std::uint64_t bit = std::uint64_t{1} << box;
  timer.chunk = chunk;
  timer.job = job_;
  timer.steps = 0;
  timer.waits = 0;
  timer.flushed &= ~bit;
  if (whole) timer.whole |= bit;
  append(at, 0, wait_after(0), now);
}

void StateTimers::stop(server::StateIndex at) noexcept {
  if (pool_[at].running) unlink(at);
}

bool StateTimers::asks_now(server::StateIndex at, TimeNs now) noexcept {
  if (find(at) == nullptr) return false;
  StateTimer& timer = pool_[at];
  if (timer.asked_at != 0 && now - timer.asked_at < wait_after(0)) return false;
  timer.asked_at = now;
  return true;
}

void StateTimers::stop_all() noexcept {
  for (List& list : lists_) {
    while (list.head != server::kNoState) unlink(list.head);
  }
}

void StateTimers::stepped(server::StateIndex at, std::uint64_t flushed, TimeNs now) noexcept {
  StateTimer& timer = pool_[at];
  unlink(at);
  if (timer.steps != 0) {
    timer.flushed &= ~flushed;
  } else if ((flushed & ~timer.flushed) != 0) {
    timer.flushed = flushed & ~timer.flushed;  // who owes an answer already could be answering either
    timer.flushed_at = now;
  }  // else only such boxes, since another one has answered: their time goes on
  ++timer.steps;
  append(at, timer.steps, wait_after(timer.steps), now);
}

bool StateTimers::put_off(server::StateIndex at, TimeNs now) noexcept {
  StateTimer& timer = pool_[at];
  if (timer.waits == kPatience) return false;
  unlink(at);
  ++timer.waits;
  append(at, kSteps + timer.waits, doubled(timer.waits), now);
  return true;
}

void StateTimers::answered(server::StateIndex at, BoxIndex box, TimeNs now) noexcept {
  StateTimer& timer = pool_[at];
  const std::uint64_t bit = std::uint64_t{1} << box;
  if ((timer.flushed & bit) == 0) return;
  timer.flushed &= ~bit;
  const TimeNs took = now - timer.flushed_at;
  if (took > 4 * wait_after(0)) return;  // the FLUSH was lost, and something else has come
  TimeNs& smoothed = flush_times_[box];
  smoothed = smoothed == 0 ? took : smoothed - smoothed / 8 + took / 8;
  flush_time_ = *std::max_element(flush_times_.begin(), flush_times_.end());
}

server::StateIndex StateTimers::due(TimeNs now) const noexcept {
  for (std::uint32_t left = in_use_; left != 0; left &= left - 1) {
    const List& list = lists_[static_cast<unsigned>(std::countr_zero(left))];
    if (pool_[list.head].due <= now) return list.head;
  }
  return server::kNoState;
}

TimeNs StateTimers::deadline() const noexcept {
  TimeNs first = kNever;
  for (std::uint32_t left = in_use_; left != 0; left &= left - 1)
    first = std::min(first, pool_[lists_[static_cast<unsigned>(std::countr_zero(left))].head].due);
  return first;
}

TimeNs StateTimers::doubled(unsigned times) const noexcept {
  const TimeNs first = std::clamp(2 * flush_time_, kLeastWait, kLongestWait);
  return std::min(first << times, kLongestWait);
}

// Not before those in front: the smoothed time may have become less meanwhile.
void StateTimers::append(server::StateIndex at, std::uint8_t which, TimeNs wait, TimeNs now) noexcept {
  StateTimer& timer = pool_[at];
  List& list = lists_[which];
  timer.list = which;
  timer.due = now + wait;
  if (list.tail != server::kNoState) timer.due = std::max(timer.due, pool_[list.tail].due);
  timer.previous = list.tail;
  timer.next = server::kNoState;
  timer.running = true;
  (list.tail == server::kNoState ? list.head : pool_[list.tail].next) = at;
  list.tail = at;
  in_use_ |= 1U << which;
}

void StateTimers::unlink(server::StateIndex at) noexcept {
  StateTimer& timer = pool_[at];
  List& list = lists_[timer.list];
  (timer.previous == server::kNoState ? list.head : pool_[timer.previous].next) = timer.next;
  (timer.next == server::kNoState ? list.tail : pool_[timer.next].previous) = timer.previous;
  timer.running = false;
  if (list.head == server::kNoState) in_use_ &= ~(1U << timer.list);
}

}  // namespace tally::ps

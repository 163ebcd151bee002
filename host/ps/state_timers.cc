#include "ps/state_timers.h"

#include <algorithm>

#include "tally/check.h"

namespace tally::ps {

void StateTimers::start(server::StateIndex at, Chunk chunk, TimeNs now) noexcept {
  StateTimer& timer = pool_[at];
  TALLY_DCHECK(!timer.running || timer.job == job_, "an incomplete state went to another job unnoticed");
  stop(at);
  if (timer.chunk != chunk) timer.asked_at = 0;
  timer.chunk = chunk;
  timer.job = job_;
  timer.steps = 0;
  timer.flushed_at = 0;
  append(at, now);
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

void StateTimers::stepped(server::StateIndex at, TimeNs now) noexcept {
  StateTimer& timer = pool_[at];
  unlink(at);
  if (timer.steps % 2 == 0) timer.flushed_at = timer.steps == 0 ? now : 0;
  ++timer.steps;
  append(at, now);
}

void StateTimers::answered(server::StateIndex at, TimeNs now) noexcept {
  StateTimer& timer = pool_[at];
  if (timer.flushed_at == 0) return;
  const TimeNs took = now - timer.flushed_at;
  timer.flushed_at = 0;
  if (took > 4 * wait_after(0)) return;  // the FLUSH was lost, and something else has come
  flush_time_ = flush_time_ == 0 ? took : flush_time_ - flush_time_ / 8 + took / 8;
}

server::StateIndex StateTimers::due(TimeNs now) const noexcept {
  for (const List& list : lists_) {
    if (list.head != server::kNoState && pool_[list.head].due <= now) return list.head;
  }
  return server::kNoState;
}

TimeNs StateTimers::deadline() const noexcept {
  TimeNs first = kNever;
  for (const List& list : lists_) {
    if (list.head != server::kNoState) first = std::min(first, pool_[list.head].due);
  }
  return first;
}

TimeNs StateTimers::wait_after(std::uint8_t steps) const noexcept {
  const TimeNs first = std::clamp(2 * flush_time_, kLeastWait, kLongestWait);
  return std::min(first << (steps / 2), kLongestWait);
}

// Not before those in front: the smoothed time may have become less meanwhile.
void StateTimers::append(server::StateIndex at, TimeNs now) noexcept {
  StateTimer& timer = pool_[at];
  List& list = lists_[timer.steps];
  timer.due = now + wait_after(timer.steps);
  if (list.tail != server::kNoState) timer.due = std::max(timer.due, pool_[list.tail].due);
  timer.previous = list.tail;
  timer.next = server::kNoState;
  timer.running = true;
  (list.tail == server::kNoState ? list.head : pool_[list.tail].next) = at;
  list.tail = at;
}

void StateTimers::unlink(server::StateIndex at) noexcept {
  StateTimer& timer = pool_[at];
  List& list = lists_[timer.steps];
  (timer.previous == server::kNoState ? list.head : pool_[timer.previous].next) = timer.next;
  (timer.next == server::kNoState ? list.tail : pool_[timer.next].previous) = timer.previous;
  timer.running = false;
}

}  // namespace tally::ps

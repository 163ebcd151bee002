#include "engine/flight_window.h"

#include <algorithm>

#include "engine/rto.h"

namespace tally::engine {

// In a large window more than the least, for what cores and queues of a host put out of order. More than a
// burst would be seen too late: on a link of 100 Mbit/s 128 packets take 15 ms, and the timer comes first.
constexpr std::uint32_t kMostLead = 32;
constexpr std::uint32_t kLeadShare = 8;

void FlightWindow::start(std::uint32_t largest_window) {
  ring_.assign(largest_window, Flight{});
  by_number_.assign(2 * std::size_t{largest_window}, 0);
  ways_.assign(1, {});
  delivered_.assign(kMaxShards, {});
  for (std::uint64_t i = 0; i < ring_.size(); ++i) ring_[i].index = i;
  lost_ = ready_ = {};
  lowest_ = cursor_ = offered_end_ = 0;
  window_ = allowed_ = 0;
  sendings_ = newest_ = 0;
}

// What was delivered in former epochs was sent before all that is sent from now on.
void FlightWindow::enter_epoch(std::uint32_t window, std::size_t boxes, std::size_t ways) {
  if (2 * ring_.size() * boxes != by_number_.size()) by_number_.assign(2 * ring_.size() * boxes, 0);
  if (ways != ways_.size()) delivered_.assign(kMaxShards * ways, {});
  ways_.assign(ways, {});
  window_ = allowed_ = window;
  lead_ = std::clamp(window / kLeadShare, kLeastLead, kMostLead);
  cursor_ = lowest_;
  lost_ = ready_ = {};
  for (Flight& flight : ring_) {
    if (flight.state == FlightState::kDone) continue;
    flight.state = FlightState::kIdle;
    flight.sends = flight.contributed = flight.queries = flight.wanted = flight.sequence = 0;
    flight.early = 0;
    flight.told = 0;
    flight.held = false;
    flight.asking = false;
    flight.gone = false;
    flight.box = flight.way = 0;
  }
}

void FlightWindow::make_ready(Flight& flight) noexcept {
  unlink(flight);
  flight.state = FlightState::kReady;
  append(ready_, flight);
}

void FlightWindow::sent_early(Flight& flight, TimeNs now, bool at_once) noexcept {
  const bool last = flight.early + 1 >= kMostEarly;
  sent(flight, now, last ? Awaits::kTimer : Awaits::kQuestion, at_once && !last);
  ++flight.early;
}

void FlightWindow::sent(Flight& flight, TimeNs now, Awaits awaits, bool first) noexcept {
  unlink(flight);
  flight.state = FlightState::kSent;
  flight.awaits = awaits;
  flight.told = 0;
  flight.order = ++sendings_;
  flight.paused = flight.sends != 0 && now - flight.sent_at >= kRtoCeiling;
  flight.sent_at = now;
  if (++flight.sends == 1) newest_ = flight.order;
  flight.offered = true;
  offered_end_ = std::max(offered_end_, flight.index + 1);
  first ? prepend(list_of(flight), flight) : append(list_of(flight), flight);
}

void FlightWindow::finished(Flight& flight) noexcept {
  const bool waits = flight.awaits == Awaits::kTimer || flight.awaits == Awaits::kRepair;
  if (!waits || flight.early >= kMostEarly || flight.gone || ++flight.told < kLeastLead) return;
  unlink(flight);
  flight.awaits = Awaits::kLost;
  append(lost_, flight);
}

void FlightWindow::unfinished(Flight& flight, TimeNs now) noexcept {
  if (flight.awaits != Awaits::kTimer || flight.gone) return;
  flight.held = true;
  await_repair(flight, now);
}

void FlightWindow::await_repair(Flight& flight, TimeNs now) noexcept {
  if (flight.early >= kMostEarly) return;
  unlink(flight);
  flight.awaits = Awaits::kRepair;
  flight.unfinished_at = now;
  flight.mark = sendings_;
  append(list_of(flight), flight);
}

void FlightWindow::delivered(const Flight& flight, std::uint32_t lane, TimeNs now) noexcept {
  Delivered& last = delivered_[lane];
  if (flight.state != FlightState::kSent || flight.sends != 1 || flight.order <= last.order) return;
  last = {flight.order, now};
}

void FlightWindow::done(Flight& flight) noexcept {
  unlink(flight);
  flight.state = FlightState::kDone;
  allowed_ = window_;
  while (at(lowest_).state == FlightState::kDone) {
    Flight& passed = at(lowest_);
    passed = Flight{};
    passed.index = lowest_ + ring_.size();
    ++lowest_;
  }
  cursor_ = std::max(cursor_, lowest_);
}

void FlightWindow::append(List& list, Flight& flight) noexcept {
  const auto here = static_cast<std::uint32_t>(position(flight.index));
  flight.previous = list.tail;
  flight.next = kNone;
  (list.tail == kNone ? list.head : ring_[list.tail].next) = here;
  list.tail = here;
}

void FlightWindow::prepend(List& list, Flight& flight) noexcept {
  const auto here = static_cast<std::uint32_t>(position(flight.index));
  flight.previous = kNone;
  flight.next = list.head;
  (list.head == kNone ? list.tail : ring_[list.head].previous) = here;
  list.head = here;
}

void FlightWindow::remove(List& list, Flight& flight) noexcept {
  (flight.previous == kNone ? list.head : ring_[flight.previous].next) = flight.next;
  (flight.next == kNone ? list.tail : ring_[flight.next].previous) = flight.previous;
}

void FlightWindow::unlink(Flight& flight) noexcept {
  if (flight.state == FlightState::kSent) remove(list_of(flight), flight);
  if (flight.state == FlightState::kReady) remove(ready_, flight);
}

}  // namespace tally::engine

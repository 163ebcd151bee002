#include "flight_window.h"

#include <algorithm>

namespace tally {

void FlightWindow::start(std::uint32_t largest_window) {
  ring_.assign(largest_window, Flight{});
  for (std::uint64_t i = 0; i < ring_.size(); ++i) ring_[i].index = i;
  sent_ = {};
  ready_ = {};
  lowest_ = cursor_ = offered_end_ = 0;
  window_ = 0;
}

void FlightWindow::enter_epoch(std::uint32_t window) noexcept {
  window_ = window;
  cursor_ = lowest_;
  sent_ = {};
  ready_ = {};
  for (Flight& flight : ring_) {
    if (flight.state == FlightState::kDone) continue;
    flight.state = FlightState::kIdle;
    flight.sends = flight.queries = 0;
  }
}

void FlightWindow::make_ready(Flight& flight) noexcept {
  flight.state = FlightState::kReady;
  append(ready_, flight);
}

void FlightWindow::sent(Flight& flight, TimeNs now) noexcept {
  unlink(flight);
  flight.state = FlightState::kSent;
  flight.sent_at = now;
  ++flight.sends;
  flight.offered = true;
  offered_end_ = std::max(offered_end_, flight.index + 1);
  append(sent_, flight);
}

void FlightWindow::done(Flight& flight) noexcept {
  unlink(flight);
  flight.state = FlightState::kDone;
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

void FlightWindow::remove(List& list, Flight& flight) noexcept {
  (flight.previous == kNone ? list.head : ring_[flight.previous].next) = flight.next;
  (flight.next == kNone ? list.tail : ring_[flight.next].previous) = flight.previous;
}

void FlightWindow::unlink(Flight& flight) noexcept {
  if (flight.state == FlightState::kSent) remove(sent_, flight);
  if (flight.state == FlightState::kReady) remove(ready_, flight);
}

}  // namespace tally

#include "box_watch.h"

#include <algorithm>
#include <utility>

namespace tally {
namespace {

std::string milliseconds(TimeNs t) { return std::to_string(t / kMillisecond) + " ms"; }

}  // namespace

BoxWatch::BoxWatch(const Plane& plane, LogSink log, TimeNs now)
    : plane_(plane),
      log_(std::move(log)),
      started_(now),
      link_up_(plane.ports(), false),
      stalled_since_(plane.cores(), 0) {}

void BoxWatch::look(TimeNs now) {
  look_at_links();
  look_at_cores(now);
  look_at_memory(now);
  look_at_punts(now);
}

void BoxWatch::look_at_links() {
  for (std::size_t i = 0; i < link_up_.size(); ++i) {
    const PortIndex port{static_cast<std::uint16_t>(i)};
    const bool up = plane_.link_up(port);
    if (up == link_up_[i]) continue;
    link_up_[i] = up;
    log_(LogLevel::kInfo, "port " + plane_.port_name(port) + ": link " + (up ? "up" : "down"));
  }
}

TimeNs BoxWatch::silence(std::size_t core, TimeNs now) const {
  const TimeNs last = std::max(plane_.statistics(core).last_turn.get(), started_);
  return now > last ? now - last : 0;
}

TimeNs BoxWatch::longest_silence(TimeNs now) const {
  TimeNs longest = 0;
  for (std::size_t core = 0; core < stalled_since_.size(); ++core)
    longest = std::max(longest, silence(core, now));
  return longest;
}

void BoxWatch::look_at_cores(TimeNs now) {
  for (std::size_t core = 0; core < stalled_since_.size(); ++core) {
    const TimeNs silent = silence(core, now);
    TimeNs& since = stalled_since_[core];
    const std::string name = "data core " + std::to_string(core);
    if (silent >= kStalled && since == 0) {
      since = now - silent;
      log_(LogLevel::kWarning, name + " has not done a turn for " + milliseconds(silent) +
                                   ": is its CPU shared with another busy thread?");
    } else if (silent < kStalled && since != 0) {
      log_(LogLevel::kInfo, name + " runs again after " + milliseconds(now - since));
      since = 0;
    }
  }
}

void BoxWatch::look_at_memory(TimeNs now) {
  std::uint64_t lost = 0;
  for (std::size_t core = 0; core < stalled_since_.size(); ++core) lost += plane_.statistics(core).no_mbuf;
  for (std::size_t i = 0; i < link_up_.size(); ++i)
    lost += plane_.port_statistics(PortIndex{static_cast<std::uint16_t>(i)}).rx_no_mbuf;
  if (lost <= no_mbuf_) return;
  const auto first = memory_lines_.take(now);
  if (!first) return;
  log_(LogLevel::kWarning,
       "packet buffers ran out: " + std::to_string(lost - no_mbuf_) +
           " frames lost; their senders repeat them. If it goes on, a port keeps what it is "
           "given: see the counters (SIGUSR1)");
  no_mbuf_ = lost;
}

void BoxWatch::look_at_punts(TimeNs now) {
  std::uint64_t lost = 0;
  for (std::size_t core = 0; core < stalled_since_.size(); ++core) lost += plane_.statistics(core).punts_lost;
  if (lost <= punts_lost_ || !punt_lines_.take(now)) return;
  log_(LogLevel::kWarning, "control packets came faster than they could be answered: " +
                               std::to_string(lost - punts_lost_) + " lost; their senders repeat them");
  punts_lost_ = lost;
}

}  // namespace tally

#pragma once
// A connection of HTTP and what it is about, and what waits to be sent in an event stream. Owner: the HTTP thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>

#include "http/answers.h"
#include "http/event_history.h"
#include "http/limits.h"
#include "tally/time.h"

struct MHD_Connection;

namespace tally::http {

struct Visitor {
  enum class State : std::uint8_t {
    kReading,    // no whole request has come
    kWaiting,    // its answer waits for a snapshot
    kAnswering,  // it is being sent its answer
    kStreaming,  // it is sent events
  };

  void enter(State next, TimeNs now) noexcept {
    state = next;
    since = moved = said_at = now;
  }
  // For the next request of the connection.
  void begin_anew(TimeNs now) {
    enter(State::kReading, now);
    path = nullptr;
    last_id.reset();
    queue.clear();
    sent = unsent = box_bytes = 0;
  }
  [[nodiscard]] bool streams() const noexcept { return state == State::kStreaming && !cut && !last; }

  void push(Frame frame) {
    unsent += frame->size();
    queue.push_back(std::move(frame));
  }
  // Moves what waits, `room` bytes at most. How many.
  std::size_t take(char* to, std::size_t room, TimeNs now) noexcept {
    std::size_t all = 0;
    while (all < room && !queue.empty()) {
      const std::string& frame = *queue.front();
      const std::size_t n = std::min(room - all, frame.size() - sent);
      std::copy_n(frame.data() + sent, n, to + all);
      all += n;
      sent += n;
      if (sent < frame.size()) break;
      queue.pop_front();
      sent = 0;
    }
    unsent -= all;
    if (all != 0) moved = now;
    return all;
  }
  // When it is to be looked at, if nothing happens before. newest: number of the newest snapshot.
  [[nodiscard]] TimeNs due(const Limits& limits, std::uint64_t newest) const noexcept {
    if (cut) return kNever;
    if (state == State::kReading) return since + limits.idle;
    if (state == State::kWaiting) return since + limits.patience;
    if (state == State::kAnswering) return since + limits.answer;
    TimeNs at = last ? kNever : said_at + limits.keep_open;
    if (unsent != 0) at = std::min(at, moved + limits.answer);
    if (wants_box(newest)) at = std::min(at, box_at + next_box_after(limits));
    return at;
  }
  // A box says all that those before it said: who is still being sent one gets the newest when it has come.
  [[nodiscard]] bool wants_box(std::uint64_t newest) const noexcept {
    return newest != box && !last && unsent == 0;
  }
  // Snapshots come about as often as they are asked for: one that is a little early is not left out.
  [[nodiscard]] static TimeNs next_box_after(const Limits& limits) noexcept {
    return limits.stream_pace * 9 / 10;
  }

  std::list<Visitor>::iterator here{};
  void* body = nullptr;  // of the shell
  MHD_Connection* connection = nullptr;
  int fd = -1;  // libmicrohttpd's
  State state = State::kReading;
  TimeNs since = 0;  // in this state
  bool suspended = false;
  bool cut = false;    // its connection is shut down, and goes
  bool spoke = false;  // the first line of a request has come, and not the rest
  bool head = false;
  const Path* path = nullptr;

  // Of a stream.
  std::optional<std::string> last_id{};
  std::deque<Frame> queue{};
  std::size_t sent = 0;    // bytes of the first frame
  std::size_t unsent = 0;  // bytes of all
  TimeNs moved = 0;        // bytes were taken, or there was nothing to take
  TimeNs said_at = 0;      // the last comment
  std::uint64_t box = 0;   // number of the last snapshot
  TimeNs box_at = 0;
  std::size_t box_bytes = 0;  // of its frame
  bool last = false;          // it ends when nothing waits any more
};

}  // namespace tally::http

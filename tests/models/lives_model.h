#pragma once
// Tables of one number one after the other, whose rounds are of all (docs/kv.md, Losses): each that a worker makes has a life
// of its own, and a session of a server is one life of each worker. A life ends at a server with the answer to its close, when
// all have closed there, or with its leave. A worker whose close fails at some server, as when that is lost, leaves all of
// them, also those that have answered. Messages of a worker to a server arrive in their order, once. Of pushes, of rows that
// come back and of lost workers, whose life ends with them, there is nothing here.

#include <algorithm>
#include <array>
#include <cstdint>

#include "explorer.h"
#include "tally/check.h"

namespace tally::models {

struct LivesSetting {
  int workers = 2;   // at most 3
  int servers = 2;   // at most 2
  int lives = 2;     // of each worker, at most 3
  int gives_up = 1;  // so often one does by itself, but never in its last life
  // The rules.
  bool knows_lives = true;  // a leave of a life that has ended there is no word of the next one
  bool holds = true;        // what a worker says in its next life waits until the session is over for all
};

class LivesModel {
 public:
  static constexpr int kWorkers = 3, kServers = 2, kUnderWay = 6;
  enum Phase : std::uint8_t { kOpen, kClosing, kOver };
  enum Act : std::uint8_t { kNothing, kClose, kLeave };

  struct Message {
    std::uint8_t act = kNothing;
    std::uint8_t life = 0;
    bool operator==(const Message&) const = default;
  };
  using Queue = std::array<Message, kUnderWay>;
  struct Member {
    std::uint8_t phase = kOpen;
    std::uint8_t life = 1;
    Bits asked = 0;                  // servers that have not answered its close
    Bits answered = 0, refused = 0;  // such as have, which it has not heard
    std::array<Queue, kServers> under_way{};
  };
  struct Server {
    Bits closing = 0, gone = 0;  // in this session
    std::uint8_t broken = 0;
    std::array<std::uint8_t, kWorkers> over{};  // the last life of each worker that has ended here
    std::array<Queue, kWorkers> held{};         // of the next session
  };
  struct State {
    std::array<Member, kWorkers> members{};
    std::array<Server, kServers> servers{};
    std::uint8_t gives_up = 0;
    Bits given_up = 0;  // lives that a worker has by itself
    std::uint8_t wrong = 0;
  };

  explicit LivesModel(const LivesSetting& setting) : set_(setting), workers_(all(setting.workers)) {
    TALLY_CHECK(set_.workers <= kWorkers && set_.servers <= kServers && set_.lives <= 3,
                "the model's state has room for it");
  }

  [[nodiscard]] State init() const {
    State s;
    s.gives_up = static_cast<std::uint8_t>(set_.gives_up);
    return s;
  }
  [[nodiscard]] const char* broken(const State& s) const {
    return s.wrong == 1 ? "a life that nobody gave up is broken off" : nullptr;
  }
  [[nodiscard]] bool reached(const State& s) const {
    return std::all_of(s.members.begin(), s.members.begin() + set_.workers,
                       [](const Member& m) { return m.phase == kOver; });
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    for (int w = 0; w < set_.workers; ++w) {
      const Member& m = s.members[w];
      if (m.phase == kOpen) {
        State next = s;
        next.members[w].phase = kClosing;
        next.members[w].asked = all(set_.servers);
        say(next, w, kClose);
        emit(next, Step{"closes", w, m.life});
      }
      if (m.phase != kOver && s.gives_up != 0 && m.life < set_.lives) {
        State next = s;
        --next.gives_up;
        next.given_up |= bit(m.life);
        leave(next, w);
        emit(next, Step{"gives up and leaves", w, m.life, false});
      }
      for (int server = 0; server < set_.servers; ++server) {
        if (has(m.answered | m.refused, server)) hear(s, w, server, emit);
        if (m.under_way[server][0].act == kNothing) continue;
        State next = s;
        const Message what = take_first(next.members[w].under_way[server]);
        take(next, server, w, what);
        emit(next, Step{what.act == kClose ? "its close arrives" : "its leave arrives", w, server});
      }
    }
  }

 private:
  static void put(Queue& queue, const Message& what) {
    const auto place = std::find(queue.begin(), queue.end(), Message{});
    TALLY_CHECK(place != queue.end(), "the model's state has room for it");
    *place = what;
  }
  static Message take_first(Queue& queue) {
    const Message first = queue[0];
    std::rotate(queue.begin(), queue.begin() + 1, queue.end());
    queue.back() = {};
    return first;
  }

  void say(State& s, int w, Act act) const {
    Member& m = s.members[w];
    for (int server = 0; server < set_.servers; ++server) put(m.under_way[server], Message{act, m.life});
  }
  void begin_next_life(Member& m) const {
    m.asked = m.answered = m.refused = 0;
    m.phase = m.life < set_.lives ? kOpen : kOver;
    if (m.phase == kOpen) ++m.life;
  }
  // A worker waits for the answers to that; the model's does not, so that all that may come late does.
  void leave(State& s, int w) const {
    say(s, w, kLeave);
    begin_next_life(s.members[w]);
  }

  template <class Emit>
  void hear(const State& s, int w, int server, Emit& emit) const {
    State next = s;
    Member& m = next.members[w];
    if (has(m.refused, server)) {
      leave(next, w);
      return emit(next, Step{"hears that its close is refused, and leaves", w, server});
    }
    m.answered &= static_cast<Bits>(~bit(server));
    m.asked &= static_cast<Bits>(~bit(server));
    if (m.asked == 0) begin_next_life(m);
    emit(next, Step{"hears that all have closed", w, server});
  }

  void take(State& s, int server, int w, const Message& what) const {
    Server& at = s.servers[server];
    if (set_.knows_lives && what.life <= at.over[w]) return;
    if (has(at.gone, w) && set_.holds) return put(at.held[w], what);
    if (what.act == kClose) {
      if (at.broken != 0) return refuse(s, server, w, what.life);
      at.closing |= bit(w);
      if (at.closing != workers_) return;
      for (int p = 0; p < set_.workers; ++p) {
        at.over[p] = static_cast<std::uint8_t>(at.over[p] + 1);
        Member& m = s.members[p];
        // Else it has given up, and its leave is on its way.
        if (m.life == at.over[p] && m.phase == kClosing) m.answered |= bit(server);
      }
      at.gone = workers_;
    } else {
      at.over[w] = what.life;
      at.gone |= bit(w);
      at.broken = 1;
      for (int p = 0; p < set_.workers; ++p) {
        if (!has(at.closing, p)) continue;
        at.closing &= static_cast<Bits>(~bit(p));
        if (p != w) refuse(s, server, p, static_cast<std::uint8_t>(at.over[p] + 1));
      }
    }
    if (at.gone != workers_) return;
    at.closing = at.gone = 0;
    at.broken = 0;
    for (int p = 0; p < set_.workers; ++p) {
      const Queue held = at.held[p];
      at.held[p] = {};
      for (const Message& one : held)
        if (one.act != kNothing) take(s, server, p, one);
    }
  }

  // The close of that life fails, unless it has been given up.
  void refuse(State& s, int server, int w, std::uint8_t life) const {
    Member& m = s.members[w];
    if (m.phase != kClosing || m.life != life) return;
    if (!has(s.given_up, life)) s.wrong = 1;
    m.refused |= bit(server);
  }

  LivesSetting set_;
  Bits workers_;
};

}  // namespace tally::models

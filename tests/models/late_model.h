#pragma once
// An asynchronous table (docs/kv.md): rounds that end without some workers, at each server by itself, and pushes that come
// late. Workers close when they have pushed all they have; some leave before, some are lost. A row is the set of
// pushes in it. Messages of a worker to a server arrive in their order, once.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "explorer.h"
#include "tally/check.h"

namespace tally::models {

struct LateSetting {
  int workers = 3;  // at most 3
  int servers = 2;  // at most 2
  int pushes = 2;   // of each worker, at most 2
  int least = 2;
  bool age = true;  // rounds end of age
  int losses = 0;   // of workers
  int leaves = 0;   // of workers
  // The rules.
  bool carries = true;        // a push for a round that has ended is in the open one
  bool applies_first = true;  // a push is answered when its round is applied
  bool takes_all = true;      // a round that ends takes its pushes with it
  bool skips_gone = true;  // a round does not wait for who has closed, left or is lost; else its age ends it
};

class LateModel {
 public:
  static constexpr int kWorkers = 3, kServers = 2, kPushes = 2;
  enum Phase : std::uint8_t { kIdle, kPushing, kClosing, kLeaving, kOver };

  struct Member {
    std::uint8_t phase = kIdle;
    std::uint8_t lost = 0;
    std::uint8_t push = 0;                        // the next, or the one under way
    Bits on_its_way = 0;                          // servers that its message has not reached
    Bits asked = 0;                               // servers that have not answered
    std::array<std::uint8_t, kServers> rounds{};  // that have ended there, as far as it knows
    Bits left_push = 0;  // servers that a push has not reached, behind which is the leave
    Bits sure = 0;       // pushes that were answered by all
  };
  struct Server {
    Bits row = 0;    // bit worker * kPushes + push
    Bits round = 0;  // the same, of the open round
    Bits pushed = 0;
    std::uint8_t rounds = 0;
    Bits closing = 0, gone = 0, lost = 0;
  };
  struct State {
    std::array<Member, kWorkers> members{};
    std::array<Server, kServers> servers{};
    std::uint8_t losses = 0, leaves = 0;
    std::uint8_t wrong = 0;
  };

  explicit LateModel(const LateSetting& setting) : set_(setting), workers_(all(setting.workers)) {
    TALLY_CHECK(set_.workers <= kWorkers && set_.servers <= kServers && set_.pushes <= kPushes,
                "the model's state has room for it");
  }

  [[nodiscard]] State init() const {
    State s;
    s.losses = static_cast<std::uint8_t>(set_.losses);
    s.leaves = static_cast<std::uint8_t>(set_.leaves);
    return s;
  }
  [[nodiscard]] const char* broken(const State& s) const {
    if (s.wrong == 1) return "a push is applied twice";
    for (int w = 0; w < set_.workers; ++w) {
      for (int p = 0; p < set_.pushes; ++p) {
        if (!has(s.members[w].sure, p)) continue;
        for (int server = 0; server < set_.servers; ++server)
          if ((s.servers[server].row & of(w, p)) == 0) return "a push that was answered is lost";
      }
    }
    return nullptr;
  }
  [[nodiscard]] bool reached(const State& s) const {
    return std::all_of(s.members.begin(), s.members.begin() + set_.workers,
                       [](const Member& m) { return m.phase == kOver || m.lost != 0; });
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    for (int w = 0; w < set_.workers; ++w) {
      const Member& m = s.members[w];
      if (m.lost == 0 && m.phase == kIdle) act(s, w, emit);
      if (m.lost == 0 && m.phase == kPushing && s.leaves != 0) leave(s, w, emit);
      if (m.lost == 0 && m.phase != kOver && s.losses != 0) {
        State next = s;
        --next.losses;
        next.members[w].lost = 1;
        emit(next, Step{"is lost", w, -1, false});
      }
      for (int server = 0; server < set_.servers; ++server) {
        if (has(m.on_its_way, server)) arrive(s, w, server, emit);
        if (m.lost != 0 && !has(s.servers[server].lost, w)) hear_of_loss(s, w, server, emit);
      }
    }
    for (int server = 0; server < set_.servers && set_.age; ++server) {
      if (s.servers[server].pushed == 0) continue;
      State next = s;
      end_round(next, server);
      emit(next, Step{"a round's age is over", -1, server});
    }
  }

 private:
  [[nodiscard]] static Bits of(int w, int push) { return bit(w * kPushes + push); }
  [[nodiscard]] Bits everywhere() const { return all(set_.servers); }

  template <class Emit>
  void act(const State& s, int w, Emit& emit) const {
    State next = s;
    Member& m = next.members[w];
    m.phase = m.push < set_.pushes ? kPushing : kClosing;
    m.on_its_way = m.asked = everywhere();
    emit(next, Step{m.phase == kPushing ? "pushes" : "closes", w, m.push});
  }

  // Its push has failed, or its program ends the table: what was under way may be applied or not.
  template <class Emit>
  void leave(const State& s, int w, Emit& emit) const {
    State next = s;
    --next.leaves;
    Member& m = next.members[w];
    m.left_push = m.on_its_way;
    m.phase = kLeaving;
    m.on_its_way = m.asked = everywhere();
    emit(next, Step{"leaves", w, -1, false});
  }

  template <class Emit>
  void arrive(const State& s, int w, int server, Emit& emit) const {
    State next = s;
    Member& m = next.members[w];
    Server& at = next.servers[server];
    if (has(m.left_push, server)) {
      m.left_push &= static_cast<Bits>(~bit(server));
      take_push(next, w, server);
      emit(next, Step{"its last push before it left arrives", w, server});
      return;
    }
    m.on_its_way &= static_cast<Bits>(~bit(server));
    if (m.phase == kLeaving) {
      at.gone |= bit(w);
      settle(next, server);
      answer(next, w, server);
      emit(next, Step{"its leave arrives", w, server});
      return;
    }
    if (m.phase == kClosing) {
      at.closing |= bit(w);
      settle(next, server);
      emit(next, Step{"its close arrives", w, server});
      return;
    }
    take_push(next, w, server);
    emit(next, Step{"its push arrives", w, server});
  }

  void take_push(State& s, int w, int server) const {
    Server& at = s.servers[server];
    if (!set_.carries && s.members[w].rounds[server] < at.rounds) return answer(s, w, server);
    at.pushed |= bit(w);
    at.round |= of(w, s.members[w].push);
    if (!set_.applies_first) answer(s, w, server);
    settle(s, server);
  }

  // What a server waits for may be there.
  void settle(State& s, int server) const {
    Server& at = s.servers[server];
    const auto gone = static_cast<Bits>(at.gone | at.lost);
    const auto others = static_cast<Bits>(workers_ & ~(at.pushed | at.closing | gone));
    const int pushed = std::popcount(at.pushed);
    if (pushed >= set_.least || (pushed != 0 && others == 0 && set_.skips_gone)) end_round(s, server);
    if (at.closing == 0 || (at.closing | gone) != workers_) return;
    for (int w = 0; w < set_.workers; ++w)
      if (has(at.closing, w)) answer(s, w, server);
    at.closing = 0;
  }

  void end_round(State& s, int server) const {
    Server& at = s.servers[server];
    if ((at.row & at.round) != 0) s.wrong = 1;
    at.row |= at.round;
    for (int w = 0; w < set_.workers; ++w)
      if (has(at.pushed, w) && s.members[w].phase == kPushing) answer(s, w, server);
    at.pushed = 0;
    if (set_.takes_all) at.round = 0;
    if (!set_.carries) ++at.rounds;  // which nothing else rests on
  }

  void answer(State& s, int w, int server) const {
    Member& m = s.members[w];
    if (m.lost != 0 || !has(m.asked, server)) return;
    m.asked &= static_cast<Bits>(~bit(server));
    if (m.phase == kPushing && !set_.carries)
      m.rounds[server] = static_cast<std::uint8_t>(s.servers[server].rounds + 1);
    if (m.asked != 0) return;
    if (m.phase == kPushing) m.sure |= bit(m.push++);
    m.phase = m.phase == kPushing ? kIdle : kOver;
  }

  // What was on its way may have come before, or never does.
  template <class Emit>
  void hear_of_loss(const State& s, int w, int server, Emit& emit) const {
    State next = s;
    Server& at = next.servers[server];
    next.members[w].on_its_way &= static_cast<Bits>(~bit(server));
    next.members[w].left_push &= static_cast<Bits>(~bit(server));
    at.lost |= bit(w);
    at.closing &= static_cast<Bits>(~bit(w));
    settle(next, server);
    emit(next, Step{"its loss is known", w, server});
  }

  LateSetting set_;
  Bits workers_;
};

}  // namespace tally::models

#pragma once
// A job of two levels of boxes (docs/protocol_racks.md): workers, the boxes of their racks, and the parent, with their
// entries. What was ever sent in an epoch may come once more at any later time, or never: so a packet that is lost,
// doubled or late is no case of its own. There are no times: whoever waits may send again or ask at any moment, and the
// millisecond in which a rack's box does not send again is a packet that is lost.

#include <algorithm>
#include <array>
#include <cstdint>

#include "explorer.h"
#include "tally/check.h"

namespace tally::models {

struct LevelsSetting {
  std::array<int, 2> workers{1, 1};  // of each rack; at most 2
  int chunks = 3;                    // at most 4
  int window = 1;                    // at most 2
  int parent_restarts = 0;           // it forgets all entries, and another epoch begins
  int rack_restarts = 0;             // likewise
  bool other_generation = false;     // ... with it everybody begins again, with other values
  // The rules.
  bool sends_again = true;             // what comes to a local entry makes the box send its sum again
  bool waits = true;                   // ... and not give out that sum
  bool adds_once = true;               // a rack that is in it is not added again
  bool asks_racks = true;              // QUERY with DIRECT
  bool renews = true;                  // a rack's box that has forgotten its entries ends the epoch
  bool contributions_of_epoch = true;  // what is of another epoch is dropped: by the rack's box ...
  bool sums_of_epoch = true;           // ... by the parent
  bool results_of_epoch = true;        // ... by the rack's box
  bool told_of_epoch = true;           // ... by workers
};

class LevelsModel {
 public:
  static constexpr int kRacks = 2, kWorkers = 2, kEntries = 4;

  struct Entry {
    std::uint8_t next = 0;  // chunk + 1; 0: free
    Bits in = 0;            // ranks, at the parent racks
    std::uint8_t complete = 0;
    std::uint8_t wrong = 0;  // somebody is in it twice, or with values of another generation
  };
  struct Worker {
    Bits results = 0;
    Bits sent = 0;  // in this epoch
    Bits old = 0;   // ... before
    std::uint8_t next = 0;
    std::uint8_t epoch = 1;
  };
  struct Rack {
    std::array<Entry, kEntries> entries{};
    std::array<Worker, kWorkers> workers{};
    std::uint8_t high = 0;  // chunk + 1; 0: none
    std::uint8_t epoch = 1;
    Bits up = 0;                    // chunks of which a CONTRIBUTE went to the parent
    Bits told = 0;                  // ... of which a RESULT went to workers
    Bits old_up = 0, old_told = 0;  // of an epoch before
  };
  struct State {
    std::array<Rack, kRacks> racks{};
    std::array<Entry, kEntries> entries{};  // the parent's, as what follows
    std::uint8_t high = 0;
    std::uint8_t epoch = 1;
    Bits out = 0;  // chunks of which a RESULT went to racks
    Bits old_out = 0;
    std::uint8_t parent_restarts = 0;
    std::uint8_t rack_restarts = 0;
    std::uint8_t wrong = 0;
  };

  explicit LevelsModel(const LevelsSetting& setting) : set_(setting), places_(2 * setting.window) {
    TALLY_CHECK(set_.chunks <= 4 && places_ <= kEntries && std::ranges::max(set_.workers) <= kWorkers,
                "the model's state has room for it");
  }

  [[nodiscard]] State init() const {
    State s;
    s.parent_restarts = static_cast<std::uint8_t>(set_.parent_restarts);
    s.rack_restarts = static_cast<std::uint8_t>(set_.rack_restarts);
    return s;
  }
  [[nodiscard]] const char* broken(const State& s) const {
    return s.wrong != 0 ? "a result that does not hold each worker's contribution once" : nullptr;
  }
  [[nodiscard]] bool reached(const State& s) const {
    for (int r = 0; r < kRacks; ++r)
      for (int w = 0; w < set_.workers[r]; ++w)
        if (s.racks[r].workers[w].results != all(set_.chunks)) return false;
    return true;
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    for (int r = 0; r < kRacks; ++r) {
      const Rack& rack = s.racks[r];
      if (rack.epoch != s.epoch) emit(learn(s, r), Step{"the rack's box learns the epoch", r});
      for (int c = 0; c < set_.chunks; ++c) {
        if (has(rack.up, c))
          late(s, {"a sum of the rack comes late", r, c}, emit, [&](Run& x) { x.sum_of(r, c); });
        if (!set_.sums_of_epoch && has(rack.old_up, c))
          before(s, {"a sum of the rack, of an epoch before", r, c}, emit, [&](Run& x) { x.sum_of(r, c); });
        if (!set_.results_of_epoch && has(s.old_out, c))
          before(s, {"a RESULT of an epoch before", r, c}, emit, [&](Run& x) { x.result(r, c); });
        if (has(s.out, c))
          late(s, {"the parent's RESULT comes late", r, c}, emit, [&](Run& x) { x.result(r, c); });
      }
      for (int w = 0; w < set_.workers[r]; ++w) of_worker(s, r, w, emit);
      if (s.rack_restarts != 0) emit(restart(s, r), Step{"the rack's box restarts", r, -1, false});
    }
    if (s.parent_restarts != 0) {
      State next = s;
      --next.parent_restarts;
      begin_epoch(next);
      emit(next, Step{"the parent restarts", -1, -1, false});
    }
  }

 private:
  // One packet and, if all arrive, what it causes.
  struct Run {
    const LevelsModel& model;
    State& s;
    bool all_arrive;
    bool old = false;  // what arrives is of an epoch before

    [[nodiscard]] int places() const { return model.places_; }
    [[nodiscard]] Bits ranks(int r) const { return all(model.set_.workers[r]); }
    [[nodiscard]] bool in_span(std::uint8_t high, int c) const {
      return high == 0 || std::abs(c + 1 - high) < places();
    }
    [[nodiscard]] bool entered(int r) const { return s.racks[r].epoch == s.epoch; }
    [[nodiscard]] bool foreign() const { return old && model.set_.other_generation; }

    // The pool's rules, at either level: what is added to which entry. False: nothing more comes of it.
    bool add(std::array<Entry, kEntries>& entries, std::uint8_t& high, int c, Bits who) const {
      if (!in_span(high, c)) return false;
      Entry& e = entries[c % places()];
      if (e.next > c + 1) return false;
      if (e.next != c + 1) e = {static_cast<std::uint8_t>(c + 1), 0, 0, 0};
      high = std::max(high, static_cast<std::uint8_t>(c + 1));
      if ((e.in & who) != 0 || foreign()) e.wrong = 1;
      e.in |= who;
      return true;
    }

    void contribution(int r, int w, int c) {
      Rack& rack = s.racks[r];
      if (!old && rack.workers[w].epoch != rack.epoch) return;
      Entry& e = rack.entries[c % places()];
      const bool again = e.next == c + 1 && (has(e.in, w) || e.complete != 0);
      if (!again && !add(rack.entries, rack.high, c, bit(w))) return;
      if (again && !in_span(rack.high, c)) return;
      if (e.complete != 0) return tell(r, bit(w), c);
      if (e.in != ranks(r) || (again && !model.set_.sends_again)) return;
      if (!model.set_.waits || e.wrong != 0) s.wrong = 1;
      send_up(r, c);
    }
    void send_up(int r, int c) {
      s.racks[r].up |= bit(c);
      if (all_arrive) sum_of(r, c);
    }
    void sum_of(int r, int c) {
      if (!old && !entered(r)) return;
      Entry& e = s.entries[c % places()];
      const bool whole = e.next == c + 1 && e.in == all(kRacks);
      const bool again = whole || (model.set_.adds_once && e.next == c + 1 && has(e.in, r));
      if (!again && !add(s.entries, s.high, c, bit(r))) return;
      if (again && !in_span(s.high, c)) return;
      if (e.in != all(kRacks)) return;
      if (e.wrong != 0) s.wrong = 1;
      s.out |= bit(c);
      for (int other = 0; other < kRacks; ++other)
        if (all_arrive && (!again || other == r)) result(other, c);
    }
    void result(int r, int c) {
      Rack& rack = s.racks[r];
      if ((!old && !entered(r)) || !in_span(rack.high, c)) return;
      Entry& e = rack.entries[c % places()];
      if (e.next > c + 1) return;
      const bool here = e.next == c + 1;
      if (here && e.complete != 0) return;
      if (foreign()) s.wrong = 1;
      e = {static_cast<std::uint8_t>(c + 1), ranks(r), 1, 0};
      rack.high = std::max(rack.high, static_cast<std::uint8_t>(c + 1));
      tell(r, ranks(r), c);
    }
    void tell(int r, Bits to, int c) {
      s.racks[r].told |= bit(c);
      for (int w = 0; all_arrive && w < model.set_.workers[r]; ++w)
        if (has(to, w)) take(r, w, c);
    }
    void take(int r, int w, int c) {
      Worker& worker = s.racks[r].workers[w];
      if ((!old && worker.epoch != s.racks[r].epoch) || c >= worker.next) return;
      if (foreign()) s.wrong = 1;
      worker.results |= bit(c);
    }

    // QUERYs, whose answers arrive.
    void ask(int r, int w, int c) {
      const Entry& e = s.racks[r].entries[c % places()];
      if (e.next != c + 1) return;
      if (e.complete != 0) return tell(r, bit(w), c);
      if (e.in == ranks(r) && model.set_.sends_again) send_up(r, c);
    }
    void ask_peer(int r, int w, int peer, int c) {
      const Worker& other = s.racks[r].workers[peer];
      if (other.epoch == s.racks[r].epoch && has(other.results, c)) tell(r, bit(w), c);
    }
    void ask_rack(int r, int other, int peer, int c) {
      if (!entered(r)) return;
      const Entry& e = s.entries[c % places()];
      const Worker& there = s.racks[other].workers[peer];
      const bool known = e.next == c + 1 && e.in == all(kRacks);
      if (!known && !(entered(other) && there.epoch == s.epoch && has(there.results, c))) return;
      s.out |= bit(c);
      if (all_arrive) result(r, c);
    }
  };

  template <class Emit>
  void of_worker(const State& s, int r, int w, Emit& emit) const {
    const Rack& rack = s.racks[r];
    const Worker& worker = rack.workers[w];
    const int number = r * kWorkers + w;
    for (int c = 0; c < set_.chunks; ++c) {
      if (!set_.contributions_of_epoch && has(worker.old, c))
        before(s, {"a contribution of an epoch before", number, c}, emit,
               [&](Run& x) { x.contribution(r, w, c); });
      if (!set_.told_of_epoch && has(rack.old_told, c))
        before(s, {"a RESULT of an epoch before", number, c}, emit, [&](Run& x) { x.take(r, w, c); });
    }
    if (worker.epoch != rack.epoch) {
      if (rack.epoch != 0) emit(enter(s, r, w), Step{"enters the epoch", number});
      return;
    }
    int lowest = 0;
    while (lowest < set_.chunks && has(worker.results, lowest)) ++lowest;
    for (int c = 0; c < set_.chunks; ++c) {
      if (has(worker.sent, c))
        late(s, {"a contribution comes late", number, c}, emit, [&](Run& x) { x.contribution(r, w, c); });
      if (has(rack.told, c))
        late(s, {"a RESULT comes late", number, c}, emit, [&](Run& x) { x.take(r, w, c); });
      if (has(worker.results, c) || c >= lowest + set_.window) continue;
      if (c > 0 && !has(worker.results | worker.sent, c - 1)) continue;
      both(s, {"contributes", number, c}, emit, [&](Run& x) {
        Worker& me = x.s.racks[r].workers[w];
        me.sent |= bit(c);
        me.next = std::max(me.next, static_cast<std::uint8_t>(c + 1));
        x.contribution(r, w, c);
      });
      if (!has(worker.sent, c)) continue;
      both(s, {"asks its box", number, c}, emit, [&](Run& x) { x.ask(r, w, c); });
      for (int peer = 0; peer < set_.workers[r]; ++peer)
        if (peer != w) both(s, {"asks a peer", number, c}, emit, [&](Run& x) { x.ask_peer(r, w, peer, c); });
      const int other = 1 - r;
      for (int peer = 0; set_.asks_racks && peer < set_.workers[other]; ++peer)
        both(s, {"asks another rack", number, c}, emit, [&](Run& x) { x.ask_rack(r, other, peer, c); });
    }
  }

  template <class Emit, class Do>
  void both(const State& s, Step step, Emit& emit, Do act) const {
    for (const bool arrive : {true, false}) {
      State next = s;
      Run run{*this, next, arrive};
      act(run);
      step.fair = arrive;
      emit(next, step);
    }
  }
  // A copy, whose consequences may come late in their turn.
  template <class Emit, class Do>
  void late(const State& s, Step step, Emit& emit, Do act, bool of_epoch_before = false) const {
    State next = s;
    Run run{*this, next, false, of_epoch_before};
    act(run);
    step.fair = false;
    emit(next, step);
  }
  template <class Emit, class Do>
  void before(const State& s, Step step, Emit& emit, Do act) const {
    late(s, step, emit, act, true);
  }

  [[nodiscard]] State learn(const State& s, int r) const {
    State next = s;
    forget(next.racks[r]);
    next.racks[r].epoch = s.epoch;
    return next;
  }
  [[nodiscard]] State enter(const State& s, int r, int w) const {
    State next = s;
    Worker& worker = next.racks[r].workers[w];
    worker.epoch = s.racks[r].epoch;
    if (!set_.contributions_of_epoch) worker.old |= worker.sent;
    worker.sent = 0;
    if (set_.other_generation) worker.results = worker.next = 0;
    return next;
  }
  [[nodiscard]] State restart(const State& s, int r) const {
    State next = s;
    --next.rack_restarts;
    forget(next.racks[r]);
    if (!set_.renews) return next;
    next.racks[r].epoch = 0;
    begin_epoch(next);
    return next;
  }
  void begin_epoch(State& s) const {
    ++s.epoch;
    if (!set_.results_of_epoch) s.old_out |= s.out;
    s.entries = {};
    s.high = 0;
    s.out = 0;
  }
  void forget(Rack& rack) const {
    rack.entries = {};
    rack.high = 0;
    if (!set_.sums_of_epoch) rack.old_up |= rack.up;
    if (!set_.told_of_epoch) rack.old_told |= rack.told;
    rack.up = rack.told = 0;
  }

  LevelsSetting set_;
  int places_;
};

}  // namespace tally::models

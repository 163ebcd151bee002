#pragma once
// A job over two boxes (docs/protocol_boxes.md): its home, another one, which members enlist at, and a server.
// Its members, what each box knows of the epoch, ledger and entries of both, the server's sums, and packets that
// are lost, doubled or late by any time. Time is left out, but for what only a timer does.
// Which box has the seat of the home, a store says; each box hears of it when it may, so that both think they are the
// home for a while, or neither.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "boxes_world.h"
#include "explorer.h"

namespace tally::models {

class BoxesModel : public BoxesWorld {
 public:
  using BoxesWorld::BoxesWorld;

  [[nodiscard]] State init() const {
    State s;
    s.boxes[0].is_home = 1;
    s.boxes[0].joined = everybody_;
    s.boxes[0].epoch = 1;
    s.boxes[0].enlisted = everybody_;
    for (int n = 0; n < kNodes; ++n) s.members[n].running = has(everybody_, n) ? 1 : 0;
    return s;
  }
  [[nodiscard]] const char* broken(const State& s) const {
    if (s.wrong != 0) return "a sum that does not hold each member's contribution once";
    if (s.given_up != 0) return "a box that lives and answers is given up";
    return s.too_many != 0 ? "an epoch ended without a reason" : nullptr;
  }
  [[nodiscard]] bool reached(const State& s) const {
    for (int r = 0; r < set_.ranks; ++r)
      if (!is_in(s, r, s.seat) || s.members[r].has != all(set_.chunks)) return false;
    return true;
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    for (int n = 0; n < kNodes; ++n) {
      if (!has(everybody_, n)) continue;
      live(s, n, emit);
      if (n != kServer) work(s, n, emit);
    }
    for (int c = 0; c < set_.chunks; ++c) serve_by_time(s, c, emit);
    for (int box = 0; box < kBoxes; ++box) hear_of_seat(s, box, emit);
    suffer(s, emit);
    for (std::size_t i = 0; i < kLate; ++i) {
      if (s.late[i].kind == Kind::kNone) continue;
      State next = s;
      next.late[i] = {};
      if (i == 0) std::swap(next.late[0], next.late[1]);  // one order of what waits
      arrive(next, s.late[i], {"what was late comes", s.late[i].node, s.late[i].chunk, false}, emit);
    }
  }

 private:
  // ---- Members and epochs.

  void call_back(State& s, int home, bool alone) const {
    if (alone && s.cuts + s.takeovers + s.deaths == 0) s.given_up = 1;
    s.boxes[home].joined = 0;
    if (alone) s.boxes[home].alone = 1;
  }
  void begin(Box& box, int epoch) const {
    if (box.epoch != 0) box.former |= only(box.epoch - 1);
    box.epoch = static_cast<std::uint8_t>(epoch + 1);
    box.enlisted = 0;
    if (set_.epochs_apart) box.rows = {};
  }
  // All have joined here.
  void begin_as_home(State& s, int home) const {
    if (s.epoch + 1 == kEpochs || s.epoch + 1 > s.reasons) {
      s.too_many = 1;
      return;
    }
    ++s.epoch;
    Box& box = s.boxes[home];
    if (home == 1) s.of_box_1 |= only(s.epoch);
    if (box.alone != 0) s.without |= only(s.epoch);
    begin(box, s.epoch);
    box.enlisted = everybody_;
    box.former = 0;  // nobody tells it of one
  }

  // What it has as a home, or as another box, is nothing in its new place.
  template <class Emit>
  void hear_of_seat(const State& s, int box, Emit& emit) const {
    const bool has_it = s.seat == box;
    if (has(s.dead, box) || (s.boxes[box].is_home != 0) == has_it || (!has_it && !set_.yields)) return;
    State next = s;
    next.boxes[box] = {};
    next.boxes[box].is_home = has_it ? 1 : 0;
    emit(next, Step{has_it ? "the other box takes the job over" : "a home hears of another one", -1, -1});
  }

  // Takes this member in, and says so.
  [[nodiscard]] static bool takes_in(const State& s, int box) {
    return s.boxes[box].is_home != 0 && !has(s.dead, box);
  }
  // The member is no part of its epoch any more, for it was called back, or its home is gone. It joins where it was,
  // and where that is no home any more, or gone, at any that takes it in.
  template <class Emit>
  void join(const State& s, int n, Emit& emit) const {
    const Member& m = s.members[n];
    if (m.running != 0 && runs_epoch(s, m.epoch)) return;
    for (int box = 0; box < kBoxes; ++box) {
      if (!takes_in(s, box) || (has(s.boxes[box].joined, n) && m.asks == box)) continue;
      const bool strays = m.asks != box && takes_in(s, m.asks);
      if (strays && s.strays == set_.strays) continue;
      State next = s;
      if (strays) ++next.strays;
      Member& joining = next.members[n];
      joining.running = 0;
      joining.enlisted = 0;
      joining.asks = static_cast<std::uint8_t>(box);
      const bool ran = runs(s, box);
      next.boxes[box].joined |= bit(n);
      if (!ran && runs(next, box)) begin_as_home(next, box);
      emit(next, Step{box == 0 ? "joins at box 0" : "joins at box 1", n, -1, !strays});
    }
  }

  template <class Emit>
  void live(const State& s, int n, Emit& emit) const {
    const Member& m = s.members[n];
    join(s, n, emit);
    if (m.running == 0 && runs(s, m.asks) && has(s.boxes[m.asks].joined, n)) {
      const auto epoch = static_cast<std::uint8_t>(s.boxes[m.asks].epoch - 1);
      State next = s;
      Member& entering = next.members[n];
      if (n == kServer) next.server = {};
      if (generation(m.epoch) != generation(epoch)) entering.has = 0;
      entering.epoch = epoch;
      entering.running = 1;
      emit(next, Step{"enters the epoch", n});
    }
    if (m.running == 0 || of(s.without, m.epoch)) return;
    const int other = other_of(s, m.epoch);
    if (has(s.dead, other)) return lose_other(s, n, 1, {"hears nothing of a box that is gone", n}, emit);
    if (m.enlisted == 0) {
      Packet p = packet(Kind::kEnlist, m.epoch, n);
      p.under = s.boxes[other].epoch;
      send(s, p, {"enlists", n}, emit);
    } else if (!knows(s, other, m.epoch, n) && set_.says_lost) {
      lose_other(s, n, 0, {"is told that the other box forgot", n}, emit);
    }
    if (s.cuts < set_.cuts) {
      State next = s;
      ++next.cuts;
      ++next.reasons;
      lose_other(next, n, 1, {"hears nothing of the other box", n, -1, false}, emit);
    }
  }

  template <class Emit>
  void lose_other(const State& s, int n, std::uint8_t gone, Step step, Emit& emit) const {
    Packet p = packet(Kind::kLost, s.members[n].epoch, n);
    p.gone = gone;
    send(s, p, step, emit);
  }

  // ---- Packets: they arrive, or do not, or later, or twice.

  template <class Emit>
  void send(const State& s, const Packet& p, Step step, Emit& emit) const {
    arrive(s, p, step, emit);
    step.fair = false;
    if (s.losses < set_.losses) {
      State next = s;
      ++next.losses;
      emit(next, Step{"... and it is lost", step.rank, step.chunk, false});
    }
    if (s.delayed < set_.late) {
      State next = s;
      ++next.delayed;
      next.late[next.late[0].kind == Kind::kNone ? 0 : 1] = p;
      emit(next, Step{"... and it is late", step.rank, step.chunk, false});
      arrive(next, p, step, emit);
    }
  }

  template <class Emit>
  void arrive(const State& s, const Packet& p, const Step& step, Emit& emit) const {
    switch (p.kind) {
      case Kind::kNone:
        break;
      case Kind::kContribution:
        contribute(s, p, step, emit);
        break;
      case Kind::kSum:
        merge(s, p, step, emit);
        break;
      case Kind::kResult: {
        State next = s;
        take_result(next, p);
        emit(next, step);
        break;
      }
      case Kind::kEnlist: {
        State next = s;
        const bool taken = enlist(next, p);
        Member& m = next.members[p.node];
        const int other = other_of(s, p.epoch);
        if (m.running != 0 && m.epoch == p.epoch && knows(next, other, p.epoch, p.node)) m.enlisted = 1;
        if (!taken && m.running != 0 && runs_epoch(next, m.epoch) && m.epoch == p.epoch && m.enlisted == 0 &&
            set_.says_lost)
          return lose_other(next, p.node, 1, step, emit);  // refused
        emit(next, step);
        break;
      }
      case Kind::kLost: {
        State next = s;
        const int home = home_of(s, p.epoch);
        if (runs(s, home) && (runs_epoch(s, p.epoch) || !set_.lost_of_epoch))
          call_back(next, home, p.gone != 0);
        emit(next, step);
        break;
      }
    }
  }

  // False: refused.
  bool enlist(State& s, const Packet& p) const {
    Box& guest = s.boxes[other_of(s, p.epoch)];
    if (has(s.dead, other_of(s, p.epoch))) return true;  // and nothing comes back
    if (guest.is_home != 0) return false;
    if (guest.epoch != p.epoch + 1) {
      if (set_.remembers && of(guest.former, p.epoch)) return false;
      if (set_.challenges && p.under != guest.epoch) return true;  // answered by CHALLENGE
      begin(guest, p.epoch);
    }
    if (p.node == kServer || has(guest.enlisted, kServer)) guest.enlisted |= bit(p.node);
    return true;
  }

  void take_result(State& s, const Packet& p) const {
    Member& m = s.members[p.node];
    if (m.epoch != p.epoch && set_.results_of_epoch) return;
    if (!has(m.has, p.chunk) && generation(p.epoch) != generation(m.epoch)) s.wrong = 1;
    m.has |= bit(p.chunk);
  }

  // ---- Data.

  template <class Emit>
  void work(const State& s, int r, Emit& emit) const {
    const Member& m = s.members[r];
    if (m.running == 0) return;
    for (int c = 0; c < set_.chunks; ++c) {
      const int box = box_of(s, m.epoch, r, c);
      if (has(m.has, c) || (box != home_of(s, m.epoch) && m.enlisted == 0)) continue;
      send(s, packet(Kind::kContribution, m.epoch, r, c), {"contributes", r, c}, emit);
      if (!knows(s, box, m.epoch, r)) continue;
      ask_peers(s, r, c, box, emit);
      if (set_.timers) ask_server(s, r, c, box, emit);
    }
  }

  // A box that everybody here was seen at, and that has no entry, or one whom a timer told to.
  template <class Emit>
  void ask_peers(const State& s, int r, int c, int box, Emit& emit) const {
    const int epoch = s.members[r].epoch;
    for (int peer = 0; peer < set_.ranks; ++peer) {
      const Member& p = s.members[peer];
      if (peer == r || p.epoch != epoch || p.running == 0 || !has(p.has, c) || !knows(s, box, epoch, peer))
        continue;
      State next = s;
      take_result(next, packet(Kind::kResult, epoch, r, c));
      emit(next, Step{"a peer answers", r, c});
    }
  }
  // The server's RESULT if it has it, else RESEND, and the contribution past the boxes' entries.
  template <class Emit>
  void ask_server(const State& s, int r, int c, int box, Emit& emit) const {
    const auto epoch = s.members[r].epoch;
    if (!knows(s, box, epoch, kServer) || s.members[kServer].epoch != epoch) return;
    merge(s, packet(Kind::kSum, epoch, box, c, one(r, epoch)), {"asks the server", r, c}, emit);
  }

  template <class Emit>
  void contribute(const State& s, const Packet& p, const Step& step, Emit& emit) const {
    const int box = box_of(s, p.epoch, p.node, p.chunk);
    const bool known =
        set_.epochs_apart ? knows(s, box, p.epoch, p.node) : s.boxes[box].epoch != 0 && !has(s.dead, box);
    if (!known) return emit(s, step);
    const int epoch = s.boxes[box].epoch - 1;
    for (const bool room : {true, false}) {
      enter(s, p, box, epoch, room, step, emit);
      if (!set_.crowded) return;
    }
  }

  // docs/protocol_box.md, 11.5, where an external server has what finds no entry.
  template <class Emit>
  void enter(const State& s, const Packet& p, int box, int epoch, bool room, const Step& step,
             Emit& emit) const {
    State next = s;
    Row& row = next.boxes[box].rows[p.chunk];
    const Bits own = bit(p.node);
    const Sum sum = one(p.node, p.epoch);
    const Bits here_now = here(s, box, epoch, p.chunk);
    const Packet bypass = packet(Kind::kSum, epoch, box, p.chunk, sum);
    if ((here_now & own) == 0) return leave(next, bypass, step, emit);
    const bool everybody = (here_now & ~row.seen) == 0;
    const bool duplicate = (row.seen & own) != 0;
    row.seen |= own;
    const bool last = !everybody && (here_now & ~row.seen) == 0;
    if (row.entry.contributors != 0) {
      if (row.entry.contributors == ranks_) return tell(next, epoch, p.chunk, own, box, step, emit);
      if ((row.entry.contributors & own) != 0) return emit(next, step);
      if (duplicate) return leave(next, bypass, step, emit);
      add(row.entry, sum);
      if (row.entry.contributors == ranks_ || (last && !set_.finishes_whole)) {
        judge(next, row.entry, epoch);
        row.entry.contributors = ranks_;
        return tell(next, epoch, p.chunk, ranks_, box, step, emit);
      }
      if (!last) return emit(next, step);
      Packet partial = bypass;
      partial.sum = row.entry;
      row.entry = {};
      return leave(next, partial, step, emit);
    }
    if (duplicate || last || everybody || !room) return leave(next, bypass, step, emit);
    row.entry = sum;
    emit(next, step);
  }

  void judge(State& s, const Sum& sum, int epoch) const {
    if (sum.value != once(ranks_) || sum.generations != bit(generation(epoch))) s.wrong = 1;
  }

  // To the server, if the box knows it.
  template <class Emit>
  void leave(const State& s, const Packet& p, const Step& step, Emit& emit) const {
    if (!knows(s, p.node, p.epoch, kServer)) return emit(s, step);
    send(s, p, step, emit);
  }

  template <class Emit>
  void merge(const State& s, const Packet& p, const Step& step, Emit& emit) const {
    if (s.members[kServer].epoch != p.epoch) return emit(s, step);
    State next = s;
    Sum& held = next.server[p.chunk];
    if (held.contributors == ranks_) return tell(next, p.epoch, p.chunk, p.sum.contributors, -1, step, emit);
    if ((held.contributors & p.sum.contributors) == 0 || !set_.disjoint) {
      add(held, p.sum);
    } else if ((held.contributors & ~p.sum.contributors) == 0) {
      held = p.sum;
    }
    if (held.contributors != ranks_) return emit(next, step);
    judge(next, held, p.epoch);
    tell(next, p.epoch, p.chunk, ranks_, -1, step, emit);
  }

  // RESULT from a box, or (-1) from the server through each rank's box: all arrive, or one is lost or late.
  template <class Emit>
  void tell(const State& s, int epoch, int chunk, Bits to, int box, const Step& step, Emit& emit) const {
    Bits reached = 0;
    for (int r = 0; r < set_.ranks; ++r) {
      const int by = box >= 0 ? box : box_of(s, epoch, r, chunk);
      if (has(to, r) && knows(s, by, epoch, r) && (box >= 0 || knows(s, by, epoch, kServer)))
        reached |= bit(r);
    }
    const auto result = [&](int r) { return packet(Kind::kResult, epoch, r, chunk); };
    const auto but = [&](State next, int missing) {
      for (int r = 0; r < set_.ranks; ++r)
        if (has(reached, r) && r != missing) take_result(next, result(r));
      return next;
    };
    emit(but(s, -1), step);
    for (int r = 0; r < set_.ranks; ++r) {
      if (!has(reached, r)) continue;
      if (s.losses < set_.losses) {
        State next = but(s, r);
        ++next.losses;
        emit(next, Step{"... and a RESULT is lost", r, chunk, false});
      }
      if (s.delayed < set_.late) {
        State next = but(s, r);
        ++next.delayed;
        next.late[next.late[0].kind == Kind::kNone ? 0 : 1] = result(r);
        emit(next, Step{"... and a RESULT is late", r, chunk, false});
      }
    }
  }

  // Sweep and FLUSH bring what is in entries; RESEND a contribution, or the result of who has it.
  template <class Emit>
  void serve_by_time(const State& s, int c, Emit& emit) const {
    if (!set_.timers) return;
    for (int box = 0; box < 2; ++box) {
      const Row& row = s.boxes[box].rows[c];
      const bool there = s.boxes[box].epoch != 0 && !has(s.dead, box);
      if (!there || row.entry.contributors == 0 || row.entry.contributors == ranks_) continue;
      State next = s;
      next.boxes[box].rows[c].entry = {};
      leave(next, packet(Kind::kSum, s.boxes[box].epoch - 1, box, c, row.entry), {"an entry is swept", -1, c},
            emit);
    }
    const Bits held = s.server[c].contributors;
    if (held == 0 || held == ranks_) return;
    const auto epoch = s.members[kServer].epoch;
    for (int r = 0; r < set_.ranks; ++r) {
      const Member& m = s.members[r];
      const int box = box_of(s, epoch, r, c);
      if (has(held, r) || m.running == 0 || m.epoch != epoch) continue;
      if (!knows(s, box, epoch, r) || !knows(s, box, epoch, kServer)) continue;
      Sum sum = one(r, epoch);
      if (has(m.has, c)) sum = {ranks_, once(ranks_), bit(generation(epoch))};
      merge(s, packet(Kind::kSum, epoch, box, c, sum), {"the server asks", r, c}, emit);
    }
    State next = s;
    next.server[c] = {};
    emit(next, Step{"the server drops what does not move", -1, c});
  }

  template <class Emit>
  void suffer(const State& s, Emit& emit) const {
    const auto happens = [&](std::uint8_t State::*count, int most, int reasons, const char* what,
                             auto change) {
      if (s.*count >= most) return;
      State next = s;
      ++(next.*count);
      next.reasons = static_cast<std::uint8_t>(next.reasons + reasons);
      change(next);
      emit(next, Step{what, -1, -1, false});
    };
    if (runs(s, s.seat)) {
      happens(&State::plan_changes, set_.plan_changes, 1, "the plan changes",
              [&](State& next) { call_back(next, s.seat, false); });
    }
    if (!has(s.dead, 0) && (s.boxes[0].is_home != 0 ? runs(s, 0) : s.seat == 1)) {
      happens(&State::home_restarts, set_.home_restarts, s.seat == 0 ? 1 : 4, "box 0 restarts",
              [&](State& next) {
                const auto alone = next.boxes[0].alone;
                next.boxes[0] = {};
                next.boxes[0].is_home = 1;  // as it is written
                next.boxes[0].alone = alone;
              });
    }
    if (!has(s.dead, 1)) {
      happens(&State::guest_forgets, set_.guest_forgets, s.boxes[1].is_home != 0 ? 4 : 1,
              "box 1 forgets everything", [&](State& next) { next.boxes[1] = {}; });
    }
    // Each of the two may begin an epoch for what the other was, and one without it when it is found to be a home too.
    if (s.dead == 0) {
      happens(&State::takeovers, set_.takeovers, 4, "the seat goes to another box",
              [&](State& next) { next.seat = static_cast<std::uint8_t>(1 - next.seat); });
      happens(&State::deaths, set_.deaths, 4, "the home is gone for good", [&](State& next) {
        next.dead = bit(next.seat);
        next.boxes[next.seat] = {};
      });
    } else if (has(s.dead, s.seat) && set_.seat_moves) {
      State next = s;
      next.seat = static_cast<std::uint8_t>(1 - next.seat);
      emit(next, Step{"its lease ends", -1, -1});
    }
  }
};

}  // namespace tally::models

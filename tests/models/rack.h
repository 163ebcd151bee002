#pragma once
// Workers, the network and the part of the box that all disciplines share, as docs/protocol.md, 8 has it: the
// window of sequences that makes NACKs, QUERYs that name nobody, contributions again on NACK or
// REJECT(waiting) or a timer. What becomes of a contribution at its entry is the Box's (pool_box.h,
// shared_box.h).
//
// Time is left out but for one thing: a *quiet* moment, when nobody has anything to send at once, stands for
// a round trip. Only then may a worker ask, or a timer run out. A packet and what it causes are one step;
// what is late waits in a place of its own, behind any number of later ones.

#include <algorithm>
#include <array>
#include <cstdint>

#include "explorer.h"

namespace tally::models {

inline constexpr int kRanks = 3;
inline constexpr int kChunks = 6;

struct Setting {
  int ranks = 2;
  int chunks = 4;
  int window = 2;
  int lead = 1;      // sendings behind which one counts as missing
  int losses = 0;    // of any packets
  int late = 0;      // packets that come behind any that were sent later
  int restarts = 0;  // of the box, which forgets everything
  bool nacks = true;
  bool asks = true;      // QUERYs that name nobody
  bool probes = false;   // when nothing else moves, one question for the oldest chunk
  bool names = true;     // probes name a peer now and then
  bool timers = true;    // the last resort: contributions, QUERYs to a peer
  bool replays = false;  // what was sent in this epoch may come again, at any time
  Bits safe_chunks = 0;  // nothing that speaks of these is lost or late
};

enum class Said : std::uint8_t { kNothing, kResult, kWaiting, kAskPeer };
struct Answer {
  Said said = Said::kNothing;
  Bits to = 0;            // ranks
  Bits contributors = 0;  // kWaiting
};

inline constexpr std::uint8_t kOld = 6;  // ages end here
inline constexpr int kRemembered = 4;    // sequences in the box's window
inline constexpr std::uint8_t kMostAsked = 3;

enum class Kind : std::uint8_t { kNone, kContribution, kResult, kWaiting, kNack };
struct Late {
  Kind kind = Kind::kNone;
  std::uint8_t chunk = 0;
  std::uint8_t age = 0;  // kContribution: sendings since; kNack: since the newest that it knows
  Bits bits = 0;         // kWaiting: contributors; kNack: which of those before it are missing
  std::uint8_t epoch = 0;
};

// Sequences are told by their age, the number of contributions since, so that there are not ever more states.
struct Worker {
  Bits has = 0;    // results
  Bits sent = 0;   // in this epoch
  Bits again = 0;  // sent more than once
  Bits due = 0;    // to be contributed at once
  std::uint8_t epoch = 0;
  std::uint8_t delivered = kOld;  // age of the newest sending, of those with a result, that was sent once
  std::array<std::uint8_t, kChunks> age{};
  std::array<std::uint8_t, kChunks> asked{};
  // At the box.
  std::uint8_t lag = 0;  // age of the newest that came
  Bits missing = 0;      // bit i: the one i before it did not
  Late late;
};

template <class Box>
struct RackState {
  std::array<Worker, kRanks> workers{};
  typename Box::State box{};
  std::uint8_t epoch = 0;
  std::uint8_t losses = 0;
  std::uint8_t late = 0;
  std::uint8_t restarts = 0;
};

template <class Box>
class Rack {
 public:
  using State = RackState<Box>;

  Rack(const Setting& setting, Box box) : set_(setting), box_(box) {}

  [[nodiscard]] State init() const {
    State s;
    for (Worker& w : s.workers) w.age.fill(kOld);
    s.losses = static_cast<std::uint8_t>(set_.losses);
    s.late = static_cast<std::uint8_t>(set_.late);
    s.restarts = static_cast<std::uint8_t>(set_.restarts);
    return s;
  }
  [[nodiscard]] const char* broken(const State& s) const { return box_.broken(s.box); }
  [[nodiscard]] bool reached(const State& s) const {
    for (int r = 0; r < set_.ranks; ++r)
      if (s.workers[r].has != all(set_.chunks)) return false;
    return true;
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    const bool is_quiet = quiet(s);
    for (int r = 0; r < set_.ranks; ++r) {
      const Worker& w = s.workers[r];
      come_late(s, r, emit);
      if (w.epoch != s.epoch) {
        emit(learn(s, r), Step{"learns the epoch", r});
        continue;
      }
      for (int c = 0; c < set_.chunks; ++c) {
        if ((w.due & bit(c)) != 0 || is_next(w, c)) contribute(s, r, c, "contributes", emit);
        if (set_.replays && (w.sent & bit(c)) != 0) replay(s, r, c, emit);
        if (!is_quiet || (w.sent & bit(c)) == 0 || (w.has & bit(c)) != 0) continue;
        if (may_ask(s, r, c) || (set_.probes && all(c) == (w.has & all(c)) && !anybody_asks(s)))
          ask(s, r, c, emit);
        if (set_.timers) contribute(s, r, c, "timer: contributes", emit);
        if (set_.timers) ask_peers(s, r, c, {"timer: asks a peer", r, c}, emit);
      }
    }
    if (s.restarts != 0) {
      State next = s;
      --next.restarts;
      ++next.epoch;
      next.box = {};
      emit(next, Step{"the box restarts", -1, -1, false});
    }
    std::array<Bits, kChunks> holders{};
    for (int r = 0; r < set_.ranks; ++r)
      for (int c = 0; c < set_.chunks; ++c)
        if (has(s.workers[r].has, c)) holders[c] |= bit(r);
    box_.moves(s.box, holders, is_quiet,
               [&](const typename Box::State& box, const Answer& answer, Step step) {
                 State next = s;
                 next.box = box;
                 spread(next, {answer, -1, 0, step.chunk}, step, emit);
               });
  }

 private:
  // What a packet at the box causes: an answer, and a NACK to the sender.
  struct Caused {
    Answer answer;
    int rank = -1;
    Bits nack = 0;
    int chunk = 0;
  };

  [[nodiscard]] bool is_next(const Worker& w, int c) const {
    const Bits done = w.has | w.sent;
    int lowest = 0;
    while (lowest < set_.chunks && (w.has >> lowest & 1U) != 0) ++lowest;
    if (c >= lowest + set_.window || (done >> c & 1U) != 0) return false;
    return (done & all(c)) == all(c);  // in order
  }
  [[nodiscard]] bool quiet(const State& s) const {
    for (int r = 0; r < set_.ranks; ++r) {
      const Worker& w = s.workers[r];
      if (w.epoch != s.epoch || w.due != 0) return false;
      for (int c = 0; c < set_.chunks; ++c)
        if (is_next(w, c)) return false;
    }
    return true;
  }
  [[nodiscard]] bool overtaken(const Worker& w, int c) const { return w.delivered + set_.lead <= w.age[c]; }

  [[nodiscard]] bool anybody_asks(const State& s) const {
    for (int r = 0; r < set_.ranks; ++r)
      for (int c = 0; c < set_.chunks; ++c)
        if (may_ask(s, r, c)) return true;
    return false;
  }
  // A round trip is as long for everybody: nobody asks again before the others have asked.
  [[nodiscard]] bool may_ask(const State& s, int rank, int c) const {
    const auto asks = [&](const Worker& w) {
      return (w.sent & ~w.has & bit(c)) != 0 && w.asked[c] < kMostAsked &&
             (w.asked[c] != 0 || overtaken(w, c));
    };
    if (!set_.asks || !asks(s.workers[rank])) return false;
    return std::none_of(s.workers.begin(), s.workers.begin() + set_.ranks,
                        [&](const Worker& w) { return asks(w) && w.asked[c] < s.workers[rank].asked[c]; });
  }

  [[nodiscard]] State learn(const State& s, int r) const {
    State next = s;
    Worker w;
    w.age.fill(kOld);
    w.has = s.workers[r].has;
    w.late = s.workers[r].late;
    w.epoch = s.epoch;
    next.workers[r] = w;
    return next;
  }

  [[nodiscard]] bool may_suffer(int chunk) const { return (set_.safe_chunks & bit(chunk)) == 0; }

  template <class Emit>
  void contribute(const State& s, int r, int c, const char* what, Emit& emit) const {
    State next = s;
    Worker& w = next.workers[r];
    const auto older = [](std::uint8_t& age) {
      age = age < kOld ? static_cast<std::uint8_t>(age + 1) : kOld;
    };
    for (auto& age : w.age) older(age);
    older(w.lag);
    older(w.delivered);
    if (w.late.kind == Kind::kContribution || w.late.kind == Kind::kNack) older(w.late.age);
    if (has(w.sent, c)) w.again |= bit(c);
    w.sent |= bit(c);
    w.due &= static_cast<Bits>(~bit(c));
    w.age[c] = 0;
    if (s.losses != 0 && may_suffer(c)) {
      State lost = next;
      --lost.losses;
      emit(lost, Step{"contribution lost", r, c, false});
    }
    if (s.late != 0 && may_suffer(c) && w.late.kind == Kind::kNone) {
      State held = next;
      --held.late;
      held.workers[r].late = {Kind::kContribution, static_cast<std::uint8_t>(c), 0, 0, s.epoch};
      emit(held, Step{"contribution delayed", r, c, false});
    }
    arrive(next, r, c, 0, {what, r, c}, emit);
  }

  // A contribution at the box, `age` sendings old.
  template <class Emit>
  void arrive(const State& s, int r, int c, std::uint8_t age, Step step, Emit& emit) const {
    State next = s;
    Worker& w = next.workers[r];
    Bits nack = 0;
    const int ahead = w.lag - age;
    if (ahead > 0) {
      w.missing = static_cast<Bits>(w.missing << ahead | (all(ahead) & ~1U));
      nack = static_cast<Bits>(w.missing & all(ahead) << set_.lead);
      w.lag = age;
    } else if (-ahead < kRemembered) {
      if ((w.missing >> -ahead & 1U) == 0) return emit(next, step);  // Drop(replay)
      w.missing &= static_cast<Bits>(~bit(-ahead));
    }
    enter(next, r, c, set_.nacks ? nack : Bits{0}, step, emit);
  }

  template <class Emit>
  void enter(const State& s, int r, int c, Bits nack, Step step, Emit& emit) const {
    for (const bool room : {true, false}) {
      State next = s;
      const Answer answer = box_.contribute(next.box, r, c, room);
      spread(next, {answer, r, nack, c}, step, emit);
      if (!Box::kCrowded) return;
    }
  }

  // Beyond the box's memory of sequences: only the entry's rules are left.
  template <class Emit>
  void replay(const State& s, int r, int c, Emit& emit) const {
    enter(s, r, c, 0, {"replay", r, c, false}, emit);
  }

  template <class Emit>
  void ask(const State& s, int r, int c, Emit& emit) const {
    State next = s;
    std::uint8_t& asked = next.workers[r].asked[c];
    asked = std::min<std::uint8_t>(asked + 1, kMostAsked);
    if (s.losses != 0 && may_suffer(c)) {
      State lost = next;
      --lost.losses;
      emit(lost, Step{"QUERY lost", r, c, false});
    }
    const Answer answer = box_.query(next.box, r, c);
    const Step step{"asks the box", r, c};
    const bool probe = asked == kMostAsked;
    if (probe && set_.names) ask_peers(next, r, c, {"asks a peer", r, c}, emit);
    if (answer.said != Said::kAskPeer) return spread(next, {answer, r, 0, c}, step, emit);
    // In turn; a probe, which has no limit, either.
    bool peers = true;
    if constexpr (Box::kCrowded) {
      peers = !box_.asks_server() || probe || asked % 2 == 1;
      if (box_.asks_server() && (probe || asked % 2 == 0)) {
        State there = next;
        const Answer served = box_.ask_server(there.box, r, c);
        spread(there, {served, r, 0, c}, {"asks the server", r, c}, emit);
      }
    }
    if (peers) ask_peers(next, r, c, step, emit);
  }

  template <class Emit>
  void ask_peers(const State& s, int r, int c, Step step, Emit& emit) const {
    for (int peer = 0; peer < set_.ranks; ++peer) {
      if (peer == r) continue;
      const Worker& w = s.workers[peer];
      if (w.epoch == s.epoch && (w.has >> c & 1U) != 0) {
        spread(s, {{Said::kResult, bit(r), 0}, r, 0, c}, step, emit);
      } else {
        emit(s, step);
      }
    }
  }

  void take(Worker& w, int r, const Late& packet) const {
    const Bits chunk = bit(packet.chunk);
    if (packet.epoch != w.epoch) return;
    if (packet.kind == Kind::kResult && (w.sent & chunk) != 0) {
      if ((w.has & chunk) == 0 && (w.again & chunk) == 0 && w.asked[packet.chunk] == 0)
        w.delivered = std::min(w.delivered, w.age[packet.chunk]);
      w.has |= chunk;
      w.due &= static_cast<Bits>(~chunk);
    }
    if (packet.kind == Kind::kWaiting && (w.has & chunk) == 0 && (packet.bits & bit(r)) == 0) w.due |= chunk;
    if (packet.kind == Kind::kNack) {
      for (int i = 0; i < kRemembered; ++i)
        for (int c = 0; c < set_.chunks; ++c)
          if ((packet.bits >> i & 1U) != 0 && w.age[c] == packet.age + i && (w.sent & ~w.has & bit(c)) != 0)
            w.due |= bit(c);
    }
  }

  // The answer and the NACK on their way: all arrive, or one of them is lost or late.
  template <class Emit>
  void spread(const State& s, const Caused& caused, Step step, Emit& emit) const {
    struct Leaving {
      int rank;
      Late packet;
    };
    std::array<Leaving, kRanks + 1> leaving{};
    std::size_t count = 0;
    const auto chunk = static_cast<std::uint8_t>(std::max(caused.chunk, 0));
    Bits to = caused.answer.said == Said::kNothing ? Bits{0} : caused.answer.to;
    for (int r = 0; r < set_.ranks; ++r)
      if ((to >> r & 1U) != 0)
        leaving[count++] = {r,
                            {caused.answer.said == Said::kResult ? Kind::kResult : Kind::kWaiting, chunk, 0,
                             caused.answer.contributors, s.epoch}};
    if (caused.nack != 0)
      leaving[count++] = {caused.rank, {Kind::kNack, 0, s.workers[caused.rank].lag, caused.nack, s.epoch}};
    const auto deliver = [&](State next, std::size_t but) {
      for (std::size_t i = 0; i < count; ++i)
        if (i != but) take(next.workers[leaving[i].rank], leaving[i].rank, leaving[i].packet);
      return next;
    };
    emit(deliver(s, count), step);
    for (std::size_t i = 0; i < count; ++i) {
      if (!may_suffer(chunk)) break;
      if (s.losses != 0) {
        State next = deliver(s, i);
        --next.losses;
        emit(next, Step{leaving[i].packet.kind == Kind::kNack ? "NACK lost" : "answer lost", leaving[i].rank,
                        chunk, false});
      }
      if (s.late != 0 && s.workers[leaving[i].rank].late.kind == Kind::kNone) {
        State next = deliver(s, i);
        --next.late;
        next.workers[leaving[i].rank].late = leaving[i].packet;
        emit(next, Step{"answer delayed", leaving[i].rank, chunk, false});
      }
    }
    if (caused.answer.said == Said::kAskPeer && step.fair && caused.rank >= 0)
      ask_peers(deliver(s, count), caused.rank, caused.chunk, step, emit);
  }

  template <class Emit>
  void come_late(const State& s, int r, Emit& emit) const {
    const Late packet = s.workers[r].late;
    if (packet.kind == Kind::kNone) return;
    State next = s;
    next.workers[r].late = {};
    const Step step{"what was late comes", r, packet.chunk, false};
    if (packet.kind != Kind::kContribution) {
      take(next.workers[r], r, packet);
      return emit(next, step);
    }
    if (packet.epoch != s.epoch) return emit(next, step);
    arrive(next, r, packet.chunk, packet.age, step, emit);
  }

  Setting set_;
  Box box_;
};

}  // namespace tally::models

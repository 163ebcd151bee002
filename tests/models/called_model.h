#pragma once
// An asynchronous table with hot keys (docs/kv.md, Rounds that are called). A thread of each worker's library asks the clock,
// one of the servers, for each round, and says whether its program has pushed or closes; the clock calls the round when
// enough have pushed, or of age. Who hears of it takes part, with what its program has pushed by then or with nothing, as
// workers do in a round of all (hot_model.h), which is here one sum. A row is the set of pushes in it; its key is hot in
// some rounds. Messages between a worker and the clock arrive in their order, once.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "explorer.h"
#include "tally/check.h"

namespace tally::models {

struct CalledSetting {
  int workers = 3;  // at most 3
  int pushes = 2;   // of each worker, at most 2; worker 0 has one less
  int least = 2;
  bool age = true;   // rounds are called of age
  int hot_from = 1;  // the rounds in which the key is hot
  int cold_from = 3;
  int losses = 0;  // of workers
  // The rules.
  bool takes_part = true;      // who has nothing takes part all the same
  bool splits_late = true;     // a push is made hot and cold parts when its round is called, not before
  bool tells = true;           // a push that comes behind its worker's question is told
  bool answers_called = true;  // a question about a round that was called is answered at once
  bool knows_again = true;     // a second answer about a round calls nothing
  bool all_close = true;       // the table ends when all close, not when all who have asked do
  bool refuses = true;         // when a worker is lost, questions that wait are refused
};

class CalledModel {
 public:
  static constexpr int kWorkers = 3, kPushes = 2, kWaiting = 4, kRounds = 16;
  enum Phase : std::uint8_t { kIdle, kPushing, kClosing, kOver };
  enum Says : std::uint8_t { kNothing, kPushed, kCloses };
  static constexpr std::uint8_t kEnd = 255;

  struct Question {  // of `round` - 1, which 0 is none
    std::uint8_t round = 0;
    std::uint8_t says = kNothing;
    bool operator==(const Question&) const = default;
  };
  struct Member {
    std::uint8_t phase = kIdle;
    std::uint8_t lost = 0;
    std::uint8_t push = 0;    // the next, or the one under way
    std::uint8_t hot = 0;     // as which it was split
    std::uint8_t round = 0;   // that have ended for its library
    std::uint8_t asked = 0;   // about this round
    std::uint8_t in = 0;      // it has taken part in this round
    std::uint8_t brings = 0;  // with its push
    std::array<Question, kWaiting> questions{};
    std::array<std::uint8_t, kWaiting> answers{};  // 1 + round, or kEnd
    Bits row = 0;                                  // bit worker * kPushes + push
  };
  struct Sum {  // of a round; no two workers are more than one apart
    std::uint8_t round = 0;
    Bits contributors = 0;
    Bits pushes = 0;
  };
  struct State {
    std::array<Member, kWorkers> members{};
    std::array<Sum, 2> sums{};
    std::uint8_t called = 0;
    std::array<std::uint8_t, kWorkers> held{};  // questions about the round that is not called yet
    Bits pushed = 0, closing = 0;               // who said so in them
    Bits known_lost = 0;
    std::uint8_t losses = 0;
    std::uint8_t wrong = 0;
  };

  explicit CalledModel(const CalledSetting& setting) : set_(setting), workers_(all(setting.workers)) {
    TALLY_CHECK(set_.workers <= kWorkers && set_.pushes <= kPushes, "the model's state has room for it");
  }

  [[nodiscard]] State init() const {
    State s;
    s.losses = static_cast<std::uint8_t>(set_.losses);
    return s;
  }
  [[nodiscard]] const char* broken(const State& s) const {
    switch (s.wrong) {
      case 1:
        return "a push is applied twice";
      case 2:
        return "a push goes where its row is not";
      case 3:
        return "a push that returned is not in the rows";
      case 4:
        return "a table ends with a push to come";
      default:
        return nullptr;
    }
  }
  [[nodiscard]] bool reached(const State& s) const {
    return std::all_of(s.members.begin(), s.members.begin() + set_.workers,
                       [](const Member& m) { return m.phase == kOver || m.lost != 0; });
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    for (int w = 0; w < set_.workers; ++w) {
      const Member& m = s.members[w];
      if (m.lost != 0) {
        if (!has(s.known_lost, w)) hear_of_loss(s, w, emit);
        continue;
      }
      if (m.phase == kOver) continue;
      if (s.losses != 0) {
        State next = s;
        --next.losses;
        next.members[w].lost = 1;
        emit(next, Step{"is lost", w, -1, false});
      }
      if (m.phase == kIdle) act(s, w, emit);
      if (m.in == 0 && m.asked == 0 && m.round < kRounds) {
        State next = s;
        ask(next, w);
        emit(next, Step{"asks", w, m.round});
      }
      if (m.questions[0].round != 0) arrive(s, w, emit);
      if (m.answers[0] != 0) hear(s, w, emit);
      if (m.in != 0) finish(s, w, emit);
    }
    if (set_.age && s.pushed != 0) {
      State next = s;
      call(next);
      emit(next, Step{"a round is called of age", -1, s.called});
    }
  }

 private:
  [[nodiscard]] static Bits of(int w, int push) { return bit(w * kPushes + push); }
  [[nodiscard]] bool is_hot(int round) const { return round >= set_.hot_from && round < set_.cold_from; }

  template <class Queue>
  static void put(Queue& queue, const typename Queue::value_type& what) {
    const auto place = std::find(queue.begin(), queue.end(), typename Queue::value_type{});
    TALLY_CHECK(place != queue.end(), "the model's state has room for it");
    *place = what;
  }
  template <class Queue>
  static void take_first(Queue& queue) {
    std::rotate(queue.begin(), queue.begin() + 1, queue.end());
    queue.back() = {};
  }

  // The program pushes, or closes when it has nothing more.
  template <class Emit>
  void act(const State& s, int w, Emit& emit) const {
    State next = s;
    Member& m = next.members[w];
    m.phase = m.push + (w == 0 ? 1 : 0) < set_.pushes ? kPushing : kClosing;
    m.hot = is_hot(m.round) ? 1 : 0;
    if (m.in == 0 && m.asked != 0 && set_.tells) ask(next, w);
    emit(next, Step{m.phase == kPushing ? "pushes" : "closes", w, m.push});
  }

  static void ask(State& s, int w) {
    Member& m = s.members[w];
    m.asked = 1;
    const std::uint8_t says = m.phase == kPushing ? kPushed : m.phase == kClosing ? kCloses : kNothing;
    put(m.questions, Question{static_cast<std::uint8_t>(m.round + 1), says});
  }

  template <class Emit>
  void arrive(const State& s, int w, Emit& emit) const {
    State next = s;
    Member& m = next.members[w];
    const Question question = m.questions[0];
    take_first(m.questions);
    const int round = question.round - 1;
    if (s.known_lost != 0) {
      m.phase = kOver;  // by an error that names who is lost
    } else if (round < s.called) {
      if (set_.answers_called) answer(next, w, question.round);
    } else {
      ++next.held[w];
      if (question.says == kPushed) next.pushed |= bit(w);
      if (question.says == kCloses) next.closing |= bit(w);
      settle(next);
    }
    emit(next, Step{"its question arrives", w, round});
  }

  static void answer(State& s, int w, std::uint8_t what) { put(s.members[w].answers, what); }

  void settle(State& s) const {
    const int pushed = std::popcount(s.pushed);
    const Bits others = static_cast<Bits>(workers_ & ~s.pushed);
    if (pushed >= set_.least || (pushed != 0 && others == s.closing)) return call(s);
    Bits ask = workers_;
    if (!set_.all_close) {
      ask = 0;
      for (int w = 0; w < set_.workers; ++w) ask |= s.held[w] != 0 ? bit(w) : Bits{0};
    }
    if (ask == 0 || s.closing != ask) return;
    answer_held(s, kEnd);
  }

  void call(State& s) const {
    answer_held(s, static_cast<std::uint8_t>(s.called + 1));
    ++s.called;
  }

  void answer_held(State& s, std::uint8_t what) const {
    for (int w = 0; w < set_.workers; ++w)
      for (; s.held[w] != 0; --s.held[w]) answer(s, w, what);
    s.pushed = s.closing = 0;
  }

  template <class Emit>
  void hear(const State& s, int w, Emit& emit) const {
    State next = s;
    Member& m = next.members[w];
    const std::uint8_t what = m.answers[0];
    if (what == kEnd) {
      // Of anybody, for who closes is the first to hear it.
      const auto pushes = [](const Member& of) { return of.lost == 0 && of.phase < kClosing; };
      if (std::any_of(s.members.begin(), s.members.begin() + set_.workers, pushes)) next.wrong = 4;
      m.phase = kOver;
      m.answers = {};
      return emit(next, Step{"hears that all have closed", w});
    }
    if (m.in == 0 && (what == m.round + 1 || !set_.knows_again)) {
      if (!set_.takes_part && m.phase != kPushing) return;
      contribute(next, w);
    }
    take_first(m.answers);
    emit(next, Step{"hears that a round is called", w, what - 1});
  }

  void contribute(State& s, int w) const {
    Member& m = s.members[w];
    m.in = 1;
    Sum& sum = s.sums[m.round % 2];
    if (sum.contributors == 0 || sum.round != m.round) sum = {m.round, 0, 0};
    sum.contributors |= bit(w);
    m.brings = m.phase == kPushing ? 1 : 0;
    if (m.brings == 0) return;
    if (!set_.splits_late && m.hot != (is_hot(m.round) ? 1 : 0)) s.wrong = 2;
    sum.pushes |= of(w, m.push);
  }

  template <class Emit>
  void finish(const State& s, int w, Emit& emit) const {
    const Sum& sum = s.sums[s.members[w].round % 2];
    State next = s;
    Member& m = next.members[w];
    if (sum.contributors != workers_) {
      if (s.known_lost == 0) return;
      m.phase = kOver;
      return emit(next, Step{"its round fails", w, m.round});
    }
    if ((m.row & sum.pushes) != 0) next.wrong = 1;
    m.row |= sum.pushes;
    if (m.brings != 0) {
      if ((m.row & of(w, m.push)) == 0) next.wrong = 3;
      ++m.push;
      m.phase = kIdle;
    }
    ++m.round;
    m.in = m.brings = m.asked = 0;
    emit(next, Step{"has the sum of its round", w, m.round - 1});
  }

  template <class Emit>
  void hear_of_loss(const State& s, int w, Emit& emit) const {
    State next = s;
    next.known_lost |= bit(w);
    for (int p = 0; p < set_.workers && set_.refuses; ++p) {
      if (s.held[p] == 0) continue;
      next.held[p] = 0;
      if (next.members[p].lost == 0) next.members[p].phase = kOver;
    }
    next.pushed = next.closing = 0;
    emit(next, Step{"its loss is known", w});
  }

  CalledSetting set_;
  Bits workers_;
};

}  // namespace tally::models

#pragma once
// A key that becomes hot and cold again (docs/hot_keys.md) while ranks are rounds apart, results come late, old
// messages come again and ranks restart. While it is cold its row is at its server, which adds what all ranks push
// in a round; while it is hot each rank has the row and adds what the box summed. A row is the set of contributions
// in it. The agreed sets are given: set 1 has the key, set 2 has not; a new generation begins without.
//
// Left out: late copies of pushes, which a server knows by rank and round.

#include <algorithm>
#include <array>
#include <cstdint>

#include "explorer.h"
#include "tally/check.h"

namespace tally::models {

struct HotSetting {
  int ranks = 2;        // at most 3
  int rounds = 4;       // at most 4
  int hot_from = 1;     // the first round of set 1, at least 1
  int cold_from = 3;    // the first round of set 2
  int restarts = 0;     // of ranks, at most 2
  bool copies = false;  // old messages to the server may come again
  // The rules.
  bool waits = true;         // no round begins before the set of that round is known
  bool stamped = true;       // a sum of contributions under different sets is an error
  bool whole_rounds = true;  // a round ends for a rank when the server has what all pushed in it
  bool rows_first = true;    // a rank contributes under a set when it has the set's rows
  bool numbered = true;      // a server forgets what is older than its row's last move
  bool tells_rounds = true;  // a row that comes back says how many rounds are in it
  bool releases = true;      // a rank that never had the row says so after a restart
};

class HotModel {
 public:
  static constexpr int kRanks = 3, kRounds = 4, kMoves = 5;
  using Row = std::uint16_t;  // bit round * kRanks + rank

  struct Member {
    Row row = 0;  // while it has one: holds
    std::uint8_t holds = 0;
    std::uint8_t round = 0;
    std::uint8_t used = 0;   // 1 + the set it uses in this round; 0: not begun
    std::uint8_t known = 0;  // the newest set
    std::uint8_t given = 0;  // 1: to the sum of the box, 2: to the server
    std::uint8_t fresh = 0;  // it does not know what it had before
  };
  struct Sum {  // of a round, in the box
    Bits contributors = 0;
    Bits hot = 0;    // whose contribution has the key
    Bits first = 0;  // contributors under set 0, 1, 2
    Bits second = 0;
    Bits third = 0;
  };
  // The move of a row is numbered by set, and by generation behind the sets.
  struct Back {
    Row row = 0;
    std::uint8_t rounds = 0;
    std::uint8_t sent = 0;
  };
  struct State {
    std::array<Member, kRanks> members{};
    std::array<Sum, kRounds> sums{};
    std::array<Back, kMoves> backs{};  // rows that were brought back
    std::array<Bits, kRounds> pushed{};
    Row row = 0;              // the server's
    std::uint8_t away = 0;    // the row is at the ranks
    std::uint8_t move = 0;    // its last
    std::uint8_t rounds = 0;  // that are in it
    std::uint8_t generation = 0;
    std::array<Bits, 2> agreeing{};  // who has given its counts for set 1, 2
    std::uint8_t fetched = 0;        // somebody asked for the row under set 1
    std::uint8_t restarts = 0;
    std::uint8_t wrong = 0;   // 1: counted twice, 2: lost
    std::uint8_t failed = 0;  // 1: an error says two sets, 2: ... that rows are lost
  };

  explicit HotModel(const HotSetting& setting) : set_(setting), ranks_(all(setting.ranks)) {
    TALLY_CHECK(set_.ranks <= kRanks && set_.rounds <= kRounds && set_.restarts < kMoves - 2,
                "the model's state has room for it");
  }

  [[nodiscard]] State init() const {
    State s;
    s.restarts = static_cast<std::uint8_t>(set_.restarts);
    return s;
  }
  [[nodiscard]] const char* broken(const State& s) const {
    if (s.wrong == 1) return "a contribution is counted twice";
    if (s.wrong == 2) return "a contribution is lost";
    if (s.failed == 1 && set_.waits) return "two sets in a round";
    if (s.failed == 2 && set_.restarts < 2) return "no rank has the row, and the server neither";
    return nullptr;
  }
  // An error that names what happened is an end too.
  [[nodiscard]] bool reached(const State& s) const {
    return s.failed != 0 || std::all_of(s.members.begin(), s.members.begin() + set_.ranks,
                                        [&](const Member& m) { return m.round == set_.rounds; });
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    if (s.failed != 0) return;
    for (int r = 0; r < set_.ranks; ++r) {
      const Member& m = s.members[r];
      if (s.restarts != 0) restart(s, r, emit);
      if (s.generation != 0 && s.away != 0) settle(s, r, emit);
      if (s.generation == 0 && m.known < 2 && s.agreeing[m.known] == ranks_) {
        State next = s;
        ++next.members[r].known;
        emit(next, Step{"learns the next set", r});
      }
      if (m.round == set_.rounds) continue;
      if (m.used == 0) {
        begin(s, r, emit);
        continue;
      }
      if (is_hot(s, m) && m.holds == 0 && (!set_.rows_first || m.given == 0)) fetch(s, r, emit);
      if ((m.given & kSum) == 0) contribute(s, r, emit);
      if ((m.given & kPush) == 0 && !is_hot(s, m)) push(s, r, emit);
      finish(s, r, emit);
    }
    if (set_.copies) come_again(s, emit);
  }

 private:
  static constexpr std::uint8_t kSum = 1, kPush = 2;

  [[nodiscard]] int set_of(const State& s, int round) const {
    if (s.generation != 0 || round < set_.hot_from) return 0;
    return round < set_.cold_from ? 1 : 2;
  }
  [[nodiscard]] static bool is_hot(const State& s, const Member& m) {
    return s.generation == 0 && m.used == 2;
  }
  [[nodiscard]] static int move_of(const State& s, const Member& m) {
    return s.generation != 0 ? 2 + s.generation : m.used - 1;
  }
  static Row parts(int round, Bits who) { return static_cast<Row>(who << (round * kRanks)); }
  [[nodiscard]] Row parts_before(int round) const {
    Row row = 0;
    for (int n = 0; n < round; ++n) row |= parts(n, ranks_);
    return row;
  }

  template <class Emit>
  void begin(const State& s, int r, Emit& emit) const {
    State next = s;
    Member& m = next.members[r];
    const int wanted = set_of(s, m.round);
    for (int a = 0; a < 2 && s.generation == 0; ++a)
      if (m.round + 1 >= (a == 0 ? set_.hot_from : set_.cold_from)) next.agreeing[a] |= bit(r);
    if (set_.waits && s.generation == 0 && m.known < wanted) {
      if (next.agreeing != s.agreeing) emit(next, Step{"gives its counts", r, m.round});
      return;
    }
    m.used = static_cast<std::uint8_t>(1 + std::min<int>(wanted, s.generation != 0 ? wanted : m.known));
    emit(next, Step{"begins a round", r, m.round});
  }

  static void take_away(State& s, bool numbered) {
    s.fetched = 1;
    if (s.move >= 1 && numbered) return;
    s.move = 1;
    s.away = 1;
  }
  template <class Emit>
  void fetch(const State& s, int r, Emit& emit) const {
    const int round = s.members[r].round;
    State next = s;
    take_away(next, set_.numbered);
    next.members[r].row = s.row;
    next.members[r].holds = 1;
    emit(next, Step{"fetches the row", r, round});
  }

  void take_back(State& s, int move, Row row, int rounds) const {
    if (s.away == 0 || (set_.numbered && s.move >= move)) return;
    s.away = 0;
    s.move = static_cast<std::uint8_t>(move);
    s.row = row;
    if (set_.tells_rounds) s.rounds = static_cast<std::uint8_t>(rounds);
  }
  template <class Emit>
  void bring(const State& s, int r, const Step& step, Emit& emit) const {
    State next = s;
    const Member& m = s.members[r];
    const int move = move_of(s, m);
    next.backs[move] = {m.row, m.round, 1};
    take_back(next, move, m.row, m.round);
    emit(next, step);
  }
  // After a restart, if the row is not at its server.
  template <class Emit>
  void settle(const State& s, int r, Emit& emit) const {
    const Member& m = s.members[r];
    if (m.holds != 0) return bring(s, r, {"brings the row back", r, m.round}, emit);
    if (m.fresh != 0 || !set_.releases) return;
    State next = s;
    next.away = 0;
    next.move = static_cast<std::uint8_t>(2 + s.generation);
    emit(next, Step{"never had the row", r, m.round});
  }

  template <class Emit>
  void contribute(const State& s, int r, Emit& emit) const {
    const Member& m = s.members[r];
    if (is_hot(s, m) && set_.rows_first && m.holds == 0) return;
    State next = s;
    next.members[r].given |= kSum;
    Sum& sum = next.sums[m.round];
    sum.contributors |= bit(r);
    (m.used == 1 ? sum.first : m.used == 2 ? sum.second : sum.third) |= bit(r);
    if (is_hot(s, m)) sum.hot |= bit(r);
    emit(next, Step{"contributes", r, m.round});
  }

  template <class Emit>
  void push(const State& s, int r, Emit& emit) const {
    const Member& m = s.members[r];
    const int n = m.round;
    if (s.away != 0 && s.rounds <= n) {
      if (m.holds != 0 && s.generation == 0) bring(s, r, {"brings the row back", r, n}, emit);
      return;
    }
    State next = s;
    next.members[r].given |= kPush;
    next.pushed[n] |= bit(r);
    while (next.rounds < set_.rounds && next.pushed[next.rounds] == ranks_) {
      add(next, next.row, parts(next.rounds, ranks_));
      ++next.rounds;
    }
    emit(next, Step{"pushes", r, n});
  }

  static void add(State& s, Row& row, Row what) {
    if ((row & what) != 0) s.wrong = 1;
    row |= what;
  }

  template <class Emit>
  void finish(const State& s, int r, Emit& emit) const {
    const Member& m = s.members[r];
    const Sum& sum = s.sums[m.round];
    if (sum.contributors != ranks_) return;
    State next = s;
    const bool one_set = sum.first == ranks_ || sum.second == ranks_ || sum.third == ranks_;
    if (set_.stamped && !one_set) {
      next.failed = 1;
      emit(next, Step{"error: two sets", r, m.round});
      return;
    }
    Member& after = next.members[r];
    if (is_hot(s, m)) {
      if (m.holds == 0) return;
      add(next, after.row, parts(m.round, sum.hot));
    } else {
      if ((m.given & kPush) == 0 || (set_.whole_rounds && s.rounds <= m.round)) return;
      after.holds = 0;
      after.row = 0;
    }
    const Row has = is_hot(s, m) ? after.row : s.row;
    const int whole = is_hot(s, m) || set_.whole_rounds ? m.round + 1 : s.rounds;
    if ((has & parts_before(whole)) != parts_before(whole)) next.wrong = 2;
    ++after.round;
    after.used = 0;
    after.given = 0;
    emit(next, Step{"has its result", r, m.round});
  }

  // All begin a generation, with the round after the last that one of the others finished.
  template <class Emit>
  void restart(const State& s, int r, Emit& emit) const {
    State next = s;
    --next.restarts;
    ++next.generation;
    next.sums = {};
    next.agreeing = {};
    next.members[r] = {};
    next.members[r].fresh = 1;
    int round = 0;
    for (int p = 0; p < set_.ranks; ++p)
      if (p != r) round = std::max<int>(round, s.members[p].round);
    bool settled = s.away == 0;
    for (int p = 0; p < set_.ranks; ++p) {
      Member& m = next.members[p];
      if (m.round < round && m.holds != 0) {  // its row is older than somebody's
        m.holds = 0;
        m.row = 0;
        m.fresh = 1;
      }
      m.round = static_cast<std::uint8_t>(round);
      m.used = 0;
      m.known = 0;
      m.given = 0;
      settled = settled || m.holds != 0 || m.fresh == 0;
    }
    if (!settled) next.failed = 2;
    emit(next, Step{settled ? "restarts" : "restarts: the row is lost", r, round, false});
  }

  template <class Emit>
  void come_again(const State& s, Emit& emit) const {
    if (s.fetched != 0) {
      State next = s;
      take_away(next, set_.numbered);
      emit(next, Step{"an old fetch comes again", -1, -1, false});
    }
    for (int move = 0; move < kMoves; ++move) {
      if (s.backs[move].sent == 0) continue;
      State next = s;
      take_back(next, move, s.backs[move].row, s.backs[move].rounds);
      emit(next, Step{"an old row comes again", -1, move, false});
    }
  }

  HotSetting set_;
  Bits ranks_;
};

}  // namespace tally::models

#pragma once
// A job that does not wait for stragglers (docs/protocol.md, 11.8), with a window of one chunk: its members,
// its two entries, and RESULTs that are lost or come at any later time, as copies of contributions do. Time
// is left out: an entry that fills may run out of it at any moment.

#include <algorithm>
#include <array>
#include <cstdint>

#include "explorer.h"
#include "tally/check.h"

namespace tally::models {

struct StragglerSetting {
  int ranks = 3;     // at most 3
  int chunks = 2;    // at most 4
  int restarts = 0;  // of the box, which forgets its entries
  bool old_joins =
      false;  // it forgets its members too, and old copies of their JOINs may come before new ones
  // The rules.
  bool ordered = true;       // no chunk takes the entry of a newer one, complete or not
  bool fence = true;         // before the largest `next` of all JOINs nothing is INCOMPLETE
  bool all_entered = true;   // ... nor before each rank has shown that it is in the epoch
  bool drops_old = true;     // members drop RESULTs of an epoch that is over
  bool fails_behind = true;  // who needs what all who had it have forgotten fails, and with it the job
};

class StragglerModel {
 public:
  static constexpr int kRanks = 3, kChunks = 4, kEpochs = 4, kEntries = 2;

  struct Entry {
    std::uint8_t next = 0;  // chunk + 1; 0: free
    Bits contributors = 0;
    std::uint8_t complete = 0;
  };
  struct Member {
    std::array<Bits, kChunks> results{};  // the ranks in each; 0: it has none
    Bits brought = 0;                     // chunks whose results it had when it entered the epoch
    Bits sent = 0;                        // chunks
    std::uint8_t epoch = 0;
    std::uint8_t failed = 0;
  };
  struct State {
    std::array<Entry, kEntries> entries{};
    std::array<Member, kRanks> members{};
    // RESULTs that were ever sent, of each epoch and chunk: bit b for the sum of the ranks b.
    std::array<std::array<Bits, kChunks>, kEpochs> results{};
    std::uint8_t epoch = 0;
    Bits joined = 0;  // ranks of whom there is a JOIN in this epoch, if only an old one
    std::uint8_t fence = 0;
    std::uint8_t restarts = 0;
  };

  explicit StragglerModel(const StragglerSetting& setting) : set_(setting), ranks_(all(setting.ranks)) {
    TALLY_CHECK(set_.ranks <= kRanks && set_.chunks <= kChunks, "the model's state has room for it");
  }

  [[nodiscard]] State init() const {
    State s;
    s.joined = ranks_;
    s.restarts = static_cast<std::uint8_t>(set_.restarts);
    return s;
  }
  [[nodiscard]] const char* broken(const State& s) const {
    for (int c = 0; c < set_.chunks; ++c) {
      Bits sum = 0;
      for (const Member& m : s.members) {
        if (sum != 0 && m.results[c] != 0 && m.results[c] != sum) return "two sums of a chunk";
        if (m.results[c] != 0) sum = m.results[c];
      }
    }
    return nullptr;
  }
  [[nodiscard]] bool reached(const State& s) const {
    return std::all_of(s.members.begin(), s.members.begin() + set_.ranks,
                       [&](const Member& m) { return m.failed != 0 || lowest(m) == set_.chunks; });
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    const bool aborted =
        std::any_of(s.members.begin(), s.members.end(), [](const Member& m) { return m.failed != 0; });
    for (int r = 0; r < set_.ranks; ++r) {
      const Member& m = s.members[r];
      if (m.failed != 0) continue;
      if (aborted) fail(s, r, "hears of the ABORT", emit);
      if (m.epoch != s.epoch) {
        join(s, r, emit);
      } else {
        contribute(s, r, emit);
        if (lowest(m) < set_.chunks) ask(s, r, lowest(m), emit);
      }
      come_late(s, r, emit);
    }
    for (int at = 0; at < kEntries; ++at)
      if (is_due(s, s.entries[at])) finish(s, at, {"INCOMPLETE", -1, s.entries[at].next - 1}, emit);
    if (s.restarts != 0) {
      State next = s;
      --next.restarts;
      begin_epoch(next);
      emit(next, Step{"the box restarts", -1, -1, false});
    }
  }

 private:
  static constexpr int kHistory =
      1;  // results that a member keeps of those below its lowest unfinished chunk

  [[nodiscard]] int lowest(const Member& m) const {
    int c = 0;
    while (c < set_.chunks && m.results[c] != 0) ++c;
    return c;
  }

  static void begin_epoch(State& s) {
    TALLY_CHECK(s.epoch + 1 < kEpochs, "the model's state has room for it");
    s.entries = {};
    ++s.epoch;
    s.joined = 0;
    s.fence = 0;
  }
  static void enlist(State& s, int r, int next_chunk) {
    s.joined |= bit(r);
    s.fence = std::max(s.fence, static_cast<std::uint8_t>(next_chunk));
  }

  template <class Emit>
  void join(const State& s, int r, Emit& emit) const {
    const Member& m = s.members[r];
    int next_chunk = 0;
    Bits brought = 0;
    for (int c = 0; c < set_.chunks; ++c) {
      if (m.results[c] != 0) brought |= bit(c);
      if (has(brought | m.sent, c)) next_chunk = c + 1;
    }
    State next = s;
    // Somebody else's copy of its JOIN said less: what the fence now is may be wrong.
    const bool begins = s.joined == ranks_ && next_chunk > s.fence;
    if (begins) begin_epoch(next);
    enlist(next, r, next_chunk);
    next.members[r].brought = brought;
    next.members[r].epoch = next.epoch;
    emit(next, Step{begins ? "joins from beyond the fence: a new epoch" : "joins", r, next_chunk});
    if (!set_.old_joins || has(s.joined, r)) return;
    for (int old = 0; old <= next_chunk; ++old) {
      State copied = s;
      enlist(copied, r, old);
      emit(copied, Step{"an old JOIN takes its place", r, old, false});
    }
  }

  // Its lowest unfinished chunk, and copies of what it sent for those before.
  template <class Emit>
  void contribute(const State& s, int r, Emit& emit) const {
    const Member& m = s.members[r];
    const int last = std::min(lowest(m), set_.chunks - 1);
    for (int c = 0; c <= last; ++c) {
      if (m.results[c] == 0)
        arrive(s, {"contributes", r, c}, emit);
      else if (has(m.sent, c) && !has(m.brought, c))
        arrive(s, {"replay", r, c, false}, emit);
    }
  }

  template <class Emit>
  void arrive(const State& s, const Step& step, Emit& emit) const {
    State next = s;
    Member& m = next.members[step.rank];
    m.sent |= bit(step.chunk);
    const int at = step.chunk % kEntries;
    Entry& e = next.entries[at];
    if (e.next == step.chunk + 1 && e.complete != 0) {  // Repeat
      next.results[s.epoch][step.chunk] |= bit(e.contributors);
      if (m.results[step.chunk] == 0) m.results[step.chunk] = e.contributors;
      return emit(next, step);
    }
    if (e.next > step.chunk + 1 && (set_.ordered || e.complete == 0)) return emit(next, step);  // Drop(stale)
    if (e.next != step.chunk + 1) e = {static_cast<std::uint8_t>(step.chunk + 1), 0, 0};
    const bool duplicate = has(e.contributors, step.rank);
    e.contributors |= bit(step.rank);
    if (duplicate || e.contributors != ranks_) return emit(next, step);
    finish(next, at, step, emit);
  }

  // May the entry's result be INCOMPLETE now?
  [[nodiscard]] bool is_due(const State& s, const Entry& e) const {
    if (e.next == 0 || e.complete != 0) return false;
    if (!set_.fence) return true;
    const bool entered = std::all_of(s.members.begin(), s.members.begin() + set_.ranks,
                                     [&](const Member& m) { return m.epoch == s.epoch; });
    return s.joined == ranks_ && e.next > s.fence && (entered || !set_.all_entered);
  }

  template <class Emit>
  void finish(State next, int at, const Step& step, Emit& emit) const {
    Entry& e = next.entries[at];
    const int c = e.next - 1;
    e.complete = 1;
    next.results[next.epoch][c] |= bit(e.contributors);
    emit(next, Step{"RESULT lost or late", -1, c, false});
    for (int r = 0; r < set_.ranks; ++r) {
      Member& m = next.members[r];
      if (m.epoch == next.epoch && m.failed == 0 && m.results[c] == 0) m.results[c] = e.contributors;
    }
    emit(next, step);
  }

  template <class Emit>
  void ask(const State& s, int r, int c, Emit& emit) const {
    bool answered = false;
    bool forgotten = false;
    for (int p = 0; p < set_.ranks; ++p) {
      const Member& peer = s.members[p];
      if (p == r || peer.epoch != s.epoch || peer.failed != 0 || peer.results[c] == 0) continue;
      if (c < lowest(peer) - kHistory) {
        forgotten = true;
        continue;
      }
      answered = true;
      State next = s;
      next.members[r].results[c] = peer.results[c];
      next.results[s.epoch][c] |= bit(peer.results[c]);
      emit(next, Step{"asks a peer", r, c});
    }
    if (set_.fails_behind && forgotten && !answered) fail(s, r, "has fallen behind", emit);
  }

  template <class Emit>
  void fail(const State& s, int r, const char* why, Emit& emit) const {
    State next = s;
    next.members[r].failed = 1;
    emit(next, Step{why, r});
  }

  template <class Emit>
  void come_late(const State& s, int r, Emit& emit) const {
    const Member& m = s.members[r];
    for (int epoch = set_.drops_old ? m.epoch : 0; epoch <= m.epoch; ++epoch)
      for (int c = 0; c < set_.chunks; ++c)
        for (int sum = 1; sum <= ranks_; ++sum) {
          if (m.results[c] != 0 || !has(s.results[epoch][c], sum)) continue;
          State next = s;
          next.members[r].results[c] = static_cast<Bits>(sum);
          emit(next, Step{"a late RESULT comes", r, c, false});
        }
  }

  StragglerSetting set_;
  Bits ranks_;
};

}  // namespace tally::models

#pragma once
// Zero runs (docs/protocol_sparse.md): one packet that stands for the zeros of several chunks, and one RESULT for
// several sums that are zero; over the entries of a pool job, which its other contributions take one by one. RESULTs
// and copies of contributions may come at any later time of the epoch, whatever the box remembers of sequences. Keys
// and values are counted apart: the keys are sum1's part that even zeros have. Each contribution has an exponent, also
// of zeros, and a sum the greatest of them.
//
// Of what was sent the chunks are kept, not the packets: whatever a copy of a run does, copies of its contributions
// do one after the other.

#include <algorithm>
#include <array>
#include <cstdint>

#include "explorer.h"
#include "tally/check.h"

namespace tally::models {

struct SparseSetting {
  int ranks = 2;   // at most 3
  int chunks = 4;  // at most 5
  int window = 2;  // at most 2
  int restarts = 0;
  std::array<Bits, 5> values{};             // of each chunk, the ranks that have some; the others' are zeros
  std::array<std::uint8_t, 5> exponents{};  // of each chunk, two bits for each rank
  // The rules.
  bool clears = true;     // a zero that is the first of its chunk makes the entry's memory 0
  bool zero_sums = true;  // a RESULT run names only sums of nothing but zeros; else all that a run finished
  bool within = true;     // runs stay in their sender's window
  bool single_repair =
      true;  // what is sent again is sent alone; else a run goes again as it was, and nobody asks
  bool own_exponents = true;  // each chunk of a run has its own; else that of the run's first
  bool told_exponents =
      true;  // a RESULT run has those of what it names; else of what the run named, in order
};

class SparseModel {
 public:
  static constexpr int kRanks = 3, kChunks = 5, kEntries = 4;

  struct Entry {
    std::uint8_t next = 0;  // chunk + 1; 0: free
    Bits contributors = 0;
    std::uint8_t value = 0;    // how often each rank's values are in its memory, two bits for each
    std::uint8_t keys = 0;     // likewise its key in sum1
    std::uint8_t nonzero = 0;  // somebody brought values; else the RESULT is a header
    std::uint8_t exponent = 0;
  };
  struct Member {
    Bits has = 0;   // results
    Bits sent = 0;  // in this epoch
    std::uint8_t epoch = 0;
  };
  struct State {
    std::array<Entry, kEntries> entries{};
    std::array<Member, kRanks> members{};
    std::uint8_t high = 0;  // chunk + 1; 0: none
    std::uint8_t epoch = 0;
    Bits told = 0;  // chunks of which a RESULT was sent in this epoch
    std::uint8_t wrong = 0;
    std::uint8_t restarts = 0;
  };

  explicit SparseModel(const SparseSetting& setting) : set_(setting), ranks_(all(setting.ranks)) {
    TALLY_CHECK(set_.ranks <= kRanks && set_.chunks <= kChunks && 2 * set_.window <= kEntries,
                "the model's state has room for it");
  }

  [[nodiscard]] State init() const {
    State s;
    s.restarts = static_cast<std::uint8_t>(set_.restarts);
    return s;
  }
  [[nodiscard]] const char* broken(const State& s) const {
    if (s.wrong == kTwice) return "a sum that does not hold each contribution once";
    if (s.wrong == kExponent) return "a sum that has not the greatest exponent of its contributions";
    return s.wrong == kNotZero ? "a sum is said to be zero, and is not" : nullptr;
  }
  [[nodiscard]] bool reached(const State& s) const {
    return std::all_of(s.members.begin(), s.members.begin() + set_.ranks,
                       [&](const Member& m) { return m.has == all(set_.chunks); });
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    for (int r = 0; r < set_.ranks; ++r) {
      const Member& m = s.members[r];
      if (m.epoch != s.epoch) {
        State next = s;
        next.members[r].epoch = s.epoch;
        next.members[r].sent = 0;
        emit(next, Step{"learns the epoch", r});
        continue;
      }
      for (Bits run = 1; run <= all(set_.chunks); ++run)
        if ((run & ~first_of(m, r)) == 0) send(s, r, run, "sends a run", emit);
      for (int c = 0; c < set_.chunks; ++c) one_by_one(s, r, c, emit);
    }
    if (s.restarts == 0) return;
    State next = s;
    next.entries = {};
    next.high = 0;
    next.told = 0;
    ++next.epoch;
    --next.restarts;
    emit(next, Step{"the box restarts", -1, -1, false});
  }

 private:
  enum Wrong : std::uint8_t { kNone, kTwice, kNotZero, kExponent };

  static std::uint8_t once(Bits ranks) {
    std::uint8_t value = 0;
    for (int r = 0; r < kRanks; ++r) value |= static_cast<std::uint8_t>((ranks >> r & 1U) << 2 * r);
    return value;
  }
  [[nodiscard]] std::uint8_t exponent_of(int r, int c) const { return set_.exponents[c] >> 2 * r & 3; }
  [[nodiscard]] std::uint8_t greatest_of(int c) const {
    std::uint8_t greatest = 0;
    for (int r = 0; r < set_.ranks; ++r) greatest = std::max(greatest, exponent_of(r, c));
    return greatest;
  }
  [[nodiscard]] int end_of(const Member& m) const {
    int lowest = 0;
    while (lowest < set_.chunks && has(m.has, lowest)) ++lowest;
    return std::min(set_.chunks, lowest + set_.window);
  }
  // What a run may name: zeros that were not sent in this epoch.
  [[nodiscard]] Bits first_of(const Member& m, int r) const {
    Bits chunks = 0;
    for (int c = 0; c < (set_.within ? end_of(m) : set_.chunks); ++c)
      if (!has(m.has | m.sent, c) && !has(set_.values[c], r)) chunks |= bit(c);
    return chunks;
  }

  // What concerns one chunk of one member: a contribution, a question, what comes late.
  template <class Emit>
  void one_by_one(const State& s, int r, int c, Emit& emit) const {
    const Member& m = s.members[r];
    const bool sent = has(m.sent, c);
    if (has(m.has, c)) {
      if (sent) arrive(s, r, bit(c), /*alone=*/true, {"a copy comes", r, c, false}, emit);
      return;
    }
    if (has(s.told, c) && sent) {
      State next = s;
      next.members[r].has |= bit(c);
      emit(next, Step{"a late RESULT comes", r, c, false});
    }
    if (sent && !has(set_.values[c], r))
      arrive(s, r, bit(c), false, {"a run's copy comes", r, c, !set_.single_repair}, emit);
    if (c >= end_of(m) || (sent && !set_.single_repair)) return;
    send(s, r, bit(c), sent ? "contributes again" : "contributes", emit, /*alone=*/true);
    if (!sent) return;
    for (const Entry& e : s.entries)
      if (e.next == c + 1 && e.contributors == ranks_) tell(s, r, {"asks the box", r, c}, emit);
    for (int p = 0; p < set_.ranks; ++p)
      if (s.members[p].epoch == s.epoch && has(s.members[p].has, c)) tell(s, r, {"asks a peer", r, c}, emit);
  }
  template <class Emit>
  static void tell(const State& s, int r, const Step& step, Emit& emit) {
    State next = s;
    next.members[r].has |= bit(step.chunk);
    emit(next, step);
  }

  template <class Emit>
  void send(const State& s, int r, Bits chunks, const char* what, Emit& emit, bool alone = false) const {
    int chunk = 0;
    while (!has(chunks, chunk)) ++chunk;
    State next = s;
    next.members[r].sent |= chunks;
    emit(next, Step{"lost", r, chunk, false});
    arrive(next, r, chunks, alone, {what, r, chunk}, emit);
  }

  // A run, or a contribution that comes alone, at the box: chunk by chunk, then what is told.
  template <class Emit>
  void arrive(State s, int r, Bits chunks, bool alone, const Step& step, Emit& emit) const {
    Bits finished = 0;
    Bits run = 0;  // told by one packet
    Bits repeated = 0;
    int first = 0;
    while (!has(chunks, first)) ++first;
    int named = first;  // by the run, in the place that the next one has in a RESULT run
    for (int c = 0; c < set_.chunks; ++c) {
      if (!has(chunks, c)) continue;
      bool repeats = false;
      const Entry* const e = contribute(s, r, c, exponent_of(r, set_.own_exponents ? c : first), repeats);
      if (repeats && alone) repeated |= bit(c);
      if (e == nullptr) continue;
      finished |= bit(c);
      if (!alone && (e->nonzero == 0 || !set_.zero_sums)) run |= bit(c);
      if (!has(run, c)) continue;
      if (set_.values[c] != 0) s.wrong = kNotZero;
      if (!set_.told_exponents && greatest_of(named) != e->exponent) s.wrong = kExponent;
      do ++named;
      while (named < set_.chunks && !has(chunks, named));
    }
    s.told |= finished;
    const auto take = [](Member& m, Bits results) { m.has |= static_cast<Bits>(results & m.sent); };
    // Lost for everybody: all of them, the run, or the others. Each for itself comes late.
    if (finished != 0) emit(s, Step{"RESULT lost or late", -1, step.chunk, false});
    State next = s;
    for (int m = 0; m < set_.ranks; ++m)
      if (next.members[m].epoch == s.epoch) take(next.members[m], finished);
    take(next.members[r], repeated);
    emit(next, step);
  }

  // The entry, if the contribution has finished it.
  const Entry* contribute(State& s, int r, int c, std::uint8_t exponent, bool& repeats) const {
    const int ahead = c + 1 - s.high;
    if (s.high != 0 && (ahead <= -2 * set_.window || ahead >= 2 * set_.window)) return nullptr;
    Entry& e = s.entries[c % (2 * set_.window)];
    const bool zero = !has(set_.values[c], r);
    if (e.next == c + 1) {
      repeats = has(e.contributors, r) && e.contributors == ranks_;
      if (has(e.contributors, r)) return nullptr;
    } else {
      if (e.next > c + 1) return nullptr;  // Drop(stale)
      e = {static_cast<std::uint8_t>(c + 1), 0, set_.clears || !zero ? std::uint8_t{0} : e.value, 0, 0, 0};
    }
    s.high = std::max(s.high, static_cast<std::uint8_t>(c + 1));
    e.contributors |= bit(r);
    e.keys = static_cast<std::uint8_t>(e.keys + once(bit(r)));
    if (!zero) e.value = static_cast<std::uint8_t>(e.value + once(bit(r)));
    if (!zero) e.nonzero = 1;
    e.exponent = std::max(e.exponent, exponent);
    if (e.contributors != ranks_) return nullptr;
    const std::uint8_t value = e.nonzero != 0 ? e.value : std::uint8_t{0};
    if (value != once(set_.values[c]) || e.keys != once(ranks_)) s.wrong = kTwice;
    if (e.exponent != greatest_of(c)) s.wrong = kExponent;
    return &e;
  }

  SparseSetting set_;
  Bits ranks_;
};

}  // namespace tally::models

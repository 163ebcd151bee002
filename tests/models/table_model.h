#pragma once
// The embedded server's bounded table of partial sums (dataplane/server/merge_table.h), one for each core,
// and several jobs whose every contribution comes to it: no slot is free. Complete sums are not kept. Chunk c
// is of core c mod cores. Each job has two ranks; rank 0 begins a chunk only when it has the one before.
//
// That the right state ages first is luck. So progress may rest on it only where the state is an orphan: of a
// chunk whose result somebody has.

#include <algorithm>
#include <array>
#include <cstdint>

#include "explorer.h"
#include "tally/check.h"

namespace tally::models {

struct TableSetting {
  int jobs = 2;               // at most 3
  int cores = 2;              // at most 2
  int states = 2;             // of a table; at most 3
  int chunks = 3;             // at most 5
  int window = 2;             // of rank 1
  bool lost_for_one = false;  // RESULTs may reach one rank alone; else both or none
  // The rules, of who gives way where a table is full.
  bool one_each = true;   // to a job that has no state one of a job that has several
  bool any_later = true;  // to a chunk any later one of its job; else only if that has waited longest of all
};

class TableModel {
 public:
  static constexpr int kJobs = 3, kRanks = 2, kCores = 2, kStates = 3, kChunks = 5;

  struct Partial {
    std::uint8_t job = 0;
    std::uint8_t chunk = 0;
    Bits contributors = 0;  // 0: free
  };
  using Table = std::array<Partial, kStates>;  // who has waited longest comes first
  struct State {
    std::array<Table, kCores> tables{};
    std::array<std::array<Bits, kChunks>, kJobs> results{};  // ranks that have it
  };

  explicit TableModel(const TableSetting& setting) : set_(setting) {
    TALLY_CHECK(
        set_.jobs <= kJobs && set_.cores <= kCores && set_.states <= kStates && set_.chunks <= kChunks,
        "the model's state has room for it");
  }

  [[nodiscard]] State init() const { return {}; }
  [[nodiscard]] const char* broken(const State&) const { return nullptr; }
  [[nodiscard]] bool reached(const State& s) const {
    for (int job = 0; job < set_.jobs; ++job)
      for (int c = 0; c < set_.chunks; ++c)
        if (s.results[job][c] != all(kRanks)) return false;
    return true;
  }

  template <class Emit>
  void successors(const State& s, Emit emit) const {
    for (int job = 0; job < set_.jobs; ++job)
      for (int r = 0; r < kRanks; ++r) work(s, job, r, emit);
    for (int core = 0; core < set_.cores; ++core)
      for (int i = 0; i < set_.states; ++i) {
        const Partial& p = s.tables[core][i];
        if (p.contributors == 0) continue;
        State next = s;
        drop(next.tables[core], i);
        emit(next, Step{"a state of its job ages", p.job * kRanks, p.chunk, s.results[p.job][p.chunk] != 0});
      }
  }

 private:
  // In a Step the ranks of all jobs are counted through.
  template <class Emit>
  void work(const State& s, int job, int r, Emit& emit) const {
    int lowest = 0;
    while (lowest < set_.chunks && has(s.results[job][lowest], r)) ++lowest;
    const int end = std::min(set_.chunks, lowest + (r == 0 ? 1 : set_.window));
    for (int c = 0; c < end; ++c) {
      const Bits result = s.results[job][c];
      if (has(result, r)) {
        offer(s, job, r, {"a late copy comes", job * kRanks + r, c, false}, emit);
        continue;
      }
      offer(s, job, r, {"offers", job * kRanks + r, c}, emit);
      if (result == 0) continue;
      State next = s;
      next.results[job][c] |= bit(r);
      emit(next, Step{"asks a peer", job * kRanks + r, c});
    }
  }

  template <class Emit>
  void offer(const State& s, int job, int r, const Step& step, Emit& emit) const {
    State next = s;
    Table& table = next.tables[step.chunk % set_.cores];
    Partial p{static_cast<std::uint8_t>(job), static_cast<std::uint8_t>(step.chunk), bit(r)};
    const int at = find(table, p);
    if (at < set_.states) {
      if (has(table[at].contributors, r)) return;
      p.contributors |= table[at].contributors;
      drop(table, at);
    } else if (table[set_.states - 1].contributors != 0) {
      const int victim = victim_for(table, p);
      if (victim == set_.states) return;
      drop(table, victim);
    }
    if (p.contributors == all(kRanks)) return complete(next, job, step, emit);
    *std::find_if(table.begin(), table.end(), [](const Partial& free) { return free.contributors == 0; }) = p;
    emit(next, step);
  }

  template <class Emit>
  void complete(State next, int job, const Step& step, Emit& emit) const {
    Bits& result = next.results[job][step.chunk];
    const Bits before = result;
    for (int rank = -1; rank < (set_.lost_for_one ? kRanks : 0); ++rank) {
      result = rank < 0 ? before : static_cast<Bits>(before | bit(rank));
      emit(next, Step{"RESULT lost, for one or for both", step.rank, step.chunk, false});
    }
    result = all(kRanks);
    emit(next, step);
  }

  [[nodiscard]] int find(const Table& table, const Partial& p) const {
    int i = 0;
    while (i < set_.states &&
           (table[i].contributors == 0 || table[i].job != p.job || table[i].chunk != p.chunk))
      ++i;
    return i;
  }
  // Of a full table; set_.states: none.
  [[nodiscard]] int victim_for(const Table& table, const Partial& p) const {
    const auto held_by = [&](int job) {
      return std::count_if(table.begin(), table.begin() + set_.states,
                           [&](const Partial& held) { return held.job == job; });
    };
    for (int i = 0; i < set_.states; ++i) {
      const Partial& held = table[i];
      if (held.job == p.job && held.chunk > p.chunk && (i == 0 || set_.any_later)) return i;
      if (set_.one_each && held.job != p.job && held_by(p.job) == 0 && held_by(held.job) > 1) return i;
    }
    return set_.states;
  }
  void drop(Table& table, int i) const {
    std::move(table.begin() + i + 1, table.begin() + set_.states, table.begin() + i);
    table[set_.states - 1] = {};
  }

  TableSetting set_;
};

}  // namespace tally::models

#pragma once
// The phase of a job or session, and which one may follow which. The table is the state machine; what makes
// each change is beside its row. A session knows three of the phases: it is gone when it is withdrawn.
//
// Forming has two kinds. Fresh: no epoch is alive, ranks come in and may go again. Re-forming: the members of
// a living generation are called back for a new epoch, their secrets are known. Either ends with an offer:
// its row is published, and when the cores have it the offer becomes the term.

#include <algorithm>
#include <array>

#include "members/membership_status.h"
#include "tally/check.h"
#include "tally/ids.h"

namespace tally::members {

// In which a life is, is about to be, and was last; 0: none. No other draws one of these.
using EpochsInUse = std::array<Epoch, 3>;

struct PhaseChange {
  JobPhase from{};
  JobPhase to{};
  bool operator==(const PhaseChange&) const = default;
};

inline constexpr std::array kPhaseChanges{
    // The first JOIN. Of a session: there is slot memory for it.
    PhaseChange{JobPhase::kDeclared, JobPhase::kForming},
    // Withdrawn before anybody came.
    PhaseChange{JobPhase::kDeclared, JobPhase::kAborted},
    // Fresh: whoever had a place was refused or fell silent.
    PhaseChange{JobPhase::kForming, JobPhase::kDeclared},
    // The cores use the row; the members are told.
    PhaseChange{JobPhase::kForming, JobPhase::kRunning},
    // Re-forming: a LEAVE, whose sender holds the last result.
    PhaseChange{JobPhase::kForming, JobPhase::kEnded},
    // Withdrawn. Re-forming also: a rank fell silent or sent ABORT, or there is no room to go on.
    PhaseChange{JobPhase::kForming, JobPhase::kAborted},
    // A new epoch of the same generation: its numbers ran far, its window changes, a member lost its place in
    // the epoch but no values, or the data plane lost its slots. Of a session: only the last, and that it is
    // reset.
    PhaseChange{JobPhase::kRunning, JobPhase::kForming},
    // The first LEAVE.
    PhaseChange{JobPhase::kRunning, JobPhase::kDraining},
    // A rank fell silent, sent ABORT, lost its membership or issued another operation than the others;
    // withdrawn.
    PhaseChange{JobPhase::kRunning, JobPhase::kAborted},
    // Every rank has left, or the data plane lost its slots.
    PhaseChange{JobPhase::kDraining, JobPhase::kEnded},
    // A rank sent ABORT or issued another operation than the others; withdrawn.
    PhaseChange{JobPhase::kDraining, JobPhase::kAborted},
    // Workers come for another generation.
    PhaseChange{JobPhase::kEnded, JobPhase::kForming},
    PhaseChange{JobPhase::kAborted, JobPhase::kForming},
    // Withdrawn.
    PhaseChange{JobPhase::kEnded, JobPhase::kAborted},
};

constexpr bool nobody_is_in(JobPhase phase) noexcept {
  return phase == JobPhase::kDeclared || phase == JobPhase::kEnded || phase == JobPhase::kAborted;
}

class LifePhase {
 public:
  [[nodiscard]] static constexpr bool allowed(JobPhase from, JobPhase to) noexcept {
    return std::find(kPhaseChanges.begin(), kPhaseChanges.end(), PhaseChange{from, to}) !=
           kPhaseChanges.end();
  }
  constexpr operator JobPhase() const noexcept { return now_; }
  // Staying is no change. One that the table lacks ends the process.
  void transition(JobPhase to) noexcept {
    TALLY_CHECK(to == now_ || allowed(now_, to), "a change of phase that the table of life_phase.h has");
    now_ = to;
  }

 private:
  JobPhase now_ = JobPhase::kDeclared;
};

}  // namespace tally::members

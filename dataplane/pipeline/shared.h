#pragma once
// The rules of the disciplines with shared slots (scheduling.md): `shared`, and the references `fcfs` and
// `preemptive`. Who may take whose entry; the program is shared_program.h.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "decision.h"
#include "job_state.h"
#include "job_table.h"
#include "registers.h"

namespace tally {

// One read-modify-write of `high`: a contribution of c proves that everyone holds all up to c - 2W.
inline Decision order_shared(High& high, const Contribution& p, const Job& job) noexcept {
  if (high.epoch == raw(p.epoch)) {
    const std::int32_t d = serial_difference(p.chunk, Chunk{high.chunk});
    if (d <= -static_cast<std::int32_t>(job.span)) return {.drop = Drop::kStale};
    if (d <= 0) return {.op = Op::kRead};
  }
  if (job.world == 1) return {.op = Op::kRead};
  high = {raw(p.epoch), raw(p.chunk)};
  return {.op = Op::kWrite};
}

// What the ledger says of a contribution.
struct Seen {
  bool duplicate = false;   // this rank's was seen before
  bool first = true;        // nobody's was
  bool last = false;        // now everybody's was
  bool everybody = false;   // ... before already, or the row is asking
  bool asking = false;      // the row is
  bool asked = false;       // a peer was asked for this rank before
  std::uint32_t entry = 0;  // as LedgerRow::entry
};

// One read-modify-write of the chunk's row. offer(): entry + 1 that a first arrival may claim; 0: none.
template <class Offer>
Seen see(LedgerRow& row, const Contribution& p, const Job& job, Offer offer) noexcept {
  if (row.chunk != raw(p.chunk)) row = {.chunk = raw(p.chunk)};  // a newer one: that packet would be stale
  if (row.entry == LedgerRow::kAsking) {
    const bool asked = (row.seen & p.bit) != 0;
    row.seen |= p.bit;
    return {.duplicate = true, .first = false, .everybody = true, .asking = true, .asked = asked};
  }
  Seen seen{
      .duplicate = (row.seen & p.bit) != 0, .first = row.seen == 0, .everybody = row.seen == job.members};
  row.seen |= p.bit;
  seen.last = row.seen == job.members;
  if (seen.first) row.entry = offer();
  seen.entry = row.entry;
  return seen;
}

// A filling entry that somebody would like to have.
struct Victim {
  Owner owner;
  bool same_job = false;
  bool over_reserved = true;   // its job holds more than its reservation
  Decay decay = Decay::kNone;  // of its job if that is `preemptive`: a class of `shared` never decays
  std::uint32_t tau = 0;       // of its job, in stamps
};

inline bool untouched_for(const Owner& owner, std::uint32_t now, std::uint32_t stamps) noexcept {
  return now - owner.touched >= stamps;
}

// May the entry be taken from its job at all? A stalled one also under the reservation: it works for nobody.
inline bool legal(const Victim& v, std::uint32_t now) noexcept {
  return v.same_job || v.over_reserved || untouched_for(v.owner, now, v.tau);
}

// Discipline `shared`. Classes above reservations; within a class first arrivals only, so that a chunk takes
// an entry at most once.
inline bool wins(const Contribution& p, const Seen& seen, bool under_reserved, const Victim& v) noexcept {
  const std::uint8_t mine = class_of(p.priority);
  const std::uint8_t theirs = class_of(v.owner.priority);
  if (mine > theirs) return true;
  if (!seen.first) return false;
  return mine == theirs || (under_reserved && v.over_reserved && !v.same_job);
}

// Discipline `preemptive`. The switch does not know the owner's RTO; tau, twice the time that the job's
// chunks need, stands for it.
inline std::uint8_t decayed(const Victim& v, std::uint32_t now) noexcept {
  if (v.decay != Decay::kSilence) return v.owner.priority;  // kDenial lowers what is stored
  const std::uint32_t halvings = std::min((now - v.owner.touched) / std::max(v.tau, 1U), 8U);
  return static_cast<std::uint8_t>(v.owner.priority >> halvings);
}

}  // namespace tally

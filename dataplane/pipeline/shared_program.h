#pragma once
// The aggregation program of the disciplines with shared slots (scheduling.md, 'shared'), written once like
// program.h. What a chip cannot do in one pass is asked for by again() and counted there: a claim behind a
// stale pointer one recirculation, a swap two.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "jobs/job_table.h"
#include "pipeline/decision.h"
#include "pipeline/job_state.h"
#include "pipeline/program.h"
#include "pipeline/registers.h"
#include "pipeline/shared_slots.h"
#include "server/merge_table.h"

namespace tally::pipeline {

// The rules of the disciplines with shared slots (scheduling.md): `shared`, and the references `fcfs` and
// `preemptive`. Who may take whose entry; the program is below.

// One read-modify-write of `high`: a contribution of c proves that everyone holds all up to c - 2W.
inline Decision order_shared(High& high, const Contribution& p, const jobs::NativeJob& job) noexcept {
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
  bool last = false;        // now everybody's was: of those who are here
  bool everybody = false;   // ... before already, or the row is asking
  bool asking = false;      // the row is
  bool asked = false;       // ... and was for this rank before
  std::uint32_t entry = 0;  // as LedgerRow::entry
};

// One read-modify-write of the chunk's row. here: whose contributions of it the box adds up, p's among them.
// offer(): entry + 1 that a first arrival may claim; 0: none.
template <class Offer>
Seen see(LedgerRow& row, const Contribution& p, std::uint64_t here, Offer offer) noexcept {
  if (row.chunk != raw(p.chunk)) row = {.chunk = raw(p.chunk)};  // a newer one: that packet would be stale
  if (row.entry == LedgerRow::kAsking) {
    const bool asked = (row.seen & p.bit) != 0;
    row.seen |= p.bit;
    return {.duplicate = true, .first = false, .everybody = true, .asking = true, .asked = asked};
  }
  Seen seen{.duplicate = (row.seen & p.bit) != 0, .first = row.seen == 0, .everybody = row.seen == here};
  row.seen |= p.bit;
  seen.last = row.seen == here;
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

struct SharedRuling {
  Verdict verdict = Verdict::kDrop;
  Drop drop{};
  bool asks = false;       // a peer, or the server, shall be asked for the result
  bool fresh = false;      // seen for the first time: its rank is alive
  bool last = false;       // kBypass: now everybody's was seen
  bool collision = false;  // kBypass: there was no entry for it
  const jobs::NativeJob* leaving =
      nullptr;  // set: the packet now carries this job's (partial) sum for its server
};

inline server::MergeJob merge_job(const jobs::NativeJob& job) noexcept {
  return {job.id, job.generation, job.epoch, job.members, job.key_sum};
}

// A packet that fails a check leaves no trace.
template <class Exec>
void unsee(Exec& x, const jobs::NativeJob& job, const Contribution& p) noexcept {
  if (by_hash(job.discipline)) return;
  x.again();
  x.template rmw<LedgerReg>(p.row, [&](LedgerRow& r) { return r.seen &= ~p.bit; });
}

template <class Exec>
class SharedProgram {
 public:
  // states: by job id. server: the embedded one, only asked what it knows. What an external one knows, it
  // alone does: of its jobs nothing is known here.
  SharedProgram(Exec& x, SharedSlots& slots, const server::MergeTable& server, JobState* states,
                const jobs::JobTable& table, TimeNs now) noexcept
      : x_(x), slots_(slots), server_(server), states_(states), table_(table), now_(jobs::stamp(now)) {}

  // As aggregate(). After a ruling with `leaving`, p's chunk, epoch, bit (of all who are in it), key, shape,
  // numbers and values are those of what leaves.
  SharedRuling run(const jobs::NativeJob& job, Contribution& p, Mismatch& why) noexcept {
    if (p.verify && !payload_matches(x_, p)) return {.drop = Drop::kSum};
    const Decision arrival =
        x_.template rmw<SequenceReg>(p.number, [&](Came& came) { return arrive(came, p); });
    if (arrival.op == Op::kNone) return {.drop = arrival.drop};
    const Decision order =
        x_.template rmw<HighReg>(raw(job.id), [&](High& high) { return order_shared(high, p, job); });
    if (order.op == Op::kNone) return {.drop = order.drop};
    if (job.world == 1) {
      if (!p.verify && !payload_matches(x_, p)) return {.drop = Drop::kBadSum};
      return {.verdict = Verdict::kComplete, .fresh = true};
    }
    JobState& state = states_[raw(job.id)];
    bool below_cap = state.occupancy < table_.cap(job.id);
    std::uint64_t here = job.members;
    if (job.planned) [[unlikely]] {
      here = jobs::here_of(job, p.chunk);
      // What is of nobody here leaves no trace: it tells nothing of those who are.
      if ((here & p.bit) == 0) return pass_on(job);
      below_cap &= here != p.bit;  // who is alone has nobody to wait for
    }
    if (by_hash(job.discipline)) return by_slot(job, state, p, why, below_cap);

    // Most packets find their entry, and need not know what the server has.
    std::optional<bool> asked;
    const auto known = [&]() noexcept {
      if (!asked) asked = server_.knows(merge_job(job), p.chunk);
      return *asked;
    };
    const Seen seen = x_.template rmw<LedgerReg>(p.row, [&](LedgerRow& row) {
      return see(row, p, here, [&]() noexcept -> std::uint32_t {
        const bool may_claim = below_cap && !p.direct && !known();
        const std::uint32_t oldest = may_claim ? slots_.oldest_available() : kNoEntry;
        return oldest == kNoEntry ? 0 : oldest + 1;
      });
    });
    if (p.direct) return bypass(job, seen);
    if (seen.entry != 0) {
      if (const auto ruling = enter(job, state, p, seen, seen.entry - 1, seen.first, why)) return *ruling;
    }
    if (seen.everybody && !known()) return ask(job, p, seen);
    // A duplicate never claims, and a last arrival has nothing left to merge with.
    if (seen.duplicate || seen.last || known()) return bypass(job, seen);
    if (const std::uint32_t entry = below_cap ? slots_.oldest_available() : kNoEntry; entry != kNoEntry) {
      x_.again();
      point(p.row, entry);
      return *enter(job, state, p, seen, entry, true, why);
    }
    return fight(job, state, p, seen, below_cap);
  }

 private:
  // The disciplines by hash: one entry, and whoever is in it.
  SharedRuling by_slot(const jobs::NativeJob& job, JobState& state, Contribution& p, Mismatch& why,
                       bool below_cap) noexcept {
    const Seen seen;
    if (p.direct) return bypass(job, seen);
    const bool known = server_.knows(merge_job(job), p.chunk);
    const std::uint32_t entry = raw(p.slot) / job.shards;
    const bool available = !slots_.filling(entry);
    if (const auto ruling = enter(job, state, p, seen, entry, available && below_cap && !known, why))
      return *ruling;
    if (known) return bypass(job, seen);
    if (available || job.discipline == Discipline::kFcfs) return collide(job, state, seen);
    return take(job, state, p, seen, entry, [&](Owner& owner, const Victim& v) {
      const bool wins = p.priority > decayed(v, now_) && (below_cap || v.same_job);
      if (!wins && v.decay == Decay::kDenial) owner.priority >>= 1;
      return wins;
    });
  }

  // No entry is free for it, or it is at its cap: one try to take one.
  SharedRuling fight(const jobs::NativeJob& job, JobState& state, Contribution& p, const Seen& seen,
                     bool below_cap) noexcept {
    const std::uint32_t entry = slots_.next_victim();
    if (entry == kNoEntry) return collide(job, state, seen);
    const bool under_reserved = state.occupancy < job.reserved;
    const std::uint32_t row = p.row;
    const SharedRuling ruling = take(job, state, p, seen, entry, [&](Owner&, const Victim& v) {
      return (below_cap || v.same_job) && wins(p, seen, under_reserved, v);
    });
    if (ruling.verdict == Verdict::kEvict) {
      x_.again();
      point(row, entry);
    }
    return ruling;
  }

  SharedRuling bypass(const jobs::NativeJob& job, const Seen& seen) const noexcept {
    return {.verdict = Verdict::kBypass, .fresh = !seen.duplicate, .last = seen.last, .leaving = &job};
  }
  // A contribution that nobody here is to be added to. No ledger tells whether it is a replay, so it renews no lease.
  static SharedRuling pass_on(const jobs::NativeJob& job) noexcept {
    return {.verdict = Verdict::kBypass, .leaving = &job};
  }
  // Somebody has the result, most likely: ask a peer instead of summing a chunk anew that nobody else sends.
  // Whoever comes again is summed all the same, for the server may have forgotten the chunk unfinished.
  SharedRuling ask(const jobs::NativeJob& job, const Contribution& p, const Seen& seen) noexcept {
    SharedRuling ruling = seen.asked ? bypass(job, seen) : SharedRuling{.verdict = Verdict::kRelay};
    ruling.asks = true;
    if (seen.asking) return ruling;
    x_.again();
    x_.template rmw<LedgerReg>(p.row, [&](LedgerRow& r) {
      return r = {p.bit, raw(p.chunk), LedgerRow::kAsking};
    });
    return ruling;
  }
  SharedRuling collide(const jobs::NativeJob& job, JobState& state, const Seen& seen) const noexcept {
    ++state.slots.denied;
    SharedRuling ruling = bypass(job, seen);
    ruling.collision = true;
    return ruling;
  }
  void point(std::uint32_t row, std::uint32_t entry) noexcept {
    x_.template rmw<LedgerReg>(row, [&](LedgerRow& r) { return r.entry = entry + 1; });
  }

  struct Choice {
    Op op = Op::kNone;
    bool ours = false;    // the entry is of this (tag, chunk)
    bool bypass = false;  // with kNone: to the server, else dropped
    Drop drop{};
  };
  static Choice decide(Head& head, const Contribution& p, const jobs::NativeJob& job, const Seen& seen,
                       bool may_claim) noexcept {
    if (head.tag == raw(p.epoch) && head.chunk == raw(p.chunk)) {
      if (head.contributors == job.members) return {.op = Op::kRead, .ours = true};
      if ((head.contributors & p.bit) != 0) return {.ours = true, .drop = Drop::kDuplicate};
      if (seen.duplicate) return {.ours = true, .bypass = true};  // it may be in what was evicted
      head.contributors |= p.bit;
      const bool emit = seen.last || head.contributors == job.members;
      return {.op = emit ? Op::kAddEmit : Op::kAdd, .ours = true};
    }
    if (!may_claim) return {};
    head = {raw(p.epoch), raw(p.chunk), p.bit};
    return {.op = Op::kWrite};
  }

  // The contribution at an entry that may be its chunk's, or may be claimed. Nothing: it is neither.
  std::optional<SharedRuling> enter(const jobs::NativeJob& job, JobState& state, Contribution& p,
                                    const Seen& seen, std::uint32_t entry, bool may_claim,
                                    Mismatch& why) noexcept {
    p.line = slots_.line_of(entry);
    Head before;
    Head after;
    const Choice d = x_.template rmw<HeadReg>(p.line, [&](Head& head) {
      before = head;
      const Choice decision = decide(head, p, job, seen, may_claim);
      after = head;
      return decision;
    });
    if (d.op == Op::kNone && !d.ours) return std::nullopt;
    Owner untouched;
    const Owner owner = x_.template rmw<OwnerReg>(p.line, [&](Owner& o) {
      untouched = o;
      if (d.op == Op::kWrite) o = {now_, now_, raw(job.id), p.priority, 0};
      if (d.op == Op::kAdd) o.touched = now_;
      return o;
    });
    const jobs::Shape stored = x_.template rmw<ShapeReg>(p.line, [&](jobs::Shape& shape) {
      if (d.op == Op::kWrite) shape = p.sum.shape;
      return shape;
    });
    if (stored != p.sum.shape) {
      why = {before.contributors, stored};
      if (after.contributors != before.contributors) {
        x_.template undo<HeadReg>(p.line, before);
        x_.template rmw<OwnerReg>(p.line, [&](Owner& o) { return o = untouched; });
      }
      if (!seen.duplicate) unsee(x_, job, p);
      return SharedRuling{.drop = Drop::kMismatch};
    }
    if (d.op == Op::kNone) return d.bypass ? bypass(job, seen) : SharedRuling{.drop = d.drop};
    merge_numbers(x_, d.op, p);
    if (d.op == Op::kAddEmit && after.contributors == job.members) p.before = finish(x_, job, p.chunk);
    const kernels::Added out = x_.values(d.op, p, false);
    state.overflows += out.overflow ? 1 : 0;
    if (d.op == Op::kRead) return SharedRuling{.verdict = Verdict::kRepeat};
    if (d.op == Op::kAdd) return SharedRuling{.verdict = Verdict::kAbsorb, .fresh = true};
    if (d.op == Op::kWrite) {
      slots_.claimed(entry);
      ++state.occupancy;
      ++state.slots.claims;
      return SharedRuling{.verdict = Verdict::kAbsorb, .fresh = true};
    }
    slots_.released(entry);
    --state.occupancy;
    const bool everybody = after.contributors == job.members;
    const std::uint32_t keys = everybody ? job.key_sum : jobs::keys_of(job, after.contributors);
    // Those who are here are to this box what everybody is elsewhere: nobody else can find out that one of them
    // corrupts, and nothing else tells how long a chunk takes.
    const bool all_of_here = everybody || (job.planned && after.contributors == jobs::here_of(job, p.chunk));
    if (all_of_here) {
      if (!matches(out.sums, keys, p)) return bad_sum(job, state, p);
      state.finished_well();
      state.filled_in(now_ - owner.claimed);
    }
    if (!everybody) return split(job, state, p, after.contributors, keys);
    return SharedRuling{.verdict = Verdict::kComplete, .fresh = true};
  }

  // The entry is free, and its row empty: all of them send again.
  SharedRuling bad_sum(const jobs::NativeJob& job, JobState& state, const Contribution& p) noexcept {
    x_.again();
    if (!by_hash(job.discipline)) x_.template rmw<LedgerReg>(p.row, [](LedgerRow& r) { return r = {}; });
    x_.template rmw<HeadReg>(p.line, [](Head& h) { return h = {}; });
    state.finished_badly();
    return SharedRuling{.drop = Drop::kBadSum};
  }

  // Everybody was seen who comes here, and not everybody is in the entry: the rest is at the server, or goes there by
  // other ways, and nothing more can come.
  SharedRuling split(const jobs::NativeJob& job, JobState& state, Contribution& p, std::uint64_t contributors,
                     std::uint32_t keys) noexcept {
    x_.template undo<HeadReg>(p.line, Head{});
    p.bit = contributors;
    p.key = keys;
    ++state.slots.partials;
    return {.verdict = Verdict::kAbsorb, .fresh = true, .leaving = &job};
  }

  // Packet and filling entry change places if `wins` says so; then the packet leaves for the evicted job's
  // server. The frame must have room for whatever the entry holds.
  template <class Wins>
  SharedRuling take(const jobs::NativeJob& job, JobState& state, Contribution& p, const Seen& seen,
                    std::uint32_t entry, Wins may_win) noexcept {
    x_.again();
    const std::uint32_t line = slots_.line_of(entry);
    Owner old;
    const bool won =
        p.room >= slots_.region().elements() && x_.template rmw<OwnerReg>(line, [&](Owner& owner) {
          const Victim v = victim(owner, job);
          if (!may_win(owner, v) || !legal(v, now_)) return false;
          old = std::exchange(owner, Owner{now_, now_, raw(job.id), p.priority, 0});
          return true;
        });
    if (!won) return collide(job, state, seen);
    const Head head = x_.template rmw<HeadReg>(line, [&](Head& h) {
      return std::exchange(h, Head{raw(p.epoch), raw(p.chunk), p.bit});
    });
    const std::uint32_t ours = jobs::words_of(p.sum.shape);
    if (p.form == Form::kZero) std::memset(p.values, 0, std::size_t{4} * ours);
    with_sum(x_, line, p.sum, [](auto& r, auto in) { return std::exchange(r, in); });
    p.swapped = std::max(ours, jobs::words_of(p.sum.shape));
    p.form = form_of(p.sum);
    p.line = line;
    x_.values(Op::kSwap, p, false);
    p.epoch = Epoch{head.tag};
    p.chunk = Chunk{head.chunk};
    p.bit = head.contributors;
    p.priority = old.priority;
    JobState& theirs = states_[old.job];
    --theirs.occupancy;
    ++theirs.slots.evicted;
    ++state.occupancy;
    ++state.slots.swaps;
    // What belongs to an epoch that is over is of no use to anybody.
    const jobs::NativeJob* const loser = table_.find(JobId{old.job});
    const bool lives = loser != nullptr && loser->epoch == p.epoch;
    if (lives) p.key = jobs::keys_of(*loser, p.bit);
    return {.verdict = Verdict::kEvict, .fresh = true, .leaving = lives ? loser : nullptr};
  }

  Victim victim(const Owner& owner, const jobs::NativeJob& by) const noexcept {
    const jobs::NativeJob* const row = table_.find(JobId{owner.job});
    const JobState& state = states_[owner.job];
    return {.owner = owner,
            .same_job = owner.job == raw(by.id),
            .over_reserved = state.occupancy > (row != nullptr ? row->reserved : 0),
            .decay = row != nullptr && row->discipline == Discipline::kPreemptive ? row->decay : Decay::kNone,
            .tau = state.tau()};
  }

  Exec& x_;
  SharedSlots& slots_;
  const server::MergeTable& server_;
  JobState* states_;
  const jobs::JobTable& table_;
  std::uint32_t now_;
};

}  // namespace tally::pipeline

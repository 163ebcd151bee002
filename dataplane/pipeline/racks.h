#pragma once
// What Pipeline does for jobs of racks, at a rack's box (docs/protocol_racks.md). Included by pipeline_definitions.h
// alone. The parent's box has nothing of it: to it a rack is a worker.

#include <cstdint>
#include <utility>

#include "pipeline/pipeline.h"
#include "pipeline/pool.h"
#include "pipeline/program.h"
#include "pipeline/registers.h"
#include "pipeline/reply.h"
#include "tally/time.h"

namespace tally::pipeline {

// The pool discipline of a rack. What all ranks of it have sent is not finished, but *local*: the sum goes to the
// parent, and the entry waits for what comes back. Nothing here has a timer: who sends again, or asks, to an entry that
// waits makes the box send its sum again.

struct RackPool : Pool {
  static constexpr bool kWhole = false;
  // Workers of a rack whose timers run out together make one packet.
  static constexpr std::uint32_t kAgain = jobs::stamp(kMillisecond);

  const jobs::NativeJob* job = nullptr;
  std::uint8_t core = 0;
  std::uint32_t now = 0;       // stamp()
  bool leaves = false;         // (out) the sum goes to the parent ...
  bool again = false;          // (out) ... and went before
  std::uint32_t sequence = 0;  // (out) under this one
  std::uint64_t awaited = 0;   // what the entry's registers held before
  std::uint32_t left = 0;

  static Decision order(High& high, const Contribution& p, const jobs::NativeJob& job) noexcept {
    return Pool::order<true>(high, p, job);
  }

  static Decision decide(Head& head, const Contribution& p, const jobs::NativeJob& job) noexcept {
    Decision d = Pool::decide(head, p, job);
    // The first is the last, and its sum is the packet's.
    if (d.op == Op::kWrite && head.contributors == job.members)
      d.occupancy = static_cast<std::int8_t>(d.occupancy - 1);
    return d;
  }

  // What the parent has heard of before must not come again: the cores of this box count apart, but where each shard
  // of the parent hears of one core only.
  static std::uint32_t sequence_of(std::uint32_t count, std::uint8_t core,
                                   const jobs::NativeJob& job) noexcept {
    const bool of_one = job.parent.shards % job.shards == 0 && job.window % job.parent.shards == 0 &&
                        job.parent.window % job.parent.shards == 0;
    return of_one ? count : (count - 1) * job.shards + core + 1;
  }

  template <class Exec>
  void count(Exec& x, Chunk chunk) noexcept {
    leaves = true;
    const std::size_t number = std::size_t{raw(job->id)} * kMaxShards + jobs::shard_at(job->parent, chunk);
    sequence = x.template rmw<SentAboveReg>(number, [&](SentAbove& sent) {
      if (sent.epoch != raw(job->epoch)) sent = {raw(job->epoch), 0};
      std::uint32_t next = sequence_of(++sent.count, core, *job);
      if (next == 0) next = sequence_of(++sent.count, core, *job);
      return next;
    });
  }

  // Of a local entry, at its `claimed`: may it leave again?
  template <class Exec>
  void leave_again(Exec& x, std::uint32_t line, Chunk chunk) noexcept {
    again = x.template rmw<ClaimedReg>(line, [&](std::uint32_t& newest) {
      left = newest;
      if (now - newest < kAgain) return false;
      newest = now;
      return true;
    });
    if (again) count(x, chunk);
  }

  // Of a contribution that turned out to be of another shape: it has changed nothing.
  template <class Exec>
  void take_back(Exec& x, std::uint32_t line) noexcept {
    if (!leaves) return;
    x.template undo<MissingReg>(line, awaited);
    x.template undo<ClaimedReg>(line, left);
  }

  // Between head and shape.
  template <class Exec>
  Decision at_entry(Exec& x, Decision d, const Contribution& p) noexcept {
    const bool whole = d.op == Op::kAddEmit || (d.op == Op::kWrite && job->world == 1);
    awaited = x.template rmw<MissingReg>(p.line, [&](std::uint64_t& racks) {
      const std::uint64_t before = racks;
      if (d.op == Op::kWrite) racks = 0;
      if (whole) racks = job->parent.members;
      return before;
    });
    if (whole) {
      left = x.template rmw<ClaimedReg>(p.line,
                                        [&](std::uint32_t& newest) { return std::exchange(newest, now); });
      count(x, p.chunk);
    }
    if (d.op != Op::kRead || awaited == 0) return d;
    leave_again(x, p.line, p.chunk);
    if (again) return d;
    return {.drop = Drop::kDuplicate, .entry_is_ours = true};
  }
};

template <class Exec>
[[gnu::noinline]] Outcome Pipeline<Exec>::contribute_in_rack(Parsed& parsed, const Frame& frame,
                                                             TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  JobState& state = states_[raw(job.id)];
  const bool suspect = state.suspect();
  p.verify |= suspect || job.world == 1;  // alone, nothing but the packet is the rack's sum

  Mismatch why;
  RackPool pool{{}, &job, options_.core, jobs::stamp(now)};
  Ruling ruling = aggregate<RackPool>(exec_, job, state, p, why, &pool);
  // A bit that flipped in memory since the sum was right would be sent again for ever, and refused.
  if (ruling.verdict == Verdict::kRepeat && pool.again) {
    p.form = form_of(p.sum);
    if (!matches(exec_.payload_sums(p), job.key_sum, p)) {
      exec_.template undo<HeadReg>(p.line, Head{});
      state.finished_badly();
      ruling = {.drop = Drop::kBadSum};
    }
  }
  if (ruling.verdict == Verdict::kDrop) {
    if (ruling.drop == Drop::kMismatch) pool.take_back(exec_, p.line);
    report(job, p, ruling.drop, why, suspect);
    return drop(parsed, frame, ruling.drop, now);
  }
  if (!pool.leaves) {
    if (ruling.verdict == Verdict::kAbsorb) return conclude(parsed, Verdict::kAbsorb, true, now);
    parsed.payload_bytes = jobs::datagram_bytes(p.sum);
    write_result(parsed.payload, job, p, kFlagRetransmit, *kernels_);
    return conclude(parsed, Verdict::kRepeat, false, now);
  }
  ++(pool.again ? state.slots.above_again : state.slots.above);
  parsed.payload_bytes = jobs::datagram_bytes(p.sum);
  write_above(parsed.payload, job, p, pool.sequence,
              pool.again ? std::uint8_t{kFlagRetransmit} : std::uint8_t{0}, *kernels_);
  Outcome out = conclude(parsed, Verdict::kAbsorb, !pool.again, now);
  out.server = kToParent;
  return out;
}

// A QUERY that names nobody has found an entry that waits for the parent: its sender is told that all of the rack are in
// it, and the sum goes once more.
template <class Exec>
Outcome Pipeline<Exec>::tell_in_rack(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  const Found waiting{.contributors = job.members};
  const jobs::Shape stored = exec_.template peek<ShapeReg>(p.line);
  const auto in_front = static_cast<std::uint32_t>(parsed.payload - frame.data);
  if (in_front + kHeaderBytes + 4 * jobs::words_of(stored) > frame.capacity)
    return tell(parsed, waiting, now);
  RackPool pool{{}, &job, options_.core, jobs::stamp(now)};
  pool.leave_again(exec_, p.line, p.chunk);
  if (!pool.again) return tell(parsed, waiting, now);
  read_sum(exec_, p.line, p.sum);
  p.form = form_of(p.sum);
  exec_.values(Op::kRead, p, false);
  JobState& state = states_[raw(job.id)];
  if (!matches(exec_.payload_sums(p), job.key_sum, p)) {
    exec_.template undo<HeadReg>(p.line, Head{});
    state.finished_badly();
    return drop(parsed, frame, Drop::kBadSum, now);
  }
  ++state.slots.above_again;
  parsed.payload_bytes = jobs::datagram_bytes(p.sum);
  write_above(parsed.payload, job, p, pool.sequence, kFlagRetransmit, *kernels_);
  Outcome out = conclude(parsed, Verdict::kTell, false, now);
  out.server = kToParent;
  out.reject = true;
  out.reject_reason = RejectReason::kWaiting;
  out.reject_contributors = job.members;
  return out;
}

// To another rack, whose bit the sender has named, by way of the parent.
template <class Exec>
Outcome Pipeline<Exec>::ask_above(const Parsed& parsed, TimeNs now) noexcept {
  write_query_above(parsed.payload, parsed.native(), parsed.contribution, *kernels_);
  Outcome out = conclude(parsed, Verdict::kRelay, false, now);
  out.server = kToParent;
  return out;
}

// An ANSWER, which is right, to the rack that has asked.
template <class Exec>
Outcome Pipeline<Exec>::answer_above(const Parsed& parsed, TimeNs now) noexcept {
  const std::uint32_t rack = header_at(parsed.payload).slot.host() - kRackRankBase;
  write_answer_above(parsed.payload, parsed.native(), parsed.contribution, rack, *kernels_);
  Outcome out = conclude(parsed, Verdict::kRelay, false, now);
  out.server = kToParent;
  return out;
}

// Does the frame come from a parent, and is it none that a worker could have sent? Data is known by the row, whose
// number it has there; before there is a row control is heard from whom it has told.
template <class Exec>
[[gnu::noinline]] bool Pipeline<Exec>::judge_above(Parsed& parsed, const OpenedFrame& datagram,
                                                   const Header& h, const Frame& frame) const noexcept {
  const bool of_box = h.type == PacketType::kJoined || h.type == PacketType::kChallenge ||
                      (h.type == PacketType::kReject && datagram.payload_bytes > kHeaderBytes);
  const bool data = h.type == PacketType::kResult || h.type == PacketType::kQuery;
  const jobs::NativeJob* const job = data ? table_->find_at_parent(datagram.source, h.job_id()) : nullptr;
  if (job == nullptr && !(of_box && table_->is_parent(datagram.source.address))) return false;
  auto why = refuse_header(h, datagram.payload, datagram.payload_bytes, *kernels_);
  if (of_box && why == Drop::kType) why.reset();  // no worker may say that
  if (why) {
    parsed.refuse(*why);
    return true;
  }
  if (of_box) {
    parsed.kind = Kind::kControl;
    return true;
  }
  parsed.contribution.room = room_behind(datagram.payload, frame);
  match_above(parsed, h, *job, options_.core, frame.checksum_good);
  return true;
}

template <class Exec>
[[gnu::noinline]] Outcome Pipeline<Exec>::handle_above(Parsed& parsed, const Frame& frame,
                                                       TimeNs now) noexcept {
  if (parsed.type == PacketType::kResult) return take_result(parsed, frame, now);
  // A QUERY of another rack, for the rank that it names, or whoever is likely to have the most.
  const jobs::NativeJob& job = parsed.native();
  const Contribution& p = parsed.contribution;
  const std::uint32_t wish = p.sum.shape.total;
  const Rank peer = wish < job.world ? Rank{static_cast<std::uint16_t>(wish)} : job.parent.most_advanced;
  write_query_below(parsed.payload, job, p, raw(p.rank), peer, *kernels_);
  Outcome out = conclude(parsed, Verdict::kRelay, false, now);
  out.to = peer;
  return out;
}

// The parent's RESULT. The entry becomes complete whatever it was, if it is not a newer chunk's; the packet goes on to
// all ranks.
template <class Exec>
Outcome Pipeline<Exec>::take_result(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  JobState& state = states_[raw(job.id)];
  if (!matches(exec_.payload_sums(p), job.parent.key_sum, p)) return drop(parsed, frame, Drop::kSum, now);
  const Decision order =
      exec_.template rmw<HighReg>(raw(job.id), [&](High& high) { return RackPool::order(high, p, job); });
  if (order.op == Op::kNone) return drop(parsed, frame, order.drop, now);

  bool stale = false;
  bool whole = false;  // it has this chunk, and all ranks are in it
  bool known = false;  // it has this chunk
  const bool filling = exec_.template rmw<HeadReg>(p.line, [&](Head& head) {
    const bool this_epoch = head.tag == raw(p.epoch);
    const bool fills = head.tag != 0 && head.contributors != job.members;
    known = this_epoch && head.chunk == raw(p.chunk);
    whole = known && !fills;
    stale = this_epoch && serial_difference(Chunk{head.chunk}, p.chunk) > 0;
    if (!stale) head = {raw(p.epoch), raw(p.chunk), job.members};
    return fills;
  });
  if (stale) return drop(parsed, frame, Drop::kStale, now);
  const bool had = exec_.template rmw<MissingReg>(p.line, [&](std::uint64_t& racks) {
    const bool complete = whole && racks == 0;
    racks = 0;
    return complete;
  });
  state.parent_seen = now;
  if (had) return drop(parsed, frame, Drop::kDuplicate, now);

  exec_.template rmw<ShapeReg>(p.line, [&](jobs::Shape& shape) { return shape = p.sum.shape; });
  const std::uint32_t before = finish(exec_, job, p.chunk);
  merge_numbers(exec_, Op::kWrite, p);
  exec_.values(Op::kWrite, p, false);
  if (filling) --state.occupancy;
  state.finished_well();
  const bool repeats = !known || (header_at(parsed.payload).flags & kFlagRetransmit) != 0;
  write_result(parsed.payload, job, p, repeats ? kFlagRetransmit : 0, *kernels_, 0, repeats ? 0 : before);
  return conclude(parsed, Verdict::kComplete, false, now);
}

}  // namespace tally::pipeline

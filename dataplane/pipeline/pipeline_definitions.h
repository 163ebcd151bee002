#pragma once
// How Pipeline does what pipeline.h says, for any execution. Included where one is instantiated:
// pipeline_instances.cc, and bench/loop for an execution that is timed.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <new>

#include "pipeline/burst.h"
#include "pipeline/frame.h"
#include "pipeline/pipeline.h"
#include "pipeline/pipeline_session.h"
#include "pipeline/pipeline_shared.h"
#include "pipeline/pool.h"
#include "pipeline/racks.h"
#include "pipeline/reply.h"
#include "pipeline/stragglers.h"
#include "pipeline/zero_runs.h"

namespace tally::pipeline {

template <class Exec>
Pipeline<Exec>::Pipeline(const PipelineOptions& options, jobs::Region region, const kernels::Kernels& kernels)
    : exec_(region, kernels),
      slots_(options.shared),
      server_(options.server, options.shared.elements(), kernels, server::Share::kOneEach),
      kernels_(&kernels),
      options_(options),
      recogniser_(options.box),
      states_(std::make_unique<JobState[]>(kMaxJobs + 1)),
      counters_(std::make_unique<JobCounters[]>(kMaxJobs + 1)),
      rejects_({.per_second = 10, .burst = 10}, options.key),
      punts_(options.key) {}

template <class Exec>
[[gnu::always_inline]] inline void Pipeline<Exec>::prefetch_entry(const Parsed& parsed) const noexcept {
  if (!parsed.runs()) return;
  exec_.prefetch_rank(parsed.contribution.number);
  if (parsed.kind == Kind::kNative && parsed.native().discipline == Discipline::kShared)
    return exec_.prefetch_row(parsed.contribution.row);
  exec_.prefetch(parsed.contribution.line);
}

template <class Exec>
[[gnu::always_inline]] inline void Pipeline<Exec>::parse_one(const Frame& frame,
                                                             Parsed& parsed) const noexcept {
  if (!parse_known<false>(frame, parsed)) [[unlikely]]
    parse_other(frame, parsed);
}

template <class Exec>
[[gnu::noinline]] void Pipeline<Exec>::parse_other(const Frame& frame, Parsed& parsed) const noexcept {
  if (!parse_known<true>(frame, parsed)) judge(frame, parsed);
}

template <class Exec>
template <bool halves>
[[gnu::always_inline]] inline bool Pipeline<Exec>::parse_known(const Frame& frame,
                                                               Parsed& parsed) const noexcept {
  const Recogniser::Known known =
      table_ != nullptr ? recogniser_.know<halves>(frame, *table_, *kernels_) : Recogniser::Known{};
  if (known.as == nullptr) [[unlikely]]
    return false;
  const jobs::NativeJob& job = *known.as->job;
  const Header& h =
      *std::launder(reinterpret_cast<const Header*>(known.datagram));  // a copy would be written
  parsed.reject = false;
  parsed.type = PacketType::kContribute;
  parsed.job = &job;
  parsed.payload = known.datagram;
  parsed.payload_bytes = known.bytes;
  Contribution& p = parsed.contribution;
  p.chunk = h.chunk_id();
  locate(p, job, options_.shared);
  take_sequence(p, h, job);
  take_fields(p, h, known.datagram, job, bit_of(h.rank_id()), known.as->key, frame.checksum_good,
              halves ? Form::kHalves : Form::kWords);
  p.room = room_behind(known.datagram, frame);
  parsed.owner = owner_of(p.slot, job);
  parsed.kind = parsed.owner == options_.core ? Kind::kNative : Kind::kElsewhere;
  prefetch_entry(parsed);
  return true;
}

template <class Exec>
void Pipeline<Exec>::parse(std::span<const Frame> frames, std::span<Parsed> parsed) const noexcept {
  const auto fetch = [](const Frame& frame) noexcept {
    __builtin_prefetch(frame.data);
    __builtin_prefetch(frame.data + sizeof(jobs::Line));
  };
  for (const Frame& frame : frames.first(std::min(frames.size(), kHeadersAhead))) fetch(frame);
  // By pointers: with an index the loop is an instruction or two longer.
  const Frame* const end = frames.data() + frames.size();
  Parsed* into = parsed.data();
  for (const Frame* frame = frames.data(); frame != end; ++frame, ++into) {
    if (end - frame > static_cast<std::ptrdiff_t>(kHeadersAhead)) fetch(frame[kHeadersAhead]);
    parse_one(*frame, *into);
  }
}

template <class Exec>
void Pipeline<Exec>::judge(const Frame& frame, Parsed& parsed) const noexcept {
  const OpenedFrame datagram = open_frame(frame, options_.box);
  parsed.kind = datagram.kind;
  parsed.drop = datagram.drop;
  parsed.reject = false;
  parsed.known_sender = 0;
  parsed.job = nullptr;
  parsed.payload = datagram.payload;
  parsed.payload_bytes = datagram.payload_bytes;
  if (datagram.kind != Kind::kNative) {
    if (datagram.kind == Kind::kSession) match_session(parsed, datagram, table_, options_.core);
    return prefetch_entry(parsed);
  }

  const Header h = header_at(datagram.payload);
  parsed.type = h.type;
  if (table_ != nullptr && table_->has_parents() && judge_above(parsed, datagram, h, frame)) [[unlikely]]
    return prefetch_entry(parsed);
  if (const auto why = refuse_header(h, datagram.payload, datagram.payload_bytes, *kernels_)) {
    parsed.kind = Kind::kBad;
    parsed.drop = *why;
    return;
  }
  if (is_control(h.type)) {
    parsed.kind = Kind::kControl;
    return;
  }
  parsed.contribution.room = room_behind(datagram.payload, frame);
  // What leaves values out may have to carry those of the others, and a run exponents.
  const bool run = h.type == PacketType::kZeroRun;
  const bool leaves_out =
      run || (h.type == PacketType::kContribute && (h.flags & (kFlagZero | kFlagSparse)) != 0);
  const std::uint32_t most = std::max(h.elements.host() / values_per_word(h.dtype),
                                      run ? run_exponents_bytes(h.contributors.host()) / 4 : 0U);
  if (leaves_out && parsed.contribution.room < most) {
    parsed.kind = Kind::kBad;
    parsed.drop = Drop::kRoom;
    return;
  }
  match_job(parsed, h, datagram.source, table_, options_.shared, options_.core, frame.checksum_good);
  prefetch_entry(parsed);
}

// Of a bad packet: whom it is of, if that is known, has one less.
template <class Exec>
[[gnu::noinline]] void Pipeline<Exec>::accuse(const Parsed& parsed, TimeNs now) noexcept {
  const std::uint64_t sender = parsed.sender();
  if (sender == 0) return;
  const auto& job = static_cast<const jobs::NativeJob&>(*parsed.job);
  rates_.accuse(job.id, job.rates, states_[raw(job.id)], sender, now);
}

template <class Exec>
Outcome Pipeline<Exec>::drop(const Parsed& parsed, const Frame& frame, Drop why, TimeNs now) noexcept {
  const std::uint32_t row = parsed.job != nullptr ? raw(parsed.job->id) : 0;
  ++counters_[row].drops[static_cast<std::size_t>(why)];
  if (is_bad_packet(why)) [[unlikely]]
    accuse(parsed, now);
  Outcome out{.verdict = Verdict::kDrop, .drop = why, .job = parsed.job, .payload = parsed.payload};
  if (parsed.reject && rejects_.take(open_frame(frame, options_.box).source, now)) {
    out.reject = true;
    out.reject_reason = why == Drop::kJob ? RejectReason::kJob : RejectReason::kEpoch;
  }
  return out;
}

// Of a data packet that concerns the quotas of rate of its job: true, it is dropped for one of them.
template <class Exec>
[[gnu::noinline]] bool Pipeline<Exec>::exceeds(const Parsed& parsed, const jobs::RateLimits& limits,
                                               const Frame& frame, TimeNs now, Outcome& out) noexcept {
  const jobs::Job& job = *parsed.job;
  const auto why = rates_.refuse(job.id, limits, states_[raw(job.id)], parsed.sender(), now);
  if (why) out = drop(parsed, frame, *why, now);
  return why.has_value();
}

// Counts a packet that was not dropped. fresh: a new contribution, which renews its rank's lease. Anything
// else may be a replay of a dead rank; an idle rank has its heartbeats.
template <class Exec>
void Pipeline<Exec>::count(const Parsed& parsed, Verdict verdict, bool fresh, TimeNs now) noexcept {
  const std::uint32_t row = raw(parsed.job->id);
  ++counters_[row].verdicts[static_cast<std::size_t>(verdict)];
  if (fresh) states_[row].last_seen[raw(parsed.contribution.rank)] = now;
}

template <class Exec>
Outcome Pipeline<Exec>::outcome(const Parsed& parsed, Verdict verdict) noexcept {
  return {.verdict = verdict,
          .ranks = verdict == Verdict::kComplete ? parsed.job->members : bit_of(parsed.contribution.rank),
          .job = parsed.job,
          .payload = parsed.payload,
          .payload_bytes = parsed.payload_bytes};
}

template <class Exec>
Outcome Pipeline<Exec>::conclude(const Parsed& parsed, Verdict verdict, bool fresh, TimeNs now) noexcept {
  count(parsed, verdict, fresh, now);
  return outcome(parsed, verdict);
}

// Of the jobs that handle() does not serve itself.
template <class Exec>
[[gnu::noinline]] Outcome Pipeline<Exec>::contribute(Parsed& parsed, const Frame& frame,
                                                     TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  if (shares_slots(job.discipline)) return contribute_shared(parsed, frame, now);
  return job.racked != 0 ? contribute_in_rack(parsed, frame, now) : contribute_late(parsed, frame, now);
}

// What becomes of a contribution that was not plainly added. Out of the way of those that were.
template <class Exec>
[[gnu::noinline]] Outcome Pipeline<Exec>::conclude_pool(Parsed& parsed, const Frame& frame, Ruling ruling,
                                                        const Mismatch& why, bool suspect,
                                                        TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  if (ruling.verdict == Verdict::kDrop) {
    report(job, p, ruling.drop, why, suspect);
    return drop(parsed, frame, ruling.drop, now);
  }
  const bool repeats = ruling.verdict == Verdict::kRepeat;
  if (ruling.verdict != Verdict::kAbsorb) {
    // As it came, unless one of the two leaves something out.
    if (leaves_out(p.form) || !jobs::is_dense(p.sum)) [[unlikely]]
      parsed.payload_bytes = shorten(p);
    write_result(parsed.payload, job, p, repeats ? kFlagRetransmit : 0, *kernels_, 0, repeats ? 0 : p.before);
  }
  return conclude(parsed, ruling.verdict, !repeats, now);
}

// What control has to hear of a contribution that was dropped.
template <class Exec>
void Pipeline<Exec>::report(const jobs::NativeJob& job, const Contribution& p, Drop why,
                            const Mismatch& other, bool suspect) noexcept {
  if (why == Drop::kMismatch) {
    events_.push({EventKind::kMismatch, job.id, job.epoch, p.chunk, p.rank, other.contributors, p.sum.shape,
                  other.shape});
  } else if (why == Drop::kSum && suspect) {
    events_.push({EventKind::kPoisoned, job.id, job.epoch, p.chunk, p.rank, 0, p.sum.shape, {}});
  }
}

// What the register of p's rank found missing, the oldest first, as the wire has it.
template <class Exec>
void Pipeline<Exec>::note_missing(const Parsed& parsed, Outcome& out) noexcept {
  const Contribution& p = parsed.contribution;
  std::uint64_t reversed = 0;
  const auto oldest = static_cast<std::uint32_t>(std::bit_width(p.missing)) - 1;
  for (std::uint64_t rest = p.missing; rest != 0; rest &= rest - 1)
    reversed |= 1ULL << (oldest - static_cast<std::uint32_t>(std::countr_zero(rest)));
  const Rank rank{static_cast<std::uint16_t>(p.number % kMaxRanks)};  // p.rank may be another by now
  nack_ = {&parsed.native(), rank, p.sequence - oldest, reversed};
  out.nack = true;
}

// A QUERY that names nobody and has found no result: its sender is told who is in the chunk, and all that come to
// other boxes count as if they were, for it is not here that they are waited for. When everybody's contribution was
// seen, and nothing is known of the chunk any more, it was finished long ago, most likely, and its entry reclaimed: a
// peer is asked, one after the other; with DIRECT an external server.
template <class Exec>
Outcome Pipeline<Exec>::tell(Parsed& parsed, const Found& found, TimeNs now) noexcept {
  if (found.gone) {
    const Outcome relayed = conclude(parsed, Verdict::kRelay, false, now);
    const bool to_server = parsed.contribution.direct && parsed.native().server == ServerKind::kExternal;
    return to_server ? ask_server(parsed, relayed) : ask_peer(parsed, relayed);
  }
  write_reject(std::span<std::byte, kHeaderBytes>{parsed.payload, kHeaderBytes}, header_at(parsed.payload),
               RejectReason::kWaiting, parsed.job->result_cookie, found.contributors | found.elsewhere,
               *kernels_);
  Outcome out = conclude(parsed, Verdict::kTell, false, now);
  out.to = parsed.contribution.rank;
  return out;
}

// A complete entry answers at once; else the named peer is asked, and when the chunk is filling the asker
// also learns whom everybody waits for.
template <class Exec>
Outcome Pipeline<Exec>::query(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  const Found found = find(job, p);
  if (found.complete) {
    const std::uint32_t bytes = jobs::datagram_bytes(p.sum);
    const auto offset = static_cast<std::uint32_t>(parsed.payload - frame.data);
    if (offset + bytes > frame.capacity) return drop(parsed, frame, Drop::kRoom, now);
    if (!found.at_server) exec_.values(Op::kRead, p, false);
    parsed.payload_bytes = shorten(p);
    write_result(parsed.payload, job, p, kFlagRetransmit, *kernels_, found.missing);
    return conclude(parsed, Verdict::kRepeat, false, now);
  }
  if (header_at(parsed.payload).contributors.host() == 0)
    return found.local ? tell_in_rack(parsed, frame, now) : tell(parsed, found, now);
  if (job.racked != 0 && p.direct) [[unlikely]]
    return ask_above(parsed, now);
  const auto peer =
      static_cast<std::uint16_t>(std::countr_zero(header_at(parsed.payload).contributors.host()));
  relay_header(parsed.payload, job.result_cookie, *kernels_);
  Outcome out = conclude(parsed, Verdict::kRelay, false, now);
  out.to = Rank{peer};
  out.reject = found.contributors != 0 && rejects_.take(open_frame(frame, options_.box).source, now);
  out.reject_reason = RejectReason::kWaiting;
  out.reject_contributors = found.contributors | found.elsewhere;
  return out;
}

template <class Exec>
Outcome Pipeline<Exec>::answer(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  const Header h = header_at(parsed.payload);
  const std::uint64_t missing = job.members & ~h.contributors.host();
  const std::uint32_t keys = job.racked != 0 ? job.parent.key_sum
                             : missing == 0  ? job.key_sum
                                             : jobs::keys_of(job, h.contributors.host());
  if (!matches(exec_.payload_sums(p), keys, p)) return drop(parsed, frame, Drop::kSum, now);
  // Nobody will complete what the server began of this chunk: of who had lost the result, and contributed.
  if (missing == 0 && job.server == ServerKind::kEmbedded) server_.forget_incomplete(merge_job(job), p.chunk);
  const Rank asker{static_cast<std::uint16_t>(h.slot.host())};
  if (job.racked != 0 && raw(asker) >= kRackRankBase) return answer_above(parsed, now);
  write_result(parsed.payload, job, p, kFlagRetransmit, *kernels_, missing);
  Outcome out = conclude(parsed, Verdict::kRelay, false, now);
  out.to = asker;
  if (raw(asker) >= job.world) towards(job, server_index(asker), p.priority, out);
  return out;
}

// What workers and servers say beside contributions.
template <class Exec>
Outcome Pipeline<Exec>::handle_native(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Outcome refused;
  if (RateGate::concerns(job, states_[raw(job.id)], parsed.sender()) &&
      exceeds(parsed, job.rates, frame, now, refused))
    return refused;
  switch (parsed.type) {
    case PacketType::kQuery:
      return query(parsed, frame, now);
    case PacketType::kResult:
    case PacketType::kResend:
      return relay_from_server(parsed, frame, now);
    case PacketType::kFlush:
      return flush(parsed, frame, now);
    case PacketType::kAnswer:
      return answer(parsed, frame, now);
    case PacketType::kZeroRun:
      return contribute_run(parsed, frame, now);
    case PacketType::kContribute:  // handle() sees to it
    case PacketType::kPartial:
    case PacketType::kReject:
    case PacketType::kJoin:
    case PacketType::kJoined:
    case PacketType::kLeave:
    case PacketType::kHeartbeat:
    case PacketType::kAbort:
    case PacketType::kProbe:
    case PacketType::kNack:
    case PacketType::kChallenge:
    case PacketType::kPlan:
    case PacketType::kLost:
    case PacketType::kEnlist:
      break;  // the gates let none of them in
  }
  return drop(parsed, frame, Drop::kType, now);
}

template <class Exec>
Outcome Pipeline<Exec>::punt(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  const jobs::Binding source = open_frame(frame, options_.box).source;
  const Header h = header_at(parsed.payload);
  const jobs::NativeJob* job = job_of_member(h, source, table_);
  if (job == nullptr && table_ != nullptr) job = job_of_parent(h, source, *table_);
  if (const auto why = punts_.refuse(job, source, now)) {
    parsed.job = job;
    return drop(parsed, frame, *why, now);
  }
  ++counters_[0].verdicts[static_cast<std::size_t>(Verdict::kPunt)];
  return {.verdict = Verdict::kPunt,
          .member = job != nullptr,
          .payload = parsed.payload,
          .payload_bytes = parsed.payload_bytes};
}

// Of anything but a contribution, which handle() asks for first: a jump through a table would cost every
// packet.
template <class Exec>
[[gnu::noinline]] Outcome Pipeline<Exec>::handle_other(Parsed& parsed, const Frame& frame,
                                                       TimeNs now) noexcept {
  Verdict verdict{};
  switch (parsed.kind) {
    case Kind::kNative:
      return handle_native(parsed, frame, now);
    case Kind::kAbove:
      return handle_above(parsed, frame, now);
    case Kind::kSession:
      return contribute_session(parsed, frame, now);
    case Kind::kBad:
      return drop(parsed, frame, parsed.drop, now);
    case Kind::kForeign:
      verdict = Verdict::kForward;
      break;
    case Kind::kControl:
      return punt(parsed, frame, now);
    case Kind::kElsewhere:
      verdict = Verdict::kHandOver;
      break;
  }
  const std::uint32_t row = parsed.job != nullptr ? raw(parsed.job->id) : 0;
  ++counters_[row].verdicts[static_cast<std::size_t>(verdict)];
  return {.verdict = verdict,
          .owner = parsed.owner,
          .job = parsed.job,
          .payload = parsed.payload,
          .payload_bytes = parsed.payload_bytes};
}

template <class Exec>
[[gnu::always_inline]] inline bool Pipeline<Exec>::handle_one(Parsed& parsed, const Frame& frame, TimeNs now,
                                                              Outcome& out) noexcept {
  if constexpr (requires(Exec & x) { x.begin(); }) exec_.begin();
  if (parsed.kind != Kind::kNative || parsed.type != PacketType::kContribute) [[unlikely]] {
    out = handle_other(parsed, frame, now);
    return true;
  }
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  JobState& state = states_[raw(job.id)];
  if (RateGate::concerns(job, state, p.bit) && exceeds(parsed, job.rates, frame, now, out)) [[unlikely]]
    return true;
  if (job.is_plain_pool()) [[likely]] {
    const bool suspect = state.suspect();
    if (suspect) [[unlikely]]
      p.verify = true;
    Mismatch why;
    const Ruling ruling = aggregate<Pool>(exec_, job, state, p, why);
    if (ruling.verdict == Verdict::kAbsorb && p.missing == 0) [[likely]] {
      count(parsed, Verdict::kAbsorb, true, now);
      return false;
    }
    out = conclude_pool(parsed, frame, ruling, why, suspect, now);
  } else {
    out = contribute(parsed, frame, now);
  }
  if (p.missing != 0) [[unlikely]]
    note_missing(parsed, out);
  return out.verdict != Verdict::kAbsorb || out.server != kNoServer || out.nack;
}

template <class Exec>
std::size_t Pipeline<Exec>::handle(std::span<const Frame> frames, std::span<Parsed> parsed, std::size_t first,
                                   TimeNs now, Outcome& out) noexcept {
  for (std::size_t i = first; i < frames.size(); ++i) {
    enter_step(exec_, Step::kHandle);
    const std::size_t ahead = parsed[i].payload_bytes > kLongPacket ? 1 : kValuesAhead;
    const Contribution& later = parsed[std::min(i + ahead, frames.size() - 1)].contribution;
    exec_.look_ahead(later.values, later.line);
    if (handle_one(parsed[i], frames[i], now, out)) return i;
  }
  return frames.size();
}

template <class Exec>
void Pipeline<Exec>::release(JobId job, jobs::LineRange lines, std::uint32_t elements, std::uint64_t members,
                             std::uint32_t in_front) noexcept {
  const std::uint32_t step = in_front + elements / 16;
  for (std::uint32_t line = 0; elements != 0 && line + step <= lines.count; line += step) {
    const Head head = exec_.head(lines.first + line);
    if (head.tag != 0 && head.contributors != members) --states_[raw(job)].occupancy;
  }
  exec_.clear(lines);
}

}  // namespace tally::pipeline

#pragma once
// What Pipeline does for jobs with shared slots and their embedded server. Included by pipeline_definitions.h
// alone.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "pipeline/pipeline.h"
#include "pipeline/reply.h"
#include "pipeline/shared_program.h"

namespace tally::pipeline {

template <class Exec>
void Pipeline<Exec>::adopt(const jobs::JobTable* table) noexcept {
  owed_.chunks = 0;
  // An epoch that is over leaves nothing at the server: a finished sum that stayed would be taken for that of
  // the same number 2^32 chunks later. Its entries are taken or swept like any others.
  if (table_ != nullptr && options_.shared.entries != 0) {
    for (std::uint32_t id = 1; id <= kMaxJobs; ++id) {
      const jobs::NativeJob* const before = table_->find(JobId{static_cast<std::uint16_t>(id)});
      if (before == nullptr || before->server != ServerKind::kEmbedded) continue;
      const jobs::NativeJob* const now = table != nullptr ? table->find(before->id) : nullptr;
      if (now == nullptr || now->epoch != before->epoch) server_.forget(before->id);
    }
  }
  table_ = table;
  late_.adopt(table);
}

// The filling or complete entry of p's chunk; kNoEntry: there is none. Control's way to it, outside any pass.
template <class Exec>
std::uint32_t Pipeline<Exec>::entry_of(const jobs::NativeJob& job, const Contribution& p) noexcept {
  std::uint32_t entry = raw(p.slot) / job.shards;
  if (job.discipline == Discipline::kShared) {
    const LedgerRow row = exec_.template peek<LedgerReg>(job.slots.first * jobs::kLedgerRowsPerLine + entry);
    if (row.seen == 0 || row.chunk != raw(p.chunk) || row.entry == 0) return kNoEntry;
    if (row.entry == LedgerRow::kAsking) return kNoEntry;
    entry = row.entry - 1;
  }
  const Head head = exec_.head(slots_.line_of(entry));
  return head.tag == raw(job.epoch) && head.chunk == raw(p.chunk) ? entry : kNoEntry;
}

// A filling entry is of no use to its job any more.
template <class Exec>
void Pipeline<Exec>::free_entry(std::uint32_t entry, JobState& state) noexcept {
  exec_.template undo<HeadReg>(slots_.line_of(entry), Head{});
  slots_.released(entry);
  --state.occupancy;
}

template <class Exec>
server::MergeResult Pipeline<Exec>::serve(const jobs::NativeJob& job, Contribution& p, TimeNs now) noexcept {
  server::Partial partial{.chunk = p.chunk,
                          .contributors = p.bit,
                          .keys = p.key,
                          .sum = p.sum,
                          .values = p.values,
                          .room = p.room};
  const server::MergeResult result = server_.merge(merge_job(job), partial, now);
  JobState& state = states_[raw(job.id)];
  if (result.merged == server::Merged::kBadSum || result.merged == server::Merged::kBadInput)
    state.finished_badly();
  if (result.merged != server::Merged::kComplete && result.merged != server::Merged::kKnown) return result;
  p.slot = SlotIndex{slot_of(jobs::slot_map(job), p.chunk)};
  p.sum = partial.sum;
  if (result.merged != server::Merged::kComplete) return result;
  state.finished_well();
  ++state.slots.served;
  exec_.again();  // to a chip what its server makes is a packet of its own
  p.before = finish(exec_, job, p.chunk);
  if (const std::uint32_t entry = entry_of(job, p); entry != kNoEntry && slots_.filling(entry))
    free_entry(entry, state);
  return result;
}

// The last arrival came with DIRECT and is at the server: what the others have in the entry goes along,
// because nobody else will come to finish it.
template <class Exec>
server::MergeResult Pipeline<Exec>::serve_along(const jobs::NativeJob& job, Contribution& p,
                                                const server::MergeResult& otherwise, TimeNs now) noexcept {
  const std::uint32_t entry = entry_of(job, p);
  if (entry == kNoEntry || !slots_.filling(entry) || p.room < slots_.region().elements()) return otherwise;
  exec_.again();
  return take_out(entry, p) != nullptr ? serve(job, p, now) : otherwise;
}

// What a filling entry holds goes into p, and the entry is free. The job whose it is; nullptr: it is of no
// use to anybody, because its epoch is over or its chunk a span behind.
template <class Exec>
const jobs::NativeJob* Pipeline<Exec>::take_out(std::uint32_t entry, Contribution& p) noexcept {
  p.line = slots_.line_of(entry);
  const Owner owner = exec_.template peek<OwnerReg>(p.line);
  const Head head = exec_.head(p.line);
  p.chunk = Chunk{head.chunk};
  p.bit = head.contributors;
  p.priority = owner.priority;
  const jobs::NativeJob* const job = table_ != nullptr ? table_->find(JobId{owner.job}) : nullptr;
  const bool lives = job != nullptr && raw(job->epoch) == head.tag && is_within_span(*job, p.chunk);
  if (lives) {
    p.key = jobs::keys_of(*job, p.bit);
    read_sum(exec_, p.line, p.sum);
    p.form = form_of(p.sum);
    exec_.values(Op::kRead, p, false);
  }
  free_entry(entry, states_[owner.job]);
  return lives ? job : nullptr;
}

inline void towards(const jobs::NativeJob& job, std::uint32_t server, std::uint8_t priority,
                    Outcome& out) noexcept {
  // One that this box has lost sight of (several boxes alone): as if it were lost on the way.
  if (!jobs::knows(job, server_rank(server))) [[unlikely]] {
    if (out.verdict == Verdict::kRelay) out.verdict = Verdict::kAbsorb;
    return;
  }
  out.server = static_cast<std::uint8_t>(server);
  out.priority = priority;
}

// A contribution of a chunk that is gone from here becomes a question to whoever knows most of it. Where everybody
// comes to this box the chunk is finished, most likely, and any peer has it. Where others come to other boxes it may
// as well wait at the server, which alone can tell, and which also learns by the question what it has lost.
template <class Exec>
Outcome Pipeline<Exec>::ask(const Parsed& parsed, Outcome out) noexcept {
  const jobs::NativeJob& job = parsed.native();
  const bool elsewhere_too = job.planned && jobs::here_of(job, parsed.contribution.chunk) != job.members;
  return elsewhere_too ? ask_server(parsed, out) : ask_peer(parsed, out);
}

// The contribution becomes the QUERY that its sender would come to think of after some time-outs; one peer
// after the other.
template <class Exec>
Outcome Pipeline<Exec>::ask_peer(const Parsed& parsed, Outcome out) noexcept {
  const jobs::NativeJob& job = parsed.native();
  const std::uint32_t rank = raw(parsed.contribution.rank);
  const std::uint64_t peers = job.enlisted & ~bit_of(parsed.contribution.rank);
  if (job.planned && peers == 0) [[unlikely]] {  // nobody else is here
    out.verdict = Verdict::kAbsorb;
    return out;
  }
  const std::uint32_t next = 1 + asks_++ % (job.world - 1U);
  out.verdict = Verdict::kRelay;
  out.to = Rank{static_cast<std::uint16_t>((rank + next) % job.world)};
  if (job.planned && !jobs::knows(job, out.to)) [[unlikely]] {
    const std::uint64_t behind = peers >> raw(out.to) << raw(out.to);
    out.to = Rank{static_cast<std::uint16_t>(std::countr_zero(behind != 0 ? behind : peers))};
  }
  out.payload_bytes = kHeaderBytes;
  write_query(out.payload, job, parsed.contribution, out.to, *kernels_);
  return out;
}

// The server is asked: it may have made a result that reached nobody, or lack what was lost on the way to it.
// The question waits behind the contributions of its class, so the server has what was sent before it.
template <class Exec>
Outcome Pipeline<Exec>::ask_server(const Parsed& parsed, Outcome out) noexcept {
  const jobs::NativeJob& job = parsed.native();
  const Contribution& p = parsed.contribution;
  out.payload_bytes = kHeaderBytes;
  write_query(out.payload, job, p, p.rank, *kernels_);
  towards(job, jobs::server_of(job, p.chunk), p.priority, out);
  return out;
}

template <class Exec>
Outcome Pipeline<Exec>::contribute_shared(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  const bool suspect = states_[raw(job.id)].suspect();
  p.verify |= suspect;

  Mismatch why;
  SharedProgram<Exec> program(exec_, slots_, server_, states_.get(), *table_, now);
  const SharedRuling ruling = program.run(job, p, why);
  if (ruling.leaving == nullptr) {
    if (ruling.verdict == Verdict::kComplete || ruling.verdict == Verdict::kRepeat) {
      parsed.payload_bytes = jobs::datagram_bytes(p.sum);
      const bool repeats = ruling.verdict == Verdict::kRepeat;
      write_result(parsed.payload, job, p, repeats ? kFlagRetransmit : 0, *kernels_, 0,
                   repeats ? 0 : p.before);
    }
    if (ruling.asks) return ask(parsed, conclude(parsed, Verdict::kRelay, false, now));
    if (ruling.verdict != Verdict::kDrop) {
      Outcome out = conclude(parsed, ruling.verdict, ruling.fresh, now);
      if (job.planned) out.ranks &= job.enlisted;
      return out;
    }
    report(job, p, ruling.drop, why, suspect);
    return drop(parsed, frame, ruling.drop, now);
  }

  const jobs::NativeJob& owner = *ruling.leaving;
  const Rank sender = p.rank;
  if (ruling.verdict == Verdict::kEvict && !is_within_span(owner, p.chunk))
    return conclude(parsed, ruling.verdict, ruling.fresh, now);
  if (owner.server == ServerKind::kExternal) return depart(parsed, ruling, frame, now);
  server::MergeResult result = serve(owner, p, now);
  const bool own = ruling.verdict == Verdict::kBypass;  // what went to the server is the packet as it came
  if (result.merged == server::Merged::kMismatch) {
    // Of a partial sum anyone in it may be named: all of them sent the same.
    const Rank one{static_cast<std::uint16_t>(std::countr_zero(p.bit))};
    events_.push({EventKind::kMismatch, owner.id, owner.epoch, p.chunk, own ? sender : one, result.held,
                  p.sum.shape, result.stored});
  }
  if (own && result.merged == server::Merged::kMismatch) return drop(parsed, frame, Drop::kMismatch, now);
  if (own && result.merged == server::Merged::kBadInput) return drop(parsed, frame, Drop::kSum, now);
  if (own && result.merged == server::Merged::kBadSum) return drop(parsed, frame, Drop::kBadSum, now);
  // By hash no ledger tells a replay, which renews no lease; the server's table does.
  const bool replayed =
      own && (result.merged == server::Merged::kInside || result.merged == server::Merged::kKnown);
  const bool fresh = ruling.fresh && !replayed;
  if (p.direct && ruling.last && result.merged != server::Merged::kComplete &&
      result.merged != server::Merged::kKnown)
    result = serve_along(job, p, result, now);

  const bool complete = result.merged == server::Merged::kComplete;
  const bool result_leaves = complete || result.merged == server::Merged::kKnown;
  // Chunks that the server completes have a counter of their own, whoever's packet did it.
  const bool repeats = result.merged == server::Merged::kKnown && own;
  Outcome out = conclude(parsed, repeats ? Verdict::kRepeat : ruling.verdict, fresh, now);
  if (!result_leaves) return ruling.asks ? ask_peer(parsed, out) : out;
  out.verdict = complete ? Verdict::kComplete : Verdict::kRepeat;
  out.ranks = complete ? owner.members : p.bit;
  out.job = &owner;
  out.payload_bytes = jobs::datagram_bytes(p.sum);
  write_result(parsed.payload, owner, p, complete ? 0 : kFlagRetransmit, *kernels_, 0,
               complete ? p.before : 0);
  return out;
}

// Whose contributions of a chunk came by, of those who are here, also when they are at a server; 0: not known. By
// hash nothing tells who is there, and what the entry holds would name wrong ranks.
template <class Exec>
std::uint64_t Pipeline<Exec>::seen_of(const jobs::NativeJob& job, const Contribution& p) noexcept {
  if (job.discipline != Discipline::kShared) return 0;
  const std::uint32_t line = job.slots.first * jobs::kLedgerRowsPerLine;
  const LedgerRow row = exec_.template peek<LedgerReg>(line + raw(p.slot) / job.shards);
  if (row.chunk != raw(p.chunk)) return 0;
  return row.entry == LedgerRow::kAsking ? jobs::here_of(job, p.chunk) : row.seen;
}

// The entry is asked first, the server's table only when there is none.
template <class Exec>
Found Pipeline<Exec>::find(const jobs::NativeJob& job, Contribution& p) noexcept {
  if (!shares_slots(job.discipline)) return look_up(exec_, job, p);
  std::uint64_t held = 0;
  const std::uint64_t seen = seen_of(job, p);
  if (const std::uint32_t entry = entry_of(job, p); entry != kNoEntry) {
    p.line = slots_.line_of(entry);
    const Found found = look_up(exec_, job, p);
    if (found.complete) return found;
    held = found.contributors;
  }
  const std::uint64_t here = jobs::here_of(job, p.chunk);
  const bool everybody = seen == here;  // nobody is waited for
  if (job.server == ServerKind::kExternal) {
    if (everybody) return {.gone = held == 0 && job.world > 1};  // who is alone has nobody to ask
    return {.contributors = seen, .elsewhere = job.members & ~here};
  }
  server::Partial partial{.chunk = p.chunk, .values = p.values, .room = p.room};
  if (!server_.read(merge_job(job), partial)) {
    held |= server_.contributors(merge_job(job), p.chunk);
    return {.contributors = held, .gone = everybody && held == 0};
  }
  p.sum = partial.sum;
  return {.complete = true, .at_server = true, .contributors = job.members};
}

template <class Exec>
bool Pipeline<Exec>::aged(TimeNs now) noexcept {
  constexpr std::uint32_t kLook = 4;  // entries and states each time
  // Incomplete states outlive two rounds in which workers offer again what waits (every 2 s at the latest):
  // what one worker offers must still be there when the next one does. Longer they must not live, for a
  // table that is full of them takes nothing else.
  constexpr TimeNs kStateAge = 4 * kSecond;
  if (find_late(now)) return true;
  server_.sweep(now > kStateAge ? now - kStateAge : 0, kLook);
  if (slots_.filling() == 0) return false;
  for (std::uint32_t i = 0; i < kLook; ++i) {
    const std::uint32_t entry = slots_.next_to_sweep();
    if (!slots_.filling(entry)) continue;
    const Owner owner = exec_.template peek<OwnerReg>(slots_.line_of(entry));
    if (!untouched_for(owner, jobs::stamp(now), states_[owner.job].age())) continue;
    aged_ = entry;
    return true;
  }
  return false;
}

template <class Exec>
Outcome Pipeline<Exec>::sweep(std::span<std::byte> payload, TimeNs now) noexcept {
  if (late_.found()) return finish_late(payload);
  Contribution p{.values = payload.data() + kHeaderBytes};
  p.room = static_cast<std::uint32_t>((payload.size() - kHeaderBytes) / 4);
  ++states_[exec_.template peek<OwnerReg>(slots_.line_of(aged_)).job].slots.swept;
  if constexpr (requires(Exec & x) { x.begin(); }) exec_.begin();
  const jobs::NativeJob* const job = take_out(aged_, p);
  if (job == nullptr) return {};
  if (job->server == ServerKind::kExternal) return partial_of(*job, p, payload.data());
  const server::MergeResult result = serve(*job, p, now);
  const bool complete = result.merged == server::Merged::kComplete;
  if (!complete && result.merged != server::Merged::kKnown) return {};
  write_result(payload.data(), *job, p, complete ? 0 : kFlagRetransmit, *kernels_, 0,
               complete ? p.before : 0);
  return {.verdict = complete ? Verdict::kComplete : Verdict::kRepeat,
          .ranks = complete ? job->members : p.bit,
          .job = job,
          .payload = payload.data(),
          .payload_bytes = jobs::datagram_bytes(p.sum)};
}

// Results older than a span are nobody's business any more.
template <class Exec>
bool Pipeline<Exec>::is_within_span(const jobs::NativeJob& job, Chunk chunk) noexcept {
  const High high = exec_.template peek<HighReg>(raw(job.id));
  return high.epoch != raw(job.epoch) ||
         serial_difference(chunk, Chunk{high.chunk}) > -static_cast<std::int32_t>(job.span);
}

// What Pipeline does for jobs with external servers: what goes to them, and what comes from them. Included by
// pipeline_definitions.h alone.

// The packet at `payload` becomes the PARTIAL of what p holds. No counter changes.
template <class Exec>
Outcome Pipeline<Exec>::partial_of(const jobs::NativeJob& job, const Contribution& p,
                                   std::byte* payload) noexcept {
  write_partial(payload, job, p, *kernels_);
  Outcome out{.verdict = Verdict::kRelay, .job = &job, .payload = payload};
  out.payload_bytes = jobs::datagram_bytes(p.sum);
  towards(job, jobs::server_of(job, p.chunk), p.priority, out);
  return out;
}

// The packet leaves for the server of the job whose sum it carries: as it came, or as a PARTIAL. A filling
// entry does not go along with the last arrival, as it does with the embedded server: one frame cannot become
// two. The server's timer fetches it.
// What goes by is verified here, as the embedded server does: the server only drops what does not match, and
// the job would hang with nobody to blame.
template <class Exec>
Outcome Pipeline<Exec>::depart(Parsed& parsed, const SharedRuling& ruling, const Frame& frame,
                               TimeNs now) noexcept {
  const jobs::NativeJob& owner = *ruling.leaving;
  const Contribution& p = parsed.contribution;
  if (ruling.verdict == Verdict::kBypass && !p.verify && !payload_matches(exec_, p)) {
    states_[raw(owner.id)].finished_badly();
    if (ruling.fresh) unsee(exec_, owner, p);
    return drop(parsed, frame, Drop::kSum, now);
  }
  // By hash no ledger tells a replay that goes by, which renews no lease; what the server knows is not heard.
  const bool told = ruling.verdict != Verdict::kBypass || !by_hash(owner.discipline);
  Outcome out = conclude(parsed, ruling.verdict, ruling.fresh && told, now);
  if (ruling.verdict == Verdict::kBypass) {
    const Be slot{raw(p.slot)};  // the server need not know of sequences
    std::memcpy(parsed.payload + offsetof(Header, slot), &slot, sizeof slot);
    relay_header(parsed.payload, owner.result_cookie, *kernels_,
                 ruling.collision ? std::uint8_t{kFlagCollision} : std::uint8_t{0});
    towards(owner, jobs::server_of(owner, p.chunk), p.priority, out);
    return out;
  }
  const Verdict verdict = out.verdict;
  out = partial_of(owner, p, parsed.payload);
  out.verdict = verdict;
  return out;
}

template <class Exec>
Outcome Pipeline<Exec>::conclude_server(const Parsed& parsed) noexcept {
  ++counters_[raw(parsed.job->id)].verdicts[static_cast<std::size_t>(Verdict::kRelay)];
  return {.verdict = Verdict::kAbsorb,
          .job = parsed.job,
          .payload = parsed.payload,
          .payload_bytes = parsed.payload_bytes};
}

// To the ranks that it names: a RESULT as the box's own, a RESEND as the server's.
template <class Exec>
Outcome Pipeline<Exec>::relay_from_server(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  const std::uint64_t ranks = p.bit;
  const bool result = parsed.type == PacketType::kResult;
  if (result && !matches(exec_.payload_sums(p), job.key_sum, p)) return drop(parsed, frame, Drop::kSum, now);
  Outcome out = conclude_server(parsed);
  // To all whose contributions come through this box: to it the chunk is finished.
  const bool to_all = result && ranks == jobs::through_of(job, p.chunk);
  out.verdict = to_all ? Verdict::kComplete : Verdict::kRepeat;
  out.ranks = job.planned ? ranks & job.enlisted : ranks;
  if (out.ranks == 0) out.verdict = Verdict::kAbsorb;  // nothing leaves
  if (!result) {
    relay_header(parsed.payload, job.result_cookie, *kernels_);
    return out;
  }
  const std::uint8_t flags = header_at(parsed.payload).flags & kFlagRetransmit;
  std::uint32_t before = 0;
  if (to_all && flags == 0) {
    ++states_[raw(job.id)].slots.served;
    before = finish(exec_, job, p.chunk);
  }
  write_result(parsed.payload, job, p, static_cast<std::uint8_t>(flags | kFlagServed), *kernels_, 0, before);
  return out;
}

// What is filling goes to the server and is free; what is complete is told; of anything else nothing is said.
template <class Exec>
Outcome Pipeline<Exec>::flush(Parsed& parsed, const Frame& frame, TimeNs) noexcept {
  const jobs::NativeJob& job = parsed.native();
  Contribution& p = parsed.contribution;
  const std::uint32_t server = server_index(p.rank);
  const std::uint32_t entry = shares_slots(job.discipline) ? entry_of(job, p) : kNoEntry;
  if (entry == kNoEntry) return conclude_server(parsed);
  p.line = slots_.line_of(entry);
  const jobs::Shape stored = exec_.template peek<ShapeReg>(p.line);
  const Owner owner = exec_.template peek<OwnerReg>(p.line);
  if (p.room < jobs::words_of(stored)) return drop(parsed, frame, Drop::kRoom, 0);
  Outcome out = conclude_server(parsed);
  if (slots_.filling(entry)) {
    if (take_out(entry, p) == nullptr) return out;
    ++states_[raw(job.id)].slots.flushed;
    return partial_of(job, p, parsed.payload);
  }
  look_up(exec_, job, p);
  exec_.values(Op::kRead, p, false);
  write_result(parsed.payload, job, p, kFlagRetransmit, *kernels_);
  out.payload_bytes = jobs::datagram_bytes(p.sum);
  out.verdict = Verdict::kRelay;
  towards(job, server, owner.priority, out);
  return out;
}

}  // namespace tally::pipeline

#include "ps/ps_job.h"

#include <bit>
#include <utility>

#include "tally/mix64.h"

namespace tally::ps {

PsJob::PsJob(const PsShared& shared, std::uint16_t index, Rank self, PsJobStatistics& statistics)
    : shared_(shared),
      index_(index),
      self_(self),
      statistics_(statistics),
      job_{.id = JobId{static_cast<std::uint16_t>(index + 1)}},
      timers_(shared.timers, index) {}

void PsJob::enter(const engine::Membership& membership, std::shared_ptr<const Plan> plan, BoxIndex home) {
  timers_.stop_all();
  shared_.table.forget(job_.id);
  membership_ = membership;
  boxes_.enter(membership, std::move(plan), home);
  if (boxes_.planned()) timers_.forget_times();
  heard_.assign(boxes_.planned() ? boxes_.size() : 0, {});
  job_.generation = membership.generation;
  job_.epoch = membership.epoch;
  job_.members = membership.members();
  job_.key_sum = membership.key_sum;
  for (std::uint16_t r = 0; r < membership.world; ++r) keys_[r] = rank_key(membership.generation, Rank{r});
  high_.reset();
}

void PsJob::end() noexcept {
  timers_.stop_all();
  shared_.table.forget(job_.id);
  membership_.reset();
}

std::optional<Refused> PsJob::receive(const engine::Datagram& datagram, BoxIndex box, TimeNs now) {
  const Header& header = datagram.header;
  if (const auto wrong = check_sender(header)) return wrong;
  if (const auto wrong = check_chunk(header)) return wrong;
  if (header.type == PacketType::kQuery) {
    on_query(header, box, now);
    return std::nullopt;
  }
  const std::uint64_t ranks = header.contributors.host();
  server::Partial p{.chunk = header.chunk_id(),
                    .contributors = ranks,
                    .keys = keys_of(ranks),
                    .sum = jobs::sum_of(header),
                    // Without room the table only reads them: a finished sum is read from it when it is sent.
                    .values = const_cast<std::byte*>(datagram.payload.data()),
                    .room = 0};
  const server::StateIndex at = shared_.table.state_of(job_, p.chunk);
  const StateTimer* const timer = timers_.find(at);
  Before before{.held = shared_.table.contributors(job_, p.chunk), .box = box};
  if (boxes_.planned()) note_whole(header, timer, before);
  const bool answer = header.type != PacketType::kContribute && timer != nullptr;
  const server::MergeResult result = shared_.table.merge(job_, p, now);
  if (result.merged == server::Merged::kBadInput) return Refused::kSum;
  ++(header.type == PacketType::kContribute ? statistics_.contributions
     : header.type == PacketType::kPartial  ? statistics_.partials
                                            : statistics_.sums);
  if (answer) {
    timers_.answered(at, box, now);
    statistics_.flush_time = timers_.flush_time();
  }
  advance(p.chunk, ranks, box);
  stop_timers(p.chunk, at);
  after_merge(header, result, before, now);
  return std::nullopt;
}

void PsJob::note_whole(const Header& header, const StateTimer* timer, Before& before) const noexcept {
  const std::uint64_t here = boxes_.here(before.box, header.chunk_id());
  before.was_whole = header.type == PacketType::kPartial && (here & ~header.contributors.host()) == 0;
  before.whole = timer == nullptr ? 0 : timer->whole;
  if (before.was_whole) before.whole |= std::uint64_t{1} << before.box;
}

// before: the chunk's state as it was. It may be complete or gone now; and a new state may be complete at
// once, in the place of an incomplete one that had to give way with its timer running.
void PsJob::stop_timers(Chunk chunk, server::StateIndex before) noexcept {
  const server::StateIndex after = shared_.table.state_of(job_, chunk);
  const bool waits = after != server::kNoState && shared_.table.contributors(job_, chunk) != job_.members;
  if (timers_.find(before) != nullptr && (before != after || !waits)) timers_.stop(before);
  if (timers_.find(after) != nullptr && !waits) timers_.stop(after);
}

// The box has seen everybody's contribution, and has none of them any more. The question has waited behind
// them on the way here: what has not come by now was lost. Of several boxes that is so for the one that asks.
void PsJob::on_query(const Header& header, BoxIndex box, TimeNs now) noexcept {
  ++statistics_.queries;
  const Chunk chunk = header.chunk_id();
  const std::uint64_t asker = header.contributors.host();
  const std::uint64_t held = shared_.table.contributors(job_, chunk);
  if (held == job_.members) {
    return owe(OwedKind::kResult, chunk, asker, true);
  }
  std::uint64_t lost = asker;
  if (timers_.asks_now(shared_.table.state_of(job_, chunk), now)) {
    const std::uint64_t missing = job_.members & ~held;
    lost |= boxes_.planned() ? (missing & boxes_.here(box, chunk)) | overdue(chunk, missing) : missing;
  }
  lost &= ~held;
  if (lost != 0) owe(OwedKind::kResend, chunk, lost);
}

std::optional<Refused> PsJob::check_sender(const Header& header) const noexcept {
  const std::uint64_t ranks = header.contributors.host();
  if ((header.flags & kFlagIncomplete) != 0) return Refused::kIncomplete;
  if (header.type == PacketType::kContribute || header.type == PacketType::kQuery) {
    if (header.rank.host() >= membership_->world) return Refused::kRank;
    return ranks == bit_of(header.rank_id()) ? std::nullopt : std::optional(Refused::kContributors);
  }
  if (header.rank_id() != kSwitchRank) return Refused::kRank;
  const bool right =
      header.type == PacketType::kResult ? ranks == job_.members : ranks != 0 && (ranks & ~job_.members) == 0;
  return right ? std::nullopt : std::optional(Refused::kContributors);
}

std::optional<Refused> PsJob::check_chunk(const Header& header) const noexcept {
  if (!is_dtype(header.dtype) ||
      header.elements.host() > values_per_word(header.dtype) * membership_->elements)
    return Refused::kShape;
  if (header.type != PacketType::kResult && header.slot.host() != membership_->slot_of(header.chunk_id()))
    return Refused::kSlot;
  if (outdated(header.chunk_id())) return Refused::kLate;
  return std::nullopt;
}

// No worker can want it any more: see the anchored window.
bool PsJob::outdated(Chunk chunk) const noexcept {
  const auto span = static_cast<std::int32_t>(2 * membership_->largest_window);
  return high_ && serial_difference(chunk, *high_) <= -span;
}

void PsJob::advance(Chunk chunk, std::uint64_t ranks, BoxIndex box) noexcept {
  if (!high_ || serial_difference(chunk, *high_) > 0) high_ = chunk;
  if (!boxes_.planned()) return;
  Heard& heard = heard_[box];
  for (std::uint64_t left = ranks & boxes_.through(box, chunk); left != 0; left &= left - 1) {
    const auto rank = static_cast<unsigned>(std::countr_zero(left));
    const std::uint64_t bit = std::uint64_t{1} << rank;
    if ((heard.ranks & bit) == 0 || serial_difference(chunk, heard.newest[rank]) > 0)
      heard.newest[rank] = chunk;
    heard.ranks |= bit;
  }
}

void PsJob::after_merge(const Header& header, const server::MergeResult& result, const Before& before,
                        TimeNs now) {
  const Chunk chunk = header.chunk_id();
  switch (result.merged) {
    case server::Merged::kHeld:
      if (const server::StateIndex at = shared_.table.state_of(job_, chunk); at != server::kNoState) {
        ++statistics_.merged;
        timers_.start(at, chunk, before.box, before.was_whole, now);
      } else {
        ++statistics_.no_room;
      }
      return;
    case server::Merged::kInside:
      ++statistics_.inside;
      return;
    case server::Merged::kOverlap:
      ++statistics_.overlaps;
      return owe(OwedKind::kResend, chunk, result.missing);
    case server::Merged::kComplete:
    case server::Merged::kKnown:
    case server::Merged::kNoRoom:  // complete, as always without room
      if (before.held != job_.members) return completed(header, before);
      ++statistics_.known;
      // The answer to a FLUSH that came too late to be needed: who asks for the sum asks otherwise.
      if (header.type != PacketType::kResult) owe(OwedKind::kResult, chunk, header.contributors.host(), true);
      return;
    case server::Merged::kMismatch:
      ++statistics_.mismatches;
      failure_ = mismatch_text(header, result);
      return;
    case server::Merged::kBadSum:
      ++statistics_.bad_sums;
      return;
    case server::Merged::kBadInput:
      return;  // refused before
  }
}

// What the box itself had finished went to all members; but those who came here instead may have missed it.
// What the slots still hold of the chunk is of no use now. Of a chunk of which nothing was here, the box's
// RESULT is a late answer to a FLUSH. Another FLUSH would bring it again, and so on for ever where the table
// has room for so few chunks that they have forgotten each other by then.
void PsJob::completed(const Header& header, const Before& before) noexcept {
  ++statistics_.completed;
  const Chunk chunk = header.chunk_id();
  const bool by_box = header.type == PacketType::kResult;
  const std::uint64_t ranks = by_box ? before.held : job_.members;
  if (ranks == 0) return;
  owe(OwedKind::kResult, chunk, ranks, by_box);
  if (!boxes_.planned()) return owe(OwedKind::kFlush, chunk, 0);
  if (const std::uint64_t held = boxes_.held_but(before.whole, chunk); held != 0)
    owe(OwedKind::kFlush, chunk, held);
}

std::string PsJob::mismatch_text(const Header& header, const server::MergeResult& result) {
  return engine::name_ranks(header.contributors.host()) + " sent " + std::to_string(header.elements.host()) +
         " of " + std::to_string(header.total.host()) + " elements for chunk " +
         std::to_string(raw(header.chunk_id())) + ", " + engine::name_ranks(result.held) + " " +
         std::to_string(result.stored.elements) + " of " + std::to_string(result.stored.total) +
         ": they issue different operations";
}

void PsJob::time_out(TimeNs now) noexcept {
  for (server::StateIndex at = timers_.due(now); at != server::kNoState; at = timers_.due(now)) step(at, now);
}

void PsJob::step(server::StateIndex at, TimeNs now) noexcept {
  const StateTimer& timer = *timers_.find(at);
  const Chunk chunk = timer.chunk;
  if (shared_.table.state_of(job_, chunk) != at) return timers_.stop(at);  // it made room for another
  const std::uint64_t held = shared_.table.contributors(job_, chunk);
  const bool old = outdated(chunk);
  if (old || timer.steps == StateTimers::kSteps) {
    ++(old ? statistics_.outdated : statistics_.fruitless);
    timers_.stop(at);
    shared_.table.discard(job_, chunk);
    return;
  }
  const std::uint64_t missing = job_.members & ~held;
  if (!boxes_.planned()) {
    timer.steps % 2 == 0 ? owe(OwedKind::kFlush, chunk, 0) : owe(OwedKind::kResend, chunk, missing);
    return timers_.stepped(at, timer.steps % 2 == 0 ? 1 : 0, now);
  }
  std::uint64_t asked = overdue(chunk, missing);
  if (asked == 0) {
    if (timers_.put_off(at, now)) return;
    asked = missing;
  }
  if (timer.steps % 2 != 0) {
    owe(OwedKind::kResend, chunk, asked);
    return timers_.stepped(at, 0, now);
  }
  const std::uint64_t entries = asked & boxes_.held_but(0, chunk);
  if (entries != 0) owe(OwedKind::kFlush, chunk, entries);
  if (entries != asked)
    owe(OwedKind::kResend, chunk, asked & ~entries);  // of these no box has anything to give
  timers_.stepped(at, boxes_.holders(asked, chunk), now);
}

// Of the missing ranks those that must be late, since newer chunks of theirs have come through the same box. As long
// as a box may rightly wait for one of those that it adds up, nothing can be said of the others there.
std::uint64_t PsJob::overdue(Chunk chunk, std::uint64_t missing) const noexcept {
  std::uint64_t late = 0;
  for (std::uint64_t left = missing; left != 0; left &= left - 1) {
    const auto rank = static_cast<unsigned>(std::countr_zero(left));
    const std::uint64_t bit = std::uint64_t{1} << rank;
    const Heard& heard = heard_[boxes_.box_of(bit, chunk)];
    if ((heard.ranks & bit) != 0 && serial_difference(heard.newest[rank], chunk) > 0) late |= bit;
  }
  if (late == missing) return late;
  std::uint64_t asked = 0;
  for (std::uint64_t left = late; left != 0;) {
    const BoxIndex box = boxes_.box_of(left, chunk);
    const std::uint64_t through = boxes_.through(box, chunk);
    const std::uint64_t here = boxes_.here(box, chunk);
    const bool waits = (missing & here & ~late) != 0;
    asked |= late & (waits ? through & ~here : through);
    left &= ~through;
  }
  return asked;
}

void PsJob::owe(OwedKind kind, Chunk chunk, std::uint64_t ranks, bool again) noexcept {
  const Owed owed{ranks, job_.epoch, chunk, index_, kind, again};
  if (!shared_.queue.push(owed)) ++statistics_.queue_full;
}

std::uint32_t PsJob::keys_of(std::uint64_t ranks) const noexcept {
  std::uint32_t keys = 0;
  for (; ranks != 0; ranks &= ranks - 1) keys += keys_[static_cast<unsigned>(std::countr_zero(ranks))];
  return keys;
}

Header PsJob::header_of(PacketType type, const Owed& owed, std::uint64_t ranks, JobId job) const noexcept {
  Header header;
  header.type = type;
  header.priority = membership_->max_priority;
  header.job = Be<std::uint16_t>{raw(job)};
  header.rank = Be<std::uint16_t>{raw(self_)};
  header.epoch = Be<std::uint32_t>{raw(membership_->epoch)};
  header.chunk = Be<std::uint32_t>{raw(owed.chunk)};
  header.slot = Be<std::uint32_t>{membership_->slot_of(owed.chunk)};
  header.contributors = Be<std::uint64_t>{ranks};
  header.cookie = Be<std::uint64_t>{raw(membership_->cookie)};
  return header;
}

// The next box in turn, and who of `owed` is behind it. Of a box where the server is no member (yet, or any more)
// nothing can be said: its ranks ask. 0: nothing is left (without a plan also of a FLUSH, which names nobody).
std::uint64_t PsJob::take_ranks(Owed& owed, BoxIndex& box) noexcept {
  box = 0;
  if (!boxes_.planned()) return std::exchange(owed.ranks, 0);
  while (owed.ranks != 0) {
    box = boxes_.box_of(owed.ranks, owed.chunk);
    const std::uint64_t ranks = owed.ranks & boxes_.through(box, owed.chunk);
    owed.ranks &= ~ranks;
    if (boxes_[box].open) return ranks;
    ++statistics_.unreached;
  }
  return 0;
}

std::size_t PsJob::write(Owed& owed, std::span<std::byte> out, std::uint16_t& port, BoxIndex& box) {
  if (!membership_ || owed.epoch != membership_->epoch) {
    ++statistics_.overtaken;
    owed.ranks = 0;
    return 0;
  }
  const std::uint64_t ranks = take_ranks(owed, box);
  if (ranks == 0 && boxes_.planned()) return 0;
  port = boxes_[box].port_of(membership_->slot_of(owed.chunk));
  const JobId job = boxes_[box].job;
  if (owed.kind != OwedKind::kResult) {
    const bool flush = owed.kind == OwedKind::kFlush;
    ++(flush ? statistics_.flushes : statistics_.resends);
    return engine::seal(
        header_of(flush ? PacketType::kFlush : PacketType::kResend, owed, flush ? 0 : ranks, job), 0, out,
        shared_.kernels);
  }
  server::Partial p{.chunk = owed.chunk,
                    .values = out.data() + kHeaderBytes,
                    .room = static_cast<std::uint32_t>((out.size() - kHeaderBytes) / 4)};
  if (!shared_.table.read(job_, p)) {
    ++statistics_.overtaken;
    owed.ranks = 0;
    return 0;
  }
  ++statistics_.results;
  Header header = header_of(PacketType::kResult, owed, ranks, job);
  if (owed.again) header.flags |= kFlagRetransmit;
  header.flags |= jobs::flags_of(p.sum);
  header.elements = Be<std::uint16_t>{p.sum.shape.elements};
  header.dtype = p.sum.shape.dtype;
  header.exponent = p.sum.exponent;
  header.sum1 = Be<std::uint32_t>{p.sum.sum1};
  header.sum2 = Be<std::uint32_t>{p.sum.sum2};
  header.total = Be<std::uint32_t>{p.sum.shape.total};
  return engine::seal(header, values_bytes(header), out, shared_.kernels);
}

}  // namespace tally::ps

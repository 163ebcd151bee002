#pragma once
// How a data core does what data_core.h says, for any execution. Included where one is instantiated:
// data_plane.cc, and bench/loop for an execution that is timed.

#include <bit>
#include <type_traits>
#include <utility>

#include "dpdk/pools.h"
#include "io/core_time.h"
#include "io/data_core.h"
#include "io/headers.h"
#include "pipeline/burst.h"
#include "pipeline/reply.h"

#include <rte_cycles.h>
#include <rte_ring_elem.h>

namespace tally::io {

static_assert(std::is_trivially_copyable_v<pipeline::Event> && sizeof(pipeline::Event) % 4 == 0,
              "events go through a ring");

template <class Exec>
PipelineCore<Exec>::PipelineCore(CoreOptions options, CoreRings& rings)
    : DataCore(options.egress.size()),
      options_(std::move(options)),
      rings_(rings),
      pipeline_({.core = options_.index,
                 .box = options_.box,
                 .shared = options_.shared,
                 .server = options_.server,
                 .key = options_.key},
                options_.slots, *options_.kernels),
      ingress_(options_.ingress, statistics, traffic),
      egress_(options_.egress, statistics, traffic, tap),
      replicator_(options_.heads, egress_, statistics),
      servers_(options_.egress.size(), {.capacity = dpdk::kServerQueueFrames}, egress_, statistics),
      switch_(options_.mode, options_.box, options_.egress.size(), *options_.hosts, egress_, statistics),
      source_port_(static_cast<std::uint16_t>(kBasePort + options_.index)) {}

template <class Exec>
void PipelineCore<Exec>::run() noexcept {
  if (options_.idle == IdlePolicy::kAdaptive) sleep_precisely();
  CoreClock clock;
  CoreIdle idle(options_.idle);
  while (!options_.stop->load(std::memory_order_acquire)) {
    const TimeNs now = clock.now();
    const std::size_t moved = turn(now, clock.cycles());
    const CoreIdle::Step step = idle.after_turn(moved, now, servers_.waiting() != 0, next_due());
    if (step.action == CoreIdle::Action::kSleep) ++statistics.sleeps;
    CoreIdle::rest(step);
  }
  returned.store(true, std::memory_order_release);
}

template <class Exec>
std::size_t PipelineCore<Exec>::turn(TimeNs now, std::uint64_t cycles) noexcept {
  follow_publications();
  std::size_t moved = egress_.begin(now);
  for (std::size_t n = 0; n < ingress_.queues(); ++n) {
    std::size_t received = 0;
    pipeline::enter_step(pipeline_.execution(), pipeline::Step::kReceive);
    const auto burst = ingress_.take(room_, received, now);
    moved += received;
    if (!burst.empty()) process(burst, now);
  }
  pipeline::enter_step(pipeline_.execution(), pipeline::Step::kRest);
  ingress_.rotate();
  moved += take_handed_over(now);
  moved += send_for_others(rings_.to_send.get());
  moved += send_for_others(rings_.injected.get());
  moved += sweep(now);
  ++statistics.turns;
  turned.store(statistics.turns, std::memory_order_release);
  statistics.last_turn = now;
  pipeline::enter_step(pipeline_.execution(), pipeline::Step::kTransmit);
  if (moved != 0) egress_.flush();
  pipeline::enter_step(pipeline_.execution(), pipeline::Step::kRest);
  if (servers_.waiting() != 0) moved += servers_.drain();
  if (moved == 0) return 0;
  statistics.busy_cycles += rte_rdtsc() - cycles;
  return moved;
}

// Between bursts nothing points into the old table: frames in rings are parsed again.
template <class Exec>
void PipelineCore<Exec>::follow_publications() noexcept {
  while (PublicationNode* const next = publications.at->next.load(std::memory_order_acquire)) {
    for (const jobs::FreedLines& freed : next->publication.freed)
      pipeline_.release(freed.job, freed.lines, freed.elements, freed.members, freed.in_front);
    if (!next->ways.empty()) exchange(next->ways[options_.index]);
    pipeline_.adopt(next->publication.table.get());
    publications.pass_to(next);
  }
}

template <class Exec>
[[gnu::noinline]] void PipelineCore<Exec>::exchange(dpdk::PortWays& ways) noexcept {
  ingress_.exchange(ways);
  egress_.exchange(ways);
}

// Of a burst nobody looks at.
struct NoTap {
  static void keep(std::span<rte_mbuf* const> /*burst*/) noexcept {}
  static void tell(std::size_t /*frame*/, const pipeline::Parsed& /*parsed*/,
                   const pipeline::Outcome& /*out*/, TimeNs /*now*/) noexcept {}
};

template <class Exec>
void PipelineCore<Exec>::process(std::span<rte_mbuf* const> burst, TimeNs now) noexcept {
  if (TraceTap* const seen = tap.load(std::memory_order_acquire); seen != nullptr) [[unlikely]]
    return process_traced(burst, now, *seen);
  NoTap nobody;
  process_by(burst, now, nobody);
}

// Out of the way of the others.
template <class Exec>
[[gnu::noinline, gnu::cold]] void PipelineCore<Exec>::process_traced(std::span<rte_mbuf* const> burst,
                                                                     TimeNs now, TraceTap& seen) noexcept {
  process_by(burst, now, seen);
}

template <class Exec>
template <class Tap>
[[gnu::always_inline]] inline void PipelineCore<Exec>::process_by(std::span<rte_mbuf* const> burst,
                                                                  TimeNs now, Tap& seen) noexcept {
  seen.keep(burst);
  pipeline::enter_step(pipeline_.execution(), pipeline::Step::kParse);
  for (std::size_t i = 0; i < burst.size(); ++i) frames_[i] = frame_of(burst[i]);
  std::array<rte_mbuf*, pipeline::kBurst> done;  // go back to their mempool together
  std::size_t absorbed = 0;
  pipeline::run_burst(
      pipeline_, parsed_, std::span{frames_}.first(burst.size()), now,
      [&](std::size_t first, std::size_t end) {
        for (std::size_t i = first; i < end; ++i) {
          seen.tell(i, parsed_[i], {.verdict = Verdict::kAbsorb}, now);
          done[absorbed++] = burst[i];
        }
      },
      [&](std::size_t i, const pipeline::Outcome& out) {
        pipeline::enter_step(pipeline_.execution(), pipeline::Step::kConclude);
        seen.tell(i, parsed_[i], out, now);
        conclude(burst[i], frames_[i], out, now);
        if (pipeline_.owes()) [[unlikely]]
          send_owed(now);
      });
  pipeline::enter_step(pipeline_.execution(), pipeline::Step::kGiveBack);
  dpdk::drop_all(std::span{done}.first(absorbed));
  tell_control();
}

// What a zero run has finished beside what is told by the run itself. Without a buffer its members ask.
template <class Exec>
[[gnu::noinline]] void PipelineCore<Exec>::send_owed(TimeNs now) noexcept {
  while (pipeline_.owes()) {
    rte_mbuf* const m = dpdk::allocate(options_.widest, statistics);
    if (m == nullptr) return;
    std::byte* const payload = dpdk::data_of(m) + kMaxEncapsulation;
    const std::size_t room = rte_pktmbuf_tailroom(m) - kMaxEncapsulation;
    conclude(m, frame_of(m), pipeline_.owed({payload, room}), now);
  }
}

// Shared entries that nobody touched for too long go to the server, which may complete their chunk; entries
// that stragglers do not come to are finished without them. One step in each kSweepPeriod: what it looks at
// is memory that packets have no use for.
template <class Exec>
std::size_t PipelineCore<Exec>::sweep(TimeNs now) noexcept {
  constexpr TimeNs kSweepPeriod = 100 * kMicrosecond;
  constexpr std::size_t kSteps = 16;
  if (!pipeline_.sweeps() || now < next_sweep_) return 0;
  next_sweep_ = now + kSweepPeriod;
  std::size_t swept = 0;
  for (std::size_t i = 0; i < kSteps; ++i) {
    if (!pipeline_.aged(now)) continue;
    rte_mbuf* const m = dpdk::allocate(options_.widest, statistics);
    if (m == nullptr) break;
    std::byte* const payload = dpdk::data_of(m) + kMaxEncapsulation;
    const std::size_t room = rte_pktmbuf_tailroom(m) - kMaxEncapsulation;
    conclude(m, frame_of(m), pipeline_.sweep({payload, room}, now), now);
    ++swept;
  }
  if (swept != 0) tell_control();
  return swept;
}

// At most a ring full, so that its own ports come round again. (rte_ring_count() would say how much is there,
// but it reads what other threads write as if they did not.)
template <class Exec>
std::size_t PipelineCore<Exec>::take_handed_over(TimeNs now) noexcept {
  rte_ring* const ring = rings_.handed_over.get();
  const std::size_t most = rte_ring_get_capacity(ring);
  std::size_t taken = 0;
  for (std::size_t burst = pipeline::kBurst; burst == pipeline::kBurst && taken < most; taken += burst) {
    const auto frames = dpdk::receive(ring, room_);
    burst = frames.size();
    if (burst != 0) process(frames, now);
  }
  if (taken != 0) statistics.taken_over += taken;
  return taken;
}

template <class Exec>
std::size_t PipelineCore<Exec>::send_for_others(rte_ring* ring) noexcept {
  const std::size_t most = rte_ring_get_capacity(ring);
  std::size_t sent = 0;
  for (std::size_t burst = pipeline::kBurst; burst == pipeline::kBurst && sent < most; sent += burst) {
    const auto frames = dpdk::receive(ring, room_);
    burst = frames.size();
    for (rte_mbuf* m : frames) egress_.push(PortIndex{m->port}, m);
  }
  if (sent != 0) statistics.sent_for += sent;
  return sent;
}

// Before: the core owns `m`. After: it does not; each verdict ends in one drop (at the end of the burst) or
// one push of it.
template <class Exec>
void PipelineCore<Exec>::conclude(rte_mbuf* m, const pipeline::Frame& frame, const pipeline::Outcome& out,
                                  TimeNs now) noexcept {
  // First: these read the headers that a reply overwrites.
  if (out.reject) reject(frame, out);
  if (out.nack) nack(frame);
  switch (out.verdict) {
    case Verdict::kComplete:
      if (out.session) return answer_session(m, out);
      // What an external server finished may have come to any core.
      return replicator_.replicate(m, out.payload, out.payload_bytes, out.ranks, out.native(),
                                   publications.at->headers.of(*out.job),
                                   out.native().servers == 0 ? source_port_ : source_port_of(out));
    case Verdict::kRepeat:
      if (out.session) return answer_session(m, out);
      if (std::has_single_bit(out.ranks))
        return reply(m, out, Rank{static_cast<std::uint16_t>(std::countr_zero(out.ranks))});
      return replicator_.repeat(m, out.payload, out.payload_bytes, out.ranks,
                                publications.at->headers.of(*out.job), source_port_of(out));
    case Verdict::kRelay:
    case Verdict::kTell:
      return out.server != pipeline::kNoServer ? to_server(m, out) : reply(m, out, out.to);
    case Verdict::kHandOver:
      return hand_over(m, out.owner);
    case Verdict::kPunt:
      return punt(m, out.member, now);
    case Verdict::kForward:
      ++statistics.not_ours;
      return switch_.handle(m, now);
    default:  // absorbed, or dropped by name; or it has found no slot, or taken another's
      return out.server != pipeline::kNoServer ? to_server(m, out) : dpdk::drop(m);
  }
}

template <class Exec>
void PipelineCore<Exec>::hand_over(rte_mbuf* m, std::uint8_t owner) noexcept {
  const bool taken = dpdk::send(options_.owners[owner], m);
  ++(taken ? statistics.handed_over : statistics.hand_over_lost);
}

template <class Exec>
void PipelineCore<Exec>::punt(rte_mbuf* m, bool member, TimeNs now) noexcept {
  switch_.learn(m, now);
  rte_ring* const ring = (member ? rings_.member_punts : rings_.punts).get();
  if (!dpdk::send(ring, m)) ++statistics.punts_lost;
}

// To one member, in the mbuf that came: repair needs no other.
template <class Exec>
void PipelineCore<Exec>::reply(rte_mbuf* m, const pipeline::Outcome& out, Rank rank) noexcept {
  const Receiver& to = publications.at->headers.of(*out.job).members[raw(rank)];
  readdress(m, out, to.header);
  egress_.push(to.port, m);
}

template <class Exec>
void PipelineCore<Exec>::answer_session(rte_mbuf* m, const pipeline::Outcome& out) noexcept {
  if (out.verdict == Verdict::kComplete) ++statistics.results;
  replicator_.answer_session(m, out.payload, out.payload_bytes, out.ranks,
                             publications.at->headers.of(*out.job), pipeline_.return_paths());
}

// To an external server, in the mbuf that came. It leaves with this turn, unless the port is busy.
template <class Exec>
void PipelineCore<Exec>::to_server(rte_mbuf* m, const pipeline::Outcome& out) noexcept {
  if (out.server == pipeline::kToParent) return to_parent(m, out);
  const Receiver& to = publications.at->headers.of(*out.job).servers[out.server];
  readdress(m, out, to.header);
  servers_.push(to.port, m, out.job->id, out.priority);
}

// To the parent of a racked job, in the mbuf that came: as a worker sends, from one port whatever the core, to the
// parent's shard of the chunk.
template <class Exec>
[[gnu::noinline]] void PipelineCore<Exec>::to_parent(rte_mbuf* m, const pipeline::Outcome& out) noexcept {
  const Chunk chunk = pipeline::header_at(out.payload).chunk_id();
  const Receiver& to =
      publications.at->headers.of(*out.job).parent[jobs::shard_at(out.native().parent, chunk)];
  const std::uint32_t sum = to.header.ipv6() ? internet_sum({out.payload, out.payload_bytes}) : 0;
  const auto head = dpdk::reuse(m, out.payload, out.payload_bytes, to.header.bytes());
  to.header.write(head.data(), 0, out.payload_bytes, sum);
  egress_.push(to.port, m);
}

// `m` becomes a frame of the box that carries out's payload, which lies in its buffer.
template <class Exec>
void PipelineCore<Exec>::readdress(rte_mbuf* m, const pipeline::Outcome& out,
                                   const pipeline::HeaderTemplate& header) noexcept {
  const std::uint16_t source_port = source_port_of(out);
  const std::uint32_t sum = header.ipv6() ? internet_sum({out.payload, out.payload_bytes}) : 0;
  const auto head = dpdk::reuse(m, out.payload, out.payload_bytes, header.bytes());
  header.write(head.data(), source_port, out.payload_bytes, sum);
}

// An ANSWER, and what a server says, is served by whichever core got it; what it becomes comes from its
// chunk's shard all the same.
template <class Exec>
std::uint16_t PipelineCore<Exec>::source_port_of(const pipeline::Outcome& out) noexcept {
  const std::uint32_t slot =
      slot_of(jobs::slot_map(out.native()), pipeline::header_at(out.payload).chunk_id());
  return static_cast<std::uint16_t>(kBasePort + slot % out.native().shards);
}

// Back to where the packet came from. Only who has shown that it is a member learns the result cookie.
template <class Exec>
void PipelineCore<Exec>::reject(const pipeline::Frame& frame, const pipeline::Outcome& out) noexcept {
  std::array<std::byte, kHeaderBytes> datagram{};
  const Cookie cookie = out.reject_reason == RejectReason::kWaiting ? out.job->result_cookie : Cookie{0};
  Header refused = pipeline::header_at(out.payload);
  if (out.reject_reason == RejectReason::kWaiting)
    refused.job = Be{raw(out.job->id)};  // to a parent it is another
  pipeline::write_reject(datagram, refused, out.reject_reason, cookie, out.reject_contributors,
                         *options_.kernels);
  if (answer_beside(frame, datagram)) ++statistics.rejects;
}

// To whose contributions are missing. Without a buffer for it their timers see to them.
template <class Exec>
void PipelineCore<Exec>::nack(const pipeline::Frame& frame) noexcept {
  std::array<std::byte, kHeaderBytes> datagram{};
  pipeline::write_nack(datagram, pipeline_.nack(), options_.index, *options_.kernels);
  if (answer_beside(frame, datagram)) ++statistics.nacks;
}

// In a frame of its own; false: there is none.
template <class Exec>
bool PipelineCore<Exec>::answer_beside(const pipeline::Frame& frame,
                                       std::span<const std::byte, kHeaderBytes> datagram) noexcept {
  const jobs::Binding to = pipeline::open_frame(frame, options_.box).source;
  rte_mempool* const pool = egress_.traits(to.port).frames;
  rte_mbuf* const m = make_frame(to, options_.box, source_port_, datagram, pool, statistics);
  if (m == nullptr) return false;
  egress_.push(to.port, m);
  return true;
}

template <class Exec>
void PipelineCore<Exec>::tell_control() noexcept {
  while (const auto event = pipeline_.events().pop()) {
    if (rte_ring_enqueue_elem(rings_.events.get(), const_cast<pipeline::Event*>(&*event),
                              sizeof(pipeline::Event)) != 0)
      ++events_refused_;
    statistics.events_lost = events_refused_ + pipeline_.events().lost();
  }
}

}  // namespace tally::io

#include "ring_box.h"

#include <cstring>
#include <utility>

#include "frames.h"
#include "kernels.h"
#include "reply.h"
#include "tally/check.h"

namespace tally::e2e {

RingBox::RingBox(const RingBoxOptions& options, std::vector<BoxPort> ports, const BoxPools& pools, Loss& loss)
    : options_(options), ports_(std::move(ports)), pools_(pools), loss_(loss) {
  cores_.resize(options_.cores);
  for (std::uint8_t i = 0; i < options_.cores; ++i) {
    cores_[i].inbox = make_ring("hand_over" + std::to_string(i), 256);
    cores_[i].source_port = static_cast<std::uint16_t>(kBasePort + i);
    for (const BoxPort& p : ports_) cores_[i].outboxes.emplace_back(p.port, i, loss_, mbufs_);
  }
  start_cores();
  membership_ = std::move(*MembershipEngine::create(
      {.box_mac = test_box().mac, .shards = options_.cores, .slot_lines = options_.slot_lines},
      [rng = Rng(11)]() mutable { return rng.next(); }));
  job_ = *membership_->declare(options_.job);
}

void RingBox::start_cores() {
  for (std::uint8_t i = 0; i < options_.cores; ++i) {
    Core& core = cores_[i];
    core.memory = std::make_unique<SlotMemory>(options_.slot_lines);
    core.pipeline = std::make_unique<Pipeline<Fused>>(PipelineOptions{.core = i, .box = test_box()},
                                                      core.memory->region(), best_kernels());
  }
}

void RingBox::restart_data_plane(TimeNs now) {
  start_cores();  // frames waiting in hand-over rings meet an empty table
  membership_->restart_data_plane(now);
  publish(now);
}

PortIndex RingBox::index_of(const rte_mbuf* m) const noexcept {
  std::size_t i = 0;
  while (i < ports_.size() && ports_[i].port != m->port) ++i;
  TALLY_CHECK(i < ports_.size(), "receive_writable() wrote the port into the mbuf");
  return PortIndex{static_cast<std::uint16_t>(i)};
}

std::size_t RingBox::turn(TimeNs now) {
  std::array<rte_mbuf*, kBurst> room{};
  std::size_t moved = 0;
  for (std::size_t c = 0; c < cores_.size(); ++c) {
    Core& core = cores_[c];
    for (std::size_t p = c; p < ports_.size(); p += cores_.size()) {
      const auto burst = receive_writable(ports_[p].port, 0, room, pools_.frames, mbufs_);
      run(core, burst, now);
      moved += burst.size();
    }
    const auto handed = receive(core.inbox.get(), room);
    run(core, handed, now);
    moved += handed.size();
    for (Outbox& outbox : core.outboxes) moved += outbox.flush();
  }
  return moved + serve_control(now);
}

void RingBox::run(Core& core, std::span<rte_mbuf* const> burst, TimeNs now) {
  std::array<Frame, kBurst> frames;
  for (std::size_t i = 0; i < burst.size(); ++i) frames[i] = frame_of(burst[i], index_of(burst[i]));
  run_burst(
      *core.pipeline, core.parsed, burst.size(), now, [&](std::size_t i) { return frames[i]; },
      [&](std::size_t i, const Outcome& out) { conclude(core, burst[i], frames[i], out, now); });
}

// Before: the core owns `m`. After: it does not; each verdict ends in one drop or one send of it.
void RingBox::conclude(Core& core, rte_mbuf* m, const Frame& frame, const Outcome& out, TimeNs now) {
  if (out.reject) reject(core, frame, out);  // first: it reads the headers that a reply overwrites
  switch (out.verdict) {
    case Verdict::kPunt:  // control gets the bytes, not the mbuf
      membership_->receive({out.payload, out.payload_bytes}, open_frame(frame, test_box()).source, now);
      return drop(m);
    case Verdict::kHandOver:
      return send(cores_[out.owner].inbox.get(), m, mbufs_);
    case Verdict::kRepeat:
    case Verdict::kRelay:
      return reply(core, m, out);
    case Verdict::kComplete:
      return replicate(core, m, out);
    default:  // absorbed, dropped, or not ours, and there is no other host here
      return drop(m);
  }
}

// Before: the core owns `m`. After: the outbox of one member's port.
void RingBox::reply(Core& core, rte_mbuf* m, const Outcome& out) {
  const Binding& to = out.job->ranks[raw(out.to)].binding;
  const auto head = reuse(m, out.payload, out.payload_bytes, encapsulation_bytes(to));
  write_encapsulation(head, to, test_box(), core.source_port, {out.payload, out.payload_bytes});
  core.outboxes[raw(to.port)].push(m);
}

// Before: the core owns `m`, which carries the result. After: the outboxes. The last member gets m itself,
// the others a header of their own and m's payload by reference. m is complete before the first reference to
// it and not looked at after its push.
void RingBox::replicate(Core& core, rte_mbuf* m, const Outcome& out) {
  const Job& job = *out.job;
  const std::span<const std::byte> payload{out.payload, out.payload_bytes};
  const Binding& last = job.ranks[job.world - 1U].binding;
  const auto skip = static_cast<std::uint32_t>(encapsulation_bytes(last));
  write_encapsulation(reuse(m, out.payload, out.payload_bytes, skip), last, test_box(), core.source_port,
                      payload);
  for (std::uint32_t r = 0; r + 1 < job.world; ++r) {
    const Binding& to = job.ranks[r].binding;
    const std::size_t head = encapsulation_bytes(to);
    const bool by_reference = ports_[raw(to.port)].segments;
    rte_mbuf* frame =
        by_reference ? refer(m, skip, head, pools_, mbufs_) : duplicate(m, skip, head, pools_.frames, mbufs_);
    if (frame == nullptr) continue;  // this member asks again
    ++(by_reference ? referred_ : duplicated_);
    write_encapsulation({data_of(frame), head}, to, test_box(), core.source_port, payload);
    core.outboxes[raw(to.port)].push(frame);
  }
  core.outboxes[raw(last.port)].push(m);
}

void RingBox::reject(Core& core, const Frame& frame, const Outcome& out) {
  std::array<std::byte, kHeaderBytes> datagram{};
  const Cookie cookie = out.reject_reason == RejectReason::kWaiting ? out.job->result_cookie : Cookie{0};
  write_reject(datagram, header_of({out.payload, kHeaderBytes}), out.reject_reason, cookie,
               out.reject_contributors, best_kernels());
  ++rejects_;
  post(core, open_frame(frame, test_box()).source, datagram);
}

// A packet of the box's own. Without an mbuf it is lost, as on a wire.
void RingBox::post(Core& core, const Binding& to, std::span<const std::byte> datagram) {
  rte_mbuf* m = allocate(pools_.frames, mbufs_);
  if (m == nullptr) return;
  const std::size_t head = encapsulation_bytes(to);
  TALLY_CHECK(head + datagram.size() <= rte_pktmbuf_tailroom(m), "control packets fit into a frame");
  rte_pktmbuf_append(m, static_cast<std::uint16_t>(head + datagram.size()));
  write_encapsulation({data_of(m), head}, to, test_box(), core.source_port, datagram);
  std::memcpy(data_of(m) + head, datagram.data(), datagram.size());
  core.outboxes[raw(to.port)].push(m);
}

std::size_t RingBox::serve_control(TimeNs now) {
  for (const Core& core : cores_) {
    for (std::uint16_t r = 0; r < options_.job.workers; ++r)
      membership_->seen(job_, Rank{r}, core.pipeline->state(job_).last_seen[r]);
    while (const auto e = core.pipeline->events().pop()) {
      if (e->kind != EventKind::kMismatch) continue;
      membership_->report_mismatch(e->job, e->epoch, e->rank, e->others, e->sent.elements, e->stored.elements,
                                   e->sent.total, e->stored.total, now);
    }
  }
  membership_->tick(now);
  publish(now);
  std::array<std::byte, kMaxMembershipBytes> datagram;
  while (const auto outgoing = membership_->next(datagram))
    post(cores_.front(), outgoing->to, std::span{datagram}.first(outgoing->bytes));
  std::size_t moved = 0;
  for (Outbox& outbox : cores_.front().outboxes) moved += outbox.flush();
  return moved;
}

// Between bursts no core holds a pointer into the old table, and frames in hand-over rings carry none.
void RingBox::publish(TimeNs now) {
  while (const auto publication = membership_->publication()) {
    for (Core& core : cores_) {
      for (const FreedLines& freed : publication->freed)
        core.pipeline->release(freed.job, freed.lines, freed.elements, freed.members);
      core.pipeline->adopt(publication->table.get());
    }
    table_ = publication->table;
    membership_->quiesced(publication->version, now);
  }
}

std::uint64_t RingBox::count(Verdict verdict) const noexcept {
  std::uint64_t n = 0;
  for (const Core& core : cores_)
    n += core.pipeline->counters(job_).of(verdict) + core.pipeline->counters(JobId{0}).of(verdict);
  return n;
}

std::uint64_t RingBox::count(Drop why) const noexcept {
  std::uint64_t n = 0;
  for (const Core& core : cores_)
    n += core.pipeline->counters(job_).of(why) + core.pipeline->counters(JobId{0}).of(why);
  return n;
}

}  // namespace tally::e2e

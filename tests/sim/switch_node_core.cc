// A data core of the box: a packet, an age sweep, a new table, and the checks after each.

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "kernels/kernels.h"
#include "pipeline/reply.h"
#include "switch_node.h"

namespace tally::sim {
namespace {

constexpr TimeNs kSweepEvery = kMillisecond;  // while something may age

}  // namespace

std::uint64_t SwitchNode::packets_counted(std::size_t core) const {
  return std::visit(
      [&](const auto& p) {
        std::uint64_t n = p.counters(JobId{0}).packets();
        for (const auto& [job, pool] : ever_) n += p.counters(job).packets();
        return n;
      },
      *cores_[core].pipeline);
}

void SwitchNode::run(std::size_t core, Bytes& buffer, std::uint32_t length, PortIndex port, bool vouched) {
  const pipeline::Frame frame{.data = buffer.data(),
                              .length = length,
                              .capacity = static_cast<std::uint32_t>(buffer.size()),
                              .port = port,
                              .checksum_good = vouched};
  const std::uint64_t before = packets_counted(core);
  std::uint64_t most = 1;  // counters that it may change
  std::optional<Arrival> arrival;
  const pipeline::Outcome outcome = std::visit(
      [&](auto& p) {
        pipeline::Parsed parsed;
        p.parse(frame, parsed);
        if (parsed.kind == pipeline::Kind::kNative && parsed.type == PacketType::kContribute)
          arrival = Arrival{&parsed.native(), parsed.contribution};
        if (parsed.kind == pipeline::Kind::kNative && parsed.type == PacketType::kZeroRun)
          most =
              static_cast<std::uint64_t>(std::popcount(wire_at<Header>(parsed.payload).contributors.host()));
        return p.handle(parsed, frame, schedule_.now());
      },
      *cores_[core].pipeline);
  const std::uint64_t counted = packets_counted(core) - before;
  if (counted < 1 || counted > most) alarm_("invariant 5: a packet changed other than one counter");
  if (arrival) {
    arrival->dropped = outcome.verdict == Verdict::kDrop;
    arrival->drop = outcome.drop;
  }
  check_core(core, "a packet", arrival);
  drain_events(*cores_[core].pipeline);
  if (outcome.verdict == Verdict::kHandOver) return run(outcome.owner, buffer, length, port, vouched);
  if (outcome.nack) send_nack(core, frame);
  reply(outcome, frame);
  send_owed(core);
}

// Results that a run of zeros has finished, and that have values.
void SwitchNode::send_owed(std::size_t core) {
  Bytes room(kMaxDatagramBytes);
  std::visit(
      [&](auto& p) {
        while (p.owes()) reply(p.owed(room), {});
      },
      *cores_[core].pipeline);
}

void SwitchNode::send_to(const jobs::Binding& to, std::span<const std::byte> datagram,
                         std::uint16_t source_port) {
  const std::size_t head = pipeline::encapsulation_bytes(to);
  Bytes frame(head + datagram.size());
  std::copy(datagram.begin(), datagram.end(), frame.begin() + static_cast<std::ptrdiff_t>(head));
  pipeline::write_encapsulation(std::span{frame}.first(head), to, options_.self, source_port, datagram);
  send_(to, std::move(frame));
}

void SwitchNode::send_nack(std::size_t core, const pipeline::Frame& frame) {
  std::array<std::byte, kHeaderBytes> nack{};
  std::visit(
      [&](auto& p) {
        pipeline::write_nack(nack, p.nack(), static_cast<std::uint8_t>(core), kernels::best_kernels());
      },
      *cores_[core].pipeline);
  send_to(pipeline::open_frame(frame, options_.self).source, nack, kBasePort);
}

void SwitchNode::reply(const pipeline::Outcome& out, const pipeline::Frame& frame) {
  const std::span<const std::byte> datagram{out.payload, out.payload_bytes};
  if (out.verdict == Verdict::kPunt) {
    membership_->receive(datagram, pipeline::open_frame(frame, options_.self).source, schedule_.now());
  }
  if (out.server == pipeline::kToParent) {
    send_to_parent(out.native(), datagram);
    if (out.reject) send_reject(out, frame);
    return;
  }
  if (out.server != pipeline::kNoServer) {
    const jobs::Binding& server = out.native().server_ranks.at(out.server).binding;
    const auto port =
        static_cast<std::uint16_t>(kBasePort + header_of(datagram).slot.host() % out.native().shards);
    return send_to(server, datagram, port);
  }
  if (out.verdict == Verdict::kRelay || out.verdict == Verdict::kTell)
    send_to(out.job->ranks[raw(out.to)].binding, datagram, kBasePort);
  if (out.verdict == Verdict::kRepeat || out.verdict == Verdict::kComplete) {
    for (std::uint32_t r = 0; r < out.job->world; ++r) {
      if ((out.ranks & bit_of(Rank{static_cast<std::uint16_t>(r)})) != 0)
        send_to(out.job->ranks[r].binding, datagram, kBasePort);
    }
  }
  if (out.reject) send_reject(out, frame);
}

// Of a packet that went on to the parent the header is another by now.
void SwitchNode::send_reject(const pipeline::Outcome& out, const pipeline::Frame& frame) {
  std::array<std::byte, kHeaderBytes> reject{};
  const Cookie cookie = out.reject_reason == RejectReason::kWaiting ? out.job->result_cookie : Cookie{0};
  Header refused = header_of({out.payload, kHeaderBytes});
  if (out.server == pipeline::kToParent) refused.job = Be{raw(out.job->id)};
  pipeline::write_reject(reject, refused, out.reject_reason, cookie, out.reject_contributors,
                         kernels::best_kernels());
  send_to(pipeline::open_frame(frame, options_.self).source, reject, kBasePort);
}

void SwitchNode::send_to_parent(const jobs::NativeJob& job, std::span<const std::byte> datagram) {
  jobs::Binding to = job.parent.binding;
  to.udp_port =
      static_cast<std::uint16_t>(kBasePort + jobs::shard_at(job.parent, header_of(datagram).chunk_id()));
  send_to(to, datagram, kBasePort);
}

void SwitchNode::drain_events(AnyPipeline& pipeline) {
  std::visit(
      [&](auto& p) {
        while (const auto e = p.events().pop()) {
          events_.push_back(*e);
          if (e->kind != pipeline::EventKind::kMismatch) continue;
          membership_->report_mismatch(e->job, e->epoch, e->rank, e->others, e->sent.elements,
                                       e->stored.elements, e->sent.total, e->stored.total, schedule_.now());
        }
      },
      pipeline);
}

// Invariant 4, after every event: occupancy = the job's filling entries, of its own and shared ones, also
// when the job is gone.
void SwitchNode::check_core(std::size_t core, const char* after, const std::optional<Arrival>& arrival) {
  Core& c = cores_[core];
  if (c.table == nullptr) return;
  if (!options_.watched) {
    if (has_to_sweep(core)) sweep_later(core);
    return;
  }
  const auto alarm = [&](const std::string& what) { alarm_(what + " after " + after); };
  c.watch.look(*c.pipeline, *c.table, arrival, alarm);
  std::visit(
      [&](auto& p) {
        for (const auto& [id, had_own_slots] : ever_) {
          std::uint32_t filling = c.watch.filling(id);
          const jobs::NativeJob* const job = c.table->find(id);
          if (job == nullptr && had_own_slots) continue;  // while it forms anew, control holds its slots
          if (job != nullptr && job->discipline == Discipline::kPool) {
            for (std::uint32_t line = 0; line < job->slots.count; line += jobs::entry_lines(job->elements)) {
              const pipeline::Head head = p.execution().head(job->slots.first + line);
              filling += head.tag != 0 && head.contributors != job->members ? 1 : 0;
            }
          }
          if (filling != p.state(id).occupancy) {
            alarm("invariant 4: job " + std::to_string(raw(id)) + " has " + std::to_string(filling) +
                  " filling entries and occupancy " + std::to_string(p.state(id).occupancy));
          }
        }
      },
      *c.pipeline);
  if (has_to_sweep(core)) sweep_later(core);
}

std::uint32_t SwitchNode::filling(std::size_t core) const {
  return std::visit([](const auto& p) { return p.shared().filling(); }, *cores_[core].pipeline);
}

bool SwitchNode::has_to_sweep(std::size_t core) const {
  const bool states =
      std::visit([](const auto& p) { return p.server().incomplete != 0; }, *cores_[core].pipeline);
  return states || filling(core) != 0 || late_entries(core) != 0;
}

std::uint32_t SwitchNode::late_entries(std::size_t core) const {
  if (cores_[core].table == nullptr) return 0;
  std::uint32_t entries = 0;
  std::visit(
      [&](const auto& p) {
        for (const auto& [id, pool] : ever_) {
          const jobs::NativeJob* const job = cores_[core].table->find(id);
          const bool waits = job != nullptr && job->stragglers.timeout != 0 && p.state(id).occupancy != 0;
          if (waits) entries += job->slots.count / jobs::entry_lines(job->elements);
        }
      },
      *cores_[core].pipeline);
  return entries;
}

// A core sweeps whenever it has nothing else to do. Here it looks at its whole region, as it would by then.
void SwitchNode::sweep(std::size_t core) {
  if (schedule_.now() < paused_until_) return sweep_later(core);
  Bytes buffer(kMaxDatagramBytes);
  const std::uint32_t all = options_.shared_entries + late_entries(core);
  for (std::uint32_t looks = 0; looks <= all; ++looks) {
    const auto moved = std::visit(
        [&](auto& p) -> std::optional<pipeline::Outcome> {
          if (!p.aged(schedule_.now())) return std::nullopt;
          return p.sweep(buffer, schedule_.now());
        },
        *cores_[core].pipeline);
    if (!moved) continue;
    check_core(core, "a sweep");
    reply(*moved, {});
  }
  if (has_to_sweep(core)) sweep_later(core);
}

void SwitchNode::sweep_later(std::size_t core) {
  if (cores_[core].sweeps) return;
  cores_[core].sweeps = true;
  const bool fills = filling(core) != 0 || late_entries(core) != 0;
  const TimeNs pause = fills ? kSweepEvery : 100 * kSweepEvery;  // states age slowly
  schedule_.after(pause, [this, core, life = life_] {
    if (life != life_) return;
    cores_[core].sweeps = false;
    sweep(core);
  });
}

void SwitchNode::take_up(std::size_t core, const jobs::Publication& publication) {
  Core& c = cores_[core];
  std::visit(
      [&](auto& p) {
        for (const auto& freed : publication.freed)
          p.release(freed.job, freed.lines, freed.elements, freed.members);
        p.adopt(publication.table.get());
      },
      *c.pipeline);
  c.table = publication.table;
  check_core(core, "a publication");
}

}  // namespace tally::sim

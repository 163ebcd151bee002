#include "loop_control.h"

#include <algorithm>
#include <utility>

#include "loop_packets.h"
#include "rng.h"

namespace tally::e2e {

LoopControl::LoopControl(io::DataPlane& plane, std::uint32_t slot_lines, std::uint64_t seed)
    : plane_(plane),
      membership_({.box_mac = loop_box().mac,
                   .shards = static_cast<std::uint8_t>(plane.cores()),
                   .slot_lines = slot_lines},
                  [rng = Rng(seed)]() mutable { return rng.next(); }),
      datagram_(members::kMaxMembershipBytes) {
  membership_.listen([&plane](JobId job, Rank rank) {
    TimeNs newest = 0;
    for (std::size_t core = 0; core < plane.cores(); ++core)
      newest = std::max(newest, plane.core(core).state(job).last_seen[raw(rank)].get());
    return newest;
  });
}

JobId LoopControl::declare(const members::NativeConfig& job) {
  const JobId id = *membership_.declare(job);
  if (std::ranges::find(jobs_, id) == jobs_.end()) jobs_.push_back(id);
  return id;
}

void LoopControl::withdraw(std::string_view name) { static_cast<void>(membership_.withdraw(name)); }

std::size_t LoopControl::turn(TimeNs now) {
  std::size_t moved = take_punts(now) + take_events(now);
  membership_.tick(now);
  moved += publish(now);
  return moved + send();
}

std::size_t LoopControl::take_punts(TimeNs now) {
  std::size_t n = 0;
  for (; const auto punt = plane_.next_punt(datagram_); ++n)
    membership_.receive(std::span{datagram_}.first(punt->bytes), punt->source, now);
  punts_ += n;
  return n;
}

std::size_t LoopControl::take_events(TimeNs now) {
  std::size_t n = 0;
  for (; const auto e = plane_.next_event(); ++n) {
    events_.push_back(*e);
    if (e->kind != pipeline::EventKind::kMismatch) continue;
    membership_.report_mismatch(e->job, e->epoch, e->rank, e->others, e->sent.elements, e->stored.elements,
                                e->sent.total, e->stored.total, now);
  }
  return n;
}

std::size_t LoopControl::publish(TimeNs now) {
  std::size_t n = 0;
  for (; auto publication = membership_.publication(); ++n) {
    newest_ = publication->version;
    plane_.publish(std::move(*publication));
    ++published_;
  }
  const std::uint64_t adopted = plane_.adopted();
  if (adopted > told_) {
    told_ = adopted;
    membership_.quiesced(adopted, now);
  }
  return n + (told_ < newest_ ? 1 : 0);
}

std::size_t LoopControl::send() {
  std::size_t n = 0;
  for (; const auto out = membership_.next(datagram_); ++n)
    not_injected_ += plane_.inject(out->to, std::span{datagram_}.first(out->bytes)) ? 0 : 1;
  return n;
}

}  // namespace tally::e2e

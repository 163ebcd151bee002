#include "server/server_queue.h"

#include "tally/check.h"

namespace tally::server {

QueueOrder::QueueOrder(const ServerQueueOptions& options)
    : quantum_(options.quantum),
      packets_(options.capacity),
      flows_(options.capacity),
      flows_of_(kClasses * (kMaxJobs + std::size_t{1}), kNone) {
  TALLY_CHECK(options.capacity >= 1 && options.capacity < kNoPlace && options.quantum >= 1,
              "a server's queue has 1 to 65,534 places, and a turn is at least a byte");
  for (std::size_t i = 0; i < options.capacity; ++i) {
    append(packets_, free_packets_, static_cast<Index>(i));
    append(flows_, free_flows_, static_cast<Index>(i));
  }
}

template <class T>
void QueueOrder::append(std::vector<T>& all, Chain& chain, Index at) noexcept {
  all[at].before = chain.last;
  all[at].after = kNone;
  (chain.last == kNone ? chain.first : all[chain.last].after) = at;
  chain.last = at;
}

template <class T>
void QueueOrder::unlink(std::vector<T>& all, Chain& chain, Index at) noexcept {
  const Links links = all[at];
  (links.before == kNone ? chain.first : all[links.before].after) = links.after;
  (links.after == kNone ? chain.last : all[links.after].before) = links.before;
}

QueueOrder::Admission QueueOrder::admit(JobId job, std::uint8_t priority, std::uint32_t bytes) noexcept {
  const std::uint8_t level = class_of(priority);
  const std::size_t row = row_of(job, level);
  const bool full = free_packets_.last == kNone;
  if (full && !make_room(row, level)) return {};
  const Index at = free_packets_.last;
  unlink(packets_, free_packets_, at);
  const Index flow = flows_of_[row] != kNone ? flows_of_[row] : open_flow(row, level);
  Packet& packet = packets_[at];
  packet.flow = flow;
  packet.level = level;
  packet.bytes = bytes;
  append(packets_, flows_[flow].waiting, at);
  ++flows_[flow].packets;
  ++classes_[level].packets;
  ++size_;
  return {at, full};
}

QueueOrder::Index QueueOrder::open_flow(std::size_t row, std::uint8_t level) noexcept {
  const Index at = free_flows_.last;
  unlink(flows_, free_flows_, at);
  flows_[at].row = static_cast<std::uint16_t>(row);
  flows_[at].credit = quantum_;
  append(flows_, classes_[level].flows, at);
  flows_of_[row] = at;
  return at;
}

// A flow without packets is none, and its credit is forgotten: whoever was silent has saved up nothing.
void QueueOrder::take_from_flow(Index packet) noexcept {
  const Index at = packets_[packet].flow;
  Flow& flow = flows_[at];
  unlink(packets_, flow.waiting, packet);
  packets_[packet].flow = kNone;
  if (--flow.packets != 0) return;
  unlink(flows_, classes_[packets_[packet].level].flows, at);
  append(flows_, free_flows_, at);
  flows_of_[flow.row] = kNone;
}

// Deficit round robin: whose credit does not cover its oldest packet gets a quantum and goes to the end.
bool QueueOrder::name_one(Class& of) noexcept {
  while (of.flows.first != kNone) {
    const Index at = of.flows.first;
    Flow& flow = flows_[at];
    const Index packet = flow.waiting.first;
    if (flow.credit >= packets_[packet].bytes) {
      flow.credit -= packets_[packet].bytes;
      take_from_flow(packet);
      append(packets_, of.named, packet);
      return true;
    }
    flow.credit += quantum_;
    unlink(flows_, of.flows, at);
    append(flows_, of.flows, at);
  }
  return false;
}

std::size_t QueueOrder::next(std::span<QueuePlace> out) noexcept {
  std::size_t n = 0;
  for (std::size_t level = kClasses; level-- > 0 && n < out.size();) {
    Class& of = classes_[level];
    for (Index at = of.named.first; at != kNone && n < out.size(); at = packets_[at].after) out[n++] = at;
    while (n < out.size() && name_one(of)) out[n++] = of.named.last;
  }
  return n;
}

void QueueOrder::leave(std::size_t n) noexcept {
  for (std::size_t level = kClasses; level-- > 0;) {
    for (; n != 0 && classes_[level].named.first != kNone; --n) free(classes_[level].named.first);
  }
  TALLY_DCHECK(n == 0, "only what was named leaves");
}

void QueueOrder::free(Index packet) noexcept {
  Class& of = classes_[packets_[packet].level];
  if (packets_[packet].flow != kNone) {
    take_from_flow(packet);
  } else {
    unlink(packets_, of.named, packet);
  }
  append(packets_, free_packets_, packet);
  --of.packets;
  --size_;
}

// Looks at every flow of the class, that is at jobs with packets: it happens only while the queue overflows.
QueueOrder::Index QueueOrder::longest(const Class& of) const noexcept {
  Index most = of.flows.first;
  for (Index at = most; at != kNone; at = flows_[at].after)
    if (flows_[at].packets > flows_[most].packets) most = at;
  return most;
}

bool QueueOrder::make_room(std::size_t row, std::uint8_t level) noexcept {
  std::uint8_t lowest = 0;
  while (classes_[lowest].packets == 0) ++lowest;
  if (level < lowest) return false;
  const Index most = longest(classes_[lowest]);
  if (level == lowest) {
    const unsigned own = flows_of_[row] != kNone ? flows_[flows_of_[row]].packets : 0;
    if (most == kNone || flows_[most].packets < own + 2U) return false;
  }
  free(most != kNone ? flows_[most].waiting.last : classes_[lowest].named.last);
  return true;
}

}  // namespace tally::server

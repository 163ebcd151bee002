// What the box says: each kind of its datagrams.
#include <cstring>

#include "ideal_box.h"
#include "tally/mix64.h"

namespace tally::testbed {

// As docs/protocol.md says it, without the product's function.
std::uint32_t Box::slot_of(std::uint32_t chunk) const {
  if (shape.discipline == Discipline::kPool) return chunk % shape.window;
  if (shape.discipline == Discipline::kShared) return chunk % (2 * shape.largest_window);
  return static_cast<std::uint32_t>(mix64(shape.salt ^ ((std::uint64_t{job} << 32) + chunk)) %
                                    shape.shared_slots);
}

Header Box::from_box(PacketType type) const {
  Header h;
  h.type = type;
  h.job = Be<std::uint16_t>{job};
  h.rank = Be<std::uint16_t>{raw(kSwitchRank)};
  h.epoch = Be<std::uint32_t>{epoch};
  h.cookie = Be<std::uint64_t>{result_cookie()};
  return h;
}

Bytes Box::joined(JoinStatus status, std::uint64_t nonce, std::uint16_t rank, const std::string& text) const {
  JoinedPayload p;
  p.nonce = Be<std::uint64_t>{nonce};
  std::uint64_t missing = members();
  for (const auto& [r, n] : joined_) missing &= ~(std::uint64_t{1} << r);
  p.missing = Be<std::uint64_t>{missing};
  p.cookie = Be<std::uint64_t>{cookie_of(rank)};
  p.record.generation = Be<std::uint64_t>{generation};
  p.record.first_chunk = Be<std::uint32_t>{shape.first_chunk};
  p.record.largest_window = Be<std::uint32_t>{shape.largest_window};
  p.record.lookahead = Be<std::uint32_t>{shape.lookahead};
  p.record.elements = Be<std::uint16_t>{shape.elements};
  p.world = Be<std::uint16_t>{shape.world};
  p.window = Be<std::uint32_t>{shape.window};
  p.lease_ms = Be<std::uint32_t>{shape.lease_ms};
  p.most_advanced = Be<std::uint16_t>{shape.most_advanced};
  p.status = status;
  p.discipline = shape.discipline;
  p.shared_slots = Be<std::uint32_t>{shape.shared_slots};
  p.salt = Be<std::uint64_t>{shape.salt};
  p.results = ResultsMode::kUnicast;
  p.shards = shape.shards;
  p.text_bytes = Be<std::uint16_t>{static_cast<std::uint16_t>(text.size())};
  Bytes payload(sizeof p);
  std::memcpy(payload.data(), &p, sizeof p);
  const Bytes tail = text_bytes(text);
  payload.insert(payload.end(), tail.begin(), tail.end());
  Header h = from_box(PacketType::kJoined);
  if (status != JoinStatus::kRunning) h.cookie = Be<std::uint64_t>{0};
  if (status == JoinStatus::kRunning) h.priority = shape.max_priority;
  if (status == JoinStatus::kRunning && shape.stragglers) h.flags = kFlagIncomplete;
  return sealed(h, payload);
}

Bytes Box::reject(RejectReason reason, const Header& rejected, std::uint64_t cookie,
                  std::uint64_t contributors) const {
  Header h = from_box(PacketType::kReject);
  h.job = rejected.job;
  h.epoch = rejected.epoch;
  h.chunk = rejected.chunk;
  h.slot = Be<std::uint32_t>{static_cast<std::uint32_t>(reason)};
  h.cookie = Be<std::uint64_t>{cookie};
  h.contributors = Be<std::uint64_t>{contributors};
  return sealed(h);
}

Bytes Box::abort(const std::string& text) const {
  return sealed(from_box(PacketType::kAbort), text_bytes(text));
}

Bytes Box::result_of(const Bytes& contribution, std::uint64_t ranks) const {
  Header h = header_of(result_of(contribution));
  const std::uint32_t whole = h.sum1.host();
  std::uint32_t missing = 0;
  for (std::uint16_t r = 0; r < shape.world; ++r)
    if ((ranks >> r & 1) == 0) missing += keyed(key_of(r), h.chunk_id());
  if (ranks != members()) h.flags |= kFlagIncomplete;
  h.contributors = Be<std::uint64_t>{ranks};
  h.sum1 = Be<std::uint32_t>{whole - missing};
  if (ranks == 0) {
    h.elements = Be<std::uint16_t>{0};
    h.sum1 = h.sum2 = Be<std::uint32_t>{0};
    return sealed(h);
  }
  return sealed(h, payload_of(contribution));
}

Bytes Box::result_of(const Bytes& contribution) const {
  const Header c = header_of(contribution);
  Header h = from_box(PacketType::kResult);
  h.chunk = c.chunk;
  h.slot = c.slot;
  h.elements = c.elements;
  h.dtype = c.dtype;
  h.exponent = c.exponent;
  h.total = c.total;
  h.contributors = Be<std::uint64_t>{members()};
  std::uint32_t sum1 = plain_sum1(values_of(contribution));
  for (std::uint16_t r = 0; r < shape.world; ++r) sum1 += keyed(key_of(r), c.chunk_id());
  h.sum1 = Be<std::uint32_t>{sum1};
  h.sum2 = c.sum2;
  return sealed(h, payload_of(contribution));
}

}  // namespace tally::testbed

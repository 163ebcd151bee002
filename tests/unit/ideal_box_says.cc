// What the box says: each kind of its datagrams.
#include "box_says.h"
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

engine::Membership Box::epoch_of(std::uint16_t rank) const {
  engine::Membership m;
  m.job = JobId{job};
  m.epoch = Epoch{epoch};
  m.cookie = Cookie{cookie_of(rank)};
  m.result_cookie = Cookie{result_cookie()};
  m.generation = Generation{generation};
  m.first_chunk = Chunk{shape.first_chunk};
  m.largest_window = shape.largest_window;
  m.lookahead = shape.lookahead;
  m.elements = shape.elements;
  m.window = shape.window;
  m.world = shape.world;
  m.shards = shape.shards;
  m.discipline = shape.discipline;
  m.shared_slots = shape.shared_slots;
  m.salt = shape.salt;
  m.max_priority = shape.max_priority;
  m.stragglers = shape.stragglers;
  m.sparse = shape.sparse;
  m.lease = shape.lease_ms * kMillisecond;
  m.most_advanced = Rank{shape.most_advanced};
  m.session = auth::session_key(job_key(), m.generation, m.epoch, m.result_cookie, m.cookie,
                                instance_of(rank), Rank{rank});
  return m;
}

Header Box::from_box(PacketType type) const { return box_header(epoch_of(0), type); }

Bytes Box::joined(JoinStatus status, std::uint64_t nonce, std::uint16_t rank, const std::string& text) const {
  std::uint64_t missing = members();
  for (const auto& [r, n] : joined_) missing &= ~(std::uint64_t{1} << r);
  return box_joined(epoch_of(rank), status, nonce, job_key(), missing, text_bytes(text));
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

Bytes Box::call_back(std::uint16_t rank) const {
  Header h = from_box(PacketType::kReject);
  h.slot = Be<std::uint32_t>{static_cast<std::uint32_t>(RejectReason::kEpoch)};
  return box_tells(epoch_of(rank), h);
}

Bytes Box::unknown_epoch(const Bytes& heartbeat) const {
  const Header asked = header_of(heartbeat);
  Header h = from_box(PacketType::kReject);
  h.job = asked.job;
  h.epoch = asked.epoch;
  h.cookie = {};
  h.slot = Be<std::uint32_t>{static_cast<std::uint32_t>(RejectReason::kJob)};
  return box_says(h, wire_at<CountedPayload>(heartbeat.data() + kHeaderBytes).counter.host(), job_key());
}

Bytes Box::abort(const std::string& text, std::uint16_t rank) const {
  return box_tells(epoch_of(rank), from_box(PacketType::kAbort), text_bytes(text));
}

Bytes Box::echo(PacketType type, std::uint16_t rank) const {
  Header h = from_box(type);
  std::uint64_t present = members();
  for (const std::uint16_t gone : left) present &= ~bit_of(Rank{gone});
  h.contributors = Be<std::uint64_t>{present};
  return box_tells(epoch_of(rank), h);
}

Bytes Box::challenge(std::uint64_t nonce) { return box_challenges(nonce, {7, 7}); }

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
    h.flags &= static_cast<std::uint8_t>(~kFlagZero);
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
  h.elements = c.elements;
  h.dtype = c.dtype;
  h.flags = c.flags & kFlagZero;
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

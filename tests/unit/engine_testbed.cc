#include "engine_testbed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "tally/mix64.h"

namespace tally::testbed {
namespace {

const Kernels& kernels() { return best_kernels(); }

std::uint32_t key_of(std::uint64_t generation, std::uint16_t rank) {
  return rank_key(Generation{generation}, Rank{rank});
}

std::uint32_t big_endian(std::uint32_t v) { return __builtin_bswap32(v); }

std::uint32_t plain_sum1(const std::vector<std::int32_t>& values) {
  std::uint32_t sum = 0;
  for (const auto v : values) sum += static_cast<std::uint32_t>(v);
  return sum;
}

std::uint32_t plain_sum2(const std::vector<std::int32_t>& values) {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < values.size(); ++i) sum += (i + 1) * static_cast<std::uint32_t>(values[i]);
  return sum;
}

}  // namespace

Header header_of(const Bytes& datagram) {
  Header header;
  EXPECT_GE(datagram.size(), sizeof header);
  std::memcpy(&header, datagram.data(), sizeof header);
  return header;
}

Bytes payload_of(const Bytes& datagram) { return {datagram.begin() + kHeaderBytes, datagram.end()}; }

std::vector<std::int32_t> values_of(const Bytes& datagram) {
  std::vector<std::int32_t> values((datagram.size() - kHeaderBytes) / 4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, datagram.data() + kHeaderBytes + 4 * i, 4);
    values[i] = static_cast<std::int32_t>(big_endian(word));
  }
  return values;
}

Bytes sealed(Header header, const Bytes& payload) {
  if (is_control(header.type))
    header.sum1 = Be<std::uint32_t>{kernels().crc32c(payload.data(), payload.size())};
  Bytes out(kHeaderBytes);
  std::memcpy(out.data(), &header, kHeaderBytes);
  out.insert(out.end(), payload.begin(), payload.end());
  return resealed(out);
}

Bytes sealed(Header header, const std::vector<std::int32_t>& values) {
  Bytes payload(4 * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t word = big_endian(static_cast<std::uint32_t>(values[i]));
    std::memcpy(payload.data() + 4 * i, &word, 4);
  }
  return sealed(header, payload);
}

Bytes resealed(Bytes datagram) {
  const Be<std::uint32_t> check{kernels().crc32c(datagram.data(), kCheckedBytes)};
  std::memcpy(datagram.data() + kCheckedBytes, &check, 4);
  return datagram;
}

Bytes text_bytes(const std::string& text) {
  Bytes out(text.size());
  if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
  return out;
}

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
    if ((ranks >> r & 1) == 0) missing += keyed(key_of(generation, r), h.chunk_id());
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
  for (std::uint16_t r = 0; r < shape.world; ++r) sum1 += keyed(key_of(generation, r), c.chunk_id());
  h.sum1 = Be<std::uint32_t>{sum1};
  h.sum2 = c.sum2;
  return sealed(h, payload_of(contribution));
}

void Box::restart(bool new_generation) {
  entries_.clear();
  joined_.clear();
  ++epoch;
  if (new_generation) {
    ++generation;
    offered_.clear();
  }
}

std::vector<Sent> Box::receive(const Bytes& datagram, std::uint16_t port) {
  std::vector<Sent> out;
  const Header h = header_of(datagram);
  EXPECT_EQ(h.version, kWireVersion);
  EXPECT_EQ(h.check.host(), kernels().crc32c(datagram.data(), kCheckedBytes));
  const std::uint16_t rank = h.rank.host();
  EXPECT_LT(rank, shape.world);
  if (h.type == PacketType::kJoin) {
    EXPECT_EQ(port, kBasePort);
    join(datagram, out);
    return out;
  }
  EXPECT_EQ(h.job.host(), job);
  if (!running() || h.epoch.host() != epoch) {
    out.push_back({rank, reject(RejectReason::kEpoch, h)});
    return out;
  }
  EXPECT_EQ(h.cookie.host(), cookie_of(rank));
  if (is_control(h.type)) {
    EXPECT_EQ(port, kBasePort);
    EXPECT_EQ(h.sum1.host(),
              kernels().crc32c(datagram.data() + kHeaderBytes, datagram.size() - kHeaderBytes));
  }
  switch (h.type) {
    case PacketType::kContribute:
      contribute(datagram, port, out);
      break;
    case PacketType::kQuery:
      query(h, out);
      break;
    case PacketType::kAnswer:
      answer(datagram, out);
      break;
    case PacketType::kHeartbeat: {
      Header echo = from_box(PacketType::kHeartbeat);
      std::uint64_t present = members();
      for (const std::uint16_t gone : left) present &= ~bit_of(Rank{gone});
      echo.contributors = Be<std::uint64_t>{present};
      out.push_back({rank, sealed(echo)});
      break;
    }
    case PacketType::kLeave:
      left.insert(rank);
      out.push_back({rank, sealed(from_box(PacketType::kLeave))});
      break;
    case PacketType::kAbort: {
      const Bytes text = payload_of(datagram);
      aborts.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
      for (std::uint16_t r = 0; r < shape.world; ++r)
        out.push_back({r, abort("rank " + std::to_string(rank) + ": " + aborts.back())});
      break;
    }
    default:
      ADD_FAILURE() << "type " << static_cast<int>(h.type);
  }
  return out;
}

void Box::join(const Bytes& datagram, std::vector<Sent>& out) {
  const Header h = header_of(datagram);
  EXPECT_EQ(h.job.host(), 0);
  EXPECT_EQ(h.epoch.host(), 0U);
  EXPECT_EQ(h.cookie.host(), 0U);
  const std::uint16_t rank = h.rank.host();
  JoinPayload p;
  EXPECT_GE(datagram.size(), kHeaderBytes + sizeof p);
  std::memcpy(&p, datagram.data() + kHeaderBytes, sizeof p);
  EXPECT_EQ(datagram.size(), kHeaderBytes + sizeof p + p.name_bytes + p.token_bytes);
  if (const auto before = last_join.find(rank); before != last_join.end()) {
    if (!in_order && p.attempt.host() <= before->second.attempt.host()) return;
    EXPECT_GT(p.attempt.host(), before->second.attempt.host());
    EXPECT_NE(p.nonce.host(), before->second.nonce.host());
  }
  joins[rank].push_back(h);
  last_join[rank] = p;
  const bool was_running = running();
  joined_[rank] = p.nonce.host();
  if (!running()) {
    out.push_back({rank, joined(JoinStatus::kForming, p.nonce.host(), rank)});
  } else if (was_running) {
    out.push_back({rank, joined(JoinStatus::kRunning, p.nonce.host(), rank)});
  } else {
    for (const auto& [r, nonce] : joined_) out.push_back({r, joined(JoinStatus::kRunning, nonce, r)});
  }
}

void Box::contribute(const Bytes& datagram, std::uint16_t port, std::vector<Sent>& out) {
  const Header h = header_of(datagram);
  const std::uint16_t rank = h.rank.host();
  const std::uint32_t chunk = h.chunk.host();
  const auto values = values_of(datagram);
  ++contributions;
  EXPECT_EQ(h.slot.host(), slot_of(chunk));
  EXPECT_EQ(port, kBasePort + h.slot.host() % shape.shards);
  EXPECT_EQ(h.contributors.host(), std::uint64_t{1} << rank);
  EXPECT_TRUE(valid_elements(h.elements.host()));
  EXPECT_LE(h.elements.host(), shape.elements);
  EXPECT_EQ(datagram.size(), kHeaderBytes + 4 * std::size_t{h.elements.host()});
  EXPECT_EQ(h.sum1.host() - keyed(key_of(generation, rank), Chunk{chunk}), plain_sum1(values));
  EXPECT_EQ(h.sum2.host(), plain_sum2(values));

  // Nothing of a contribution changes within a generation but epoch, cookie, slot, priority, RETRANSMIT.
  const auto [at, first] = offered_.try_emplace({rank, chunk}, Offered{values, h});
  if (!first) {
    EXPECT_TRUE(!in_order || (h.flags & kFlagRetransmit) != 0) << "chunk " << chunk << " rank " << rank;
    EXPECT_EQ(at->second.values, values) << "chunk " << chunk << " rank " << rank;
    EXPECT_EQ(at->second.header.exponent, h.exponent);
    EXPECT_EQ(at->second.header.total, h.total);
    EXPECT_EQ(at->second.header.dtype, h.dtype);
    EXPECT_EQ(at->second.header.sum1, h.sum1);
    EXPECT_EQ((at->second.header.flags ^ h.flags) & kFlagOverflow, 0);
  }

  Entry& e = entries_[chunk];
  if (e.contributors == 0) {
    e.header = h;
    e.sum.assign(values.size(), 0);
  }
  if (e.contributors == members()) {
    out.push_back({rank, result(chunk, e)});
    return;
  }
  if ((e.contributors >> rank & 1) != 0) return;
  EXPECT_EQ(e.header.elements, h.elements);
  EXPECT_EQ(e.header.total, h.total);
  EXPECT_EQ(e.header.dtype, h.dtype);
  e.contributors |= std::uint64_t{1} << rank;
  for (std::size_t i = 0; i < values.size(); ++i) e.sum[i] += static_cast<std::uint32_t>(values[i]);
  e.sum1 += h.sum1.host();
  e.sum2 += h.sum2.host();
  e.flags |= static_cast<std::uint8_t>(h.flags & kFlagOverflow);
  e.exponent = std::max<int>(e.exponent, h.exponent);
  if (e.contributors != members()) return;
  if ((e.flags & kFlagOverflow) != 0) ++overflow_results;
  for (std::uint16_t r = 0; r < shape.world; ++r) out.push_back({r, result(chunk, e)});
}

Bytes Box::result(std::uint32_t chunk, const Entry& e) const {
  Header h = from_box(PacketType::kResult);
  h.flags = e.flags;
  h.chunk = Be<std::uint32_t>{chunk};
  h.slot = Be<std::uint32_t>{slot_of(chunk)};
  h.elements = e.header.elements;
  h.dtype = e.header.dtype;
  h.exponent = static_cast<std::int8_t>(e.exponent);
  h.contributors = Be<std::uint64_t>{e.contributors};
  h.sum1 = Be<std::uint32_t>{e.sum1};
  h.sum2 = Be<std::uint32_t>{e.sum2};
  h.total = e.header.total;
  std::vector<std::int32_t> values(e.sum.size());
  std::transform(e.sum.begin(), e.sum.end(), values.begin(),
                 [](std::uint32_t v) { return static_cast<std::int32_t>(v); });
  return sealed(h, values);
}

void Box::query(const Header& h, std::vector<Sent>& out) {
  ++queries;
  const std::uint16_t rank = h.rank.host();
  EXPECT_EQ(h.elements.host(), 0);
  EXPECT_EQ(h.slot.host(), slot_of(h.chunk.host()));
  EXPECT_TRUE(std::has_single_bit(h.contributors.host()));
  const auto peer = static_cast<std::uint16_t>(std::countr_zero(h.contributors.host()));
  EXPECT_NE(peer, rank);
  EXPECT_LT(peer, shape.world);
  const auto e = entries_.find(h.chunk.host());
  if (e != entries_.end() && e->second.contributors == members()) {
    out.push_back({rank, result(h.chunk.host(), e->second)});
    return;
  }
  Header relayed = h;
  relayed.cookie = Be<std::uint64_t>{result_cookie()};
  out.push_back({peer, sealed(relayed)});
  if (e != entries_.end())
    out.push_back({rank, reject(RejectReason::kWaiting, h, result_cookie(), e->second.contributors)});
}

void Box::answer(const Bytes& datagram, std::vector<Sent>& out) {
  ++answers;
  Header h = header_of(datagram);
  EXPECT_EQ(h.contributors.host(), members());
  const auto asker = static_cast<std::uint16_t>(h.slot.host());
  h.type = PacketType::kResult;
  h.rank = Be<std::uint16_t>{raw(kSwitchRank)};
  h.cookie = Be<std::uint64_t>{result_cookie()};
  h.slot = Be<std::uint32_t>{slot_of(h.chunk.host())};
  out.push_back({asker, sealed(h, payload_of(datagram))});
}

EngineOptions options_of(const JobShape& shape, std::uint16_t rank) {
  EngineOptions o;
  o.job = "test";
  o.token = "secret";
  o.rank = Rank{rank};
  o.world = shape.world;
  o.elements = shape.elements;
  o.instance = 1000U + rank;
  o.seed = 42U + rank;
  o.rto_floor = kPollRtoFloor;
  return o;
}

std::vector<Out> drain(WorkerEngine& engine, TimeNs now) {
  std::vector<Out> all;
  Bytes room(engine.max_datagram_bytes());
  std::uint16_t port = 0;
  while (const std::size_t n = engine.transmit(room, now, port)) {
    all.push_back({Bytes(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(n)), port});
    if (all.size() > 100'000) {
      ADD_FAILURE() << "the engine never stops sending";
      break;
    }
  }
  EXPECT_GT(engine.deadline(), now);
  return all;
}

std::unique_ptr<WorkerEngine> joined_engine(const Box& box, const EngineOptions& options) {
  auto engine = std::move(*WorkerEngine::create(options, best_kernels()));
  JoinPayload p;
  std::memcpy(&p, drain(*engine, 0).at(0).bytes.data() + kHeaderBytes, sizeof p);
  engine->receive(box.joined(JoinStatus::kRunning, p.nonce.host(), raw(options.rank)), 0);
  EXPECT_EQ(engine->state(), EngineState::kRunning);
  return engine;
}

Rig::Rig(const JobShape& shape) : box(shape), paused(shape.world, false) {
  for (std::uint16_t r = 0; r < shape.world; ++r)
    engines.push_back(std::move(*WorkerEngine::create(options_of(shape, r), best_kernels())));
}

void Rig::send(const Flying& flying) {
  if (lose && lose(flying.to_box, flying.rank, header_of(flying.bytes))) return;
  for (unsigned n = copies ? copies() : 1; n != 0; --n)
    flying_.emplace(now + latency + (delay ? delay() : 0), flying);
}

void Rig::step() {
  for (std::uint16_t r = 0; r < box.shape.world; ++r) {
    if (paused[r]) continue;
    for (auto& out : drain(*engines[r], now)) send({true, r, out.port, std::move(out.bytes)});
    while (auto c = engines[r]->next_completion())
      completed.insert_or_assign(std::pair{std::size_t{r}, c->id}, std::move(c->result));
  }
}

bool Rig::run_until(const std::function<bool()>& done, TimeNs limit) {
  const TimeNs end = now + limit;
  for (step(); !done(); step()) {
    TimeNs next = flying_.empty() ? kNever : flying_.begin()->first;
    for (std::size_t r = 0; r < engines.size(); ++r)
      if (!paused[r]) next = std::min(next, engines[r]->deadline());
    if (next > end) {
      now = end;
      return false;
    }
    now = std::max(now, next);
    while (!flying_.empty() && flying_.begin()->first <= now) {
      const Flying f = std::move(flying_.begin()->second);
      flying_.erase(flying_.begin());
      if (f.to_box) {
        for (auto& s : box.receive(f.bytes, f.port)) send({false, s.rank, 0, std::move(s.bytes)});
      } else if (!paused[f.rank]) {
        engines[f.rank]->receive(f.bytes, now);
      }
    }
  }
  return true;
}

bool Rig::run_until_running() {
  return run_until([&] {
    return std::all_of(engines.begin(), engines.end(),
                       [](const auto& e) { return e->state() == EngineState::kRunning; });
  });
}

std::vector<Result<OperationStats>> Rig::finish(OperationId id) {
  std::vector<Result<OperationStats>> results;
  EXPECT_TRUE(run_until([&] {
    for (std::size_t r = 0; r < engines.size(); ++r)
      if (!completed.contains({r, id})) return false;
    return true;
  })) << "operation "
      << static_cast<std::uint64_t>(id) << " did not finish";
  for (std::size_t r = 0; r < engines.size(); ++r)
    if (const auto at = completed.find({r, id}); at != completed.end()) results.push_back(at->second);
  return results;
}

}  // namespace tally::testbed

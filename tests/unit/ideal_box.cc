// What the box does with what it gets.
#include "ideal_box.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "kernels/kernels.h"

namespace tally::testbed {

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
  EXPECT_EQ(h.check.host(), kernels::best_kernels().crc32c(datagram.data(), kCheckedBytes));
  const std::uint16_t rank = h.rank.host();
  EXPECT_LT(rank, shape.world);
  if (h.type == PacketType::kJoin) {
    EXPECT_EQ(port, kBasePort);
    join(datagram, out);
    return out;
  }
  EXPECT_EQ(h.job.host(), job);
  if (!running() || h.epoch.host() != epoch) {
    out.push_back(
        {rank, h.type == PacketType::kHeartbeat ? unknown_epoch(datagram) : reject(RejectReason::kEpoch, h)});
    return out;
  }
  EXPECT_EQ(h.cookie.host(), cookie_of(rank));
  const std::span<const std::byte> payload = std::span(datagram).subspan(kHeaderBytes);
  if (is_control(h.type)) {
    EXPECT_EQ(port, kBasePort);
    EXPECT_EQ(h.sum1.host(), kernels::best_kernels().crc32c(payload.data(), payload.size()));
    const bool beats = h.type == PacketType::kHeartbeat;
    EXPECT_TRUE(!beats || h.contributors.host() == instance_of(rank));
    EXPECT_TRUE(auth::verify(beats ? job_key() : epoch_of(rank).session, h, payload));
    const std::uint64_t counter = wire_at<CountedPayload>(payload.data()).counter.host();
    EXPECT_TRUE(!in_order || counter > counters[rank]);
    counters[rank] = counter;
  }
  switch (h.type) {
    case PacketType::kContribute:
      contribute(datagram, port, out);
      break;
    case PacketType::kZeroRun:
      zero_run(datagram, port, out);
      break;
    case PacketType::kQuery:
      query(h, out);
      break;
    case PacketType::kAnswer:
      answer(datagram, out);
      break;
    case PacketType::kHeartbeat:
      out.push_back({rank, echo(h.type, rank)});
      break;
    case PacketType::kLeave:
      left.insert(rank);
      out.push_back({rank, echo(h.type, rank)});
      break;
    case PacketType::kAbort: {
      const auto text = auth::body_of(payload).subspan(sizeof(CountedPayload));
      aborts.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
      for (std::uint16_t r = 0; r < shape.world; ++r)
        out.push_back({r, abort("rank " + std::to_string(rank) + ": " + aborts.back(), r)});
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
  EXPECT_EQ(h.contributors.host(), kFeatureSparse);
  EXPECT_EQ(h.epoch.host(), 0U);
  EXPECT_EQ(h.cookie.host(), 0U);
  const std::uint16_t rank = h.rank.host();
  JoinPayload p;
  EXPECT_GE(datagram.size(), kHeaderBytes + sizeof p);
  std::memcpy(&p, datagram.data() + kHeaderBytes, sizeof p);
  EXPECT_EQ(datagram.size(), kHeaderBytes + sizeof p + p.name_bytes + kTagBytes);
  EXPECT_TRUE(auth::verify(job_key(), h, std::span(datagram).subspan(kHeaderBytes)));
  EXPECT_EQ(p.instance.host(), instance_of(rank));
  if (p.challenge == Tag{}) return out.push_back({rank, challenge(p.nonce.host())});
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
  const std::vector<std::int32_t> values = values_of(datagram);
  check_sending(h, port);
  EXPECT_EQ(h.contributors.host(), std::uint64_t{1} << rank);
  EXPECT_TRUE(valid_elements(h.elements.host(), h.dtype));
  EXPECT_LE(h.elements.host(), values_per_word(h.dtype) * shape.elements);
  if ((h.flags & kFlagSparse) == 0) {
    EXPECT_EQ(datagram.size(), kHeaderBytes + values_bytes(h));
  } else {
    EXPECT_TRUE(shape.sparse);
    EXPECT_EQ(h.flags & kFlagZero, 0);
    EXPECT_LT(datagram.size(), kHeaderBytes + values_bytes(h));
  }
  EXPECT_EQ(h.sum1.host() - keyed(key_of(rank), Chunk{chunk}), plain_sum1(values));
  EXPECT_EQ(h.sum2.host(), plain_sum2(values));
  if (merge(h, values, out)) say_result(chunk, out);
}

void Box::check_sending(const Header& h, std::uint16_t port) {
  ++contributions;
  const std::uint32_t shard = slot_of(h.chunk.host()) % shape.shards;
  EXPECT_NE(h.sequence(), 0U);
  if (in_order) {
    const bool is_new = sequences_[{h.epoch.host(), h.rank.host(), shard}].insert(h.sequence()).second;
    EXPECT_TRUE(is_new) << "the sequence of another sending";
  }
  EXPECT_EQ(port, kBasePort + shard);
}

// Zeros of each of its chunks; what is finished by them and has no values is said in one packet, too.
void Box::zero_run(const Bytes& datagram, std::uint16_t port, std::vector<Sent>& out) {
  const Header h = header_of(datagram);
  ++runs;
  check_sending(h, port);
  EXPECT_TRUE(shape.sparse);
  EXPECT_EQ(h.flags, 0);
  const std::uint64_t chunks = h.contributors.host();
  EXPECT_EQ(chunks & 1, 1U);
  const int named = std::popcount(chunks);
  EXPECT_GT(named, 1);
  std::vector<std::int8_t> exponents(static_cast<std::size_t>(named), h.exponent);
  std::vector<std::int32_t> words;  // behind the keys, in the sums
  for (std::size_t at = kHeaderBytes; at + 4 <= datagram.size(); at += 4)
    words.push_back(static_cast<std::int32_t>(wire_at<Be<std::uint32_t>>(&datagram[at]).host()));
  if (datagram.size() != kHeaderBytes) {
    EXPECT_EQ(h.exponent, kNoExponent);
    EXPECT_EQ(datagram.size(), kHeaderBytes + (exponents.size() + 3) / 4 * 4);
    std::memcpy(exponents.data(), datagram.data() + kHeaderBytes, exponents.size());
    EXPECT_NE(std::count(exponents.begin(), exponents.end(), exponents[0]), named)
        << "else the header has it";
    for (std::size_t i = kHeaderBytes + exponents.size(); i < datagram.size(); ++i)
      EXPECT_EQ(datagram[i], std::byte{0}) << "padding";
  }
  std::vector<std::int32_t> keys(64);
  auto exponent = exponents.begin();
  std::uint64_t zeros = 0;
  for (std::uint32_t i = 0; i < 64; ++i) {
    if ((chunks >> i & 1) == 0) continue;
    Header one = h;
    one.exponent = *exponent++;
    const std::uint32_t chunk = h.chunk.host() + i * shape.shards;
    EXPECT_EQ(slot_of(chunk) % shape.shards, slot_of(h.chunk.host()) % shape.shards);
    const std::uint32_t key = keyed(key_of(h.rank.host()), Chunk{chunk});
    keys[i] = static_cast<std::int32_t>(key);
    one.type = PacketType::kContribute;
    one.flags = h.elements.host() != 0 ? kFlagZero : 0;
    one.chunk = Be{chunk};
    one.sum1 = Be{key};
    one.sum2 = Be<std::uint32_t>{0};
    const bool known = offered_.contains({h.rank.host(), chunk});
    if (known) one.flags |= kFlagRetransmit;  // in an epoch before
    if (!merge(one, std::vector<std::int32_t>(h.elements.host()), out)) continue;
    const Entry& e = entries_.at(chunk);
    const bool nothing = h.elements.host() == 0 || (e.flags & kFlagZero) != 0;
    if (nothing && (e.flags & kFlagOverflow) == 0) {
      zeros |= std::uint64_t{1} << i;
    } else {
      say_result(chunk, out);
    }
  }
  keys.insert(keys.end(), words.begin(), words.end());
  EXPECT_EQ(h.sum1.host(), plain_sum1(keys));
  EXPECT_EQ(h.sum2.host(), plain_sum2(keys));
  if (zeros == 0) return;
  ++result_runs;
  for (std::uint16_t r = 0; r < shape.world; ++r) out.push_back({r, result_run(h, zeros)});
}

void Box::say_result(std::uint32_t chunk, std::vector<Sent>& out) const {
  for (std::uint16_t r = 0; r < shape.world; ++r)
    out.push_back({r, result(chunk, entries_.at(chunk), before(chunk))});
}

bool Box::merge(const Header& h, const std::vector<std::int32_t>& values, std::vector<Sent>& out) {
  const std::uint16_t rank = h.rank.host();
  const std::uint32_t chunk = h.chunk.host();

  // Nothing of a contribution changes within a generation but epoch, cookie, slot, priority, RETRANSMIT.
  const auto [at, first] = offered_.try_emplace({rank, chunk}, Offered{values, h});
  if (!first) {
    EXPECT_TRUE(!in_order || (h.flags & kFlagRetransmit) != 0) << "chunk " << chunk << " rank " << rank;
    EXPECT_EQ(at->second.values, values) << "chunk " << chunk << " rank " << rank;
    EXPECT_EQ(at->second.header.exponent, h.exponent);
    EXPECT_EQ(at->second.header.total, h.total);
    EXPECT_EQ(at->second.header.dtype, h.dtype);
    EXPECT_EQ(at->second.header.sum1, h.sum1);
    EXPECT_EQ((at->second.header.flags ^ h.flags) & (kFlagOverflow | kFlagZero), 0);
  }

  Entry& e = entries_[chunk];
  if (e.contributors == 0) {
    e.header = h;
    e.sum.assign(values.size(), 0);
    e.flags = kFlagZero;
  }
  if (e.contributors == members()) {
    out.push_back({rank, repeated(chunk, e)});
    return false;
  }
  if ((e.contributors >> rank & 1) != 0) return false;
  EXPECT_EQ(e.header.elements, h.elements);
  EXPECT_EQ(e.header.total, h.total);
  EXPECT_EQ(e.header.dtype, h.dtype);
  e.contributors |= std::uint64_t{1} << rank;
  for (std::size_t i = 0; i < values.size(); ++i) e.sum[i] += static_cast<std::uint32_t>(values[i]);
  e.sum1 += h.sum1.host();
  e.sum2 += h.sum2.host();
  e.flags |= static_cast<std::uint8_t>(h.flags & kFlagOverflow);
  if ((h.flags & kFlagZero) == 0) e.flags &= static_cast<std::uint8_t>(~kFlagZero);
  e.exponent = std::max<int>(e.exponent, h.exponent);
  if (e.contributors != members()) return false;
  if ((e.flags & kFlagOverflow) != 0) ++overflow_results;
  return true;
}

// chunks: of the run.
Bytes Box::result_run(const Header& run, std::uint64_t chunks) const {
  Header h = from_box(PacketType::kZeroRun);
  const auto first = static_cast<std::uint32_t>(std::countr_zero(chunks));
  const std::uint32_t base = run.chunk.host() + first * shape.shards;
  std::uint32_t all = 0;
  for (std::uint16_t r = 0; r < shape.world; ++r) all += key_of(r);
  std::vector<std::int32_t> keys(64);
  Bytes exponents;
  for (std::uint32_t i = 0; i < 64 - first; ++i) {
    if ((chunks >> (first + i) & 1) == 0) continue;
    const std::uint32_t chunk = base + i * shape.shards;
    keys[i] = static_cast<std::int32_t>(keyed(all, Chunk{chunk}));
    exponents.push_back(static_cast<std::byte>(entries_.at(chunk).exponent));
  }
  const bool alike = std::count(exponents.begin(), exponents.end(), exponents[0]) ==
                     static_cast<std::ptrdiff_t>(exponents.size());
  h.exponent = alike ? static_cast<std::int8_t>(exponents[0]) : kNoExponent;
  exponents.resize(alike ? 0 : (exponents.size() + 3) / 4 * 4);
  for (std::size_t i = 0; i < exponents.size(); i += 4)
    keys.push_back(static_cast<std::int32_t>(wire_at<Be<std::uint32_t>>(&exponents[i]).host()));
  h.chunk = Be{base};
  h.slot = Be{before(base)};
  h.elements = run.elements;
  h.dtype = run.dtype;
  h.total = run.total;
  h.contributors = Be{chunks >> first};
  h.sum1 = Be{plain_sum1(keys)};
  h.sum2 = Be{plain_sum2(keys)};
  return sealed(h, exponents);
}

std::uint32_t Box::before(std::uint32_t chunk) const {
  std::uint32_t bits = 0;
  if (shares_slots(shape.discipline)) return bits;
  for (std::uint32_t i = 0; i < 32; ++i) {
    const auto e = entries_.find(chunk - (i + 1) * shape.shards);
    if (e != entries_.end() && e->second.contributors == members()) bits |= 1U << i;
  }
  return bits;
}

Bytes Box::repeated(std::uint32_t chunk, const Entry& e) const {
  const Bytes first = result(chunk, e, 0);
  Header h = header_of(first);
  h.flags |= kFlagRetransmit;
  return sealed(h, payload_of(first));
}

Bytes Box::result(std::uint32_t chunk, const Entry& e, std::uint32_t before) const {
  Header h = from_box(PacketType::kResult);
  h.flags = e.flags;
  h.chunk = Be<std::uint32_t>{chunk};
  h.slot = Be<std::uint32_t>{before};
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
  return shape.sparse ? without_zero_rows(sealed(h, values)) : sealed(h, values);
}

void Box::query(const Header& h, std::vector<Sent>& out) {
  ++queries;
  const std::uint16_t rank = h.rank.host();
  EXPECT_EQ(h.elements.host(), 0);
  EXPECT_EQ(h.slot.host(), slot_of(h.chunk.host()));
  const bool of_box = h.contributors.host() == 0;
  EXPECT_TRUE(of_box || std::has_single_bit(h.contributors.host()));
  const auto peer = static_cast<std::uint16_t>(std::countr_zero(h.contributors.host()));
  EXPECT_NE(peer, rank);
  EXPECT_TRUE(of_box || peer < shape.world);
  const auto e = entries_.find(h.chunk.host());
  if (e != entries_.end() && e->second.contributors == members()) {
    out.push_back({rank, repeated(h.chunk.host(), e->second)});
    return;
  }
  const std::uint64_t there = e != entries_.end() ? e->second.contributors : 0;
  if (of_box) return out.push_back({rank, reject(RejectReason::kWaiting, h, result_cookie(), there)});
  Header relayed = h;
  relayed.cookie = Be<std::uint64_t>{result_cookie()};
  out.push_back({peer, sealed(relayed)});
  if (e != entries_.end()) out.push_back({rank, reject(RejectReason::kWaiting, h, result_cookie(), there)});
}

void Box::answer(const Bytes& datagram, std::vector<Sent>& out) {
  ++answers;
  Header h = header_of(datagram);
  EXPECT_EQ(h.contributors.host(), members());
  const auto asker = static_cast<std::uint16_t>(h.slot.host());
  h.type = PacketType::kResult;
  h.rank = Be<std::uint16_t>{raw(kSwitchRank)};
  h.cookie = Be<std::uint64_t>{result_cookie()};
  h.slot = Be<std::uint32_t>{0};
  h.flags |= kFlagRetransmit;
  out.push_back({asker, sealed(h, payload_of(datagram))});
}

}  // namespace tally::testbed

// A sequence of packets and of control's doings over two small jobs, against an oracle of protocol_box.md's
// pool rules. Every packet's verdict is predicted; every RESULT must hold each member's contribution exactly
// once and equal what was delivered for the chunk before; a refused packet changes one counter; occupancy is
// the number of filling entries; the staged execution does the same as the fused one.

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "forged_frame.h"
#include "packet_sequence.h"
#include "tally/check.h"

namespace tally {

Sequence::Sequence(FuzzInput in)
    : in_(in),
      kernels_(*kernels::usable_kernels()[in_.below(
          static_cast<std::uint32_t>(kernels::usable_kernels().size()))]),
      fused_({.core = 0, .box = test_box()}, memory_.region(), kernels_),
      staged_({.core = 0, .box = test_box()}, memory_.region(), kernels_) {
  for (std::uint16_t j = 0; j < kJobs; ++j) {
    lives_[j].row.id = JobId{static_cast<std::uint16_t>(j + 1)};
    create(lives_[j], j);
  }
}

void Sequence::create(Life& l, std::uint32_t place) {
  const std::uint8_t how = in_.byte();
  JobSpec spec{.id = raw(l.row.id), .epoch = ++last_epoch_, .generation = last_epoch_ * 77};
  spec.world = static_cast<std::uint8_t>(1 + (how & 3));
  spec.elements = static_cast<std::uint16_t>((how & 4) != 0 ? 32 : 16);
  spec.shards = static_cast<std::uint8_t>((how & 8) != 0 ? 2 : 1);
  if ((how & 0x80) != 0) {  // who leaves zeros out; also where shards do not divide the window
    spec.world = std::max<std::uint8_t>(spec.world, 2);
    spec.shards = static_cast<std::uint8_t>(2 * spec.shards - 1);
    spec.sparse = true;
  }
  spec.window = kWindow;
  spec.first_line = place * kPlaceLines;
  l.row = make_job(spec);
  // The generation may have begun with a larger window than it has now.
  if ((how & 0x40) != 0) l.row.span = 4 * kWindow;
  constexpr std::array<std::uint32_t, 4> kFirst{0, 0xFFFFFFFD, 0x7FFFFFFE, 0x80000005};
  l.front = Chunk{kFirst[how >> 4 & 3]};
  l.present = true;
  l.place = place;
  taken_[place] = true;
  l.rogue = false;
  l.contributions.clear();
  l.in_generation.clear();
  l.oracle.begin(l.row);
  const auto next = table_->with(l.row.id, std::make_shared<jobs::NativeJob>(l.row));
  fused_.adopt(next.get());
  staged_.adopt(next.get());
  table_ = next;
}

void Sequence::new_epoch(Life& l) {
  if (!l.present) return;
  const std::uint64_t generation = raw(l.row.generation);
  const std::uint32_t span = l.row.span;
  l.row = make_job({.id = raw(l.row.id),
                    .epoch = ++last_epoch_,
                    .generation = generation,
                    .world = l.row.world,
                    .shards = l.row.shards,
                    .window = kWindow,
                    .elements = l.row.elements,
                    .first_line = l.row.slots.first,
                    .sparse = l.row.sparse});
  l.row.span = span;
  l.oracle.begin(l.row);
  const auto next = table_->with(l.row.id, std::make_shared<jobs::NativeJob>(l.row));
  fused_.adopt(next.get());
  staged_.adopt(next.get());
  table_ = next;
}

// The job gives its range back, or comes back as another one in a range that is free.
void Sequence::move(Life& l) {
  if (!l.present) {
    std::uint32_t place = in_.below(kPlaces);
    while (taken_[place]) place = (place + 1) % kPlaces;
    return create(l, place);
  }
  fused_.release(l.row.id, l.row.slots, l.row.elements, l.row.members);
  staged_.release(l.row.id, l.row.slots, l.row.elements, l.row.members);
  l.oracle.release();
  l.present = false;
  taken_[l.place] = false;
  const auto next = table_->with(l.row.id, {});
  fused_.adopt(next.get());
  staged_.adopt(next.get());
  table_ = next;
}

// Mostly a chunk near the front, which moves on; sometimes one that has the same place, one at the edges of
// span, or any.
Chunk Sequence::near(Life& l) {
  const std::uint8_t how = in_.byte();
  if ((how & 0x80) == 0) {
    if ((how & 0x40) != 0) l.front = l.front + 1;
    return l.front - (how & 7);
  }
  if ((how & 0x40) == 0) l.front = l.front + (how & 0x1F);
  if ((how & 0x60) == 0x60) return Chunk{in_.word()};
  const std::uint32_t edge = ((how & 8) != 0 ? 2 * kWindow : l.row.span) - 1 + (how & 3);
  return (how & 4) != 0 ? l.front + edge : l.front - edge;
}

jobs::Shape Sequence::shape_of(const Life& l, Chunk chunk) {
  jobs::Shape shape;
  shape.elements = static_cast<std::uint16_t>(l.row.elements - (raw(chunk) % 8 == 7 ? 16 : 0));
  shape.total = 1000 + raw(chunk) / 64;
  shape.dtype = static_cast<std::uint8_t>(raw(l.row.generation) & 1);
  return shape;
}

// What the rank contributes to the chunk; the same in every epoch of the generation.
Offered Sequence::offered(Life& l, Rank rank, Chunk chunk) {
  const auto key = std::pair{raw(chunk), raw(rank)};
  if (const auto at = l.contributions.find(key); at != l.contributions.end()) return at->second;
  const std::uint8_t how = in_.byte();
  Offered p{.rank = rank, .chunk = chunk};
  p.shape = shape_of(l, chunk);
  p.exponent = static_cast<std::int8_t>((how & 1) != 0 ? in_.byte() : kNoExponent);
  p.overflow = (how & 2) != 0;
  p.direct = (how & 0x70) == 0x70;
  p.zero = (how & 0x80) != 0 && p.shape.elements != 0;
  const std::uint32_t base = (how & 4) != 0 ? in_.word() : in_.byte();
  const std::uint32_t step = (how & 8) != 0 ? in_.word() : how;
  for (std::uint32_t i = 0; i < p.shape.elements; ++i)
    p.values.push_back(p.zero ? 0 : static_cast<std::int32_t>(base + i * step));
  const std::uint8_t zeros = l.row.sparse ? in_.byte() : std::uint8_t{0};
  for (std::uint32_t i = 0; i < p.shape.elements; ++i)
    if ((zeros >> i / kElementGranule & 1) != 0) p.values[i] = 0;
  if (!p.direct) l.contributions.emplace(key, p);
  return p;
}

void Sequence::contribute(Life& l, Rank rank, Chunk chunk) {
  Offered p = offered(l, rank, chunk);
  if (l.row.sparse) choose_form(p);
  const Bytes datagram = datagram_of(l.row, p);
  history_.push_back({static_cast<std::uint16_t>(raw(l.row.id) - 1), l.row.epoch, datagram, p});
  expect_contribution(l, datagram, p, in_.flip());
}

// The same values may go in one form now and in another the next time.
void Sequence::choose_form(Offered& p) {
  const std::uint8_t how = in_.byte();
  if ((how & 1) != 0) p.zero = false;  // zeros may be there, too
  p.kept = static_cast<std::uint8_t>(how >> 2 & 3);
  p.sparse = (how & 2) != 0 && !p.zero && rows_shorten(p);
}

void Sequence::whole_chunk(Life& l) {
  const Chunk chunk = near(l);
  const std::uint32_t first = in_.below(l.row.world);
  for (std::uint32_t r = 0; r < l.row.world; ++r)
    contribute(l, Rank{static_cast<std::uint16_t>((first + r) % l.row.world)}, chunk);
}

// Chunks in a row to which a rank contributes a flipped bit that its port does not see: the job may become
// suspect.
void Sequence::poisoned_chunks(Life& l) {
  const std::uint32_t bad = in_.below(l.row.world);
  const std::uint32_t count = 1 + in_.below(4);
  const std::uint16_t bit = in_.half();
  for (std::uint32_t i = 0; i < count; ++i) {
    l.front = l.front + 1;
    for (std::uint16_t r = 0; r < l.row.world; ++r) {
      Offered p = offered(l, Rank{r}, l.front);
      Bytes datagram = datagram_of(l.row, p);
      if (r == bad && !p.values.empty() && !p.zero && !l.oracle.holds_corrupt(p.chunk)) {
        datagram[kHeaderBytes + bit / 8 % (4 * p.values.size())] ^=
            std::byte{static_cast<unsigned char>(1U << bit % 8)};
        p.corrupt = true;
      }
      expect_contribution(l, datagram, p, true);
    }
  }
}

void Sequence::replay() {
  if (history_.empty()) return;
  const SentFrame& old = history_[in_.half() % history_.size()];
  Life& l = lives_[old.job];
  const bool vouched = in_.flip();
  const jobs::Binding from = test_binding(raw(l.row.id), raw(old.offered.rank));
  if (old.header_corrupt) {
    const Drop why = std::to_integer<int>(old.datagram[0]) != kWireVersion ? Drop::kVersion : Drop::kCheck;
    expect_drop(l, from, old.datagram, false, why);
  } else if (!l.present) {
    expect_drop(l, from, old.datagram, vouched, Drop::kJob);
  } else if (l.row.epoch != old.epoch) {
    expect_drop(l, from, old.datagram, vouched, Drop::kEpoch);
  } else {
    // Two flips in one chunk may cancel each other: no check finds what is not there.
    const bool risky = old.offered.corrupt && l.oracle.holds_corrupt(old.offered.chunk);
    // A copy that the network made, or the rank sends it once more.
    const Bytes datagram = in_.flip() ? old.datagram : sent_again(l.row, old.datagram);
    expect_contribution(l, datagram, old.offered, vouched && !risky);
  }
}

// One bit flips on the way: in the header, where a port that vouches would have seen it, or in the values.
void Sequence::corrupt(Life& l) {
  const Rank r = rank(l);
  Offered p = offered(l, r, near(l));
  if (l.row.sparse) choose_form(p);
  SentFrame sent{static_cast<std::uint16_t>(raw(l.row.id) - 1), l.row.epoch, datagram_of(l.row, p), p};
  const std::size_t bit = in_.half() % (8 * sent.datagram.size());
  sent.datagram[bit / 8] ^= std::byte{static_cast<unsigned char>(1U << bit % 8)};
  sent.header_corrupt = bit < 8 * kHeaderBytes;
  sent.offered.corrupt = !sent.header_corrupt;
  // Another bitmap is one of another length.
  if (p.sparse && bit >= 8 * (sent.datagram.size() - 8))
    return expect_drop(l, l.row.ranks[raw(r)].binding, sent.datagram, false, Drop::kRows);
  history_.push_back(sent);
  if (sent.header_corrupt) {
    const Drop why = bit < 8 ? Drop::kVersion : Drop::kCheck;
    return expect_drop(l, l.row.ranks[raw(r)].binding, sent.datagram, false, why);
  }
  const bool vouched = in_.flip() && !l.oracle.holds_corrupt(p.chunk);
  expect_contribution(l, sent.datagram, sent.offered, vouched);
}

// A right frame but for one field, and the check made right again.
void Sequence::forge(Life& l) {
  const Rank r = rank(l);
  const Offered p = offered(l, r, near(l));
  const auto other = static_cast<std::uint16_t>(in_.half() | 1);
  const Forged forged = forged_contribution(l.row, p, in_.below(kForgeries), other);
  const Drop why = l.present || forged.before_match ? forged.why : Drop::kJob;
  expect_drop(l, forged.from, forged.datagram, in_.flip(), why);
}

// The rank sends something else for a chunk than it did or the others do.
void Sequence::rogue(Life& l) {
  const Rank r = rank(l);
  Offered p = offered(l, r, near(l));
  const std::uint8_t how = in_.byte();
  l.rogue = true;
  if ((how & 1) != 0) p.shape.total ^= how;
  if ((how & 2) != 0) p.shape.dtype ^= 1;
  if ((how & 4) != 0) p.shape.elements = static_cast<std::uint16_t>(p.shape.elements % 32 + 16);
  if (p.shape.elements > l.row.elements) p.shape.elements = 0;
  p.zero = p.sparse = false;
  p.values.resize(p.shape.elements);
  for (auto& v : p.values) v ^= how;
  const Bytes datagram = datagram_of(l.row, p);
  history_.push_back({static_cast<std::uint16_t>(raw(l.row.id) - 1), l.row.epoch, datagram, p});
  expect_contribution(l, datagram, p, in_.flip());
}

std::optional<Expected> Sequence::early(const Life& l, Chunk chunk) const {
  if (!l.present) return Expected{.drop = Drop::kJob};
  if (raw(chunk) % kWindow % l.row.shards != 0) return Expected{.verdict = Verdict::kHandOver};
  return std::nullopt;
}

void Sequence::expect_drop(Life& l, const jobs::Binding& from, const Bytes& datagram, bool vouched,
                           Drop why) {
  pass(l, from, datagram, vouched, {.drop = why});
}

void Sequence::expect_contribution(Life& l, const Bytes& datagram, const Offered& p, bool vouched) {
  const auto first = early(l, p.chunk);
  const Expected expected =
      first ? *first : l.oracle.contribute(p, header_of(datagram).sequence(), vouched, now_);
  const pipeline::Outcome out = pass(l, l.row.ranks[raw(p.rank)].binding, datagram, vouched, expected);
  const bool finished = expected.verdict == Verdict::kComplete || out.drop == Drop::kBadSum;
  if (finished && l.row.world > 1) l.finished.emplace(raw(l.row.epoch), raw(p.chunk));
  if (!expected.result) return;
  check_result(l, out, *expected.result, expected.verdict == Verdict::kRepeat);
  const bool to_all = expected.verdict == Verdict::kComplete;
  TALLY_CHECK(out.ranks == (to_all ? l.row.members : bit_of(p.rank)), "the receivers");
  // Alone, a rank gets every contribution back and nothing is stored.
  if (l.row.world > 1) note(l, *expected.result, expected.verdict == Verdict::kComplete);
}

void Sequence::query(Life& l) {
  const Rank asker = rank(l);
  const Rank peer{static_cast<std::uint16_t>(in_.below(l.row.world + 1U))};
  const Chunk chunk = near(l);
  const bool vouched = in_.flip();
  const Bytes datagram = make_query(l.row, asker, chunk, peer);
  const bool right = raw(peer) < l.row.world && peer != asker;
  const jobs::Binding from = l.row.ranks[raw(asker)].binding;
  if (l.present && !right) return expect_drop(l, from, datagram, vouched, Drop::kPeer);
  const auto first = early(l, chunk);
  // `vouched` also says here whether the buffer has room for a result.
  const Expected expected = first ? *first : l.oracle.query(chunk, vouched ? kMaxElements : 0);
  const pipeline::Outcome out = pass(l, from, datagram, vouched, expected);
  if (expected.verdict == Verdict::kRelay) {
    const Header h = header_of({out.payload, out.payload_bytes});
    Header relayed = header_of(datagram);
    relayed.cookie = Be{raw(l.row.result_cookie)};
    relayed.check = h.check;
    TALLY_CHECK(out.to == peer && out.payload_bytes == kHeaderBytes, "QUERY goes to the peer");
    TALLY_CHECK(std::memcmp(&h, &relayed, sizeof h) == 0, "QUERY with the result cookie");
    TALLY_CHECK(out.reject == (expected.waiting != 0), "REJECT(waiting) if the chunk is filling");
    TALLY_CHECK(out.reject_contributors == expected.waiting, "REJECT(waiting) names who is in");
  }
  if (expected.result) {
    check_result(l, out, *expected.result, true);
    TALLY_CHECK(out.ranks == bit_of(asker), "the asker gets the RESULT");
    note(l, *expected.result, false);
  }
}

// A peer answers from its history, one bit of it perhaps flipped.
void Sequence::answer(Life& l) {
  if (l.in_generation.empty() || l.rogue) return;
  const auto kept = std::next(l.in_generation.begin(), in_.half() % l.in_generation.size());
  const Delivered& result = kept->second;
  const Rank from_rank = rank(l);
  const Rank asker{static_cast<std::uint16_t>(in_.below(l.row.world + 1U))};
  Offered p{.rank = from_rank,
            .chunk = result.chunk,
            .shape = result.shape,
            .exponent = result.exponent,
            .overflow = result.overflow,
            .zero = result.zero};
  for (const auto v : result.values) p.values.push_back(static_cast<std::int32_t>(v));
  p.sparse = l.row.sparse && !p.zero && rows_shorten(p) && in_.flip();
  Bytes datagram = datagram_of(l.row, p);
  Header h = header_of(datagram);
  h.type = PacketType::kAnswer;
  h.contributors = Be{l.row.members};
  h.slot = Be{std::uint32_t{raw(asker)}};
  h.sum1 = Be{h.sum1.host() + keyed(l.row.key_sum - l.row.ranks[raw(from_rank)].key, result.chunk)};
  set_header(datagram, h);
  const std::size_t rows = datagram.size() - kHeaderBytes - (p.sparse ? 8 : 0);
  const bool corrupt = in_.below(4) == 0 && rows != 0;
  if (corrupt) datagram[kHeaderBytes + in_.half() % rows] ^= std::byte{0x10};
  const jobs::Binding from = l.row.ranks[raw(from_rank)].binding;
  const bool vouched = in_.flip();
  if (!l.present) return expect_drop(l, from, datagram, vouched, Drop::kJob);
  if (raw(asker) >= l.row.world || asker == from_rank)
    return expect_drop(l, from, datagram, vouched, Drop::kAsker);
  if (corrupt) return expect_drop(l, from, datagram, vouched, Drop::kSum);
  const pipeline::Outcome out = pass(l, from, datagram, vouched, {.verdict = Verdict::kRelay});
  Delivered relayed = result;
  relayed.all_rows = !p.sparse;
  check_result(l, out, relayed, true);
  TALLY_CHECK(out.to == asker, "the asker gets the ANSWER");
}

void Sequence::operate() {
  const std::uint8_t choice = in_.byte();
  const std::uint32_t what = choice % 32;
  Life& l = life();
  if (choice >= 0xE0) return leave_out(l, what);
  if (what < 10) {
    const Rank r = rank(l);
    return contribute(l, r, near(l));
  }
  if (what < 15) return whole_chunk(l);
  if (what < 19) return replay();
  if (what < 22) return corrupt(l);
  if (what < 24) return forge(l);
  if (what < 25) return rogue(l);
  if (what < 27) return query(l);
  if (what < 29) return answer(l);
  if (what < 30) return new_epoch(l);
  if (what < 31) return move(l);
  if (in_.flip()) return poisoned_chunks(l);
  now_ += in_.byte() * kSecond;
}

void Sequence::run() {
  for (int i = 0; i < kMostOperations && !in_.empty(); ++i) {
    operate();
    check_state();
  }
}

}  // namespace tally

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tally::forget_sequences();
  tally::Sequence(tally::FuzzInput(data, size)).run();
  return 0;
}

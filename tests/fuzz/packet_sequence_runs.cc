// Zeros that are left out of the packet sequence (docs/protocol_sparse.md): a zero run is the contributions that it
// stands for, one after the other, each as the oracle has it, whatever else there is of them; and broken ones.

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <iterator>
#include <vector>

#include "forged_frame.h"
#include "packet_sequence.h"
#include "tally/check.h"

namespace tally {

// Of chunks that the rank has nothing in, from now on if it has not said so far.
SentRun Sequence::some_run(Life& l) {
  const Rank r = rank(l);
  const Chunk first = near(l);
  const std::uint64_t wanted = in_.word() | std::uint64_t{in_.byte()} << 40 | 1;
  Offered zero{.rank = r, .shape = shape_of(l, first), .zero = true};
  zero.exponent = static_cast<std::int8_t>(in_.flip() ? in_.byte() % 4 : kNoExponent);
  zero.values.assign(zero.shape.elements, 0);
  SentRun run{static_cast<std::uint16_t>(raw(l.row.id) - 1), l.row.epoch, {}, {}};
  std::uint64_t named = 0;
  std::vector<std::int8_t> exponents;
  const bool unlike = in_.flip();
  const auto shard = [&](Chunk c) { return raw(c) % kWindow % l.row.shards; };
  for (std::uint32_t i = 0; zero.shape.elements != 0 && i * l.row.shards < kWindow; ++i) {
    zero.chunk = first + i * l.row.shards;
    if ((wanted >> i & 1) == 0 || shard(zero.chunk) != shard(first)) continue;
    if (shape_of(l, zero.chunk) != zero.shape) continue;
    const auto at = l.contributions.try_emplace({raw(zero.chunk), raw(r)}, zero).first;
    const Offered& has = at->second;
    if (!has.zero || has.overflow) {
      if (i == 0) return run;
      continue;
    }
    named |= std::uint64_t{1} << i;
    run.zeros.push_back(has);
    exponents.push_back(has.exponent);
    zero.exponent = static_cast<std::int8_t>(unlike ? in_.byte() % 4 : zero.exponent);
  }
  if (named == 0) return run;
  if (std::adjacent_find(exponents.begin(), exponents.end(), std::not_equal_to<>()) == exponents.end()) {
    zero.exponent = exponents.front();
    if (!in_.flip()) exponents.clear();  // alike ones may be said in either form
  }
  run.datagram = make_zero_run(l.row,
                               {.rank = r,
                                .chunk = first,
                                .values = zero.values,
                                .dtype = zero.shape.dtype,
                                .exponent = zero.exponent,
                                .total = zero.shape.total},
                               named, exponents);
  return run;
}

void Sequence::leave_out(Life& l, std::uint32_t what) {
  if (what < 16) return run_of_zeros(l);
  if (what < 24) return whole_chunk(l);
  if (what < 28) return forge_run(l);
  forge_rows(l);
}

// One that is new, or a copy of any that were sent.
void Sequence::run_of_zeros(Life& l) {
  if (in_.below(4) == 0 && !runs_.empty()) {
    const SentRun old = runs_[in_.half() % runs_.size()];
    return expect_run(lives_[old.job], old);
  }
  const SentRun run = some_run(l);
  if (run.zeros.empty()) return;
  runs_.push_back(run);
  expect_run(l, run);
}

void Sequence::forge_run(Life& l) {
  const std::uint32_t which = in_.below(6);
  const std::uint8_t other = in_.byte();
  SentRun run = some_run(l);
  if (run.zeros.empty()) return;
  Header h = header_of(run.datagram);
  // Who names another number of chunks has the header's exponent for them, or the length would be wrong.
  if ((which == 0 || which == 5) && run.datagram.size() != kHeaderBytes) run.datagram.resize(kHeaderBytes);
  Drop why = Drop::kSum;
  bool before_match = false;  // or before it is asked whose chunk it is
  bool before_owner = false;
  if (which == 0) {
    h.contributors = Be{h.contributors.host() & ~std::uint64_t{1}};
    why = Drop::kRun;
    before_owner = true;
  } else if (which == 1) {
    h.flags = kFlagRetransmit;
    if (other % 2 == 0) h.flags = kFlagSparse;
    why = Drop::kFlags;
    before_match = true;
  } else if (which == 2) {
    if (run.datagram.size() == kHeaderBytes || other % 3 == 0) {
      run.datagram.resize(run.datagram.size() + 68);
    } else if (other % 3 == 1) {
      run.datagram.resize(run.datagram.size() - 1);
    } else {
      h.exponent = 0;
    }
    why = Drop::kLength;
    before_match = true;
  } else if (which == 3) {
    h.elements = Be{static_cast<std::uint16_t>(l.row.elements + 16)};
    why = Drop::kElements;
    before_owner = true;
  } else if (which == 4) {
    if (run.datagram.size() == kHeaderBytes || other % 2 == 0) {
      h.sum2 = Be{h.sum2.host() + other + 1};
    } else {
      run.datagram[kHeaderBytes] ^= static_cast<std::byte>(other | 1);
    }
  } else {  // another chunk is named, perhaps one of another core, or one that may not be sent yet
    const std::uint32_t bit = 1 + other % (kMostOfRun - 1);
    h.contributors = Be{h.contributors.host() ^ std::uint64_t{1} << bit};
    for (std::uint32_t i = 0; i < kMostOfRun; ++i) {
      const Chunk chunk = h.chunk_id() + i * l.row.shards;
      const bool named = (h.contributors.host() >> i & 1) != 0;
      const bool beyond = i * l.row.shards >= kWindow;
      if (named && (beyond || raw(chunk) % kWindow % l.row.shards != 0)) why = Drop::kRun;
    }
  }
  set_header(run.datagram, h);
  const jobs::Binding& from = l.row.ranks[raw(h.rank_id())].binding;
  if (before_match) return expect_drop(l, from, run.datagram, in_.flip(), why);
  if (!l.present) return expect_drop(l, from, run.datagram, in_.flip(), Drop::kJob);
  if (before_owner) return expect_drop(l, from, run.datagram, in_.flip(), why);
  if (!l.row.sparse) return expect_drop(l, from, run.datagram, in_.flip(), Drop::kType);
  const auto first = early(l, h.chunk_id());
  pass(l, from, run.datagram, in_.flip(), first ? *first : Expected{.drop = why});
}

void Sequence::forge_rows(Life& l) {
  const Rank r = rank(l);
  const Offered p = offered(l, r, near(l));
  if (p.values.empty()) return;
  const std::uint32_t which = in_.below(kForgedRows);
  const Forged forged = forged_rows(l.row, p, which, static_cast<std::uint16_t>(in_.byte() | 1));
  expect_drop(l, forged.from, forged.datagram, in_.flip(), forged.why);
}

void Sequence::expect_run(Life& l, const SentRun& run) {
  const Header h = header_of(run.datagram);
  const jobs::Binding from = test_binding(raw(l.row.id), h.rank.host());
  const bool vouched = in_.flip();
  if (!l.present) return expect_drop(l, from, run.datagram, vouched, Drop::kJob);
  if (l.row.epoch != run.epoch) return expect_drop(l, from, run.datagram, vouched, Drop::kEpoch);
  if (!l.row.sparse) return expect_drop(l, from, run.datagram, vouched, Drop::kType);
  if (const auto first = early(l, h.chunk_id())) {
    pass(l, from, run.datagram, vouched, *first);
    return;
  }
  if (l.oracle.is_replay(h.rank_id(), h.sequence()))
    return expect_drop(l, from, run.datagram, vouched, Drop::kReplay);
  std::vector<Expected> expected;
  for (const Offered& zero : run.zeros) {
    Expected& e = expected.emplace_back(l.oracle.count(zero, true, now_));
    const bool finished =
        e.verdict == Verdict::kComplete || (e.verdict == Verdict::kDrop && e.drop == Drop::kBadSum);
    if (finished) l.finished.emplace(raw(l.row.epoch), raw(zero.chunk));
    // It is no repetition of a result that anybody asks for.
    if (e.verdict == Verdict::kRepeat) e = {.drop = Drop::kDuplicate};
  }
  pass_run(l, run, expected);
}

void Sequence::pass_run(Life& l, const SentRun& run, const std::vector<Expected>& expected) {
  const jobs::Binding from = l.row.ranks[header_of(run.datagram).rank.host()].binding;
  const Bytes wire = frame_from(from, test_box(), run.datagram, kBasePort);
  const std::size_t room = std::size_t{4} * l.row.elements;
  HeapFrame f(wire, room);
  HeapFrame s(wire, room);
  JobCounters counted = fused_.counters(l.row.id);
  TALLY_CHECK(fused_.counters(JobId{0}).packets() == staged_.counters(JobId{0}).packets(),
              "counters of no job");
  const pipeline::Outcome x = fused_.process(f.frame(from.port, false), now_);
  const pipeline::Outcome y = staged_.process(s.frame(from.port, false), now_);

  std::vector<Delivered> told;
  std::vector<Delivered> owed;
  bool any = false;
  for (const Expected& e : expected) {
    ++packets_;
    ++(e.verdict == Verdict::kDrop ? counted.drops[static_cast<std::size_t>(e.drop)]
                                   : counted.verdicts[static_cast<std::size_t>(e.verdict)]);
    any = any || e.verdict != Verdict::kDrop;
    if (e.event) check_event(l, *e.event, header_of(run.datagram).rank_id());
    if (!e.result) continue;
    const Delivered& sum = *e.result;
    const bool plain = sum.zero && !sum.overflow;
    (plain ? told : owed).push_back(sum);
    note(l, sum, true);
  }
  check_no_event();
  TALLY_CHECK(fused_.counters(l.row.id) == counted, "as many as the contributions that it stands for");

  const Verdict verdict = !told.empty() ? Verdict::kComplete : any ? Verdict::kAbsorb : Verdict::kDrop;
  TALLY_CHECK(x.verdict == verdict && y.verdict == verdict, "the verdict of a run");
  TALLY_CHECK(verdict != Verdict::kDrop || (x.drop == expected.back().drop && y.drop == x.drop), "its drop");
  TALLY_CHECK(!x.reject && !y.reject && x.nack == y.nack, "both executions agree");
  TALLY_CHECK(x.payload_bytes == y.payload_bytes || verdict == Verdict::kDrop, "both executions agree");
  if (verdict != Verdict::kDrop) TALLY_CHECK(same_bytes(f.buffer(), s.buffer()), "same bytes leave");
  if (verdict == Verdict::kComplete) check_run(l, x, told);
  for (const Delivered& sum : owed) {
    TALLY_CHECK(fused_.owes() && staged_.owes(), "what the run finished with values is owed");
    Bytes a(kHeaderBytes + std::size_t{4} * l.row.elements);
    Bytes b(a.size());
    const pipeline::Outcome out = fused_.owed(a);
    const pipeline::Outcome same = staged_.owed(b);
    TALLY_CHECK(out.verdict == Verdict::kComplete && out.ranks == l.row.members, "to each member");
    TALLY_CHECK(same.payload_bytes == out.payload_bytes && same_bytes(a, b), "same bytes leave");
    check_result(l, out, sum, false);
  }
  TALLY_CHECK(!fused_.owes() && !staged_.owes(), "and nothing else");
  check_state();
  now_ += 200 * kMillisecond;
}

// The ZERO RUN that tells of these sums.
void Sequence::check_run(const Life& l, const pipeline::Outcome& out,
                         const std::vector<Delivered>& told) const {
  const Header h = header_of({out.payload, kHeaderBytes});
  const Delivered& first = told.front();
  Header right;
  right.type = PacketType::kZeroRun;
  right.job = Be{raw(l.row.id)};
  right.rank = Be{raw(kSwitchRank)};
  right.epoch = Be{raw(l.row.epoch)};
  right.chunk = Be{raw(first.chunk)};
  right.slot = h.slot;
  right.elements = Be{first.shape.elements};
  right.dtype = first.shape.dtype;
  right.cookie = Be{raw(l.row.result_cookie)};
  right.total = Be{first.shape.total};
  std::uint64_t named = 0;
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  Bytes exponents;
  bool alike = true;
  for (const Delivered& sum : told) {
    exponents.push_back(static_cast<std::byte>(sum.exponent));
    alike = alike && sum.exponent == first.exponent;
    const std::uint32_t place = (raw(sum.chunk) - raw(first.chunk)) / l.row.shards;
    named |= std::uint64_t{1} << place;
    for (std::uint16_t r = 0; r < l.row.world; ++r) {
      const std::uint32_t key = rank_key(l.row.generation, Rank{r}) * (2 * raw(sum.chunk) + 1);
      sum1 += key;
      sum2 += (place + 1) * key;
    }
  }
  exponents.resize(alike ? 0 : (exponents.size() + 3) / 4 * 4);
  for (std::size_t i = 0; i < exponents.size(); i += 4) {
    const auto word = wire_at<Be<std::uint32_t>>(&exponents[i]).host();
    sum1 += word;
    sum2 += static_cast<std::uint32_t>(kMostOfRun + i / 4 + 1) * word;
  }
  right.exponent = static_cast<std::int8_t>(alike ? first.exponent : kNoExponent);
  right.contributors = Be{named};
  right.sum1 = Be{sum1};
  right.sum2 = Be{sum2};
  right.check = Be{kernels::usable_kernels().front()->crc32c(out.payload, kCheckedBytes)};
  TALLY_CHECK(out.payload_bytes == kHeaderBytes + exponents.size() && out.ranks == l.row.members,
              "a header to each member, and exponents that are not alike");
  TALLY_CHECK(same_bytes({out.payload + kHeaderBytes, exponents.size()}, exponents), "its exponents");
  TALLY_CHECK(std::memcmp(&h, &right, sizeof h) == 0, "the ZERO RUN of the box");
  check_before(l, first.chunk, h.before());
}

}  // namespace tally

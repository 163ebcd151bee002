// What must hold after each packet of the sequence.

#include <bit>
#include <cstdio>
#include <cstring>

#include "agree.h"
#include "packet_sequence.h"
#include "tally/check.h"

namespace tally {
namespace {

void check_verdicts(const pipeline::Outcome& x, const pipeline::Outcome& y, const Expected& expected) {
  if (x.verdict != expected.verdict || (x.verdict == Verdict::kDrop && x.drop != expected.drop)) {
    std::fprintf(stderr, "expected %s %s, got %s %s\n", name_of(expected.verdict).data(),
                 name_of(expected.drop).data(), name_of(x.verdict).data(), name_of(x.drop).data());
    TALLY_CHECK(false, "the verdict of protocol_box.md");
  }
  TALLY_CHECK(difference(x, y).empty(), "both executions agree");
  const bool unknown = x.verdict == Verdict::kDrop && (x.drop == Drop::kJob || x.drop == Drop::kEpoch);
  TALLY_CHECK(x.reject == (unknown || expected.waiting != 0), "a REJECT");
}

constexpr std::uint64_t kAllRows = ~std::uint64_t{0};

// Those of a RESULT with the sum, at most 63: all, or if nobody sent all and it is shorter, those that are not zero.
std::uint64_t rows_to_send(const Delivered& sum) {
  if (sum.all_rows || sum.zero) return kAllRows;
  std::uint64_t rows = 0;
  for (std::size_t i = 0; i < sum.values.size(); ++i)
    if (sum.values[i] != 0) rows |= std::uint64_t{1} << i / kElementGranule;
  const bool shorter = 64U * static_cast<unsigned>(std::popcount(rows)) + 8 < 4 * sum.values.size();
  return shorter ? rows : kAllRows;
}

bool stores(const pipeline::Outcome& out) {
  if (out.verdict == Verdict::kDrop) return out.drop == Drop::kBadSum;
  return out.verdict == Verdict::kAbsorb || out.verdict == Verdict::kComplete;
}

}  // namespace

pipeline::Outcome Sequence::pass(const Life& l, const jobs::Binding& from, const Bytes& datagram,
                                 bool vouched, const Expected& expected) {
  const Bytes wire = frame_from(from, test_box(), datagram, kBasePort);
  // Of what leaves values out always, or it would be refused for it.
  const Header sent = header_of(datagram);
  const bool leaves_out = sent.type == PacketType::kZeroRun || (sent.flags & (kFlagZero | kFlagSparse)) != 0;
  const std::size_t room = vouched || leaves_out ? 4 * kMaxElements : 0;
  HeapFrame f(wire, room);
  HeapFrame s(wire, room);
  const std::vector<jobs::Line> before(memory_.region().begin(), memory_.region().end());
  const JobCounters counted = fused_.counters(l.row.id);
  const JobCounters stray = fused_.counters(JobId{0});
  TALLY_CHECK(template_agrees_with_gates(fused_, f.frame(from.port, vouched)), "template and gates agree");
  const pipeline::Outcome x = fused_.process(f.frame(from.port, vouched), now_);
  const pipeline::Outcome y = staged_.process(s.frame(from.port, vouched), now_);
  check_verdicts(x, y, expected);
  check_counted(l, x, counted, stray);
  ++packets_;

  if (x.verdict != Verdict::kDrop) {
    TALLY_CHECK(same_bytes(f.buffer(), s.buffer()), "same bytes leave");
    left_.assign(f.buffer().begin(), f.buffer().end());
  }
  if (x.verdict == Verdict::kHandOver) {
    TALLY_CHECK(x.owner == raw(sent.chunk_id()) % kWindow % l.row.shards &&
                    same_bytes(f.buffer().first(wire.size()), wire),
                "handed over as it came");
  }
  if (!stores(x)) {
    TALLY_CHECK(std::memcmp(before.data(), memory_.region().data(), before.size() * sizeof(jobs::Line)) == 0,
                "slot memory of a packet that stores nothing");
  }
  TALLY_CHECK(!fused_.owes() && !staged_.owes(), "only a run owes");
  if (expected.event) check_event(l, *expected.event, sent.rank_id());
  check_no_event();
  pipeline::Outcome out = x;
  if (x.verdict != Verdict::kDrop) out.payload = left_.data() + (x.payload - f.buffer().data());
  check_state();
  now_ += 200 * kMillisecond;
  return out;
}

// One counter: of the job, or of none when the packet matched no job.
void Sequence::check_counted(const Life& l, const pipeline::Outcome& out, const JobCounters& own,
                             const JobCounters& stray) {
  JobCounters counted = out.job != nullptr ? own : stray;
  ++(out.verdict == Verdict::kDrop ? counted.drops[static_cast<std::size_t>(out.drop)]
                                   : counted.verdicts[static_cast<std::size_t>(out.verdict)]);
  const bool matched = out.job != nullptr;
  TALLY_CHECK(fused_.counters(l.row.id) == (matched ? counted : own), "the job's counters");
  TALLY_CHECK(fused_.counters(JobId{0}) == (matched ? stray : counted), "the counters of no job");
}

void Sequence::check_event(const Life& l, pipeline::EventKind expected, Rank sender) {
  const auto e = fused_.events().pop();
  const auto g = staged_.events().pop();
  TALLY_CHECK(e.has_value() && g.has_value(), "an event");
  TALLY_CHECK(e->kind == expected && g->kind == e->kind, "the event's kind");
  TALLY_CHECK(e->rank == sender && e->job == l.row.id, "the event names the sender");
}

void Sequence::check_no_event() {
  TALLY_CHECK(!fused_.events().pop() && !staged_.events().pop(), "no other event");
}

void Sequence::check_state() {
  std::uint64_t packets = fused_.counters(JobId{0}).packets();
  std::uint64_t staged_packets = staged_.counters(JobId{0}).packets();
  for (const Life& l : lives_) {
    packets += fused_.counters(l.row.id).packets();
    staged_packets += staged_.counters(l.row.id).packets();
    const pipeline::JobState& a = fused_.state(l.row.id);
    const pipeline::JobState& b = staged_.state(l.row.id);
    TALLY_CHECK(a.occupancy == l.oracle.filling(), "occupancy is the number of filling entries");
    TALLY_CHECK(b.occupancy == a.occupancy, "staged occupancy");
    TALLY_CHECK(a.last_seen == l.oracle.last_seen() && b.last_seen == a.last_seen, "last seen");
    TALLY_CHECK(a.suspect() == l.oracle.suspect() && b.suspect() == a.suspect(), "suspect");
    TALLY_CHECK(fused_.counters(l.row.id) == staged_.counters(l.row.id), "staged counters");
    std::uint32_t filling = 0;
    const std::uint32_t step = jobs::entry_lines(l.row.elements);
    for (std::uint32_t at = 0; l.present && at < l.row.slots.count; at += step) {
      const pipeline::Head h = fused_.execution().head(l.row.slots.first + at);
      const pipeline::Head g = staged_.execution().head(l.row.slots.first + at);
      TALLY_CHECK(h.tag == g.tag && h.chunk == g.chunk && h.contributors == g.contributors, "heads");
      TALLY_CHECK((h.contributors & ~l.row.members) == 0, "contributors are members");
      filling += h.tag != 0 && h.contributors != l.row.members ? 1 : 0;
    }
    TALLY_CHECK(a.occupancy == filling, "occupancy by the heads");
  }
  TALLY_CHECK(packets == packets_ && staged_packets == packets_, "every packet is counted once");
}

void Sequence::check_result(const Life& l, const pipeline::Outcome& out, const Delivered& expected,
                            bool retransmit) const {
  const Header h = header_of({out.payload, kHeaderBytes});
  const std::uint64_t rows = rows_to_send(expected);
  const std::size_t carried = expected.zero ? 0 : expected.values.size();
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  for (std::uint16_t r = 0; r < l.row.world; ++r)
    sum1 += rank_key(l.row.generation, Rank{r}) * (2 * raw(expected.chunk) + 1);
  const std::byte* at = out.payload + kHeaderBytes;
  for (std::uint32_t i = 0; i < carried; ++i) {
    sum1 += expected.values[i];
    sum2 += (i + 1) * expected.values[i];
    if ((rows >> i / kElementGranule & 1) == 0) continue;
    TALLY_CHECK(wire_at<Be<std::uint32_t>>(at).host() == expected.values[i],
                "each contribution exactly once");
    at += 4;
  }
  const bool sparse = rows != kAllRows;
  if (sparse) {
    TALLY_CHECK(wire_at<Be<std::uint64_t>>(at).host() == rows, "the rows that are there");
    at += 8;
  }
  TALLY_CHECK(at == out.payload + out.payload_bytes, "bytes of the RESULT");
  Header right;
  right.type = PacketType::kResult;
  right.flags =
      static_cast<std::uint8_t>((retransmit ? kFlagRetransmit : 0) | (expected.overflow ? kFlagOverflow : 0) |
                                (expected.zero ? kFlagZero : 0) | (sparse ? kFlagSparse : 0));
  right.job = Be{raw(l.row.id)};
  right.rank = Be{raw(kSwitchRank)};
  right.epoch = Be{raw(l.row.epoch)};
  right.chunk = Be{raw(expected.chunk)};
  right.slot = h.slot;
  right.elements = Be{expected.shape.elements};
  right.dtype = expected.shape.dtype;
  right.exponent = expected.exponent;
  right.contributors = Be{l.row.members};
  right.cookie = Be{raw(l.row.result_cookie)};
  right.sum1 = Be{sum1};
  right.sum2 = Be{sum2};
  right.total = Be{expected.shape.total};
  right.check = Be{kernels::usable_kernels().front()->crc32c(out.payload, kCheckedBytes)};
  TALLY_CHECK(std::memcmp(&h, &right, sizeof h) == 0, "the header of the RESULT");
  TALLY_CHECK(!retransmit || h.before() == 0, "a repeated RESULT tells of no others");
  check_before(l, expected.chunk, h.before());
}

void Sequence::check_before(const Life& l, Chunk chunk, std::uint32_t before) const {
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::pair earlier{raw(l.row.epoch), raw(chunk) - (i + 1) * l.row.shards};
    TALLY_CHECK((before >> i & 1) == 0 || l.finished.contains(earlier), "only what was finished is named");
  }
}

// Everybody gets the same for a chunk, whenever and however often.
void Sequence::note(Life& l, const Delivered& result, bool first) {
  const auto [at, fresh] = l.in_epoch.try_emplace({raw(l.row.epoch), raw(result.chunk)}, result);
  TALLY_CHECK(fresh == first, "a chunk completes once in an epoch, and is repeated only after that");
  TALLY_CHECK(at->second == result, "the same RESULT in the epoch");
  if (l.rogue) return;
  const auto kept = l.in_generation.try_emplace(raw(result.chunk), result).first;
  TALLY_CHECK(kept->second == result, "the same RESULT in the generation");
}

}  // namespace tally

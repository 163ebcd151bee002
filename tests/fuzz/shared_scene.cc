#include "shared_scene.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "agree.h"
#include "plans.h"
#include "tally/check.h"
#include "tally/mix64.h"

namespace tally {
namespace {

constexpr std::array kKinds{Discipline::kShared, Discipline::kPreemptive, Discipline::kShared,
                            Discipline::kFcfs};

}  // namespace

jobs::SharedRegion SharedScene::region_of(std::uint32_t entries) {
  const auto own = kSharedJobs * kLedgerPlace;
  return jobs::shared_region(own + static_cast<std::uint32_t>(jobs::shared_lines(entries, kSharedElements)),
                             entries, kSharedElements);
}

SharedScene::SharedScene(FuzzInput& in)
    : kernels_(
          *kernels::usable_kernels()[in.below(static_cast<std::uint32_t>(kernels::usable_kernels().size()))]),
      region_(region_of(1 + in.below(5))),
      server_states_(std::array{0U, 1U, 3U, 64U}[in.below(4)]),
      memory_(region_.line_of(region_.entries)),
      server_(server_states_ * jobs::entry_lines(kSharedElements)),
      reference_server_(server_states_ * jobs::entry_lines(kSharedElements)),
      fused_({.core = 0, .box = test_box(), .shared = region_, .server = server_.region()}, memory_.region(),
             kernels_),
      staged_({.core = 0, .box = test_box(), .shared = region_, .server = reference_server_.region()},
              memory_.region(), kernels_) {
  for (std::uint16_t i = 0; i < kSharedJobs; ++i) join(i, in.byte());
}

void SharedScene::publish(const std::shared_ptr<const jobs::JobTable>& next) {
  fused_.adopt(next.get());
  staged_.adopt(next.get());
  table_ = next;
}

void SharedScene::join(std::uint16_t index, std::uint8_t how) {
  SharedLife& l = lives_[index];
  JobSpec spec{.id = static_cast<std::uint16_t>(index + 1), .epoch = ++last_epoch_};
  spec.generation = last_epoch_ * 77;
  spec.world = static_cast<std::uint8_t>(2 + (how & 1) + (how >> 1 & 1));
  spec.elements = static_cast<std::uint16_t>((how & 4) != 0 ? 32 : 16);
  spec.window = kSharedWindow;
  spec.first_line = index * kLedgerPlace;
  spec.discipline = kKinds[how >> 3 & 3];
  spec.decay = static_cast<Decay>(last_epoch_ % 3);
  spec.reserved = (how & 0x20) != 0 ? 1 : 0;
  (*caps_)[spec.id] = (how & 0x40) != 0 ? 1 : region_.entries;
  spec.shared_slots = region_.entries;
  spec.salt = last_epoch_;
  if (last_epoch_ % 3 == 0) spec.servers = 2;
  if (last_epoch_ % 6 == 0 && spec.discipline == Discipline::kShared) {
    Rng rng(last_epoch_);
    spec.part = share_part(random_plan(rng, {.world = spec.world, .direct = 0.2}), 0);
  }
  l = {.row = make_job(spec), .present = true};
  l.front = Chunk{(how & 0x80) != 0 ? 0xFFFFFFFD : 5};
  members_[raw(l.row.epoch)] = l.row.members;
  publish(table_->with(l.row.id, std::make_shared<const jobs::NativeJob>(l.row)));
}

void SharedScene::release_ledger(const SharedLife& l) {
  if (l.row.discipline != Discipline::kShared) return;
  fused_.release(l.row.id, l.row.slots, 0, l.row.members);
  staged_.release(l.row.id, l.row.slots, 0, l.row.members);
}

void SharedScene::leave(SharedLife& l) {
  release_ledger(l);
  publish(table_->with(l.row.id, {}));
  l.present = false;
}

void SharedScene::new_epoch(SharedLife& l) {
  release_ledger(l);
  l.row.epoch = Epoch{++last_epoch_};
  l.row.salt = last_epoch_;
  members_[raw(l.row.epoch)] = l.row.members;
  publish(table_->with(l.row.id, std::make_shared<const jobs::NativeJob>(l.row)));
}

ContributionSpec SharedScene::contribution(const SharedLife& l, Rank rank, Chunk chunk) const {
  const std::uint64_t seed = mix64(raw(l.row.generation) * 31 + raw(chunk) * 64ULL + raw(rank));
  ContributionSpec p{.rank = rank, .chunk = chunk};
  const std::uint32_t n = l.row.elements - (raw(chunk) % 8 == 7 ? 16U : 0U);
  for (std::uint32_t i = 0; i < n; ++i) p.values.push_back(static_cast<std::int32_t>(mix64(seed + i)));
  p.exponent = static_cast<std::int8_t>(seed >> 8);
  p.flags = (seed & 0x70000) == 0 ? kFlagOverflow : 0;
  p.total = 1000 + raw(chunk) / 8;
  p.dtype = static_cast<std::uint8_t>(raw(l.row.generation) & 1);
  return p;
}

pipeline::Outcome SharedScene::send(SharedLife& l, Rank rank, const Bytes& datagram, bool vouched) {
  return pass(l.row, l.row.ranks[raw(rank)].binding, datagram, vouched);
}

pipeline::Outcome SharedScene::pass(const jobs::NativeJob& row, const jobs::Binding& from,
                                    const Bytes& datagram, bool vouched) {
  const Bytes wire = frame_from(from, test_box(), datagram, kBasePort);
  const std::size_t room = 4 * region_.elements();
  HeapFrame f(wire, room);
  HeapFrame s(wire, room);
  const pipeline::JobState& state = fused_.state(row.id);
  const std::uint32_t held = state.occupancy;
  const std::uint64_t counted = fused_.counters(row.id).packets() + fused_.counters(JobId{0}).packets();
  TALLY_CHECK(template_agrees_with_gates(fused_, f.frame(from.port, vouched)), "template and gates agree");
  const pipeline::Outcome x = fused_.process(f.frame(from.port, vouched), now_);
  const pipeline::Outcome y = staged_.process(s.frame(from.port, vouched), now_);
  TALLY_CHECK(difference(x, y).empty(), "both executions agree");
  if (x.verdict != Verdict::kDrop) TALLY_CHECK(same_bytes(f.buffer(), s.buffer()), "same bytes leave");
  TALLY_CHECK(fused_.counters(row.id).packets() + fused_.counters(JobId{0}).packets() == counted + 1,
              "one counter for each packet");
  TALLY_CHECK(state.occupancy <= std::max(held, table_->cap(row.id)), "occupancy never rises at the cap");
  const Header sent = header_of(datagram);
  if (x.verdict == Verdict::kDrop &&
      x.drop == Drop::kBadSum)  // it is named all the same: who asks is told that nobody is in it
    lives_.at(raw(row.id) - 1U).finished.emplace(sent.epoch.host(), sent.chunk.host());
  check_result(x);
  while (fused_.events().pop()) TALLY_CHECK(staged_.events().pop().has_value(), "same events");
  if (x.server != pipeline::kNoServer) depart(x);
  return x;
}

bool SharedScene::sweep() {
  const bool found = fused_.aged(now_);
  TALLY_CHECK(staged_.aged(now_) == found, "both executions find the same");
  if (!found) return false;
  Bytes f(kHeaderBytes + 4 * kSharedElements);
  Bytes s(f.size());
  const pipeline::Outcome x = fused_.sweep(f, now_);
  TALLY_CHECK(difference(x, staged_.sweep(s, now_)).empty(), "both executions agree");
  TALLY_CHECK(f == s, "same bytes leave");
  check_result(x);
  if (x.server != pipeline::kNoServer) depart(x);
  return true;
}

// Nothing but the sum of all members' contributions to the chunk leaves as a RESULT.
void SharedScene::check_result(const pipeline::Outcome& out) {
  if (out.verdict != Verdict::kComplete && out.verdict != Verdict::kRepeat) return;
  if (header_of({out.payload, kHeaderBytes}).type == PacketType::kResend) return;
  SharedLife& l = lives_.at(raw(out.job->id) - 1U);
  TALLY_CHECK(l.present && out.job->epoch == l.row.epoch, "a RESULT of a job that lives");
  TALLY_CHECK(out.ranks != 0 && (out.ranks & ~l.row.members) == 0, "receivers are members");
  const Header h = header_of({out.payload, kHeaderBytes});
  const Chunk chunk = h.chunk_id();
  std::vector<std::uint32_t> sum;
  std::int8_t exponent = kNoExponent;
  bool overflow = false;
  std::uint32_t total = 0;
  for (std::uint16_t r = 0; r < l.row.world; ++r) {
    const ContributionSpec p = contribution(l, Rank{r}, chunk);
    sum.resize(p.values.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<std::uint32_t>(p.values[i]);
    exponent = std::max(exponent, p.exponent);
    overflow = overflow || p.flags == kFlagOverflow;
    total = p.total;
  }
  TALLY_CHECK(out.payload_bytes == kHeaderBytes + 4 * sum.size(), "bytes of the RESULT");
  for (std::size_t i = 0; i < sum.size(); ++i) {
    Be<std::uint32_t> value;
    std::memcpy(&value, out.payload + kHeaderBytes + 4 * i, sizeof value);
    TALLY_CHECK(value.host() == sum[i], "each contribution exactly once");
  }
  TALLY_CHECK(h.type == PacketType::kResult && h.contributors.host() == l.row.members, "all are in it");
  TALLY_CHECK(h.job_id() == l.row.id && h.epoch_id() == l.row.epoch, "job and epoch of the RESULT");
  TALLY_CHECK(h.cookie.host() == raw(l.row.result_cookie), "cookie of the RESULT");
  TALLY_CHECK(h.elements.host() == sum.size() && h.exponent == exponent, "shape of the RESULT");
  TALLY_CHECK(((h.flags & kFlagOverflow) != 0) == overflow, "OVERFLOW of the RESULT");
  TALLY_CHECK(l.rogue || h.total.host() == total, "total of the RESULT");
  const bool repeats = (h.flags & kFlagRetransmit) != 0;
  TALLY_CHECK(!repeats || h.before() == 0, "a repeated RESULT tells of no others");
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::pair earlier{raw(l.row.epoch), raw(chunk) - (i + 1) * l.row.shards};
    TALLY_CHECK((h.before() >> i & 1) == 0 || l.finished.contains(earlier), "only what is finished is named");
  }
  if (!repeats) l.finished.emplace(raw(l.row.epoch), raw(chunk));
  if (l.row.id == awaited_job_ && chunk == awaited_) received_ |= out.ranks;
}

// Invariants: what the ledger says of an entry that is filling.
void SharedScene::check_entry(std::uint32_t entry) {
  const std::uint32_t line = region_.line_of(entry);
  const pipeline::Head h = fused_.execution().head(line);
  const pipeline::Head g = staged_.execution().head(line);
  TALLY_CHECK(h.tag == g.tag && h.chunk == g.chunk && h.contributors == g.contributors, "heads");
  const bool filling = h.tag != 0 && h.contributors != members_.at(h.tag);
  TALLY_CHECK(fused_.shared().filling(entry) == filling, "the list of filling entries");
  if (!filling) return;
  const pipeline::Owner owner = fused_.execution().peek<pipeline::OwnerReg>(line);
  ++filling_.at(owner.job);
  const SharedLife& l = lives_.at(owner.job - 1U);
  if (!l.present || raw(l.row.epoch) != h.tag || l.row.discipline != Discipline::kShared) return;
  const pipeline::LedgerRow row = fused_.execution().peek<pipeline::LedgerReg>(
      l.row.slots.first * jobs::kLedgerRowsPerLine + h.chunk % l.row.span);
  if (row.seen == 0 || row.chunk != h.chunk) return;  // a span behind
  TALLY_CHECK(row.entry == entry + 1, "a filling entry is the one that its row names");
  TALLY_CHECK((h.contributors & ~row.seen) == 0, "contributors were seen");
  // A last arrival with DIRECT does not take the entry along to an external server, which asks for it later.
  const bool may_wait = l.rogue || l.corrupt || l.row.servers != 0;
  TALLY_CHECK(may_wait || row.seen != l.row.members, "no entry waits when everybody was seen");
}

void SharedScene::check_state() {
  filling_.fill(0);
  for (std::uint32_t i = 0; i < region_.entries; ++i) check_entry(i);
  for (std::uint16_t id = 1; id <= kSharedJobs; ++id) {
    const pipeline::JobState& a = fused_.state(JobId{id});
    const pipeline::JobState& b = staged_.state(JobId{id});
    TALLY_CHECK(a.occupancy == filling_[id], "occupancy is what is filling");
    TALLY_CHECK(b.occupancy == a.occupancy && b.last_seen == a.last_seen, "staged state");
    TALLY_CHECK(fused_.counters(JobId{id}) == staged_.counters(JobId{id}), "staged counters");
  }
  TALLY_CHECK(fused_.server().incomplete == staged_.server().incomplete, "staged server");
  TALLY_CHECK(fused_.server().complete == staged_.server().complete, "staged server");
}

void SharedScene::expect_progress(SharedLife& l) {
  const pipeline::High high = fused_.execution().peek<pipeline::HighReg>(raw(l.row.id));
  // A server that holds next to nothing forgets one chunk for the other.
  const bool forgetful = l.row.servers == 0 && server_states_ < 64;
  if (!l.present || l.rogue || high.epoch != raw(l.row.epoch) || forgetful) return;
  awaited_job_ = l.row.id;
  for (std::uint32_t back = 0; back < 6; ++back) {
    awaited_ = Chunk{high.chunk} - back;
    received_ = 0;
    for (int round = 0; round < 8 && received_ != l.row.members; ++round) {
      now_ += 2 * kSecond;
      external_.sweep(now_ - 20 * kSecond, 256);
      for (std::uint32_t i = 0; i <= region_.entries; ++i) sweep();
      for (std::uint16_t r = 0; r < l.row.world; ++r) {
        send(l, Rank{r}, make_contribution(l.row, contribution(l, Rank{r}, awaited_)), false);
        check_state();
      }
    }
    TALLY_CHECK(received_ == l.row.members, "every chunk completes");
  }
  awaited_job_ = JobId{};
}

}  // namespace tally

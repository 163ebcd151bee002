#include "pool_oracle.h"

#include <algorithm>

namespace tally {
namespace {

Expected dropped(Drop why) { return {.drop = why}; }

}  // namespace

bool PoolOracle::is_replay(Rank rank, std::uint32_t sequence) {
  constexpr std::uint32_t kRemembered = 64;
  Came& came = came_.at(raw(rank));
  if (came.epoch != job_.epoch) came = {job_.epoch, 0, {}};
  const bool again = !came.sequences.insert(sequence).second;
  const std::uint32_t back = came.newest - sequence;
  if (back < 1U << 31) return again && back < kRemembered;
  came.newest = sequence;
  return false;
}

Expected PoolOracle::contribute(const Offered& p, std::uint32_t sequence, bool vouched, TimeNs now) {
  const bool was_suspect = suspect();
  const bool verified = !vouched || was_suspect;
  if (verified && p.corrupt) {
    Expected e = dropped(Drop::kSum);
    if (was_suspect) e.event = pipeline::EventKind::kPoisoned;
    return e;
  }
  if (is_replay(p.rank, sequence)) return dropped(Drop::kReplay);
  return count(p, verified, now);
}

Expected PoolOracle::count(const Offered& p, bool verified, TimeNs now) {
  const Expected e = settle(p, verified);
  if (e.verdict == Verdict::kAbsorb || e.verdict == Verdict::kComplete) last_seen_[raw(p.rank)] = now;
  return e;
}

Expected PoolOracle::settle(const Offered& p, bool verified) {
  const auto span = static_cast<std::int64_t>(job_.span);
  const bool known = high_epoch_ == job_.epoch;
  const std::int64_t d = known ? serial_difference(p.chunk, high_) : 0;
  if (d <= -span) return dropped(Drop::kStale);
  if (d >= span) return dropped(Drop::kAhead);
  if (job_.world == 1) {
    if (p.corrupt && !verified) return dropped(Drop::kBadSum);
    return {.verdict = Verdict::kComplete, .result = sum_of({p})};
  }
  if (p.direct) return dropped(Drop::kDirect);
  if (!known || d > 0) {
    high_epoch_ = job_.epoch;
    high_ = p.chunk;
  }
  Entry& entry = entries_[place_of(p.chunk)];
  if (entry.epoch == job_.epoch && entry.chunk == p.chunk) return into_own(entry, p);
  if (entry.epoch == job_.epoch && serial_difference(entry.chunk, p.chunk) > 0) return dropped(Drop::kStale);
  entry = {job_.epoch, p.chunk, {p}, false};
  return {.verdict = Verdict::kAbsorb};
}

Expected PoolOracle::into_own(Entry& entry, const Offered& p) {
  if (entry.in.front().shape != p.shape) {
    Expected e = dropped(Drop::kMismatch);
    e.event = pipeline::EventKind::kMismatch;
    return e;
  }
  if (entry.complete) return {.verdict = Verdict::kRepeat, .result = sum_of(entry.in)};
  const bool inside =
      std::any_of(entry.in.begin(), entry.in.end(), [&](const Offered& o) { return o.rank == p.rank; });
  if (inside) return dropped(Drop::kDuplicate);
  entry.in.push_back(p);
  if (entry.in.size() < job_.world) return {.verdict = Verdict::kAbsorb};
  return finish(entry);
}

Expected PoolOracle::finish(Entry& entry) {
  if (std::any_of(entry.in.begin(), entry.in.end(), [](const Offered& o) { return o.corrupt; })) {
    entry = {};
    if (++bad_in_row_ >= 3 || suspect()) suspect_chunks_ = 1024;
    return dropped(Drop::kBadSum);
  }
  entry.complete = true;
  bad_in_row_ = 0;
  if (suspect()) --suspect_chunks_;
  return {.verdict = Verdict::kComplete, .result = sum_of(entry.in)};
}

Expected PoolOracle::query(Chunk chunk, std::uint32_t element_room) const {
  Expected e{.verdict = Verdict::kRelay};
  const auto at = entries_.find(place_of(chunk));
  if (at != entries_.end() && at->second.epoch == job_.epoch && at->second.chunk == chunk) {
    const Entry& entry = at->second;
    if (entry.complete) {
      e = {.verdict = Verdict::kRepeat, .result = sum_of(entry.in)};
      if (!e.result->zero && entry.in.front().shape.elements > element_room) return dropped(Drop::kRoom);
    }
    if (!entry.complete) {
      for (const Offered& o : entry.in) e.waiting |= bit_of(o.rank);
    }
  }
  return e;
}

std::uint32_t PoolOracle::filling() const {
  return static_cast<std::uint32_t>(std::count_if(entries_.begin(), entries_.end(), [](const auto& e) {
    return !e.second.in.empty() && !e.second.complete;
  }));
}

bool PoolOracle::holds_corrupt(Chunk chunk) const {
  const auto at = entries_.find(place_of(chunk));
  if (at == entries_.end()) return false;
  return std::any_of(at->second.in.begin(), at->second.in.end(), [](const Offered& o) { return o.corrupt; });
}

Delivered PoolOracle::sum_of(const std::vector<Offered>& in) {
  const Offered& first = in.front();
  Delivered sum{first.chunk, first.shape, first.exponent,
                false,       true,        std::vector<std::uint32_t>(first.values.size()),
                false};
  for (const Offered& o : in) {
    sum.exponent = std::max(sum.exponent, o.exponent);
    sum.overflow = sum.overflow || o.overflow;
    sum.zero = sum.zero && o.zero;
    sum.all_rows = sum.all_rows || (!o.zero && !o.sparse);
    for (std::size_t i = 0; i < sum.values.size(); ++i)
      sum.values[i] += static_cast<std::uint32_t>(o.values[i]);
  }
  return sum;
}

}  // namespace tally

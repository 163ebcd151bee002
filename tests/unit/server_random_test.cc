// Many random steps against a plain reference: a std::map of vectors, order by two lists. After every step
// the answer, the Partial and the counters must agree; now and then all that the table knows.
#include <algorithm>
#include <bit>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "server_support.h"

namespace tally {
namespace {

using Key = std::pair<JobId, Chunk>;

class Reference {
 public:
  Reference(std::size_t capacity, std::uint32_t elements) : capacity_(capacity), elements_(elements) {}

  server::MergeResult merge(const server::MergeJob& job, Packet& packet, TimeNs now) {
    server::Partial& p = packet.partial;
    const Values values = packet.values();
    const kernels::Sums sums = naive_sums(values);
    if (sums.sum1 + keyed(p.keys, p.chunk) != p.sum.sum1 || sums.sum2 != p.sum.sum2)
      return {server::Merged::kBadInput};
    const Key key{job.id, p.chunk};
    const State* known = find(job, p.chunk);
    if (known == nullptr) {
      drop(key);
      if (capacity_ == 0 || p.sum.shape.elements > elements_)
        return ++counts.forgotten, server::MergeResult{server::Merged::kHeld};
      if (states_.size() == capacity_ && !make_room(job, p.chunk)) return {server::Merged::kHeld};
      return take(job, key, packet, values, now);
    }
    if (known->partial.sum.shape != p.sum.shape) {
      return {.merged = server::Merged::kMismatch,
              .held = known->partial.contributors,
              .stored = known->partial.sum.shape};
    }
    if (known->complete) return {give(*known, p) ? server::Merged::kKnown : server::Merged::kNoRoom};
    const std::uint64_t has = known->partial.contributors;
    if ((p.contributors | has) == has) return {server::Merged::kInside};
    if ((p.contributors & has) == 0) {
      Values total = known->values;
      for (std::size_t i = 0; i < total.size(); ++i) {
        total[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(total[i]) +
                                             static_cast<std::uint32_t>(values[i]));
      }
      return take(job, key, packet, total, now);
    }
    if ((p.contributors | has) == p.contributors) return take(job, key, packet, values, now);
    return {.merged = server::Merged::kOverlap, .missing = p.contributors & ~has};
  }

  [[nodiscard]] std::uint64_t contributors(const server::MergeJob& job, Chunk chunk) const {
    const State* s = find(job, chunk);
    return s == nullptr ? 0 : s->partial.contributors;
  }
  [[nodiscard]] bool read(const server::MergeJob& job, server::Partial& p) const {
    const State* s = find(job, p.chunk);
    return s != nullptr && s->complete && give(*s, p);
  }
  void sweep(TimeNs before, std::uint32_t steps) {
    for (; steps > 0 && !incomplete_.empty() && states_.at(incomplete_.front()).touched < before; --steps) {
      drop(Key(incomplete_.front()));
      ++counts.aged;
    }
  }
  void forget(JobId job) {
    std::vector<Key> gone;
    for (const auto& [key, state] : states_)
      if (key.first == job) gone.push_back(key);
    for (const Key& key : gone) drop(key);
  }
  [[nodiscard]] Counted counted_now() const {
    Counted c = counts;
    c.incomplete = static_cast<std::uint32_t>(incomplete_.size());
    c.complete = static_cast<std::uint32_t>(complete_.size());
    return c;
  }
  Counted counts;

 private:
  struct State {
    server::MergeJob job;
    bool complete = false;
    TimeNs touched = 0;
    server::Partial partial;  // its words
    Values values;
  };

  [[nodiscard]] const State* find(const server::MergeJob& job, Chunk chunk) const {
    const auto at = states_.find({job.id, chunk});
    if (at == states_.end() || at->second.job.generation != job.generation) return nullptr;
    return at->second.complete || at->second.job.epoch == job.epoch ? &at->second : nullptr;
  }
  static bool give(const State& s, server::Partial& p) {
    if (p.room < s.partial.sum.shape.elements) return false;
    put_wire(p.values, s.values);
    p.sum = s.partial.sum;
    return true;
  }
  // The state of `key` becomes `values` with the words of what it had, if p does not contain that, and of p.
  server::MergeResult take(const server::MergeJob& job, const Key& key, Packet& packet, const Values& values,
                           TimeNs now) {
    server::Partial& p = packet.partial;
    std::optional<State> had;
    if (const auto at = states_.find(key); at != states_.end()) had = at->second;
    drop(key);
    State s{.job = job, .touched = now, .partial = p, .values = values};
    if (had && (had->partial.contributors & p.contributors) == 0) {
      s.partial.contributors |= had->partial.contributors;
      s.partial.sum.exponent = std::max(s.partial.sum.exponent, had->partial.sum.exponent);
      s.partial.sum.marks |= had->partial.sum.marks;
      s.partial.sum.sum1 += had->partial.sum.sum1;
      s.partial.sum.sum2 += had->partial.sum.sum2;
    }
    ++counts.merged;
    s.complete = s.partial.contributors == job.members;
    if (s.complete && naive_sums(values).sum1 + keyed(job.key_sum, key.second) != s.partial.sum.sum1) {
      return {server::Merged::kBadSum};
    }
    (s.complete ? complete_ : incomplete_).push_back(key);
    const State& kept = states_[key] = s;
    if (!kept.complete) return {server::Merged::kHeld};
    ++counts.completed;
    if (!give(kept, p)) return {server::Merged::kNoRoom};
    p.contributors = job.members;
    p.keys = job.key_sum;
    return {server::Merged::kComplete};
  }
  // false: the newcomer is forgotten instead.
  bool make_room(const server::MergeJob& job, Chunk chunk) {
    if (!complete_.empty()) {
      drop(Key(complete_.front()));
      return true;
    }
    ++counts.forgotten;
    for (const Key& key : incomplete_) {
      const server::MergeJob& its = states_.at(key).job;
      const bool outdated = its.generation != job.generation || its.epoch != job.epoch;
      const bool gives = key.first == job.id ? outdated || serial_difference(key.second, chunk) > 0
                                             : incomplete_of(job.id) == 0 && incomplete_of(key.first) > 1;
      if (!gives) continue;
      drop(Key(key));
      return true;
    }
    return false;
  }
  [[nodiscard]] std::ptrdiff_t incomplete_of(JobId job) const {
    return std::count_if(incomplete_.begin(), incomplete_.end(),
                         [&](const Key& key) { return key.first == job; });
  }
  void drop(const Key& key) {
    states_.erase(key);
    incomplete_.remove(key);
    complete_.remove(key);
  }

  std::size_t capacity_;
  std::uint32_t elements_;
  std::map<Key, State> states_;
  std::list<Key> incomplete_;  // by last Partial taken
  std::list<Key> complete_;    // by completion
};

// Three jobs; their chunks wrap. Small worlds, so that chunks complete.
class Walk {
 public:
  Walk(std::uint64_t seed, const kernels::Kernels& kernels)
      : random_(seed),
        capacity_(below(9)),
        guarded_(capacity_ * jobs::entry_lines(kElements) + below(jobs::entry_lines(kElements)), kElements,
                 kernels),
        reference_(capacity_, kElements) {
    for (std::uint16_t j = 0; j < 3; ++j)
      jobs_.push_back(merge_job(static_cast<std::uint16_t>(j + 1), random_(), 1, 2 + j));
    EXPECT_EQ(guarded_.table.capacity(), capacity_);
  }

  void step() {
    server::MergeJob& job = jobs_[below(jobs_.size())];
    now_ += below(3);
    const auto dice = below(1000);
    if (dice < 3) {
      job.epoch = Epoch{raw(job.epoch) + 1};
    } else if (dice < 4) {  // the id comes again
      if (below(2) == 0) forget(job.id);
      job = merge_job(raw(job.id), random_(), raw(job.epoch) + static_cast<std::uint32_t>(below(2)),
                      static_cast<std::uint32_t>(2 + below(4)));
    } else if (dice < 5) {
      forget(job.id);
    } else if (dice < 20) {
      const TimeNs before = now_ - std::min<TimeNs>(now_, below(40));
      const auto steps = static_cast<std::uint32_t>(below(4));
      guarded_.table.sweep(before, steps);
      reference_.sweep(before, steps);
    } else if (dice < 100) {
      read(job);
    } else {
      merge(job);
    }
    ASSERT_EQ(counted(guarded_.table), reference_.counted_now());
    if (dice % 50 == 0) compare_all();
  }
  void compare_all() {
    ASSERT_TRUE(guarded_.intact());
    for (const server::MergeJob& job : jobs_) {
      for (std::uint32_t c = 0; c < kChunks; ++c) {
        const std::uint64_t expected = reference_.contributors(job, chunk(c));
        ASSERT_EQ(guarded_.table.contributors(job, chunk(c)), expected);
        ASSERT_EQ(guarded_.table.knows(job, chunk(c)), expected != 0);
      }
    }
  }
  // How often each Merged came.
  std::map<server::Merged, std::uint64_t> seen;

 private:
  static constexpr std::uint32_t kElements = 32;
  static constexpr std::uint32_t kChunks = 5;

  static Chunk chunk(std::uint64_t i) { return Chunk{0xFFFF'FFFE} + static_cast<std::uint32_t>(i); }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  void forget(JobId id) {
    guarded_.table.forget(id);
    reference_.forget(id);
  }
  void read(const server::MergeJob& job) {
    const Chunk c = chunk(below(kChunks));
    const auto room = static_cast<std::uint32_t>(16 * below(4));
    Packet ours(job, c, 1, 0, room);
    Packet theirs(job, c, 1, 0, room);
    ASSERT_EQ(guarded_.table.read(job, ours.partial), reference_.read(job, theirs.partial));
    ASSERT_TRUE(same_sum(ours, theirs));
    ASSERT_TRUE(ours.intact());
  }
  void merge(server::MergeJob job) {
    const std::uint64_t c = below(kChunks);
    std::uint64_t ranks = std::uint64_t{1} << below(std::bit_width(job.members));
    if (below(3) == 0) ranks |= random_() & job.members;
    // Elements go with the chunk, now and then not.
    const auto elements = static_cast<std::uint16_t>(16 * (below(50) == 0 ? below(4) : c % 3));
    const auto room = static_cast<std::uint32_t>(below(20) == 0 ? 0 : elements + 16 * below(2));
    Packet ours(job, chunk(c), ranks, elements, room);
    Packet theirs(job, chunk(c), ranks, elements, room);
    const auto both = [&](auto change) { change(ours.partial), change(theirs.partial); };
    switch (below(100)) {
      case 0:
        both([](server::Partial& p) { ++p.sum.sum1; });
        break;
      case 1:
        both([](server::Partial& p) { p.sum.sum2 ^= 0x8000'0000; });
        break;
      case 2:
        both([](server::Partial& p) { p.keys += 2; });
        break;
      case 3:
        if (elements > 0) both([](server::Partial& p) { p.values[5] ^= std::byte{64}; });
        break;
      case 4:
        both([](server::Partial& p) { ++p.sum.shape.total; });
        break;
      case 5:
        job.key_sum += 2;
        break;
      default:
        break;
    }
    const server::MergeResult result = guarded_.table.merge(job, ours.partial, now_);
    ++seen[result.merged];
    ASSERT_EQ(result, reference_.merge(job, theirs, now_));
    ASSERT_TRUE(ours.intact());
    if (result.merged == server::Merged::kBadSum) return;  // the values are spent
    ASSERT_TRUE(same_sum(ours, theirs));
    ASSERT_EQ(ours.partial.contributors, theirs.partial.contributors);
    ASSERT_EQ(ours.partial.keys, theirs.partial.keys);
    if (result.merged != server::Merged::kComplete && result.merged != server::Merged::kKnown) return;
    // Each member's contribution exactly once, whatever the path.
    Packet all(job, chunk(c), job.members, elements);
    all.partial.sum.shape = ours.partial.sum.shape;
    ASSERT_TRUE(same_sum(ours, all));
  }

  std::mt19937_64 random_;
  std::size_t capacity_;
  GuardedTable guarded_;
  Reference reference_;
  std::vector<server::MergeJob> jobs_;
  TimeNs now_ = 0;
};

constexpr std::uint64_t kShare = TALLY_SEED_SHARE;  // 1 of so many seeds

class MergeRandom : public KernelsTest {};

TEST_P(MergeRandom, AgreesWithAPlainMap) {
  std::map<server::Merged, std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 40 / kShare; ++seed) {
    Walk walk(seed, kernels_);
    for (int i = 0; i < 5'000; ++i) {
      walk.step();
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " step " << i;
    }
    walk.compare_all();
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    for (const auto& [merged, times] : walk.seen) seen[merged] += times;
  }
  for (int m = 0; m <= static_cast<int>(server::Merged::kNoRoom); ++m)
    EXPECT_GE(seen[static_cast<server::Merged>(m)], 100 / kShare) << "Merged " << m << " is hardly tested";
}

INSTANTIATE_TEST_SUITE_P(Server, MergeRandom, all_kernels(), kernels_name);

}  // namespace
}  // namespace tally

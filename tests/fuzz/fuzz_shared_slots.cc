// A sequence of packets and of control's doings over three jobs that share a few slots and an embedded
// server, against an oracle that knows only what the ranks sent (shared_scene.h). Every discipline with
// shared slots, duplicates, DIRECT, replays, flipped bits, wrong shapes, queries, epoch changes, jobs that go
// and come, time.

#include "shared_scene.h"

namespace tally {
namespace {

constexpr int kMostOperations = 400;

class SharedSequence {
 public:
  explicit SharedSequence(FuzzInput in) : in_(in), scene_(in_) {}

  void run() {
    for (int i = 0; i < kMostOperations && !in_.empty(); ++i) {
      operate();
      scene_.check_state();
    }
    for (std::uint32_t i = 0; i < kSharedJobs; ++i) scene_.expect_progress(scene_.life(i));
  }

 private:
  struct Sent {
    std::uint32_t job = 0;
    Rank rank{};
    Bytes datagram;
    bool corrupt = false;
  };

  Rank rank(const SharedLife& l) { return Rank{static_cast<std::uint16_t>(in_.below(l.row.world))}; }
  // Near the front, which moves on; rarely at the edges of span.
  Chunk near(SharedLife& l) {
    const std::uint8_t how = in_.byte();
    if ((how & 0xC0) == 0x40) l.front = l.front + 1;
    if ((how & 0xF0) != 0xF0) return l.front - (how & 3);
    if ((how & 8) != 0) l.front = l.front + l.row.span;
    return l.front - (l.row.span - 2 + (how & 3));
  }

  void pass(std::uint32_t job, Rank r, Bytes datagram, bool corrupt) {
    SharedLife& l = scene_.life(job);
    l.corrupt = l.corrupt || corrupt;
    scene_.send(l, r, datagram, corrupt || in_.flip());
    history_.push_back({job, r, std::move(datagram), corrupt});
  }

  void contribute(std::uint32_t job, Rank r, Chunk chunk) {
    const SharedLife& l = scene_.life(job);
    ContributionSpec p = scene_.contribution(l, r, chunk);
    const std::uint8_t how = in_.byte();
    p.priority = static_cast<std::uint8_t>(how & 0xF0);
    if ((how & 0xF) == 0xF) p.flags |= kFlagDirect;
    pass(job, r, make_contribution(l.row, p), false);
  }

  void whole_chunk(std::uint32_t job) {
    SharedLife& l = scene_.life(job);
    const Chunk chunk = near(l);
    const std::uint32_t first = in_.below(l.row.world);
    for (std::uint32_t i = 0; i < l.row.world; ++i)
      contribute(job, Rank{static_cast<std::uint16_t>((first + i) % l.row.world)}, chunk);
  }

  // A bit of the values flips where the port does not look. One rank of a chunk only: two flips may cancel
  // each other, and no check finds what is not there.
  void corrupt(std::uint32_t job) {
    SharedLife& l = scene_.life(job);
    const Chunk chunk = near(l);
    const Rank r{static_cast<std::uint16_t>(raw(chunk) % l.row.world)};
    ContributionSpec p = scene_.contribution(l, r, chunk);
    if ((in_.byte() & 7) == 7) p.flags |= kFlagDirect;
    Bytes datagram = make_contribution(l.row, p);
    if (p.values.empty()) return pass(job, r, std::move(datagram), false);
    const std::size_t bit = in_.half() % (32 * p.values.size());
    datagram[kHeaderBytes + bit / 8] ^= std::byte{static_cast<unsigned char>(1U << bit % 8)};
    pass(job, r, std::move(datagram), true);
  }

  void rogue(std::uint32_t job) {
    SharedLife& l = scene_.life(job);
    const Rank r = rank(l);
    ContributionSpec p = scene_.contribution(l, r, near(l));
    p.total ^= 1U + in_.below(2);
    l.rogue = true;
    pass(job, r, make_contribution(l.row, p), false);
  }

  void replay() {
    if (history_.empty()) return;
    const Sent old = history_[in_.half() % history_.size()];
    SharedLife& l = scene_.life(old.job);
    if (raw(old.rank) >= l.row.world) return;
    l.corrupt = l.corrupt || old.corrupt;
    const bool same_epoch = l.present && header_of(old.datagram).epoch_id() == l.row.epoch;
    const bool anew = same_epoch && in_.flip();
    scene_.send(l, old.rank, anew ? sent_again(l.row, old.datagram) : old.datagram, in_.flip());
  }

  void query(std::uint32_t job) {
    SharedLife& l = scene_.life(job);
    const Rank asker = rank(l);
    const Rank peer{static_cast<std::uint16_t>((raw(asker) + 1) % l.row.world)};
    const Chunk chunk = near(l);
    const Bytes query = in_.flip() ? make_query(l.row, asker, chunk, peer) : make_query(l.row, asker, chunk);
    scene_.send(l, asker, query, in_.flip());
  }

  void operate() {
    const std::uint32_t what = in_.below(32);
    const std::uint32_t job = in_.below(kSharedJobs);
    SharedLife& l = scene_.life(job);
    if (!l.present) return scene_.join(static_cast<std::uint16_t>(job), in_.byte());
    if (what < 12) {
      const Rank r = rank(l);
      return contribute(job, r, near(l));
    }
    if (what < 17) return whole_chunk(job);
    if (what < 21) return replay();
    if (what < 23) return corrupt(job);
    if (what < 24) return rogue(job);
    if (what < 26) return query(job);
    if (what < 27) return scene_.new_epoch(l);
    if (what < 28) return scene_.leave(l);
    if (what < 29) return scene_.pass_time(in_.byte() * 100 * kMillisecond);
    scene_.pass_time(in_.byte() * 40 * kMicrosecond);
    if (what == 31) scene_.sweep();
  }

  FuzzInput in_;
  SharedScene scene_;
  std::vector<Sent> history_;
};

}  // namespace
}  // namespace tally

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tally::forget_sequences();
  tally::SharedSequence(tally::FuzzInput(data, size)).run();
  return 0;
}

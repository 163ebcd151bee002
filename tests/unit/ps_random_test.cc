// A server against a simple model of box and workers: slots that come and go at random, and a path that
// loses, copies, delays and reorders everything. Every RESULT must be the sum of all contributions, each
// once; memory stays within its bound; when the path is good again, every chunk completes.
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <random>
#include <set>

#include "jobs/job_table.h"
#include "ps_support.h"

namespace tally::psbed {
namespace {

constexpr std::uint64_t kShare = TALLY_SEED_SHARE;  // 1 of so many seeds
constexpr std::uint32_t kChunks = 60;               // of each generation
constexpr std::uint32_t kWindow = 16;

class World {
 public:
  explicit World(std::uint64_t seed)
      : random_(seed), jobs_(make_jobs()), server_(jobs_, 2 + random_() % 60), workers_(jobs_.size()) {
    loss_ = below(35);
    for (std::size_t j = 0; j < jobs_.size(); ++j) begin(j);
  }

  void run() {
    const TimeNs healed = server_.now + 400 * kMillisecond;
    const TimeNs give_up = healed + 60 * kSecond;
    while (server_.now < give_up && !(server_.now > healed && done())) {
      const bool healthy = server_.now > healed;
      if (healthy) loss_ = 0;
      step(healthy);
      ASSERT_LE(server_.engine->memory().incomplete + server_.engine->memory().complete,
                server_.engine->capacity());
      if (testing::Test::HasFailure()) return;
    }
    ASSERT_TRUE(done()) << "not every chunk completed";
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      const ps::PsJobStatistics& s = server_.counted(j);
      EXPECT_EQ(s.taken(), s.merged + s.completed + s.known + s.inside + s.overlaps + s.mismatches +
                               s.bad_sums + s.no_room);
      EXPECT_EQ(s.mismatches + s.bad_sums, 0U);
    }
  }

 private:
  struct Workers {
    std::vector<std::vector<bool>> has;            // by rank, by chunk
    std::map<std::uint32_t, std::uint64_t> slots;  // by chunk: who is in it; members: complete
  };
  struct Flying {
    std::size_t job = 0;
    bool to_server = false;
    Bytes bytes;
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool lost() { return below(100) < loss_; }

  std::vector<BoxJob> make_jobs() {
    std::vector<BoxJob> jobs(1 + below(3));
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      jobs[j].name = "job" + std::to_string(j);
      jobs[j].id = static_cast<std::uint16_t>(10 + j);
      jobs[j].epoch = static_cast<std::uint32_t>(100 + 50 * j);
      jobs[j].generation = random_();
      jobs[j].world = static_cast<std::uint16_t>(2 + below(4));
    }
    return jobs;
  }
  void begin(std::size_t j) {
    workers_[j].has.assign(jobs_[j].world, std::vector<bool>(kChunks, false));
    workers_[j].slots.clear();
  }
  [[nodiscard]] std::uint32_t lowest(std::size_t j, std::uint16_t rank) const {
    const auto& has = workers_[j].has[rank];
    return static_cast<std::uint32_t>(std::find(has.begin(), has.end(), false) - has.begin());
  }
  [[nodiscard]] bool done() const {
    for (const Workers& w : workers_)
      for (const auto& has : w.has)
        if (std::count(has.begin(), has.end(), false) != 0) return false;
    return true;
  }

  void fly(std::size_t j, bool to_server, const Bytes& bytes) {
    for (std::uint64_t copies = below(12) == 0 ? 2 : 1; copies > 0; --copies) {
      if (lost()) continue;
      const TimeNs late = below(10) == 0 ? below(5 * kMillisecond) : 0;
      flying_.emplace(server_.now + 10 * kMicrosecond + late, Flying{j, to_server, bytes});
    }
  }

  // A contribution at the box: into its slot, or to the server.
  void arrive(std::size_t j, std::uint16_t rank, std::uint32_t chunk, bool direct) {
    const BoxJob& job = jobs_[j];
    auto& slots = workers_[j].slots;
    const auto slot = slots.find(chunk);
    if (!direct && slot != slots.end()) {
      if (slot->second == job.members()) return deliver(j, bit_of(Rank{rank}), chunk);
      if ((slot->second & bit_of(Rank{rank})) != 0) return;
      slot->second |= bit_of(Rank{rank});
      if (slot->second == job.members()) deliver(j, job.members(), chunk);
      return;
    }
    if (!direct && below(2) == 0) {
      slots[chunk] = bit_of(Rank{rank});
      return;
    }
    fly(j, true, job.contribution(rank, Chunk{chunk}));
  }

  void evict(std::size_t j, std::uint32_t chunk) {
    auto& slots = workers_[j].slots;
    const auto slot = slots.find(chunk);
    if (slot == slots.end()) return;
    if (slot->second != jobs_[j].members()) fly(j, true, jobs_[j].partial(slot->second, Chunk{chunk}));
    slots.erase(slot);
  }

  void deliver(std::size_t j, std::uint64_t ranks, std::uint32_t chunk) {
    for (std::uint16_t r = 0; r < jobs_[j].world; ++r) {
      if ((ranks >> r & 1) != 0 && !lost()) workers_[j].has[r][chunk] = true;
    }
  }

  void at_box(std::size_t j, const Bytes& sent) {
    const BoxJob& job = jobs_[j];
    const Header h = header_of(sent);
    if (h.type == PacketType::kJoin) {
      fly(j, true, job.joined(JoinStatus::kRunning, join_payload(sent).nonce.host()));
      return;
    }
    if (h.epoch.host() != job.epoch)
      return fly(j, true, old_.at(h.epoch.host()).reject(RejectReason::kEpoch));
    if (h.type == PacketType::kHeartbeat) return fly(j, true, job.echo());
    const std::uint32_t chunk = h.chunk.host();
    auto& slots = workers_[j].slots;
    const std::uint64_t ranks = h.contributors.host();
    ASSERT_EQ(ranks & ~job.members(), 0U);
    if (h.type == PacketType::kResult) {
      job.expect_result(sent, ranks, Chunk{chunk});
      deliver(j, ranks, chunk);
    } else if (h.type == PacketType::kFlush) {
      const auto slot = slots.find(chunk);
      if (slot == slots.end()) return;
      if (slot->second == job.members())
        fly(j, true, job.result(Chunk{chunk}));
      else
        evict(j, chunk);
    } else {
      ASSERT_EQ(h.type, PacketType::kResend);
      for (std::uint16_t r = 0; r < job.world; ++r) {
        if ((ranks >> r & 1) == 0 || lost()) continue;
        if (workers_[j].has[r][chunk])
          fly(j, true, job.result(Chunk{chunk}));
        else if (chunk < lowest(j, r) + kWindow)
          arrive(j, r, chunk, true);
      }
    }
  }

  // 100 us of everybody's life.
  void step(bool healthy) {
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      for (std::uint16_t r = 0; r < jobs_[j].world; ++r) {
        const std::uint32_t first = lowest(j, r);
        if (first == kChunks || below(4) == 0) continue;
        const std::uint32_t chunk =
            below(3) == 0 ? first : first + static_cast<std::uint32_t>(below(kWindow));
        if (chunk >= kChunks || workers_[j].has[r][chunk]) continue;
        // Somebody may have it whose entry is gone: what a peer answers.
        if (below(20) == 0 && anybody_has(j, chunk)) deliver(j, bit_of(Rank{r}), chunk);
        arrive(j, r, chunk, false);
      }
      if (below(3) == 0) evict(j, static_cast<std::uint32_t>(below(kChunks)));
      if (!healthy && below(400) == 0) new_epoch(j);
    }
    const TimeNs end = server_.now + 100 * kMicrosecond;
    for (;;) {
      for (const Out& out : server_.drain()) fly(job_of(out.header(), out.bytes), false, out.bytes);
      const TimeNs next =
          std::min(flying_.empty() ? kNever : flying_.begin()->first, server_.engine->deadline());
      if (next > end) break;
      server_.now = std::max(server_.now, next);
      if (flying_.empty() || flying_.begin()->first > server_.now) continue;
      const Flying f = flying_.extract(flying_.begin()).mapped();
      f.to_server ? server_.hear(f.bytes) : at_box(f.job, f.bytes);
      if (testing::Test::HasFatalFailure()) return;
    }
    server_.now = end;
  }

  [[nodiscard]] bool anybody_has(std::size_t j, std::uint32_t chunk) const {
    const auto& has = workers_[j].has;
    return std::any_of(has.begin(), has.end(), [&](const auto& of) { return of[chunk]; });
  }
  [[nodiscard]] std::size_t job_of(const Header& h, const Bytes& bytes) const {
    if (h.type != PacketType::kJoin) return h.job.host() - 10U;
    return std::to_integer<std::size_t>(bytes[kHeaderBytes + sizeof(JoinPayload) + 3]) - '0';
  }

  // The box lost its slots; now and then the generation ends too.
  void new_epoch(std::size_t j) {
    old_[jobs_[j].epoch] = jobs_[j];
    ++jobs_[j].epoch;
    workers_[j].slots.clear();
    if (below(3) == 0) {
      jobs_[j].generation = random_();
      begin(j);
    }
    fly(j, true, old_[jobs_[j].epoch - 1].reject(RejectReason::kEpoch));
  }

  std::mt19937_64 random_;
  std::vector<BoxJob> jobs_;
  Server server_;
  std::vector<Workers> workers_;
  std::map<std::uint32_t, BoxJob> old_;  // by epoch
  std::multimap<TimeNs, Flying> flying_;
  std::uint64_t loss_ = 0;  // percent
};

TEST(PsRandom, EveryResultIsTheWholeSumAndEveryChunkCompletes) {
  for (std::uint64_t seed = 1; seed <= 60 / kShare; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    world.run();
    if (testing::Test::HasFailure()) return;
  }
}

// The engine under bytes of any kind: nothing but refusals, and it goes on.
TEST(PsRandom, RubbishIsRefusedAndChangesNothing) {
  std::mt19937_64 random(7);
  const BoxJob job;
  Server server({job});
  server.join(job);
  std::uint64_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes = random() % 2 == 0 ? job.contribution(0, Chunk{1}) : job.result(Chunk{1});
    bytes.resize(random() % (bytes.size() + 8));
    const std::size_t damage = 1 + random() % 4;
    for (std::size_t k = 0; k < damage && !bytes.empty(); ++k) {
      const std::size_t at = random() % bytes.size();
      // Any value of these is a legal one, and only `check` covers them.
      const bool free_choice = at == 2 || at == 3 || at == 22 || at == 23 || (at >= 48 && at < 56);
      bytes[free_choice ? 0 : at] ^= std::byte{static_cast<unsigned char>(1 + random() % 255)};
    }
    if (random() % 2 == 0 && bytes.size() >= kHeaderBytes) bytes = testbed::resealed(bytes);
    server.hear(bytes);
  }
  for (const auto n : server.engine->refused()) refused += n;
  EXPECT_EQ(refused, 20'000U);
  EXPECT_EQ(server.counted().taken(), 0U);
  for (std::uint16_t r = 0; r < 3; ++r) server.hear(job.contribution(r, Chunk{1}));
  job.expect_result(server.drain().at(0).bytes, 0b111, Chunk{1});
}

}  // namespace
}  // namespace tally::psbed

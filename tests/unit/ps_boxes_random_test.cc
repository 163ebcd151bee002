// A server against a simple model of several boxes, their home and workers: plans at random, boxes that are far and
// near, entries that come and go, paths that lose, copy, delay and reorder everything, boxes that lose their memory or
// are cut off. Every RESULT must be the sum of all contributions, each once, and go to ranks behind its box. The
// home makes another plan only when the server says that it lost a box. When all is well again, every chunk
// completes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>

#include "jobs/job_table.h"
#include "ps_boxes_fleet.h"

namespace tally::psbed {
namespace {

constexpr std::uint64_t kBoxesShare = TALLY_SEED_SHARE;  // 1 of so many seeds
constexpr std::uint32_t kManyChunks = 40;                // of each generation
constexpr std::uint32_t kRanksWindow = 16;

struct Totals {
  std::uint64_t epochs = 0;
  std::uint64_t lost_by_silence = 0;
  std::uint64_t forgotten = 0;
  std::uint64_t results = 0;
};

class Fabric {
 public:
  explicit Fabric(std::uint64_t seed) : random_(seed), boxes_(2 + below(7)) {
    loss_ = below(30);
    for (std::size_t p = 0; p < boxes_.size(); ++p)
      boxes_[p].far = 10 * kMicrosecond + below(3) * kMillisecond;
    std::vector<PlannedJob> jobs(1 + below(3));
    lives_.resize(jobs.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      BoxJob& job = jobs[j].job;
      job.name = "job" + std::to_string(j);
      job.id = static_cast<std::uint16_t>(12 + j);  // at each box a job has another id, and no two have one
      job.epoch = static_cast<std::uint32_t>(100 + 50 * j);
      job.generation = random_();
      job.world = static_cast<std::uint16_t>(2 + below(5));
      job.lease_ms = 2'000;
      job.shards = 1;
    }
    for (std::size_t j = 0; j < jobs.size(); ++j) plan_anew(jobs[j], 0);
    fleet_.emplace(jobs, std::vector{address_of(0)}, 2 + below(60));
    for (std::size_t j = 0; j < jobs.size(); ++j) begin(j);
  }

  void run(Totals& totals) {
    const TimeNs healed = fleet_->now + 1500 * kMillisecond;
    const TimeNs give_up = healed + 60 * kSecond;
    while (fleet_->now < give_up && !(fleet_->now > healed && done())) {
      const bool healthy = fleet_->now > healed;
      if (healthy) {
        loss_ = 0;
        for (Physical& box : boxes_) box.cut = false;
      }
      step(healthy);
      ASSERT_LE(fleet_->server->memory().incomplete + fleet_->server->memory().complete,
                fleet_->server->capacity());
      if (testing::Test::HasFailure()) return;
    }
    ASSERT_TRUE(done()) << "not every chunk completed";
    for (std::size_t j = 0; j < lives_.size(); ++j) {
      const ps::PsJobStatistics& s = fleet_->counted(j);
      EXPECT_EQ(s.taken(), s.merged + s.completed + s.known + s.inside + s.overlaps + s.mismatches +
                               s.bad_sums + s.no_room);
      EXPECT_EQ(s.mismatches + s.bad_sums, 0U);
      totals.epochs += s.epochs;
      totals.results += s.results;
    }
    totals.lost_by_silence += lost_by_silence_;
    totals.forgotten += forgotten_;
  }

 private:
  struct Physical {
    TimeNs far = 0;
    bool cut = false;
  };
  // A job's epoch at one of its plan's boxes.
  struct AtBox {
    std::map<std::uint32_t, std::uint64_t> entries;  // by chunk: who is in it; members: complete
    std::map<std::uint32_t, std::uint64_t> seen;
    std::uint64_t pages = 0;  // of the plan
    bool server = false;      // has taken it in
  };
  struct Life {
    std::vector<std::vector<bool>> has;     // by rank, by chunk
    std::vector<std::vector<TimeNs>> next;  // when the rank offers it again
    std::vector<AtBox> at;                  // by box of the plan
  };
  struct Flying {
    std::size_t job = 0;
    bool to_server = false;
    FleetOut what;
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool lost() { return below(100) < loss_; }
  static Ipv6 address_of(std::size_t physical) {
    return mapped({10, 0, 0, static_cast<std::uint8_t>(physical + 1)});
  }
  Physical& physical(const Ipv6& address) { return boxes_[address[15] - 1U]; }
  PlannedJob& job(std::size_t j) { return fleet_->jobs[j]; }

  // Over some of the boxes that are not `gone`. The home is the first one, be it in the plan or not.
  void plan_anew(PlannedJob& job, std::uint64_t gone) {
    std::vector<std::size_t> some;
    for (std::size_t p = 0; p < boxes_.size(); ++p)
      if ((gone >> p & 1) == 0 && below(4) != 0) some.push_back(p);
    if (some.empty()) some.push_back(0);
    std::shuffle(some.begin(), some.end(), random_);
    const std::uint64_t salt = random_();
    const std::uint64_t direct = below(3);
    job.plan = plan_of(job.job.world, static_cast<std::uint8_t>(some.size()),
                       [&](std::uint16_t rank, std::uint32_t group) {
                         const std::uint64_t word = mix64(salt + rank / 2 * 5000 + group % 7);
                         return Route{static_cast<BoxIndex>(word % some.size()), (word >> 32) % 10 < direct};
                       });
    for (std::size_t b = 0; b < some.size(); ++b) job.plan.boxes[b] = address_of(some[b]);
    const auto home = std::find(some.begin(), some.end(), 0U);
    job.home = home == some.end() ? PlannedText::kNoBox : static_cast<BoxIndex>(home - some.begin());
    job.home_address = address_of(0);
  }

  void begin(std::size_t j) {
    lives_[j].has.assign(job(j).job.world, std::vector<bool>(kManyChunks, false));
    begin_epoch(j);
  }
  void begin_epoch(std::size_t j) {
    lives_[j].at.assign(job(j).plan.boxes.size(), {});
    lives_[j].next.assign(job(j).job.world, std::vector<TimeNs>(kManyChunks, 0));
    if (job(j).home != PlannedText::kNoBox) lives_[j].at[job(j).home].server = true;
  }
  // Another plan, and now and then another generation.
  void new_epoch(std::size_t j, std::uint64_t gone) {
    const PlannedJob former = job(j);
    former_.insert_or_assign(former.job.epoch, former);
    ++job(j).job.epoch;
    plan_anew(job(j), gone);
    if (below(4) == 0) {
      job(j).job.generation = random_();
      begin(j);
    } else {
      begin_epoch(j);
    }
    say(j, address_of(0), former.at_home_box().reject(RejectReason::kEpoch));
  }
  [[nodiscard]] std::uint32_t lowest(std::size_t j, std::uint16_t rank) const {
    const auto& has = lives_[j].has[rank];
    return static_cast<std::uint32_t>(std::find(has.begin(), has.end(), false) - has.begin());
  }
  [[nodiscard]] bool done() const {
    return std::all_of(lives_.begin(), lives_.end(), [](const Life& life) {
      return std::all_of(life.has.begin(), life.has.end(),
                         [](const auto& has) { return std::count(has.begin(), has.end(), false) == 0; });
    });
  }

  void fly(const Flying& flying) {
    const Physical& box = physical(flying.what.box);
    if (box.cut) return;
    for (std::uint64_t copies = below(12) == 0 ? 2 : 1; copies > 0; --copies) {
      if (lost()) continue;
      const TimeNs late = below(10) == 0 ? below(5 * kMillisecond) : 0;
      flying_.emplace(fleet_->now + box.far + late, flying);
    }
  }
  // In a box's name.
  void say(std::size_t j, const Ipv6& box, const Bytes& bytes) { fly({j, true, {box, bytes, 0}}); }
  void say(std::size_t j, BoxIndex box, const Bytes& bytes) { say(j, job(j).plan.boxes[box], bytes); }

  // A contribution at the box of its route.
  void arrive(std::size_t j, std::uint16_t rank, std::uint32_t chunk, bool direct) {
    const Route route = job(j).plan.route(Rank{rank}, Chunk{chunk});
    if (physical(job(j).plan.boxes[route.box]).cut || lost()) return;
    AtBox& at = lives_[j].at[route.box];
    if (!at.server) return;  // workers wait for it there
    const BoxJob as = job(j).at(route.box);
    const std::uint64_t bit = bit_of(Rank{rank});
    const std::uint64_t here = job(j).plan.here(route.box, chunk % kPlanGroups);
    if (direct || route.direct || here == bit) return say(j, route.box, as.contribution(rank, Chunk{chunk}));
    std::uint64_t& seen = at.seen[chunk];
    const bool again = (seen & bit) != 0;
    seen |= bit;
    const auto entry = at.entries.find(chunk);
    if (entry == at.entries.end()) {
      if (again && below(2) == 0) return say(j, route.box, as.query(rank, Chunk{chunk}));
      if (again || seen == here || below(3) == 0)
        return say(j, route.box, as.contribution(rank, Chunk{chunk}));
      at.entries[chunk] = bit;
      return;
    }
    if (entry->second == job(j).job.members()) return deliver(j, bit, chunk);
    entry->second |= bit;
    if (entry->second == job(j).job.members()) return deliver(j, entry->second, chunk);
    if (seen == here) evict(j, route.box, chunk);
  }

  void evict(std::size_t j, BoxIndex box, std::uint32_t chunk) {
    auto& entries = lives_[j].at[box].entries;
    const auto entry = entries.find(chunk);
    if (entry == entries.end()) return;
    if (entry->second != job(j).job.members())
      say(j, box, job(j).at(box).partial(entry->second, Chunk{chunk}));
    entries.erase(entry);
  }

  void deliver(std::size_t j, std::uint64_t ranks, std::uint32_t chunk) {
    for (std::uint16_t r = 0; r < job(j).job.world; ++r) {
      if ((ranks >> r & 1) != 0 && !lost()) lives_[j].has[r][chunk] = true;
    }
  }

  void at_home(std::size_t j, const FleetOut& out) {
    const Header h = out.header();
    if (h.type == PacketType::kJoin)
      return say(j, out.box, job(j).joined(join_payload(out.bytes).nonce.host()));
    if (h.type == PacketType::kPlan) {
      const Bytes payload = payload_of(out.bytes);
      return say(j, out.box, job(j).page(wire_at<PlanPayload>(payload.data()).page));
    }
    if (h.epoch.host() != job(j).job.epoch) {
      const auto former = former_.find(h.epoch.host());
      if (former != former_.end()) say(j, out.box, former->second.at_home_box().reject(RejectReason::kEpoch));
      return;
    }
    if (h.type == PacketType::kHeartbeat) return say(j, out.box, job(j).at_home_box().echo());
    ASSERT_EQ(h.type, PacketType::kLost);
    const LostPayload lost = lost_payload(out.bytes);
    std::uint64_t gone = 0;
    for (std::size_t b = 0; b < job(j).plan.boxes.size(); ++b) {
      if ((lost.gone.host() >> b & 1) != 0) gone |= std::uint64_t{1} << (job(j).plan.boxes[b][15] - 1U);
    }
    (gone != 0 ? lost_by_silence_ : forgotten_) += 1;
    new_epoch(j, gone);
  }

  // What the server says to a guest box, of what epoch so ever.
  void at_guest(std::size_t j, const FleetOut& out) {
    const Header h = out.header();
    const auto& boxes = job(j).plan.boxes;
    const auto found = std::find(boxes.begin(), boxes.end(), out.box);
    const auto box = static_cast<BoxIndex>(found - boxes.begin());
    const bool present = found != boxes.end() && h.epoch.host() == job(j).job.epoch;
    if (h.type == PacketType::kPlan) {
      const Bytes payload = payload_of(out.bytes);
      const auto page = wire_at<PlanPayload>(payload.data());
      if (found != boxes.end() && page.plan == auth::plan_id(job(j).bytes()))
        lives_[j].at[box].pages |= std::uint64_t{1} << page.page;
      return;
    }
    if (h.type == PacketType::kEnlist) {
      if (!present) return;
      const EnlistPayload p = enlist_payload(out.bytes);
      ASSERT_EQ(p.box, box);
      AtBox& at = lives_[j].at[box];
      const std::uint64_t missing = ~(~std::uint64_t{0} << plan_pages(p.plan_bytes.host())) & ~at.pages;
      at.server |= missing == 0;
      return say(
          j, box,
          missing == 0 ? job(j).enlisted(box, p.nonce.host()) : job(j).lacks(box, p.nonce.host(), missing));
    }
    if (h.type != PacketType::kHeartbeat) {
      if (present && lives_[j].at[box].server) data(j, box, out);
      return;
    }
    if (present && lives_[j].at[box].server) return say(j, box, job(j).echo(box));
    const auto former = former_.find(h.epoch.host());
    const PlannedJob& of = present || former == former_.end() ? job(j) : former->second;
    for (BoxIndex b = 0; b < of.plan.boxes.size(); ++b)
      if (of.plan.boxes[b] == out.box) say(j, out.box, of.forgot(b, counter_of(out.bytes)));
  }

  void data(std::size_t j, BoxIndex box, const FleetOut& out) {
    const BoxJob as = job(j).at(box);
    const Header h = out.header();
    const std::uint32_t chunk = h.chunk.host();
    const std::uint64_t ranks = h.contributors.host();
    ASSERT_EQ(ranks & ~job(j).plan.through(box, chunk % kPlanGroups), 0U) << "ranks of another box";
    if (h.type == PacketType::kResult) {
      as.expect_result(out.bytes, ranks, Chunk{chunk});
      return deliver(j, ranks, chunk);
    }
    if (h.type == PacketType::kFlush) {
      ASSERT_GT(std::popcount(job(j).plan.here(box, chunk % kPlanGroups)), 1) << "it can have no entry";
      auto& entries = lives_[j].at[box].entries;
      const auto entry = entries.find(chunk);
      if (entry != entries.end() && entry->second == as.members())
        return say(j, box, as.result(Chunk{chunk}));
      return evict(j, box, chunk);
    }
    ASSERT_EQ(h.type, PacketType::kResend);
    for (std::uint16_t r = 0; r < as.world; ++r) {
      if ((ranks >> r & 1) == 0 || lost()) continue;
      if (lives_[j].has[r][chunk])
        say(j, box, as.result(Chunk{chunk}));
      else if (lives_[j].next[r][chunk] != 0)
        arrive(j, r, chunk, true);
    }
  }

  [[nodiscard]] std::size_t job_of(const FleetOut& out) const {
    const Header h = out.header();
    std::size_t name = 0;  // where it ends in what names the job
    if (h.type == PacketType::kJoin) name = sizeof(JoinPayload);
    if (h.type == PacketType::kEnlist) name = sizeof(EnlistPayload);
    if (h.type == PacketType::kPlan) name = sizeof(PlanPayload);
    if (name == 0) return h.job.host() % 3U;
    return std::to_integer<std::size_t>(out.bytes[kHeaderBytes + name + 3]) - '0';
  }

  void restart(std::size_t p) {
    for (std::size_t j = 0; j < lives_.size(); ++j) {
      for (BoxIndex b = 0; b < job(j).plan.boxes.size(); ++b)
        if (job(j).plan.boxes[b] == address_of(p)) lives_[j].at[b] = {};
      if (p == 0) new_epoch(j, 0);
    }
  }

  // 100 us of everybody's life.
  void step(bool healthy) {
    const TimeNs now = fleet_->now;
    for (std::size_t j = 0; j < lives_.size(); ++j) {
      for (std::uint16_t r = 0; r < job(j).job.world; ++r) {
        const std::uint32_t first = lowest(j, r);
        if (first == kManyChunks || below(3) != 0) continue;
        const std::uint32_t chunk =
            below(3) == 0 ? first : first + static_cast<std::uint32_t>(below(kRanksWindow));
        if (chunk >= kManyChunks || lives_[j].has[r][chunk] || lives_[j].next[r][chunk] > now) continue;
        lives_[j].next[r][chunk] = now + 2 * kMillisecond + below(6 * kMillisecond);
        // Somebody may have it whose server has forgotten it: what a peer answers.
        if (below(20) == 0 && anybody_has(j, chunk)) deliver(j, bit_of(Rank{r}), chunk);
        arrive(j, r, chunk, false);
      }
      if (below(3) == 0)
        evict(j, static_cast<BoxIndex>(below(lives_[j].at.size())),
              static_cast<std::uint32_t>(below(kManyChunks)));
      if (!healthy && below(4000) == 0) new_epoch(j, 0);
    }
    if (!healthy && below(4000) == 0) restart(below(boxes_.size()));
    if (!healthy && below(4000) == 0) boxes_[1 + below(boxes_.size() - 1)].cut ^= true;
    const TimeNs end = now + 100 * kMicrosecond;
    for (;;) {
      for (const FleetOut& out : fleet_->drain()) fly({job_of(out), false, out});
      const TimeNs next =
          std::min(flying_.empty() ? kNever : flying_.begin()->first, fleet_->server->deadline());
      if (next > end) break;
      fleet_->now = std::max(fleet_->now, next);
      if (flying_.empty() || flying_.begin()->first > fleet_->now) continue;
      const Flying f = flying_.extract(flying_.begin()).mapped();
      if (f.to_server)
        fleet_->hear(f.what.box, f.what.bytes);
      else
        at_box(f.job, f.what);
      if (testing::Test::HasFatalFailure()) return;
    }
    fleet_->now = end;
  }

  // The home's box may be one of the plan, too: then data is what an epoch's box hears, all else is the home's.
  void at_box(std::size_t j, const FleetOut& out) {
    const PacketType type = out.type();
    const bool home = out.box == address_of(0);
    if (home && is_control(type)) return at_home(j, out);
    at_guest(j, out);
  }

  [[nodiscard]] bool anybody_has(std::size_t j, std::uint32_t chunk) const {
    const auto& has = lives_[j].has;
    return std::any_of(has.begin(), has.end(), [&](const auto& of) { return of[chunk]; });
  }

  std::mt19937_64 random_;
  std::vector<Physical> boxes_;
  std::vector<Life> lives_;
  std::optional<Fleet> fleet_;
  std::map<std::uint32_t, PlannedJob> former_;  // by epoch
  std::multimap<TimeNs, Flying> flying_;
  std::uint64_t loss_ = 0;  // percent
  std::uint64_t lost_by_silence_ = 0;
  std::uint64_t forgotten_ = 0;
};

TEST(PsBoxesRandom, EveryResultIsTheWholeSumAndEveryChunkCompletes) {
  Totals totals;
  for (std::uint64_t seed = 1; seed <= 24 / kBoxesShare; ++seed) {
    SCOPED_TRACE(seed);
    Fabric fabric(seed);
    fabric.run(totals);
    if (testing::Test::HasFailure()) return;
  }
  if (kBoxesShare != 1) return;
  // What all seeds together are for has happened.
  EXPECT_GT(totals.results, 0U);
  EXPECT_GT(totals.epochs, 0U);
  EXPECT_GT(totals.lost_by_silence, 0U);
  EXPECT_GT(totals.forgotten, 0U);
}

}  // namespace
}  // namespace tally::psbed

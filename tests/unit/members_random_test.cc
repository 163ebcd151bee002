// Random lives of several jobs under loss, replay, corruption, restarts of everything and slow cores. After
// every event the things that must always hold do; in the end, with everything healed, every job runs.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "members/room.h"
#include "members_support.h"
#include "tally/mix64.h"

namespace tally::members_test {
namespace {

// Or a server.
struct Worker : Peer {
  using Peer::Peer;
  explicit Worker(const Peer& p) : Peer(p) {}
  bool leaving = false;

  [[nodiscard]] bool serves() const { return server_index(Rank{rank}) < kMaxServers; }

  void program_starts_again() {
    last = {};
    epoch = 0;
    lowest = next = 0;
    leaving = false;
  }
};

struct Life {
  std::uint64_t state;
  Bench bench;
  std::vector<std::vector<Worker>> jobs;
  std::array<std::uint32_t, 3> progress{};
  std::vector<std::pair<Peer, Bytes>> captured;
  std::vector<std::uint64_t> under_way;  // publications the cores have not reached
  // By line: the epoch whose ledger may have written it. Not here: zeroed, and nobody's since.
  std::map<std::uint32_t, Epoch> written;
  std::map<JobId, members::JobStatus> told;  // kept up to date by what changed alone
  std::uint8_t servers;                      // of each job that shares slots; 0: embedded

  Life(std::uint64_t seed, const members::MembershipOptions& options,
       const std::array<Discipline, 3>& disciplines, std::uint8_t servers_in = 0)
      : state(seed), bench(options, seed), servers(servers_in) {
    bench.cores_wait = true;
    for (std::uint16_t j = 0; j < 3; ++j) {
      const auto world = static_cast<std::uint16_t>(j + 1);
      const std::string name = "job" + std::to_string(j);
      const bool shares = shares_slots(disciplines.at(j));
      members::NativeConfig config =
          shares ? sharer_of(world, disciplines.at(j), name) : config_of(world, name);
      if (shares) config.quota.reserved_ppm = 400'000;
      const bool served = shares && servers != 0;
      if (served) config.server = ServerKind::kExternal;
      if (served) config.servers = servers;
      config.first_chunk = Chunk{0xFFFFFFFD};
      if (seed % 3 != 0) config.priority = static_cast<std::uint8_t>(60 * j);  // else nobody is above another
      bench.declare(config);
      std::vector<Worker> peers;
      for (std::uint16_t r = 0; r < world; ++r) {
        Worker p(r, world);
        p.job = config.name;
        p.binding.vlan = j;
        p.instance = mix64(seed * 100 + j * 10U + r) | 1U;
        peers.push_back(p);
      }
      for (std::uint32_t s = 0; served && s < servers; ++s) {
        Worker p(Peer::server(s));
        p.job = config.name;
        p.binding.vlan = j;
        p.instance = mix64(seed * 100 + j * 10U + 5 + s) | 1U;
        peers.push_back(p);
      }
      jobs.push_back(peers);
    }
  }

  std::uint64_t below(std::uint64_t n) { return mix64(state += 0x9e3779b97f4a7c15ULL) % n; }

  void deliver(const std::vector<Sent>& sent, std::uint64_t loss_percent) {
    for (const auto& s : sent) {
      if (below(100) < loss_percent) continue;
      for (auto& peers : jobs) {
        for (auto& p : peers) {
          if (s.to != p.binding) continue;
          if (s.type() == PacketType::kChallenge) {
            const auto said = wire_at<ChallengePayload>(s.payload.data());
            if (said.nonce.host() == p.nonce) bench.challenges[p.instance] = said.challenge;
            continue;
          }
          const GenerationRecord before = p.last;
          Bench::take(p, {s});
          if (p.last != before && !p.serves()) progress[p.binding.vlan] = p.next;
          if (p.last != before && before != GenerationRecord{}) p.leaving = false;  // nothing left to leave
          // What else was made for the epoch that it is in bears its tag.
          const bool believed = s.type() == PacketType::kJoined || p.believes(s);
          const bool refused = s.type() == PacketType::kJoined && s.status() == JoinStatus::kRefused &&
                               s.joined().nonce.host() == p.nonce;
          const bool aborted = believed && s.type() == PacketType::kAbort && p.epoch != 0 &&
                               s.header.epoch.host() == p.epoch && s.header.cookie.host() == p.result_cookie;
          const bool gone = s.type() == PacketType::kLeave && s.header.epoch.host() == p.epoch;
          if (refused || aborted || gone) p.program_starts_again();
          const bool called =
              s.type() == PacketType::kReject && (believed || auth::verify(p.job_key(), s.header, s.payload));
          if (called && s.header.epoch.host() == p.epoch) p.epoch = 0;
        }
      }
    }
  }

  void packet_of(Worker& p, std::uint64_t loss_percent) {
    Bytes bytes;
    const std::uint64_t what = below(100);
    std::uint32_t& next = progress[p.binding.vlan];  // members are never far from each other
    if (loss_percent != 0) next += static_cast<std::uint32_t>(below(1U << 26));
    if (p.last != GenerationRecord{} && !p.serves()) p.lowest = p.next = next;
    if (p.epoch == 0 || what < 5) {
      bytes = p.join();
    } else if (p.leaving) {
      bytes = p.leave();
    } else if (what < 6 && below(10) == 0 && loss_percent != 0) {
      bytes = p.abort("tired");
    } else {
      bytes = p.heartbeat();
    }
    bytes = bench.with_challenge(p, bytes);
    captured.emplace_back(p, bytes);
    if (below(100) < loss_percent) return;
    bench.members->receive(bytes, p.binding, bench.now);
  }

  void misfortune() {
    auto& peers = jobs[below(3)];
    Worker& p = peers[servers == 0 ? 0 : below(peers.size())];
    const std::uint64_t what = below(100);
    if (what < 40 && !captured.empty()) {
      const auto& [from, bytes] = captured[below(captured.size())];
      Bytes copy = bytes;
      if (below(4) == 0) copy[below(copy.size())] ^= static_cast<std::byte>(1U << below(8));
      bench.members->receive(copy, from.binding, bench.now);
    } else if (what < 42) {
      p.restart();
      p.leaving = false;
    } else if (what < 44) {
      p.binding.udp_port = static_cast<std::uint16_t>(p.binding.udp_port + 1);
      p.epoch = 0;
    } else if (what < 46) {
      bench.members->restart_data_plane(bench.now);
    } else if (what < 47) {
      bench.forget_everything();
      under_way.clear();
      written.clear();
    } else if (what < 48) {
      // All have passed a barrier, so all know the generation.
      const bool together = std::all_of(peers.begin(), peers.end(), [&](const Worker& w) {
        return w.last == p.last && w.last != GenerationRecord{};
      });
      for (auto& leaver : peers) leaver.leaving = !leaver.serves() && (leaver.leaving || together);
    } else if (what < 51) {
      bench.now += below(15 * kSecond);
    } else if (what < 80) {
      std::vector<members::SharedDemand> demand;
      for (std::uint16_t id = 1; id <= 3; ++id)
        demand.push_back({JobId{id}, static_cast<std::uint32_t>(below(50)), below(2) == 0});
      bench.members->rebalance(demand);
    } else if (what < 84) {
      std::ignore = bench.members->resize(p.job, 16U << below(6), bench.now);  // fails where it must
    }
  }

  void take_publications() {
    while (auto publication = bench.members->publication()) {
      ASSERT_GT(publication->version, bench.version);
      bench.version = publication->version;
      bench.table = publication->table;
      for (const jobs::FreedLines& f : publication->freed) {
        const std::uint32_t end = f.lines.first + f.lines.count;
        ASSERT_LE(end, bench.options.slot_lines);
        written.erase(written.lower_bound(f.lines.first), written.lower_bound(end));
      }
      ASSERT_NO_FATAL_FAILURE(write_ledgers());
      under_way.push_back(publication->version);
    }
  }

  void cores(bool all) {
    ASSERT_NO_FATAL_FAILURE(take_publications());
    while (!under_way.empty() && (all || below(2) == 0)) {
      bench.members->quiesced(under_way.front(), bench.now);
      under_way.erase(under_way.begin());
      ASSERT_NO_FATAL_FAILURE(take_publications());  // members who have been told may be called back at once
    }
  }

  // No ledger holds what another epoch wrote.
  void write_ledgers() {
    for (std::uint16_t id = 1; id <= 3; ++id) {
      const jobs::NativeJob* row = bench.row(JobId{id});
      if (row == nullptr || row->discipline != Discipline::kShared) continue;
      for (std::uint32_t l = 0; l < row->slots.count; ++l) {
        const auto [line, fresh] = written.try_emplace(row->slots.first + l, row->epoch);
        ASSERT_TRUE(fresh || line->second == row->epoch) << "line " << line->first;
      }
    }
  }

  void check() {
    std::set<Epoch> epochs;
    std::vector<jobs::LineRange> ranges;
    std::uint32_t reserved = 0;
    for (const auto& s : bench.members->status(bench.now)) {
      const jobs::NativeJob* row = bench.row(s.id);
      const bool active = s.phase == members::JobPhase::kRunning || s.phase == members::JobPhase::kDraining;
      if (s.phase != members::JobPhase::kForming) {
        ASSERT_EQ(row != nullptr, active);
      }
      if (row == nullptr) continue;
      ASSERT_EQ(row->epoch, s.epoch);
      ASSERT_TRUE(epochs.insert(row->epoch).second);
      ASSERT_NE(raw(row->epoch), 0U);
      ASSERT_LE(row->window, s.largest_window);
      ASSERT_EQ(row->slots.count,
                members::own_lines(row->discipline, row->window, row->span, row->shards, row->elements));
      ASSERT_LE(row->slots.first + row->slots.count, bench.options.slot_lines);
      reserved += row->reserved;
      ASSERT_LE(reserved, bench.options.shared_entries);
      ASSERT_TRUE(!shares_slots(row->discipline) || bench.table->cap(s.id) >= std::max(row->reserved, 1U));
      for (const auto& other : ranges) {
        ASSERT_TRUE(row->slots.first >= other.first + other.count ||
                    other.first >= row->slots.first + row->slots.count);
      }
      ranges.push_back(row->slots);
      for (const auto& p : jobs[raw(s.id) - 1U]) {
        if (p.epoch != raw(row->epoch)) continue;
        const jobs::Member& m =
            p.serves() ? row->server_ranks[server_index(Rank{p.rank})] : row->ranks[p.rank];
        ASSERT_EQ(p.cookie, raw(m.cookie));
        ASSERT_EQ(p.result_cookie, raw(row->result_cookie));
        ASSERT_EQ(p.last.generation.host(), raw(row->generation));
      }
    }
  }

  // Who looks at what changed sees what one who looks at everything does, and no lease outlived its end.
  void check_what_is_told() {
    for (const JobId id : bench.members->changed()) {
      if (auto status = bench.members->status(id, bench.now))
        told.insert_or_assign(id, *status);
      else
        told.erase(id);
    }
    const auto all = bench.members->status(bench.now);
    ASSERT_EQ(all.size(), told.size());
    for (const members::JobStatus& s : all) {
      members::JobStatus known = told.at(s.id);
      known.live = s.live;
      known.cap = s.cap;
      for (std::size_t r = 0; r < s.ranks.size(); ++r) {
        known.ranks.at(r).next = s.ranks[r].next;
        known.ranks.at(r).last_seen = s.ranks[r].last_seen;
      }
      for (std::size_t r = 0; r < s.servers.size(); ++r)
        known.servers.at(r).last_seen = s.servers[r].last_seen;
      ASSERT_EQ(known, s) << s.name;
      if (s.phase != members::JobPhase::kRunning && s.phase != members::JobPhase::kDraining) continue;
      for (std::uint16_t r = 0; r < s.world; ++r)
        ASSERT_EQ((s.live & bit_of(Rank{r})) != 0, s.ranks[r].joined && !s.ranks[r].left) << s.name;
    }
  }

  void step(std::uint64_t loss_percent, bool misfortunes) {
    bench.now += below(300 * kMillisecond);
    bench.members->tick(bench.now);
    ASSERT_GT(bench.members->deadline(), bench.now);
    ASSERT_NO_FATAL_FAILURE(check_what_is_told());
    for (auto& peers : jobs) {
      for (auto& p : peers) packet_of(p, loss_percent);
    }
    if (misfortunes) misfortune();
    cores(!misfortunes);
    check();
    deliver(bench.answers(), loss_percent);
  }
};

constexpr std::uint64_t kShare = TALLY_SEED_SHARE;  // 1 of so many seeds

constexpr std::array kPools{Discipline::kPool, Discipline::kPool, Discipline::kPool};
constexpr std::array kMixed{Discipline::kShared, Discipline::kPool, Discipline::kShared};

// Also: ledgers change hands clean, and reservations never exceed the region (two of three jobs hold 40 %).
TEST(MembersRandom, InvariantsHoldWhereJobsShareSlots) {
  for (std::uint64_t seed = 1; seed <= 40 / kShare; ++seed) {
    SCOPED_TRACE(seed);
    const bool little = seed % 2 == 0;  // then a ledger and a pool keep each other small
    Life life(seed, shared_box(little ? jobs::pool_lines(16, 1, 352) + 40 : 20'000, 50), kMixed);
    for (int i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(life.step(20, true));
    for (int i = 0; i < 500 && !little; ++i) ASSERT_NO_FATAL_FAILURE(life.step(0, false));
    for (const auto& s : life.bench.members->status(life.bench.now)) {
      EXPECT_TRUE(little || s.phase == members::JobPhase::kRunning)
          << s.name << " " << members::name_of(s.phase) << s.reason;
    }
  }
}

// Servers restart, move, lose packets and come back under other names as workers do.
TEST(MembersRandom, InvariantsHoldAndEveryJobHealsWithExternalServers) {
  std::uint64_t taken_over = 0;
  for (std::uint64_t seed = 1; seed <= 40 / kShare; ++seed) {
    SCOPED_TRACE(seed);
    Life life(seed, shared_box(20'000, 50), kMixed, static_cast<std::uint8_t>(1 + seed % 3));
    std::uint64_t instance = 0;
    Epoch epoch{};
    for (int i = 0; i < 500; ++i) {
      ASSERT_NO_FATAL_FAILURE(life.step(20, true));
      const members::JobStatus s = life.bench.status(JobId{3});
      if (s.phase == members::JobPhase::kRunning && s.epoch == epoch && s.servers[0].instance != instance)
        ++taken_over;
      instance = s.servers[0].instance;
      epoch = s.epoch;
    }
    for (int i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(life.step(0, false));
    for (const auto& s : life.bench.members->status(life.bench.now)) {
      EXPECT_TRUE(s.phase == members::JobPhase::kRunning)
          << s.name << " " << members::name_of(s.phase) << " missing " << s.missing << ", servers "
          << s.missing_servers << ": " << s.reason;
    }
  }
  // It is rare: a share of the seeds need not have it.
  EXPECT_TRUE(kShare > 1 || taken_over > 0) << "it did not happen often enough: " << taken_over;
}

TEST(MembersRandom, InvariantsHoldWithLittleMemory) {
  for (std::uint64_t seed = 1; seed <= 30 / kShare; ++seed) {
    SCOPED_TRACE(seed);
    Life life(seed, shared_box(jobs::pool_lines(128, 1, 352) + 3000, 0), kPools);
    for (int i = 0; i < 1000; ++i) ASSERT_NO_FATAL_FAILURE(life.step(20, true));
  }
}

// Memory for one job's wish and three smallest windows: whoever came first, the highest priority runs in the
// end.
TEST(MembersRandom, TheHighestPriorityRunsWithLittleMemory) {
  std::uint32_t gave = 0;
  for (std::uint64_t seed = 1; seed <= 60 / kShare; ++seed) {
    if (seed % 3 == 0) continue;
    SCOPED_TRACE(seed);
    Life life(seed, shared_box(jobs::pool_lines(256 + 48, 1, 352), 0), kPools);
    for (int i = 0; i < 500; ++i) {
      ASSERT_NO_FATAL_FAILURE(life.step(20, true));
      for (const auto& s : life.bench.members->status(life.bench.now)) gave += s.shrunk_for.empty() ? 0 : 1;
    }
    for (int i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(life.step(0, false));
    const auto highest = life.bench.members->status(life.bench.now).back();
    EXPECT_TRUE(highest.phase == members::JobPhase::kRunning)
        << members::name_of(highest.phase) << " missing " << highest.missing << ": " << highest.reason;
  }
  EXPECT_GT(gave, 500 / kShare) << "it did not happen often enough";
}

TEST(MembersRandom, InvariantsHoldAndEveryJobHeals) {
  for (std::uint64_t seed = 1; seed <= 60 / kShare; ++seed) {
    SCOPED_TRACE(seed);
    Life life(seed, shared_box(3 * jobs::pool_lines(256, 1, 352), 0), kPools);
    for (int i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(life.step(20, true));
    for (int i = 0; i < 500; ++i) ASSERT_NO_FATAL_FAILURE(life.step(0, false));
    for (const auto& s : life.bench.members->status(life.bench.now)) {
      EXPECT_TRUE(s.phase == members::JobPhase::kRunning)
          << s.name << " " << members::name_of(s.phase) << " missing " << s.missing << ": " << s.reason;
    }
  }
}

}  // namespace
}  // namespace tally::members_test

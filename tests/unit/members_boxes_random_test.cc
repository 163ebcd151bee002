// Random lives of a job over four boxes: loss, replay, corruption, members that restart and move, boxes that
// forget all, lose their data planes or are cut off from one member, new plans, another home, slow cores. After
// every event what must always hold does; in the end, with everything healed, the job runs and everybody is
// enlisted at each box of its plan.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "members/room.h"
#include "members_boxes_support.h"
#include "tally/mix64.h"

namespace tally::members_test {
namespace {

constexpr std::size_t kBoxes = 4;
constexpr TimeNs kSilence = kSecond;  // of a box: a tenth of the lease

// A member as a client writes one: it believes what bears its tag, asks again, and says what it lost.
struct Client : Member {
  explicit Client(const Peer& peer) : Member(peer) {}

  std::size_t joins_at = 0;               // where it looks for the home
  std::map<std::size_t, TimeNs> heard{};  // other boxes: the newest echo, or the first ENLIST
  std::uint64_t gone = 0;                 // of its plan
  std::uint64_t forgot = 0;
  TimeNs home_heard = 0;

  void program_starts_again(TimeNs now) {
    last = {};
    lowest = next = 0;
    out_of_epoch(now);
  }
  void out_of_epoch(TimeNs now) {
    epoch = 0;
    gone = forgot = 0;
    heard.clear();
    home_heard = now;
    for (auto& [box, seat] : seats) seat.running = false;
  }
};

struct Life {
  std::uint64_t state;
  Boxes job;
  std::vector<Client> clients;
  std::vector<std::pair<std::size_t, std::pair<Peer, Bytes>>> captured{};  // with the box it went to
  std::vector<std::deque<std::uint64_t>> under_way{kBoxes};  // publications the cores have not reached
  std::vector<std::map<JobId, members::JobStatus>> told{kBoxes};
  std::set<std::pair<std::size_t, std::size_t>> cut{};  // client and box: nothing passes
  std::vector<std::uint64_t> counted = std::vector<std::uint64_t>(kBoxes);
  std::uint32_t progress = 0xFFFF'FFFD;
  std::uint64_t epochs = 0;
  std::uint64_t left_out = 0;

  explicit Life(std::uint64_t seed) : state(mix64(seed)), job(kBoxes, 3, 2) {
    job.source = [this](const members::PlanRequest& request) { return any_plan(request); };
    for (std::size_t box = 0; box < kBoxes; ++box) {
      job.boxes[box].cores_wait = true;
      under_way[box].clear();
    }
    for (std::size_t i = 0; i < job.all.size(); ++i) {
      clients.emplace_back(job.all[i]);
      clients.back().instance = mix64(seed * 100 + i) | 1U;
    }
  }

  std::uint64_t below(std::uint64_t n) { return mix64(state += 0x9e3779b97f4a7c15ULL) % n; }
  TimeNs now() const { return job.boxes[0].now; }

  // Often of more pages than an even one has, and now and then one that does not fit.
  Plan any_plan(const members::PlanRequest& request) {
    Plan plan = members::even_plan(request);
    const auto tables = 1 + below(3);
    for (std::size_t t = 1; t < tables; ++t) plan.tables.push_back(plan.tables[0]);
    for (RouteTable& table : plan.tables)
      for (int i = 0; i < 20; ++i)
        table[below(kPlanGroups)] = {.box = static_cast<BoxIndex>(below(plan.boxes.size())),
                                     .direct = below(2) == 0};
    for (std::uint8_t& table : plan.table_of) table = static_cast<std::uint8_t>(below(tables));
    if (below(10) == 0) plan.servers[0] = 9;
    return plan;
  }

  void deliver(std::size_t client, std::size_t box, const Sent& s) {
    Client& c = clients[client];
    const bool home_said = box == c.joins_at;
    if (s.type() == PacketType::kChallenge) {
      const auto said = wire_at<ChallengePayload>(s.payload.data());
      if (said.nonce.host() == c.nonce) job.boxes[box].challenges[c.instance] = said.challenge;
    }
    if (c.epoch == 0 || home_said) return hear_home(c, box, s);
    hear_box(c, box, s);
  }

  void hear_home(Client& c, std::size_t box, const Sent& s) {
    if (s.type() == PacketType::kJoined && auth::verify(c.job_key(), s.header, s.payload) &&
        s.joined().nonce.host() == c.nonce) {
      const JoinStatus status = s.status();
      if (status == JoinStatus::kElsewhere) c.joins_at = static_cast<std::uint8_t>(s.text().back()) - 1U;
      if (status == JoinStatus::kRefused) return c.program_starts_again(now());
      c.home_heard = now();
      if (status != JoinStatus::kRunning) return;
      const std::uint32_t before = c.epoch;
      const GenerationRecord record = c.last;
      c.take_home({s});
      if (c.last != record && !c.serves()) progress = c.next;
      if (c.epoch != before) {
        c.gone = c.forgot = 0;
        c.heard.clear();
        ++epochs;
      }
      return;
    }
    if (c.epoch == 0 || s.header.epoch.host() != c.epoch || box != c.joins_at) return;
    const bool believed = c.believes(s);
    if (believed && s.type() == PacketType::kHeartbeat) c.home_heard = now();
    if (believed && s.type() == PacketType::kAbort) c.program_starts_again(now());
    const bool rejected =
        s.type() == PacketType::kReject && (believed || auth::verify(c.job_key(), s.header, s.payload));
    if (rejected) c.out_of_epoch(now());
  }

  void hear_page(Client& c, const Sent& s) {
    if (s.type() != PacketType::kPlan || c.plan || !auth::verify(c.job_key(), s.header, s.payload)) return;
    const auto fixed = wire_at<PlanPayload>(s.payload.data());
    if (fixed.plan != c.planned.plan || c.plan_bytes.size() != fixed.page * kPlanPageBytes) return;
    const auto page = std::span(s.payload).subspan(sizeof fixed + fixed.name_bytes, fixed.page_bytes.host());
    c.plan_bytes.insert(c.plan_bytes.end(), page.begin(), page.end());
    if (c.plan_bytes.size() < c.planned.bytes.host()) return;
    ASSERT_EQ(auth::plan_id(c.plan_bytes), c.planned.plan);
    c.plan = read_plan(c.plan_bytes);
    ASSERT_TRUE(c.plan) << "the home tells no plan that is none";
  }

  void hear_box(Client& c, std::size_t box, const Sent& s) {
    const BoxIndex index = c.plan ? c.index_of(box) : PlannedText::kNoBox;
    if (index == PlannedText::kNoBox) return;
    const std::uint64_t bit = std::uint64_t{1} << index;
    Seat& seat = c.seats[box];
    const bool job_said = auth::verify(c.job_key(), s.header, s.payload);
    if (s.type() == PacketType::kJoined && job_said && s.joined().nonce.host() == seat.nonce) {
      c.heard[box] = now();
      if (s.status() == JoinStatus::kRefused) c.gone |= bit;
    }
    c.take_box(box, {s});
    if (s.header.epoch.host() != c.epoch || !seat.running) return;
    const bool believed = auth::verify(c.key_of(box), s.header, s.payload);
    if (believed && s.type() == PacketType::kHeartbeat) c.heard[box] = now();
    if (s.type() == PacketType::kReject && (believed || job_said)) {
      seat.running = false;
      c.forgot |= bit;
    }
  }

  void say(std::size_t client, std::size_t box, const Bytes& bytes, std::uint64_t loss_percent) {
    Client& c = clients[client];
    captured.emplace_back(box, std::pair(Peer(c), bytes));
    if (captured.size() > 400) captured.erase(captured.begin(), captured.begin() + 100);
    if (below(100) < loss_percent || cut.contains({client, box})) return;
    give(box, c.binding, bytes);
  }

  // Each packet is counted once.
  void give(std::size_t box, const jobs::Binding& from, const Bytes& bytes) {
    job.boxes[box].members->receive(bytes, from, now());
    ++counted[box];
    const members::MembershipCounters& all = job.boxes[box].members->counters();
    std::uint64_t sum = 0;
    for (const std::uint64_t n : all.drops) sum += n;
    for (const std::uint64_t n : all.accepted) sum += n;
    ASSERT_EQ(sum, counted[box]) << "type " << int(wire_at<Header>(bytes.data()).type);
  }

  void client_speaks(std::size_t client, std::uint64_t loss_percent) {
    Client& c = clients[client];
    if (c.last != GenerationRecord{} && !c.serves()) c.lowest = c.next = progress;
    const std::uint64_t what = below(100);
    if (now() > c.home_heard + 12 * kSecond) c.program_starts_again(now());
    // Whoever hears nothing asks any box of the job, as a client with several addresses does.
    if (c.epoch == 0 && what < 5) c.joins_at = below(kBoxes);
    if (c.epoch == 0 || what < 2)
      return say(client, c.joins_at, job.boxes[c.joins_at].with_challenge(c, c.join()), loss_percent);
    if (what < 40 || c.gone != 0 || c.forgot != 0) say(client, c.joins_at, c.heartbeat(), loss_percent);
    if (c.gone != 0 || c.forgot != 0) say(client, c.joins_at, c.lost(c.gone, c.forgot), loss_percent);
    if (!c.plan) {
      const auto page = static_cast<std::uint32_t>(c.plan_bytes.size() / kPlanPageBytes);
      return say(client, c.joins_at, c.wish(page), loss_percent);
    }
    for (std::size_t box = 0; box < kBoxes; ++box) {
      const BoxIndex index = c.index_of(box);
      if (index == PlannedText::kNoBox || index == c.planned.home) continue;
      if (((c.gone | c.forgot) >> index & 1U) != 0) continue;
      Seat& seat = c.seats[box];
      const TimeNs since = c.heard.try_emplace(box, now()).first->second;
      if (now() > since + kSilence) {
        c.gone |= std::uint64_t{1} << index;
      } else if (seat.running) {
        say(client, box, c.beat(box), loss_percent);
      } else {
        say(client, box, c.enlist(box), loss_percent);
        for (std::uint64_t pages = seat.missing; pages != 0; pages &= pages - 1)
          say(client, box, c.page(static_cast<std::uint32_t>(std::countr_zero(pages))), loss_percent);
      }
    }
  }

  void misfortune() {
    const std::uint64_t what = below(1'000);
    const std::size_t client = below(clients.size());
    const std::size_t box = below(kBoxes);
    Client& c = clients[client];
    if (what < 500 && !captured.empty()) {
      const auto& [at, packet] = captured[below(captured.size())];
      Bytes copy = packet.second;
      if (below(4) == 0) copy[below(copy.size())] ^= static_cast<std::byte>(1U << below(8));
      give(below(8) == 0 ? box : at, packet.first.binding, copy);
    } else if (what < 505) {
      c.restart();
      c.out_of_epoch(now());
      c.seats.clear();
    } else if (what < 515) {
      c.binding.udp_port = static_cast<std::uint16_t>(c.binding.udp_port + 1);
      c.out_of_epoch(now());
    } else if (what < 530) {
      job.boxes[box].members->restart_data_plane(now());
    } else if (what < 540) {
      forget_all(box);
    } else if (what < 550) {
      (void)job.boxes[box].members->replan("resnet", now());
    } else if (what < 553) {
      for (Bench& bench : job.boxes) EXPECT_TRUE(bench.members->set_home("resnet", box_address(box), now()));
      job.home_ = box;
    } else if (what < 570) {
      cut.insert({client, box});
    } else if (what < 600) {
      cut.clear();
    } else if (what < 605) {
      pass(below(12 * kSecond));
    } else if (what < 700) {
      const std::vector<members::SharedDemand> demand{
          {job.ids[box], static_cast<std::uint32_t>(below(50)), below(2) == 0}};
      job.boxes[box].members->rebalance(demand);
    } else if (what < 705 && job.row(box) != nullptr) {
      job.boxes[box].members->report_mismatch(job.ids[box], job.row(box)->epoch, Rank{0}, 2, 16, 32, 1, 1,
                                              now());
    }
  }

  // The owner tells it again who the home is.
  void forget_all(std::size_t box) {
    Bench& bench = job.boxes[box];
    bench.forget_everything();
    ASSERT_TRUE(bench.members->set_home("resnet", box_address(job.home_), now()));
    under_way[box].clear();
    told[box].clear();
    counted[box] = 0;
  }

  void pass(TimeNs time) {
    for (Bench& bench : job.boxes) bench.now += time;
  }

  void take_publications(std::size_t box) {
    Bench& bench = job.boxes[box];
    while (auto publication = bench.members->publication()) {
      ASSERT_GT(publication->version, bench.version);
      bench.version = publication->version;
      bench.table = publication->table;
      under_way[box].push_back(publication->version);
    }
  }

  void cores(std::size_t box, bool all) {
    ASSERT_NO_FATAL_FAILURE(take_publications(box));
    while (!under_way[box].empty() && (all || below(2) == 0)) {
      job.boxes[box].members->quiesced(under_way[box].front(), now());
      under_way[box].pop_front();
      ASSERT_NO_FATAL_FAILURE(take_publications(box));
    }
  }

  void check(std::size_t box) {
    const members::JobStatus s = job.status(box);
    const jobs::NativeJob* const row = job.row(box);
    ASSERT_TRUE(s.boxes);
    ASSERT_EQ(s.boxes->home, job.home_);
    for (const members::BoxStatus& b : s.boxes->boxes) left_out += b.left_out ? 1 : 0;
    const bool active = s.phase == members::JobPhase::kRunning || s.phase == members::JobPhase::kDraining;
    if (s.phase != members::JobPhase::kForming) {
      ASSERT_EQ(row != nullptr, active);
    }
    if (row == nullptr) return;
    ASSERT_EQ(row->epoch, s.epoch);
    ASSERT_EQ(row->slots.count,
              members::own_lines(row->discipline, row->window, row->span, 1, row->elements));
    ASSERT_NE(row->part, nullptr);
    // Who was told of this epoch by the home, and is in the row, is there with its own secret and in its own place;
    // who is not has neither binding nor a secret that anybody was told.
    for (const Client& c : clients) {
      const std::uint32_t server = server_index(Rank{c.rank});
      const jobs::Member& m = c.serves() ? row->server_ranks.at(server) : row->ranks.at(c.rank);
      const bool enlisted =
          c.serves() ? (row->enlisted_servers >> server & 1U) != 0 : (row->enlisted >> c.rank & 1U) != 0;
      ASSERT_EQ(enlisted, m.binding != jobs::Binding{});
      if (c.epoch != raw(row->epoch)) continue;
      ASSERT_EQ(raw(row->result_cookie), c.result_cookie);
      ASSERT_EQ(raw(row->generation), c.last.generation.host());
      ASSERT_EQ(row->window, c.window);
      ASSERT_EQ(raw(m.cookie) == c.cookie, enlisted);
      if (!c.plan || c.index_of(box) == PlannedText::kNoBox) continue;
      ASSERT_EQ(row->part->through, jobs::part_of(*c.plan, c.index_of(box)).through);
    }
  }
  // No worker is enlisted before all servers are.
  void check_told(const Client& c, std::size_t box, const Sent& s) {
    if (c.serves() || box == job.home_ || s.type() != PacketType::kJoined ||
        s.status() != JoinStatus::kRunning)
      return;
    const jobs::NativeJob* const row = job.row(box);
    if (row == nullptr || row->epoch != s.header.epoch_id()) return;
    ASSERT_EQ(row->enlisted_servers, 0b11U);
  }

  void check_what_is_told(std::size_t box) {
    Bench& bench = job.boxes[box];
    for (const JobId id : bench.members->changed())
      told[box].insert_or_assign(id, *bench.members->status(id, now()));
    for (const members::JobStatus& s : bench.members->status(now())) {
      members::JobStatus known = told[box].at(s.id);
      known.live = s.live;
      known.cap = s.cap;
      for (std::size_t r = 0; r < s.ranks.size(); ++r) {
        known.ranks.at(r).next = s.ranks[r].next;
        known.ranks.at(r).last_seen = s.ranks[r].last_seen;
      }
      for (std::size_t r = 0; r < s.servers.size(); ++r)
        known.servers.at(r).last_seen = s.servers[r].last_seen;
      ASSERT_EQ(known, s) << s.name << " at box " << box;
    }
  }

  void step(std::uint64_t loss_percent, bool misfortunes) {
    pass(below(200 * kMillisecond));
    for (std::size_t box = 0; box < kBoxes; ++box) {
      job.boxes[box].members->tick(now());
      ASSERT_GT(job.boxes[box].members->deadline(), now());
      ASSERT_NO_FATAL_FAILURE(check_what_is_told(box));
    }
    for (std::size_t client = 0; client < clients.size(); ++client)
      ASSERT_NO_FATAL_FAILURE(client_speaks(client, loss_percent));
    if (misfortunes) {
      ASSERT_NO_FATAL_FAILURE(misfortune());
    }
    for (std::size_t box = 0; box < kBoxes; ++box) {
      ASSERT_NO_FATAL_FAILURE(cores(box, !misfortunes));
      ASSERT_NO_FATAL_FAILURE(check(box));
      for (const Sent& s : job.boxes[box].answers()) {
        for (std::size_t client = 0; client < clients.size(); ++client) {
          if (s.to != clients[client].binding) continue;
          ASSERT_NO_FATAL_FAILURE(check_told(clients[client], box, s));
          if (below(100) < loss_percent || cut.contains({client, box})) continue;
          ASSERT_NO_FATAL_FAILURE(hear_page(clients[client], s));
          deliver(client, box, s);
        }
      }
    }
  }

  // Runs, and everybody is enlisted wherever its plan says.
  [[nodiscard]] bool whole() {
    if (job.status(job.home_).phase != members::JobPhase::kRunning) return false;
    for (const Client& c : clients) {
      if (!c.plan || Epoch{c.epoch} != job.status(job.home_).epoch) return false;
      for (std::size_t box = 0; box < kBoxes; ++box) {
        const BoxIndex index = c.index_of(box);
        if (index == PlannedText::kNoBox || index == c.planned.home) continue;
        if (!c.seats.contains(box) || !c.seats.at(box).running) return false;
        if (job.row(box) == nullptr || job.row(box)->epoch != Epoch{c.epoch}) return false;
      }
    }
    return true;
  }
};

constexpr std::uint64_t kShare = TALLY_SEED_SHARE;  // 1 of so many seeds

TEST(MembersBoxesRandom, InvariantsHoldAndTheJobHeals) {
  std::uint64_t epochs = 0;
  std::uint64_t left_out = 0;
  std::uint64_t forgotten = 0;
  std::uint64_t whole = 0;
  for (std::uint64_t seed = 1; seed <= 24 / kShare; ++seed) {
    SCOPED_TRACE(seed);
    Life life(seed);
    for (int i = 0; i < 600; ++i) {
      ASSERT_NO_FATAL_FAILURE(life.step(seed % 2 == 0 ? 20 : 3, true));
      whole += life.whole() ? 1 : 0;
    }
    life.cut.clear();
    epochs += life.epochs;
    left_out += life.left_out;
    for (const Bench& bench : life.job.boxes)
      forgotten += bench.members->counters().of(members::MembershipDrop::kEpoch);
    // What was lost before all was well has been said by then; the owner asks for a plan with all boxes again.
    for (int i = 0; i < 300; ++i) ASSERT_NO_FATAL_FAILURE(life.step(0, false));
    ASSERT_TRUE(life.job.boxes[life.job.home_].members->replan("resnet", life.now()));
    for (int i = 0; i < 300 && !life.whole(); ++i) ASSERT_NO_FATAL_FAILURE(life.step(0, false));
    const members::JobStatus s = life.job.status(life.job.home_);
    EXPECT_TRUE(life.whole()) << members::name_of(s.phase) << ' ' << s.reason;
    for (const members::BoxStatus& box : s.boxes->boxes) EXPECT_TRUE(box.planned && !box.left_out);
  }
  const std::uint64_t lives = 24 / kShare;
  EXPECT_GT(epochs, 20 * lives);
  EXPECT_GT(whole, 60 * lives) << "of 600 steps";
  EXPECT_TRUE(left_out > lives && forgotten > lives) << left_out << ' ' << forgotten;
}

}  // namespace
}  // namespace tally::members_test

#include "table_life.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace tally::sim {

using kv::Failure;
using kv::Key;

namespace {

// All of a worker's requests in a round have been answered long before; but leases of 2 s have to end first.
constexpr TimeNs kTableBound = 30 * kSecond;
// The box's others may have gone meanwhile: the program that cannot join ends.
constexpr TimeNs kJoinPatience = 10 * kSecond;

}  // namespace

TablePlan table_plan_of(std::uint64_t seed, const Scenario& scenario) {
  Rng rng(mix64(seed + 85));
  TablePlan plan;
  plan.options.width = rng.chance(0.5) ? 1 : rng.between(2, 20);
  plan.options.most_hot = rng.chance(0.1) ? 0 : rng.between(1, 16);
  plan.options.every = 16;
  plan.options.number = kTableNumber;
  plan.workers = static_cast<std::uint32_t>(scenario.workers.size());
  plan.keys = static_cast<std::uint32_t>(rng.between(4, 60));
  plan.shift_every = static_cast<std::uint32_t>(rng.between(4, 30));
  plan.servers = static_cast<std::uint32_t>(rng.between(1, 3));
  plan.rounds = rng.between(4, 60);
  plan.most_rows = rng.chance(0.5) ? 1'000 : rng.between(1, 8);
  plan.delay = rng.between(1, rng.chance(0.2) ? 50'000 : 2'000) * kMicrosecond;
  if (!rng.chance(0.5)) return plan;
  const auto losses = rng.between(1, 2);
  for (std::uint64_t i = 0; i < losses; ++i) {
    using End = TablePlan::End;
    const End what = rng.chance(0.4)   ? End::kServerIsLost
                     : rng.chance(0.7) ? End::kWorkerIsLost
                                       : End::kWorkerLeaves;
    plan.losses.push_back(
        {.when = rng.below(scenario.heal_at),
         .what = what,
         .who = rng.below(what == End::kServerIsLost ? plan.servers : scenario.workers.size())});
  }
  return plan;
}

TableLife::TableLife(std::uint64_t seed)
    : seed_(seed),
      scenario_(tables_scenario_of(seed)),
      plan_(table_plan_of(seed, scenario_)),
      simulation_(scenario_),
      rng_(mix64(seed + 87)),
      up_(scenario_.workers.size(), std::vector<Way>(plan_.servers)),
      down_(up_) {
  for (std::uint32_t i = 0; i < plan_.servers; ++i)
    servers_.push_back(
        std::make_unique<Server>(Server{{kTableNumber, static_cast<int>(scenario_.workers.size())}}));
  for (std::size_t i = 0; i < scenario_.workers.size(); ++i)
    members_.push_back(std::make_unique<TableMember>(static_cast<TableWorld&>(*this), i));
  truth_.emplace_back(plan_.keys * plan_.options.width);
}

// Most keys of a batch are of the group that is much used in these rounds.
TableBatch TableLife::batch(std::uint64_t round, std::size_t rank) const {
  Rng rng(mix64(mix64(seed_ + 89) + round * 64 + rank));
  const std::uint64_t group = round / plan_.shift_every;
  std::set<Key> keys;
  const auto draws = rng.below(12);
  for (std::uint64_t i = 0; i < draws; ++i)
    keys.insert(rng.chance(0.8) ? (group * 5 + rng.below(6)) % plan_.keys : rng.below(plan_.keys));
  TableBatch out{{keys.begin(), keys.end()}, {}};
  for (std::size_t i = 0; i < out.keys.size() * plan_.options.width; ++i)
    out.gradients.push_back(static_cast<float>(rng.between(1, 9)));
  return out;
}

const std::vector<float>& TableLife::truth(std::uint64_t rounds) {
  const std::size_t width = plan_.options.width;
  while (truth_.size() <= rounds) {
    std::vector<float> next = truth_.back();
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      const TableBatch pushed = batch(truth_.size() - 1, rank);
      for (std::size_t i = 0; i < pushed.gradients.size(); ++i)
        next[pushed.keys[i / width] * width + i % width] += pushed.gradients[i];
    }
    truth_.push_back(std::move(next));
  }
  return truth_[rounds];
}

bool TableLife::is_row(std::uint64_t rounds, Key key, const float* row) {
  const std::size_t width = plan_.options.width;
  return std::equal(row, row + width, truth(rounds).begin() + static_cast<std::ptrdiff_t>(key * width));
}

std::size_t TableLife::server_of(Key key) const noexcept { return key * plan_.servers / plan_.keys; }

TimeNs TableLife::arrival(Way& way) {
  const TimeNs now = simulation_.schedule().now();
  return way.last = std::max(way.last, now + kMicrosecond + rng_.below(plan_.delay));
}

void TableLife::to_server(std::size_t worker, std::size_t server, const kv::SArray<std::byte>& bytes,
                          int number) {
  simulation_.schedule().at(arrival(up_[worker][server]), [this, worker, server, bytes, number] {
    Server& at = *servers_[server];
    if (!at.alive || members_[worker]->gone()) return;
    kv::KVMeta from;
    from.sender = 9 + 2 * static_cast<int>(worker);
    from.timestamp = number;
    std::vector<kv::TableAnswer> answers;
    at.state.take(from, kv::decode_table_message(bytes), answers);
    to_worker(server, std::move(answers));
  });
}

void TableLife::to_worker(std::size_t server, std::vector<kv::TableAnswer> answers) {
  for (kv::TableAnswer& answer : answers) {
    const auto worker = static_cast<std::size_t>(answer.to.rank());
    const TimeNs when = arrival(down_[worker][server]);
    simulation_.schedule().at(when, [this, worker, server, when, a = std::move(answer)]() mutable {
      if (when <= servers_[server]->cut) members_[worker]->hear(server, std::move(a));
    });
  }
}

void TableLife::lose(const TablePlan::Loss& loss) {
  // Who is lost before the others are there is no loss of a table's.
  const auto joins = [](const auto& member) { return !member->begun(); };
  if (std::any_of(members_.begin(), members_.end(), joins))
    return simulation_.schedule().after(5 * kMillisecond, [this, loss] { lose(loss); });
  switch (loss.what) {
    case TablePlan::End::kServerIsLost:
      return lose_server(loss.who);
    case TablePlan::End::kWorkerIsLost:
      return lose_worker(loss.who);
    case TablePlan::End::kWorkerLeaves:
      excused_ = true;
      return members_[loss.who]->leave();
  }
}

// What it sent just before arrives at some servers and not at others, which all notice that it is lost.
void TableLife::lose_worker(std::size_t rank) {
  if (members_[rank]->gone() || members_[rank]->done()) return;
  excused_ = true;
  ++report_.workers_lost;
  simulation_.worker(rank).crash();
  members_[rank]->crash();
  for (std::size_t server = 0; server < servers_.size(); ++server) {
    simulation_.schedule().at(arrival(up_[rank][server]), [this, rank, server] {
      std::vector<kv::TableAnswer> answers;
      if (!servers_[server]->alive) return;
      servers_[server]->state.lose(static_cast<int>(rank), answers);
      to_worker(server, std::move(answers));
    });
  }
}

void TableLife::lose_server(std::size_t server) {
  Server& lost = *servers_[server];
  if (!lost.alive) return;
  excused_ = true;
  ++report_.servers_lost;
  lost.alive = false;
  lost.cut = simulation_.schedule().now() + rng_.below(plan_.delay);
  for (std::size_t rank = 0; rank < members_.size(); ++rank)
    simulation_.schedule().at(arrival(down_[rank][server]),
                              [this, rank, server] { members_[rank]->lose_server(server); });
}

// The first failure says why; what others hear of it follows.
void TableLife::over(const Failure& why, bool by_box) {
  report_.over = true;
  // A lease may end by losses alone, and a job that forms be refused by who forges; without them nothing takes it away.
  const Faults& faults = scenario_.faults;
  excused_ |=
      by_box && (!scenario_.blows.empty() || faults.loss > 0 || faults.corrupt > 0 || faults.forge > 0);
  if (!excused_ || why.code() == ErrorCode::kCorrupt)
    simulation_.alarm(std::string("a table is over, and nothing was lost: ") + why.what());
}

bool TableLife::done() const {
  return std::all_of(members_.begin(), members_.end(), [](const auto& member) { return member->done(); });
}

// docs/kv.md, Losses: of hot rows all that is committed and nothing else, of cold ones perhaps the round that failed, too.
void TableLife::check_at_the_end() {
  std::uint64_t committed = 0;
  bool over = false;
  std::set<std::uint64_t> brought;  // rounds of rows that somebody brought who was lost while it left
  for (const auto& member : members_) {
    if (member->gone() && member->over()) brought.insert(member->rounds());
    if (member->gone()) continue;
    committed = std::max(committed, member->rounds());
    over |= member->over();
  }
  report_.rounds = committed;
  std::set<Key> hot;
  for (const auto& member : members_)
    if (!member->gone() && member->rounds() == committed)
      hot.insert(member->brought().begin(), member->brought().end());
  const std::size_t width = plan_.options.width;
  for (const auto& member : members_) {
    for (const auto& [key, row] : member->read()) {
      if (!servers_[server_of(key)]->alive) continue;
      const bool is_later = hot.contains(key) ? brought.contains(committed + 1) : over;
      if (is_row(committed, key, row.data()) || (is_later && is_row(committed + 1, key, row.data())))
        continue;
      simulation_.alarm(member->describe() + ": key " + std::to_string(key) +
                        (hot.contains(key) ? ", hot," : "") + " begins with " + std::to_string(row.front()) +
                        " at its server in the end, and after the " + std::to_string(committed) +
                        " rounds that are committed with " + std::to_string(truth(committed)[key * width]));
    }
  }
}

TableReport TableLife::run() {
  simulation_.start();
  for (const PlannedBlow& blow : scenario_.blows)
    simulation_.schedule().at(blow.when, [this, blow] { simulation_.strike(blow); });
  for (const TablePlan::Loss& loss : plan_.losses)
    simulation_.schedule().at(loss.when, [this, loss] { lose(loss); });
  simulation_.schedule().at(scenario_.heal_at, [this] { simulation_.network().set_faults({}); });
  simulation_.schedule().at(scenario_.heal_at + kJoinPatience, [this] {
    for (std::size_t rank = 0; rank < members_.size(); ++rank)
      if (!members_[rank]->begun()) lose_worker(rank);
  });
  const auto look = [this] {
    for (const auto& member : members_) member->look();
    return done();
  };
  if (!simulation_.run_while_not(look, scenario_.heal_at + kTableBound) && simulation_.broken().empty()) {
    for (const auto& member : members_)
      if (!member->done())
        simulation_.alarm("not done " + std::to_string(kTableBound / kSecond) +
                          " s after healing: " + member->describe());
  }
  if (simulation_.broken().empty()) check_at_the_end();
  for (const auto& member : members_) {
    report_.sets = std::max(report_.sets, member->sets());
    report_.moves += member->moves();
    report_.right += member->rounds();
  }
  report_.failed = report_.over ? 1 : 0;
  report_.broken = simulation_.broken();
  report_.ended = simulation_.schedule().now();
  report_.took = report_.ended > scenario_.heal_at ? report_.ended - scenario_.heal_at : 0;
  report_.events = simulation_.events();
  report_.frames = simulation_.network().sent();
  report_.forged = simulation_.network().forged();
  return report_;
}

}  // namespace tally::sim

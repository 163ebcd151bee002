#pragma once
// A worker of a table in virtual time: what its program does, and what the library's threads do for it
// (host/kv/table_worker.cc), step by step, each of which says what comes behind it, as nothing here may wait.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/sparse_rows.h"
#include "kv/hot_rows.h"
#include "kv/table_state.h"
#include "simulation.h"

namespace tally::sim {

inline constexpr int kTableNumber = 3;

// What a seed means beside tables_scenario_of(seed).
struct TablePlan {
  kv::TableOptions options{};
  std::uint32_t workers = 0;
  std::uint32_t keys = 0;
  std::uint32_t shift_every = 0;  // rounds, from one group of much used keys to the next
  std::uint32_t servers = 0;
  std::uint64_t rounds = 0;
  std::size_t most_rows = 0;  // in a message that moves some
  TimeNs delay = 0;           // of a connection, at most
  enum class End : std::uint8_t { kWorkerIsLost, kServerIsLost, kWorkerLeaves };
  struct Loss {
    TimeNs when = 0;
    End what{};
    std::size_t who = 0;
  };
  std::vector<Loss> losses{};
};
// What a worker pushes in a round; whole numbers, so that sums are exact.
struct TableBatch {
  std::vector<kv::Key> keys{};
  std::vector<float> gradients{};
};

// What is around a worker.
class TableWorld {
 public:
  TableWorld() = default;
  TableWorld(const TableWorld&) = delete;
  TableWorld& operator=(const TableWorld&) = delete;
  virtual ~TableWorld() = default;

  [[nodiscard]] virtual Simulation& simulation() noexcept = 0;
  [[nodiscard]] virtual const TablePlan& plan() const noexcept = 0;
  [[nodiscard]] virtual TableBatch batch(std::uint64_t round, std::size_t rank) const = 0;
  // Rows of all keys after so many rounds; and whether a row is as it is then.
  [[nodiscard]] virtual const std::vector<float>& truth(std::uint64_t rounds) = 0;
  [[nodiscard]] virtual bool is_row(std::uint64_t rounds, kv::Key key, const float* row) = 0;
  [[nodiscard]] virtual std::size_t server_of(kv::Key key) const noexcept = 0;
  // number: of the call that waits for the answer.
  virtual void to_server(std::size_t worker, std::size_t server, const kv::SArray<std::byte>& bytes,
                         int number) = 0;
  // A table is over; by_box: since a sum failed.
  virtual void over(const kv::Failure& why, bool by_box) = 0;
};

class TableMember {
 public:
  TableMember(TableWorld& world, std::size_t rank)
      : world_(world), plan_(world.plan()), rank_(rank), width_(plan_.options.width) {}

  // Everything has an end: it has closed its table, or left it, and has read what is at the servers.
  [[nodiscard]] bool done() const noexcept { return gone_ || has_read_; }
  [[nodiscard]] bool gone() const noexcept { return gone_; }
  [[nodiscard]] bool begun() const noexcept { return begun_; }
  [[nodiscard]] bool over() const noexcept { return over_; }
  [[nodiscard]] std::uint64_t rounds() const noexcept { return rounds_; }
  [[nodiscard]] std::uint64_t sets() const noexcept { return sets_; }
  [[nodiscard]] std::uint64_t moves() const noexcept { return moves_; }
  // By key, of servers that are there; and the hot keys whose rows it brought when it left.
  [[nodiscard]] const std::map<kv::Key, std::vector<float>>& read() const noexcept { return read_; }
  [[nodiscard]] const std::set<kv::Key>& brought() const noexcept { return brought_; }
  [[nodiscard]] std::string describe() const {
    return "worker " + std::to_string(rank_) + " after " + std::to_string(rounds_) + " rounds, " + step_;
  }

  void look() {
    if (gone_) return;
    WorkerNode& node = world_.simulation().worker(rank_);
    if (!begun_) {
      if (!node.engine_running() && !node.closed()) return;
      begun_ = true;
      pull();
    }
    if (sums_ && !box_done_) look_at_sums(node);
  }

  // Its program ends the table before the next round.
  void leave() noexcept { leaves_ = true; }

  void crash() {
    gone_ = true;
    flight_ = {};
  }

  void hear(std::size_t server, kv::TableAnswer answer) {
    if (gone_ || answer.to.timestamp != flight_.number) return;
    if (answer.failure) return fail(*answer.failure, false);
    flight_.replies[server] = std::move(answer.rows);
    arrived();
  }

  void lose_server(std::size_t server) {
    if (gone_) return;
    lost_.insert(server);
    if (reads_) return begin_reading();
    if (over_ && server_left_ != server) return;
    fail(kv::Failure(ErrorCode::kSystem, "server " + std::to_string(server) + " is lost"), false);
  }

 private:
  // What a call waits for.
  struct Flight {
    int number = 0;
    std::size_t left = 0;
    std::map<std::size_t, std::vector<float>> replies{};  // by server
    std::function<void()> then{};
  };
  struct Part {
    std::size_t server = 0;
    kv::SArray<std::byte> bytes{};
  };

  void fly(const std::vector<Part>& parts, std::size_t beside, std::function<void()> then) {
    flight_ = {++flights_, parts.size() + beside, {}, std::move(then)};
    const int number = flight_.number;
    for (const Part& part : parts) world_.to_server(rank_, part.server, part.bytes, number);
    if (flight_.left == 0) finish();
  }
  void arrived() {
    if (--flight_.left == 0) finish();
  }
  void finish() {
    const auto then = std::exchange(flight_.then, nullptr);
    if (then) then();
  }

  [[nodiscard]] kv::TableMessage message(kv::TableAct act) const {
    kv::TableMessage out;
    out.act = act;
    out.table = kTableNumber;
    out.life = reads_ ? 2 : 1;
    out.terms = {static_cast<std::uint32_t>(width_), plan_.options.rule, plan_.options.rate, 0,
                 plan_.options.every};
    if (!reads_) {
      out.terms.most_hot = static_cast<std::uint32_t>(*plan_.options.most_hot);
      out.terms.hot = has_box();
      out.rounds = rounds_;
      out.set = hot_ ? hot_->set().number() : 0;
    }
    return out;
  }
  [[nodiscard]] bool has_box() const noexcept { return *plan_.options.most_hot != 0; }

  // Each server's part of the keys; to_all: of a server without keys, too.
  [[nodiscard]] std::vector<Part> parts_of(const kv::TableMessage& whole, bool to_all) const {
    std::vector<Part> parts;
    std::size_t first = 0;
    for (std::size_t server = 0; server < plan_.servers; ++server) {
      std::size_t end = first;
      while (end < whole.keys.size() && world_.server_of(whole.keys[end]) == server) ++end;
      kv::TableMessage one = whole;
      one.keys = whole.keys.subspan(first, end - first);
      if (!whole.rows.empty()) one.rows = whole.rows.subspan(first * width_, one.keys.size() * width_);
      first = end;
      if (one.keys.empty() && !to_all) continue;
      parts.push_back({server, encode(one)});
    }
    return parts;
  }

  using Rows = std::vector<float>;
  // So many rows at a time, each answered before the next are sent.
  void exchange(kv::TableAct act, std::vector<kv::Key> keys, Rows rows, std::function<void(Rows)> then) {
    struct Exchange {
      std::vector<kv::Key> keys;
      Rows rows, got;
      std::function<void(Rows)> then;
    };
    const auto all =
        std::make_shared<Exchange>(Exchange{std::move(keys), std::move(rows), {}, std::move(then)});
    go_on(act, all, 0);
  }
  template <class Exchange>
  void go_on(kv::TableAct act, const std::shared_ptr<Exchange>& all, std::size_t first) {
    if (first == all->keys.size()) return all->then(std::move(all->got));
    const std::size_t count = std::min(plan_.most_rows, all->keys.size() - first);
    kv::TableMessage some = message(act);
    some.keys = std::span(all->keys).subspan(first, count);
    if (!all->rows.empty()) some.rows = std::span(all->rows).subspan(first * width_, count * width_);
    fly(parts_of(some, false), 0, [this, act, all, end = first + count] {
      for (const auto& [server, rows] : flight_.replies)
        all->got.insert(all->got.end(), rows.begin(), rows.end());
      go_on(act, all, end);
    });
  }

  // --- A round.

  void pull() {
    if (leaves_)
      return fail(kv::Failure(ErrorCode::kClosed, "its program ended the table without close()"), false);
    step_ = "pulls";
    if (rounds_ == plan_.rounds) return close();
    const TableBatch mine = world_.batch(rounds_, rank_);
    std::vector<kv::Key> cold;
    for (const kv::Key key : mine.keys) {
      if (const float* const row = hot_ ? hot_->find(key) : nullptr) {
        check_row(key, row, "a hot row");
      } else {
        cold.push_back(key);
      }
    }
    exchange(kv::TableAct::kPull, cold, {}, [this, cold](const Rows& rows) {
      if (rows.size() != cold.size() * width_)
        return world_.simulation().alarm(describe() + ": too few rows");
      for (std::size_t i = 0; i < cold.size(); ++i)
        check_row(cold[i], rows.data() + i * width_, "a pulled row");
      push();
    });
  }
  void check_row(kv::Key key, const float* row, const char* what) {
    if (!world_.is_row(rounds_, key, row))
      world_.simulation().alarm(describe() + ": " + what + " is wrong, of key " + std::to_string(key) + ": " +
                                std::to_string(*row) + ", not " +
                                std::to_string(world_.truth(rounds_)[key * width_]));
  }

  void push() {
    step_ = "pushes";
    const TableBatch mine = world_.batch(rounds_, rank_);
    kv::KeyedRows cold{mine.keys, mine.gradients};
    if (has_box() && !hot_) {
      auto hot = kv::HotRows::create(plan_.options, static_cast<std::uint32_t>(rank_), plan_.workers);
      if (!hot) return world_.simulation().alarm("hot rows are refused: " + hot.error().text());
      hot_.emplace(std::move(*hot));
    }
    kv::TableMessage to_servers = message(kv::TableAct::kPush);
    if (hot_) {
      cold = {};
      sums_ = hot_->begin(mine.keys, mine.gradients, cold);
    }
    to_servers.keys = cold.keys;
    to_servers.rows = cold.rows;
    box_done_ = !hot_;
    fly(parts_of(to_servers, true), hot_ ? 1 : 0, [this] { end_round(); });
    if (hot_) sum();
  }

  void sum() {
    WorkerNode& node = world_.simulation().worker(rank_);
    const TimeNs now = world_.simulation().schedule().now();
    collector_ = std::make_unique<engine::RowCollector>();
    words_.reset();
    rows_.reset();
    auto words = node.engine().allreduce(std::span<std::int32_t>(sums_->words), now);
    if (!words) return box_failed(words.error().text());
    words_ = *words;
    if (sums_->table.rows != 0) {
      engine::OperationOptions options;
      options.rows = collector_.get();
      auto rows = node.engine().allreduce(
          ElementType::kFloat32, engine::segments_of(sums_->table, sums_->ids, sums_->values.data(), nullptr),
          now, options);
      if (!rows) return box_failed(rows.error().text());
      rows_ = *rows;
    }
    node.resume_service();
  }
  void box_failed(const std::string& why) {
    box_done_ = true;
    if (over_) return;  // it leaves already
    fail(kv::Failure(ErrorCode::kAborted, "the sum through the box: " + why), true);
  }

  void look_at_sums(WorkerNode& node) {
    const auto* const words = node.outcome(*words_);
    const auto* const rows = rows_ ? node.outcome(*rows_) : words;
    if (words == nullptr || rows == nullptr) return;
    for (const auto* const one : {words, rows})
      if (!*one) return box_failed(one->error().text());
    box_done_ = true;
    if (rows_) collector_->finish(sums_->table, sums_->sums);
    if (!over_) arrived();
  }

  void end_round() {
    if (hot_) {
      if (const auto ended = hot_->end(*sums_); !ended)
        return fail(kv::Failure(ended.error().code, ended.error().text()), false);
    }
    ++rounds_;
    if (!hot_) return pull();
    auto begun = hot_->begin_next();
    if (!begun) return fail(kv::Failure(begun.error().code, begun.error().text()), false);
    if (!*begun) return pull();
    step_ = "moves rows";
    ++sets_;
    moves_ += (*begun)->moves;
    exchange(kv::TableAct::kBring, (*begun)->left.keys, (*begun)->left.rows,
             [this, came = (*begun)->came](const Rows&) {
               exchange(kv::TableAct::kFetch, came, {}, [this, came](Rows rows) {
                 if (rows.size() != came.size() * width_)
                   return world_.simulation().alarm(describe() + ": too few rows");
                 hot_->take({came, std::move(rows)});
                 pull();
               });
             });
  }

  // --- Ends.

  void close() {
    step_ = "closes";
    kv::KeyedRows mine = hot_ ? hot_->part() : kv::KeyedRows{};
    moves_ += mine.keys.size();
    exchange(kv::TableAct::kBring, mine.keys, mine.rows, [this](const Rows&) {
      fly(parts_of(message(kv::TableAct::kClose), true), 0, [this] {
        hot_.reset();
        read_all();
      });
    });
  }

  void fail(const kv::Failure& why, bool by_box) {
    if (reads_) return world_.simulation().alarm(describe() + ": " + why.what());
    if (over_) return next_farewell(true);
    over_ = true;
    step_ = "leaves";
    world_.over(why, by_box);
    kv::HotRows::Leftover leftover = hot_ ? hot_->leftover() : kv::HotRows::Leftover{};
    // A row that has left is brought, too, in case it has not arrived; but it may be in a round at its server by now.
    std::copy_if(leftover.rows.keys.begin(), leftover.rows.keys.end(),
                 std::inserter(brought_, brought_.end()),
                 [&](kv::Key key) { return hot_->set().id_of(key).has_value(); });
    for (std::size_t server = 0; server < plan_.servers; ++server) {
      std::vector<std::size_t> here;
      for (std::size_t i = 0; i < leftover.rows.keys.size(); ++i)
        if (world_.server_of(leftover.rows.keys[i]) == server) here.push_back(i);
      for (std::size_t first = 0; first < here.size(); first += plan_.most_rows) {
        const std::size_t count = std::min(plan_.most_rows, here.size() - first);
        kv::TableMessage bring = message(kv::TableAct::kBring);
        bring.set = leftover.set;
        bring.keys = std::span(leftover.rows.keys).subspan(here[first], count);
        bring.rows = std::span(leftover.rows.rows).subspan(here[first] * width_, count * width_);
        farewells_.push_back({{server, encode(bring)}, false});
      }
      kv::TableMessage last = message(kv::TableAct::kLeave);
      last.set = leftover.set;
      last.text = why.what();
      farewells_.push_back({{server, encode(last)}, true});
    }
    next_farewell(false);
  }

  // Each answered before the next. refused: the one before, so no more rows are for its server.
  void next_farewell(bool refused) {
    if (refused) {
      while (!farewells_.empty() && farewells_.front().part.server == server_left_ &&
             !farewells_.front().is_last)
        farewells_.pop_front();
    }
    while (!farewells_.empty() && lost_.contains(farewells_.front().part.server)) farewells_.pop_front();
    if (farewells_.empty()) {
      WorkerNode& node = world_.simulation().worker(rank_);
      if (has_box() && !node.closed()) {
        node.engine().abort("the table is over at worker " + std::to_string(rank_),
                            world_.simulation().schedule().now());
        node.resume_service();
      }
      box_done_ = true;
      return read_all();
    }
    const Part part = farewells_.front().part;
    farewells_.pop_front();
    server_left_ = part.server;
    fly({part}, 0, [this] { next_farewell(false); });
  }

  // As a table without hot keys, of which it has not pushed anything.
  void read_all() {
    reads_ = true;
    begin_reading();
  }
  void begin_reading() {
    step_ = "reads what is there";
    read_.clear();
    std::vector<kv::Key> keys;
    for (kv::Key key = 0; key < plan_.keys; ++key)
      if (!lost_.contains(world_.server_of(key))) keys.push_back(key);
    exchange(kv::TableAct::kPull, keys, {}, [this, keys](const Rows& rows) {
      for (std::size_t i = 0; i < keys.size(); ++i)
        read_[keys[i]] = {rows.begin() + static_cast<std::ptrdiff_t>(i * width_),
                          rows.begin() + static_cast<std::ptrdiff_t>((i + 1) * width_)};
      has_read_ = true;
      step_ = "has read";
    });
  }

  TableWorld& world_;
  const TablePlan& plan_;
  const std::size_t rank_;
  const std::size_t width_;
  const char* step_ = "joins";
  bool begun_ = false, leaves_ = false, over_ = false, gone_ = false, reads_ = false, has_read_ = false;
  std::uint64_t rounds_ = 0, sets_ = 0, moves_ = 0;
  std::optional<kv::HotRows> hot_{};
  int flights_ = 0;
  Flight flight_{};
  std::shared_ptr<kv::HotSums> sums_{};
  std::unique_ptr<engine::RowCollector> collector_{};
  std::optional<engine::OperationId> words_{}, rows_{};
  bool box_done_ = true;
  std::set<std::size_t> lost_{};
  struct Farewell {
    Part part{};
    bool is_last = false;
  };
  std::deque<Farewell> farewells_{};
  std::size_t server_left_ = 0;
  std::set<kv::Key> brought_{};
  std::map<kv::Key, std::vector<float>> read_{};
};

}  // namespace tally::sim

#include "kv_table_system.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

namespace tally::kv {

class TestBox::Path final : public HotPath {
 public:
  Path(TestBox& box, int rank) : box_(box), rank_(static_cast<std::size_t>(rank)) {}
  void sum_hot(std::shared_ptr<HotSums> what, Done done) override {
    const std::lock_guard lock(box_.mutex_);
    box_.calls_[rank_].push_back({std::move(what), std::move(done)});
    box_.changed_.notify_all();
  }
  void give_up(const std::string& why) override { box_.break_off_after(0, why); }

 private:
  TestBox& box_;
  std::size_t rank_;
};

TestBox::TestBox(int workers) : calls_(static_cast<std::size_t>(workers)) {
  for (int rank = 0; rank < workers; ++rank) paths_.push_back(std::make_shared<Path>(*this, rank));
  thread_ = std::thread([this] { run(); });
}

TestBox::~TestBox() {
  break_off();
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void TestBox::break_off_after(int sums, const std::string& why) {
  const std::lock_guard lock(mutex_);
  left_ = sums;
  why_ = why;
  changed_.notify_all();
}

bool TestBox::complete() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const auto& calls) { return !calls.empty(); });
}

bool TestBox::any() const {
  return std::any_of(calls_.begin(), calls_.end(), [](const auto& calls) { return !calls.empty(); });
}

void TestBox::run() {
  std::mt19937 random(5);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ended_ || complete() || (left_ == 0 && any()); });
    if (left_ == 0) {
      std::vector<Call> failed;
      for (auto& calls : calls_) {
        failed.insert(failed.end(), calls.begin(), calls.end());
        calls.clear();
      }
      const Failure failure(ErrorCode::kUnreachable, why_);
      lock.unlock();
      for (const Call& call : failed) call.done(failure);
      lock.lock();
      if (ended_) return;
      continue;
    }
    std::vector<Call> round;
    for (auto& calls : calls_) {
      round.push_back(std::move(calls.front()));
      calls.pop_front();
    }
    const bool to_one = left_ > 0 && --left_ == 0;
    lock.unlock();
    add(round);
    ++sums_;
    std::shuffle(round.begin() + (to_one ? 1 : 0), round.end(), random);
    for (std::size_t i = 0; i < round.size(); ++i) {
      if (to_one && i != 0) {
        round[i].done(Failure(ErrorCode::kUnreachable, "the box is lost"));
        continue;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      round[i].done(std::nullopt);
    }
    lock.lock();
  }
}

void TestBox::add(std::vector<Call>& round) {
  std::vector<std::int32_t> words(round.front().what->words.size());
  std::map<std::uint32_t, std::vector<float>> rows;
  for (const Call& call : round) {
    const HotSums& what = *call.what;
    ASSERT_EQ(what.words.size(), words.size());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] += what.words[i];
    for (std::size_t i = 0; i < what.ids.size(); ++i) {
      ASSERT_LT(what.ids[i], what.table.rows);
      if (i != 0) {
        ASSERT_LT(what.ids[i - 1], what.ids[i]);
      }
      auto& row = rows[what.ids[i]];
      row.resize(what.table.width);
      apply(Rule::kSum, 0, row.data(), what.values.data() + i * what.table.width, what.table.width);
    }
  }
  for (const Call& call : round) {
    call.what->words = words;
    for (const auto& [id, row] : rows) {
      call.what->sums.ids.push_back(id);
      call.what->sums.values.insert(call.what->sums.values.end(), row.begin(), row.end());
    }
  }
}

Tables::Tables(int workers, int servers, std::size_t memory, const NodeOptions& options)
    : system(workers, servers, options), box(workers) {
  for (int rank = 0; rank < servers; ++rank)
    servers_.push_back(std::make_unique<TableServer>(system.server(rank), memory));
  system.start();
}

void Tables::kill_server(int rank) {
  system.server(rank).finalize(false);
  servers_[static_cast<std::size_t>(rank)].reset();
  system.forget_server(rank);
}

std::vector<float> Tables::rows(int rank, const std::vector<Key>& keys, TableOptions options) {
  options.most_hot = 0;
  std::vector<float> rows(keys.size() * options.width);
  table(rank, options)->pull(keys, rows);
  return rows;
}

void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

namespace {
constexpr std::uint64_t kPushedKeys = 60;
Key pushed_key(std::uint64_t number) { return kMaxKey / kPushedKeys * (number % kPushedKeys); }
}  // namespace

int UnevenPushes::push(TableCalls& table, int rank) {
  const bool is_slow = rank == 2;
  const int all = is_slow ? 40 : 150 + 10 * rank;
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  for (int pushes = 0; pushes < all; ++pushes) {
    if (is_slow && pushes == 20) wait_until([&] { return by_the_others_ >= 200; });
    if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    push_once(table, random, pushes);
    if (!is_slow) ++by_the_others_;
  }
  ++through_;
  wait_until([&] { return through_ == kWorkers; });
  return all;
}

void UnevenPushes::push_once(TableCalls& table, std::mt19937_64& random, int pushes) {
  std::set<Key> drawn;
  for (std::uint64_t n = random() % 24; n != 0; --n) {
    std::uint64_t number = random() % kPushedKeys;
    for (int again = 0; again < 3; ++again) number = std::min(number, random() % kPushedKeys);
    drawn.insert(pushed_key(number + static_cast<std::uint64_t>(pushes) / 12));
  }
  const std::vector<Key> keys(drawn.begin(), drawn.end());
  std::vector<float> gradients;
  for (std::size_t i = 0; i < keys.size(); ++i) gradients.push_back(static_cast<float>(random() % 9) - 4);
  table.push(keys, gradients);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < keys.size(); ++i) rows_[keys[i]] += gradients[i];
}

std::vector<Key> UnevenPushes::keys() {
  std::vector<Key> all;
  for (std::uint64_t number = 0; number < kPushedKeys; ++number) all.push_back(pushed_key(number));
  return all;
}

std::vector<float> UnevenPushes::rows() {
  const std::lock_guard lock(mutex_);
  std::vector<float> rows;
  for (const Key key : keys()) rows.push_back(rows_[key]);
  return rows;
}

}  // namespace tally::kv

#pragma once
// A table at its server, message by message.

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kv/table_state.h"

namespace tally::kv {

// Two workers, rows of one value. What is answered is kept by the number of its message, in order of the answers.
class KvTableState : public testing::Test {
 protected:
  struct Answered {
    int message = 0;
    std::vector<float> rows{};
    std::string failure{};
    std::uint64_t round = 0;
  };

  // Of the worker's present life, unless it says of which: another one begins when a close is answered or it leaves.
  int say(int rank, TableMessage message) {
    std::uint64_t& life = lives_.at(static_cast<std::size_t>(rank));
    if (message.life == 0) message.life = life;
    if (message.life == life && message.act == TableAct::kLeave) ++life;
    if (message.act == TableAct::kClose) closes_[next_] = rank;
    message.terms = terms_;
    message.rounds += before_;
    // As it comes from the wire.
    const SArray<std::byte> bytes = encode(message);
    KVMeta from;
    from.sender = 9 + 2 * rank;
    from.timestamp = next_;
    std::vector<TableAnswer> answers;
    state_->take(from, decode_table_message(bytes), answers);
    keep(answers);
    return next_++;
  }
  void lose(int rank) {
    std::vector<TableAnswer> answers;
    state_->lose(rank, answers);
    keep(answers);
  }
  void keep(std::vector<TableAnswer>& answers) {
    for (TableAnswer& one : answers) {
      const auto close = closes_.find(one.to.timestamp);
      if (close != closes_.end() && !one.failure) ++lives_.at(static_cast<std::size_t>(close->second));
      answered_.push_back({one.to.timestamp, std::move(one.rows),
                           one.failure ? one.failure->what() : std::string(), one.round});
    }
  }
  void pass_time(TimeNs now) {
    std::vector<TableAnswer> answers;
    state_->pass_time(now, answers);
    keep(answers);
  }
  int pull(int rank, std::uint64_t rounds, const std::vector<Key>& keys) {
    return say(rank, {.act = TableAct::kPull, .rounds = rounds, .keys = keys});
  }
  int push(int rank, std::uint64_t rounds, const std::vector<Key>& keys, const std::vector<float>& rows) {
    return say(rank, {.act = TableAct::kPush, .rounds = rounds, .set = set_, .keys = keys, .rows = rows});
  }
  // Rounds of both, which those of the test come behind in the same session: a set more in each.
  void have_sets_up_to(std::uint32_t last) {
    for (set_ = 1; set_ <= last; ++set_, ++before_) {
      push(0, 0, {}, {});
      push(1, 0, {}, {});
    }
    --set_;
  }
  int fetch(int rank, std::uint64_t rounds, std::uint32_t set, const std::vector<Key>& keys) {
    return say(rank, {.act = TableAct::kFetch, .rounds = rounds, .set = set, .keys = keys});
  }
  int bring(int rank, std::uint64_t rounds, std::uint32_t set, const std::vector<Key>& keys,
            const std::vector<float>& rows) {
    return say(rank, {.act = TableAct::kBring, .rounds = rounds, .set = set, .keys = keys, .rows = rows});
  }
  int close(int rank, std::uint64_t rounds) { return say(rank, {.act = TableAct::kClose, .rounds = rounds}); }
  int leave(int rank, std::uint32_t set) {
    return say(rank, {.act = TableAct::kLeave, .set = set, .text = "tired"});
  }

  [[nodiscard]] const Answered* answer_to(int message) const {
    for (const Answered& one : answered_) {
      if (one.message == message) return &one;
    }
    return nullptr;
  }
  [[nodiscard]] bool waits(int message) const { return answer_to(message) == nullptr; }
  [[nodiscard]] std::vector<float> rows_of(int message) const {
    const Answered* const answer = answer_to(message);
    EXPECT_NE(answer, nullptr);
    if (answer == nullptr) return {};
    EXPECT_EQ(answer->failure, "");
    return answer->rows;
  }
  [[nodiscard]] std::string failure_of(int message) const {
    const Answered* const answer = answer_to(message);
    return answer == nullptr ? "no answer" : answer->failure;
  }
  static std::size_t bytes_of_push(std::size_t keys) { return 64 + keys * (sizeof(Key) + sizeof(float)); }
  // A round in which both push what is given to `key`.
  void round(std::uint64_t rounds, const std::vector<Key>& keys, float value) {
    const std::vector<float> rows(keys.size(), value);
    push(0, rounds, keys, rows);
    const int last = push(1, rounds, keys, rows);
    EXPECT_EQ(failure_of(last), "");
  }

  TableTerms terms_{.width = 1, .rule = Rule::kSum, .rate = 0, .most_hot = 8, .every = 16};
  std::optional<TableState> state_{std::in_place, 7, 2};
  std::array<std::uint64_t, 3> lives_{1, 1, 1};
  std::map<int, int> closes_;  // worker, by message
  std::uint64_t before_ = 0;
  std::uint32_t set_ = 0;  // of pushes
  std::vector<Answered> answered_;
  int next_ = 0;
};

}  // namespace tally::kv

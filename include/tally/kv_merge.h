#pragma once
// Pushes of all workers made one: a server that counts on every worker's gradient waits for them here. One thread.

#include <cstdint>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tally/kv_core.h"

namespace tally::kv {

template <class Val>
struct KVPairs {
  SArray<Key> keys{};
  SArray<Val> vals{};
  SArray<int> lens{};  // values of each key; empty: all have as many
  int priority = 0;    // larger ones leave earlier, but never before another request of the same keys
};

// Requests merge when cmd, keys, lens, push and pull are equal. A worker that pushes again before the others did begins
// the next round: a round has each worker once.
template <class Val>
class MergeRounds {
 public:
  struct Round {
    KVMeta meta;
    KVPairs<Val> data;
  };

  // Throws a Failure if all rounds together may not hold so many bytes until the others come.
  using CheckRoom = std::function<void(std::size_t bytes)>;

  explicit MergeRounds(int workers, CheckRoom check_room = {})
      : workers_(workers), check_room_(std::move(check_room)) {}

  // The round that is complete by this request, if one is. Throws a Failure, and forgets the request, when its values
  // are not as many as those it would be added to, and when it would begin a round that a lost worker never joins; and
  // when there is no room for the round, which fails for all then, for those who come later, too.
  [[nodiscard]] std::vector<Round> add(const KVMeta& meta, const KVPairs<Val>& data) {
    const Signature signature{meta.cmd, meta.push, meta.pull, to_vector(data.keys), to_vector(data.lens)};
    std::deque<Open>& rounds = open_[signature];
    const int rank = meta.rank();
    auto round = rounds.begin();
    while (round != rounds.end() && round->has(rank)) ++round;
    if (round == rounds.end()) {
      if (!lost_.empty()) {
        if (rounds.empty()) open_.erase(signature);
        throw Failure(ErrorCode::kAborted, lacks(*lost_.begin()));
      }
      rounds.emplace_back();
      round = rounds.end() - 1;
      begin(*round, data);
    } else if (!round->failure) {
      if (round->sum.vals.size() != data.vals.size())
        throw Failure(ErrorCode::kInvalidArgument,
                      "worker " + std::to_string(rank) + " pushes " + std::to_string(data.vals.size()) +
                          " values for keys of which worker " + std::to_string(round->parts.front().rank()) +
                          " pushed " + std::to_string(round->sum.vals.size()));
      for (std::size_t i = 0; i < data.vals.size(); ++i)
        round->sum.vals[i] = static_cast<Val>(round->sum.vals[i] + data.vals[i]);
    }
    round->parts.push_back(meta);
    const auto failure = round->failure;
    std::vector<Round> complete;
    if (static_cast<int>(round->parts.size()) == workers_) {
      // Rounds of one signature become complete in their order: a worker is in an earlier one before a later one.
      bytes_ -= round->bytes;
      if (!failure) complete.push_back({merged(std::move(round->parts)), std::move(round->sum)});
      rounds.erase(round);
      if (rounds.empty()) open_.erase(signature);
    }
    if (failure) throw Failure(*failure);
    return complete;
  }

  // That wait for others'.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  // Worker `rank` is lost. Rounds that it is missing in never become complete: whom to tell.
  [[nodiscard]] std::vector<KVMeta> take_hopeless(int rank) {
    lost_.insert(rank);
    std::vector<KVMeta> waiting;
    for (auto at = open_.begin(); at != open_.end();) {
      std::deque<Open>& rounds = at->second;
      for (auto round = rounds.begin(); round != rounds.end();) {
        if (round->has(rank)) {
          ++round;
          continue;
        }
        if (!round->failure) waiting.insert(waiting.end(), round->parts.begin(), round->parts.end());
        bytes_ -= round->bytes;
        round = rounds.erase(round);
      }
      at = rounds.empty() ? open_.erase(at) : std::next(at);
    }
    return waiting;
  }

  [[nodiscard]] static std::string lacks(int rank) {
    return "worker " + std::to_string(rank) + " is lost, and had not pushed yet";
  }

 private:
  using Signature = std::tuple<int, bool, bool, std::vector<Key>, std::vector<int>>;
  struct Open {
    KVPairs<Val> sum{};
    std::vector<KVMeta> parts{};
    std::size_t bytes = 0;
    std::optional<Failure> failure{};  // it has no values: who comes is told, and the last one ends it
    [[nodiscard]] bool has(int rank) const noexcept {
      for (const KVMeta& part : parts) {
        if (part.rank() == rank) return true;
      }
      return false;
    }
  };

  template <class T>
  [[nodiscard]] static std::vector<T> to_vector(const SArray<T>& array) {
    return {array.begin(), array.end()};
  }

  // The first request's memory, which its keys hold, a copy of its values, and the keys and lens that others are told by.
  // Only a round's first request takes memory, so nobody has waited in one that there is no room for.
  void begin(Open& round, const KVPairs<Val>& data) {
    const std::size_t names = data.keys.size() * sizeof(Key) + data.lens.size() * sizeof(int);
    const std::size_t values = data.vals.size() * sizeof(Val);
    round.bytes = names;
    try {
      if (check_room_) check_room_(bytes_ + 2 * (names + values));
      round.bytes = 2 * (names + values);
      round.sum = data;
      round.sum.vals = SArray<Val>();
      round.sum.vals.CopyFrom(data.vals);
    } catch (const Failure& failure) {
      round.failure = failure;
    }
    bytes_ += round.bytes;
  }

  [[nodiscard]] KVMeta merged(std::vector<KVMeta> parts) const {
    KVMeta meta = parts.front();
    meta.num_merge = static_cast<int>(parts.size());
    meta.contributors.assign(static_cast<std::size_t>(workers_ + 63) / 64, 0);
    for (const KVMeta& part : parts) {
      const auto rank = static_cast<unsigned>(part.rank());
      meta.contributors[rank / 64] |= std::uint64_t{1} << (rank % 64);
    }
    meta.merged = std::make_shared<const std::vector<KVMeta>>(std::move(parts));
    return meta;
  }

  int workers_;
  CheckRoom check_room_;
  std::size_t bytes_ = 0;
  std::map<Signature, std::deque<Open>> open_{};
  std::set<int> lost_{};
};

}  // namespace tally::kv

#pragma once
// Every state that a model can reach, breadth first, so that the way to a violation is the shortest one; and
// whether its goal stays within reach over *fair* steps. What an adversary does (losing, delaying, replaying,
// restarting) is explored, but nothing is proved by its help.
//
// A model has State (trivially copyable, without padding), init(), successors(state, emit) with
// emit(next, step), broken(state) (nullptr: all is well) and reached(state).

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tally::models {

using Bits = std::uint8_t;  // a set of up to 8, of ranks or chunks

constexpr Bits bit(int i) { return static_cast<Bits>(1U << i); }
constexpr Bits all(int n) { return static_cast<Bits>((1U << n) - 1); }
constexpr bool has(Bits bits, int i) { return (bits >> i & 1U) != 0; }

struct Step {
  const char* what = "";
  int rank = -1;
  int chunk = -1;
  bool fair = true;
};

struct Findings {
  std::size_t states = 0;
  bool all_seen = false;     // not stopped by the limit
  std::string violation;     // what is broken, and the way there; empty: nothing
  std::size_t stuck = 0;     // states from which the goal is out of reach
  std::string way_to_stuck;  // to the nearest of them
};

template <class Model>
class Explorer {
 public:
  using State = typename Model::State;
  static_assert(std::is_trivially_copyable_v<State> && std::has_unique_object_representations_v<State>);

  explicit Explorer(const Model& model) : model_(model), known_(0, Hash{this}, Same{this}) {}

  // most: states after which it gives up.
  Findings run(std::size_t most) {
    Findings found;
    add(model_.init(), 0);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> fair;
    for (std::uint32_t at = 0; at < states_.size(); ++at) {
      const State state = states_[at];
      if (const char* const why = model_.broken(state); why != nullptr) {
        found.states = states_.size();
        found.violation = std::string(why) + way_to(at);
        return found;
      }
      if (states_.size() > most) break;
      model_.successors(state, [&](const State& next, const Step& step) {
        const std::uint32_t to = add(next, at);
        if (step.fair && to != at) fair.emplace_back(to, at);
      });
      found.all_seen = at + 1 == states_.size();
    }
    found.states = states_.size();
    if (found.all_seen) look_for_stuck(fair, found);
    return found;
  }

 private:
  struct Hash {
    const Explorer* explorer;
    std::size_t operator()(std::uint32_t at) const noexcept {
      const auto* const bytes = reinterpret_cast<const char*>(&explorer->states_[at]);
      return std::hash<std::string_view>{}({bytes, sizeof(State)});
    }
  };
  struct Same {
    const Explorer* explorer;
    bool operator()(std::uint32_t a, std::uint32_t b) const noexcept {
      return std::memcmp(&explorer->states_[a], &explorer->states_[b], sizeof(State)) == 0;
    }
  };

  std::uint32_t add(const State& state, std::uint32_t from) {
    states_.push_back(state);
    const auto [at, is_new] = known_.insert(static_cast<std::uint32_t>(states_.size() - 1));
    if (is_new) {
      from_.push_back(from);
    } else {
      states_.pop_back();
    }
    return *at;
  }

  // Backward from the goal, over the fair steps.
  void look_for_stuck(std::vector<std::pair<std::uint32_t, std::uint32_t>>& fair, Findings& found) const {
    std::vector<std::uint64_t> first(states_.size() + 1);
    for (const auto& [to, from] : fair) ++first[to + 1];
    for (std::size_t i = 0; i < states_.size(); ++i) first[i + 1] += first[i];
    std::vector<std::uint32_t> before(fair.size());
    auto next = first;
    for (const auto& [to, from] : fair) before[next[to]++] = from;
    std::vector<std::uint32_t> todo;
    std::vector<bool> live(states_.size());
    for (std::uint32_t at = 0; at < states_.size(); ++at) {
      if (!model_.reached(states_[at])) continue;
      live[at] = true;
      todo.push_back(at);
    }
    while (!todo.empty()) {
      const std::uint32_t at = todo.back();
      todo.pop_back();
      for (std::uint64_t edge = first[at]; edge < first[at + 1]; ++edge) {
        if (live[before[edge]]) continue;
        live[before[edge]] = true;
        todo.push_back(before[edge]);
      }
    }
    for (std::uint32_t at = 0; at < states_.size(); ++at) {
      if (live[at]) continue;
      if (found.stuck++ == 0) found.way_to_stuck = way_to(at);
    }
  }

  std::string way_to(std::uint32_t at) const {
    std::vector<std::uint32_t> path;
    for (; at != 0; at = from_[at]) path.push_back(at);
    std::string text;
    std::uint32_t here = 0;
    while (!path.empty()) {
      std::string line;
      model_.successors(states_[here], [&](const State& next, const Step& step) {
        if (!line.empty() || std::memcmp(&next, &states_[path.back()], sizeof(State)) != 0) return;
        line = std::string("\n  ") + step.what;
        if (step.rank >= 0) line += ", rank " + std::to_string(step.rank);
        if (step.chunk >= 0) line += ", chunk " + std::to_string(step.chunk);
      });
      text += line;
      here = path.back();
      path.pop_back();
    }
    return text;
  }

  const Model& model_;
  std::vector<State> states_;
  std::vector<std::uint32_t> from_;
  std::unordered_set<std::uint32_t, Hash, Same> known_;
};

// For tests: every state, or the way to what is broken.
template <class Model>
Findings explore(const Model& model) {
  constexpr std::size_t kMost = 20'000'000;
  Findings found = Explorer<Model>(model).run(kMost);
  std::printf("%zu states\n", found.states);
  EXPECT_TRUE(found.all_seen || !found.violation.empty()) << "more states than the limit";
  return found;
}
inline void expect_live(const Findings& found) {
  EXPECT_EQ(found.violation, "");
  EXPECT_EQ(found.stuck, 0U) << found.way_to_stuck;
}

}  // namespace tally::models

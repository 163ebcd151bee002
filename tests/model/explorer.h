#pragma once
// Every state that a model can reach, breadth first. A model has a State (bytes without holes, compared as
// such) and
//   State begin() const;
//   void each(const State&, visit) const;   visit(State after, bool fair) for everything that can happen next
//   const char* wrong(const State&) const;  nullptr: it may be
//   bool done(const State&) const;
// What is fair happens again and again as long as it can; the rest is luck, an adversary's. `stuck` are
// states from which no fair steps lead to one that is done: who is there waits for ever.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace tally::model {

struct Explored {
  std::size_t states = 0;
  const char* wrong = nullptr;  // of the first wrong state that was found
  std::size_t stuck = 0;
};

template <class Model>
class Explorer {
 public:
  using State = typename Model::State;
  static_assert(std::has_unique_object_representations_v<State>);

  explicit Explorer(const Model& model) : model_(model) {}

  // Until there are no others, or one is wrong.
  Explored run() {
    number_of(model_.begin());
    for (std::size_t at = 0; at < states_.size(); ++at) {
      const State state = *states_[at];
      if (const char* const wrong = model_.wrong(state)) return {states_.size(), wrong, 0};
      model_.each(state, [&](const State& after, bool fair) {
        const std::uint32_t to = number_of(after);
        if (fair && to != at) fair_.push_back({static_cast<std::uint32_t>(at), to});
      });
    }
    return {states_.size(), nullptr, stuck()};
  }

 private:
  struct Step {
    std::uint32_t from, to;
  };
  struct Hash {
    std::size_t operator()(const State& state) const noexcept {
      return std::hash<std::string_view>{}({reinterpret_cast<const char*>(&state), sizeof state});
    }
  };
  struct Same {
    bool operator()(const State& a, const State& b) const noexcept {
      return std::memcmp(&a, &b, sizeof a) == 0;
    }
  };

  std::uint32_t number_of(const State& state) {
    const auto [row, is_new] = numbers_.emplace(state, static_cast<std::uint32_t>(states_.size()));
    if (is_new) states_.push_back(&row->first);
    return row->second;
  }
  // Backwards from what is done: steps by where they lead to.
  [[nodiscard]] std::size_t stuck() const {
    std::vector<std::uint32_t> first(states_.size() + 1), from(fair_.size());
    for (const Step& step : fair_) ++first[step.to + 1];
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
    for (const Step& step : fair_) from[next[step.to]++] = step.from;
    std::vector<std::uint32_t> reached;
    std::vector<bool> good(states_.size());
    const auto reach = [&](std::uint32_t state) {
      if (!good[state]) reached.push_back(state);
      good[state] = true;
    };
    for (std::uint32_t i = 0; i < states_.size(); ++i)
      if (model_.done(*states_[i])) reach(i);
    for (std::size_t i = 0; i < reached.size(); ++i)
      for (std::uint32_t k = first[reached[i]]; k < first[reached[i] + 1]; ++k) reach(from[k]);
    return states_.size() - reached.size();
  }

  const Model& model_;
  std::unordered_map<State, std::uint32_t, Hash, Same> numbers_;
  std::vector<const State*> states_;
  std::vector<Step> fair_;
};

}  // namespace tally::model

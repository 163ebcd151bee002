#include "hot/hot_set.h"

#include <string>
#include <utility>

#include "tally/check.h"
#include "tally/ids.h"
#include "tally/mix64.h"

namespace tally::hot {
namespace {

Change change_of(const KeySet& before, const KeySet& after) {
  Change change;
  for (std::uint32_t id = 0; id < after.size(); ++id) {
    const Key key = after.keys()[id];
    const auto old = before.id_of(key);
    if (!old) {
      change.came.push_back(key);
    } else if (*old != id) {
      change.moved.push_back({key, *old, id});
    }
  }
  for (const Key key : before.keys())
    if (!after.has(key)) change.left.push_back(key);
  return change;
}

}  // namespace

Result<HotSet> HotSet::create(const HotOptions& options) {
  const std::uint32_t world = options.seat.world;
  if (world == 0 || world > kMaxRanks || options.seat.rank >= world)
    return fail(ErrorCode::kInvalidArgument, "hot keys: rank " + std::to_string(options.seat.rank) + " of " +
                                                 std::to_string(world) + " workers; there may be 1 to 64");
  if (options.every < 16 || options.lead == 0 || options.lead > options.every / 8)
    return fail(ErrorCode::kInvalidArgument, "hot keys: " + std::to_string(options.every) +
                                                 " rounds between agreements, at least 16, and a lead of " +
                                                 std::to_string(options.lead) +
                                                 ", which may be 1 to an eighth of them");
  return HotSet(options);
}

HotSet::HotSet(const HotOptions& options)
    : options_(options),
      sketch_(options.counters != 0 ? options.counters : std::size_t{4} * options.seat.limits.most,
              mix64(options.seat.rank + 1)),
      set_(std::make_shared<const KeySet>()) {}

void HotSet::count(std::span<const Key> batch) {
  sketch_.grow(options_.counters_of_key * batch.size());
  sketch_.add(batch);
}

bool HotSet::agreement_is_due() const noexcept {
  const std::uint64_t rounds = round_ - first_ + 1;
  const std::uint64_t every = options_.every;
  return step_ == Step::kNone &&
         (rounds % every == 0 || rounds == every / 8 || rounds == every / 4 || rounds == every / 2);
}

std::vector<std::int32_t> HotSet::names() {
  TALLY_CHECK(agreement_is_due(), "an agreement is begun in its round, once");
  step_ = Step::kNames;
  from_ = round_ + options_.lead;
  phase_ = Phase::kProposed;
  return hot::names(options_.seat, *set_, sketch_);
}

Result<std::vector<std::int32_t>> HotSet::take_names(std::span<const std::int32_t> sum) {
  TALLY_CHECK(step_ == Step::kNames, "names were given");
  auto candidates = hot::candidates(options_.seat, *set_, sum);
  if (!candidates) return tl::unexpected(candidates.error());
  candidates_ = std::move(*candidates);
  step_ = Step::kWeights;
  return weights(*set_, candidates_, sketch_);
}

Result<void> HotSet::take_weights(std::span<const std::int32_t> sum) {
  TALLY_CHECK(step_ == Step::kWeights, "weights were given");
  auto next = next_set(options_.seat, *set_, candidates_, sum);
  if (!next) return tl::unexpected(next.error());
  next_ = std::make_shared<const KeySet>(std::move(*next));
  step_ = Step::kKnown;
  candidates_ = {};
  if ((from_ - options_.lead - first_ + 1) % options_.every == 0) sketch_.age();
  return {};
}

void HotSet::end_round() noexcept { ended_ = true; }

bool HotSet::may_begin() const noexcept {
  return ended_ && !agreement_is_due() && !(comes_now() && step_ != Step::kKnown);
}

Result<std::optional<Change>> HotSet::begin_round() {
  if (!may_begin()) {
    const std::string round = "round " + std::to_string(round_ + 1) + " of hot keys cannot begin: ";
    return fail(ErrorCode::kInvalidArgument,
                round + (!ended_              ? "the one before has not ended"
                         : agreement_is_due() ? "the agreement of the one before was not begun"
                                              : "its set is still being agreed about"));
  }
  TALLY_CHECK(phase_ != Phase::kAdopted, "a round that ended had its rows");
  const bool changes = comes_now();
  ++round_;
  ended_ = false;
  if (!changes) return std::optional<Change>{};
  Change change = change_of(*set_, *next_);
  last_ = std::exchange(set_, std::exchange(next_, nullptr));
  step_ = Step::kNone;
  phase_ = Phase::kAdopted;
  return std::optional<Change>{std::move(change)};
}

void HotSet::rows_are_here() noexcept {
  if (phase_ != Phase::kAdopted) return;
  last_ = nullptr;
  phase_ = Phase::kStable;
}

Leftover HotSet::leftover() const {
  const KeySet& held = phase_ == Phase::kAdopted ? *last_ : *set_;
  return {.rounds = round_ + (ended_ ? 1 : 0),
          .bring = {held.keys().begin(), held.keys().end()},
          .set = held.number()};
}

void HotSet::begin_generation(std::uint64_t round) noexcept {
  set_ = std::make_shared<const KeySet>();
  next_ = nullptr;
  last_ = nullptr;
  candidates_ = {};
  phase_ = Phase::kStable;
  step_ = Step::kNone;
  round_ = round;
  first_ = round;
  ended_ = false;
}

}  // namespace tally::hot
